"""One module per architecture behind one small protocol, VideoLM. A further family is one module and one line here."""

from lvspec_core.families.llava_onevision import LlavaOneVision
from lvspec_core.families.qwen2_5_vl import Qwen2_5_VL

FAMILIES = {"qwen2_5_vl": Qwen2_5_VL, "llava_onevision": LlavaOneVision}

__all__ = ["FAMILIES"]
