"""Captions: a grammar whose visual words follow from the scene while the words between them vary freely.

A word is visual where its distribution, given the words before it, depends on the scene. The grammar knows this for every
word it emits: a *fact* slot asks the scene, unless what it would say is already settled by the words before it; a *free* slot
never looks at the scene.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lvspec_core.shapes.scene import ATTRIBUTES, Scene, Thing

QUESTIONS = (
    "Describe the video in detail.",
    "Describe this video.",
    "What is shown in the video?",
    "What happens in this clip?",
    "Please describe what you see.",
)

SHORT_QUESTION = "Describe the video in short."  # answered by the facts alone

# Free slots: the options of each, "" = say nothing, with their weights. Some are close to even, so that two models may
# well prefer different words; others have a clear favourite.
EVEN3, EVEN4, EVEN5, HALF = (34, 33, 33), (25, 25, 25, 25), (20, 20, 20, 20, 20), (50, 50)
FREE: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "opening": (("This", "The", "In this"), (36, 32, 32)),
    "medium": (("clip", "video", "recording"), EVEN3),
    "viewer": (("we", "you"), HALF),
    "modal": (("can", "may"), (60, 40)),
    "see": (("see", "notice", "find", "observe"), EVEN4),
    "manner": (("", "clearly", "simply"), (40, 30, 30)),
    "shows": (("shows", "presents", "displays"), EVEN3),
    "plain": (("", "simple", "flat"), (40, 30, 30)),
    "noun": (("object", "shape", "figure"), EVEN3),
    "on": (("on", "against", "over"), EVEN3),
    "tone": (("", "plain", "uniform"), (40, 30, 30)),
    "backdrop": (("background", "backdrop"), HALF),
    "camera": (("camera", "view"), HALF),
    "fixed": (("does not move", "is fixed", "keeps its position"), EVEN3),
    "so": (("", "so"), HALF),
    "every": (("every", "each"), HALF),
    "detail": (("detail", "edge", "line"), EVEN3),
    "crisp": (("looks sharp", "is crisp", "can be seen well"), EVEN3),
    "everything": (("Everything", "All of it"), HALF),
    "takes_place": (("takes place", "is shown", "can be followed"), EVEN3),
    "before": (("", "before our eyes", "in front of us"), EVEN3),
    "without": (("and nothing is hidden", "without any cut", "from a single position"), EVEN3),
    "first": (("First", "Initially", "To begin"), EVEN3),
    "next": (("Next", "Then", "Besides", "Also"), EVEN4),
    "exists": (("there is", "we see", "you find"), EVEN3),
    "rather": (("", "rather", "fairly"), (40, 30, 30)),
    "that": (("that", "which"), HALF),
    "starts": (("starts", "begins", "appears"), EVEN3),
    "in": (("in", "at", "near"), EVEN3),
    "frame": (("", "of the frame", "of the picture", "of the image"), (28, 24, 24, 24)),
    "it": (("It", "The object", "This figure"), EVEN3),
    "adverb": (("", "slowly", "gently", "quietly", "calmly"), (28, 18, 18, 18, 18)),
    "goes": (("moves", "drifts", "goes"), EVEN3),
    "stays": (("stays", "rests", "remains"), EVEN3),
    "totally": (("", "perfectly", "completely"), (40, 30, 30)),
    "while": (("", "all the time", "from start to end", "during the whole clip"), (28, 24, 24, 24)),
    "nothing": (("Nothing else", "No other thing"), (60, 40)),
    "happens": (("appears", "happens", "is visible", "can be seen"), EVEN4),
    "here": (("", "in the scene", "in view", "here"), (28, 24, 24, 24)),
    "overall": (("Overall", "Altogether", "In short"), EVEN3),
    "seems": (("is", "feels", "seems", "looks"), EVEN4),
    "calm": (("calm", "clear", "tidy", "neat"), EVEN4),
    "easy": (("", "and easy to follow", "and pleasant to watch"), (40, 30, 30)),
}


@dataclass(frozen=True)
class Word:
    """One caption word. ``attribute``: the fact it states, None for words that state none; ``visual``: see the module."""

    text: str
    visual: bool = False
    attribute: str | None = None


class _Writer:
    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.words: list[Word] = []

    def say(self, text: str, visual: bool = False) -> None:
        self.words += [Word(part, visual) for part in text.split()]

    def free(self, slot: str, visual: bool = False) -> str:
        options, weights = FREE[slot]
        cumulative = np.cumsum(weights)
        choice = options[int(np.searchsorted(cumulative, self.rng.random() * cumulative[-1], side="right"))]
        self.say(choice, visual)
        return choice

    def fact(self, attribute: str, word: str, settled: bool = False) -> None:
        self.words.append(Word(word, not settled, attribute))


def write_caption(scene: Scene, rng: np.random.Generator) -> list[Word]:
    """A random caption of a scene: every fact of ``scene.facts()`` in their order, free words between them."""
    out = _Writer(rng)
    _opening(out, scene)
    _camera(out)
    for index, thing in enumerate(scene.things):
        _thing(out, thing, first=index == 0)
    _closing(out)
    return out.words


def write_short(scene: Scene) -> list[Word]:
    """The answer to SHORT_QUESTION: the fact words alone, count and background first, then thing by thing."""
    out = _Writer(np.random.default_rng(0))
    out.fact("count", scene.facts()["count"][0])
    out.fact("background", scene.background)
    for thing in scene.things:
        for attribute in ("size", "colour", "shape", "place", "motion"):
            out.fact(attribute, getattr(thing, attribute))
    out.say(".")
    return out.words


def _opening(out: _Writer, scene: Scene) -> None:
    if out.free("opening") == "In this":
        out.free("medium")
        out.say(",")
        out.free("viewer")
        out.free("modal")
        out.free("see")
    else:
        out.free("medium")
        out.free("manner")
        out.free("shows")
    count = len(scene.things)
    out.fact("count", scene.facts()["count"][0])
    out.free("plain")
    options, _ = FREE["noun"]
    noun = options[int(out.rng.integers(len(options)))]
    out.say(noun if count == 1 else noun + "s")
    out.free("on")
    out.say("a")
    out.free("tone")
    out.fact("background", scene.background)
    out.free("backdrop")
    out.say(".")


def _camera(out: _Writer) -> None:
    out.say("The")
    out.free("camera")
    out.free("fixed")
    if out.free("so"):
        out.free("every")
        out.free("detail")
        out.free("crisp")
    out.say(".")
    out.free("everything")
    out.free("takes_place")
    out.free("before")
    out.free("without")
    out.say(".")


def _thing(out: _Writer, thing: Thing, first: bool) -> None:
    out.free("first" if first else "next")
    out.say(",")
    out.free("exists")
    out.say("a")
    out.free("rather")
    out.fact("size", thing.size)
    out.fact("colour", thing.colour)
    out.fact("shape", thing.shape)
    out.free("that")
    out.free("starts")
    out.free("in")
    out.say("the")
    out.fact("place", thing.place)
    out.free("frame")
    out.say(".")
    out.free("it")
    out.free("adverb")
    if thing.motion == "still":
        # the verb already tells that nothing moves: the verb is the visual word, "still" is settled by it
        out.free("stays", visual=True)
        out.free("totally")
        out.fact("motion", "still", settled=True)
    else:
        out.free("goes", visual=True)
        out.fact("motion", thing.motion)
    out.free("while")
    out.say(".")


def _closing(out: _Writer) -> None:
    out.free("nothing")
    out.free("happens")
    out.free("here")
    out.say(".")
    out.free("overall")
    out.say(", the scene")
    out.free("seems")
    out.free("calm")
    out.free("easy")
    out.say(".")


def to_text(words: list[Word]) -> str:
    """Words joined as one writes them: no space before a comma or a full stop."""
    return " ".join(word.text for word in words).replace(" ,", ",").replace(" .", ".")


def read_facts(text: str) -> dict[str, tuple[str, ...]]:
    """The facts a text states: attribute -> its words in their order of appearance."""
    owner = {word: attribute for attribute, words in ATTRIBUTES.items() for word in words}
    facts: dict[str, list[str]] = {attribute: [] for attribute in ATTRIBUTES}
    for word in text.replace(",", " ").replace(".", " ").split():
        if word in owner:
            facts[owner[word]].append(word)
    return {attribute: tuple(words) for attribute, words in facts.items()}


def score_facts(text: str, scene: Scene) -> dict[str, tuple[int, int]]:
    """Attribute -> (facts right, facts to state). A fact that is missing, or stated in another object's place, is wrong."""
    stated = read_facts(text)
    scores = {}
    for attribute, truth in scene.facts().items():
        said = stated[attribute]
        right = sum(index < len(said) and said[index] == word for index, word in enumerate(truth))
        scores[attribute] = (right, len(truth))
    return scores


def vocabulary() -> list[str]:
    """Every word a caption or a question can hold, each once."""
    words: dict[str, None] = dict.fromkeys(",.?")
    for options, _ in FREE.values():
        words.update(dict.fromkeys(" ".join(options).split()))
    for attribute_words in ATTRIBUTES.values():
        words.update(dict.fromkeys(attribute_words))
    words.update(dict.fromkeys(noun + "s" for noun in FREE["noun"][0]))
    words.update(dict.fromkeys(("a", "the", "The", "scene", "user", "assistant")))
    for question in (*QUESTIONS, SHORT_QUESTION):
        words.update(dict.fromkeys(question.replace(".", "").replace("?", "").split()))
    return list(words)
