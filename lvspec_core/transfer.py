"""Small values from the host to a device without making the host wait for the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def upload(values: Sequence[int], device: torch.device) -> torch.Tensor:
    """[n] int64 on the device. A plain copy to a GPU waits until the GPU has done all that was asked of it before."""
    if device.type != "cuda":
        return torch.tensor(values, dtype=torch.long, device=device)
    return torch.tensor(values, dtype=torch.long, pin_memory=True).to(device, non_blocking=True)


def upload_mask(mask: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on the device, without a wait as well."""
    if device.type != "cuda":
        return mask.to(device)
    return mask.pin_memory().to(device, non_blocking=True)
