"""The command line: race a video, replay a saved race, and the tools around the bundled pair."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console

from lvspec_core import __version__
from lvspec_core.errors import SettingsError, UserError
from lvspec_core.pair_options import add_pair_options, chosen_pair, not_registered
from lvspec_core.race_files import check_writable, load_race, save_race, write_whole
from lvspec_core.records import LaneEnd, Record, of_the_race, race_summary, timeline
from lvspec_core.setting_options import add_setting_options, settings_of
from lvspec_core.settings import RaceSettings
from lvspec_core.terminal import RaceView, follow, watch
from lvspec_core.terminal_words import plain_text, title
from lvspec_core.view import race_page
from lvspec_core.worker import get_worker

# subcommand -> (module whose main(argv) it is, help): imported only when asked for, since they import torch
TOOLS = {
    "bench": ("lvspec_core.bench", "measure the methods over many clips"),
    "calibrate": ("lvspec_core.calibrate", "find a pair's anchor threshold"),
    "evaluate": ("lvspec_core.evaluation", "score the methods' answers against a data set"),
    "examples": ("lvspec_core.examples", "record the example races again"),
    "gpu-check": ("lvspec_core.gpu_check.command", "measure what the steps of a round cost on this GPU"),
    "heat": ("lvspec_core.shapes.heat", "find the target's layers that show where it looked"),
    "lmms-shapes": ("lvspec_core.lmms.shapes_task", "write clips of shapes as tasks for lmms-eval"),
    "pairs": ("lvspec_core.pair_table", "list the pairs and the memory that they need"),
    "report": ("lvspec_core.report", "put evaluations side by side, as tables, one HTML page or CSV"),
    "train-shapes": ("lvspec_core.shapes.train", "train the bundled pair"),
}
SPEEDS = (0.001, 1000.0)
REPLAY_FRAME_SECONDS = 1 / 15
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line."""

    def error(self, message: str) -> None:
        self.exit(2, f"error: {plain_text(message)} (see {self.prog} --help)\n")


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 when a lane failed, 2 for what the user can put right, 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows ASCII alone shows the rest as question marks
            stream.reconfigure(errors="replace")
    try:
        if argv and argv[0] in TOOLS and available(argv[0]):
            return importlib.import_module(TOOLS[argv[0]][0]).main(argv[1:]) or 0
        options = build_parser().parse_args(argv)
        return options.run(options)
    except UserError as error:
        print(f"error: {plain_text(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has left; nothing more may be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def available(tool: str) -> bool:
    """Whether this installation has the tool."""
    try:
        return importlib.util.find_spec(TOOLS[tool][0]) is not None
    except ModuleNotFoundError:
        return False


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m lvspec_core", description="See speculative decoding of video language models.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    race = commands.add_parser("race", help="race a video through the methods", allow_abbrev=False)
    defaults = RaceSettings()
    race.add_argument("clip", metavar="CLIP", help="video file")
    race.add_argument("--question", default=defaults.question, metavar="TEXT", help="question about the video (default: %(default)s)")
    add_setting_options(race)
    add_pair_options(race)
    race.add_argument("--save", metavar="FILE.jsonl", help="save the race as JSON lines")
    race.add_argument("--json", action="store_true", help="print the figures as one JSON object instead of the live view")
    race.set_defaults(run=run_race)

    replay = commands.add_parser("replay", help="show a saved race again, every lane at its own pace", allow_abbrev=False)
    replay.add_argument("file", metavar="FILE.jsonl", help="a saved race")
    replay.add_argument("--speed", type=float, default=1.0, metavar="X", help="2 is twice as fast, 0.1 slow motion (default: 1)")
    replay.add_argument("--json", action="store_true", help="print the figures as one JSON object instead")
    replay.set_defaults(run=run_replay)

    export = commands.add_parser("export", help="make one HTML page of a saved race, which needs nothing else", allow_abbrev=False)
    export.add_argument("file", metavar="FILE.jsonl", help="a saved race")
    export.add_argument("--out", required=True, metavar="FILE.html", help="the page to write")
    export.set_defaults(run=run_export)

    for tool, (_, purpose) in TOOLS.items():
        if available(tool):
            commands.add_parser(tool, help=purpose)
    return parser


def run_race(options: argparse.Namespace) -> int:
    pair = chosen_pair(options)
    settings = settings_of(options, pair.name)
    if options.save:
        check_writable(options.save)
    stop = threading.Event()
    records: list[Record] = []
    try:
        with interrupts(stop, started=lambda: bool(records)):
            show(keep(get_worker().race(options.clip, settings, stop, not_registered(pair)), records), records, options.json)
    finally:
        # also after a failure or a second Ctrl-C: what was generated is kept
        if options.save and records:
            save_race(records, options.save)
    failed = [record for record in records if isinstance(record, LaneEnd) and record.finish == "failed"]
    for lane in failed:
        print(f"{title(lane.lane)} failed: {plain_text(lane.error or '')}", file=sys.stderr)
    if stop.is_set():
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    return 1 if failed else 0


def run_replay(options: argparse.Namespace) -> int:
    if not SPEEDS[0] <= options.speed <= SPEEDS[1]:
        raise SettingsError(f"The speed is {options.speed:g}; choose a number between {SPEEDS[0]:g} and {SPEEDS[1]:g}.")
    records = load_race(options.file)
    looked_at = sys.stdout.isatty() and not options.json
    show(paced(records, options.speed) if looked_at else [records], records, options.json)
    return 0


def run_export(options: argparse.Namespace) -> int:
    check_writable(options.out)
    write_whole(race_page(load_race(options.file)), options.out)
    print(f"written: {plain_text(options.out)}", file=sys.stderr)
    return 0


def keep(batches: Iterable[list[Record]], records: list[Record]) -> Iterator[list[Record]]:
    """The batches, with every record also put into ``records``."""
    for batch in batches:
        records += of_the_race(batch)
        yield batch


def show(batches: Iterable[list[Record]], records: list[Record], as_json: bool) -> None:
    """Shows a race: live on a terminal, else as text when it is over; as JSON if asked, progress then on standard error."""
    console = Console()
    if console.is_terminal and not as_json:
        watch(batches, console)
        return
    view: RaceView = follow(batches, Console(stderr=True))
    print(json.dumps(race_summary(records), allow_nan=False) if as_json else view.plain(), flush=True)


def paced(records: list[Record], speed: float) -> Iterator[list[Record]]:
    """The records of a saved race as batches, each when its time has come, ``speed`` times as fast as they happened."""
    started = time.monotonic()
    batch: list[Record] = []
    shown = 0.0
    for at, record in timeline(records):
        due = at / speed
        if batch and due - shown > REPLAY_FRAME_SECONDS:
            yield batch
            batch = []
            time.sleep(max(0.0, started + due - time.monotonic()))
            shown = due
        batch.append(record)
    yield batch


@contextmanager
def interrupts(stop: threading.Event, started: Callable[[], bool]) -> Iterator[None]:
    """The first Ctrl-C of a race that has ``started`` sets ``stop``: the lanes wind up and are shown. Any other one ends at once."""

    def interrupt(number: int, frame: object) -> None:
        if stop.is_set() or not started():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
