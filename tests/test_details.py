"""What a race records for the inspector: only when asked, off the clock, in few bytes, and true."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace

import pytest

from lvspec_core import race as race_module
from lvspec_core.details import SPARE_ROWS
from lvspec_core.race import run_race
from lvspec_core.record_checks import TOP
from lvspec_core.records import Evidence, Prefill, Round, Start, Token, from_dict, to_dict
from lvspec_core.settings import RaceSettings

SETTINGS = RaceSettings(question="Describe the video.", draft_length=4, max_new_tokens=16, frames=4, details=True)
PROPOSALS = ("chain", "static_tree", "dynamic_tree")
MOST_BYTES = 4096  # a token


@pytest.fixture(scope="module")
def race(random_pair, make_clip):
    """Races by what is changed of SETTINGS, each run once."""
    made = {}

    def run(**changes):
        key = json.dumps(changes, sort_keys=True)
        if key not in made:
            made[key] = list(run_race(random_pair, make_clip(), replace(SETTINGS, **changes)))
        return made[key]

    return run


def rounds(records, *lanes: str) -> list[Round]:
    return [record for record in records if isinstance(record, Round) and (not lanes or record.lane in lanes)]


def test_without_details_a_record_is_what_it_was(race):
    records = race(details=False)
    assert not any(isinstance(record, Evidence) for record in records)
    assert records[0].thumbnails == ()
    for record in rounds(records):
        assert (record.target_top, record.draft_top, record.chances, record.why) == ((), (), (), "")


def without_relevance(record: Round) -> list[Token]:
    """A score's last digit turns with where in memory its tensors lie, from one race to the next."""
    return [replace(token, relevance=None) for token in record.tokens]


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_details_change_no_text(race, proposal):
    plain, told = (race(proposal=proposal, details=details) for details in (False, True))
    for lane in SETTINGS.methods:
        for one, other in zip(rounds(told, lane), rounds(plain, lane), strict=True):
            assert without_relevance(one) == without_relevance(other)
            assert [token.relevance for token in one.tokens] == pytest.approx([token.relevance for token in other.tokens], abs=2e-3)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_every_place_of_the_text_has_both_models_choices(race, proposal, temperature):
    for record in rounds(race(proposal=proposal, temperature=temperature)):
        assert len(record.tokens) <= len(record.target_top) <= record.accepted + 1 + SPARE_ROWS
        assert len(record.draft_top) == (len(record.target_top) if record.proposed else 0) or not any(record.draft_top)
        for top in (*record.target_top, *record.draft_top):
            chances = [chance for _, chance in top]
            assert len(top) <= TOP
            assert chances == sorted(chances, reverse=True)
            assert sum(chances) <= 1.001
        assert len(record.chances) == len(record.proposed)


def test_what_greedy_decoding_chose_is_the_targets_best(race):
    """Row i of a round stands where its token i does: or the inspector would explain another word."""
    for record in rounds(race(), "ar", "naive_sd", "specvlm"):
        for place, token in enumerate(record.tokens):
            # a text's first word has no space before it
            assert record.target_top[place][0][0].strip() == token.text.strip(), (record.lane, record.index, place)
        for place, (_, text) in enumerate(record.proposed[: record.accepted + 1]):
            assert record.draft_top[place][0] == (text, pytest.approx(record.chances[place][0], abs=1e-4))


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_chance_is_what_the_models_top_five_say_of_the_token(race, proposal):
    """For the tokens of the accepted path, which stand at rows that the record describes."""
    checked = 0
    for record in rounds(race(proposal=proposal)):
        for place, (_, text) in enumerate(record.proposed[: record.accepted]):
            for top, chance in zip((record.draft_top[place], record.target_top[place]), record.chances[place], strict=True):
                listed = [share for word, share in top if word == text]
                if listed:
                    checked += 1
                    assert chance == pytest.approx(listed[0], abs=1e-4)
    assert checked > 10


def test_only_a_rejection_of_a_loose_lane_has_a_reason(race):
    records = race(anchor_quantile=0.5, max_new_tokens=48)
    for record in rounds(records):
        rejected = record.tokens[-1].verdict == "correction"
        assert not record.why or (rejected and record.lane == "lvspec")
    reasons = {record.why for record in rounds(records, "lvspec")}
    assert "anchor" in reasons


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_token_costs_less_than_4_kb(race, proposal):
    """Evidence and pictures included, on a pair whose draft is mostly wrong: there a round brings few tokens."""
    records = race(proposal=proposal, max_new_tokens=48)
    for lane in SETTINGS.methods:
        tokens = sum(len(record.tokens) for record in rounds(records, lane))
        mine = [each for each in records if getattr(each, "lane", None) == lane or lane in getattr(each, "lanes", ())]
        size = sum(len(json.dumps(to_dict(each), ensure_ascii=False).encode()) for each in mine)
        assert size / tokens < MOST_BYTES, lane


def test_details_survive_json(race):
    for proposal in PROPOSALS:
        records = race(proposal=proposal)
        assert [from_dict(json.loads(json.dumps(to_dict(record)))) for record in records] == records


def test_the_start_holds_the_frames_and_the_threshold(race, random_pair):
    start = race()[0]
    assert isinstance(start, Start)
    assert len(start.thumbnails) == 4
    assert all(each.startswith("data:image/jpeg;base64,") for each in start.thumbnails)
    assert start.threshold == random_pair.calibration.threshold


def test_the_prefill_tells_what_each_draft_sees(race):
    sights = {record.lanes[0]: record for record in race() if isinstance(record, Prefill) and record.grid}
    assert set(sights) == {"naive_sd", "specvlm", "lvspec"}
    assert len({sight.grid for sight in sights.values()}) == 1
    time, rows, columns = sights["lvspec"].grid
    assert sights["naive_sd"].kept == ""
    for lane in ("specvlm", "lvspec"):
        assert kept_count(sights[lane].kept) == round(time * rows * columns * (1 - SETTINGS.pruning_ratio))


def kept_count(kept: str) -> int:
    return sum(bin(byte).count("1") for byte in base64.b64decode(kept))


def test_a_lane_without_details_keeps_no_logits(random_pair, make_clip, monkeypatch):
    """What is off is not collected: nothing of a round outlives it."""
    seen = []
    original = race_module.Scribe.write

    def spy(self, waiting):
        seen.extend(outcome.seen for _, outcome in waiting)
        return original(self, waiting)

    monkeypatch.setattr(race_module.Scribe, "write", spy)
    list(run_race(random_pair, make_clip(), replace(SETTINGS, details=False, methods=("ar", "lvspec"))))
    assert seen
    assert set(seen) == {None}


@pytest.mark.clock
def test_details_are_made_after_the_clock_has_stopped(random_pair, make_clip, monkeypatch):
    slow = race_module.round_details

    def dawdling(*args):
        time.sleep(0.02)
        return slow(*args)

    monkeypatch.setattr(race_module, "round_details", dawdling)
    records = list(run_race(random_pair, make_clip(), replace(SETTINGS, methods=("ar",))))
    (end,) = (record for record in records if record.type == "lane")
    assert end.decode_seconds < 16 * 0.02
    assert records[-1].wall_seconds > 16 * 0.02
