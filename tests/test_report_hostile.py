"""A report over files that are damaged, absurd or meant to do harm: one sentence, nothing lost, no number that no file can hold."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest
from test_report import foreign_rows, own_rows, write

import lvspec_core.__main__ as cli
from lvspec_core.errors import DataError
from lvspec_core.report.csv_files import methods_csv, samples_csv
from lvspec_core.report.page import html_report
from lvspec_core.report.runs import read_run, run_of_files
from lvspec_core.report.summary import report_value


def run_of(tmp_path, rows, plan: bytes | None = None):
    write(tmp_path / "run" / "results.jsonl", rows)
    if plan is not None:
        (tmp_path / "run" / "run.json").write_bytes(plan)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("decoding_time", 1e308),
        ("generate_len", 10**17),
        ("average_accept_length", -2.0),
        ("acceptance_rate", 1.5),
        ("speedup_decode", -3.0),
        ("speedup_total", 1e300),
        ("fidelity", {"edit_distance": 7.0}),
        ("facts", {"right": 0, "total": -2}),
        ("facts", {"right": 7, "total": 5}),
        ("verdicts", {f"v{number}": 1 for number in range(100)}),
    ],
)
def test_a_figure_that_cannot_be_is_refused_by_its_line(tmp_path, field, value):
    rows = own_rows(1)
    rows[1][field] = value
    with pytest.raises(DataError, match=rf"Line 2 of .*{field}"):
        read_run(run_of(tmp_path, rows))


def test_facts_of_nothing_are_no_share(tmp_path):
    rows = [row | {"facts": {"right": 0, "total": 0}} for row in own_rows(1)]
    assert read_run(run_of(tmp_path, rows)).metrics[0]["facts_right"] is None


def test_a_time_that_was_rounded_to_nothing_makes_no_speedup(tmp_path):
    rows = [row | {"decoding_time": 1e-320} for row in foreign_rows()]
    run = read_run(run_of(tmp_path, rows))
    assert run.metrics[1]["speedup_decode"] is None
    json.dumps(report_value([run]), allow_nan=False)


@pytest.mark.parametrize("method", ["race", "", "__proto__", "constructor"])
def test_a_method_may_be_called_anything(tmp_path, method):
    rows = [row | {"method": method} if row["method"] == "lvspec" else row for row in own_rows(2)]
    run = read_run(run_of(tmp_path, rows))
    assert run.methods == ["ar", method]
    assert html_report([run])[1] == 0


@pytest.mark.parametrize("plan", [b"[" * 200_000, b'{"format": 1, "settings": {"frames": NaN}}', b"\xff", b""])
def test_a_damaged_plan_is_one_sentence(tmp_path, plan):
    with pytest.raises(DataError, match=r"run\.json is damaged"):
        read_run(run_of(tmp_path, own_rows(1), plan))


def test_a_plan_is_quoted_in_few_words(tmp_path):
    plan = {"format": "\x1b[31m" + "x" * 3000, "settings": {}}
    with pytest.raises(DataError) as caught:
        read_run(run_of(tmp_path, own_rows(1), json.dumps(plan).encode()))
    assert len(str(caught.value)) < 300
    assert "\x1b" not in str(caught.value)


def test_no_text_of_a_plan_is_unprintable(tmp_path):
    plan = {"format": 1, "settings": {}, "task": "\ud800", "pair": {"title": "\udfff"}}
    folder = run_of(tmp_path, own_rows(1), json.dumps(plan).encode())
    runs = [read_run(folder), *run_of_files([folder / "results.jsonl", folder / "run.json"])]
    json.dumps(report_value(runs), ensure_ascii=False).encode()
    (methods_csv(runs) + samples_csv(runs)).encode()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_terminal_that_knows_ascii_alone_is_no_error(tmp_path, monkeypatch, options):
    folder = run_of(tmp_path, [row | {"name": "Zürich"} for row in own_rows(2)])
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert cli.main(["report", str(folder), *options]) == 0
    sys.stdout.flush()
    text = shown.getvalue().decode("ascii")
    if options:
        assert "Zürich" in {clip["name"].split(" ")[0] for clip in json.loads(text)["runs"][0]["clips"]["lvspec"]["fastest"]}
    else:
        assert "3.00?" in text


def test_a_files_mark_of_its_encoding_is_no_part_of_the_first_record(tmp_path):
    path = write(tmp_path / "run" / "results.jsonl", own_rows(1))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_run(path).samples == 1


def test_a_line_without_an_end_says_that_it_is_too_long(tmp_path):
    path = write(tmp_path / "results.jsonl", [own_rows(1)[0] | {"output": "x" * 4_100_000}])
    with pytest.raises(DataError, match="longer than 4 MB"):
        read_run(path)


def test_files_of_any_name_are_runs_of_their_own(tmp_path):
    """As a browser names a file that it has saved before."""
    files = [write(tmp_path / name, own_rows(1)) for name in ("results (1).jsonl", "other.jsonl")]
    assert [run.name for run in run_of_files(files)] == ["results (1)", "other"]


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_folder_can_have_is_one_sentence(tmp_path, name):
    with pytest.raises(DataError):
        read_run(tmp_path / name)


def test_a_folder_that_nobody_may_look_into_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["results.jsonl", "run.json", "metric.jsonl", "results.part-0.jsonl", "races/000000.jsonl", "link"])
def test_nothing_of_a_run_is_written_over(tmp_path, capsys, name):
    folder = run_of(tmp_path, own_rows(1), b'{"format": 1, "settings": {}}')
    (folder / "races").mkdir()
    for other in ("metric.jsonl", "results.part-0.jsonl", "races/000000.jsonl"):
        (folder / other).write_bytes((folder / "results.jsonl").read_bytes())
    os.symlink(folder / "results.jsonl", folder / "link")
    before = (folder / name).read_bytes()
    assert cli.main(["report", str(folder), "--csv", str(folder / name)]) == 2
    assert "would be lost" in capsys.readouterr().err
    assert (folder / name).read_bytes() == before


def test_two_reports_in_one_file_are_refused(tmp_path, capsys):
    folder = run_of(tmp_path, own_rows(1))
    assert cli.main(["report", str(folder), "--csv", f"{tmp_path}/x", "--html", f"{tmp_path}/run/../x"]) == 2
    assert "written twice" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("start", "=+-@\t\r\n＝＋－＠")
def test_no_cell_is_a_formula(tmp_path, start):
    rows = [row | {"name": f"{start}1+1"} for row in own_rows(1)]
    assert f"'{start}1+1" in samples_csv([read_run(run_of(tmp_path, rows))])


def test_a_run_says_whether_any_race_lies_beside_it(tmp_path):
    folder = run_of(tmp_path, own_rows(1))
    assert not report_value([read_run(folder)])["runs"][0]["kept"]
    (folder / "races").mkdir()
    (folder / "races" / "000000.jsonl").write_text("{}\n")
    assert report_value([read_run(folder)])["runs"][0]["kept"]


def test_a_folder_above_several_runs_names_them(tmp_path):
    for name in ("b", "a", "empty"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        write(tmp_path / name / "results.jsonl", own_rows(1))
    with pytest.raises(DataError, match="its folders a, b: name those"):
        read_run(tmp_path)
    for number in range(6):
        (tmp_path / f"c{number}").mkdir()
        write(tmp_path / f"c{number}" / "results.jsonl", own_rows(1))
    with pytest.raises(DataError, match="a, b, c0, c1, c2 and 3 more: name"):
        read_run(tmp_path)
