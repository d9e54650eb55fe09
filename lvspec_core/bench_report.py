"""What a bench result looks like: in the terminal, as the README's table, as plots."""

from __future__ import annotations

import json
from pathlib import Path

import plotly.graph_objects as go
from rich.console import Console
from rich.table import Table

from lvspec_core.settings import METHOD_TITLES, RaceSettings
from lvspec_core.terminal_words import same_as_ar, share

COLUMNS = ("method", "decode speedup", "end-to-end speedup", "tokens/s", "mean accepted length", "acceptance", "facts right", "same as AR")
PEERS = {"generate": "`generate`", "generate_assisted": "`generate(assistant_model=…)`"}
BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe–Ito


def rows(result: dict) -> list[list[str]]:
    """The table's cells, methods first, then transformers' own decoding."""
    cells = []
    for name, row in result["methods"].items():
        low, high = row["speedup_decode_quartiles"]
        cells.append(
            [
                METHOD_TITLES[name],
                f"{row['speedup_decode']:.2f}× ({low:.2f}–{high:.2f})" if name != "ar" else "1",
                f"{row['speedup_total']:.2f}×" if name != "ar" else "1",
                f"{row['tokens_per_second']:.0f}",
                f"{row['mean_accepted_length']:.2f}",
                share(row["acceptance_rate"]),
                share(row["facts_right"]),
                same_as_ar(row),
            ]
        )
    for name, row in result["peers"].items():
        cells.append([PEERS[name], "", "", f"{row['tokens_per_second']:.0f}", "", "", "", ""])
    return cells


def markdown_table(result: dict) -> str:
    """The README's table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "| " + " | ".join(["---", *["---:"] * (len(COLUMNS) - 1)]) + " |"]
    lines += ["| " + " | ".join(cell or " " for cell in row) + " |" for row in rows(result)]
    return "\n".join(lines)


def markdown_ablation(result: dict) -> str:
    """LVSpec with its parts switched off, as a table."""
    lines = ["| LVSpec | decode speedup | mean accepted length | facts right | same as AR |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, row in result["variants"]["ablation"].items():
        cells = (
            name,
            f"{row['speedup_decode']:.2f}×",
            f"{row['mean_accepted_length']:.2f}",
            share(row["facts_right"]),
            same_as_ar(row),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markdown_fidelity(result: dict) -> str:
    """LVSpec's text against AR's: facts by attribute where the truth is known, and what needs no truth."""
    lines, kept = [], result["fidelity"]
    if result["attributes"]:
        ar, loose = result["attributes"]["ar"], result["attributes"]["lvspec"]
        lines = ["| facts right | " + " | ".join(ar) + " |", "| --- | " + " | ".join(["---:"] * len(ar)) + " |"]
        lines += [f"| {title} | " + " | ".join(share(row[name]) for name in ar) + " |" for title, row in (("AR", ar), ("LVSpec", loose))]
        lines.append("")
    anchors = (
        "" if kept["anchors_kept"] is None else f"{share(kept['anchors_kept'])} of AR’s anchors stand in LVSpec’s text in their order; "
    )
    sentence = (
        f"Without the truth, medians over {result['clips']} clips: {anchors}{kept['edit_distance']:.0%} of the tokens would have to be"
        f" changed to get from one text to the other; the target gives LVSpec’s text {kept['log_likelihood']:.2f} nats a token, and AR’s"
        f" {kept['log_likelihood_ar']:.2f}."
    )
    return "\n".join([*lines, sentence[0].upper() + sentence[1:]])


def markdown_scoring(result: dict) -> str:
    """How well the anchors are found, and what finding and judging costs."""
    found, cost = result["anchors"], result["shares"]
    return (
        f"On {result['clips']} held-out clips `{found['scorer']}` reaches AUC {found['auc']:.3f} and precision"
        f" {found['precision_at_recall_90']:.3f} at recall 0.9; at the calibrated line, precision {found['precision']:.3f} and recall"
        f" {found['recall']:.3f}. Scoring takes {cost['relevance']:.1%} of a round, everything beside the two models’ passes"
        f" (rules, caches, reading results) {cost['verification']:.1%}."
    )


def markdown_departures(result: dict) -> str:
    """Where LVSpec states another fact than AR, as a sentence and a table."""
    found = result["departures"]
    clips = len({row["clip"] for row in found})
    right = {name: sum(row[name] == row["truth"] for row in found) for name in ("ar", "lvspec")}
    sentence = (
        f"On {clips} of the bench's {result['clips']} clips LVSpec states a fact otherwise than AR ({len(found)} attributes; AR is right on"
        f" {right['ar']} of them, LVSpec on {right['lvspec']})."
    )
    if not found:
        return sentence
    lines = [sentence, "", "| clip | attribute | truth | AR | LVSpec |", "| ---: | --- | --- | --- | --- |"]
    for row in found:
        said = [", ".join(row[name]) or "nothing" for name in ("truth", "ar", "lvspec")]
        lines.append(f"| {row['clip']} | {row['attribute']} | " + " | ".join(said) + " |")
    return "\n".join(lines)


def print_result(result: dict, console: Console) -> None:
    table = Table(*COLUMNS, title=f"{result['pair']}, medians over {result['clips']} held-out clips (quartiles)")
    for row in rows(result):
        table.add_row(*row)
    console.print(table)
    if result["anchors"]:
        console.print(markdown_scoring(result), markup=False)
    console.print(markdown_fidelity(result).splitlines()[-1], markup=False)


def write_report(result: dict, folder: Path) -> list[Path]:
    """Writes bench.json and the plots: one HTML page always, PNG where kaleido and a Chromium are installed."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "bench.json"]
    written[0].write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    figures = {"speedup": speedup_figure(result)}
    if "variants" in result:
        figures |= {f"sweep-{knob}": sweep_figure(knob, values) for knob, values in result["variants"]["sweep"].items()}
    page = folder / "bench.html"
    parts = [figure.to_html(full_html=False, include_plotlyjs=index == 0) for index, figure in enumerate(figures.values())]
    page.write_text("<!doctype html><meta charset=utf-8><title>LVSpec Race: bench</title>\n" + "\n".join(parts), encoding="utf-8")
    written.append(page)
    for name, figure in figures.items():
        picture = folder / f"{name}.png"
        try:
            figure.write_image(picture, width=860, height=340, scale=2)
        except (ImportError, ValueError, RuntimeError, OSError):
            continue
        written.append(picture)
    return written


