"""A race in a terminal: records in, a live view out; plain text where there is no terminal."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lvspec_core.records import LaneEnd, Prefill, Preparing, Record, Round, Start, Token
from lvspec_core.terminal_words import percent, plain_text, preparing_text, times, title

# Okabe–Ito colours, and a mark of their own each, so that nothing hangs on colour alone
STYLES = {
    "anchor": "bold underline #56b4e9",
    "exact": "",
    "loose": "italic #e69f00",
    "shifted": "underline2 #cc79a7",
    "correction": "bold #009e73",
    "bonus": "#009e73",
    "ar": "",
}
MEANINGS = {
    "anchor": "depends on the video, verified strictly",
    "exact": "draft = target",
    "loose": "a filler that the target found plausible",
    "shifted": "salvaged at another position",
    "correction": "target's own after a rejection",
    "bonus": "target's own after full acceptance",
}
LANE_WIDTH = 38
LOWEST_LANE = 8
TELL_SECONDS = 2


@dataclass
class LaneView:
    """What is known of one lane so far."""

    name: str
    tokens: list[Token] = field(default_factory=list)
    # own seconds and tokens after each round, for "tokens this lane has at own time t ÷ tokens AR has at t"
    curve: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    proposed: int = 0
    accepted: int = 0
    prefill_seconds: float = 0.0
    end: LaneEnd | None = None

    def add(self, record: Round) -> None:
        self.tokens += record.tokens
        self.curve.append((record.seconds, len(self.tokens)))
        self.proposed += len(record.proposed)
        self.accepted += record.accepted

    @property
    def rounds(self) -> int:
        return len(self.curve) - 1

    @property
    def seconds(self) -> float:
        return self.curve[-1][0]

    def tokens_at(self, seconds: float) -> float:
        """Tokens after ``seconds`` of the lane's own decode clock, between two rounds in proportion."""
        for (before, low), (after, high) in pairwise(self.curve):
            if seconds <= after:
                return low + (high - low) * (seconds - before) / (after - before) if after > before else high
        return self.curve[-1][1]


