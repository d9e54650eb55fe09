"""What the rest of the core may assume about a video language model, whatever its architecture."""

from __future__ import annotations
