"""The shapes world's tokenizer: its words, and the control tokens of a model family."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lvspec_core.shapes.captions import vocabulary


@dataclass(frozen=True)
class Tokens:
    """A family's control tokens; ``image`` and ``video`` stand for pictures in a prompt."""

    special: tuple[str, ...]
    image: str
    video: str


def chat_template(video: str, image: str) -> str:
    """A prompt's template; ``video`` and ``image``: what stands for one."""
    return (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}"
        "{% if message['content'] is string %} {{ message['content'] }}{% else %}{% for part in message['content'] %}"
        f"{{% if part['type'] == 'video' %}}{video}{{% elif part['type'] == 'image' %}}{image}"
        "{% elif 'text' in part %} {{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
    )


def build_tokenizer(tokens: Tokens) -> PreTrainedTokenizerFast:
    """A word-level tokenizer: a word carries its leading space, punctuation stands alone; unknown words become <unk>."""
    words = []
    for word in vocabulary():
        words.append(word if word in ",.?" else "▁" + word)
    table = {token: index for index, token in enumerate((*tokens.special, *words))}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Split(Regex("[,.?]"), "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens.special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=4096,
        extra_special_tokens={"image_token": tokens.image, "video_token": tokens.video},
        clean_up_tokenization_spaces=False,
    )


def word_ids(tokenizer) -> dict[str, int]:
    """The token of every word of the shapes world."""
    return {word.removeprefix("▁"): index for word, index in tokenizer.get_vocab().items() if index not in tokenizer.all_special_ids}
