"""Draws races: records become small JSON feeds, and the scripts and styles here draw them in place in a browser.

Knows the records and nothing else: no gradio, no torch. Whatever page shows a race gives an element the markup, the script
and one value that changes (:class:`Feed`), and serves plotly.js under the address it names.
"""

from lvspec_core.view.colours import GRADIO_COLOURS
from lvspec_core.view.examples import Example, read_examples
from lvspec_core.view.export import export_template, race_page
from lvspec_core.view.feed import Feed
from lvspec_core.view.parts import BOARD, EXAMPLES, REPORT, REPORT_TITLE, SAMPLES, STRIP, TITLE, head_script, plotly_folder, stylesheet
from lvspec_core.view.report import report_page
from lvspec_core.view.samples import Sample, read_samples

__all__ = [
    "BOARD",
    "EXAMPLES",
    "GRADIO_COLOURS",
    "REPORT",
    "REPORT_TITLE",
    "SAMPLES",
    "STRIP",
    "TITLE",
    "Example",
    "Feed",
    "Sample",
    "export_template",
    "head_script",
    "plotly_folder",
    "race_page",
    "read_examples",
    "read_samples",
    "report_page",
    "stylesheet",
]
