"""JSON values from a file nobody vouches for, as the frozen dataclasses that they claim to be."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lvspec_core.errors import RecordError

INTEGER_DIGITS = 18
MOST_VALUES = 20_000
DEEPEST = 32


def parse_json(line: bytes) -> Any:
    """The value of one line of UTF-8 JSON, every number finite; raises RecordError."""
    try:
        return json.loads(line.decode(), parse_constant=_refuse, parse_float=_parse_float, parse_int=_parse_int)
    except (ValueError, RecursionError):
        raise RecordError("It is not JSON.") from None


def read_typed(value: object, hint: Any, where: str) -> Any:
    """``value`` as the annotated type ``hint``: str, int, float, bool, dict, a tuple, a dataclass, or one of them or None.

    A field that is missing takes its default, an unknown one is left out. Raises RecordError with a sentence naming ``where``.
    """
    if isinstance(hint, UnionType):
        if value is None:
            return None
        return read_typed(value, next(option for option in get_args(hint) if option is not NoneType), where)
    if get_origin(hint) is tuple:
        return _read_tuple(value, get_args(hint), where)
    if is_dataclass(hint):
        return _read_dataclass(value, hint, where)
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if hint in (str, dict) and type(value) is hint:
        _check_extent(value, where)
        return printable(value)
    if hint in (int, bool) and type(value) is hint:
        return value
    wanted = {str: "a text", dict: "an object", int: "a whole number", float: "a number", bool: "true or false"}[hint]
    raise RecordError(f"{where} is {short(value)}, not {wanted}.")


def _check_extent(value: object, where: str) -> None:
    """Refuses what is nested so deeply, or holds so many values, that whoever walks through it would come to harm."""
    level, count = [value], 0
    for _ in range(DEEPEST):
        inside = [each for each in level if type(each) in (dict, list)]
        level = [item for each in inside for item in (each.values() if type(each) is dict else each)]
        count += len(level)
        if count > MOST_VALUES:
            raise RecordError(f"{where} holds more than {MOST_VALUES:,} values.")
        if not level:
            return
    raise RecordError(f"{where} is nested more than {DEEPEST} levels deep.")


def short(value: object) -> str:
    """A value as it may be quoted in a sentence: ASCII, at most 40 characters."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _read_tuple(value: object, kinds: tuple, where: str) -> tuple:
    if not isinstance(value, (list, tuple)):
        raise RecordError(f"{where} is not a list.")
    if kinds[-1] is Ellipsis:
        return tuple(read_typed(item, kinds[0], where) for item in value)
    if len(value) != len(kinds):
        raise RecordError(f"{where} has the wrong length.")
    return tuple(read_typed(item, kind, where) for item, kind in zip(value, kinds, strict=True))


def _read_dataclass(value: object, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise RecordError(f"{where} is not an object.")
    known = {}
    for field in fields(kind):
        if field.name in value:
            known[field.name] = read_typed(value[field.name], _hints(kind)[field.name], f"{where}.{field.name}")
        elif field.default is MISSING:
            raise RecordError(f"{where}.{field.name} is missing.")
    return kind(**known)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def printable(value: Any) -> Any:
    """The value without lone surrogates: legal in JSON and in names of files, they could be neither printed nor sent to a browser."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [printable(item) for item in value]
    if isinstance(value, dict):
        return {printable(name): printable(item) for name, item in value.items()}
    return value


def _refuse(constant: str) -> float:
    raise RecordError(f"{constant} is not a number that JSON knows.")


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RecordError(f"The number {short(text)} is too large.")
    return number


def _parse_int(text: str) -> int:
    if len(text) > INTEGER_DIGITS:
        raise RecordError(f"The number {short(text)} is too large.")
    return int(text)
