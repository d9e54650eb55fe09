"""The two models as lmms-eval 0.7 knows models. The only module that needs lmms-eval."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import NoReturn

import torch
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.model_utils.gen_metrics import log_metrics
from loguru import logger
from tqdm import tqdm

from lvspec_core.errors import SettingsError
from lvspec_core.evaluation.command import open_pair
from lvspec_core.evaluation.results import Result
from lvspec_core.lmms.arguments import check_family, read_arguments
from lvspec_core.lmms.generation import generation_of
from lvspec_core.lmms.recorder import Recorder
from lvspec_core.lmms.runner import Asked, Runner, check_calibrated, plain_question, video_of
from lvspec_core.pairs import forget

PADDING = "__padding_only__"  # lmms-eval's mark of a request that only evens out the processes


class SpeculativeModel(lmms):
    """A target/draft pair under one decoding method. ``arguments``: see :mod:`lvspec_core.lmms.arguments`."""

    is_simple = True
    family = ""

    def __init__(self, batch_size: int | str = 1, max_batch_size: int | None = None, device: str | None = None, **arguments) -> None:
        super().__init__()
        if str(batch_size) != "1" or max_batch_size not in (None, 1):
            raise SettingsError("One video is decoded at a time; leave out --batch_size, or set it to 1.")
        chosen = read_arguments(arguments, self.family, sys.argv[1:])
        self.accelerator = Accelerator()
        self._rank, self._world_size = self.accelerator.process_index, self.accelerator.num_processes
        if int(os.environ.get("WORLD_SIZE", "1")) != self._world_size:
            raise SettingsError("The processes do not know of each other; on CPUs set ACCELERATE_USE_CPU=true.")
        pair = open_pair(chosen.info, chosen.settings)
        check_family(pair.info, self.family)
        check_calibrated(pair, chosen.settings, self._world_size)
        self._device = pair.target.device
        if device is not None and torch.device(device).type != self._device.type:
            raise SettingsError(f"The pair is on {self._device.type}, not {device}; choose by CUDA_VISIBLE_DEVICES, not --device.")
        self.chosen = chosen
        self.runner = Runner(pair, chosen.settings)
        self.recorder = Recorder(chosen.folder, self.runner.method, self._rank)
        if chosen.folder is None and self._rank == 0:
            logger.warning("Neither save_path in --model_args nor --output_path is given: each sample's figures are not kept.")

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def chat_template(self) -> NoReturn:
        raise SettingsError("The pair's own chat template is always used; leave out --apply_chat_template.")

    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """The answers, in the requests' order; their figures are recorded. UserError where a request cannot be followed."""
        answers, results, times = [], [], Counter()
        known: dict[tuple, GenerationResult] = {}
        for request in tqdm(requests, disable=self.rank != 0, desc="Model Responding"):
            context, asked_for, _, index, task, split = request.args
            place = (task, split, index, request.idx)
            padding = bool((request.metadata or {}).get(PADDING))
            if not (padding and place in known):
                result = self._result(request, times[place])
                known[place] = answer_of(result)
                if not padding:
                    times[place] += 1
                    results.append(result)
                    self.recorder.add(task, result)
            answers.append(known[place])
            self.cache_hook.add_partial("generate_until", (context, asked_for), known[place].text)
        self._tell(results)
        return answers

    def _result(self, request: Instance, repeat: int) -> Result:
        context, asked_for, doc_to_visual, index, task, split = request.args
        video = video_of(doc_to_visual(self.task_dict[task][split][index]))
        generation = generation_of(asked_for or {}, self.chosen.settings, self.chosen.most)
        return self.runner.result(Asked(task, split, index, plain_question(context), video, generation, repeat))

    def _tell(self, results: list[Result]) -> None:
        """Sums the run up in lmms-eval's own log and results, and says how many samples failed."""
        good = [result for result in results if not result["error"]]
        if len(good) < len(results):
            wrong = next(result for result in results if result["error"])
            logger.warning(
                f"{len(results) - len(good)} of {len(results)} samples failed and count as empty answers; "
                f"the first: {wrong['name']}: {wrong['error']}"
            )
        if not good:
            return
        tokens, rounds = (sum(result[name] for result in good) for name in ("generate_len", "rounds"))
        decoding = sum(result["decoding_time"] for result in good)
        total = decoding + sum(result["prefill_seconds"] for result in good)
        log_metrics(
            total_elapsed_time=total,
            total_gen_tokens=tokens,
            avg_speed=tokens / total if total else 0.0,
            additional_metrics={
                "rank": self.rank,
                "method": self.runner.method,
                "decoding_seconds": decoding,
                "decoding_tokens_per_second": tokens / decoding if decoding else 0.0,
                "mean_accepted_length": tokens / rounds if rounds else 0.0,
            },
        )

    def clean(self) -> None:
        """lmms-eval calls it when every process has answered: the records become one file, and a large pair's memory is freed."""
        self.recorder.close()
        if self.rank == 0:
            for path in self.recorder.merge():
                logger.info(f"Each sample's figures: {path}")
        pair, self.runner = self.runner.pair, None
        forget(pair.info)
        del pair
        super().clean()

    def loglikelihood(self, requests: list[Instance]) -> NoReturn:
        raise NotImplementedError("Speculative decoding writes answers and does not score given ones: loglikelihood is not supported.")

    def generate_until_multi_round(self, requests: list[Instance]) -> NoReturn:
        raise NotImplementedError("A video and one question make one answer: tasks of several rounds are not supported.")


def answer_of(result: Result) -> GenerationResult:
    """What lmms-eval scores; a sample that failed is an empty answer."""
    if result["error"]:
        return GenerationResult("", TokenCounts(output_tokens=0))
    return GenerationResult(result["output"], TokenCounts(output_tokens=result["generate_len"]))


class Qwen2_5_VL(SpeculativeModel):
    """``qwen2_5_vl_lvspec``."""

    family = "qwen2_5_vl"


class LlavaOnevision(SpeculativeModel):
    """``llava_onevision_lvspec``."""

    family = "llava_onevision"
