"""``python -m lvspec_core evaluate``: every method over a data set, sample by sample; what is finished outlives whatever ends the run.

Writes ``results.jsonl`` (a record for each sample and method), ``metric.jsonl`` (one for each method) and ``run.json`` (how they were
made). Under ``accelerate launch -m lvspec_core evaluate …`` the samples are shared out over the processes, each with a device and a
file of its own, and become one result.
"""

from __future__ import annotations

import argparse
import gc
import io
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import PartialState
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers.utils import logging

from lvspec_core import __version__
from lvspec_core.errors import DataError
from lvspec_core.evaluation.datasets import READERS, Dataset, open_dataset
from lvspec_core.evaluation.journal import METRICS, RESULTS, Journal, finished, merge, parts_of, write_lines
from lvspec_core.evaluation.metrics_table import metrics_table
from lvspec_core.evaluation.plan import FORMAT, PAIR, check_folder, locked, settle
from lvspec_core.evaluation.racing import RACES, Evaluator, calibrate_pair
from lvspec_core.evaluation.results import Result, method_metrics
from lvspec_core.evaluation.samples import Sample
from lvspec_core.pair_options import add_pair_options, chosen_pair
from lvspec_core.pairs import Pair, PairInfo, load_pair
from lvspec_core.race import environment
from lvspec_core.setting_options import add_setting_options, settings_of
from lvspec_core.settings import DEFAULT_QUESTION, RaceSettings
from lvspec_core.terminal_words import plain_text
from lvspec_core.worker.runner import threads

LONGEST_WAIT = timedelta(days=30)  # a process that is done waits for the slowest one
TELL_SECONDS = 10
INTERRUPTED = 130
PLAIN_WIDTH = 220


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m lvspec_core evaluate", description=__doc__, allow_abbrev=False)
    made.add_argument("--data", required=True, metavar="PATH", help="a data set's folder, a folder of clips, a table, or shapes:N")
    made.add_argument(
        "--task", default="", metavar="NAME", help=f"the folder's layout: {', '.join(READERS)} or folder; NAME:PART for a part"
    )
    made.add_argument("--save-path", required=True, type=Path, metavar="DIR", help="where the results are written")
    made.add_argument("--num", type=int, metavar="N", help="only the first N samples")
    made.add_argument("--shuffle", type=int, metavar="SEED", help="mix the samples before --num takes the first ones")
    made.add_argument("--question", default="", metavar="TEXT", help="asked of every clip instead of the data set's own questions")
    made.add_argument("--resume", action="store_true", help="go on with the run in DIR; its finished samples are kept")
    made.add_argument("--keep-races", action="store_true", help=f"also keep each sample's race in DIR/{RACES}, for the inspector")
    made.add_argument("--no-likelihood", action="store_true", help="leave out what the target thinks of texts that differ from AR's")
    add_setting_options(made)
    add_pair_options(made)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    info = chosen_pair(options)
    settings = settings_of(argparse.Namespace(**{**vars(options), "question": options.question or DEFAULT_QUESTION}), info.name)
    # on CPUs accelerate joins the processes only if it is told that these are what they run on
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=LONGEST_WAIT)
    console = Console(stderr=True, quiet=not state.is_main_process)
    folder = options.save_path
    with state.main_process_first():
        if state.is_main_process:
            check_folder(folder, options.resume)
        dataset = open_dataset(options.data, options.task, options.num, options.shuffle, options.question)
    with locked(folder) if state.is_main_process else nullcontext():
        try:
            return run(options, info, settings, dataset, state, console)
        except KeyboardInterrupt:
            console.print(f"Stopped. What is finished is kept in {folder}; --resume goes on.", markup=False, soft_wrap=True)
            return INTERRUPTED
        except OSError as error:
            raise DataError(f"The results cannot be saved in {folder}: {error.strerror or error}.") from None


