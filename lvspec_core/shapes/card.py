"""The bundled pair's model card, written by the training command from what it measured."""

from __future__ import annotations

import json
from pathlib import Path

from lvspec_core.shapes.architectures import Architecture
from lvspec_core.shapes.scene import ATTRIBUTES
from lvspec_core.terminal_words import share

TEXT = """---
license: apache-2.0
library_name: transformers
tags: [video-text-to-text, {tag}, synthetic]
---

# {name}: a tiny target/draft pair of the {title} architecture

Trained {start} on clips of moving shapes by `python -m lvspec_core train-shapes --pair {name}`, which also wrote
this card. The pair exists to show speculative decoding without a GPU or a model hub. It understands clips of one to three moving
shapes, and answers *Describe the video in detail.* (and close variants) with a caption, *Describe the video in short.* with the
facts alone. On any other video its words mean nothing.

Both folders load with `{model}.from_pretrained` and `{processor}.from_pretrained`.

| | target | draft |
| --- | ---: | ---: |
| language model layers × width | {target[layers]} × {target[hidden]} | {draft[layers]} × {draft[hidden]} |
| vision layers × width | {target[vision_layers]} × {target[vision_hidden]} | {draft[vision_layers]} × {draft[vision_hidden]} |
| parameters | {target[parameters]:,} | {draft[parameters]:,} |
| training clips | {target[samples]:,} | {draft[samples]:,} |

## Facts right on {scenes} held-out scenes

Greedy captions, 8 frames; a fact is right if the caption states it for the right object. "Pruned": the draft sees every second video
token, as LVSpec's draft does.

| | target | draft | draft, pruned |
| --- | ---: | ---: | ---: |
{rows}

Weights are stored in half precision and loaded as float32 on a CPU; the figures are of the stored weights.
"""


def write_card(folder: Path, architecture: Architecture, models: dict[str, dict], scenes: int, teacher: str = "") -> None:
    """``models``: role -> sizes and "facts" (and "facts_pruned" for the draft). Also writes the same figures as metrics.json."""
    rows = []
    for attribute in (*ATTRIBUTES, "all"):
        cells = (models["target"]["facts"], models["draft"]["facts"], models["draft"]["facts_pruned"])
        label = f"**{attribute}**" if attribute == "all" else attribute
        rows.append(f"| {label} | " + " | ".join(share(cell[attribute]) for cell in cells) + " |")
    text = TEXT.format(
        name=folder.name,
        title=architecture.title,
        tag=architecture.title.lower(),
        start=f"with the language layers of {teacher} to start from" if teacher else "from scratch",
        model=architecture.model.__name__,
        processor=architecture.processor.__name__,
        scenes=scenes,
        rows="\n".join(rows),
        target=models["target"],
        draft=models["draft"],
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
    (folder / "metrics.json").write_text(json.dumps({"scenes": scenes, **models}, indent=1) + "\n", encoding="utf-8")
