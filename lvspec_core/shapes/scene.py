"""Scenes: what is in a clip of the shapes world, and the facts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COUNTS = ("one", "two", "three")
BACKGROUNDS = {"white": (244, 244, 240), "grey": (136, 138, 140), "black": (18, 18, 22), "beige": (226, 202, 152)}
COLOURS = {
    "red": (212, 36, 40),
    "green": (34, 150, 64),
    "blue": (40, 84, 212),
    "yellow": (244, 214, 40),
    "purple": (146, 54, 178),
    "cyan": (60, 200, 220),
}
SHAPES = ("square", "triangle", "cross", "ring")
SIZES = {"small": 0.078, "large": 0.142}  # half width, as a share of the frame's side
PLACES = {  # centre at the start of the clip, as shares of width and height, in reading order
    "upper-left": (0.25, 0.25),
    "upper-right": (0.75, 0.25),
    "centre": (0.5, 0.5),
    "lower-left": (0.25, 0.75),
    "lower-right": (0.75, 0.75),
}
MOTIONS = {"leftwards": (-1, 0), "rightwards": (1, 0), "upwards": (0, -1), "downwards": (0, 1), "still": (0, 0)}
TRAVEL = 0.28  # how far a moving object goes in one clip, as a share of the side

# attribute -> its words; no word belongs to two attributes, so that facts can be read back from any text
ATTRIBUTES = {
    "count": COUNTS,
    "background": tuple(BACKGROUNDS),
    "size": tuple(SIZES),
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "place": tuple(PLACES),
    "motion": tuple(MOTIONS),
}


@dataclass(frozen=True)
class Thing:
    """One object. ``x``, ``y``: centre at the start, shares of the side; ``turn``: rotation in radians."""

    size: str
    colour: str
    shape: str
    place: str
    motion: str
    x: float
    y: float
    turn: float

    @property
    def radius(self) -> float:
        return SIZES[self.size]

    def centre(self, share: float) -> tuple[float, float]:
        """Centre at ``share`` (0 = start, 1 = end) of the clip."""
        dx, dy = MOTIONS[self.motion]
        return self.x + dx * TRAVEL * share, self.y + dy * TRAVEL * share


@dataclass(frozen=True)
class Scene:
    """A clip's content. ``things`` stand in the reading order of their places; ``seconds``: the clip's length."""

    background: str
    things: tuple[Thing, ...]
    seconds: float

    def facts(self) -> dict[str, tuple[str, ...]]:
        """Attribute -> the words that a full description states, in the order in which it states them."""
        facts = {"count": (COUNTS[len(self.things) - 1],), "background": (self.background,)}
        for attribute in ("size", "colour", "shape", "place", "motion"):
            facts[attribute] = tuple(getattr(thing, attribute) for thing in self.things)
        return facts


def sample_scene(rng: np.random.Generator, counts: tuple[int, ...] = (1, 2, 3)) -> Scene:
    """A random scene with one to three objects at different places that never touch. ``counts``: how many, to draw from."""
    count = counts[int(rng.integers(len(counts)))]
    while True:
        places = sorted(rng.choice(len(PLACES), size=count, replace=False))
        things = tuple(_sample_thing(rng, list(PLACES)[place]) for place in places)
        if _apart(things):
            break
    return Scene(str(rng.choice(list(BACKGROUNDS))), things, float(rng.uniform(2.0, 8.0)))


def _sample_thing(rng: np.random.Generator, place: str) -> Thing:
    size = str(rng.choice(list(SIZES)))
    x, y = PLACES[place]
    x, y = x + rng.uniform(-0.04, 0.04), y + rng.uniform(-0.04, 0.04)
    margin = SIZES[size] + 0.01
    possible = [
        name
        for name, (dx, dy) in MOTIONS.items()
        if name != "still" and margin <= x + dx * TRAVEL <= 1 - margin and margin <= y + dy * TRAVEL <= 1 - margin
    ]
    motion = "still" if rng.random() < 0.34 else str(rng.choice(possible))
    return Thing(
        size=size,
        colour=str(rng.choice(list(COLOURS))),
        shape=str(rng.choice(SHAPES)),
        place=place,
        motion=motion,
        x=float(x),
        y=float(y),
        turn=float(rng.uniform(-0.2, 0.2)),
    )


def _apart(things: tuple[Thing, ...], gap: float = 0.02) -> bool:
    for i, first in enumerate(things):
        for second in things[i + 1 :]:
            for share in np.linspace(0, 1, 9):
                (ax, ay), (bx, by) = first.centre(share), second.centre(share)
                reach = (first.radius + second.radius) * 1.1 + gap
                if max(abs(ax - bx), abs(ay - by)) < reach:
                    return False
    return True
