"""A page's address as settings: what its query parameters ask for, read as strictly as anything from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lvspec_core.errors import UserError
from lvspec_core.registry import pair_info
from lvspec_core.settings import RaceSettings
from lvspec_core.typed_json import short

LONGEST_VALUE = 4000
KINDS = {each.name: each.type for each in fields(RaceSettings)}


@dataclass(frozen=True)
class Link:
    """``settings``: those that the address sets, each valid. ``sample``: a sample clip's file name or None. ``complaint``: one
    sentence on what was left out, or ""."""

    settings: dict[str, Any] = field(default_factory=dict)
    sample: str | None = None
    complaint: str = ""


def read_link(query: Mapping[str, str], offered: Collection[str], samples: Collection[str]) -> Link:
    """What the query parameters of an address ask for. Never raises: what is unknown or out of range is left out and told.

    ``offered``: settings that the page has a control for; ``samples``: file names. Names that begin with an underscore are
    the page's own and not looked at.
    """
    settings: dict[str, Any] = {}
    sample, ignored = None, []
    for name, text in query.items():
        if name.startswith("_"):
            continue
        if name == "sample" and text in samples:
            sample = text
        elif name in offered and (value := _value(name, text)) is not None:
            settings[name] = value
        else:
            ignored.append(name)
    return Link(settings, sample, _complaint(ignored))


def _value(name: str, text: str) -> Any:
    """A valid setting, None if the text is none."""
    if len(text) > LONGEST_VALUE:
        return None
    try:
        value = _read(text, KINDS[name])
        settings = RaceSettings(**{name: value}).validated()
        pair_info(settings.pair)
    except (ValueError, KeyError, OverflowError, UserError):
        return None
    return getattr(settings, name)


def _read(text: str, kind: str) -> Any:
    """The text as the type that the setting's annotation names."""
    if kind.startswith("tuple"):
        return tuple(text.split(","))
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    if kind == "int":
        return int(text)
    return float(text) if kind.startswith("float") else text


def _complaint(ignored: list[str]) -> str:
    if not ignored:
        return ""
    names = ", ".join(short(name) for name in ignored[:3]) + (", …" if len(ignored) > 3 else "")
    return f"Part of the link makes no sense here and was left out: {names}."