def marker(name: str, pair: str) -> str:
    """The name of a pair's block in a document: the default pair's needs no pair."""
    return name if pair == RaceSettings.pair else f"{name} {pair}"


def fill_block(path: Path, marker: str, text: str) -> None:
    """Puts a text between a document's markers of this name."""
    before, rest = path.read_text(encoding="utf-8").split(f"<!-- {marker} -->\n")
    after = rest.split(f"<!-- /{marker} -->")[1]
    path.write_text(f"{before}<!-- {marker} -->\n{text}\n<!-- /{marker} -->{after}", encoding="utf-8")


# what stands between a pair's markers in the documents
BLOCKS = {
    "bench": markdown_table,
    "ablation": markdown_ablation,
    "failures": markdown_departures,
    "fidelity": markdown_fidelity,
    "scoring": markdown_scoring,
}


def fill_documents(result: dict, folder: Path) -> list[Path]:
    """Puts the result's tables between the pair's markers in README.md and METHODS.md, as many as stand there."""
    filled = set()
    for path in (folder / "README.md", folder / "METHODS.md"):
        for block, made in BLOCKS.items():
            mark = marker(block, result["pair"])
            if f"<!-- {mark} -->" in path.read_text(encoding="utf-8") and (block != "ablation" or "variants" in result):
                fill_block(path, mark, made(result))
                filled.add(path)
    return sorted(filled)


def speedup_figure(result: dict) -> go.Figure:
    """Decode and end-to-end speedup of every method, medians with quartiles."""
    names = list(result["methods"])
    figure = go.Figure()
    for figure_name, title, colour in (("speedup_decode", "decode only", BLUE), ("speedup_total", "end to end", ORANGE)):
        medians = [result["methods"][name][figure_name] for name in names]
        spans = [result["methods"][name][f"{figure_name}_quartiles"] for name in names]
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high - middle for (_, high), middle in zip(spans, medians, strict=True)],
            "arrayminus": [middle - low for (low, _), middle in zip(spans, medians, strict=True)],
        }
        bars = go.Bar(
            x=[METHOD_TITLES[name] for name in names],
            y=medians,
            name=title,
            marker_color=colour,
            error_y=error,
            text=[f"{value:.2f}×" for value in medians],
            textposition="inside",
            insidetextanchor="start",
        )
        figure.add_trace(bars)
    figure.update_layout(
        barmode="group",
        template="plotly_white",
        yaxis_title="speedup against AR",
        margin={"l": 60, "r": 20, "t": 20, "b": 40},
        legend={"orientation": "h", "y": 1.1},
    )
    return figure


def sweep_figure(knob: str, values: dict) -> go.Figure:
    """Decode speedup of every method over one knob, and the facts that LVSpec states right."""
    figure = go.Figure()
    labels = list(values)
    for name in next(iter(values.values())):
        if name == "ar":
            continue
        speeds = [values[label][name]["speedup_decode"] for label in labels]
        figure.add_trace(go.Scatter(x=labels, y=speeds, name=METHOD_TITLES[name], mode="lines+markers"))
    figure.update_layout(
        template="plotly_white",
        xaxis_title=knob.replace("_", " "),
        xaxis_type="category",
        yaxis_title="decode speedup against AR",
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
    )
    return figure
