"""The terminal view: what a person reads while a race runs and after it."""

from __future__ import annotations

import io
from dataclasses import replace

import fake_race
import pytest
from rich.console import Console

from lvspec_core.records import LaneEnd, Prefill, Round, Start, Token
from lvspec_core.settings import RaceSettings
from lvspec_core.terminal import MEANINGS, STYLES, LaneView, RaceView, follow, kind_of, style, watch
from lvspec_core.terminal_words import percent, plain_text, share

RACE = fake_race.recorded(RaceSettings(question="fast", max_new_tokens=60))


def drawn(renderable, width: int = 160, colour: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, height=50, force_terminal=colour, color_system="truecolor" if colour else None)
    console.print(renderable)
    return console.file.getvalue()


def view_of(records) -> RaceView:
    view = RaceView()
    view.feed(records)
    return view


def test_nothing_is_known_before_the_start():
    assert "Reading the video" in drawn(RaceView().live(80, 24))
    assert "Reading the video" in drawn(RaceView().final(80))


def test_only_all_of_it_reads_100():
    """One text in 300 that leaves AR's must not be rounded away, nor one that keeps it."""
    assert [share(value) for value in (1.0, 0.9996, 0.9967, 0.0001, 0.0, None)] == ["100.0%", "99.9%", "99.7%", "0.1%", "0.0%", "–"]
    assert [percent(value) for value in (1.0, 0.9967, 0.5, 0.001, 0.0, None)] == ["100 %", "99 %", "50 %", "1 %", "0 %", "–"]


def test_lanes_stand_side_by_side_where_they_fit():
    view = view_of(RACE[:40])
    wide = drawn(view.live(160, 24)).splitlines()
    assert any(all(name in line for name in ("AR", "naive SD", "SpecVLM", "LVSpec")) for line in wide)
    narrow = drawn(view.live(60, 60), 60).splitlines()
    assert not any("AR" in line and "LVSpec" in line for line in narrow)


@pytest.mark.parametrize(("width", "height"), [(160, 24), (80, 60), (60, 45), (200, 20)])
def test_the_live_view_stays_within_the_terminal(width, height):
    lines = drawn(view_of(RACE[:-5]).live(width, height), width).splitlines()
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)


def test_the_newest_words_show_when_there_is_no_room_for_all():
    tokens = tuple(Token(number, f" word{number}", "ar") for number in range(300))
    view = view_of([RACE[0], Round("ar", 1, 1.0, 0, 0, (), 0, tokens)])
    live = drawn(view.live(160, 16))
    assert "word299" in live
    assert "word0 " not in live
    assert "word0 " in drawn(view.final(160))


def test_the_speedup_compares_tokens_at_the_same_own_time():
    def round_of(lane, index, seconds, count):
        return Round(lane, index, seconds, 0, 0, (), 0, tuple(Token(0, " a", "ar") for _ in range(count)))

    race = [RACE[0], round_of("ar", 1, 1.0, 1), round_of("ar", 2, 2.0, 1), round_of("lvspec", 1, 1.0, 3), round_of("lvspec", 2, 4.0, 3)]
    view = view_of(race)
    # AR's clock stands at 2 s: AR has 2 tokens, LVSpec 3 and a third of its next 3
    assert view._speedup_now(view.lanes["lvspec"]) == pytest.approx(2.0)
    assert "2.00×" in drawn(view.live(160, 24))
    lane = LaneView("ar")
    assert lane.tokens_at(3.0) == 0


def test_the_final_view_has_every_figure_of_the_lanes():
    text = drawn(view_of(RACE).final(160))
    for end in (record for record in RACE if isinstance(record, LaneEnd)):
        assert f"{end.mean_accepted_length:.2f}" in text
        assert f"{end.speedup_decode:.2f}×" in text
    assert "identical" in text
    assert "reference" in text


def test_a_lane_that_differs_or_failed_says_so():
    ends = {record.lane: record for record in RACE if isinstance(record, LaneEnd)}
    race = [
        RACE[0],
        replace(ends["lvspec"], same_as_ar=False, first_difference=4),
        replace(ends["specvlm"], finish="failed", error="Out of memory."),
        replace(ends["naive_sd"], same_as_ar=None, finish="stopped"),
    ]
    text = view_of(race).plain()
    assert "differs at token 5" in text
    assert "failed" in text
    assert "stopped" in text
    assert "Out of memory." in drawn(view_of(race).live(160, 30))


def test_meaning_is_never_colour_alone():
    marks = [
        " ".join(word for word in STYLES[name].split() if not word.startswith("#"))
        for name in ("anchor", "exact", "loose", "shifted", "correction")
    ]
    assert len(set(marks)) == len(marks)
    assert set(MEANINGS) <= set(STYLES)


def test_an_anchor_is_underlined_however_it_entered():
    for verdict in ("exact", "shifted", "correction", "bonus", "ar"):
        token = Token(1, "red", verdict, 0.9, True)
        assert "underline" in style(token)
        assert kind_of(token) == ("anchor" if verdict in ("exact", "ar") else verdict)
    assert "underline" not in style(Token(1, "the", "exact", 0.1, False))
    assert kind_of(Token(1, "the", "ar", None, None)) == "ar"


def test_the_legend_counts():
    text = drawn(view_of(RACE).final(160))
    bonus = sum(token.verdict == "bonus" for record in RACE if isinstance(record, Round) for token in record.tokens)
    assert f"bonus {bonus} " in text


def test_text_cannot_steer_the_terminal():
    evil = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202e [bold]x[/bold]\r\n"
    start = replace(
        RACE[0], video={**RACE[0].video, "name": evil}, pair={"name": evil, "notice": evil}, settings={**RACE[0].settings, "question": evil}
    )
    race = [start, Prefill(evil, 0.1, ("ar",), 1, 1), Round("ar", 1, 0.1, 0, 0, (), 0, (Token(1, evil, "ar"),))]
    for text in (drawn(view_of(race).live(160, 24)), drawn(view_of(race).final(160)), view_of(race).plain()):
        assert not set(text) & set("\x1b\x07\x9b\u202e\r")
        assert "[bold]x[/bold]" in text
    assert plain_text("a\tb\nc") == "a b c"


def test_watching_draws_live_and_then_the_whole():
    console = Console(file=io.StringIO(), width=120, height=30, force_terminal=True, color_system="truecolor")
    watch([RACE[:5], RACE[5:20], RACE[20:]], console)
    text = console.file.getvalue()
    assert "identical" in text
    # the anchors' colour
    assert "38;2;86;180;233" in text


def test_following_tells_progress_in_lines(monkeypatch):
    monkeypatch.setattr("lvspec_core.terminal.TELL_SECONDS", 0)
    console = Console(file=io.StringIO(), width=120)
    follow([RACE[:3], RACE[3:20], RACE[20:]], console)
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == ["prefill 1/2 · vision · target 0.02 s", "prefill 2/2 · prompt · target 0.04 s"]
    assert lines[-1] == "AR 60 · naive SD 60 · SpecVLM 60 · LVSpec 60 tokens"


def test_following_on_a_terminal_keeps_to_one_line():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    follow([RACE[:3], RACE[3:20], RACE[20:]], console)
    assert "prefill 1/2" not in console.file.getvalue().splitlines()


def test_a_start_without_extras_is_enough():
    start = Start({"name": "p"}, {"name": "v"}, {"methods": ["ar"]}, {})
    assert "p" in drawn(view_of([start]).live(80, 24))
