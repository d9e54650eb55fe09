"""From a pair's names to models that fit each other: what is wrong is found, and said, before any weights are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, BitsAndBytesConfig
from transformers.utils import is_bitsandbytes_available

from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.errors import PairError
from lvspec_core.families import FAMILIES
from lvspec_core.families.base import VideoLM
from lvspec_core.memory import CONTEXT, Demand, Model, estimate
from lvspec_core.registry import PairInfo
from lvspec_core.room import Room, require, room_here

ROLES = ("target", "draft")
FAILURES = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError, SafetensorError)
NO_MEMORY = (torch.OutOfMemoryError, MemoryError)
# what both vision towers must share, so that one prompt serves both models
GEOMETRY = ("patch_size", "spatial_merge_size", "temporal_patch_size", "tokens_per_second", "image_size")
TOKEN_IDS = ("image_token_id", "video_token_id", "image_token_index", "video_token_index", "vision_start_token_id", "vision_end_token_id")
SPREAD_SHARE = 0.9  # of a GPU's memory that weights and caches may fill where a model is spread


@dataclass(frozen=True)
class Plan:
    """What is known of a pair once its configurations have been read. ``models``: target and draft, as memory is reckoned; none of a
    bundled pair, for which it is not."""

    family: str
    models: tuple[Model, ...]
    device: torch.device
    dtype: torch.dtype


def device_and_type(info: PairInfo) -> tuple[torch.device, torch.dtype]:
    """Where a pair goes and in which precision: bfloat16 on a GPU that has it, else float32. In float16 Qwen's models overflow
    (github.com/huggingface/transformers/pull/33312, github.com/QwenLM/Qwen3/issues/868)."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if info.precision:
        return device, getattr(torch, info.precision)
    # torch also says yes where it emulates it, slowly and without an attention kernel for it
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return device, torch.bfloat16 if fast else torch.float32


def plan(info: PairInfo) -> Plan:
    """Reads a pair's configurations, tokenizers and processors, no weights; PairError with one sentence for what does not fit."""
    device, dtype = device_and_type(info)
    if info.quantise and device.type != "cuda":
        raise PairError("Quantised models need a CUDA GPU; leave out the quantisation.")
    if info.quantise and not is_bitsandbytes_available():
        raise PairError("Quantised models need the package bitsandbytes; install it with: pip install bitsandbytes.")
    if info.spread and device.type != "cuda":
        raise PairError("A pair can be spread over GPUs only, and there is none; leave out --device-map.")
    configs = {role: read_config(info, role) for role in ROLES}
    if info.bundled:
        return Plan(info.family, (), device, dtype)
    families = {role: family_of(info, role, config) for role, config in configs.items()}
    if families["target"] != families["draft"]:
        told = " and the draft a ".join(families[role] for role in ROLES)
        raise PairError(f"The target is a {told}; a pair must be of one family, as both models read one prompt.")
    family = families["target"]
    processors = {role: read_processor(info, role) for role in ROLES}
    if not info.alone:
        compare_tokens(info, processors, configs)
    if not info.alone:
        compare_geometry(info, configs)
    models = tuple(model_of(family, role, configs[role], processors[role]) for role in ROLES)
    for role, model in zip(ROLES, models, strict=True):
        if not info.own:
            as_expected(info, role, model)
    return Plan(family, models, device, dtype)


def read_config(info: PairInfo, role: str) -> Any:
    """The configuration of one of a pair's checkpoints."""
    source = getattr(info, role)
    if (info.bundled or is_folder(source)) and not (Path(source) / "config.json").is_file():
        if info.bundled:
            raise PairError(f"The {role} of {info.name} is missing; get the complete project again, its weights included.")
        raise PairError(f"The {role} of {info.name} is missing: {Path(source).name} holds no config.json.")
    try:
        return AutoConfig.from_pretrained(source, revision=info.revision(role) or None)
    except FAILURES as error:
        raise PairError(unreadable(info, role, error)) from error


def read_processor(info: PairInfo, role: str) -> Any:
    """The processor of one of a pair's checkpoints, its tokenizer included."""
    try:
        return AutoProcessor.from_pretrained(getattr(info, role), revision=info.revision(role) or None)
    except Exception as error:  # tokenizers raises bare ones
        raise PairError(unreadable(info, role, error)) from error


