"""A race: prefill, then lanes that share the weights and take turns, each under a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from lvspec_core import graph_plan
from lvspec_core.decoding import METHODS, Outcome
from lvspec_core.details import round_details
from lvspec_core.evidence import gather
from lvspec_core.metrics import LaneTally, lane_end
from lvspec_core.own_texts import calibrate_first
from lvspec_core.pairs import Pair
from lvspec_core.pieces import Pieces, Spelling
from lvspec_core.prefill import Prefilling, sentence_for
from lvspec_core.proposals import round_shapes, sampling_of
from lvspec_core.records import End, Preparing, Record, Round, Start, Token
from lvspec_core.relevance import Annotator
from lvspec_core.settings import RaceSettings
from lvspec_core.ties import judged
from lvspec_core.video import VideoClip, describe, thumbnails

FLUSH_SECONDS = 0.04  # rounds are annotated and handed out in batches of at most this age


def prepare_and_race(
    pair: Pair, clip: VideoClip, settings: RaceSettings, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Preparing | Record]:
    """:func:`run_race`; where LVSpec takes part and its pair was never calibrated, that is done first, on this clip."""
    settings = settings.validated()
    pair.require(settings, clip)
    if any(METHODS[method].loose for method in settings.methods) and pair.uncalibrated:
        yield from calibrate_first(pair, clip, settings, should_stop)
    yield from run_race(pair, clip, settings, should_stop)


def run_race(pair: Pair, clip: VideoClip, settings: RaceSettings, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Record]:
    """Races the settings' methods over one clip; yields records as they happen, from Start to End.

    ``should_stop`` is asked before every part of the prefill and every round; what was generated so far is kept and summed
    up. Closing the iterator frees all caches. Raises a UserError if the race cannot take place; a lane that fails on its own
    ends with a sentence while the others go on.
    """
    settings = settings.validated()
    pair.require(settings, clip)
    began = time.perf_counter()
    yield start_of(pair, clip, settings)
    pair.warm(round_shapes(settings))
    tallies = {name: LaneTally(name, same_distribution=same_distribution(pair, settings, name)) for name in settings.methods}
    prefilling = Prefilling(pair, clip, settings)
    for record in prefilling.run(should_stop):
        for name in record.lanes:
            tallies[name].prefill_seconds += record.seconds
        yield record
    for name, sentence in prefilling.failures.items():
        tallies[name].finish, tallies[name].error = "failed", sentence

    scribe = Scribe(pair, settings, prefilling.annotators)
    lanes = prefilling.lanes
    stopped = False
    waiting: list[tuple[str, Outcome]] = []
    flushed = time.perf_counter()
    while lanes and not stopped:
        stopped = should_stop()
        if not stopped:
            # Least own time first: at any moment all lanes have raced for equally long, whatever the others cost.
            name = min(lanes, key=lambda lane: lanes[lane].seconds)
            try:
                waiting.append((name, lanes[name].round()))
            except Exception as error:
                tallies[name].finish, tallies[name].error = "failed", sentence_for(error)
            else:
                tallies[name].finish = lanes[name].finish or "stopped"
            if tallies[name].finish != "stopped":
                del lanes[name]
        if stopped or not lanes or time.perf_counter() - flushed >= FLUSH_SECONDS:
            for record in scribe.write(waiting):
                tallies[record.lane].add(record)
                yield record
            waiting = []
            flushed = time.perf_counter()
    wall = time.perf_counter() - began
    for name in settings.methods:
        end = lane_end(tallies[name], tallies.get("ar"))
        if end.same_as_ar is False and is_lossless(pair, settings, name):
            end = judged(end, tallies["ar"].token_ids, lambda: prefilling.target_before("ar"), prefilling.last)
        yield end
    if settings.details and prefilling.prompt and not stopped:
        texts = {name: tally.token_ids for name, tally in tallies.items() if tally.finished}
        yield from gather(pair, prefilling.prompt.grid, prefilling.last, texts, prefilling.target_before, should_stop)
    unfinished = any(tally.finish == "stopped" for tally in tallies.values())
    yield End("stopped" if unfinished else "finished", wall)


def start_of(pair: Pair, clip: VideoClip, settings: RaceSettings) -> Start:
    """The record that a race begins with."""
    threshold = pair.calibration.threshold_for(settings.anchor_quantile) if pair.calibration else None
    return Start(
        pair.describe(),
        describe(clip),
        settings.to_dict(),
        environment(pair),
        threshold=threshold if threshold is not None and threshold <= 1 else None,
        thumbnails=thumbnails(clip) if settings.details else (),
    )


def same_distribution(pair: Pair, settings: RaceSettings, method: str) -> bool | None:
    """True where a lane samples and verifies strictly, so that its text is distributed as AR's; None where nothing is claimed."""
    return True if settings.temperature > 0 and is_strict(pair, method) else None


