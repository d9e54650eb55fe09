"""Token ids become the pieces of text they add."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lvspec_core.pieces import Pieces, Spelling
from lvspec_core.shapes.qwen import TOKENS
from lvspec_core.shapes.words import build_tokenizer


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, as the rarest characters are spelled in Qwen's vocabulary."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


WORDS = build_tokenizer(TOKENS)
BYTES = byte_tokenizer()


@given(st.lists(st.integers(0, len(WORDS) - 1), max_size=60))
def test_joined_pieces_are_the_decoded_text_of_words(ids):
    pieces = Pieces(WORDS)
    assert "".join(pieces.add(token) for token in ids) == WORDS.decode(ids, skip_special_tokens=True)


@given(st.text(alphabet="aé漢🎈 ", max_size=30))
def test_joined_pieces_are_the_decoded_text_of_bytes(text):
    pieces = Pieces(BYTES)
    assert "".join(pieces.add(token) for token in BYTES.encode(text, add_special_tokens=False)) == text


def test_a_character_of_several_tokens_appears_with_the_last_of_them():
    pieces = Pieces(BYTES)
    assert [pieces.add(token) for token in BYTES.encode("a🎈", add_special_tokens=False)] == ["a", "", "", "", "🎈"]


def test_words_carry_their_leading_space_and_special_tokens_nothing():
    ids = WORDS.encode("one red square.", add_special_tokens=False)
    pieces = Pieces(WORDS)
    assert [pieces.add(token) for token in [*ids, WORDS.eos_token_id]] == ["one", " red", " square", ".", ""]


@pytest.mark.parametrize(("word", "spelled"), [("red", " red"), (".", ".")])
def test_a_proposed_token_is_spelled_as_inside_a_text(word, spelled):
    spelling = Spelling(WORDS)
    (token,) = WORDS.encode(word, add_special_tokens=False)[-1:]
    assert spelling.of(token) == spelled
    assert spelling.of(WORDS.eos_token_id) == ""
