"""The rows as JSON, as Markdown and as a table on the terminal. Both files are written anew, whole, after every row."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lvspec_core.errors import RecordError, SettingsError
from lvspec_core.gpu_check.rows import Row
from lvspec_core.race_files import write_whole

NAME = "gpu-check"
LEGEND = (
    "*ms*: median from asking for a step to its end, quartiles in brackets. *Limit*: the bytes of the layers, the head and the cache ÷ the"
    " memory's bandwidth. *Host*: how long asking alone took; ↯ where that is most of it: the host, not the GPU, sets the pace. *Replayed*:"
    " the passes as CUDA graphs (on a CPU: in the shape that those have), their rows padded to the next power of two."
)
WEIGHTS = {
    "full": "random weights of the real shapes",
    "tiny": "random weights of shapes scaled down, which measures nothing real",
}
HEAD = ("frames", "model", "step", "tokens read", "in the cache", "ms", "limit, ms", "× limit", "host, ms", "peak, GB")


class Report:
    """What is known so far. ``state``: "running", "finished" or "out of time"."""

    def __init__(self, folder: Path, machine: dict, asked: dict):
        self.folder = folder
        self.machine = machine
        self.asked = asked
        self.bandwidth: dict | None = None
        self.rows: list[Row] = []
        self.state = "running"
        self.seconds = 0.0

    def open(self) -> None:
        """Makes the folder, and sure that a file can be written into it; SettingsError if not."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write()
        except (OSError, RecordError) as error:
            raise SettingsError(f"Nothing can be written to {self.folder}: {getattr(error, 'strerror', None) or error}") from None

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.write()

    def write(self) -> None:
        write_whole(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", self.folder / f"{NAME}.json")
        write_whole(self.markdown(), self.folder / f"{NAME}.md")

    @property
    def speed(self) -> float | None:
        """Bytes per second of the memory."""
        return self.bandwidth["bytes_per_second"] if self.bandwidth else None

    def to_dict(self) -> dict:
        return {
            "state": self.state,
            "seconds": round(self.seconds, 1),
            "machine": self.machine,
            "asked": self.asked,
            "bandwidth": self.bandwidth,
            "rows": [row.to_dict(self.speed) for row in self.rows],
        }

    def markdown(self) -> str:
        lines = [f"# {NAME}", "", *(f"- {line}" for line in self._facts()), ""]
        for pair, rows in groupby(self.rows, key=lambda row: row.pair):
            lines += [f"## {pair}", "", f"| {' | '.join(HEAD)} |", f"| ---: | --- | --- {'| ---: ' * (len(HEAD) - 3)}|"]
            lines += [f"| {' | '.join(self.cells(row))} |" for row in rows]
            lines.append("")
        lines += [LEGEND, ""]
        return "\n".join(lines)

    def _facts(self) -> list[str]:
        facts = [", ".join(f"{name} {value}" for name, value in self.machine.items())]
        if self.bandwidth:
            facts.append(f"memory bandwidth {self.bandwidth['bytes_per_second'] / 1e9:,.0f} GB/s, measured: {self.bandwidth['how']}")
        facts.append(f"{WEIGHTS[self.asked['scale']]}; {self.state} after {self.seconds:.0f} s of {self.asked['budget_seconds']:.0f}")
        return facts

    def cells(self, row: Row) -> tuple[str, ...]:
        model = f"{row.role} {row.model.split('/')[-1]}" + ("" if row.sees == "all" else f", {row.sees} of the video")
        place = (str(row.frames) if row.frames else "", model, row.step, str(row.rows or ""), f"{row.cached:,}" if row.cached else "")
        if row.timing is None:
            return (*place, row.why, "", "", "", "")
        timing, limit = row.timing, row.limit(self.speed) if self.speed else None
        median = f"{1e3 * timing.median:.2f} ({1e3 * timing.low:.2f}–{1e3 * timing.high:.2f})"
        return (
            *place,
            median,
            f"{1e3 * limit:.2f}" if limit else "",
            f"{timing.median / limit:.2f}" if limit else "",
            "" if timing.host is None else f"{1e3 * timing.host:.2f}{' ↯' if row.launching() else ''}",
            "" if timing.peak is None else f"{timing.peak / 1e9:.1f}",
        )

    def line(self, row: Row) -> str:
        """A row in a few words, as it comes."""
        frames, model, step, _, _, found, _, times, _, _ = self.cells(row)
        told = f"{found} ms" + (f", {times} × the limit" if times else "") if row.timing else found
        return " · ".join(part for part in (row.pair, f"{frames} frames" if frames else "", model, step, told) if part)

    def print(self, console: Console) -> None:
        """A table per model, narrow enough for a terminal."""
        for (pair, role, model), rows in groupby(sorted(self.rows, key=self._by_model), key=lambda row: (row.pair, row.role, row.model)):
            table = Table("frames", "step", "ms", "limit", "× limit", "host", "GB", title=f"{pair}: {role} {model}", title_justify="left")
            for column in (0, 2, 3, 4, 5, 6):
                table.columns[column].justify = "right"
            for row in rows:
                frames, _, step, _, _, found, limit, times, host, peak = self.cells(row)
                step += "" if row.sees == "all" else f", {row.sees} of the video"
                table.add_row(frames, step, found.split(" (")[0] if row.timing else found, limit, times, host, peak)
            console.print(table)
        for line in self._facts():
            console.print(line, highlight=False)

    def _by_model(self, row: Row) -> tuple:
        """A stable sort by this keeps the order of pairs."""
        pairs = list(dict.fromkeys(each.pair for each in self.rows))
        return pairs.index(row.pair), row.role != "target"
