"""What a race is asked to do: plain values, validated in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

from lvspec_core.errors import SettingsError

PROPOSALS = ("chain", "static_tree", "dynamic_tree")
METHODS = ("ar", "naive_sd", "specvlm", "lvspec")
METHOD_TITLES = {"ar": "AR", "naive_sd": "naive SD", "specvlm": "SpecVLM", "lvspec": "LVSpec"}
DEFAULT_QUESTION = "Describe the video in detail."
QUESTION_CHARACTERS = 2000

# name -> (lowest, highest) of every numeric setting, both ends allowed
RANGES = {
    "frames": (1, 128),
    "pruning_ratio": (0.0, 0.95),
    "draft_length": (1, 24),
    "max_new_tokens": (1, 1024),
    "seed": (0, 2**31 - 1),
    "anchor_quantile": (0.0, 1.0),
    "plausibility": (0.0, 1.0),
    "top_k": (1, 50),
    "window": (0, 16),
    "entropy_gate": (0.0, 1.0),
    "shift": (0, 8),
}
# how the draft proposes and the target chooses
FURTHER_RANGES = {
    "tree_nodes": (1, 64),
    "tree_depth": (1, 16),
    "tree_width": (1, 10),
    "adaptive": (0.0, 1.0),
    "temperature": (0.0, 2.0),
    "top_p": (0.01, 1.0),
}


@dataclass(frozen=True)
class RaceSettings:
    """Settings of one race.

    ``frames``: frames sampled uniformly over the clip.
    ``pruning_ratio``: share of the video tokens that the drafts of SpecVLM and LVSpec do not see.
    ``draft_length``: γ, draft tokens proposed per round at most, where they are a chain.
    ``proposal``: "chain", "static_tree" (the 25 tokens of SpecVLM's code) or "dynamic_tree" (EAGLE-2: the ``tree_width`` most
    probable tokens of a level are expanded, by as many followers each, ``tree_depth`` deep, and of all these the
    ``tree_nodes`` most probable are proposed). ``adaptive``: the draft stops after a token that it gives less probability
    than this, and LVSpec's only where that token's position is an anchor (a dynamic tree: after a level on which no path has
    more; a static tree never); 0: off.
    ``temperature``: 0 decodes greedily, else tokens are drawn, from the fewest best ones that hold ``top_p`` of the
    probability, with random numbers from ``seed``.
    ``details``: the records also say what draft and target thought at every position and where the target looked, for the
    inspector; collected off the lanes' clocks.
    LVSpec's own (METHOD.md): ``anchor_quantile``: share of the tokens, by relevance, that count as fillers (None: the pair's
    calibrated threshold); ``plausibility``: ε, a loose filler needs at least this share of the top choice's probability;
    ``top_k``: and must be among the target's k best; ``window``: w, draft tokens after it on which the target must agree
    again (0: off); ``entropy_gate``: positions whose normalised top-3 entropy is below it are never loosened (0: off);
    ``shift``: s, how far ahead a shifted token may stand (0: off).
    """

    pair: str = "shapes-qwen"
    question: str = DEFAULT_QUESTION
    methods: tuple[str, ...] = METHODS
    frames: int = 8
    pruning_ratio: float = 0.5
    draft_length: int = 12
    max_new_tokens: int = 192
    seed: int = 0
    anchor_quantile: float | None = None
    plausibility: float = 0.1
    top_k: int = 5
    window: int = 1
    entropy_gate: float = 0.1
    shift: int = 3
    proposal: str = "chain"
    tree_nodes: int = 25
    tree_depth: int = 6
    tree_width: int = 4
    adaptive: float = 0.3
    temperature: float = 0.0
    top_p: float = 1.0
    details: bool = False

    def validated(self) -> RaceSettings:
        """The settings with their types made exact; raises SettingsError with one sentence on the first that is wrong."""
        if not isinstance(self.question, str) or not self.question.strip():
            raise SettingsError("Type a question about the video.")
        if len(self.question) > QUESTION_CHARACTERS:
            raise SettingsError(f"The question has {len(self.question):,} characters; shorten it to {QUESTION_CHARACTERS:,}.")
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown:
            raise SettingsError(f"Unknown method {unknown[0]!r}; choose among {', '.join(METHODS)}.")
        if not self.methods:
            raise SettingsError("Choose at least one method.")
        if self.proposal not in PROPOSALS:
            raise SettingsError(f"Unknown proposal {self.proposal!r}; choose among {', '.join(PROPOSALS)}.")
        if not isinstance(self.details, bool):
            raise SettingsError("The details must be true or false.")
        exact = {}
        for name, (low, high) in (RANGES | FURTHER_RANGES).items():
            value = getattr(self, name)
            if value is None and name == "anchor_quantile":
                continue
            exact[name] = _number(name, value, low, high)
        ordered = tuple(name for name in METHODS if name in self.methods)
        return replace(self, methods=ordered, **exact)

    def to_dict(self) -> dict:
        return {**asdict(self), "methods": list(self.methods)}

    @classmethod
    def from_dict(cls, values: dict) -> RaceSettings:
        """Reads what :meth:`to_dict` wrote; unknown keys are refused with a SettingsError."""
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise SettingsError(f"Unknown setting {sorted(unknown)[0]!r}.")
        return cls(**{**values, "methods": tuple(values.get("methods", METHODS))})


def _number(name: str, value: object, low: float, high: float) -> float | int:
    whole = isinstance(low, int)
    label = name.replace("_", " ")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise SettingsError(f"The {label} must be a number between {low} and {high}.")
    if not low <= value <= high:
        raise SettingsError(f"The {label} is {value}; choose a number between {low} and {high}.")
    if whole and value != int(value):
        raise SettingsError(f"The {label} is {value}; choose a whole number between {low} and {high}.")
    return int(value) if whole else float(value)
