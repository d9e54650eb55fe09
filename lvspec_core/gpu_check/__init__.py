"""What the steps of a round cost on this machine's GPU, for models of the real shapes, without a hub: the tool ``gpu-check``."""
