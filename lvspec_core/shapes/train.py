"""Training of the bundled pair: one command, resumable, its progress shown.

A vision tower may first learn what stands in every tile. Then the model learns with few layers, short answers first, which
leaves the language-only plateau soonest; then it is deepened by blocks whose output projections start at zero, so that nothing
learnt is lost, and trained on as a whole.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from transformers import Qwen2_5_VLForConditionalGeneration

from lvspec_core.shapes.batched import caption_logits, video_features
from lvspec_core.shapes.captions import SHORT_QUESTION
from lvspec_core.shapes.card import write_card
from lvspec_core.shapes.data import HELD_OUT_SEED, TEMPORAL, BatchMaker
from lvspec_core.shapes.evaluate import facts_right
from lvspec_core.shapes.models import build_config, build_processor
from lvspec_core.shapes.tiles import TileReader, tile_truth

CLIP_NORM = 1.0
WARM_UP = 100
SAVE_EVERY = 200


@dataclass(frozen=True)
class Stage:
    """Part of a training. ``layers``: LM layers in this stage; ``visual_weight``: how much more a visual word's loss counts at
    the stage's start (it falls to 1 at its middle); ``pruned``: share of batches whose clips lose a random part of their video tokens;
    ``tiles``: weight of the tile reader's loss; ``words``: whether captions are trained, or the tower alone;
    ``short``: share of batches that ask for the facts alone; ``frames``: frame counts to draw from."""

    layers: int
    steps: int
    batch: int
    learning_rate: float
    visual_weight: float = 1.0
    pruned: float = 0.0
    tiles: float = 0.0
    words: bool = True
    short: float = 0.1
    frames: tuple[int, ...] = (8,)
    bfloat16: bool = True


@dataclass(frozen=True)
class Recipe:
    """A model's sizes and its stages."""

    vision_layers: int
    vision_hidden: int
    stages: tuple[Stage, ...]
    seed: int


RECIPES = {
    "target": Recipe(
        3,
        96,
        (
            Stage(4, 600, 32, 2e-3, tiles=1.0, words=False),
            Stage(4, 600, 32, 1e-3, tiles=0.3, short=1.0),
            Stage(4, 1800, 32, 1e-3, tiles=0.3, visual_weight=4),
            Stage(36, 400, 32, 6e-4, tiles=0.3, visual_weight=3, frames=(8, 8, 8, 6, 10, 12)),
            Stage(36, 200, 24, 8e-4, tiles=1.0, visual_weight=4, bfloat16=False),
        ),
        seed=1,
    ),
    "draft": Recipe(
        2,
        64,
        (
            Stage(2, 1000, 32, 1e-3, short=1.0),
            Stage(2, 2200, 32, 1e-3, visual_weight=4),
            Stage(2, 1000, 32, 5e-4, pruned=0.6, frames=(8, 8, 8, 6, 10, 12), bfloat16=False),
            Stage(2, 800, 32, 1e-3, tiles=0.5, visual_weight=3, pruned=0.4, frames=(8, 8, 8, 6, 10, 12)),
            Stage(2, 1000, 32, 1.5e-3, tiles=1.0, visual_weight=4, pruned=0.4, frames=(8, 8, 8, 6, 10, 12)),
        ),
        seed=2,
    ),
}


def deepen(model: Qwen2_5_VLForConditionalGeneration, config) -> Qwen2_5_VLForConditionalGeneration:
    """The model with as many LM layers as ``config`` says: the old layers spread evenly, new ones between them that change nothing yet."""
    deep = Qwen2_5_VLForConditionalGeneration(config)
    deep.model.visual.load_state_dict(model.model.visual.state_dict())
    old, new = model.model.language_model, deep.model.language_model
    new.embed_tokens.load_state_dict(old.embed_tokens.state_dict())
    new.norm.load_state_dict(old.norm.state_dict())
    homes = {round((index + 0.5) * len(new.layers) / len(old.layers) - 0.5): layer for index, layer in enumerate(old.layers)}
    for index, layer in enumerate(new.layers):
        if index in homes:
            layer.load_state_dict(homes[index].state_dict())
        else:
            torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
            torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return deep


