"""A lane's text against AR's, word by word: the same, worded otherwise, or another fact."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from lvspec_core.records import LaneEnd, Record, Round, Start, Token
from lvspec_core.shapes.scene import ATTRIBUTES

KINDS = ("same", "reworded", "fact", "differs", "cut")
# a word, a sign, or one letter of a script that puts no spaces between words
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|(?:(?![\u3040-\u30ff\u3400-\u9fff])\w)+(?:[-'’]\w+)*|[^\w\s]")
FACT_WORDS = frozenset(word for words in ATTRIBUTES.values() for word in words)
# difflib's time grows with the pairs of equal words; a race of 1,000 tokens of English has about 20,000
MOST_PAIRS = 200_000
MOST_CHARACTERS = 200_000


@dataclass(frozen=True)
class Word:
    """``lead``: what stands between it and the word before; ``anchor``: whether it is about the video, None if nobody scored it."""

    text: str
    lead: str
    anchor: bool | None


def compare_race(records: Iterable[Record]) -> dict[str, dict]:
    """Lane -> how its text differs from AR's, for every lane that finished beside a finished AR.

    {"decided": by what a difference is called another fact ("facts": the shapes world's own words for facts; "anchors":
    it touches an anchor; "": nothing is known, so nothing is claimed), "counts": {kind: words that are "same", places
    otherwise}, "spans": [[kind, AR's words, the lane's words], …] in order}. Kinds: KINDS; "cut" is an end that only one of
    the two reached, because of a token budget: that is no difference. A lane whose comparison would take too long is left out.
    """
    records = list(records)
    if not records or not isinstance(records[0], Start):
        return {}
    finishes = {record.lane: record.finish for record in records if isinstance(record, LaneEnd)}
    tokens: dict[str, list[Token]] = {lane: [] for lane, finish in finishes.items() if finish in ("end of text", "token budget")}
    for record in records:
        if isinstance(record, Round) and record.lane in tokens:
            tokens[record.lane] += record.tokens
    if "ar" not in tokens:
        return {}
    words = {lane: words_of(listed) for lane, listed in tokens.items() if sum(len(token.text) for token in listed) <= MOST_CHARACTERS}
    if "ar" not in words:
        return {}
    bundled = records[0].pair.get("bundled") is True
    compared = {}
    for lane in words:
        if lane == "ar" or _pairs(words["ar"], words[lane]) > MOST_PAIRS:
            continue
        cut = "token budget" in (finishes["ar"], finishes[lane])
        compared[lane] = compare_words(words["ar"], words[lane], bundled, cut)
    return compared


def words_of(tokens: Iterable[Token]) -> list[Word]:
    """The words that tokens spell; a word is an anchor if one of its tokens is."""
    tokens = list(tokens)
    text = "".join(token.text for token in tokens)
    owner = [token for token in tokens for _ in token.text]  # one token per character
    words, end = [], 0
    for match in WORD.finditer(text):
        known = [token.anchor for token in owner[match.start() : match.end()] if token.anchor is not None]
        words.append(Word(match[0], text[end : match.start()], any(known) if known else None))
        end = match.end()
    return words


def compare_words(ar: list[Word], lane: list[Word], bundled: bool, cut: bool) -> dict:
    """The comparison of :func:`compare_race` for one lane. ``cut``: one of the texts ends because of a token budget."""
    scored = any(word.anchor is not None for word in (*ar, *lane))
    decided = "facts" if bundled else "anchors" if scored else ""
    matcher = SequenceMatcher(None, [word.text for word in ar], [word.text for word in lane], autojunk=False)
    counts, spans = dict.fromkeys(KINDS, 0), []
    for operation, a, b, c, d in matcher.get_opcodes():
        mine, theirs = lane[c:d], ar[a:b]
        if operation == "equal":
            kind = "same"
        elif cut and b == len(ar) and d == len(lane):
            kind = "cut"
        else:
            kind = _difference(theirs, mine, decided)
        counts[kind] += len(mine) if kind == "same" else 1
        spans.append([kind, "" if kind == "same" else spelled(theirs), spelled(mine)])
    return {"decided": decided, "counts": counts, "spans": spans}


def spelled(words: list[Word]) -> str:
    """The words as they stand in their text, with what leads to each."""
    return "".join(word.lead + word.text for word in words)


def _difference(ar: list[Word], lane: list[Word], decided: str) -> str:
    if not decided:
        return "differs"
    if decided == "facts":
        stated = [[word.text for word in words if word.text in FACT_WORDS] for words in (ar, lane)]
        return "reworded" if stated[0] == stated[1] else "fact"
    return "fact" if any(word.anchor for word in (*ar, *lane)) else "reworded"


def _pairs(ar: list[Word], lane: list[Word]) -> int:
    """Pairs of equal words, one from each text."""
    counts = Counter(word.text for word in ar)
    return sum(counts[word.text] for word in lane)
