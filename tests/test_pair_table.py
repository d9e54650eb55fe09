"""The list of pairs, and the README's table that is made from it."""

from __future__ import annotations

import json
from pathlib import Path

import lvspec_core.__main__ as cli
from lvspec_core.pair_table import FRAMES, markdown, rows
from lvspec_core.registry import PAIRS

ROOT = Path(__file__).resolve().parent.parent


def test_the_readme_shows_what_the_command_says():
    """`python -m lvspec_core pairs --docs .` writes it."""
    assert f"<!-- pairs -->\n{markdown()}\n<!-- /pairs -->" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_pair_is_listed_and_more_frames_take_more():
    assert [row["pair"] for row in rows()] == list(PAIRS)
    for row in (row for row in rows() if row["gigabytes"]):
        needed = [row["gigabytes"][str(frames)] for frames in FRAMES]
        assert needed == sorted(set(needed))
        assert row["gigabytes_4bit"] < 0.55 * needed[0]


def test_it_is_a_command(capsys, tmp_path):
    assert cli.main(["pairs"]) == 0
    shown = capsys.readouterr().out
    assert "GPU memory" in shown
    assert all(name in shown for name in PAIRS), "to be typed as they stand there"
    assert cli.main(["pairs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows()
    (tmp_path / "README.md").write_text("a\n<!-- pairs -->\nold\n<!-- /pairs -->\nb\n")
    assert cli.main(["pairs", "--docs", str(tmp_path)]) == 0
    assert (tmp_path / "README.md").read_text() == f"a\n<!-- pairs -->\n{markdown()}\n<!-- /pairs -->\nb\n"
