"""The methods' figures as a table: which columns there are, and how each figure is worded, in a terminal and on a page alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from lvspec_core.evaluation.results import Result
from lvspec_core.settings import METHOD_TITLES
from lvspec_core.terminal_words import percent, plain_text, same_as_ar, share, times


def number(digits: int) -> Callable[[float | None], str]:
    return lambda value: "–" if value is None else f"{value:.{digits}f}"


# column -> how a method's record fills it
COLUMNS: dict[str, Callable[[Result], str]] = {
    "method": lambda row: METHOD_TITLES.get(row["method"], plain_text(row["method"])),
    "samples": lambda row: f"{row['samples']}" + (f" ({row['failed']} failed)" if row["failed"] else ""),
    "decode speedup": lambda row: times(row["speedup_decode"]),
    "end-to-end speedup": lambda row: times(row["speedup_total"]),
    "tokens/s": lambda row: number(1)(row["avg_tokens_per_second"]),
    "mean accepted length": lambda row: number(2)(row["avg_accept_length"]),
    "acceptance": lambda row: percent(row["acceptance_rate"]),
    "tokens": lambda row: number(0)(row["avg_generate_len"]),
    "decode s": lambda row: number(2)(row["avg_decoding_time"]),
    "anchors": lambda row: percent(row["anchor_share"]),
    "same as AR": same_as_ar,
    "anchors kept": lambda row: percent((row["fidelity"] or {}).get("anchors_kept")),
    "facts right": lambda row: share(row["facts_right"]),
    "right answers": lambda row: share(row["accuracy"]),
}

FIRST = ("method", "decode speedup", "tokens/s", "mean accepted length", "same as AR", "facts right", "right answers")
WIDE = 150  # characters that all columns take


def filled(metrics: Sequence[Result]) -> list[str]:
    """The columns in which any method has something to say."""
    return [name for name, fill in COLUMNS.items() if any(fill(row) != "–" for row in metrics)]


def metrics_table(metrics: Sequence[Result], width: int = 1000, plain: bool = False) -> Table:
    """The table for a terminal: averages, and medians of the speedups; only the most telling columns where it is narrow."""
    names = [name for name in filled(metrics) if width >= WIDE or name in FIRST]
    table = Table(box=None if plain else SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=plain)
    for row in metrics:
        table.add_row(*(COLUMNS[name](row) for name in names))
    return table
