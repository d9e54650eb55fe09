"""A race as one HTML file that needs nothing else: no server, no network, no model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lvspec_core.records import Record
from lvspec_core.view.feed import Feed
from lvspec_core.view.parts import BOARD, BOARD_STYLES, plotly_folder, read_static

RACE_MARK = '"@RACE@"'


def filled_page(name: str, parts: Mapping[str, str]) -> str:
    """A page of the static folder, ``@NAME@`` replaced by each part, scripts, styles and markup of ours, and ``@HEAD@`` by the head of
    all exported pages, whose content security policy lets nothing be loaded or sent."""
    text = read_static(name)
    for part, content in {"HEAD": read_static("export_head.html"), **parts}.items():
        before, after = text.split(f"@{part}@")
        # a script or a style ends at the first text that looks like its end
        text = before + content.replace("</script", "<\\/script").replace("</style", "<\\/style") + after
    return text


def scope(*scripts: str) -> str:
    """Scripts in a scope of their own, as each part of the page has one."""
    return "(() => {\n" + "\n".join(scripts) + "\n})();"


def plotly_script() -> str:
    return (plotly_folder() / "plotly.min.js").read_text(encoding="utf-8")


def export_template() -> str:
    """The page of an exported race without its race: ``"@RACE@"`` stands where its value as JSON belongs.

    Everything is in the text, plotly too. Its content security policy lets nothing be loaded or sent.
    """
    parts = {
        "STYLE": "\n".join(read_static(name) for name in (*BOARD_STYLES, "export.css")),
        "BOARD": BOARD.html,
        "PLOTLY": plotly_script(),
        "SCRIPT": scope(read_static("export.js"), BOARD.script),
    }
    return filled_page("export.html", parts)


def race_page(records: Iterable[Record]) -> str:
    """A race as one HTML file."""
    (value,) = Feed().over(records)
    return export_template().replace(RACE_MARK, inert_json(value), 1)


def inert_json(text: str) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
