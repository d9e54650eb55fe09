"""A race as one HTML file that needs nothing else: no server, no network, no model."""

from __future__ import annotations

from collections.abc import Iterable

from lvspec_core.records import Record
from lvspec_core.view.feed import Feed
from lvspec_core.view.parts import BOARD, BOARD_STYLES, plotly_folder, read_static

RACE_MARK = '"@RACE@"'


def export_template() -> str:
    """The page of an exported race without its race: ``"@RACE@"`` stands where its value as JSON belongs.

    Everything is in the text, plotly too. Its content security policy lets nothing be loaded or sent.
    """
    parts = {
        "STYLE": "\n".join(read_static(name) for name in (*BOARD_STYLES, "export.css")),
        "BOARD": BOARD.html,
        "PLOTLY": (plotly_folder() / "plotly.min.js").read_text(encoding="utf-8"),
        # a scope of its own, as on the page
        "SCRIPT": "(() => {\n" + read_static("export.js") + BOARD.script + "\n})();",
    }
    text = read_static("export.html")
    for name, content in parts.items():
        before, after = text.split(f"@{name}@")
        # a script or a style ends at the first text that looks like its end
        text = before + content.replace("</script", "<\\/script").replace("</style", "<\\/style") + after
    return text


def race_page(records: Iterable[Record]) -> str:
    """A race as one HTML file."""
    (value,) = Feed().over(records)
    return export_template().replace(RACE_MARK, inert_json(value), 1)


def inert_json(text: str) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