def run(
    options: argparse.Namespace, info: PairInfo, settings: RaceSettings, dataset: Dataset, state: PartialState, console: Console
) -> int:
    """The whole evaluation in one of its processes; returns the command's exit status."""
    pair = open_pair(info, settings)
    folder = options.save_path
    with state.main_process_first():
        if state.is_main_process:
            calibrate_pair(pair, dataset.samples, settings)
        else:
            pair.calibration_failed = pair.uncalibrated  # the first process has tried it for all
        plan = plan_of(options, settings, dataset, pair)
        if state.is_main_process:
            settle(folder, plan)
            for path in parts_of(folder):
                Journal(path, settings.methods).repair()
        done = finished(folder)
    left = [sample for sample in dataset.samples if sample.index not in done]
    if done and left:
        console.print(f"{len(done)} samples are finished, {len(left)} are left.", markup=False)
    about = {"pair": plan["pair"]["name"], "settings": plan["settings"], "environment": plan["environment"]}
    evaluator = Evaluator(pair, settings, about, folder / RACES if options.keep_races else None, not options.no_likelihood)
    name = RESULTS if state.num_processes == 1 else f"results.part-{state.process_index:03d}.jsonl"
    race_all(evaluator, left[state.process_index :: state.num_processes], Journal(folder / name, settings.methods), console)
    state.wait_for_everyone()
    if not state.is_main_process:
        return 0
    return conclude(folder, settings.methods)


def open_pair(info: PairInfo, settings: RaceSettings) -> Pair:
    """The pair, with as many threads as a race of it takes; PairError if such races do not fit into memory."""
    logging.disable_progress_bar()  # its bar would run through ours
    torch.set_num_threads(threads(info.bundled, torch.get_num_threads()))
    return load_pair(info, settings)


def plan_of(options: argparse.Namespace, settings: RaceSettings, dataset: Dataset, pair: Pair) -> dict:
    """What the run is, as plain JSON values."""
    described = pair.describe()
    asked = settings.to_dict()
    if not options.question:
        del asked["question"]  # the data set's own
    return {
        "format": FORMAT,
        "task": dataset.task,
        "data": plain_text(options.data),
        "fingerprint": dataset.fingerprint,
        "shuffle": options.shuffle,
        "samples": len(dataset.samples),
        "pair": {name: described[name] for name in (*PAIR, "title") if name in described},
        "settings": asked,
        "environment": {"lvspec": __version__, **environment(pair)},
        "keep_races": options.keep_races,
    }


def race_all(evaluator: Evaluator, samples: Sequence[Sample], journal: Journal, console: Console) -> None:
    """Races the samples in order and appends each one's records as soon as it is finished."""
    failed = 0
    try:
        with progress(console, len(samples)) as tell:
            for done, sample in enumerate(samples, 1):
                results = evaluator.results(sample)
                journal.append(results)
                wrong = next((result["error"] for result in results if result["error"]), None)
                if wrong:
                    failed += 1
                    console.print(f"{plain_text(sample.name)}: {plain_text(wrong)}", markup=False, highlight=False, soft_wrap=True)
                tell(done, failed)
                # off every clock, as in the race process: what a race held goes here, not in the middle of the next one
                del results
                gc.collect()
    finally:
        journal.close()


@contextmanager
def progress(console: Console, total: int) -> Iterator:
    """A bar on a terminal, a line every few seconds elsewhere."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("samples", total=total)
            yield lambda done, failed: bar.update(task, completed=done, description=f"samples ({failed} failed)" if failed else "samples")
        return
    told = time.monotonic()

    def tell(done: int, failed: int) -> None:
        nonlocal told
        if time.monotonic() - told >= TELL_SECONDS:
            told = time.monotonic()
            console.print(f"{done} of {total} samples" + (f", {failed} failed" if failed else ""), highlight=False)

    yield tell


def show(metrics: Sequence[Result], console: Console) -> None:
    """The methods' figures: a table as wide as the terminal allows, plain lines elsewhere."""
    if console.is_terminal:
        console.print(metrics_table(metrics, console.width))
        return
    plain = Console(width=PLAIN_WIDTH, color_system=None, file=io.StringIO())
    plain.print(metrics_table(metrics, plain=True))
    print("\n".join(line.rstrip() for line in plain.file.getvalue().splitlines()))


def conclude(folder: Path, methods: Sequence[str]) -> int:
    """Makes one file of all processes' results, and the methods' figures from it; 1 if there is nothing but failures."""
    results: list[Result] = merge(folder, methods)
    metrics = method_metrics(results)
    write_lines(metrics, folder / METRICS)
    show(metrics, Console())
    failed = len({result["sample_index"] for result in results if result["error"]})
    if failed:
        print(f"{failed} of {len({result['sample_index'] for result in results})} samples failed; their records say why.", file=sys.stderr)
    print(f"written: {plain_text(str(folder / RESULTS))}, {METRICS}", file=sys.stderr)
    return 0 if any(row["samples"] for row in metrics) else 1
