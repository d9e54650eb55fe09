"""axe-core over the page: no serious violation, on a desk and on a phone, light and dark, with everything open."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import DESKTOP, PHONE
from test_extras import race_file  # noqa: F401 (a fixture)

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("viewport", "theme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_axe_finds_nothing_serious(standin, visit, race_file, viewport, theme):  # noqa: F811
    tab = visit(standin, viewport, theme)
    page = tab.page
    tab.open_file(race_file)
    page.get_by_label("Hardware").select_option("other")
    page.wait_for_function("document.querySelectorAll('.lv-history tbody tr').length === 1")
    tab.still()
    assert serious(page) == {}
    page.locator(".lv-tour").click()
    page.locator(".lv-tour-card").wait_for()
    tab.still()
    assert serious(page, ".lv-tour-card") == {}


def serious(page, context: str | None = None) -> dict[str, list[str]]:
    """Rule -> what breaks it, of impact serious or critical. Gradio's own upload buttons and sliders are not ours to mend."""
    results = Axe().run(page, context, {"resultTypes": ["violations"]})
    found = {}
    for violation in results.response["violations"]:
        if violation["impact"] not in ("serious", "critical"):
            continue
        nodes = [f"{node['html'][:150]} {node['failureSummary'][:200]}" for node in violation["nodes"] if not gradios(node["html"])]
        if nodes:
            found[violation["id"]] = nodes
    return found


def gradios(markup: str) -> bool:
    """Whether the element is one that Gradio draws."""
    return "lv-" not in markup and ("svelte-" in markup or 'class="built-with' in markup)
