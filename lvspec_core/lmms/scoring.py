"""What the shapes tasks' YAML files name: the video, the question, and how an answer is scored by the scene's facts.

A score is in points, 0 to 100. The functions take a row of the data set (:mod:`lvspec_core.lmms.shapes_task`) and lmms-eval's answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lvspec_core.shapes.captions import read_facts

LETTERS = "ABCD"


def video(row: dict) -> list[str]:
    return [row["video"]]


def question(row: dict, lmms_eval_specific_kwargs: dict | None = None) -> str:
    return row["question"]


def stated(text: str, truth: str) -> tuple[int, int]:
    """How many facts of ``truth``, each in its object's place, a text states, and how many there are to state."""
    said, wanted = read_facts(text), read_facts(truth)
    pairs = [(said[name][place : place + 1], fact) for name, facts in wanted.items() for place, fact in enumerate(facts)]
    return sum(mine == (fact,) for mine, fact in pairs), len(pairs)


def caption_results(row: dict, answers: Sequence[str]) -> dict:
    """``facts_right``: the share of the scene's facts that the caption states right."""
    right, total = stated(answers[0], row["truth"])
    return {"facts_right": {"right": right, "total": total, "score": 100 * right / total}}


def pooled(results: Sequence[dict]) -> float:
    """Facts right of all facts, in points, as ``evaluate`` and ``bench`` count them."""
    return 100 * sum(result["right"] for result in results) / sum(result["total"] for result in results)


def chosen(text: str, options: Sequence[str]) -> str:
    """The letter of the option with which a text shares the most facts; "" where two share as many: nothing is guessed."""
    shared = [stated(text, option)[0] for option in options]
    best = max(shared)
    return LETTERS[shared.index(best)] if best and shared.count(best) == 1 else ""


def choice_results(row: dict, answers: Sequence[str]) -> dict:
    """``accuracy``: 100 if the answer chooses the right option."""
    choice = chosen(answers[0], row["options"])
    return {"accuracy": {"choice": choice, "score": 100.0 if choice == row["answer"] else 0.0}}


def mean_score(results: Sequence[dict]) -> float:
    return sum(result["score"] for result in results) / len(results)
