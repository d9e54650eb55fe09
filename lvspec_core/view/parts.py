"""The pieces of the page that draw themselves: markup and script of each, and the one stylesheet."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Part:
    """One live piece: ``html`` is its first markup; ``scripts`` run in one scope with ``element``, ``props``, ``trigger`` and
    ``watch``: watch("value", …) calls back whenever ``props.value`` has changed."""

    markup: str
    scripts: tuple[str, ...]

    @property
    def html(self) -> str:
        return read_static(self.markup)

    @property
    def script(self) -> str:
        return "\n".join(read_static(name) for name in self.scripts)


# of the page and of an exported race
BOARD_STYLES = ("theme.css", "title.css", "board.css", "inspector.css", "rounds.css", "panels.css", "print.css")
BOARD = Part(
    "board.html",
    (
        "dom.js",
        "model.js",
        "costs.js",
        "verdicts.js",
        "rounds.js",
        "lane.js",
        "tips.js",
        "evidence.js",
        "inspector.js",
        "steps.js",
        "chart.js",
        "figures.js",
        "replay.js",
        "compare.js",
        "whatif.js",
        "history.js",
        "share.js",
        "board.js",
    ),
)
STRIP = Part("strip.html", ("dom.js", "strip.js"))
TITLE = Part("title.html", ("dom.js", "theme.js", "title.js", "tour.js"))
EXAMPLES = Part("examples.html", ("dom.js", "examples.js"))
# model.js and board.js bring what the charts name methods and colours by
REPORT = Part("report.html", ("dom.js", "model.js", "chart.js", "report_figures.js", "report.js"))
REPORT_TITLE = Part("report_title.html", ("dom.js", "theme.js", "title.js"))
REPORT_STYLES = (*BOARD_STYLES, "report.css")
SAMPLES = Part("samples.html", ("dom.js", "samples.js"))


def stylesheet() -> str:
    """The CSS of all parts and of the page around them."""
    return "\n".join(read_static(name) for name in (*REPORT_STYLES, "page.css", "tour.css"))


def head_script() -> str:
    """What has to be there before anything is drawn: the visitor's choice of light or dark, and a player that fetches its trimmer late."""
    return read_static("theme.js") + read_static("trim.js")


def plotly_folder() -> Path:
    """The folder of the installed plotly package that holds plotly.min.js."""
    # found, not imported: importing plotly takes half a second
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("plotly is not installed")
    return Path(spec.submodule_search_locations[0]) / "package_data"


def read_static(name: str) -> str:
    """A file of the static folder."""
    return (STATIC / name).read_text(encoding="utf-8")
