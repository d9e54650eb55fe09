"""A pair of one's own: any two checkpoints of a supported architecture, from the hub or from a folder. Plain data, like the registry's.

It is made from what a user typed on the command line or on a page of their own, never from a race file or a link.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

from lvspec_core.errors import PairError
from lvspec_core.registry import QUANTISATIONS, PairInfo

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
LONGEST = 400
PREFIX = "own-"


def own_pair(target: str, draft: str = "", target_revision: str = "", draft_revision: str = "", **choices) -> PairInfo:
    """The pair of these checkpoints, each a hub name or a folder; without a draft the target drafts for itself.

    ``choices``: see :func:`with_choices`. The same models always give the same name and calibration folder. PairError if a name
    can be neither; nothing is loaded or looked up on the hub.
    """
    target = source_of(target, "target")
    if not draft.strip():
        draft, draft_revision = target, draft_revision or target_revision
    draft = source_of(draft, "draft")
    key = "\n".join((target, target_revision, draft, draft_revision))
    mark = hashlib.sha256(key.encode()).hexdigest()[:10]
    short = [Path(each).name for each in (target, draft)]
    title = f"{short[0]} with {'itself' if draft == target else short[1]}"
    folder = calibrations() / f"{re.sub(r'[^A-Za-z0-9.]+', '-', short[0])[:40]}-{mark}"
    made = PairInfo(
        f"{PREFIX}{mark}",
        title,
        "",
        target,
        draft,
        folder=str(folder),
        target_revision=target_revision.strip(),
        draft_revision=draft_revision.strip(),
        own=True,
    )
    return with_choices(made, **choices)


def with_choices(info: PairInfo, quantise: str | None = None, spread: bool = False) -> PairInfo:
    """A pair loaded in another way: ``quantise``, one of QUANTISATIONS; ``spread`` over all GPUs. PairError if there is no such way."""
    quantise = quantise or ""
    if quantise not in QUANTISATIONS:
        raise PairError(f"Unknown quantisation {quantise!r}; choose 8bit or 4bit.")
    if info.bundled and (quantise or spread):
        raise PairError(f"{info.name} is small enough as it is; neither quantise it nor spread it over GPUs.")
    return replace(info, quantise=quantise, spread=bool(spread))


def source_of(text: str, role: str) -> str:
    """A folder as an absolute path, or a hub name; PairError if it can be neither."""
    text = text.strip()
    if not text:
        raise PairError(f"Name the {role}: a hub name such as Qwen/Qwen2.5-VL-7B-Instruct, or a folder.")
    path = Path(text).expanduser()
    try:
        if path.is_dir():
            return str(path.resolve())
    except (OSError, ValueError):  # no path at all
        pass
    if len(text) > LONGEST or not HUB_NAME.fullmatch(text):
        raise PairError(f"The {role} {text[:80]!r} is neither a folder here nor a hub name such as Qwen/Qwen2.5-VL-7B-Instruct.")
    return text


def calibrations() -> Path:
    """The folder that keeps what was measured about pairs of one's own: LVSPEC_PAIRS_FOLDER, else in the user's cache."""
    named = os.environ.get("LVSPEC_PAIRS_FOLDER", "").strip()
    cache = os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache"
    return Path(named) if named else Path(cache) / "lvspec-race" / "pairs"