class Training:
    """One model's training; its state lives in ``folder / (name + ".pt")`` so that it can go on after a stop."""

    def __init__(self, name: str, folder: Path, recipe: Recipe):
        self.name, self.recipe = name, recipe
        self.path = folder / f"{name}.pt"
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(recipe.seed)
        self.stage, self.step, self.losses = 0, 0, []
        self.model = Qwen2_5_VLForConditionalGeneration(self._config(recipe.stages[0].layers))
        self.reader = TileReader(self.model.config.text_config.hidden_size)
        self.optimizer = self._optimizer()
        if self.path.exists():
            self._resume()
        self.maker = BatchMaker(build_processor(), self.model)

    def _config(self, layers: int):
        config = build_config(layers, self.recipe.vision_layers, self.recipe.vision_hidden)
        config._attn_implementation = "eager"  # on a CPU the fused kernel's backward pass takes half of a step
        return config

    def _optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW([*self.model.parameters(), *self.reader.parameters()], lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)

    def _resume(self) -> None:
        state = torch.load(self.path, weights_only=True)
        self.stage, self.step = state["stage"], state["step"]
        # between two stages the model still has the layers of the one before
        layers = 1 + max(int(name.split(".")[3]) for name in state["model"] if name.startswith("model.language_model.layers."))
        self.model = Qwen2_5_VLForConditionalGeneration(self._config(layers))
        self.model.load_state_dict(state["model"])
        self.reader.load_state_dict(state["reader"])
        self.optimizer = self._optimizer()
        self.optimizer.load_state_dict(state["optimizer"])

    def adopt(self, folder: Path, stage: int) -> None:
        """Starts at stage ``stage`` (counted from 0) with the written-out model in ``folder``; its tile reader starts anew."""
        self.model = Qwen2_5_VLForConditionalGeneration(self._config(self.recipe.stages[stage - 1].layers))
        self.model.load_state_dict(Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).state_dict())
        self.stage, self.step = stage, 0
        self.optimizer = self._optimizer()
        self.maker = BatchMaker(build_processor(), self.model)

    def save(self) -> None:
        state = {
            "stage": self.stage,
            "step": self.step,
            "model": self.model.state_dict(),
            "reader": self.reader.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        partial = self.path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.path)

    def run(self) -> None:
        """Trains to the end of the recipe, from wherever the saved state stands."""
        while self.stage < len(self.recipe.stages):
            stage = self.recipe.stages[self.stage]
            if len(self.model.model.language_model.layers) != stage.layers:
                torch.manual_seed(self.recipe.seed + self.stage)  # the same new blocks, resumed or not
                self.model = deepen(self.model, self._config(stage.layers))
                self.optimizer = self._optimizer()
            began = time.time()
            while self.step < stage.steps:
                loss = self._train_step(stage)
                self.losses.append(loss)
                self.step += 1
                if self.step % 50 == 0:
                    self._report(stage, began)
                if self.step % SAVE_EVERY == 0:
                    self.save()
            self.stage, self.step = self.stage + 1, 0
            self.save()

    def _train_step(self, stage: Stage) -> float:
        rng = np.random.default_rng((self.recipe.seed, self.stage, self.step))
        question = SHORT_QUESTION if rng.random() < stage.short else None
        batch = self.maker.batch(stage.batch, rng, frames=int(rng.choice(stage.frames)), question=question)
        progress = self.step / stage.steps
        rate = stage.learning_rate * min(1, (self.step + 1) / WARM_UP) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        keep = _random_keep(batch, rng) if rng.random() < stage.pruned else None
        loss, figure = 0.0, 0.0
        with torch.autocast("cpu", torch.bfloat16, enabled=stage.bfloat16):
            features = video_features(self.model, batch.patches)
            if stage.words:
                logits = caption_logits(self.model, batch.prompt, features, batch.captions, keep)
        if stage.words:
            weight = 1 + (stage.visual_weight - 1) * max(0.0, 1 - 2 * progress)
            weights = batch.real + (weight - 1) * batch.visual
            losses = functional.cross_entropy(logits.float().flatten(0, 1), batch.captions.flatten(), reduction="none").view_as(weights)
            loss = (losses * weights).sum() / weights.sum()
            figure = float((losses.detach() * batch.visual).sum() / batch.visual.sum())
        if stage.tiles:
            tiles = self.reader.loss(features.float(), tile_truth(batch.scenes, batch.shares, TEMPORAL))
            loss = loss + stage.tiles * tiles
            figure = figure or float(tiles.detach())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return figure

    @torch.inference_mode()
    def _report(self, stage: Stage, began: float) -> None:
        question = SHORT_QUESTION if stage.short == 1 else None
        batch = self.maker.batch(64, np.random.default_rng(HELD_OUT_SEED - 1), question=question)
        features = video_features(self.model, batch.patches)
        predicted = caption_logits(self.model, batch.prompt, features, batch.captions).argmax(-1)
        right = float((predicted == batch.captions)[batch.visual].float().mean())
        recent = float(np.mean(self.losses[-50:]))
        print(
            f"{self.name} stage {self.stage + 1}/{len(self.recipe.stages)} step {self.step}/{stage.steps}"
            f" loss {recent:.3f} visual words right {right:.3f} {time.time() - began:.0f} s",
            flush=True,
        )


