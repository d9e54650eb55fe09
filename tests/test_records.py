"""Records and race files: what is written comes back; what is broken is refused with one sentence."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace

import fake_race
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lvspec_core.race_files as race_files
import lvspec_core.records as records_module
from lvspec_core.errors import RecordError
from lvspec_core.race_files import check_writable, load_race, save_race
from lvspec_core.records import (
    VERDICTS,
    VERSION,
    End,
    LaneEnd,
    Prefill,
    Round,
    Start,
    Token,
    from_dict,
    race_summary,
    timeline,
    to_dict,
)

RACE = fake_race.recorded()


def lines() -> list[dict]:
    return [json.loads(json.dumps(to_dict(record))) for record in RACE]


def write(path, values) -> None:
    path.write_text("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values) + "\n")


def refused(path, values, expected: str) -> str:
    write(path, values)
    with pytest.raises(RecordError) as caught:
        load_race(path)
    sentence = str(caught.value)
    assert expected in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_a_saved_race_comes_back_equal(tmp_path):
    path = save_race(RACE, tmp_path / "race.jsonl")
    assert load_race(path) == RACE
    assert len(path.read_text().splitlines()) == len(RACE)
    assert [file.name for file in tmp_path.iterdir()] == ["race.jsonl"]


def test_any_text_survives_a_file(tmp_path):
    text = "<script>alert(1)</script> \u2028 \x85 日本 \x1b[31m \n \"'"
    token = Token(1, text, "ar", None, None)
    race = [replace(RACE[0], settings={**RACE[0].settings, "question": text}), Round("ar", 1, 0.1, 0.0, 0.1, (), 0, (token,))]
    assert load_race(save_race(race, tmp_path / "ünï ' cödé.jsonl")) == race


def test_a_race_that_was_cut_off_is_read(tmp_path):
    write(tmp_path / "cut.jsonl", lines()[:5])
    assert load_race(tmp_path / "cut.jsonl") == RACE[:5]


def test_blank_lines_do_not_matter(tmp_path):
    write(tmp_path / "race.jsonl", ["", lines()[0], "  ", lines()[1], ""])
    assert load_race(tmp_path / "race.jsonl") == RACE[:2]


def test_a_missing_optional_field_takes_its_default_and_an_unknown_one_is_left_out():
    values = to_dict(RACE[-1])
    assert from_dict({**values, "mood": "good"}) == RACE[-1]
    end = next(record for record in RACE if isinstance(record, LaneEnd))
    shorter = to_dict(end)
    del shorter["error"]
    assert from_dict(shorter) == end


def test_races_without_branches_and_claims_of_a_distribution_are_read():
    for record in RACE:
        older = {name: value for name, value in to_dict(record).items() if name not in ("parents", "same_distribution")}
        assert from_dict(older) == record


def proposal(count: int, accepted: int, parents: list[int]) -> dict:
    """A round's record whose proposal branches."""
    values = to_dict(next(record for record in RACE if isinstance(record, Round)))
    return {**values, "proposed": [[1, "a"]] * count, "accepted": accepted, "parents": parents}


def test_a_round_that_branches_comes_back_with_its_branches():
    assert from_dict(proposal(5, 2, [-1, 0, -1, 1, 1])).parents == (-1, 0, -1, 1, 1)


@pytest.mark.parametrize(
    ("count", "accepted", "parents"),
    [
        (2, 0, [-1]),  # not all of them
        (2, 0, [-1, 1]),  # after itself
        (2, 0, [1, -1]),  # after a later one
        (2, 0, [-1, -2]),
        (3, 2, [-1, -1, 0]),  # the accepted ones are no path
    ],
)
def test_parents_that_are_no_tree_are_refused(count, accepted, parents):
    with pytest.raises(RecordError, match="not a tree of what was proposed"):
        from_dict(proposal(count, accepted, parents))


def test_an_older_format_is_brought_up_to_date(tmp_path, monkeypatch):
    def upgrade(values: dict) -> dict:
        return {**values, "wall_seconds": values.pop("wall")} if values["type"] == "end" else values

    older = [*lines()[:-1], {"type": "end", "finish": "finished", "wall": 1.0}]
    monkeypatch.setattr(race_files, "VERSION", VERSION + 1)
    monkeypatch.setitem(race_files.UPGRADES, VERSION, upgrade)
    write(tmp_path / "old.jsonl", older)
    assert load_race(tmp_path / "old.jsonl")[-1] == RACE[-1]


