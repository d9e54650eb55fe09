"""A race as its callers see it: records in order, clocks that only run for their lane, lanes that fail alone."""

from __future__ import annotations

import gc
import time
import weakref
from dataclasses import replace

import pytest
import torch

from lvspec_core import race as race_module
from lvspec_core.decoding import Lane
from lvspec_core.errors import SettingsError
from lvspec_core.families.cache import KVCache
from lvspec_core.race import run_race
from lvspec_core.records import End, LaneEnd, Prefill, Round, Start, from_dict, to_dict
from lvspec_core.settings import METHODS, RaceSettings

SETTINGS = RaceSettings(question="Describe the video.", draft_length=4, max_new_tokens=16, frames=4)


@pytest.fixture(scope="module")
def records(random_pair, make_clip):
    return list(run_race(random_pair, make_clip(), SETTINGS))


def lanes(records) -> dict[str, LaneEnd]:
    return {record.lane: record for record in records if isinstance(record, LaneEnd)}


def test_records_come_in_order_start_prefill_rounds_lanes_end(records):
    kinds = [type(record) for record in records]
    order = [Start, Prefill, Round, LaneEnd, End]
    assert [order.index(kind) for kind in kinds] == sorted(order.index(kind) for kind in kinds)
    assert kinds.count(Start) == kinds.count(End) == 1
    assert tuple(lanes(records)) == METHODS
    assert records[-1].finish == "finished"


def test_every_record_survives_json(records):
    assert [from_dict(to_dict(record)) for record in records] == records


def test_the_start_says_what_a_reader_must_know(records):
    start = records[0]
    assert start.pair["relevance"]["scorer"] == "draft_attention"
    assert start.pair["strict_notice"] == ""
    assert start.pair["target"].count("/") == 1, "no path of this machine"
    assert start.video["frames"] == 4
    assert start.settings == SETTINGS.to_dict()
    assert start.environment["threads"] == torch.get_num_threads()


def test_the_prefill_bar_runs_to_its_end_and_is_paid_for_by_the_lanes(records):
    parts = [record for record in records if isinstance(record, Prefill)]
    assert [part.done for part in parts] == list(range(1, parts[0].total + 1))
    for name, lane in lanes(records).items():
        assert lane.prefill_seconds == pytest.approx(sum(part.seconds for part in parts if name in part.lanes))
    paid = {name: {part.part for part in parts if name in part.lanes} for name in METHODS}
    assert paid["ar"] < paid["naive_sd"]
    assert "question with attention · target" in paid["specvlm"]
    assert not any("draft" in part for part in paid["ar"])


def test_lossless_lanes_are_found_to_be_so(records):
    ends = lanes(records)
    assert ends["naive_sd"].same_as_ar is ends["specvlm"].same_as_ar is True
    for end in ends.values():
        assert sum(end.verdicts.values()) == end.tokens == len(end.token_ids) == 16
        assert end.anchors + end.fillers == end.tokens
        assert end.speedup_decode > 0
        assert end.finish == "token budget"


def test_the_lane_with_the_least_own_time_goes_next(records):
    clocks = dict.fromkeys(METHODS, 0.0)
    running = set(METHODS)
    for record in records:
        if isinstance(record, Round):
            assert clocks[record.lane] == min(clocks[name] for name in running)
            clocks[record.lane] = record.seconds
            if record is [r for r in records if isinstance(r, Round) and r.lane == record.lane][-1]:
                running.discard(record.lane)


@pytest.mark.clock
def test_a_lanes_clock_runs_only_while_it_computes(random_pair, make_clip):
    """A consumer that dawdles over every record costs no lane anything."""
    settings = replace(SETTINGS, methods=("ar",), max_new_tokens=5)
    made = []
    for record in run_race(random_pair, make_clip(), settings):
        made.append(record)
        time.sleep(0.1)
    (lane,) = lanes(made).values()
    assert made[-1].wall_seconds > 1.0
    assert lane.prefill_seconds + lane.decode_seconds < 0.5


def test_every_lane_gives_the_same_text_alone_as_in_company(random_pair, make_clip, records):
    for name, together in lanes(records).items():
        alone = lanes(list(run_race(random_pair, make_clip(), replace(SETTINGS, methods=(name,)))))[name]
        assert alone.token_ids == together.token_ids, name


def test_the_same_position_has_the_same_relevance_in_every_lane(records):
    scored = {name: [t.relevance for r in records if isinstance(r, Round) and r.lane == name for t in r.tokens] for name in METHODS}
    assert scored["naive_sd"] == pytest.approx(scored["ar"], abs=2e-4)
    shared = lanes(records)["lvspec"].first_difference or 16
    assert scored["lvspec"][: shared + 1] == pytest.approx(scored["ar"][: shared + 1], abs=2e-4)