def _random_keep(batch, rng: np.random.Generator) -> torch.Tensor:
    """A random subset of the video tokens for each clip, of one size: [B, K], sorted."""
    tokens = batch.prompt.video.stop - batch.prompt.video.start
    kept = max(1, round(tokens * rng.uniform(0.2, 0.8)))
    order = torch.from_numpy(rng.random((len(batch.captions), tokens))).argsort(dim=1)
    return order[:, :kept].sort(dim=1).values


def export(name: str, work: Path, out: Path, scenes: int) -> dict:
    """Writes a trained model in half precision beside its processor; measures what was written, and returns sizes and figures."""
    recipe, folder = RECIPES[name], out / name
    training = Training(name, work, recipe)
    training.model.half().save_pretrained(folder, max_shard_size="9MB")
    build_processor().save_pretrained(folder)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    maker = BatchMaker(build_processor(), model)
    text, vision = model.config.text_config, model.config.vision_config
    figures = {
        "layers": text.num_hidden_layers,
        "hidden": text.hidden_size,
        "vision_layers": vision.depth,
        "vision_hidden": vision.hidden_size,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "samples": sum(stage.steps * stage.batch for stage in recipe.stages),
        "facts": facts_right(model, maker, scenes),
    }
    if name == "draft":
        figures["facts_pruned"] = facts_right(model, maker, scenes, keep_ratio=0.5)
    return figures


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core train-shapes", description=__doc__)
    parser.add_argument("--model", choices=[*RECIPES, "both"], default="both", help="one alone is trained but not written out")
    parser.add_argument("--work", type=Path, default=Path("runs/shapes-qwen"), help="checkpoints; training goes on from them")
    parser.add_argument("--out", type=Path, default=Path("assets/shapes-qwen"), help="where the pair is written")
    parser.add_argument("--scenes", type=int, default=500, help="held-out scenes for the model card")
    parser.add_argument("--adopt", metavar="STAGE", type=int, help="take --model as it stands in --out, and train on from STAGE (from 1)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.adopt is not None:
        return _adopt(options, parser)
    for name in RECIPES if options.model == "both" else (options.model,):
        Training(name, options.work, RECIPES[name]).run()
    if options.model == "both":
        models = {name: export(name, options.work, options.out, options.scenes) for name in RECIPES}
        write_card(options.out, models, options.scenes)
        print(f"The pair and its card stand in {options.out}; now find its anchor threshold: python -m lvspec_core calibrate", flush=True)
    return 0


def _adopt(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Where the checkpoints are lost, the written-out weights still are not."""
    if options.model == "both":
        parser.error("--adopt takes one model at a time: add --model target or --model draft.")
    stages = len(RECIPES[options.model].stages)
    if not 2 <= options.adopt <= stages + 1:
        parser.error(f"--adopt takes a stage from 2 to {stages + 1} (which stands for a finished training).")
    training = Training(options.model, options.work, RECIPES[options.model])
    training.adopt(options.out / options.model, options.adopt - 1)
    training.save()
    training.run()
    return 0


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