def test_every_format_so_far_can_be_read():
    assert set(race_files.UPGRADES) == set(range(1, VERSION))


def test_a_race_of_the_first_format_keeps_the_settings_of_its_time(tmp_path):
    """It knew no adaptive drafts and no sampling: today's defaults must not be claimed for it."""
    start = lines()[0]
    settings = {"methods": start["settings"]["methods"], "draft_length": 8}
    write(tmp_path / "old.jsonl", [{**start, "version": 1, "settings": settings}, *lines()[1:]])
    read = load_race(tmp_path / "old.jsonl")[0].settings
    assert read == {**settings, "proposal": "chain", "adaptive": 0.0, "temperature": 0.0, "top_p": 1.0, "details": False}
    refused(tmp_path / "odd.jsonl", [{**start, "version": 1, "settings": 3}], "settings")


def test_a_newer_format_is_refused(tmp_path):
    refused(tmp_path / "new.jsonl", [{**lines()[0], "version": VERSION + 1}], "newer LVSpec Race")


@pytest.mark.parametrize("version", [None, "1", 0, -1, 1.0, True])
def test_a_format_that_makes_no_sense_is_refused(tmp_path, version):
    refused(tmp_path / "odd.jsonl", [{**lines()[0], "version": version}], "format version")


def test_a_broken_line_is_named(tmp_path):
    values = lines()
    values[3] = '{"type": "round", "lane'
    assert refused(tmp_path / "race.jsonl", values, "not JSON").startswith("Line 4 of race.jsonl")


@pytest.mark.parametrize(
    "line", ["[" * 100_000, "NaN", '{"type": "end"}', "[]", "3", '{"type": []}', '{"type": "x"}', "{}", "\udcff", "null"]
)
def test_a_line_that_is_no_record_is_refused(tmp_path, line):
    path = tmp_path / "race.jsonl"
    path.write_bytes((json.dumps(lines()[0]) + "\n" + line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=r"^Line 2 of race\.jsonl cannot be read: .*\.$"):
        load_race(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000, '"5"', "true", "null", "-1"])
