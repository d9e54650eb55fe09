"""What the page and its endpoints do: races, film strips, saved races. Every error leaves here as one sentence."""

from __future__ import annotations

import html
import json
import os
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import gradio as gr

import zero_gpu
from lvspec_core import view
from lvspec_core.errors import SettingsError, UserError, VideoError
from lvspec_core.race_files import load_race, save_race
from lvspec_core.records import Record, of_the_race, race_summary, to_dict
from lvspec_core.settings import DEFAULT_QUESTION, METHODS, RaceSettings
from lvspec_core.turns import Turns
from lvspec_core.worker import get_worker
from page_pairs import OFFER, OWN, chosen_pair

ZERO_GPU = bool(os.environ.get("SPACES_ZERO_GPU"))
DEFAULTS = RaceSettings(pair=OFFER.default)
# the settings with a control of their own, in the order in which the page hands them in
KNOBS = (
    *("frames", "pruning_ratio", "draft_length", "max_new_tokens", "seed"),
    *("proposal", "adaptive", "temperature", "top_p"),
    *("plausibility", "top_k", "window", "entropy_gate", "shift"),
)
MOST_IN_A_ROW = 24
TURNS = Turns()
STOPS: dict[str, threading.Event] = {}
RACING: set[threading.Event] = set()  # of STOPS, those whose race has left the queue


def prepare() -> None:
    """Gets the default pair ready before anybody asks for it."""
    if ZERO_GPU:
        zero_gpu.place(DEFAULTS.pair)
    else:
        get_worker().warm(DEFAULTS.pair)


def race_stream(path: str, settings: RaceSettings, stop: threading.Event) -> Iterator[list[Record]]:
    """Batches of new records, from the GPU process of a ZeroGPU Space or from the worker process."""
    if not ZERO_GPU:
        yield from get_worker().race(path, settings, stop, OWN.get(settings.pair))
        return
    # a file is read, and a bad one refused, before a GPU is asked for
    clip = get_worker().read(path, settings.frames)
    yield from zero_gpu.race(clip, settings, stop)


def settings_of(pair: str, question: str, methods: list[str], calibrated: bool, share: float, *knobs: float | str) -> RaceSettings:
    """The page's inputs as settings; raises SettingsError."""
    named = dict(zip(KNOBS, knobs, strict=True))
    quantile = None if calibrated else share
    chosen_pair(pair)
    methods = tuple(methods or ())
    # the inspector shows what a race without details does not record
    return RaceSettings(pair=pair, question=question or "", methods=methods, anchor_quantile=quantile, details=True, **named).validated()


def race_on_page(request: gr.Request, path: str | None, pair: str, question: str, methods: list[str], *knobs: float):
    """The page's race: yields (board, download) until it is over; every error ends as one sentence on the board."""
    feed = view.Feed()
    stop = STOPS[request.session_hash] = threading.Event()
    try:
        if not path:
            raise VideoError("Choose a video first: drop a file, record one, or click a sample.")
        settings = settings_of(pair, question, methods, *knobs)
        with TURNS.ticket() as ticket:
            place = ticket.place
            yield feed.waiting(place), gr.skip()
            while place and not stop.is_set():
                ahead, place = place, ticket.wait(0.25)
                # a value now and then, also when nothing moved, is how a closed tab is noticed
                yield feed.waiting(place) if place != ahead else gr.skip(), gr.skip()
            if not stop.is_set():
                RACING.add(stop)
                for batch in race_stream(path, settings, stop):
                    yield feed.running(batch), gr.skip()
        yield from finish(feed, feed.over())
    except UserError as error:
        yield from finish(feed, feed.failed(str(error)))
    except Exception as error:
        traceback.print_exc()
        yield from finish(feed, feed.failed(f"Something went wrong ({type(error).__name__}); the server’s log says what."))
    finally:
        RACING.discard(stop)
        if STOPS.get(request.session_hash) is stop:
            del STOPS[request.session_hash]


