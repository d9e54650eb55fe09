"""What ``--model_args`` says, as a pair, the settings of every race, and the folder for the records."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lvspec_core.errors import PairError, SettingsError
from lvspec_core.pair_options import chosen_pair
from lvspec_core.registry import PairInfo
from lvspec_core.settings import FURTHER_RANGES, METHODS, RANGES, RaceSettings

MODELS = {"pair": None, "target": None, "draft": None, "revision": "", "draft_revision": "", "quantise": None, "device_map": None}
PAIRS = {"qwen2_5_vl": "qwen2.5-vl-7b", "llava_onevision": "llava-onevision-7b"}
# what a task's generation_kwargs say, not the model's arguments
BY_REQUEST = ("temperature", "top_p")
SETTINGS = (*(name for name in (RANGES | FURTHER_RANGES) if name not in BY_REQUEST), "proposal")
NAMES = ("method", *MODELS, *SETTINGS, "save_path")
NEW_TOKENS = 256  # where neither the task nor the user says how many [code: SpecVLM's setting]
BESIDE = "lvspec"


@dataclass(frozen=True)
class Arguments:
    """``settings``: of a race, as far as no request changes them. ``most``: the user's own limit of new tokens, None without one.
    ``folder``: where the records go; None: nowhere."""

    info: PairInfo
    settings: RaceSettings
    most: int | None
    folder: Path | None


def read_arguments(given: dict, family: str, command: Sequence[str] = ()) -> Arguments:
    """The arguments of a model of this family. ``command``: lmms-eval's own command line, beside whose output the records go where
    there is no ``save_path``. SettingsError or PairError with one sentence."""
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise SettingsError(f"Unknown model argument {unknown[0]!r}; choose among {', '.join(NAMES)}.")
    info = _pair(given, family)
    most = given.get("max_new_tokens")
    values = {name: given[name] for name in SETTINGS if name in given}
    values.setdefault("max_new_tokens", NEW_TOKENS)
    method = given.get("method", "lvspec")
    if method not in METHODS:
        raise SettingsError(f"Unknown method {method!r}; choose one of {', '.join(METHODS)}.")
    settings = RaceSettings(pair=info.name, methods=(method,), **values).validated()
    folder = Path(str(given["save_path"])).expanduser() if given.get("save_path") else beside_output(command)
    return Arguments(info, settings, settings.max_new_tokens if most is not None else None, folder)


def _pair(given: dict, family: str) -> PairInfo:
    named = {name: given.get(name, default) for name, default in MODELS.items()}
    texts = {name: value if value is None else str(value) for name, value in named.items()}
    if texts["device_map"] not in (None, "auto"):
        raise SettingsError("The device_map is auto or left out; each process takes the GPU that accelerate gives it.")
    if not (texts["pair"] or texts["target"] or texts["draft"]):
        texts["pair"] = PAIRS[family]
    info = chosen_pair(argparse.Namespace(**texts))
    check_family(info, family)
    return info


def check_family(info: PairInfo, family: str) -> None:
    """PairError if the pair, as far as that is known yet, is of another family than the model."""
    if info.family and info.family != family:
        raise PairError(f"The pair {info.name} is a {info.family}; use the model {info.family}_lvspec for it.")


def beside_output(command: Sequence[str]) -> Path | None:
    """A folder beside lmms-eval's own output, None where it writes none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--output_path", default="")
    path = parser.parse_known_args(list(command))[0].output_path
    if not path:
        return None
    # lmms-eval takes a file's name too, and then writes into its folder
    return (Path(path).parent if Path(path).suffix in (".json", ".jsonl") else Path(path)) / BESIDE