def test_a_number_that_is_none_is_refused(tmp_path, number):
    last = json.dumps({**lines()[-1], "wall_seconds": 0.125}).replace("0.125", number)
    refused(tmp_path / "race.jsonl", [lines()[0], last], "Line 2")


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        (Start, {"pair": {}}, "pair has no name"),
        (Start, {"video": {"name": 3}}, "video has no name"),
        (Start, {"video": {"name": "a", "timestamps": ["x"]}}, "timestamps"),
        (Start, {"settings": {}}, "no methods"),
        (Start, {"settings": {"methods": [1]}}, "no methods"),
        (Start, {"environment": []}, "not an object"),
        (Prefill, {"done": 3, "total": 2}, "share of the whole"),
        (Prefill, {"lanes": "ar"}, "not a list"),
        (Prefill, {"seconds": -1}, "negative"),
        (Round, {"accepted": 9}, "more than was proposed"),
        (Round, {"parents": [0]}, "not a tree"),
        (Round, {"parents": [-1]}, "not a tree"),
        (Round, {"parents": [-1, "x"]}, "whole number"),
        (Round, {"lane": "warp"}, "not in this race"),
        (Round, {"tokens": [{"id": 1, "text": "a", "verdict": "stolen"}]}, "unknown verdict"),
        (Round, {"tokens": [{"id": 1, "text": "a", "verdict": "ar", "relevance": 2}]}, "between 0 and 1"),
        (Round, {"tokens": [{"id": 1, "verdict": "ar"}]}, "text is missing"),
        (Round, {"tokens": [1]}, "not an object"),
        (Round, {"proposed": [[1, "a", 2]]}, "wrong length"),
        (Round, {"index": 1.5}, "whole number"),
        (LaneEnd, {"verdicts": {"ar": 1}}, "do not add up"),
        (LaneEnd, {"verdicts": {"stolen": 40}}, "known verdicts"),
        (LaneEnd, {"verdicts": {"ar": True}}, "known verdicts"),
        (LaneEnd, {"token_ids": []}, "do not add up"),
        (LaneEnd, {"same_as_ar": "yes"}, "true or false"),
        (LaneEnd, {"text": 3}, "not a text"),
        (End, {"wall_seconds": -0.5}, "negative"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(tmp_path, kind, change, expected):
    values = next(to_dict(record) for record in RACE if isinstance(record, kind))
    before = [] if kind is Start else [lines()[0]]
    refused(tmp_path / "race.jsonl", [*before, {**values, **change}], expected)


def test_the_order_of_a_race_is_checked(tmp_path):
    start, *_, end = lines()
    refused(tmp_path / "race.jsonl", [end], "begins with a start record")
    refused(tmp_path / "race.jsonl", [start, start], "only one start")
    refused(tmp_path / "race.jsonl", [start, end, end], "Nothing may follow")


def test_files_that_are_none_are_refused(tmp_path, monkeypatch):
    for path, expected in [
        (tmp_path, "is a folder"),
        (tmp_path / "none.jsonl", "There is no race file"),
        ("a\0b", "no race file|not valid"),
    ]:
        with pytest.raises(RecordError, match=expected):
            load_race(path)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n\n")
    with pytest.raises(RecordError, match="is empty"):
        load_race(empty)
    monkeypatch.setattr(race_files, "MAX_FILE_BYTES", 2**20)
    empty.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(RecordError, match="larger than 1 MiB"):
        load_race(empty)


def test_saving_where_it_cannot_be_is_refused_before_and_after_a_race(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "race.jsonl"):
        for ask in (check_writable, lambda path: save_race(RACE, path)):
            with pytest.raises(RecordError, match="cannot be saved"):
                ask(path)
    with pytest.raises(RecordError, match="not finite"):
        save_race([End("finished", float("nan"))], tmp_path / "race.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_no_device_and_no_link(tmp_path):
    """As root, ``--save /dev/null`` made /dev/null an ordinary file, for every program on the machine."""
    pipe, kept, link = tmp_path / "pipe", tmp_path / "kept.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    for ask in (check_writable, lambda path: save_race(RACE, path)):
        with pytest.raises(RecordError, match="cannot be saved: it is a device"):
            ask(pipe)
    assert pipe.is_fifo()
    link.symlink_to(kept)
    save_race(RACE, link)
    assert link.is_symlink()
    assert kept.is_file()


def test_a_name_that_is_too_long_is_one_sentence_and_a_long_one_is_none(tmp_path):
    with pytest.raises(RecordError, match="cannot be saved: File name too long"):
        check_writable(tmp_path / ("x" * 300))
    assert save_race(RACE, tmp_path / ("x" * 250)).is_file()


def test_a_lone_surrogate_becomes_printable(tmp_path):
    start = lines()[0]
    start["settings"]["question"] = "\ud800"
    start["environment"] = {"\udfff": ["\ud800"]}
    write(tmp_path / "race.jsonl", [start])
    (loaded,) = load_race(tmp_path / "race.jsonl")
    assert loaded.settings["question"] == "?"
    assert loaded.environment == {"?": ["?"]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_nothing_but_a_record_error_comes_of_any_value(value):
    for record in (RACE[0], RACE[1], RACE[3], RACE[-2], RACE[-1]):
        for name in to_dict(record):
            with suppress(RecordError):
                from_dict({**to_dict(record), name: value})


def test_the_summary_is_what_the_command_line_prints():
    summary = race_summary(RACE)
    assert list(summary) == ["pair", "video", "settings", "lanes"]
    assert summary["pair"] == "shapes-qwen"
    assert summary["video"]["name"] == "clip.mp4"
    assert list(summary["lanes"]) == ["ar", "naive_sd", "specvlm", "lvspec"]
    for lane in summary["lanes"].values():
        assert list(lane) == list(records_module.SUMMARY_FIELDS)
        assert list(lane["verdicts"]) == list(VERDICTS)
        assert sum(lane["verdicts"].values()) == lane["tokens"] == len(lane["token_ids"])
    assert json.loads(json.dumps(summary)) == summary
    assert race_summary([]) == {"pair": None, "video": {}, "settings": {}, "lanes": {}}


def test_the_timeline_gives_every_lane_its_own_clock():
    start = RACE[0]
    race = [
        start,
        Prefill("vision", 1.0, ("ar", "lvspec"), 1, 2),
        Prefill("draft", 0.5, ("lvspec",), 2, 2),
        Round("lvspec", 1, 0.5, 0, 0, (), 0, ()),
        Round("ar", 1, 0.25, 0, 0, (), 0, ()),
        End("finished", 9.0),
    ]
    timed = timeline(race)
    assert [time for time, _ in timed] == [0.0, 1.0, 1.25, 1.5, 2.0, 2.0]
    assert [getattr(record, "lane", record.type) for _, record in timed] == ["start", "prefill", "ar", "prefill", "lvspec", "end"]
