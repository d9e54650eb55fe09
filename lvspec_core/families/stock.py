"""Opening a stock transformers model and its processor, as every family does."""

from __future__ import annotations

from typing import Any

import torch

from lvspec_core.families.attention import ATTENTION


def open_stock(
    model_class: type,
    processor_class: type,
    source: str,
    dtype: torch.dtype,
    device: torch.device,
    revision: str | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """(model, processor), the model for inference on ``device``, or where ``device_map`` among the options places it. ``source``: a
    folder or a hub name. ``options``: further ones of ``from_pretrained``; raises what that raises."""
    model = model_class.from_pretrained(
        source, dtype=dtype, revision=revision, attn_implementation={"text_config": ATTENTION, "vision_config": "sdpa"}, **options
    )
    if "device_map" not in options:
        model = model.to(device)
    return model.eval().requires_grad_(False), processor_class.from_pretrained(source, revision=revision)
