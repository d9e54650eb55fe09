"""The steps of a race on one pair at so many frames, each as a piece of work that can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch

from lvspec_core.families import graphs
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stream import Stream
from lvspec_core.gpu_check.rows import Bytes
from lvspec_core.graph_plan import padded
from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.settings import DEFAULT_QUESTION
from lvspec_core.tree_drafting import STATIC_DEPTH, static_plan
from lvspec_core.trees import tree_of
from lvspec_core.video import VideoClip

CHAINS = (4, 8, 16)  # γ of the verifications that are measured
DRAFTED = 8  # tokens of the chains that are drafted
PRUNED = 0.9  # SpecVLM's published pruning ratio
ROOM = 64  # rows that a cache has beside the prompt


@dataclass
class Step:
    """``work`` may be run any number of times, and leaves things as they were. ``leads``: the steps after it need what it leaves.
    ``warm_ups``: 0 for what no GPU does."""

    name: str
    work: Callable[[], object]
    sees: str = "all"
    cached: int = 0
    rows: int = 0
    needs: Bytes | None = None
    leads: bool = False
    warm_ups: int = 2


@dataclass
class Site:
    """One model's side of a race: what earlier steps left for later ones."""

    model: VideoLM
    role: str
    clip: VideoClip
    prompt: Prompt | None = None
    features: torch.Tensor | None = None
    streams: dict[str, Stream] = field(default_factory=dict)

    def ready(self, share: str) -> Stream:
        """The stream over this share of the video, at the prompt's end."""
        stream = self.streams[share]
        stream.read_tail(self.prompt)
        return stream


def opening(site: Site) -> Iterator[Step]:
    """Before any text model runs; all else needs it."""

    def encode() -> None:
        site.prompt = site.model.encode(site.clip, DEFAULT_QUESTION)

    def see() -> None:
        site.features = None  # the old ones would count as well
        site.features = site.model.video_features(site.prompt)

    if site.prompt is None:
        yield Step("frames to patches, on the host", encode, leads=True, warm_ups=0)
    yield Step("vision tower", see, leads=True)


def groups_of(site: Site) -> Iterator[Iterator[Step]]:
    """After the opening: of each group the first step leads."""
    yield _as_target(site) if site.role == "target" else _as_draft(site, "all", None)
    if site.role == "draft":
        kept = uniform_keep(site.prompt.grid, keep_count(site.prompt.video_tokens, PRUNED))
        yield _as_draft(site, f"{1 - PRUNED:.0%}", kept)


def _as_target(site: Site) -> Iterator[Step]:
    yield _reading(site, "all", None)
    stream = site.ready("all")
    yield from _both(stream, _pass(stream, "one AR token", 1))
    for length in CHAINS:
        yield from _both(stream, _pass(stream, f"verification, γ = {length}", length + 1))
    _, parents, _, _ = static_plan(STATIC_DEPTH, site.model.device)
    tree = tree_of(parents)
    yield from _both(stream, _pass(stream, f"verification, tree of {len(tree)}", len(tree) + 1, tree.sees_on(site.model.device)))


def _as_draft(site: Site, share: str, keep: list[int] | None) -> Iterator[Step]:
    yield _reading(site, share, keep)
    stream = site.ready(share)
    yield from _both(stream, _pass(stream, "one draft token", 1, share=share))
    yield from _both(stream, _chain(stream, share, waits=False), rows=1)
    yield _chain(stream, share, waits=True)


def _both(stream: Stream, step: Step, rows: int = 0) -> Iterator[Step]:
    """A step as it is, and with its passes of so many rows (all of the step's, if 0) replayed as a CUDA graph, whether or not that
    pays. On a CPU they run in their fixed shape. Recording is the first thing that the step does: it may fail, and is no part of
    what is measured."""
    eager, passes = step.work, []
    yield step

    def work() -> object:
        if not passes:
            size = padded(rows or step.rows)
            passes.append(graphs.Passes({size: graphs.recorded(stream, size)}))
        stream.passes = passes[0]
        try:
            return eager()
        finally:
            stream.passes = None

    yield replace(step, name=f"{step.name}, replayed", work=work)


def _reading(site: Site, share: str, keep: list[int] | None) -> Step:
    """The prefill of the video; leaves a stream behind it."""

    def read() -> None:
        site.streams.pop(share, None)  # two caches at once would count twice
        site.streams[share] = site.model.prefill(site.prompt, site.features, len(site.prompt.tail) + ROOM, keep)

    rows = site.prompt.video.start + site.prompt.marks + (site.prompt.video_tokens if keep is None else len(keep))
    return Step("prefill of the video", read, share, rows=rows, leads=True)


def _pass(stream: Stream, name: str, rows: int, sees: torch.Tensor | None = None, share: str = "all") -> Step:
    """One forward pass over so many tokens and the choice after each, as a round asks for it."""
    model, length = stream.model, stream.length
    ids = torch.ones(rows, dtype=torch.long, device=model.device)

    def work() -> torch.Tensor:
        hidden = stream.append(ids, sees=sees)[0]
        stream.rollback(length)
        return model.head(hidden).argmax(-1)

    return Step(name, work, share, length, rows, read_bytes(model, length + rows))


def _chain(stream: Stream, share: str, waits: bool) -> Step:
    """DRAFTED tokens one after another; ``waits``: the host looks at each, as an adaptive chain does."""
    model, length = stream.model, stream.length
    first = torch.ones(1, dtype=torch.long, device=model.device)

    def work() -> torch.Tensor:
        ids = first
        for _ in range(DRAFTED):
            ids = model.head(stream.append(ids)[0]).argmax(-1)
            if waits:
                ids.tolist()
        stream.rollback(length)
        return ids

    each = [read_bytes(model, length + place) for place in range(1, DRAFTED + 1)]
    name = f"{DRAFTED} draft tokens" + (", the host looks at each" if waits else "")
    return Step(name, work, share, length, DRAFTED, Bytes(sum(one.weights for one in each), sum(one.cache for one in each)))


def read_bytes(model: VideoLM, tokens: int) -> Bytes:
    """What a forward pass reads with so many tokens in the cache: every weight of the layers and the head once, keys and values once.
    Of the embeddings it reads a row per token, which is nothing beside that."""
    parts = (*model.layers, model.decoder.norm, model.head)
    weights = sum(value.numel() * value.element_size() for part in parts for value in part.parameters())
    return Bytes(weights, tokens * model.row_bytes)
