"""Token ids -> the pieces of text they add, one by one, while a sequence grows."""

from __future__ import annotations

from functools import lru_cache

HALF = "\N{REPLACEMENT CHARACTER}"
MEMORY = 8  # tokens of context that settle how a piece is spelled


class Pieces:
    """Spells one growing sequence: the pieces, joined, are the decoded text.

    A character that several tokens share appears with the last of them; special tokens add nothing.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.recent: list[int] = []
        self.shown = ""

    def add(self, token: int) -> str:
        """The text that this token adds, its leading space included."""
        self.recent.append(token)
        text = self._decode(self.recent)
        if text.endswith(HALF):
            return ""
        piece = text[len(self.shown) :]
        if len(self.recent) >= 2 * MEMORY:
            self.recent = self.recent[-MEMORY:]
            text = self._decode(self.recent)
        self.shown = text
        return piece

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


class Spelling:
    """How a token looks inside a text, for proposals that may never enter it."""

    def __init__(self, tokenizer):
        self.before = tokenizer.encode("a", add_special_tokens=False)
        self.prefix = len(tokenizer.decode(self.before, skip_special_tokens=True))
        self.tokenizer = tokenizer
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, token: int) -> str:
        return self.tokenizer.decode([*self.before, token], skip_special_tokens=True, clean_up_tokenization_spaces=False)[self.prefix :]
