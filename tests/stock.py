"""What the stock models say, as references for our own calls; the families differ in what they take."""

from __future__ import annotations

import torch


def pixels_of(prompt) -> dict:
    """The prompt's inputs for the vision tower, by the names that the stock forward pass takes."""
    return {name: prompt.inputs[name] for name in ("pixel_values_videos", "video_grid_thw", "second_per_grid_ts") if name in prompt.inputs}


def position_ids(positions: torch.Tensor) -> torch.Tensor:
    """Positions [axes, L] as the stock text model takes those of a batch of one."""
    return positions[:, None] if len(positions) > 1 else positions


@torch.inference_mode()
def hidden_states(model, prompt, ids: list[int]) -> torch.Tensor:
    """[L + n, hidden] final hidden states of prompt + ids by the stock forward pass over pixels."""
    ids = torch.tensor(ids, dtype=torch.long)
    new = model.row_of_positions(prompt.next_position, prompt.next_position + len(ids))
    pixels = pixels_of(prompt)
    pixels.pop("second_per_grid_ts", None)  # what the positions were made from
    return model.model.model(
        input_ids=torch.cat([prompt.ids, ids])[None],
        position_ids=position_ids(torch.cat([prompt.positions, new], dim=1)),
        use_cache=False,
        **pixels,
    ).last_hidden_state[0]


def inputs_of(prompt) -> dict:
    """All that `generate`, or a forward pass over the whole prompt, takes of it; the seconds too where the family counts them."""
    return {name: value for name, value in prompt.inputs.items() if isinstance(value, torch.Tensor)} | pixels_of(prompt)


@torch.inference_mode()
def generate(model, prompt, budget: int, **options) -> list[int]:
    """What `generate` says, given the same pixels and, where the family counts seconds, the same seconds."""
    return model.model.generate(**inputs_of(prompt), do_sample=False, max_new_tokens=budget, **options)[0, len(prompt.ids) :].tolist()
