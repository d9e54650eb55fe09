"""Small values from the host to a device without making the host wait for the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def upload(values: Sequence[int], device: torch.device) -> torch.Tensor:
    """[n] int64 on the device. A plain copy to a GPU waits until the GPU has done all that was asked of it before."""
    return upload_tensor(torch.tensor(values, dtype=torch.long), device)


def upload_tensor(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on the device, without a wait as well."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
