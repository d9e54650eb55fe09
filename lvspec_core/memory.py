"""How much memory a race with a pair takes, from the models' configurations alone: before anything large is loaded.

Weights are exact. Caches are those that a race holds (:mod:`lvspec_core.prefill`), to the byte. Activations are the largest
that are alive at once, by the shapes of the layers [ours]; tests hold them against what really is alive. No library for models is
needed, so that a page can tell it while a pair is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lvspec_core import graph_plan
from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.graph_plan import STATIC_TREE
from lvspec_core.registry import PairInfo
from lvspec_core.settings import RaceSettings
from lvspec_core.sight import LARGEST, SIGHTS, Sight

GB = 2**30  # as memory of GPUs is sold
# bytes of a quantised weight, its scales included (bitsandbytes: one float per row; one per 64 weights)
QUANTISED = {"8bit": 1.01, "4bit": 0.5625}
RESERVE = 0.05  # of the whole, for what an allocator cannot use [ours]
CONTEXT = GB // 2  # what a GPU's driver and kernels take [ours]
PROMPT = 40  # tokens of the chat template and the system's words, at most
GRAPH = 32 * 2**20  # of a recorded CUDA graph beside its buffers: the blocks that its memory is cut from, its kernels [ours]


@dataclass(frozen=True)
class Model:
    """What a model's memory hangs on. ``kept``: parameters that quantisation leaves as they are, the embeddings and the head."""

    parameters: int
    kept: int
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vision_hidden: int
    vision_intermediate: int
    sight: Sight

    @classmethod
    def of(cls, family: str, config: dict, processor: dict, parameters: int) -> Model:
        """From a config.json, flat or nested, and what the processor says about videos."""
        text, vision = config.get("text_config") or config, config["vision_config"]
        tied = config.get("tie_word_embeddings") or text.get("tie_word_embeddings")
        hidden, heads, vocabulary = text["hidden_size"], text["num_attention_heads"], text["vocab_size"]
        return cls(
            parameters,
            vocabulary * hidden * (1 if tied else 2),
            vocabulary,
            hidden,
            text["intermediate_size"],
            text["num_hidden_layers"],
            heads,
            text.get("num_key_value_heads") or heads,
            text.get("head_dim") or hidden // heads,
            vision["hidden_size"],
            vision["intermediate_size"],
            SIGHTS[family](config, processor),
        )

    def weights(self, width: int, quantise: str) -> int:
        """Bytes of the weights; ``width``: bytes of a value."""
        if not quantise:
            return self.parameters * width
        return round((self.parameters - self.kept) * QUANTISED[quantise]) + self.kept * width

    def row(self, width: int) -> int:
        """Bytes of one token in a cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * width


@dataclass(frozen=True)
class Demand:
    """What a race asks for: how many frames of which height and width, in pixels, and the settings that caches hang on."""

    settings: RaceSettings
    height: int = LARGEST[0]
    width: int = LARGEST[1]
    prompt: int | None = None  # tokens of the prompt without the video, None: estimated from the question

    @property
    def text(self) -> int:
        return PROMPT + len(self.settings.question) if self.prompt is None else self.prompt

    @property
    def spare(self) -> int:
        """Rows for branches that are not taken (:func:`lvspec_core.proposals.spare_rows`)."""
        asked = self.settings
        dynamic = max(asked.tree_nodes, asked.tree_width * asked.tree_depth)
        return {"chain": 0, "static_tree": STATIC_TREE, "dynamic_tree": dynamic}[asked.proposal]


@dataclass(frozen=True)
class Estimate:
    """Bytes. ``caches``: of all lanes; ``activations``: the most that is alive at once beside them; ``context``: of the GPU's driver;
    ``graphs``: what recorded passes hold, where they were asked for."""

    weights: int
    caches: int
    activations: int
    context: int
    graphs: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.race

    @property
    def race(self) -> int:
        """What is needed beside the weights."""
        beside = self.caches + self.activations + self.graphs
        return beside + self.context + round(RESERVE * (self.weights + beside))


def estimate(
    models: Sequence[Model],
    demand: Demand,
    width: int = 2,
    quantise: str = "",
    alone: bool = False,
    calibrated: bool = True,
    gpu: bool = True,
) -> Estimate:
    """Of a race. ``models``: target and draft. ``width``: bytes of a value. ``alone``: the target drafts for itself, its weights
    are there once. ``calibrated``: every lane's tokens are scored by a draft. CUDA graphs count if the environment asks for them."""
    target, draft = models
    weights = target.weights(width, quantise) + (0 if alone else draft.weights(width, quantise))
    rows = cache_rows(target.sight, demand, calibrated)
    caches = rows[0] * target.row(width) + rows[1] * draft.row(width)
    alive = max(_activations(target, demand, width), _activations(draft, demand, width))
    graphs = recorded(models, demand, width) if gpu and graph_plan.wanted() else 0
    return Estimate(weights, caches, alive + _features(models, demand, width), CONTEXT if gpu else 0, graphs)


