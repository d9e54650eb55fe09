"""A sample of an evaluation is a race like any other: the same code, clock and figures as the page's, then scored."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lvspec_core.decoding import METHODS
from lvspec_core.errors import UserError
from lvspec_core.evaluation.results import Result, failed_result, sample_result
from lvspec_core.evaluation.samples import Sample, open_clip
from lvspec_core.fidelity import Fidelity, anchors_kept, edit_distance, fidelity
from lvspec_core.own_texts import calibrate_first
from lvspec_core.pairs import Pair
from lvspec_core.prefill import open_lane, sentence_for
from lvspec_core.race import run_race
from lvspec_core.race_files import save_race
from lvspec_core.records import LaneEnd, Record, Round, Start, Token
from lvspec_core.settings import RaceSettings
from lvspec_core.shapes.captions import QUESTIONS, SHORT_QUESTION
from lvspec_core.video import VideoClip

RACES = "races"
WARM_UP_TOKENS = 8
log = logging.getLogger(__name__)


class Evaluator:
    """Races samples one after another. ``about``: what every record says of the run; ``races``: the folder that keeps the races, None
    where they are not kept; ``likelihood``: whether texts that differ from AR's are read by the target again (fidelity).

    What happens once in a process (first use of a library, of a device) is paid for by a short race that is not counted."""

    def __init__(self, pair: Pair, settings: RaceSettings, about: dict, races: Path | None = None, likelihood: bool = True) -> None:
        self.pair, self.settings, self.about = pair, settings, about
        self.races, self.likelihood = races, likelihood
        self._warm = False

    def results(self, sample: Sample) -> list[Result]:
        """One record for each method; where the sample cannot be raced, each says why in one sentence. Nothing is raised but by Ctrl-C."""
        try:
            return self._raced(sample)
        except Exception as error:
            sentence = str(error) if isinstance(error, UserError) else sentence_for(error)
            return [failed_result(sample, method, sentence, self.about) for method in self.settings.methods]

    def _raced(self, sample: Sample) -> list[Result]:
        settings = replace(self.settings, question=sample.prompt).validated()
        clip, scene = open_clip(sample, settings.frames)
        if not self._warm:
            warm_up(self.pair, clip, settings)
            self._warm = True
        records = list(run_race(self.pair, clip, settings))
        start, lanes, tokens = parts_of_race(records)
        kept = self._kept(clip, settings, lanes, tokens)
        described = sample.question in (*QUESTIONS, SHORT_QUESTION)
        race = self._save(sample, records) if self.races else None
        return [
            sample_result(sample, lanes[name], start.video, self.about, scene if described else None, kept.get(name), race)
            for name in settings.methods
        ]

    def _kept(self, clip: VideoClip, settings: RaceSettings, lanes: dict[str, LaneEnd], tokens: dict[str, list[Token]]) -> dict:
        """What each text keeps of AR's; empty where there is no finished AR lane, or where memory does not suffice to read again."""
        try:
            return fidelities(self.pair, clip, settings, lanes, tokens, self.likelihood)
        except Exception as error:
            log.error("How texts compare with AR's could not be measured.", exc_info=error)
            return {}

    def _save(self, sample: Sample, records: Sequence[Record]) -> str:
        self.races.mkdir(exist_ok=True)
        path = save_race(records, self.races / f"{sample.index:06d}.jsonl")
        return f"{self.races.name}/{path.name}"


def parts_of_race(records: Sequence[Record]) -> tuple[Start, dict[str, LaneEnd], dict[str, list[Token]]]:
    """A race's start, its lanes' summaries and their tokens."""
    lanes = {record.lane: record for record in records if isinstance(record, LaneEnd)}
    tokens: dict[str, list[Token]] = {name: [] for name in lanes}
    for record in records:
        if isinstance(record, Round):
            tokens[record.lane] += record.tokens
    return next(record for record in records if isinstance(record, Start)), lanes, tokens


def fidelities(
    pair: Pair, clip: VideoClip, settings: RaceSettings, lanes: dict[str, LaneEnd], tokens: dict[str, list[Token]], likelihood: bool = True
) -> dict[str, Fidelity]:
    """How each other lane's text compares with AR's. The target reads again only what differs from it; a text that is AR's own has no
    distance, and AR's likelihood if that was measured."""
    reference = lanes.get("ar")
    if reference is None or reference.error or not reference.tokens:
        return {}
    others = [name for name, lane in lanes.items() if name != "ar" and lane.tokens and not lane.error]
    other_texts = [name for name in others if lanes[name].token_ids != reference.token_ids]
    found: dict[str, Fidelity] = {}
    if other_texts and likelihood:
        lane = open_lane(pair, clip, settings, "ar", "AR's text could not be read again")
        found = {name: fidelity(lane.target, lane.pending, tokens["ar"], tokens[name]) for name in other_texts}
    own = next((each.log_likelihood_ar for each in found.values()), None)
    for name in others:
        if name not in found:
            found[name] = without_reading(tokens["ar"], tokens[name], own)
    return found


def without_reading(ar: Sequence[Token], text: Sequence[Token], own: float | None) -> Fidelity:
    """Fidelity as far as it shows without a pass of the target; ``own``: AR's likelihood, which an equal text shares."""
    distance = edit_distance([token.id for token in ar], [token.id for token in text])
    return Fidelity(anchors_kept(ar, text), distance, None if distance else own, own)


def warm_up(pair: Pair, clip: VideoClip, settings: RaceSettings) -> None:
    """A short race whose result nobody sees."""
    tokens = min(WARM_UP_TOKENS, settings.max_new_tokens)
    for _ in run_race(pair, clip, replace(settings, max_new_tokens=tokens, details=False)):
        pass


def calibrate_pair(pair: Pair, samples: Sequence[Sample], settings: RaceSettings) -> None:
    """Where LVSpec takes part and its pair was never calibrated: does that on the first sample that can be read, as a first race does."""
    if not any(METHODS[name].loose for name in settings.methods) or not pair.uncalibrated:
        return
    for sample in samples:
        try:
            clip, _ = open_clip(sample, settings.frames)
        except UserError:
            continue
        for _ in calibrate_first(pair, clip, replace(settings, question=sample.prompt)):
            pass
        return
