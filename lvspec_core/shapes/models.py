"""The bundled pairs' architectures by their transformers model type."""

from __future__ import annotations

from lvspec_core.shapes.architectures import Architecture
from lvspec_core.shapes.llava import Llava
from lvspec_core.shapes.qwen import Qwen

ARCHITECTURES: dict[str, Architecture] = {"qwen2_5_vl": Qwen(), "llava_onevision": Llava()}
QWEN, LLAVA = ARCHITECTURES.values()


def architecture_of(model) -> Architecture:
    """Of a stock model."""
    return ARCHITECTURES[model.config.model_type]
