"""Multiple-choice questions: how they are asked, and which option an answer chose."""

from __future__ import annotations

import re
from collections.abc import Sequence

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# LongVideoBench's own wording [code: longvideobench/longvideobench_dataset.py], used for every data set here [ours]
DIRECTLY = "Answer with the option's letter from the given choices directly."
LABEL = re.compile(r"^\s*\(?([A-Z])[.):]\s*")
FIRST = re.compile(r"^\W*(?:(?:the )?(?:best |correct |right )?(?:answer|option)(?: is)?\W*)?\(?([A-Z])(?![A-Za-z'’])", re.IGNORECASE)
LATER = re.compile(r"(?:answer|option)(?: is)?:?\s*\(?([A-Z])(?![A-Za-z'’])|\(([A-Z])\)")


def asked(question: str, options: Sequence[str]) -> str:
    """The question with a line for each option; as it is where there are none."""
    if not options:
        return question
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([question, *lines, DIRECTLY])


def bare(option: str, place: int) -> str:
    """An option without the letter of its place that a data set may have put before it."""
    label = LABEL.match(option)
    return option[label.end() :] if label and label[1] == LETTERS[place] else option


def chosen(text: str, options: Sequence[str]) -> str | None:
    """The letter that an answer chooses: the one it begins with, the one it names, or that of the one option it repeats; None if
    it chooses none. Nothing is guessed: an answer that names no option is a wrong one."""
    known = LETTERS[: len(options)]
    first = FIRST.match(text)
    # "A man walks …" is a sentence, not the choice of A: a letter that a word follows must be marked as one
    if first and first[1].upper() in known and not re.match(r"\s+[a-z]", text[first.end() :]):
        return first[1].upper()
    named = {letter for pair in LATER.findall(text) for letter in pair if letter and letter in known}
    if len(named) == 1:
        return named.pop()
    plain = _plain(text)
    if plain in (repeated := [_plain(option) for option in options]):
        return known[repeated.index(plain)]
    held = [letter for letter, option in zip(known, options, strict=True) if _plain(option) and f" {_plain(option)} " in f" {plain} "]
    return held[0] if len(held) == 1 else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
