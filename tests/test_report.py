"""Reports over runs of evaluate: files nobody vouches for in, tables, CSV and one HTML page out."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fake_race import recorded

import lvspec_core.__main__ as cli
from lvspec_core.errors import DataError
from lvspec_core.race_files import save_race
from lvspec_core.report.clips import clips_of
from lvspec_core.report.csv_files import methods_csv, samples_csv
from lvspec_core.report.runs import make_run, read_run, read_runs, run_of_files
from lvspec_core.report.summary import races_shown, report_value
from lvspec_core.view import report_page

# a foreign run as SpecVLM's inference.py writes it: (sample, method, seconds, tokens, text)
FOREIGN = [
    (0, "ar", 10.0, 200, "A man walks."),
    (0, "specvlm", 5.0, 200, "A man walks."),
    (1, "ar", 10.0, 100, "A dog runs."),
    (1, "specvlm", 4.0, 100, "A dog runs home."),
    (2, "ar", 8.0, 100, "Rain."),
    (2, "specvlm", 8.0, 100, "Rain."),
]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def foreign_rows():
    rows = []
    for sample, method, seconds, tokens, text in FOREIGN:
        row = {"sample_index": sample, "method": method, "decoding_time": seconds, "generate_len": tokens}
        if method != "ar":
            row["average_accept_length"] = 2.5
        rows.append(row | {"output": text})
    return rows


@pytest.fixture
def foreign(tmp_path):
    write(tmp_path / "specvlm" / "results.jsonl", foreign_rows())
    return tmp_path / "specvlm"


def own_rows(samples: int = 4, race: str | None = "races/000000.jsonl", error: str | None = None):
    rows = []
    for sample in range(samples):
        for method, speedup in (("ar", 1.0), ("lvspec", 2.0 + sample)):
            rows.append(
                {
                    "sample_index": sample, "method": method, "decoding_time": 4.0 / speedup, "generate_len": 40,
                    "average_accept_length": speedup, "output": f"text {sample}", "rounds": 10, "speedup_decode": speedup,
                    "speedup_total": speedup * 0.9, "same_as_ar": method == "ar", "name": f"clip {sample}", "question": "What?",
                    "facts": {"right": 5 - (sample if method == "lvspec" else 0), "total": 5}, "race": race, "error": error,
                    "fidelity": None if method == "ar" else {"edit_distance": 0.1, "anchors_kept": 1.0},
                }
            )  # fmt: skip
    return rows


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "own"
    write(folder / "results.jsonl", own_rows())
    (folder / "races").mkdir()
    save_race(recorded(), folder / "races" / "000000.jsonl")
    plan = {"format": 1, "task": "shapes", "pair": {"title": "Shapes"}, "settings": {"frames": 8}, "environment": {"torch": "2"}}
    (folder / "run.json").write_text(json.dumps(plan))
    return folder


def test_a_run_of_specvlms_gets_its_speedups_from_its_own_times(foreign):
    run = read_run(foreign)
    assert run.foreign
    row = next(row for row in run.metrics if row["method"] == "specvlm")
    assert (row["speedup_decode"], row["same_as_ar"], row["samples"]) == (2.0, 0.6667, 3)
    assert row["avg_tokens_per_second"] == pytest.approx(400 / 17, abs=1e-3)


def test_a_run_of_ours_keeps_its_own_figures(own):
    run = read_run(own)
    assert not run.foreign
    assert (run.frames, run.told("pair", "title"), run.samples) == (8, "Shapes", 4)
    assert next(row for row in run.metrics if row["method"] == "lvspec")["speedup_decode"] == 3.5


def test_a_report_says_how_many_texts_left_ar_by_rounding(tmp_path):
    rows = own_rows()
    rows[1]["near_tie"] = True
    run = read_run(write(tmp_path / "results.jsonl", rows))
    shown = report_value([run])
    cells = {row["method"]: dict(zip(shown["columns"][1:], row["cells"], strict=True)) for row in shown["runs"][0]["rows"]}
    assert cells["lvspec"]["same as AR"] == "0.0%, 1 rounding tie"
    assert cells["ar"]["same as AR"] == "100.0%"


def test_the_clips_to_look_at(own, foreign):
    lists = clips_of(read_run(own), "lvspec", 3)
    assert [clip["sample"] for clip in lists["fastest"]] == [3, 2]
    assert [clip["sample"] for clip in lists["slowest"]] == [0, 1]
    assert [clip["sample"] for clip in lists["furthest"]] == [3, 2, 1], "who loses more facts first"
    lists = clips_of(read_run(foreign), "specvlm", 5)
    assert [clip["sample"] for clip in lists["furthest"]] == [1], "a text that is AR's is not far from it"
    assert 0 < lists["furthest"][0]["distance"] < 1


def test_what_failed_counts_nowhere_and_is_told(tmp_path):
    broken = make_run("x", [write(tmp_path / "b" / "results.jsonl", own_rows(2, error="The file is damaged."))], {}, None)
    value = report_value([broken])
    assert set(value["runs"][0]["speedups"].values()) == {None}, "as in the table, though the records state speedups"
    assert value["runs"][0]["points"]["lvspec"] == []
    assert value["runs"][0]["failures"] == [{"name": f"clip {each}", "error": "The file is damaged."} for each in (0, 1)]
    assert value["runs"][0]["clips"]["lvspec"]["fastest"] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "not JSON"),
        ('{"method": "ar"}', "sample_index"),
        ('{"sample_index": "0", "method": "ar"}', "sample_index"),
        ('{"sample_index": 0, "method": "ar", "decoding_time": "1"}', "decoding_time"),
        ('{"sample_index": 0, "method": "ar", "decoding_time": -1}', "decoding_time is -1"),
        ('{"sample_index": 0, "method": "ar", "speedup_decode": NaN}', "not a number"),
        ('{"sample_index": 0, "method": "ar", "verdicts": {"exact": "many"}}', "verdicts"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, why):
    path = tmp_path / "results.jsonl"
    path.write_text(f"{line}\n" + json.dumps(foreign_rows()[0]) + "\n")
    with pytest.raises(DataError, match=r"Line 1 of .*results\.jsonl") as caught:
        read_run(path)
    assert why in str(caught.value)


def test_a_run_that_goes_on_is_read_as_far_as_it_is(own):
    with (own / "results.jsonl").open("a") as file:
        file.write('{"sample_index": 9, "meth')
    assert read_run(own).samples == 4


def test_runs_without_results_are_refused_in_one_sentence(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "holds no results.jsonl" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "gone")]) == 2
    assert "There is no" in capsys.readouterr().err


def test_races_outside_the_runs_folder_are_not_read(tmp_path, own):
    secret = save_race(recorded(), tmp_path / "secret.jsonl")
    for name in ("../secret.jsonl", str(secret)):
        write(own / "results.jsonl", own_rows(race=name))
        assert read_run(own).races == {}


def test_runs_of_one_name_are_told_apart(own):
    assert [run.name for run in read_runs([own, own, own])] == ["own", "own (2)", "own (3)"]


def test_uploaded_files_make_a_run_with_its_races(own):
    (run,) = run_of_files([own / "run.json", own / "results.jsonl", own / "races" / "000000.jsonl"])
    assert list(run.races) == ["races/000000.jsonl"]
    assert run.frames == 8
    with pytest.raises(DataError, match=r"no results\.jsonl among"):
        run_of_files([own / "run.json", own / "races" / "000000.jsonl"])


def test_csv_holds_the_numbers_and_no_formula(own, tmp_path):
    rows = foreign_rows()
    rows[0]["output"] = "=HYPERLINK(1)"
    run = make_run("-x", [write(tmp_path / "f" / "results.jsonl", rows)], {}, None)
    found = list(csv.DictReader(io.StringIO(samples_csv([run, read_run(own)]))))
    assert len(found) == len(rows) + 8
    assert (found[0]["output"], found[0]["run"]) == ("'=HYPERLINK(1)", "'-x")
    assert found[-1]["fidelity.edit_distance"] == "0.1"
    methods = list(csv.DictReader(io.StringIO(methods_csv([read_run(own)]))))
    assert [(row["method"], float(row["speedup_decode"]), row["frames"]) for row in methods] == [("ar", 1.0, "8"), ("lvspec", 3.5, "8")]


def test_the_command_writes_all_and_the_page_holds_the_races(own, foreign, tmp_path, capsys):
    page, methods, samples = tmp_path / "r.html", tmp_path / "m.csv", tmp_path / "s.csv"
    status = cli.main(["report", str(own), str(foreign), "--html", str(page), "--csv", str(methods), "--samples-csv", str(samples)])
    assert status == 0
    out = capsys.readouterr().out
    assert "LVSpec, fastest: clip 3 5.00×" in out
    assert "specvlm: written by another program" in out
    text = page.read_text(encoding="utf-8")
    races = json.loads(text.split('id="lv-races">')[1].split("</script")[0])
    value = json.loads(text.split('id="lv-report-value">')[1].split("</script")[0])
    assert list(races) == ["0:races/000000.jsonl"]
    assert value["runs"][0]["clips"]["lvspec"]["fastest"][0]["race"] == "0:races/000000.jsonl"
    assert value["runs"][1]["foreign"]
    assert "https://" not in text.split("<style>")[1].split("</style>")[0]
    assert methods.exists()
    assert samples.exists()


def test_a_clip_whose_race_is_not_held_does_not_open(own):
    value = report_value([read_run(own)])
    assert races_shown(value) == ["0:races/000000.jsonl"]
    text = report_page(value, {})
    held = json.loads(text.split('id="lv-report-value">')[1].split("</script")[0])
    assert held["runs"][0]["clips"]["lvspec"]["fastest"][0]["race"] is None
    assert all(point[3] is None for point in held["runs"][0]["points"]["lvspec"])


@pytest.mark.parametrize("evil", ["</script><script>alert(1)</script>", "<!--<script>", '"@VALUE@"', '"@RACES@"'])
def test_no_text_of_a_run_ends_its_element(tmp_path, evil):
    rows = [row | {"name": evil, "output": evil} for row in own_rows(2, race=None)]
    run = make_run(evil, [write(tmp_path / "results.jsonl", rows)], {}, None)
    text = report_page(report_value([run]), {})
    value = json.loads(text.split('id="lv-report-value">')[1].split("</script")[0])
    assert value["runs"][0]["name"] == evil
    assert value["runs"][0]["clips"]["lvspec"]["fastest"][0]["text"] == evil
