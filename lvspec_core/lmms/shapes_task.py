"""``python -m lvspec_core lmms-shapes DIR``: clips of the shapes world as two tasks for lmms-eval (``--include_path DIR``).

``shapes_captions``: a detailed description, scored by the scene's facts. ``shapes_choice``: which of four descriptions fits the clip.
The bundled pairs know a few questions only, so the choice is not put to them: they describe the clip in short, and the option
with which that shares the most facts counts as chosen. All clips are held out of the pairs' training.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.progress import track

from lvspec_core.errors import DataError
from lvspec_core.lmms.scoring import LETTERS
from lvspec_core.shapes.captions import QUESTIONS, SHORT_QUESTION, to_text, write_short
from lvspec_core.shapes.clips import RATE, SIDE, world_clip
from lvspec_core.shapes.data import HELD_OUT_SEED
from lvspec_core.shapes.render import render
from lvspec_core.shapes.samples import write_clip
from lvspec_core.shapes.scene import ATTRIBUTES, Scene
from lvspec_core.terminal_words import plain_text

CAPTIONS, CHOICE = "shapes_captions", "shapes_choice"
MOST = 10_000
SCORING = "lvspec_core.lmms.scoring"
YAML = """\
task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_visual: !function {scoring}.video
doc_to_text: !function {scoring}.question
doc_to_target: {target}
generation_kwargs:
  max_new_tokens: {tokens}
  temperature: 0
  do_sample: false
process_results: !function {scoring}.{results}
metric_list:
  - metric: {metric}
    aggregation: !function {scoring}.{aggregation}
    higher_is_better: true
metadata:
  version: 1.0
"""
TASKS = {
    CAPTIONS: {"target": "truth", "tokens": 192, "results": "caption_results", "metric": "facts_right", "aggregation": "pooled"},
    CHOICE: {"target": "answer", "tokens": 48, "results": "choice_results", "metric": "accuracy", "aggregation": "mean_score"},
}


def main(arguments: list[str]) -> int:
    made = argparse.ArgumentParser(prog="python -m lvspec_core lmms-shapes", description=__doc__, allow_abbrev=False)
    made.add_argument("folder", type=Path, metavar="DIR", help="a folder for the clips and the tasks")
    made.add_argument("--num", type=int, default=40, metavar="N", help="clips (default: %(default)s)")
    options = made.parse_args(arguments)
    write_tasks(options.folder, options.num)
    print(f"written: {CAPTIONS} and {CHOICE}; use them with --include_path {plain_text(str(options.folder))}", file=sys.stderr)
    return 0


def write_tasks(folder: Path, count: int) -> None:
    """Writes the clips, a table for each task, and the task files, which name the folder by its whole path; DataError."""
    if not 1 <= count <= MOST:
        raise DataError(f"The number of clips is from 1 to {MOST:,}.")
    folder = folder.expanduser().resolve()
    try:
        (folder / "clips").mkdir(parents=True, exist_ok=True)
        rows = [row for number in track(range(count), "clips", transient=True) for row in rows_of(folder, number)]
        for task, values in TASKS.items():
            data = folder / f"{task}.jsonl"
            data.write_text("".join(json.dumps(row) + "\n" for name, row in rows if name == task), encoding="utf-8")
            text = YAML.format(task=task, data=json.dumps(str(data)), scoring=SCORING, **values)
            (folder / f"{task}.yaml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"The tasks cannot be written to {folder}: {error.strerror}.") from None


def rows_of(folder: Path, number: int) -> list[tuple[str, dict]]:
    """Writes a clip; returns its row in each task's table."""
    scene, _ = world_clip(number, frames=1)
    path = folder / "clips" / f"{number:05d}.mp4"
    frames = round(scene.seconds * RATE)
    write_clip(path, render(scene, (np.arange(frames) + 0.5) / frames, SIDE), RATE)
    options, answer = options_of(scene, number)
    row = {"video": str(path), "number": number, "truth": short(scene)}
    return [
        (CAPTIONS, {**row, "question": QUESTIONS[0]}),
        (CHOICE, {**row, "question": SHORT_QUESTION, "options": options, "answer": answer}),
    ]


def short(scene: Scene) -> str:
    return to_text(write_short(scene))


def options_of(scene: Scene, number: int) -> tuple[list[str], str]:
    """Four descriptions of a clip and the letter of the right one; each other one has one fact changed."""
    rng = np.random.default_rng((HELD_OUT_SEED, number, 2))
    others = list(dict.fromkeys(short(changed) for changed in changes(scene, rng)))[: len(LETTERS) - 1]
    place = int(rng.integers(len(LETTERS)))
    return [*others[:place], short(scene), *others[place:]], LETTERS[place]


def changes(scene: Scene, rng: np.random.Generator) -> list[Scene]:
    """The scene with one fact changed, for every fact but the count and the places, which order the objects; mixed."""
    found = [replace(scene, background=other(scene.background, "background", rng))]
    for index, thing in enumerate(scene.things):
        for name in ("size", "colour", "shape", "motion"):
            changed = replace(thing, **{name: other(getattr(thing, name), name, rng)})
            found.append(replace(scene, things=(*scene.things[:index], changed, *scene.things[index + 1 :])))
    return [found[place] for place in rng.permutation(len(found))]


def other(word: str, attribute: str, rng: np.random.Generator) -> str:
    words = [each for each in ATTRIBUTES[attribute] if each != word]
    return words[int(rng.integers(len(words)))]
