"""The check: pair by pair, by frames, step by step, within a budget of seconds; a row is on disk before the next one is measured."""

from __future__ import annotations

import argparse
import gc
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import transformers
from rich.console import Console

from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.errors import SettingsError
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.gpu_check.models import CHECKED, SCALES, checkpoints_of, noise, random_model
from lvspec_core.gpu_check.report import Report
from lvspec_core.gpu_check.rows import Row
from lvspec_core.gpu_check.steps import Site, Step, groups_of, opening
from lvspec_core.gpu_check.timing import Budget, copy_bandwidth, measure
from lvspec_core.settings import RANGES

FRAMES = (8, 32, 64, 128)
BUDGET_SECONDS = 480
SPARE = 1.1  # of a pair's weights, for one frame's caches and activations
FILL_RATE = 1e9  # parameters a second that are filled at least, until a model was built
REPEATS = 6  # of a step's last duration that are reserved for it


@dataclass
class Check:
    """One run. ``rate``: parameters per second at which the last model was built."""

    device: torch.device
    scale: str
    report: Report
    budget: Budget
    console: Console
    rate: float = FILL_RATE

    def __post_init__(self) -> None:
        self.took: dict[tuple[str, str, str, str], tuple[int, float]] = {}  # step of a model -> frames, seconds

    def run(self, pairs: Iterable[str], frames: Iterable[int]) -> None:
        try:
            self.report.bandwidth = copy_bandwidth(self.device, self.budget)
            self._tidy()  # what torch keeps of it is not free to whoever asks the driver
            for pair in pairs:
                self._pair(pair, tuple(frames))
                self._tidy()
            self.report.state = "finished"
        except OutOfTime:
            self.report.state = "out of time"
        self._save()

    def _pair(self, pair: str, frames: tuple[int, ...]) -> None:
        names = checkpoints_of(pair)
        target = self._built(Row(pair, "target", names[0], 0, "the weights"))
        draft = self._built(Row(pair, "draft", names[1], 0, "the weights")) if target else None
        for count in frames if target else ():
            clip = noise(count, SCALES[self.scale].side)
            # one prompt serves both
            prompt = self._site(Row(pair, "target", names[0], count, ""), Site(target, "target", clip))
            self._tidy()
            if draft and prompt:
                self._site(Row(pair, "draft", names[1], count, ""), Site(draft, "draft", clip, prompt))
                self._tidy()

    def _built(self, row: Row) -> VideoLM | None:
        parameters = CHECKPOINTS[row.model].parameters if self.scale == "full" else 0
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        needs = parameters * dtype.itemsize * SPARE
        if self.device.type == "cuda" and needs > (free := torch.cuda.mem_get_info(self.device)[0]):
            self._add(replace(row, why=f"does not fit: needs {needs / 1e9:.0f} GB, {free / 1e9:.0f} GB are free"))
            return None
        if not self.budget.allows(parameters / self.rate):
            self._add(replace(row, why="left out: no time"))
            raise OutOfTime
        began = self.budget.used
        model, why = self._attempt(lambda: random_model(row.model, SCALES[self.scale], dtype, self.device))
        if model is None:
            self._add(replace(row, why=why))
        else:
            self.rate = max(parameters, 1) / max(1e-3, self.budget.used - began)
        return model

    def _site(self, row: Row, site: Site) -> Prompt | None:
        if self._group(row, opening(site)):
            for group in groups_of(site):
                self._group(row, group)
        return site.prompt

    def _group(self, row: Row, steps: Iterable[Step]) -> bool:
        """Whether all that others need has worked."""
        for step in steps:
            here = replace(row, step=step.name, sees=step.sees, cached=step.cached, rows=step.rows, needs=step.needs)
            if not self._step(here, step) and step.leads:
                return False
        return True

    def _step(self, row: Row, step: Step) -> bool:
        key = (row.pair, row.role, row.step, row.sees)
        frames, seconds = self.took.get(key, (row.frames, 0.0))
        if not self.budget.allows(seconds * REPEATS * row.frames / frames) or self.budget.left <= 0:
            self._add(replace(row, why="left out: no time"))
            raise OutOfTime
        timing, why = self._attempt(lambda: measure(step.work, self.device, self.budget, step.warm_ups))
        self._add(replace(row, timing=timing, why=why))
        if timing:
            self.took[key] = (row.frames, timing.median)
        return timing is not None

    def _attempt(self, work) -> tuple:
        """(what the work returned, "") or (None, why it failed): the rest of the check goes on."""
        try:
            return work(), ""
        except torch.OutOfMemoryError:
            why = "out of memory"
        except Exception as error:
            told = f"{type(error).__name__}: {str(error).strip()[:120]}".splitlines()[0]
            why = "out of memory" if "out of memory" in str(error).lower() else told
        self._tidy()
        return None, why

    def _add(self, row: Row) -> None:
        self.report.seconds = self.budget.used
        self.report.add(row)
        self.console.print(f"[{self.budget.used:4.0f} s] {self.report.line(row)}", markup=False, highlight=False, soft_wrap=True)

    def _save(self) -> None:
        self.report.seconds = self.budget.used
        self.report.write()

    def _tidy(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


class OutOfTime(Exception):
    """The budget does not allow what comes next."""


def machine_of(device: torch.device) -> dict:
    """What a reader must know to judge the figures."""
    facts = {"device": device.type, "torch": torch.__version__, "transformers": transformers.__version__, "system": platform.system()}
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        facts |= {
            "name": about.name,
            "memory, GB": round(about.total_memory / 1e9, 1),
            "CUDA": torch.version.cuda,
            "processors": about.multi_processor_count,
        }
    else:
        facts["threads"] = torch.get_num_threads()
    return facts


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core gpu-check", description=__doc__, allow_abbrev=False)
    shown = "(default: %(default)s)"
    parser.add_argument("--out", default="artifacts/gpu-check", metavar="DIR", help=f"where the figures go {shown}")
    parser.add_argument("--pairs", default=",".join(CHECKED), metavar="LIST", help=f"comma-separated {shown}")
    parser.add_argument("--frames", default=",".join(map(str, FRAMES)), metavar="LIST", help=f"comma-separated {shown}")
    parser.add_argument("--budget-seconds", type=float, default=BUDGET_SECONDS, metavar="S", help=f"it ends by itself {shown}")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help=f"cpu only shows that it runs {shown}")
    parser.add_argument("--scale", choices=tuple(SCALES), default="full", help=f"tiny: models scaled down {shown}")
    return parser


