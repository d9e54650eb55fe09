"""How published data sets lie on disk: for each a function from its folder, and the part of it that is wanted, to its samples.

Read from the places that are named beside each; nothing is downloaded, and what a folder lacks gets one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lvspec_core.errors import DataError
from lvspec_core.evaluation.choices import LETTERS, bare
from lvspec_core.evaluation.samples import Sample
from lvspec_core.evaluation.tables import Row, first_of, rows_of, text, texts, value

VIDEO_SUFFIXES = ("mp4", "MP4", "mkv", "webm", "avi", "mov")
# MVBench's tasks -> where their videos lie, under video/ or beside it: the whole videos, which a row's start and end cut
# [code: OpenGVLab/Ask-Anything, video_chat2/mvbench.ipynb], or the ready-made cuts [code: lmms-eval, tasks/mvbench/utils.py]
CHARADES = (("star/Charades_v1_480", True), ("star/Charades_segment", False))
STA = (("sta/sta_video", True), ("sta/sta_video_segment", False))
CLEVRER, PERCEPTION = (("clevrer/video_validation", False),), (("perception/videos", False),)
MVBENCH = {
    "action_sequence": CHARADES,
    "action_prediction": CHARADES,
    "action_antonym": (("ssv2_video", False), ("ssv2_video_mp4", False)),
    "fine_grained_action": (("Moments_in_Time_Raw/videos", False),),
    "unexpected_action": (("FunQA_test/test", False),),
    "object_existence": CLEVRER,
    "object_interaction": CHARADES,
    "object_shuffle": PERCEPTION,
    "moving_direction": CLEVRER,
    "action_localization": STA,
    "scene_transition": (("scene_qa/video", False),),
    "action_count": PERCEPTION,
    "moving_count": CLEVRER,
    "moving_attribute": CLEVRER,
    "state_change": PERCEPTION,
    "fine_grained_pose": (("nturgbd", False), ("nturgbd_convert", False)),
    "character_order": PERCEPTION,
    "egocentric_navigation": (("vlnqa", False),),
    "episodic_reasoning": (("tvqa/video_fps3_hq_segment", False),),
    "counterfactual_inference": CLEVRER,
}


def video_detail_caption(root: Path, part: str) -> Iterator[Sample]:
    """A table with ``video_name`` (without ending), ``question`` and ``answer``, and a folder ``Test_Videos``
    [code: SpecVLM, utils/utils.py; lmms-eval, tasks/video_detail_description/utils.py]."""
    for path, number, row in _table(root, ("data/test-*.parquet", "*.parquet", "*.jsonl", "*.json")):
        name = text(row, "video_name", path, number)
        yield Sample(name, _video(root / "Test_Videos", name), text(row, "question", path, number), str(row.get("answer") or ""))


def mvbench(root: Path, part: str) -> Iterator[Sample]:
    """``json/TASK.json`` with ``video``, ``question``, ``candidates``, ``answer`` (one of these) and, where a piece of a video is
    asked about, ``start`` and ``end`` in seconds; videos under ``video/`` [code: as named at MVBENCH]."""
    if part and part not in MVBENCH:
        raise DataError(f"MVBench has no part {part!r}; choose among {', '.join(MVBENCH)}.")
    wanted = [part] if part else [name for name in MVBENCH if any(root.glob(f"json/{name}.json")) or any(root.glob(f"{name}/*.parquet"))]
    if not wanted:
        raise DataError(f"{root} holds no json/TASK.json of MVBench; is it the data set's folder?")
    for name in wanted:
        for path, number, row in _table(root, (f"json/{name}.json", f"{name}/*.parquet", f"{name}/train/*.parquet")):
            file = text(row, "video", path, number)
            video, whole = _mvbench_video(root, name, file)
            span = span_of(row, path, number) if whole else None
            yield _choice(row, path, number, Sample(f"{name}/{file}", video, span=span))


def _mvbench_video(root: Path, name: str, file: str) -> tuple[Path, bool]:
    """The video of a row, and whether it is a whole one that start and end have yet to cut."""
    places = [(base / folder / file, whole) for folder, whole in MVBENCH[name] for base in (root / "video", root)]
    return next((place for place in places if place[0].is_file()), places[0])


def mlvu(root: Path, part: str) -> Iterator[Sample]:
    """``json/1_plotQA.json`` … with ``video``, ``question``, ``answer`` and, but for the two tasks that ask for a text,
    ``candidates``; videos in ``video/1_plotQA`` … [code: MLVU, evaluation]."""
    for path, number, row in _table(root, (f"json/*{part}.json", f"*/json/*{part}.json")):
        file = text(row, "video", path, number)
        sample = Sample(f"{path.stem}/{file}", path.parent.parent / "video" / path.stem / file)
        yield _choice(row, path, number, sample)


def long_video_bench(root: Path, part: str) -> Iterator[Sample]:
    """``lvb_val.json`` with ``video_path``, ``question``, ``candidates`` and ``correct_choice``, or the same as a table with
    ``option0`` … ``option4`` ("N/A": none); videos in ``videos`` [code: longvideobench/longvideobench_dataset.py]. Part: "val" (as
    without one) or "test", whose right choices are not published."""
    files = {"": "val", "val": "val", "validation": "val", "test": "test"}
    if part not in files:
        raise DataError(f"LongVideoBench has no part {part!r}; choose val or test.")
    names = {"val": ("lvb_val.json", "*validation-*.parquet", "data/validation-*.parquet")}
    names["test"] = ("lvb_test_wo_gt.json", "*test-*.parquet", "data/test-*.parquet")
    for path, number, row in _table(root, names[files[part]]):
        file = text(row, "video_path", path, number)
        if "candidates" not in row:
            options = [row.get(f"option{place}") for place in range(5)]
            row = {**row, "candidates": [option for option in options if option and option != "N/A"]}
        given = row.get("correct_choice")
        answer = given if isinstance(given, int) and 0 <= given < len(row["candidates"]) else None
        row = {**row, "answer": "" if answer is None else row["candidates"][answer]}
        yield _choice(row, path, number, Sample(file, root / "videos" / file))


def video_mme(root: Path, part: str) -> Iterator[Sample]:
    """A table with ``videoID``, ``question``, ``options`` ("A. …") and ``answer`` (a letter), videos in ``data`` [code: lmms-eval,
    tasks/videomme/utils.py]. Part: "short", "medium" or "long"."""
    if part not in ("", "short", "medium", "long"):
        raise DataError(f"Video-MME has no part {part!r}; choose short, medium or long.")
    for path, number, row in _table(root, ("videomme/test-*.parquet", "test-*.parquet", "*.jsonl", "*.json")):
        if part and text(row, "duration", path, number) != part:
            continue
        name = text(row, "videoID", path, number)
        options = texts(row, "options", path, number)
        row = {**row, "candidates": [bare(option, place) for place, option in enumerate(options)]}
        yield _choice(row, path, number, Sample(name, _video(root / "data", name)))


def movie_chat(root: Path, part: str) -> Iterator[Sample]:
    """MovieChat-1K: a JSON file for each video in ``gt``, ``annotations`` or ``jsons`` with ``info.video_path`` and a list ``global``
    of ``question`` and ``answer``, videos in ``videos`` or ``raw_videos`` [code: rese1f/MovieChat; the hub's file list]; or a
    table with ``video_name``, ``question``, ``answer`` and ``Test_Videos`` [code: lmms-eval, tasks/moviechat/utils.py].

    Questions about a moment ("breakpoint") are left out: they need a player that stands still there."""
    if part not in ("", "global"):
        raise DataError("Of MovieChat only the questions about whole videos can be asked here: choose the part global, or none.")
    if (root / "Test_Videos").is_dir():
        for path, number, row in _table(root, ("data/*.parquet", "*.parquet", "*.jsonl", "*.json")):
            name = text(row, "video_name", path, number)
            yield Sample(name, _video(root / "Test_Videos", name), text(row, "question", path, number), str(row.get("answer") or ""))
        return
    folder = next((root / name for name in ("videos", "raw_videos") if (root / name).is_dir()), root / "videos")
    for path in first_of(root, ("gt/*.json", "gt/gt/*.json", "annotations/*.json", "jsons/*.json")):
        (row,) = _whole(path)
        info = value(row, "info", path, 0)
        name = text(info if isinstance(info, dict) else {}, "video_path", path, 0)
        for number, each in enumerate(value(row, "global", path, 0)):
            question, answer = (text(each, column, path, number) for column in ("question", "answer"))
            yield Sample(name, folder / name, question, answer)


def _whole(path: Path) -> list[Row]:
    """A file that holds one object, as a list of it."""
    try:
        row = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as json: {str(error).splitlines()[0]}.") from None
    if not isinstance(row, dict):
        raise DataError(f"{path} must hold one object.")
    return [row]


def _table(root: Path, patterns: tuple[str, ...]) -> Iterator[tuple[Path, int, Row]]:
    """The rows of the data set's files, each with its file and number."""
    for path in first_of(root, patterns):
        for number, row in enumerate(rows_of(path)):
            yield path, number, row


def _video(folder: Path, name: str) -> Path:
    """The file of this name, whatever its ending; where there is none, the place where it was looked for first."""
    places = [folder / name] if name.rsplit(".", 1)[-1] in VIDEO_SUFFIXES else []
    places += [folder / f"{name}.{suffix}" for suffix in VIDEO_SUFFIXES]
    return next((place for place in places if place.is_file()), places[0])


def _choice(row: Row, path: Path, number: int, sample: Sample) -> Sample:
    """The sample with the row's question and, if it has ``candidates``, these and the letter of its answer."""
    question = text(row, "question", path, number)
    answer = str(row.get("answer") or "")
    if row.get("candidates") is None:
        return replace(sample, question=question, answer=answer)
    options = texts(row, "candidates", path, number)
    return replace(sample, question=question, options=options, answer=letter_of(answer, options, path, number))


def letter_of(answer: str, options: tuple[str, ...], path: Path, number: int) -> str:
    """The letter of the right option, which a data set gives as it is or as the option's text; "" where it gives none.

    DataError if it is neither: counting such a sample as wrong for all methods would be a figure that nobody could see through."""
    if not answer:
        return ""
    if answer in options:
        return LETTERS[options.index(answer)]
    if len(answer) == 1 and answer in LETTERS[: len(options)]:
        return answer
    raise DataError(f"The answer {answer[:60]!r} in row {number + 1} of {path.name} is none of its {len(options)} options.")


def span_of(row: Row, path: Path, number: int) -> tuple[float, float] | None:
    """The part of a video that a row names by ``start`` and ``end``, in seconds; None where it names none."""
    if row.get("start") is None or row.get("end") is None:
        return None
    try:
        return float(row["start"]), float(row["end"])
    except (TypeError, ValueError):
        raise DataError(f"The start and end in row {number + 1} of {path.name} are no seconds.") from None
