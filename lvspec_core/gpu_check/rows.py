"""What was measured, one row per step, and what a step cannot be faster than."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lvspec_core.gpu_check.timing import Timing

LAUNCHING = 0.8  # share of a step that asking for it takes, from which the host and not the GPU sets the pace


@dataclass(frozen=True)
class Bytes:
    """What a step must read at least: the ``weights`` of the layers and the head, and the ``cache`` as it then stands."""

    weights: int
    cache: int

    @property
    def total(self) -> int:
        return self.weights + self.cache


@dataclass(frozen=True)
class Row:
    """A step of a model at so many frames. ``sees``: "all" or the share of video tokens left. ``cached``: tokens in the cache before the
    step; ``rows``: tokens that it reads. ``timing`` None: it failed or was left out, and ``why`` says so. ``needs`` None: bandwidth is
    not what limits it (a prefill computes)."""

    pair: str
    role: str
    model: str
    frames: int
    step: str
    sees: str = "all"
    cached: int = 0
    rows: int = 0
    timing: Timing | None = None
    needs: Bytes | None = None
    why: str = ""

    def limit(self, bandwidth: float) -> float | None:
        """Seconds that reading alone takes."""
        return self.needs.total / bandwidth if self.needs else None

    def launching(self) -> bool:
        """Whether the host, asking kernel by kernel, sets the pace."""
        return self.timing is not None and self.timing.host is not None and self.timing.host >= LAUNCHING * self.timing.median

    def to_dict(self, bandwidth: float | None) -> dict:
        values = asdict(self)
        limit = self.limit(bandwidth) if bandwidth else None
        values["limit_seconds"] = limit
        values["times_the_limit"] = self.timing.median / limit if limit and self.timing else None
        values["host_sets_the_pace"] = self.launching()
        return values