def race_in_a_row(request: gr.Request, paths: list[str] | None, *inputs):
    """Races several videos one after the other, each as the page's race; ends with the first that is stopped."""
    paths = (paths or [])[:MOST_IN_A_ROW]
    failures = []
    for path in paths:
        stop, board = None, None
        for board, download in race_on_page(request, path, *inputs):
            stop = STOPS.get(request.session_hash, stop)
            yield board, download
        ended = json.loads(board[0])
        if ended["state"] == "failed":
            failures.append(ended["message"])
        if stop is not None and stop.is_set():
            break
    if failures:
        gr.Warning(html.escape(f"{len(failures)} of {len(paths)} videos could not be raced: {failures[0]}"))


def finish(feed: view.Feed, last: list[str]):
    """Ends the race on the board; whatever was written can be saved."""
    if not feed.records:
        yield last, gr.skip()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = save_race(feed.records, Path(folder) / file_name(feed.records[0]))
        # the page copies the file before this generator goes on
        yield last, gr.DownloadButton(value=str(path), interactive=True)


def file_name(start: Record) -> str:
    """A race file's name, made of the video's."""
    name = Path(start.video["name"]).stem
    return f"race-{''.join(letter if letter.isalnum() or letter in '-_' else '-' for letter in name)[:60]}.jsonl"


def stop_race(request: gr.Request) -> None:
    """Ends the visitor's race within one round; what was written stays."""
    stop = STOPS.get(request.session_hash)
    if stop:
        stop.set()


def open_race(path: str, request: gr.Request):
    """Draws a saved race; it needs no model, and no place in the queue. Not while a race of this tab takes the board."""
    if STOPS.get(request.session_hash) in RACING:
        gr.Info("A race is on the board: press Stop or wait for its end, then open the recorded one.")
        return gr.skip()
    feed = view.Feed(recorded=True)
    try:
        return feed.over(load_race(path))
    except UserError as error:
        # Gradio's notices are HTML
        gr.Warning(html.escape(str(error)))
        return gr.skip()


def show_strip(path: str | None, frames: float):
    """Yields the states of the film strip for a newly chosen file."""
    if not path:
        yield {"state": "empty"}
        return
    yield {"state": "reading"}
    try:
        yield {"state": "ready", **get_worker().strip(path, int(frames))}
    except UserError as error:
        yield {"state": "failed", "message": str(error)}


def api_race(file: str, question: str = DEFAULT_QUESTION, methods: list[str] | None = None, settings: dict | None = None) -> Iterator[dict]:
    """Races decoding methods over one video and one question with the same weights.

    Args:
        file: The video.
        question: What the models are asked about the video.
        methods: Which of ar, naive_sd, specvlm, lvspec take part, all by default; speedups are against ar.
        settings: Further settings by name, such as {"pair": "shapes-qwen", "frames": 8, "draft_length": 8, "max_new_tokens": 192}.

    Returns:
        {"summary": pair, video, settings and the figures of every lane, "records": the whole race, record by record}
    """
    try:
        if not file:
            raise VideoError("Choose a video first.")
        if not isinstance(settings or {}, dict):
            raise SettingsError('The settings must be an object, such as {"frames": 8}.')
        chosen = RaceSettings.from_dict(
            {"pair": DEFAULTS.pair, **(settings or {}), "question": question, "methods": METHODS if methods is None else methods}
        ).validated()
        chosen_pair(chosen.pair)
        with TURNS.ticket() as ticket:
            # nothing to say before the end; a yield now and then is how a client that has gone is noticed
            while ticket.wait(1):
                yield gr.skip()
            records = []
            for batch in race_stream(file, chosen, threading.Event()):
                records += of_the_race(batch)
                yield gr.skip()
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None
    yield {"summary": race_summary(records), "records": [to_dict(record) for record in records]}


def api_film_strip(file: str, frames: int = DEFAULTS.frames) -> dict:
    """Shows what the models will see of a video: frames sampled evenly over it.

    Args:
        file: The video.
        frames: How many frames are sampled.

    Returns:
        {"video": name, seconds, fps, width, height, …, "frames": [{"time": seconds, "image": a JPEG as a data URL}]}
    """
    try:
        return get_worker().strip(file, frames)
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None