def is_strict(pair: Pair, method: str) -> bool:
    """Whether a lane accepts only what the target chooses: LVSpec does too where its pair could not be calibrated."""
    return not METHODS[method].loose or pair.calibration is None


def is_lossless(pair: Pair, settings: RaceSettings, method: str) -> bool:
    """Whether a lane's text must be AR's, token by token, but for rounding."""
    return is_strict(pair, method) and settings.temperature == 0


class Scribe:
    """Turns rounds into records: spells their tokens and scores those whose relevance the round did not know."""

    def __init__(self, pair: Pair, settings: RaceSettings, annotators: dict[str, Annotator]):
        self.annotators = annotators
        calibration = pair.calibration
        self.threshold = calibration.threshold_for(settings.anchor_quantile) if calibration else None
        self.pieces = {name: Pieces(pair.target.tokenizer) for name in settings.methods}
        self.spelling = Spelling(pair.target.tokenizer)
        self.sampling = sampling_of(settings)

    def write(self, rounds: list[tuple[str, Outcome]]) -> list[Round]:
        """Records of the rounds, in order; each lane's new tokens are scored in one pass."""
        scores = {name: iter(self._scores(name, [o for lane, o in rounds if lane == name])) for name in {lane for lane, _ in rounds}}
        return [self._record(name, outcome, scores[name]) for name, outcome in rounds]

    def _scores(self, name: str, outcomes: list[Outcome]) -> list[float | None]:
        ids = [token.id for outcome in outcomes for token in outcome.tokens]
        annotator = self.annotators.get(name)
        if annotator is None:
            return [None] * len(ids)
        return annotator.score(ids)

    def _record(self, name: str, outcome: Outcome, scores: Iterator[float | None]) -> Round:
        tokens = []
        for token in outcome.tokens:
            later = next(scores)
            share = later if token.relevance is None else token.relevance
            anchor = None if share is None else share >= self.threshold
            relevance = None if share is None else round(min(1.0, share), 4)
            tokens.append(Token(token.id, self.pieces[name].add(token.id), token.verdict, relevance, anchor))
        details = round_details(outcome.seen, self.sampling, self.spelling.of) if outcome.seen else {}
        return Round(
            **details,
            lane=name,
            index=outcome.index,
            seconds=outcome.seconds,
            draft_seconds=outcome.draft_seconds,
            verify_seconds=outcome.verify_seconds,
            proposed=tuple((token, self.spelling.of(token)) for token in outcome.proposed),
            accepted=outcome.accepted,
            tokens=tuple(tokens),
            parents=outcome.parents,
        )


def environment(pair: Pair) -> dict:
    """What a reader of a race file must know to judge its seconds."""
    import platform

    import transformers

    device = pair.target.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": device.type,
        "device_name": name,
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        # only where they were asked for; which of them pay is known after the prefill, and the log tells it
        **({"cuda_graphs": True} if graph_plan.wanted() and device.type == "cuda" else {}),
    }
