"""The shapes world: clips of moving shapes, captions with known facts, and the pairs trained on them."""
