"""Training of the bundled pairs: one command, resumable, its progress shown.

A vision tower may first learn what stands in every tile. Then the model learns with few layers, short answers first, which
leaves the language-only plateau soonest; then it is deepened by blocks whose output projections start at zero, so that nothing
learnt is lost, and trained on as a whole. A second pair starts from the first one's language (shapes/teacher.py).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from lvspec_core.registry import ASSETS
from lvspec_core.shapes.batched import caption_logits, caption_pass, video_features
from lvspec_core.shapes.captions import SHORT_QUESTION
from lvspec_core.shapes.card import write_card
from lvspec_core.shapes.data import HELD_OUT_SEED, BatchMaker
from lvspec_core.shapes.evaluate import facts_right
from lvspec_core.shapes.models import architecture_of
from lvspec_core.shapes.recipes import RECIPES, STRESS, Recipe, Stage
from lvspec_core.shapes.scene import ATTRIBUTES
from lvspec_core.shapes.teacher import Teacher, homes
from lvspec_core.shapes.tiles import READ, TileReader, tile_truth

CLIP_NORM = 1.0
WARM_UP = 100
SAVE_EVERY = 200


def deepen(model, config):
    """The model with as many LM layers as ``config`` says: the old layers spread evenly, new ones between them that change nothing yet."""
    architecture = architecture_of(model)
    deep = architecture.model(config)
    old, new = model.model.language_model, deep.model.language_model
    layers = old.layers
    state = {name: weight for name, weight in model.state_dict().items() if ".language_model.layers." not in name}
    deep.load_state_dict(state, strict=False)
    settled = dict(zip(homes(len(layers), len(new.layers)), layers, strict=True))
    for index, layer in enumerate(new.layers):
        if index in settled:
            layer.load_state_dict(settled[index].state_dict())
        else:
            torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
            torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return deep


@contextmanager
def through(model, count: int) -> Iterator[None]:
    """Meanwhile the model runs through ``count`` evenly spread LM layers only; 0: through all."""
    text, every = model.model.language_model, model.model.language_model.layers
    if count:
        text.layers = torch.nn.ModuleList([every[place] for place in homes(count, len(every))])
    try:
        yield
    finally:
        text.layers = every


class Training:
    """One model's training; its state lives in ``folder / (name + ".pt")`` so that it can go on after a stop. ``name``: its role."""

    def __init__(self, name: str, folder: Path, recipe: Recipe):
        self.name, self.recipe, self.architecture = name, recipe, recipe.architecture
        self.processor = self.architecture.build_processor()
        self.teacher = Teacher(recipe.teacher, name) if recipe.teacher else None
        self.path = folder / f"{name}.pt"
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(recipe.seed)
        self.stage, self.step, self.losses = 0, 0, []
        self.model = self.architecture.model(self._config(recipe.stages[0].layers))
        if self.teacher:
            self.teacher.give_language(self.model, self.processor)
        width, still = self.model.config.text_config.hidden_size, tuple(name for name in READ if name != "motion")
        self.reader = TileReader(width, READ if self.architecture.temporal > 1 else still)
        self.deep_reader = TileReader(width)
        self.optimizer = self._optimizer()
        if self.path.exists():
            self._resume()
        self.maker = BatchMaker(self.processor, self.model)

    def _config(self, layers: int):
        config = self.architecture.build_config(layers, self.recipe.vision_layers, self.recipe.vision_hidden)
        config._attn_implementation = "eager"  # on a CPU the fused kernel's backward pass takes half of a step
        return config

    def _optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            [*self.model.parameters(), *self.reader.parameters(), *self.deep_reader.parameters()],
            lr=1e-3,
            betas=(0.9, 0.95),
            weight_decay=0.01,
        )

    def _resume(self) -> None:
        state = torch.load(self.path, weights_only=True)
        self.stage, self.step = state["stage"], state["step"]
        # between two stages the model still has the layers of the one before
        layers = 1 + max(int(name.split(".")[3]) for name in state["model"] if name.startswith("model.language_model.layers."))
        self.model = self.architecture.model(self._config(layers))
        self.model.load_state_dict(state["model"])
        self.reader.load_state_dict(state["reader"])
        self.deep_reader.load_state_dict(state["deep_reader"])
        self.optimizer = self._optimizer()
        self.optimizer.load_state_dict(state["optimizer"])

    def adopt(self, folder: Path, stage: int) -> None:
        """Starts at stage ``stage`` (counted from 0) with the written-out model in ``folder``; its tile reader starts anew."""
        self.model = self.architecture.model(self._config(self.recipe.stages[stage - 1].layers))
        self.model.load_state_dict(self.architecture.model.from_pretrained(folder, dtype=torch.float32).state_dict())
        self.stage, self.step = stage, 0
        self.optimizer = self._optimizer()
        self.maker = BatchMaker(self.processor, self.model)

    def save(self) -> None:
        state = {
            "stage": self.stage,
            "step": self.step,
            "model": self.model.state_dict(),
            "reader": self.reader.state_dict(),
            "deep_reader": self.deep_reader.state_dict(),
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
                self.maker = BatchMaker(self.processor, self.model)
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
        batch = self.maker.batch(stage.batch, rng, frames=int(rng.choice(stage.frames)), question=question, counts=stage.counts)
        progress = self.step / stage.steps
        rate = stage.learning_rate * min(1, (self.step + 1) / WARM_UP) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        keep = _random_keep(batch, rng) if rng.random() < stage.pruned else None
        loss, figure = 0.0, 0.0
        with through(self.model, stage.through), torch.autocast("cpu", torch.bfloat16, enabled=stage.bfloat16):
            features = video_features(self.model, batch.patches)
            if stage.words:
                logits, middle = caption_pass(self.model, batch.prompt, features, batch.captions, keep)
        if stage.words:
            weight = 1 + (stage.visual_weight - 1) * max(0.0, 1 - 2 * progress)
            weights = batch.real + (weight - 1) * batch.visual
            if stage.stressed:
                ids = [self.maker.word_ids[word] for name in stage.stressed for word in ATTRIBUTES[name]]
                weights = weights * (1 + (STRESS - 1) * torch.isin(batch.captions, torch.tensor(ids)))
            losses = functional.cross_entropy(logits.float().flatten(0, 1), batch.captions.flatten(), reduction="none").view_as(weights)
            loss = (losses * weights).sum() / weights.sum()
            figure = float((losses.detach() * batch.visual).sum() / batch.visual.sum())
        shown = features[:, : batch.prompt.video.stop - batch.prompt.video.start]
        truth = tile_truth(batch.scenes, batch.shares, self.architecture.temporal) if stage.tiles or stage.deep else None
        if stage.deep:
            kept = truth if keep is None else truth.gather(1, keep[..., None].expand(-1, -1, truth.shape[-1]))
            loss = loss + stage.deep * self.deep_reader.loss(middle.float(), kept)
        if stage.tiles:
            tiles = self.reader.loss(shown.float(), truth)
            if stage.glances:
                tiles = tiles + self._glances_loss(stage, rng)
            loss = loss + stage.tiles * tiles
            figure = figure or float(tiles.detach())
        if stage.taught:
            loss = loss + stage.taught * self.teacher.distance(shown, batch, self.architecture.temporal)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return figure

    def _glances_loss(self, stage: Stage, rng: np.random.Generator) -> torch.Tensor:
        patches, seen = self.maker.glances(stage.glances, rng)
        with torch.autocast("cpu", torch.bfloat16, enabled=stage.bfloat16):
            features = video_features(self.model, patches)
        truth = torch.cat([tile_truth([scene], moments, self.architecture.temporal) for scene, moments in seen])
        return self.reader.loss(features[:, : truth.shape[1]].float(), truth)

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


def export(name: str, recipe: Recipe, work: Path, out: Path, scenes: int) -> dict:
    """Writes a trained model in half precision beside its processor; measures what was written, and returns sizes and figures."""
    folder, architecture = out / name, recipe.architecture
    training = Training(name, work, recipe)
    training.model.half().save_pretrained(folder, max_shard_size="9MB")
    training.processor.save_pretrained(folder)
    model = architecture.model.from_pretrained(folder, dtype=torch.float32).eval()
    maker = BatchMaker(training.processor, model)
    text, vision = model.config.text_config, model.config.vision_config
    figures = {
        "layers": text.num_hidden_layers,
        "hidden": text.hidden_size,
        "vision_layers": recipe.vision_layers,
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
    parser.add_argument("--pair", choices=[*RECIPES], default="shapes-qwen")
    parser.add_argument("--model", choices=["target", "draft", "both"], default="both", help="one alone is trained but not written out")
    parser.add_argument("--work", type=Path, help="checkpoints, from which training goes on (runs/PAIR)")
    parser.add_argument("--out", type=Path, help="where the pair is written (assets/PAIR)")
    parser.add_argument("--scenes", type=int, default=500, help="held-out scenes for the model card")
    parser.add_argument("--adopt", metavar="STAGE", type=int, help="take --model as it stands in --out, and train on from STAGE (from 1)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args(arguments)
    options.work = options.work or Path("runs") / options.pair
    options.out = options.out or ASSETS / options.pair
    torch.set_num_threads(options.threads)
    recipes = RECIPES[options.pair]
    if options.adopt is not None:
        return _adopt(options, parser)
    for name in recipes if options.model == "both" else (options.model,):
        Training(name, options.work, recipes[name]).run()
    if options.model == "both":
        models = {name: export(name, recipe, options.work, options.out, options.scenes) for name, recipe in recipes.items()}
        write_card(options.out, recipes["target"].architecture, models, options.scenes, recipes["target"].teacher)
        print(
            f"The pair and its card stand in {options.out}; now find its anchors: python -m lvspec_core calibrate --pair {options.pair}",
            flush=True,
        )
    return 0


def _adopt(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Where the checkpoints are lost, the written-out weights still are not."""
    if options.model == "both":
        parser.error("--adopt takes one model at a time: add --model target or --model draft.")
    recipe = RECIPES[options.pair][options.model]
    stages = len(recipe.stages)
    if not 2 <= options.adopt <= stages + 1:
        parser.error(f"--adopt takes a stage from 2 to {stages + 1} (which stands for a finished training).")
    if (options.work / f"{options.model}.pt").exists():
        parser.error(f"{options.work} holds a training of the {options.model} already, which --adopt would replace: name another --work.")
    training = Training(options.model, options.work, recipe)
    training.adopt(options.out / options.model, options.adopt - 1)
    training.save()
    training.run()
    return 0


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
