"""The report's page: runs of ``evaluate`` are added, looked at side by side, and saved as one HTML file or as CSV."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import gradio as gr

from lvspec_core import view
from lvspec_core.errors import DataError, UserError
from lvspec_core.race_files import load_race
from lvspec_core.report.csv_files import methods_csv, samples_csv
from lvspec_core.report.page import html_report
from lvspec_core.report.runs import Run, read_run, renamed, run_of_files
from lvspec_core.report.summary import races_of, report_value
from page_pairs import LOCAL
from page_shelves import Shelves, Visitor

MOST_RUNS = 12
MOST_BYTES = 100_000_000  # of one upload
ROUTE = "report"
SHELVES = Shelves()


class Report(gr.HTML):
    """Tables, charts and clips of the runs, from one JSON text."""


class RaceBoard(gr.HTML):
    """A race, drawn in place from :class:`lvspec_core.view.Feed` values, here and on the race page."""


def add_files(visitor: Visitor, paths: list[str] | None) -> Iterator[tuple]:
    """Adds the runs among uploaded files."""
    paths = [Path(path) for path in paths or []]
    if not paths:
        yield skipped()
        return

    def found() -> list[Run]:
        if sum(path.stat().st_size for path in paths) > MOST_BYTES:
            raise DataError(
                f"These files hold more than {MOST_BYTES // 1_000_000} MB; leave the races out, or use report on the command line."
            )
        return run_of_files(paths)

    yield from added(visitor, found)


def add_folder(visitor: Visitor, folder: str) -> Iterator[tuple]:
    """Adds a run that lies on this computer; on a page of one's own only."""

    def found() -> list[Run]:
        if not LOCAL:
            raise DataError("A Space reads no folders of its own; upload the run.")
        if not folder.strip():
            raise DataError("Type the folder that evaluate wrote to.")
        # unlike Path.expanduser, this leaves a "~nobody" that it does not know as it is
        return [read_run(Path(os.path.expanduser(folder.strip())))]

    yield from added(visitor, found)


def added(visitor: Visitor, found: Callable[[], list[Run]]) -> Iterator[tuple]:
    """The page with what ``found`` returns beside the visitor's runs; as it was, with one sentence, where that fails."""
    shelf = visitor.shelf
    with shelf.turn:
        try:
            runs = renamed([*shelf.runs, *found()])
            if len(runs) > MOST_RUNS:
                raise DataError(f"A page shows {MOST_RUNS} runs at most; start again with fewer.")
        except UserError as error:
            gr.Warning(html.escape(str(error)))  # Gradio's notices are HTML
            yield skipped()
            return
        shelf.runs = runs
        SHELVES.keep(shelf)
        yield from drawn(runs)


def skipped() -> tuple:
    return tuple(gr.skip() for _ in range(4))


def cleared(visitor: Visitor) -> Iterator[tuple]:
    with visitor.shelf.turn:
        visitor.shelf.runs = []
        yield from drawn([])


def returned(visitor: Visitor, remembered: str) -> Iterator[tuple]:
    """The page as its visitor left it, and the key for the browser to remember."""
    shelf = SHELVES.find(remembered) if isinstance(remembered, str) else None
    if shelf is None or visitor.shelf.runs:  # nothing to come back to, or somebody was quicker than the page
        yield visitor.shelf.key, *skipped()
        return
    visitor.shelf = shelf
    SHELVES.keep(shelf)
    with shelf.turn:
        for values in drawn(shelf.runs):
            yield shelf.key, *values


def drawn(runs: list[Run]) -> Iterator[tuple]:
    """The runs' report and its three files."""
    value = [json.dumps(report_value(runs), ensure_ascii=False)]
    if not runs:
        yield value, *(gr.DownloadButton(value=None, interactive=False) for _ in range(3))
        return
    texts = {"report.html": html_report(runs)[0], "methods.csv": methods_csv(runs), "samples.csv": samples_csv(runs)}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8", errors="replace", newline="")
        # the page copies the files before this generator goes on
        yield value, *(gr.DownloadButton(value=str(path), interactive=True) for path in paths)


def open_clip(visitor: Visitor, event: gr.EventData):
    """The race of a clip that was clicked."""
    clip = str(event.race)
    path = races_of(visitor.shelf.runs).get(clip)
    if path is None:
        return gr.skip()
    try:
        return view.Feed(recorded=True, key=clip).over(load_race(path))
    except UserError as error:
        gr.Warning(html.escape(str(error)))
        return gr.skip()


def build_report_page(demo: gr.Blocks) -> None:
    """What stands on the page; called inside its route."""
    gr.Navbar(main_page_name="Race")
    visitor = gr.State(Visitor())
    remembered = gr.BrowserState("", storage_key="lvspec-report")
    gr.HTML(view.REPORT_TITLE.html, js_on_load=view.REPORT_TITLE.script, apply_default_css=False)
    with gr.Row(elem_classes="lv-report-buttons"):
        folder = gr.UploadButton("Add a run’s folder", file_count="directory", size="sm", elem_id="add-folder", variant="primary")
        files = gr.UploadButton(
            "Add a results.jsonl", file_count="multiple", file_types=[".jsonl", ".json"], size="sm", elem_id="add-files"
        )
        if LOCAL:
            place = gr.Textbox(
                label="A run’s folder on this computer",
                show_label=False,
                placeholder="or type a run’s folder on this computer, then Enter",
                container=False,
                elem_id="run-folder",
                scale=2,
            )
        clear = gr.Button("Start again", size="sm", elem_id="clear-runs")
    report = Report(
        [json.dumps(report_value([]))], html_template=view.REPORT.html, js_on_load=view.REPORT.script, apply_default_css=False,
        plotly="plotly/plotly.min.js", elem_id="report",
    )  # fmt: skip
    with gr.Row(elem_classes="lv-report-buttons"):
        page = gr.DownloadButton("Save as one HTML page", interactive=False, size="sm", elem_id="save-html")
        methods = gr.DownloadButton("Save the methods (CSV)", interactive=False, size="sm", elem_id="save-methods")
        samples = gr.DownloadButton("Save every clip (CSV)", interactive=False, size="sm", elem_id="save-samples")
    board = RaceBoard(
        html_template=view.BOARD.html, js_on_load=view.BOARD.script, apply_default_css=False, plotly="plotly/plotly.min.js", share=None,
        elem_id="report-race", elem_classes="lv-report-board",
    )  # fmt: skip
    hidden = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": 8}
    outputs = [report, page, methods, samples]
    each = {**hidden, "trigger_mode": "multiple"}
    folder.upload(add_files, [visitor, folder], outputs, **each)
    files.upload(add_files, [visitor, files], outputs, **each)
    if LOCAL:
        place.submit(add_folder, [visitor, place], outputs, **each)
    clear.click(cleared, visitor, outputs, **each)
    report.select(open_clip, visitor, board, trigger_mode="always_last", **hidden)
    demo.load(returned, [visitor, remembered], [remembered, *outputs], **hidden)
