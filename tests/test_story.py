"""A file whose records are fine one by one must still tell one race, in bounds, with summaries that are true."""

from __future__ import annotations

import json
import time

import pytest
from fake_race import recorded

from lvspec_core import story
from lvspec_core.errors import RecordError
from lvspec_core.race_files import MAX_LINE_BYTES, load_race
from lvspec_core.records import to_dict

RACE = [json.loads(json.dumps(to_dict(record))) for record in recorded()]
START, PREFILL = RACE[:2]
ROUND = next(record for record in RACE if record["type"] == "round" and record["lane"] == "lvspec")


def refused(tmp_path, lines, expected: str) -> None:
    path = tmp_path / "race.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    began = time.monotonic()
    with pytest.raises(RecordError, match=rf"^Line \d+ of race\.jsonl cannot be read: .*{expected}.*\.$"):
        load_race(path)
    assert time.monotonic() - began < 20


def with_methods(*methods: str) -> dict:
    return {**START, "settings": {**START["settings"], "methods": list(methods)}}


def changed(kind: str, lane: str, **changes) -> list[dict]:
    return [{**record, **changes} if record["type"] == kind and record.get("lane") == lane else record for record in RACE]


def test_the_lanes_are_few_short_and_different(tmp_path):
    refused(tmp_path, [with_methods(*map(str, range(story.MOST_LANES + 1)))], "at most 16 lanes")
    refused(tmp_path, [with_methods("ar", "ar")], "each only once")
    for name in ("", "x" * 41):
        refused(tmp_path, [with_methods(name)], "from 1 to 40 characters")


def test_a_clock_does_not_run_backwards(tmp_path):
    refused(tmp_path, [START, {**ROUND, "seconds": 2.0}, {**ROUND, "seconds": 1.0}], "runs backwards")


def test_a_lane_ends_once(tmp_path):
    (end,) = (record for record in RACE if record["type"] == "lane" and record["lane"] == "lvspec")
    refused(tmp_path, [*RACE[:-1], end], "two summaries")
    refused(tmp_path, [*RACE[:-1], {**ROUND, "seconds": 99}], "goes on after its summary")


def test_a_summary_tells_what_its_rounds_wrote(tmp_path):
    (end,) = (record for record in RACE if record["type"] == "lane" and record["lane"] == "specvlm")
    refused(tmp_path, changed("lane", "specvlm", token_ids=end["token_ids"][::-1]), "names other tokens than its rounds wrote")


def test_no_file_may_call_a_text_ars_that_is_not(tmp_path):
    other = [
        {**record, "tokens": [{**record["tokens"][0], "id": 98}, *record["tokens"][1:]]} if record is ROUND else record for record in RACE
    ]
    ids = [token["id"] for record in other if record["type"] == "round" and record["lane"] == "lvspec" for token in record["tokens"]]
    lying = [
        {**record, "token_ids": ids, "same_as_ar": True} if record["type"] == "lane" and record["lane"] == "lvspec" else record
        for record in other
    ]
    refused(tmp_path, lying, "of its text and AR's what is not so")
    refused(tmp_path, changed("lane", "naive_sd", same_as_ar=False), "of its text and AR's what is not so")


def test_a_race_is_in_bounds(tmp_path, monkeypatch):
    refused(tmp_path, [START, {**ROUND, "tokens": [{**ROUND["tokens"][0], "text": "x" * 1001}]}], "more than 1,000 characters")
    refused(tmp_path, [START, {**ROUND, "accepted": 0, "proposed": [[1, "x" * 1001]]}], "more than 1,000 characters")
    monkeypatch.setattr(story, "MOST_TOKENS", 100)
    refused(tmp_path, [START, *[ROUND] * 40], "more than 100 tokens")
    monkeypatch.setattr(story, "MOST_RECORDS", 50)
    refused(tmp_path, [START, *[PREFILL] * 60], "more than 50 records")


@pytest.mark.parametrize("depth", [40, 400, 700, 900, 2000])
def test_deep_nesting_is_refused_not_suffered(tmp_path, depth):
    nested = '{"a":' * depth + "1" + "}" * depth
    line = json.dumps({**START, "environment": {"x": 0}}).replace('"x": 0', f'"x": {nested}')
    refused(tmp_path, [line], "nested more than 32 levels|not JSON")


def test_large_values_are_refused_at_once(tmp_path):
    refused(tmp_path, [{**START, "environment": {"x": [0] * 30_000}}], "more than 20,000 values")
    refused(tmp_path, [{**START, "environment": {"x": "y" * MAX_LINE_BYTES}}], "longer than 4 MiB")


def test_a_stopped_race_is_read(tmp_path):
    cut = [record for record in RACE if record["type"] in ("start", "prefill")] + [ROUND]
    path = tmp_path / "race.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in cut))
    assert len(load_race(path)) == len(cut)