class RaceView:
    """Follows a race record by record; :meth:`live` and :meth:`final` draw what it knows."""

    def __init__(self) -> None:
        self.start: Start | None = None
        self.prefill: Prefill | None = None
        self.lanes: dict[str, LaneView] = {}
        self.parts: list[Prefill] = []
        self.preparing: Preparing | None = None

    def feed(self, records: Iterable[Record | Preparing]) -> None:
        """Takes in new records."""
        for record in records:
            if isinstance(record, Preparing):
                self.preparing = record
            elif isinstance(record, Start):
                self.start = record
                self.lanes = {name: LaneView(name) for name in record.settings["methods"]}
            elif isinstance(record, Prefill):
                self.parts.append(record)
                for name in record.lanes:
                    if name in self.lanes:
                        self.lanes[name].prefill_seconds += record.seconds
            elif isinstance(record, Round):
                self.lanes[record.lane].add(record)
            elif isinstance(record, LaneEnd):
                self.lanes[record.lane].end = record

    def live(self, width: int, height: int) -> RenderableType:
        """The race as it stands, no higher than ``height`` lines: lanes side by side where they fit, their newest words shown."""
        head = self._head()
        count = max(1, len(self.lanes))
        rows = math.ceil(count / max(1, width // LANE_WIDTH))
        per_row = math.ceil(count / rows)
        lane_height = max(LOWEST_LANE, (height - len(head) - 3) // rows)
        lanes = [self._panel(lane, width // per_row, lane_height) for lane in self.lanes.values()]
        return Group(*head, Columns(lanes, padding=0, expand=False), self._legend(meanings=False))

    def final(self, width: int) -> RenderableType:
        """The race when it is over: whole texts, then a table."""
        panels = [self._panel(lane, width, None) for lane in self.lanes.values()]
        return Group(*self._head(), *panels, self._legend(meanings=True), self.table())

    def plain(self) -> str:
        """The same without any drawing: what a pipe gets."""
        lanes = [f"{title(lane.name)}: {self._text_of(lane).plain or '(nothing)'}\n" for lane in self.lanes.values()]
        console = Console(width=200, color_system=None, file=io.StringIO())
        console.print(self.table(plain=True))
        table = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
        return "\n".join([*lanes, table])

    def table(self, plain: bool = False) -> Table:
        """The figures of all lanes."""
        table = Table(box=None if plain else SIMPLE_HEAD, pad_edge=False)
        table.add_column("method", no_wrap=True)
        for column in (
            "tokens",
            "rounds",
            "mean accepted",
            "acceptance",
            "prefill s",
            "decode s",
            "tokens/s",
            "decode speedup",
            "total speedup",
        ):
            table.add_column(column, justify="right")
        table.add_column("against AR", no_wrap=True)
        for lane in self.lanes.values():
            table.add_row(*self._row(lane))
        return table

    def progress(self) -> str:
        """Where the lanes are, in one line."""
        return " · ".join(f"{title(lane.name)} {len(lane.tokens)}" for lane in self.lanes.values()) + " tokens"

    def _row(self, lane: LaneView) -> list[str]:
        end = lane.end
        if end is None:
            return [title(lane.name), str(len(lane.tokens)), str(lane.rounds), *["–"] * 8]
        return [
            title(lane.name),
            str(end.tokens),
            str(end.rounds),
            f"{end.mean_accepted_length:.2f}",
            percent(end.acceptance_rate),
            f"{end.prefill_seconds:.3f}",
            f"{end.decode_seconds:.3f}",
            f"{end.tokens_per_second:.1f}",
            times(end.speedup_decode),
            times(end.speedup_total),
            self._against_ar(end),
        ]

    def _against_ar(self, end: LaneEnd) -> str:
        if end.finish == "failed":
            return "failed"
        if end.lane == "ar":
            return "reference" if end.finish != "stopped" else "stopped"
        if end.same_as_ar is None:
            return end.finish if end.finish == "stopped" else "–"
        if end.same_as_ar:
            return "identical"
        return f"differs at token {(end.first_difference or 0) + 1}" + (" (rounding)" if end.near_tie else "")

    def _head(self) -> list[RenderableType]:
        if self.start is None:
            doing = preparing_text(self.preparing) if self.preparing else "Reading the video and loading the pair …"
            return [Text(doing, style="dim")]
        start, video = self.start, self.start.video
        about = Text(no_wrap=True, overflow="ellipsis")
        about.append(plain_text(video["name"]), style="bold")
        about.append(
            f" · {plain_text(str(start.pair.get('title') or start.pair['name']))} · {plain_text(start.settings.get('question', ''))}"
        )
        head: list[RenderableType] = [about]
        if start.pair.get("notice"):
            head.append(Text(plain_text(str(start.pair["notice"])), style="dim italic", no_wrap=True, overflow="ellipsis"))
        head.append(self._prefill_line())
        return head

    def _prefill_line(self) -> RenderableType:
        done, total = (self.parts[-1].done, self.parts[-1].total) if self.parts else (0, 1)
        parts = " · ".join(f"{plain_text(part.part)} {part.seconds:.2f} s" for part in self.parts)
        grid = Table.grid(padding=(0, 1))
        grid.add_row(
            Text("prefill"), ProgressBar(total=total, completed=done, width=20), Text(parts, style="dim", no_wrap=True, overflow="ellipsis")
        )
        return grid

    def _panel(self, lane: LaneView, width: int, height: int | None) -> Panel:
        text = self._text_of(lane)
        if height is not None:
            lines = text.wrap(_MEASURE, max(10, width - 4))
            room = height - 4
            text = Text("\n").join(lines[-room:]) if len(lines) > room else text
        figures = Text(self._figures(lane), style="dim", no_wrap=True, overflow="ellipsis")
        body = Group(Text(self._speed(lane), style="bold", no_wrap=True, overflow="ellipsis"), figures, text)
        return Panel(body, title=title(lane.name), title_align="left", width=width, height=height, padding=(0, 1))

    def _speed(self, lane: LaneView) -> str:
        end = lane.end
        if end is not None and end.error:
            return plain_text(end.error)
        rate = len(lane.tokens) / lane.seconds if lane.seconds > 0 else 0.0
        speedup = end.speedup_decode if end is not None else self._speedup_now(lane)
        parts = [times(speedup), f"{rate:.1f} tokens/s"]
        if end is not None:
            parts += [f"{times(end.speedup_total)} with prefill", self._against_ar(end)]
        return " · ".join(parts)

    def _speedup_now(self, lane: LaneView) -> float | None:
        ar = self.lanes.get("ar")
        if ar is None or not lane.tokens or not ar.tokens:
            return None
        now = min(lane.seconds, ar.seconds)
        base = ar.tokens_at(now)
        return lane.tokens_at(now) / base if base else None

    def _figures(self, lane: LaneView) -> str:
        rounds = lane.rounds
        mean = len(lane.tokens) / rounds if rounds else 0.0
        acceptance = lane.accepted / lane.proposed if lane.proposed else None
        return f"{len(lane.tokens)} tokens · {rounds} rounds · {mean:.2f} a round · {percent(acceptance)} accepted"

    def _text_of(self, lane: LaneView) -> Text:
        text = Text()
        for token in lane.tokens:
            piece = plain_text(token.text)
            word = piece.lstrip()
            # a mark belongs to the word, not to the space before it
            text.append(piece[: len(piece) - len(word)] if text else "")
            text.append(word, style=style(token))
        return text

    def _legend(self, meanings: bool) -> Text:
        kinds = [kind_of(token) for lane in self.lanes.values() for token in lane.tokens]
        legend = Text()
        for name, meaning in MEANINGS.items():
            legend.append(name, style=STYLES[name])
            legend.append(f" {kinds.count(name)}", style="dim")
            legend.append(f" {meaning}\n" if meanings else "   ", style="dim")
        legend.rstrip()
        return legend


def kind_of(token: Token) -> str:
    """The one key of STYLES that fits a token best: how it entered, or that it is an anchor, where the draft had it right."""
    return "anchor" if token.anchor and token.verdict in ("exact", "ar") else token.verdict


def style(token: Token) -> str:
    """How a token is drawn: an anchor is always underlined, whatever else it is."""
    own = STYLES[kind_of(token)]
    return f"{own} underline" if token.anchor and "underline" not in own else own


_MEASURE = Console(file=io.StringIO())


def watch(batches: Iterable[list[Record]], console: Console) -> RaceView:
    """Draws a race on a terminal while it runs, then once more as a whole."""
    view = RaceView()
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        for batch in batches:
            view.feed(batch)
            live.update(view.live(console.width, console.height), refresh=True)
    console.print(view.final(console.width))
    return view


def follow(batches: Iterable[list[Record]], console: Console) -> RaceView:
    """Takes a race in, telling its progress in single lines: for a console that is not looked at, or only to wait by."""
    view = RaceView()
    told = time.monotonic()
    with console.status("reading the video and loading the pair …") if console.is_terminal else nullcontext() as status:
        for batch in batches:
            view.feed(batch)
            news = [preparing_text(record) for record in batch if isinstance(record, Preparing)]
            news += [
                f"prefill {part.done}/{part.total} · {plain_text(part.part)} {part.seconds:.2f} s"
                for part in batch
                if part.type == "prefill"
            ]
            words = any(lane.tokens for lane in view.lanes.values())
            if status is None and words and time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                news.append(view.progress())
            if status is not None:
                status.update(view.progress() if words else (news or ["prefill"])[-1])
            else:
                for line in news:
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
    return view
