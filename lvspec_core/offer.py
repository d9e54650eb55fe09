"""Which pairs a page offers, and which one it begins with: for whoever runs it, by environment variables. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lvspec_core.errors import PairError
from lvspec_core.registry import PAIRS, PairInfo, pair_info
from lvspec_core.settings import RaceSettings

DEFAULT, LIST = "LVSPEC_PAIR", "LVSPEC_PAIRS"


@dataclass(frozen=True)
class Offer:
    """``pairs``: in the order in which a page lists them. ``default``: one of them."""

    pairs: tuple[PairInfo, ...]
    default: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Offer:
        """LVSPEC_PAIRS: names with commas between them, all of the registry if unset. LVSPEC_PAIR: the one to begin with, the first
        of the list if unset, offered in any case. PairError for a name that the registry does not know."""
        names = [name.strip() for name in environment.get(LIST, "").split(",") if name.strip()]
        default = environment.get(DEFAULT, "").strip() or (names[0] if names else RaceSettings.pair)
        names = list(dict.fromkeys(names or PAIRS))
        if default not in names:
            names.insert(0, default)
        return cls(tuple(pair_info(name) for name in names), default)

    def pair(self, name: str) -> PairInfo:
        """The pair of this name; PairError if it is not offered, though the registry may have it: it may be too large for the machine."""
        for info in self.pairs:
            if info.name == name:
                return info
        raise PairError(f"Unknown pair {name!r}; choose among {', '.join(info.name for info in self.pairs)}.")
