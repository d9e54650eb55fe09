"""Queue, closed tabs, crashes and failures, with a stand-in for the models: the question says how the race goes."""

from __future__ import annotations

import re
import time

import av
import httpx
import numpy as np
import pytest
from conftest import SAMPLES
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)


def race_without_end(tab) -> None:
    """Starts a race that only a stop, or the tab's end, ends."""
    tab.ask("endless")
    tab.race()
    tab.state("running")


def behind_a_race_without_end(standin, visit) -> tuple:
    """Two tabs with a clip chosen: the first one races, the second would wait for it."""
    first, second = visit(standin), visit(standin)
    for tab in (first, second):
        tab.sample(0)
    race_without_end(first)
    return first, second


def test_a_second_visitor_sees_the_place_in_the_queue(standin, visit):
    first, second = behind_a_race_without_end(standin, visit)
    second.race()
    second.page.wait_for_function("document.querySelector('.lv-headline').textContent.includes('1 race before yours')")
    # an empty board is filled with a recorded race, which plays; others may be opened
    detail = second.page.locator(".lv-detail")
    expect(detail).to_contain_text("Meanwhile a recorded race")
    expect(second.page.locator(".lv-play")).to_have_text("Pause")
    before = detail.inner_text()
    second.shot("race-waiting")
    second.page.locator(".lv-examples button").nth(1).click()
    expect(detail).not_to_have_text(before)
    expect(detail).to_contain_text("Meanwhile a recorded race")
    assert second.state("waiting") == "waiting"
    assert second.page.is_visible("#stop")
    second.until(lambda: second.tokens("ar") > 0, why="the recorded race plays from its start")
    first.page.click("#stop")
    first.state("stopped")
    second.state("finished")
    expect(second.page.locator(".lv-lane[data-lane=ar] .lv-text")).to_contain_text("The clip shows two small red circles")
    assert "recorded" not in detail.inner_text()
    assert second.page.locator(".toast-body:visible").count() == 0


def test_a_place_in_the_queue_can_be_given_up(standin, visit):
    first, second = behind_a_race_without_end(standin, visit)
    second.ask("endless")
    second.race()
    second.page.wait_for_function("document.querySelector('.lv-headline').textContent.includes('before yours')")
    second.page.click("#stop")
    second.state("stopped")
    expect(second.headline).to_contain_text("before anything was written")
    first.page.click("#stop")
    first.state("stopped")


def test_a_recorded_race_to_wait_by_is_dropped_when_the_place_was_given_up(standin, visit):
    """It is asked for by itself; what a visitor opens after that is shown."""
    first, second = behind_a_race_without_end(standin, visit)
    second.ask("endless")
    # a slow server: the recorded race comes when it is told to
    second.page.evaluate("window.slow = window.lvspecExample; window.lvspecExample = () => { window.called = true; }")
    second.race()
    second.page.wait_for_function("window.called && document.querySelector('.lv-headline').textContent.includes('before yours')")
    second.page.click("#stop")
    second.state("stopped")
    # the board reads every value that comes
    second.page.evaluate(
        "() => { const read = JSON.parse; JSON.parse = (...texts) => { const value = read(...texts);"
        " if (value && value.recorded) window.came = true; return value; }; window.slow(); }"
    )
    second.page.wait_for_function("window.came")
    second.still()
    assert second.page.get_attribute(".lv-board", "data-state") == "stopped"
    second.page.locator(".lv-examples button").first.click()
    second.state("finished")
    first.page.click("#stop")
    first.state("stopped")


def test_a_recorded_race_does_not_cut_into_a_running_one(standin, visit):
    """Both would write on one board."""
    tab = visit(standin)
    tab.sample(0)
    race_without_end(tab)
    tab.page.locator(".lv-examples button").first.dispatch_event("click")
    expect(tab.page.locator(".toast-body").first).to_contain_text("press Stop or wait for its end")
    name = tab.page.locator(".lv-detail").text_content().split(" · ")[0]
    chosen = tab.page.locator(".lv-strip b").inner_text()
    tab.page.locator(".lv-samples button").nth(1).dispatch_event("click")
    expect(tab.page.locator(".lv-strip b")).not_to_have_text(chosen)
    expect(tab.page.locator(".lv-board")).to_have_attribute("data-state", "running")
    tab.page.click("#stop")
    tab.state("stopped")
    expect(tab.page.locator(".lv-detail")).to_have_text(re.compile("^" + re.escape(name)))
    tab.page.locator(".lv-examples button").first.click()
    tab.state("finished")