def family_of(info: PairInfo, role: str, config: Any) -> str:
    """The family of a configuration; PairError naming the supported ones."""
    if config.model_type in FAMILIES:
        return config.model_type
    known = " and ".join(FAMILIES)
    raise PairError(f"The {role} {shown(getattr(info, role))} is a {config.model_type} model; supported architectures are {known}.")


def compare_tokens(info: PairInfo, processors: dict, configs: dict) -> None:
    """PairError if the two tokenizers are not one and the same: a draft's token must mean to the target what it means to the draft."""
    tokenizers = [processors[role].tokenizer for role in ROLES]
    added = [tokenizer.get_added_vocab() for tokenizer in tokenizers]
    words = [each.get_vocab().items() - extra.items() for each, extra in zip(tokenizers, added, strict=True)]
    if words[0] != words[1]:
        raise PairError(f"The target and the draft of {info.name} have different tokenizers; a pair must share one.")
    ids = [{name: getattr(configs[role], name, None) for name in TOKEN_IDS} for role in ROLES]
    for one, other in (added, ids):
        differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        if differing:
            name = differing[0]
            raise PairError(
                f"The target and the draft of {info.name} have different special tokens: {name} is {one.get(name, 'missing')} in one"
                f" and {other.get(name, 'missing')} in the other; a pair must share them."
            )


def compare_geometry(info: PairInfo, configs: dict) -> None:
    """PairError if the models cut videos into different patches."""
    visions = [configs[role].vision_config for role in ROLES]
    differing = [name for name in GEOMETRY if getattr(visions[0], name, None) != getattr(visions[1], name, None)]
    if differing:
        told = differing[0].replace("_", " ")
        raise PairError(f"The target and the draft of {info.name} cut videos into different patches ({told}); a pair must share them.")


def model_of(family: str, role: str, config: Any, processor: Any) -> Model:
    """What a model's memory hangs on; its parameters are counted on an empty copy of it."""
    try:
        with torch.device("meta"):
            empty = AutoModelForImageTextToText.from_config(config)
        empty.tie_weights()
    except Exception as error:  # whatever a nonsensical number leads to
        raise PairError(f"The configuration of the {role} makes no model ({type(error).__name__}); its config.json is damaged.") from error
    parameters = sum(parameter.numel() for parameter in empty.parameters())
    video = processor.video_processor.to_dict()
    return Model.of(family, config.to_dict(), video, parameters)


def as_expected(info: PairInfo, role: str, model: Model) -> None:
    """PairError if a registry pair's checkpoint without a known revision is not the one that its configuration was typed from."""
    typed = CHECKPOINTS.get(getattr(info, role))
    if typed is None or info.revision(role):
        return
    wanted = Model.of(typed.family, typed.config, typed.processor, typed.parameters)
    differing = [field.name for field in fields(Model) if getattr(model, field.name) != getattr(wanted, field.name)]
    if differing:
        name = differing[0]
        raise PairError(
            f"{getattr(info, role)} is not the checkpoint that {info.name} was made for ({name.replace('_', ' ')} {getattr(model, name)},"
            f" not {getattr(wanted, name)}); name it with --target and --draft to use it as it is."
        )


def load_models(info: PairInfo, made: Plan, demand: Demand | None) -> tuple[VideoLM, VideoLM]:
    """(target, draft), the same model twice where the target drafts for itself. PairError if they do not fit this machine.
    ``demand`` None: there is no device yet that could tell what it has. Weights are moved there once they have been read, then:
    ``from_pretrained`` would place them from threads of its own, in which ZeroGPU's stand-in for a GPU is not at work."""
    room = None
    if demand:
        room = room_here(made.dtype.itemsize)
        require(info, made.models, demand, room)
    target = _load(info, "target", made, _placing(info, made, demand, room))
    if info.alone:
        return target, target
    direct = demand is not None and made.device.type == "cuda" and not info.bundled
    # beside the target's head: what the one says the other reads
    return target, _load(info, "draft", made, {"device_map": {"": target.device}} if direct else {})