def frames_of(text: str) -> tuple[int, ...]:
    """The frames asked for, rising; SettingsError."""
    low, high = RANGES["frames"]
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and low <= int(part) <= high for part in parts):
        raise SettingsError(f"The frames must be whole numbers from {low} to {high}, with commas between them.")
    return tuple(sorted({int(part) for part in parts}))


@torch.inference_mode()
def main(argv: list[str] | None = None) -> int:
    """Returns 0, also when it ran out of time or a step failed: the figures say so."""
    options = build_parser().parse_args(argv)
    pairs = tuple(dict.fromkeys(part.strip() for part in options.pairs.split(",") if part.strip()))
    for pair in pairs:
        checkpoints_of(pair)
    frames = frames_of(options.frames)
    if not pairs:
        raise SettingsError(f"Name at least one pair of {', '.join(CHECKED)}.")
    if not 1 <= options.budget_seconds <= 86400:
        raise SettingsError("The budget must be between 1 and 86400 seconds.")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("There is no CUDA GPU on this machine to measure; --device cpu --scale tiny shows that the check runs.")
    if options.device == "cpu" and options.scale == "full":
        raise SettingsError("Models of the real size are for a GPU; add --scale tiny.")
    transformers.utils.logging.set_verbosity_error()
    device = torch.device(options.device)
    asked = {"pairs": list(pairs), "frames": list(frames), "scale": options.scale, "budget_seconds": options.budget_seconds}
    report = Report(Path(options.out), machine_of(device), asked)
    report.open()
    console = Console()
    Check(device, options.scale, report, Budget(options.budget_seconds), console).run(pairs, frames)
    report.print(console)
    console.print(f"written: {report.folder}/gpu-check.json and .md", markup=False, highlight=False, soft_wrap=True)
    return 0
