"""What is written of an evaluation: one record for a sample and a method, one for a method over all samples.

Both begin with the fields of SpecVLM's own files [code: SpecVLM, inference.py], so that either project's tools read the other's; the
rest is ours. Seconds are a lane's own clock, decoding apart from the prefill, exactly as a race states them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from lvspec_core.evaluation.choices import chosen
from lvspec_core.evaluation.samples import Sample
from lvspec_core.records import LaneEnd
from lvspec_core.settings import METHODS
from lvspec_core.shapes.captions import score_facts
from lvspec_core.shapes.scene import Scene

if TYPE_CHECKING:
    from lvspec_core.fidelity import Fidelity  # imports torch, which a report does without

Result = dict[str, Any]
# a lane's own figures that a record takes over under their names
FIGURES = (
    "finish", "token_ids", "rounds", "acceptance_rate", "prefill_seconds", "tokens_per_second", "speedup_decode", "speedup_total",
    "same_as_ar", "same_distribution", "first_difference", "departure_gap", "near_tie", "verdicts",
)  # fmt: skip
# over samples: field of a sample's record -> what its median over samples is called; with quartiles
MEDIANS = ("speedup_decode", "speedup_total", "acceptance_rate", "anchor_share", "prefill_seconds", "tokens_per_second")
FIDELITY = ("anchors_kept", "edit_distance", "log_likelihood", "log_likelihood_ar")


def sample_result(
    sample: Sample, lane: LaneEnd, video: dict, about: dict, scene: Scene | None, fidelity: Fidelity | None, race: str | None = None
) -> Result:
    """The record of one lane of a sample's race. ``about``: what holds for the whole run (pair, settings, versions, environment);
    ``fidelity``: against AR's text, None for AR and where AR has none; ``race``: the file that keeps the race, from the run's folder on."""
    scored = lane.anchors + lane.fillers
    choice = chosen(lane.text, sample.options) if sample.options else None
    return {
        "sample_index": sample.index,
        "method": lane.lane,
        "decoding_time": lane.decode_seconds,
        "generate_len": lane.tokens,
        "average_accept_length": lane.mean_accepted_length,
        "output": lane.text,
        **{name: getattr(lane, name) for name in FIGURES},
        "anchor_share": lane.anchors / scored if scored else None,
        "fidelity": asdict(fidelity) if fidelity else None,
        "facts": facts_of(lane.text, scene),
        "choice": choice,
        "correct": choice == sample.answer if sample.options and sample.answer else None,
        **asked_of(sample),
        "video": video,
        "race": race,
        "error": lane.error,
        **about,
    }


def failed_result(sample: Sample, method: str, error: str, about: dict) -> Result:
    """The record of a method where the sample could not be raced at all: every figure is null, and ``error`` says why."""
    empty = dict.fromkeys(("decoding_time", "generate_len", "average_accept_length", "output"))
    none = dict.fromkeys((*FIGURES, "anchor_share", "fidelity", "facts", "choice", "correct"))
    asked = asked_of(sample)
    names = {"sample_index": sample.index, "method": method}
    return {**names, **empty, **none, **asked, "video": {"name": sample.name}, "race": None, "error": error, **about}


def asked_of(sample: Sample) -> Result:
    """What the data set says of a sample."""
    return {"name": sample.name, "question": sample.question, "options": list(sample.options), "answer": sample.answer}


def facts_of(text: str, scene: Scene | None) -> dict[str, int] | None:
    """The scene's facts that a text states right, and how many there are; None where nobody knows them."""
    if scene is None:
        return None
    scores = score_facts(text, scene).values()
    return {"right": sum(right for right, _ in scores), "total": sum(total for _, total in scores)}


def method_metrics(results: Iterable[Result]) -> list[Result]:
    """One record for each method that the results hold, in the methods' order: averages as SpecVLM's, then medians and shares.

    A field that no result has, as in files that SpecVLM wrote, is None."""
    by_method: dict[str, list[Result]] = {}
    for result in results:
        by_method.setdefault(result["method"], []).append(result)
    order = [*(name for name in METHODS if name in by_method), *sorted(set(by_method) - set(METHODS))]
    return [_metrics(name, by_method[name]) for name in order]


def _metrics(method: str, results: Sequence[Result]) -> Result:
    good = [result for result in results if not result.get("error") and result.get("generate_len")]
    lengths, seconds = _known(good, "generate_len"), _known(good, "decoding_time")
    mean_length, mean_seconds = (float(np.mean(values)) if values else None for values in (lengths, seconds))
    row: Result = {
        "method": method,
        "avg_generate_len": _rounded(mean_length),
        "avg_decoding_time": _rounded(mean_seconds),
        "avg_tokens_per_second": _rounded(mean_length / mean_seconds) if mean_length and mean_seconds else None,
        "avg_accept_length": _rounded(_mean(_known(good, "average_accept_length"))),
        "samples": len(good),
        "failed": len(results) - len(good),
    }
    for name in MEDIANS:
        values = _known(good, name)
        row[name] = _rounded(float(np.median(values))) if values else None
        row[f"{name}_quartiles"] = [_rounded(float(each)) for each in np.quantile(values, [0.25, 0.75])] if values else None
    row["same_as_ar"] = _rounded(_mean([float(value) for value in _known(good, "same_as_ar")]))
    row["near_ties"] = sum(result.get("near_tie") is True for result in good)
    facts = _known(good, "facts")
    total = sum(each["total"] for each in facts)
    row["facts_right"] = _rounded(sum(each["right"] for each in facts) / total) if total else None
    row["accuracy"] = _rounded(_mean([float(value) for value in _known(good, "correct")]))
    row["fidelity"] = fidelity_medians(_known(good, "fidelity"))
    row["verdicts"] = _shares(_known(good, "verdicts"))
    return row


def fidelity_medians(measured: Sequence[dict]) -> dict[str, float | None] | None:
    """The median of each figure over samples; None where none was measured."""
    if not measured:
        return None
    known = {name: _known(measured, name) for name in FIDELITY}
    return {name: _rounded(float(np.median(values))) if values else None for name, values in known.items()}


def _shares(verdicts: Sequence[dict]) -> dict[str, float] | None:
    """Each verdict's share of all tokens."""
    total = sum(sum(each.values()) for each in verdicts)
    names = dict.fromkeys(name for each in verdicts for name in each)
    return {name: _rounded(sum(each.get(name, 0) for each in verdicts) / total) for name in names} if total else None


def _known(results: Sequence[dict], name: str) -> list:
    return [result[name] for result in results if result.get(name) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
