"""Which clips of a run to look at: where a method was fastest, where slowest, and where its text is furthest from AR's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from lvspec_core.evaluation.results import Result
from lvspec_core.report.runs import Run, ar_by_sample, finished

KINDS = ("fastest", "slowest", "furthest")
MOST_WORDS = 2000  # of a text that is compared word by word


def clips_of(run: Run, method: str, count: int) -> dict[str, list[Result]]:
    """At most ``count`` clips of each of KINDS, as :func:`clip` describes them. A clip is not both among the fastest and the slowest;
    one whose text is AR's is not far from it."""
    ar = ar_by_sample(run.results)
    found = [clip(result, ar.get(result["sample_index"])) for result in finished(run.results, method)]
    timed = sorted((each for each in found if each["speedup"] is not None), key=lambda each: (-each["speedup"], each["sample"]))
    fast = min(count, (len(timed) + 1) // 2)
    apart = [each for each in found if each["distance"] and method != "ar"]
    apart.sort(key=lambda each: (-each["lost"], -each["distance"], each["sample"]))
    return {"fastest": timed[:fast], "slowest": timed[fast:][::-1][:count], "furthest": apart[:count]}


def clip(result: Result, ar: Result | None) -> Result:
    """A result as a list of clips shows it. ``distance``: how far its text is from AR's, as a share of the longer one's length, None
    where there is no AR; ``lost``: how many more of the clip's facts AR states right (negative: fewer), 0 where nobody knows them."""
    lost = 0
    if ar is not None and ar["facts"] and result["facts"]:
        lost = ar["facts"]["right"] - result["facts"]["right"]
    elif ar is not None and ar["correct"] is not None and result["correct"] is not None:
        lost = int(ar["correct"]) - int(result["correct"])
    return {
        "sample": result["sample_index"],
        "method": result["method"],
        "name": result["name"] or f"sample {result['sample_index']}",
        "question": result["question"] or "",
        "answer": result["answer"] or "",
        "speedup": result["speedup_decode"],
        "accepted": result["average_accept_length"],
        "tokens": result["generate_len"],
        "distance": distance(result, ar),
        "lost": lost,
        "facts": result["facts"],
        "text": result["output"] or "",
        "ar": "" if ar is None else ar["output"] or "",
        "race": result["race"],
    }


def distance(result: Result, ar: Result | None) -> float | None:
    """The measured edit distance between the tokens, or, where a record has none, the one between the words [ours]."""
    if ar is None or ar["output"] is None or result["output"] is None:
        return None
    kept = result["fidelity"]
    if kept and kept["edit_distance"] is not None:
        return kept["edit_distance"]
    if result["output"] == ar["output"]:
        return 0.0
    return Levenshtein.normalized_distance(words(ar["output"]), words(result["output"]))


def words(text: str) -> Sequence[str]:
    return re.findall(r"\w+|[^\w\s]", text)[:MOST_WORDS]
