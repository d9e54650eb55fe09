"""The bench measures what it says, and the README shows what it measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from lvspec_core import bench, bench_report
from lvspec_core.pairs import load_pair
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.shapes.clips import world_clip

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "assets" / "bench" / "bench.json"


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("shapes-qwen")


@pytest.mark.slow
def test_a_bench_result_holds_every_method_and_transformers_own(pair, tmp_path):
    settings = RaceSettings(methods=METHODS, max_new_tokens=24)
    result = bench.measure(pair, settings, clips=2)
    assert list(result["methods"]) == list(METHODS)
    for row in result["methods"].values():
        assert set(bench.FIGURES) | {"facts_right", "same_as_ar", "verdicts"} <= set(row)
        assert sum(row["verdicts"].values()) == pytest.approx(1, abs=0.01)
    assert result["methods"]["ar"]["speedup_decode"] == 1
    assert result["methods"]["naive_sd"]["same_as_ar"] == result["methods"]["specvlm"]["same_as_ar"] == 1
    assert set(result["peers"]) == {"generate", "generate_assisted"}
    assert set(result["anchors"]) >= {"scorer", "auc", "precision_at_recall_90"}
    written = bench_report.write_report(result, tmp_path)
    assert json.loads(written[0].read_text(encoding="utf-8")) == result
    assert "Plotly.newPlot" in written[1].read_text(encoding="utf-8")


@pytest.mark.slow
def test_transformers_own_decoding_writes_what_the_ar_lane_writes(pair):
    settings = RaceSettings(methods=("ar",), max_new_tokens=32)
    _, clip = world_clip(3)
    lane = bench.lanes_of(pair, clip, settings)["ar"]
    peers = bench.Peers(pair)
    for assisted in (False, True):
        speed, ids = peers.run(clip, settings, assisted)
        assert ids == list(lane.token_ids)
        assert speed > 0


def test_the_same_number_is_the_same_clip():
    (scene, clip), (again, other) = world_clip(7), world_clip(7)
    assert scene == again
    assert (clip.frames == other.frames).all()
    assert world_clip(8)[0] != scene


def readme_block(name: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)[1].strip()


def test_the_readmes_tables_are_the_measured_ones():
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert readme_block("bench") == bench_report.markdown_table(result)
    assert readme_block("ablation") == bench_report.markdown_ablation(result)


def test_the_readmes_pictures_exist():
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / picture).is_file(), picture


def test_the_recorded_bench_meets_the_goals():
    methods = json.loads(RESULT.read_text(encoding="utf-8"))["methods"]
    assert methods["naive_sd"]["speedup_decode"] >= 1.2
    assert methods["lvspec"]["speedup_decode"] >= 1.8
    assert methods["lvspec"]["speedup_decode"] > methods["specvlm"]["speedup_decode"]
    assert methods["naive_sd"]["same_as_ar"] == methods["specvlm"]["same_as_ar"] == 1


def test_the_spaces_front_matter_names_the_tested_versions():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    front = text.split("---")[1]
    gradio = re.search(r"sdk_version: (\d+\.\d+)", front)[1]
    assert re.search(rf"gradio\[mcp\]>={re.escape(gradio)}", (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    assert len(re.search(r"short_description: (.*)", front)[1]) <= 60
