"""Stands in for the core behind the worker's border: races without a model. The question says how the race goes."""

from __future__ import annotations

import base64
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lvspec_core.errors import PairError, VideoError
from lvspec_core.records import End, Evidence, LaneEnd, Prefill, Record, Round, Start, Token
from lvspec_core.registry import PairInfo
from lvspec_core.settings import RaceSettings

WORDS = " The clip shows two small red circles that move slowly to the left over a dark background .".split()
# lane -> (draft tokens per round, seconds per round)
PACE = {"ar": (0, 0.010), "naive_sd": (2, 0.016), "specvlm": (3, 0.016), "lvspec": (5, 0.016)}
GRID = (1, 4, 4)
FRAMES = 2


@dataclass
class FakeClip:
    name: str
    frames: int


def read(path: str, frames: int) -> FakeClip:
    """A reader that answers, refuses or takes its time, as the file's name says."""
    if "broken" in path:
        raise VideoError(f"{os.path.basename(path)} is not a video.")
    if "long" in path:
        time.sleep(0.5)
    return FakeClip(os.path.basename(path), frames)


def run(clip: FakeClip, settings: RaceSettings, should_stop: Callable[[], bool], pair: PairInfo | None = None) -> Iterator[Record]:
    """A runner: "endless", "ballast", "hang", "kill", "raise", "refuse" or "fast" in the question, else a plain race; "prefill
    until FILE" goes on with the prefill when there is such a file."""
    question = settings.question
    if "refuse" in question:
        raise PairError("The pair cannot be loaded; choose another.")
    start = start_record(clip.name, settings)
    yield replace(start, pair=start.pair | {"title": pair.title, "target": pair.target}) if pair else start
    yield Prefill("vision · target", 0.02, settings.methods, 1, 2)
    if "prefill until " in question:
        held_until(Path(question.rpartition("prefill until ")[2]), should_stop)
    yield Prefill("prompt · target", 0.04, settings.methods, 2, 2)
    if settings.details:
        yield from (sight_record(lane) for lane in settings.methods if lane != "ar")
    if "raise" in question:
        raise ValueError("secret detail")
    if "hang" in question:
        time.sleep(1000)
    if "kill" in question:
        os.kill(os.getpid(), signal.SIGKILL)
    pause = 0.0 if "fast" in question else 0.002
    ballast = bytearray(64 * 2**20) if "ballast" in question else b""
    budget = settings.max_new_tokens if "endless" not in question else 10**9
    lanes = {lane: Lane(lane, budget, settings.details) for lane in settings.methods}
    while any(not lane.finished for lane in lanes.values()) and not should_stop():
        lane = min((lane for lane in lanes.values() if not lane.finished), key=lambda lane: lane.seconds)
        time.sleep(pause)
        yield lane.step()
    del ballast
    for lane in lanes.values():
        yield lane.end(lanes.get("ar"), stopped=should_stop(), drawn=settings.temperature > 0)
    if settings.details and not should_stop():
        yield from (evidence_record(lane) for lane in lanes.values())
    yield End("stopped" if should_stop() else "finished", 1.0)


def held_until(sign: Path, should_stop: Callable[[], bool]) -> None:
    """Waits for the file with which a test says that it has seen what it wanted to see."""
    while not sign.exists() and not should_stop():
        time.sleep(0.02)


def warm(pair: str, settings: object = None) -> None:
    """Leaves a trace, so that a test can see that it was called."""
    trace = os.environ.get("FAKE_WARM_TRACE")
    if trace:
        with open(trace, "a") as file:
            file.write(f"{os.getpid()} {pair}\n")


run.warm = warm


def start_record(name: str, settings: RaceSettings) -> Start:
    video = {
        "name": name,
        "seconds": 4.0,
        "fps": 12.0,
        "width": 96,
        "height": 96,
        "frames": 8,
        "timestamps": [0.25, 0.75],
        "reader": "fake",
    }
    pair = {"name": settings.pair, "title": "a fake pair", "target": "t", "draft": "d", "notice": "", "relevance": {"scorer": "fake"}}
    pictures = thumbnails() if settings.details else ()
    return Start(pair, video, settings.to_dict(), {"device": "cpu", "torch": "0"}, threshold=0.5, thumbnails=pictures)


