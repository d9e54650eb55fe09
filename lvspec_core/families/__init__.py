"""One module per architecture behind one small protocol, VideoLM."""

from lvspec_core.families.qwen2_5_vl import Qwen2_5_VL

FAMILIES = {"qwen2_5_vl": Qwen2_5_VL}

__all__ = ["FAMILIES"]
