"""The plug-in for lmms-eval 0.7: this project's methods as its models ``qwen2_5_vl_lvspec`` and ``llava_onevision_lvspec``.

pyproject.toml declares :func:`models` in the entry-point group ``lmms_eval.models``; nothing is copied into lmms-eval's tree, and
nothing else of this package imports it.
"""

from __future__ import annotations

MODELS = {"qwen2_5_vl_lvspec": "Qwen2_5_VL", "llava_onevision_lvspec": "LlavaOnevision"}


def models() -> list:
    """What lmms-eval's registry is told (its ``ModelManifest``); no model library is imported yet."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return [ModelManifest(name, simple_class_path=f"{__name__}.model.{kind}") for name, kind in MODELS.items()]
