"""Races on a ZeroGPU Space: how large a GPU is asked for and how long, and the border to the process that has it.

ZeroGPU runs the function in a process forked from this one, with the GPU in it. Arguments and what it yields are pickled. Here there
is no GPU: weights may be placed, which the package ``spaces`` keeps until then, and nothing may be computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import spaces

from lvspec_core import errors, graph_plan
from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.errors import UserError, WorkerError
from lvspec_core.pair_file import calibration_due
from lvspec_core.records import Record
from lvspec_core.registry import PairInfo, pair_info
from lvspec_core.settings import RaceSettings
from lvspec_core.video import VideoClip
from lvspec_core.worker.batches import batches

LARGE = 74_625_056_768  # bytes of the size "large", half an H200; "xlarge" is twice as much [code: spaces, zero/configs.json]
FILLED = 0.6  # of it by weights at most: the rest is for caches, activations and the vision tower
LONGEST = 300
START = 12.0  # seconds: the process, what is set up on first use, the film strip
LOADING = 2e9  # bytes per second of weights that come from the disk
PER_FRAME = 0.1  # seconds: patches on the host, the vision towers
READING = 2e-12  # seconds per frame and byte of weights: some 200 tokens a frame through the text models
PER_TOKEN = 0.02  # seconds: launching a pass kernel by kernel
BANDWIDTH = 1e12  # bytes per second that a pass reads of the weights at least
CALIBRATING = 4  # lanes' worth of tokens, before the first race of a pair that was never calibrated
RECORDING = 30  # passes' worth of time for a CUDA graph: warmed up, recorded, compared and timed


_at_start = ""  # the pair that was placed while the Space started


@dataclass(frozen=True)
class Refusal:
    """A UserError as plain values: an exception's sentence would not survive the way back."""

    kind: str
    sentence: str

    def error(self) -> UserError:
        return getattr(errors, self.kind, UserError)(self.sentence)


def weights(info: PairInfo) -> int:
    """Bytes of both models on a GPU, as its configurations or its files say; 0 where neither is known."""
    total = 0
    for source in {info.target, info.draft}:
        if source in CHECKPOINTS:
            total += 2 * CHECKPOINTS[source].parameters
        elif Path(source).is_dir():
            total += sum(file.stat().st_size for file in Path(source).glob("*.safetensors"))
    return total


def gpu_size(info: PairInfo) -> str:
    """The size of the GPU that a pair needs: "large", or "xlarge", which costs a visitor twice the quota."""
    return "large" if weights(info) + _placed(info) <= FILLED * LARGE else "xlarge"


def _placed(info: PairInfo) -> int:
    """Bytes that are on the GPU beside this pair's: the package ``spaces`` keeps what was placed at the Space's start."""
    return weights(pair_info(_at_start)) if _at_start not in ("", info.name) else 0


def gpu_seconds(clip: VideoClip, settings: RaceSettings) -> int:
    """How long a GPU is asked for: loading, prefill, then every lane at the pace of AR, the slowest. What is not used is given back."""
    info = pair_info(settings.pair)
    heavy, lanes = weights(info), len(settings.methods)
    beside = _placed(info)
    if "lvspec" in settings.methods and calibration_due(info.calibration):
        lanes += CALIBRATING
    prefill = settings.frames * (PER_FRAME + READING * heavy)
    passes = settings.max_new_tokens * lanes + RECORDING * _graphs(settings)
    return min(LONGEST, round(START + (heavy + beside) / LOADING + prefill + passes * (PER_TOKEN + heavy / BANDWIDTH)))


def _graphs(settings: RaceSettings) -> int:
    """How many CUDA graphs a race records."""
    if not graph_plan.wanted():
        return 0
    return sum(1 + len(graph_plan.sizes(graph_plan.draft_rows(name, settings))) for name in settings.methods)


def place(name: str) -> None:
    """Loads a pair while the Space starts, without running it."""
    from lvspec_core.pairs import load_pair

    load_pair(name, warm=False)
    global _at_start
    _at_start = name


def _racing_on(size: str) -> Callable[[VideoClip, RaceSettings], Iterator[list[Record] | Refusal]]:
    # ZeroGPU knows a function by itself: one per size
    def race_on_gpu(clip: VideoClip, settings: RaceSettings) -> Iterator[list[Record] | Refusal]:
        from lvspec_core.pairs import load_pair
        from lvspec_core.race import prepare_and_race

        try:
            yield from batches(prepare_and_race(load_pair(settings.pair, settings, warm=False), clip, settings))
        except UserError as error:
            yield Refusal(type(error).__name__, str(error))

    return spaces.GPU(duration=gpu_seconds, size=size)(race_on_gpu)


RACING = {size: _racing_on(size) for size in ("large", "xlarge")}


def race(clip: VideoClip, settings: RaceSettings, stop: threading.Event) -> Iterator[list[Record]]:
    """Batches of new records from the GPU process; a stop ends them. Raises UserError, with ZeroGPU's own sentence where it grants no
    GPU or takes it back."""
    stream = RACING[gpu_size(pair_info(settings.pair))](clip, settings)
    try:
        for batch in stream:
            if isinstance(batch, Refusal):
                raise batch.error()
            yield batch
            if stop.is_set():
                return
    except gr.Error as error:
        raise WorkerError(str(error.message)) from error
    finally:
        stream.close()
