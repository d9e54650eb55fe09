"""LVSpec Race: speculative decoding of video language models, side by side."""

__version__ = "0.1.0"