def thumbnails() -> tuple[str, ...]:
    """Frames of the fake clip, a brighter one after a darker one."""
    from PIL import Image

    pictures = []
    for frame in range(FRAMES):
        file = io.BytesIO()
        Image.new("RGB", (64, 64), (90 + 60 * frame, 120, 150)).save(file, "JPEG")
        pictures.append("data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode())
    return tuple(pictures)


def sight_record(lane: str) -> Prefill:
    """The draft of naive SD sees every tile, that of another lane every second one."""
    kept = "" if lane == "naive_sd" else base64.b64encode(b"\xaa\xaa").decode()
    return Prefill(f"video · draft of {lane}", 0.01, (lane,), 2, 2, GRID, kept)


def evidence_record(lane: Lane) -> Evidence:
    """Token i was looked for in tile i."""
    maps = [bytes(255 if cell == index % 16 else 0 for cell in range(16)) for index in range(len(lane.tokens))]
    heat = tuple(base64.b64encode(each).decode() for each in maps)
    return Evidence((lane.name,), GRID, (1, 2), 0.08, heat, (0.3,) * len(heat))


class Lane:
    """One lane with a fixed pace: its text is WORDS over and over."""

    def __init__(self, name: str, budget: int, details: bool = False) -> None:
        self.name, self.budget, self.details = name, budget, details
        self.tokens: list[Token] = []
        self.rounds = 0
        self.seconds = 0.0
        self.proposed = self.accepted = 0

    @property
    def finished(self) -> bool:
        return len(self.tokens) >= self.budget

    def step(self) -> Round:
        drafts, cost = PACE[self.name]
        kept = min(drafts, self.budget - len(self.tokens) - 1) if drafts else 0
        tokens = [self._token(position, "exact" if position % 3 else "loose") for position in range(kept)]
        last = "ar" if self.name == "ar" else "bonus" if kept == drafts else "correction"
        tokens.append(self._token(kept, last))
        proposed = tuple((token.id, token.text) for token in tokens[:-1]) + ((99, " blue"),) * (drafts - kept)
        self.rounds += 1
        self.seconds += cost
        self.proposed += drafts
        self.accepted += kept
        self.tokens += tokens
        details = self._details(tokens, proposed, kept) if self.details else {}
        return Round(self.name, self.rounds, self.seconds, cost / 4, cost / 2, proposed, kept, tuple(tokens), **details)

    @staticmethod
    def _details(tokens: list[Token], proposed: tuple, kept: int) -> dict:
        """Both models know five words at every place, the text's among them; of a loose one the target likes another better."""
        tops = []
        for token in tokens:
            others = tuple((f" other{number}", 0.05) for number in range(3))
            best = ((" rather", 0.5), (token.text, 0.3)) if token.verdict == "loose" else ((token.text, 0.6), (" rather", 0.2))
            tops.append(best + others)
        why = "anchor" if tokens[-1].verdict == "correction" else ""
        drafted = tuple(((text, 0.7), (" rather", 0.2)) for _, text in proposed[: kept + 1])
        chances = tuple((0.7, 0.3 if place < kept else 0.01) for place in range(len(proposed)))
        return {"target_top": tuple(tops), "draft_top": drafted, "chances": chances, "why": why}

    def _token(self, ahead: int, verdict: str) -> Token:
        place = (len(self.tokens) + ahead) % len(WORDS)
        anchor = WORDS[place] in ("two", "small", "red", "circles", "left", "dark")
        return Token(place, " " + WORDS[place], verdict, 0.9 if anchor else 0.1, anchor)

    def end(self, ar: Lane | None, stopped: bool, drawn: bool = False) -> LaneEnd:
        tokens = len(self.tokens)
        pace = self.seconds / tokens if tokens else 0.0
        gain = round(ar.seconds / len(ar.tokens) / pace, 3) if ar and ar.tokens and tokens and not stopped else None
        ids = tuple(token.id for token in self.tokens)
        verdicts = [token.verdict for token in self.tokens]
        return LaneEnd(
            lane=self.name,
            finish="stopped" if stopped else "token budget",
            text="".join(token.text for token in self.tokens).strip(),
            token_ids=ids,
            tokens=tokens,
            rounds=self.rounds,
            mean_accepted_length=tokens / self.rounds if self.rounds else 0.0,
            acceptance_rate=self.accepted / self.proposed if self.proposed else None,
            prefill_seconds=0.06,
            decode_seconds=self.seconds,
            tokens_per_second=1 / pace if pace else 0.0,
            speedup_decode=gain,
            speedup_total=gain,
            same_as_ar=None if ar is None else ids == tuple(token.id for token in ar.tokens),
            first_difference=None,
            anchors=sum(bool(token.anchor) for token in self.tokens),
            fillers=sum(token.anchor is False for token in self.tokens),
            verdicts={verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
            same_distribution=True if drawn and self.name != "lvspec" else None,
        )


def recorded(settings: RaceSettings | None = None) -> list[Record]:
    """A whole fake race as a list, without waiting."""
    settings = settings or RaceSettings(question="fast", max_new_tokens=40)
    return list(run(FakeClip("clip.mp4", 8), settings.validated(), lambda: False))