@pytest.mark.clock
def test_a_closed_tab_ends_its_race(standin, visit):
    first, second = visit(standin), visit(standin)
    for tab in (first, second):
        tab.sample(0)
    race_without_end(first)
    first.page.close()
    began = time.monotonic()
    second.race()
    second.state("running", "finished")
    assert time.monotonic() - began < 10  # Gradio's heartbeat alone would take 15 s
    second.state("finished")


@pytest.mark.clock
def test_a_program_that_goes_away_ends_its_race(standin, visit):
    """As a program that is killed would: the race is asked for, its events are read, the connection breaks."""
    clip = next(SAMPLES.glob("*.mp4"))
    with httpx.Client(base_url=standin.url, timeout=20) as client:
        with clip.open("rb") as file:
            path = client.post("gradio_api/upload", files={"files": file}).json()[0]
        inputs = {"path": path, "meta": {"_type": "gradio.FileData"}}
        asked = client.post("gradio_api/call/race", json={"data": [inputs, "endless", None, {}]}).json()
        with client.stream("GET", f"gradio_api/call/race/{asked['event_id']}") as events:
            for line in events.iter_lines():
                if line.startswith("event: generating"):
                    break
    tab = visit(standin)
    tab.sample(0)
    began = time.monotonic()
    tab.race()
    tab.state("running", "finished")
    assert time.monotonic() - began < 10  # Gradio's heartbeat alone would take 15 s
    tab.state("finished")


def test_a_crash_costs_one_race(standin, visit):
    tab = visit(standin)
    tab.sample(0)
    tab.ask("kill")
    tab.race()
    tab.state("failed")
    tab.until(lambda: len(tab.headline.inner_text()) > 20, why="a sentence says what happened")
    assert "Traceback" not in tab.page.inner_text("body")
    tab.shot("race-crashed")
    tab.ask("plain")
    tab.race()
    tab.state("finished")


def test_an_unexpected_fault_tells_no_secrets(standin, visit):
    tab = visit(standin)
    tab.sample(0)
    tab.ask("raise")
    tab.race()
    tab.state("failed")
    assert "secret" not in tab.page.inner_text("body")


@pytest.mark.parametrize(("question", "sentence"), [("", "Type a question"), ("x" * 2001, "shorten it")])
def test_a_question_out_of_bounds_gets_a_sentence(standin, visit, question, sentence):
    tab = visit(standin)
    tab.sample(0)
    tab.ask(question)
    tab.race()
    tab.state("failed")
    expect(tab.headline).to_contain_text(sentence)


def test_what_stands_on_the_board_survives_a_failed_start(standin, visit):
    tab = visit(standin)
    tab.sample(0)
    tab.race()
    tab.state("finished")
    written = tab.tokens("ar")
    tab.ask("")
    tab.race()
    tab.state("failed")
    tab.still()
    assert tab.tokens("ar") == written


def test_without_ar_there_is_no_speedup(standin, visit):
    tab = visit(standin)
    tab.sample(0)
    tab.page.locator("#methods input").first.uncheck()
    tab.race()
    tab.state("finished")
    expect(tab.page.locator(".lv-lane")).to_have_count(3)
    expect(tab.page.locator(".lv-lane[data-lane=lvspec] .lv-big")).to_have_text("–")
    expect(tab.page.locator(".lv-badge:visible")).to_have_count(0)


def test_frames_follow_the_slider(standin, visit):
    tab = visit(standin)
    tab.sample(0)
    tab.advanced()
    number = tab.page.get_by_label("number input for Frames")
    number.fill("4")
    number.press("Tab")
    tab.page.wait_for_function("document.querySelectorAll('.lv-frames img').length === 4")


def test_a_file_that_the_browser_cannot_play_still_shows_its_frames(standin, visit, tmp_path):
    path = tmp_path / "phone.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("hevc", rate=8)
        stream.width, stream.height, stream.pix_fmt = 160, 128, "yuv420p"
        for level in range(16):
            pixels = np.full((128, 160, 3), level * 15, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    tab = visit(standin)
    tab.upload(path)
    tab.page.wait_for_function("document.querySelector('.lv-strip').innerText.includes('this browser cannot play the file')")
    expect(tab.page.locator(".lv-frames img")).to_have_count(8)
    expect(tab.page.locator(".toast-body:visible")).to_have_count(0)
    tab.race()
    tab.state("finished")
