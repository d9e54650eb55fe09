"""What a request asks of generation (``generation_kwargs`` of a task): followed, or refused in one sentence; nothing is overlooked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lvspec_core.errors import SettingsError
from lvspec_core.settings import RANGES, RaceSettings

# names that change nothing while they have these values
NEUTRAL = {"num_beams": (None, 1), "repetition_penalty": (None, 1), "num_return_sequences": (None, 1), "use_cache": (None, True)}
KNOWN = ("max_new_tokens", "until", "temperature", "do_sample", "top_p", "top_k", *NEUTRAL)
# lmms-eval adds a blank line to every task that names no stop string; like its own Qwen2.5-VL, we do not end an answer there
BLANK = "\n\n"


@dataclass(frozen=True)
class Generation:
    """``temperature`` 0: greedy. ``stops``: texts at the first of which an answer ends."""

    max_new_tokens: int
    temperature: float
    top_p: float
    stops: tuple[str, ...]

    def cut(self, text: str) -> tuple[str, bool]:
        """The text up to the first stop, and whether there is one."""
        places = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        return (text[: min(places)], True) if places else (text, False)


def generation_of(asked: Mapping[str, Any], settings: RaceSettings, most: int | None = None) -> Generation:
    """What a request asks for, where it says nothing as in ``settings``. ``most``: the user's limit, which no request exceeds.
    SettingsError with one sentence for what cannot be done."""
    unknown = [name for name in asked if name not in KNOWN]
    if unknown:
        raise SettingsError(f"The task asks for {unknown[0]} in its generation_kwargs, which no method here can follow.")
    for name, values in NEUTRAL.items():
        if asked.get(name) not in values:
            raise SettingsError(f"The task asks for {name} {asked[name]}, which is not done here; set --gen_kwargs {name}=1.")
    temperature, top_p = _sampling(asked)
    return Generation(_length(asked.get("max_new_tokens"), settings, most), temperature, top_p, _stops(asked.get("until")))


def _length(asked: Any, settings: RaceSettings, most: int | None) -> int:
    if asked is None:
        return settings.max_new_tokens
    if isinstance(asked, bool) or not isinstance(asked, int | float) or asked != int(asked) or asked < 1:
        raise SettingsError(f"The task asks for {asked!r} new tokens; give a whole number.")
    highest = RANGES["max_new_tokens"][1]
    if most is None and asked > highest:
        raise SettingsError(f"The task asks for {int(asked):,} new tokens, more than {highest:,}; set max_new_tokens in --model_args.")
    return int(asked) if most is None else min(int(asked), most)


def _sampling(asked: Mapping[str, Any]) -> tuple[float, float]:
    """Temperature and top-p, read as transformers' ``generate`` reads them: ``do_sample`` decides where it is there."""
    temperature, sample, top_p = asked.get("temperature"), asked.get("do_sample"), asked.get("top_p")
    for name, value in (("temperature", temperature), ("top_p", top_p)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise SettingsError(f"The task asks for the {name} {value!r}; give a number.")
    if sample and temperature == 0:
        raise SettingsError("The task asks for sampling at temperature 0; set --gen_kwargs do_sample=False, or a temperature.")
    if sample is None:
        sample = bool(temperature)
    if not sample:
        return 0.0, 1.0
    if asked.get("top_k") not in (None, 0):
        raise SettingsError("The task asks for sampling from the top_k best tokens, which no method here does; use top_p.")
    return 1.0 if temperature is None else float(temperature), 1.0 if top_p is None else float(top_p)


def _stops(until: Any) -> tuple[str, ...]:
    texts = [] if until is None else [until] if isinstance(until, str) else until
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"The task's until is {until!r}; give a text, or a list of texts.")
    return tuple(text for text in texts if text and text != BLANK)
