"""The page's scripts under oxlint: each part as it runs, its files one after the other in one scope."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lvspec_core.view import parts
from lvspec_core.view.parts import Part, read_static

GIVEN = ("element", "props", "trigger", "watch")  # what Gradio, or an exported page's own script, gives a part
RULES = {
    "env": {"browser": True, "es2024": True},
    "categories": {"correctness": "error"},
    "rules": {
        "no-undef": "error",
        "no-unused-vars": "off",  # parts share files, and each uses some of what they hold
        "unicorn/prefer-string-starts-ends-with": "off",  # a pattern takes whatever value a file may hold, also one that is no text
    },
}
PAGES = {name: part.script for name, part in vars(parts).items() if isinstance(part, Part)} | {"head": parts.head_script()}
EXPORTS = {
    "race export": read_static("export.js") + parts.BOARD.script,
    "report export": read_static("report_export.js") + parts.REPORT.script,
}


def complaints(script: str, folder: Path, given: tuple[str, ...] = ()) -> list[str]:
    """What oxlint finds in a script, as "line: rule: what"; ``given``: names that it need not define."""
    settings, file = folder / "rules.json", folder / "part.js"
    settings.write_text(json.dumps(RULES | {"globals": dict.fromkeys(given, "readonly")}))
    file.write_text("(() => {\n" + script + "\n})();\n", encoding="utf-8")
    linter = Path(sys.executable).with_name("oxlint")
    found = subprocess.run([linter, "-c", settings, "--format", "json", file], capture_output=True, text=True, timeout=60)
    diagnostics = json.loads(found.stdout)["diagnostics"]
    return [f"{each['labels'][0]['span']['line']}: {each.get('code')}: {each['message']}" for each in diagnostics]


@pytest.mark.parametrize("name", PAGES)
def test_a_part_has_no_faults(name, tmp_path):
    assert complaints(PAGES[name], tmp_path, GIVEN) == []


@pytest.mark.parametrize("name", EXPORTS)
def test_an_exported_page_defines_all_that_it_uses(name, tmp_path):
    assert complaints(EXPORTS[name], tmp_path) == []


def test_a_fault_is_found(tmp_path):
    found = complaints("const page = newRace(1);\nif (page = 2) debugger;", tmp_path)
    assert any("newRace" in each for each in found)
    assert len(found) > 1