def _placing(info: PairInfo, made: Plan, demand: Demand | None, room: Room | None) -> dict:
    """Where the target goes, as ``from_pretrained`` takes it; {}: it is moved there once it has been read."""
    if made.device.type != "cuda" or info.bundled or demand is None:
        return {}
    if not info.spread:
        return {"device_map": {"": torch.cuda.current_device()}}
    need = estimate(made.models, demand, room.width, info.quantise, info.alone)
    draft = 0 if info.alone else made.models[1].weights(room.width, info.quantise)
    # every GPU keeps room for its layers' caches, the last one for the draft as well
    share = need.race // room.gpus + CONTEXT
    most = {index: int(torch.cuda.mem_get_info(index)[0] * SPREAD_SHARE) - share for index in range(room.gpus)}
    most[room.gpus - 1] -= draft
    return {"device_map": "auto", "max_memory": {index: max(0, size) for index, size in most.items()}}


def _load(info: PairInfo, role: str, made: Plan, placing: dict) -> VideoLM:
    source = getattr(info, role)
    options = dict(placing)
    if info.revision(role):
        options["revision"] = info.revision(role)
    if info.quantise:
        options["quantization_config"] = quantisation(info.quantise, made.dtype)
    try:
        model = FAMILIES[made.family].load(source, made.dtype, made.device, **options)
    except NO_MEMORY as error:
        raise PairError(f"The {role} of {info.name} does not fit into memory; choose a smaller pair.") from error
    except FAILURES as error:
        if "dispatched on the CPU or the disk" in str(error):  # bitsandbytes looks before it reads
            raise PairError(overflowing(info, role)) from error
        raise PairError(unreadable(info, role, error)) from error
    places = getattr(model.model, "hf_device_map", None) or {}
    if made.device.type == "cuda" and {"cpu", "disk"} & set(map(str, places.values())):
        raise PairError(overflowing(info, role))
    return model


def overflowing(info: PairInfo, role: str) -> str:
    """One sentence on a spread model that is larger than the GPUs together."""
    smaller = "choose a smaller pair" if info.quantise == "4bit" else "quantise it (--quantise 4bit) or choose a smaller pair"
    return f"The {role} of {info.name} does not fit on the GPUs together; {smaller}."


def quantisation(kind: str, dtype: torch.dtype) -> BitsAndBytesConfig:
    """How transformers is told to quantise."""
    if kind == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def unreadable(info: PairInfo, role: str, error: BaseException) -> str:
    """One sentence on why a checkpoint cannot be read, from what the hub's client or transformers raised."""
    source, revision = getattr(info, role), info.revision(role)
    if is_folder(source):
        return f"The {role} of {info.name} cannot be read; its files are damaged or incomplete."
    causes = list(_causes(error))

    def because(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    name = f"The {role} {source}"
    if because(GatedRepoError):
        return f"{name} is gated: ask for access at https://huggingface.co/{source}, then set HF_TOKEN to a token of that account."
    if because(RevisionNotFoundError):
        return f"{name} has no revision {revision!r}; name a commit, a branch or a tag that is on the hub."
    if because(RepositoryNotFoundError):
        return f"{name} cannot be loaded: the hub has no such model, or it is private and HF_TOKEN holds no token that may see it."
    if because(OfflineModeIsEnabled, LocalEntryNotFoundError, httpx.TransportError, ConnectionError, TimeoutError) or _unreachable(causes):
        return f"{name} cannot be loaded: it is not in the hub's cache, and the hub is out of reach or switched off (HF_HUB_OFFLINE)."
    if because(HfHubHTTPError):
        return f"{name} cannot be loaded: the hub answered with an error; try again later."
    return f"{name} cannot be loaded; its files on the hub are no complete model for transformers ({type(error).__name__})."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _unreachable(causes: list[BaseException]) -> bool:
    """Whether transformers looked in the cache only, which it tells in words alone."""
    return any("couldn't connect" in str(cause) or "cached files" in str(cause) for cause in causes)


def is_folder(source: str) -> bool:
    return Path(source).is_absolute()


def shown(source: str) -> str:
    """A hub name as it is; of a folder only its name, so that no machine's paths are shown."""
    return Path(source).name if is_folder(source) else source