def cache_rows(sight: Sight, demand: Demand, calibrated: bool) -> tuple[int, int]:
    """Tokens that all caches of a race hold room for: the target's and the draft's.

    The target keeps the video as it was read, the question behind it for the lanes to start from, with and without SpecVLM's
    watch, and one cache per lane. The draft has one per drafting lane, and one per lane that scores its tokens.
    """
    methods, (whole, kept) = demand.settings.methods, _capacities(sight, demand)
    lanes = len(methods)
    attended, plain = "specvlm" in methods, any(name != "specvlm" for name in methods)
    full, pruned = "naive_sd" in methods, attended + ("lvspec" in methods)
    if calibrated:
        pruned += lanes + ("lvspec" not in methods)
    return (lanes + 1 + attended + plain) * whole, full * whole + pruned * kept


def _capacities(sight: Sight, demand: Demand) -> tuple[int, int]:
    """Tokens that a cache holds room for, with the whole video and with a pruned one."""
    asked = demand.settings
    video = sight.tokens(asked.frames, demand.height, demand.width)
    around = demand.text + asked.max_new_tokens + demand.spare
    tiles = video - sight.extra  # what stands after them is never pruned
    kept = max(1, min(tiles, round(tiles * (1 - asked.pruning_ratio)))) + sight.extra
    return video + around, kept + around


def recorded(models: Sequence[Model], demand: Demand, width: int) -> int:
    """What the CUDA graphs of all lanes hold: per recorded pass its buffers, what is alive while it runs, the weights that LVSpec's
    relevance reads of the draft (of all its layers, as which ones is not known before calibration), and GRAPH."""
    target, draft = models
    asked, (whole, kept) = demand.settings, _capacities(target.sight, demand)
    held = 0
    for name in asked.methods:
        for rows in graph_plan.sizes({graph_plan.target_rows(name, asked)}):
            held += _pass(target, rows, whole, width)
        for rows in graph_plan.sizes(graph_plan.draft_rows(name, asked)):
            capacity, watched = whole if name == "naive_sd" else kept, draft.layers if name == "lvspec" else 0
            held += _pass(draft, rows, capacity, width) + 4 * watched * draft.heads * rows * capacity
    return held


def _pass(model: Model, rows: int, capacity: int, width: int) -> int:
    """Of one recorded pass (:mod:`lvspec_core.families.fixed`): its masks and places, a layer's activations, what a graph takes."""
    buffers = rows * (capacity + 16) * (width + 1) + 40 * capacity
    return buffers + rows * (6 * model.hidden + 3 * model.intermediate) * width + GRAPH


def _features(models: Sequence[Model], demand: Demand, width: int) -> int:
    """What both vision towers hand on, and the pixels that they read."""
    sight, asked = models[0].sight, demand.settings
    tokens = sight.tokens(asked.frames, demand.height, demand.width)
    return tokens * sum(model.hidden for model in models) * width


def _activations(model: Model, demand: Demand, width: int) -> int:
    """The most that one of the parts of a race keeps alive: the vision tower over all frames, the text model's first pass over the
    video, the question under watch, a round's logits."""
    asked, sight = demand.settings, model.sight
    patches = sight.patch_count(asked.frames, demand.height, demand.width)
    tokens = sight.tokens(asked.frames, demand.height, demand.width) + demand.text
    pixels = patches * sight.values * width
    wide, inner = model.vision_hidden, model.vision_intermediate
    layer = max(5 * wide * width + sight.single * wide, (4 * wide + sight.inner * inner) * width)
    vision = pixels + patches * (layer + sight.held * wide * width)
    # the stream before and after attention, embeddings, features, the normed input; the two halves of the gated layer, their product
    read = tokens * (5 * model.hidden + 3 * model.intermediate) * width
    watched = 3 * 4 * model.heads * demand.text * tokens if "specvlm" in asked.methods else 0
    rows = 1 + max(asked.draft_length, asked.tree_nodes, STATIC_TREE)
    return max(vision, read + watched, 3 * 4 * rows * model.vocabulary)


def known_models(info: PairInfo) -> tuple[Model, Model] | None:
    """Target and draft of a pair whose configurations are typed in, None for any other."""
    found = [CHECKPOINTS.get(source) for source in (info.target, info.draft)]
    if None in found:
        return None
    target, draft = (Model.of(each.family, each.config, each.processor, each.parameters) for each in found)
    return target, draft


def needed_line(info: PairInfo, settings: RaceSettings) -> str:
    """One sentence for where a pair is chosen: what a race with these settings takes on a GPU; "" where no configuration is typed in."""
    models = known_models(info)
    if models is None:
        return ""
    demand = Demand(settings)
    whole, small = (estimate(models, demand, 2, quantise, info.alone).total / GB for quantise in (info.quantise, "4bit"))
    lanes = len(settings.methods)
    where = f"at {settings.frames} frame{'s' * (settings.frames != 1)} and {lanes} lane{'s' * (lanes != 1)}"
    smaller = "" if info.quantise == "4bit" else f", about {small:.0f} GB in 4 bits"
    return f"This pair needs about {whole:.0f} GB of GPU memory {where}{smaller}."