def test_stop_keeps_what_was_generated(random_pair, make_clip):
    calls = iter(range(10_000))
    records = list(run_race(random_pair, make_clip(), replace(SETTINGS, max_new_tokens=200), lambda: next(calls) > 30))
    assert records[-1].finish == "stopped"
    ends = lanes(records)
    assert {end.finish for end in ends.values()} == {"stopped"}
    assert all(end.tokens > 0 for end in ends.values())
    rounds = [record for record in records if isinstance(record, Round)]
    assert len(rounds) <= 31
    assert sum(end.rounds for end in ends.values()) == len(rounds)


def test_stop_during_the_prefill_ends_the_race_with_empty_lanes(random_pair, make_clip):
    calls = iter(range(10_000))
    records = list(run_race(random_pair, make_clip(), SETTINGS, lambda: next(calls) >= 2))
    assert sum(isinstance(record, Prefill) for record in records) == 2
    assert {end.tokens for end in lanes(records).values()} == {0}
    assert records[-1].finish == "stopped"


def test_closing_the_race_frees_every_cache(random_pair, make_clip, monkeypatch):
    alive = weakref.WeakSet()
    original = KVCache.__init__

    def spy(self, *args, **kwargs):
        original(self, *args, **kwargs)
        alive.add(self)

    monkeypatch.setattr(KVCache, "__init__", spy)
    running = run_race(random_pair, make_clip(), SETTINGS)
    for record in running:
        if isinstance(record, Round):
            break
    assert len(alive) >= 10
    running.close()
    gc.collect()
    assert len(alive) == 0


def test_a_lane_that_fails_ends_with_a_sentence_and_the_others_go_on(random_pair, make_clip, monkeypatch, records):
    original = Lane.round

    def broken(self):
        if self.method == "naive_sd" and self.rounds == 2:
            raise RuntimeError("boom at /some/where")
        return original(self)

    monkeypatch.setattr(Lane, "round", broken)
    ends = lanes(list(run_race(random_pair, make_clip(), SETTINGS)))
    failed = ends.pop("naive_sd")
    assert (failed.finish, failed.rounds, failed.same_as_ar in (None, False)) == ("failed", 2, True)
    assert "RuntimeError" in failed.error
    assert "/some/where" not in failed.error
    assert {name: end.token_ids for name, end in ends.items()} == {n: e.token_ids for n, e in lanes(records).items() if n != "naive_sd"}


@pytest.mark.parametrize(("error", "words"), [(MemoryError(), "memory did not suffice"), (SettingsError("Say less."), "Say less.")])
def test_what_a_user_is_told_of_a_failure(error, words):
    assert words in race_module.sentence_for(error)


def test_a_draft_that_cannot_be_read_fails_its_lane_only(random_pair, make_clip, monkeypatch):
    from lvspec_core import prefill

    def broken(*args):
        raise MemoryError

    monkeypatch.setattr(prefill, "specvlm_keep", broken)
    ends = lanes(list(run_race(random_pair, make_clip(), SETTINGS)))
    assert ends["specvlm"].finish == "failed"
    assert "memory" in ends["specvlm"].error
    assert {ends[name].finish for name in METHODS if name != "specvlm"} == {"token budget"}


def test_everything_fails_in_order_when_the_video_cannot_be_encoded(random_pair, make_clip, monkeypatch):
    monkeypatch.setattr(type(random_pair.target), "video_features", lambda *args: 1 / 0)
    records = list(run_race(random_pair, make_clip(), SETTINGS))
    assert {end.finish for end in lanes(records).values()} == {"failed"}
    assert records[-1].finish == "finished"


def test_more_than_the_context_holds_is_one_sentence(random_pair, make_clip, monkeypatch):
    monkeypatch.setattr(random_pair.target, "context", 50)
    with pytest.raises(SettingsError, match=r"take \d+ tokens, and with 16 new tokens that is more than the 50"):
        list(run_race(random_pair, make_clip(), SETTINGS))


def test_wrong_settings_are_refused_before_anything_runs(random_pair, make_clip):
    with pytest.raises(SettingsError, match="draft length"):
        next(run_race(random_pair, make_clip(), replace(SETTINGS, draft_length=99)))


def test_without_a_calibration_lvspec_is_strict_and_says_so(random_pair, make_clip, records):
    strict = replace(random_pair, calibration=None)
    made = list(run_race(strict, make_clip(), SETTINGS))
    start, ends = made[0], lanes(made)
    assert start.pair["relevance"] is None
    assert "verifies every token strictly" in start.pair["strict_notice"]
    assert ends["lvspec"].same_as_ar is True
    assert ends["lvspec"].anchors == ends["lvspec"].fillers == 0
    assert all(token.relevance is None and token.anchor is None for r in made if isinstance(r, Round) for token in r.tokens)


def test_race_of_one_lane_without_ar_claims_no_speedup(random_pair, make_clip):
    end = lanes(list(run_race(random_pair, make_clip(), replace(SETTINGS, methods=("lvspec",)))))["lvspec"]
    assert (end.speedup_decode, end.same_as_ar) == (None, None)
