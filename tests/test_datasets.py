"""Data sets: each published layout, made here in small, becomes the same kind of sample; what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from video_clips import numbers, write

from lvspec_core.errors import DataError, VideoError
from lvspec_core.evaluation.choices import DIRECTLY, asked, bare, chosen
from lvspec_core.evaluation.datasets import open_dataset
from lvspec_core.evaluation.layouts import MVBENCH
from lvspec_core.evaluation.samples import open_clip
from lvspec_core.settings import DEFAULT_QUESTION
from lvspec_core.shapes.clips import world_clip


def put(path: Path, content: object = "") -> Path:
    """Writes an object as JSON, a list also as JSON lines, a text as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def clip(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, 50)


def test_video_detail_caption(tmp_path):
    clip(tmp_path / "Test_Videos" / "v_a.mp4")
    rows = [{"video_name": "v_a", "question": "Tell me.", "answer": "A sea."}, {"video_name": "v_b", "question": "?"}]
    put(tmp_path / "test.jsonl", rows)
    found = open_dataset(str(tmp_path), "VideoDetailCaption")
    first, second = found.samples
    assert (first.name, first.path, first.prompt, first.answer) == ("v_a", tmp_path / "Test_Videos" / "v_a.mp4", "Tell me.", "A sea.")
    assert (second.index, second.answer) == (1, "")
    assert len(open_clip(first, 4)[0].frames) == 4
    with pytest.raises(VideoError, match=r"v_b\.mp4"):
        open_clip(second, 4)


def test_a_parquet_table_is_read_like_a_json_one(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow: pip install -r requirements-evaluate.txt")
    arrow = pytest.importorskip("pyarrow")
    rows = [{"videoID": "x", "duration": "short", "question": "Which?", "options": ["A. red", "B. blue"], "answer": "B"}]
    (tmp_path / "videomme").mkdir()
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "videomme" / "test-00000-of-00001.parquet")
    clip(tmp_path / "data" / "x.mp4")
    (sample,) = open_dataset(str(tmp_path), "Video-MME").samples
    assert (sample.options, sample.answer) == (("red", "blue"), "B")


def test_parquet_without_its_library_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    put(tmp_path / "test-0.parquet", "PAR1")
    with pytest.raises(DataError, match=r"pip install -r requirements-evaluate\.txt"):
        open_dataset(str(tmp_path / "test-0.parquet"))


def test_mvbench_cuts_whole_videos_and_takes_cut_ones_as_they_are(tmp_path):
    row = {"video": "ZS9.mp4", "question": "What first?", "candidates": ["Ran.", "Sat."], "answer": "Sat.", "start": 1.0, "end": 2.0}
    put(tmp_path / "json" / "action_sequence.json", [row])
    put(tmp_path / "json" / "moving_count.json", [{**row, "video": "v.mp4"}])
    clip(tmp_path / "video" / "star" / "Charades_v1_480" / "ZS9.mp4")
    clip(tmp_path / "clevrer" / "video_validation" / "v.mp4")
    sequence, count = open_dataset(str(tmp_path), "MVBench").samples
    assert (sequence.name, sequence.span, sequence.answer) == ("action_sequence/ZS9.mp4", (1.0, 2.0), "B")
    assert numbers(open_clip(sequence, 2)[0].frames) == [12, 17]
    assert (count.span, count.path.parent.name) == (None, "video_validation")
    (tmp_path / "video" / "star" / "Charades_v1_480").rename(tmp_path / "video" / "star" / "Charades_segment")
    (cut,) = open_dataset(str(tmp_path), "MVBench:action_sequence").samples
    assert (cut.span, cut.path.parent.name) == (None, "Charades_segment")
    assert len(MVBENCH) == 20


def test_mlvu_keeps_files_of_one_name_in_several_tasks_apart(tmp_path):
    base = {"video": "1.mp4", "duration": 9, "question": "Who?", "question_type": "plotQA"}
    put(tmp_path / "json" / "1_plotQA.json", [{**base, "candidates": ["He", "She"], "answer": "He"}])
    put(tmp_path / "json" / "9_summary.json", [{**base, "answer": "All of it."}])
    for task in ("1_plotQA", "9_summary"):
        clip(tmp_path / "video" / task / "1.mp4")
    plot, summary = open_dataset(str(tmp_path), "MVLU").samples
    assert (plot.answer, plot.path.parent.name) == ("A", "1_plotQA")
    assert (summary.options, summary.answer, summary.path.parent.name) == ((), "All of it.", "9_summary")
    assert [sample.name for sample in open_dataset(str(tmp_path), "mlvu:summary").samples] == ["9_summary/1.mp4"]


def test_long_video_bench_in_both_its_tables(tmp_path):
    clip(tmp_path / "videos" / "a.mp4")
    row = {"video_path": "a.mp4", "question": "When?", "correct_choice": 1, "id": "a_0", "subtitle_path": "a.json"}
    put(tmp_path / "lvb_val.json", [{**row, "candidates": ["now", "then", "never"]}])
    options = {"option0": "now", "option1": "then", "option2": "N/A", "option3": "N/A", "option4": "N/A"}
    put(tmp_path / "lvb_test_wo_gt.json", [{**row, **options, "correct_choice": "@"}])
    (known,) = open_dataset(str(tmp_path), "LongVideoBench").samples
    (unknown,) = open_dataset(str(tmp_path), "LongVideoBench:test").samples
    assert (known.options, known.answer) == (("now", "then", "never"), "B")
    assert (unknown.options, unknown.answer) == (("now", "then"), "")


def test_video_mme_by_length(tmp_path):
    rows = [
        {"videoID": name, "duration": name, "question": "Which?", "options": ["A. a", "B. b", "C. c"], "answer": "C"}
        for name in ("short", "long")
    ]
    put(tmp_path / "videomme.json", rows)
    clip(tmp_path / "data" / "long.mkv")
    (sample,) = open_dataset(str(tmp_path), "Video-MME:long").samples
    assert (sample.path.name, sample.options, sample.answer) == ("long.mkv", ("a", "b", "c"), "C")


@pytest.mark.parametrize(("annotations", "videos"), [("gt", "videos"), ("jsons", "raw_videos")])
def test_movie_chat_asks_about_whole_videos(tmp_path, annotations, videos):
    clip(tmp_path / videos / "1.mp4")
    qa = {"question": "Is it night?", "answer": "No."}
    row = {"info": {"video_path": "1.mp4", "fps": 24}, "global": [qa, {**qa, "question": "Where?"}], "breakpoint": [{**qa, "time": 99}]}
    put(tmp_path / annotations / "1.json", row)
    found = open_dataset(str(tmp_path), "MovieChat").samples
    assert [(sample.question, sample.answer) for sample in found] == [("Is it night?", "No."), ("Where?", "No.")]
    assert {sample.path for sample in found} == {tmp_path / videos / "1.mp4"}
    with pytest.raises(DataError, match="whole videos"):
        open_dataset(str(tmp_path), "MovieChat:breakpoint")


def test_movie_chat_as_lmms_eval_keeps_it(tmp_path):
    clip(tmp_path / "Test_Videos" / "1.mp4")
    put(tmp_path / "test.json", [{"video_name": "1.mp4", "question": "Where?", "answer": "There."}])
    (sample,) = open_dataset(str(tmp_path), "MovieChat").samples
    assert (sample.path.name, sample.answer) == ("1.mp4", "There.")


def test_a_folder_of_clips_and_a_file_of_ones_own(tmp_path):
    clip(tmp_path / "b.mp4"), clip(tmp_path / "a.MKV")
    table = put(
        tmp_path / "mine.jsonl",
        [{"video": "b.mp4"}, {"video": "a.MKV", "question": "Why?", "options": ["x", "y"], "answer": "y", "start": 1, "end": 2}],
    )
    folder = open_dataset(str(tmp_path))
    assert (folder.task, [sample.name for sample in folder.samples]) == ("folder", ["a.MKV", "b.mp4"])
    assert folder.samples[0].prompt == DEFAULT_QUESTION
    plain, choice = open_dataset(str(table)).samples
    assert (plain.question, plain.options) == (DEFAULT_QUESTION, ())
    assert (choice.answer, choice.span) == ("B", (1.0, 2.0))


def test_the_shapes_world_is_rendered_with_its_truth():
    found = open_dataset("shapes:3")
    clip, scene = open_clip(found.samples[2], 4)
    assert scene == world_clip(2)[0]
    assert (clip.name, len(clip.frames), len(found.samples)) == ("shapes-2", 4, 3)


def test_a_choice_of_samples_keeps_their_places():
    mixed = open_dataset("shapes:20", num=5, shuffle=3)
    assert [sample.number for sample in mixed.samples] == [sample.index for sample in mixed.samples]
    assert mixed == open_dataset("shapes:20", num=5, shuffle=3)
    assert mixed.fingerprint == open_dataset("shapes:20", num=5).fingerprint != open_dataset("shapes:21", num=5).fingerprint
    (own,) = open_dataset("shapes:20", num=1, question="What moves?").samples
    assert own.prompt == "What moves?"


def test_the_fingerprint_does_not_hang_on_where_files_lie(tmp_path):
    for place in ("here", "there"):
        clip(tmp_path / place / "a.mp4")
    first, second = (open_dataset(str(tmp_path / place)) for place in ("here", "there"))
    assert first.fingerprint == second.fingerprint


ROW = {"video": "a.mp4", "question": "?", "candidates": ["x", "y"], "answer": "x"}


@pytest.mark.parametrize(
    ("data", "task", "content", "sentence"),
    [
        ("nowhere", "", None, "There is no .*nowhere"),
        ("shapes:0", "", None, "from 1 to"),
        ("shapes:many", "", None, "the number of clips"),
        (".", "", None, "say which data set it is"),
        (".", "folder", None, "holds no videos"),
        (".", "Imagenet", None, "Unknown task 'Imagenet'"),
        (".", "MVBench", None, "holds no json/TASK.json"),
        (".", "MVBench:dance", None, "has no part 'dance'"),
        (".", "LongVideoBench:train", None, "choose val or test"),
        (".", "Video-MME:tiny", None, "short, medium or long"),
        (".", "VideoDetailCaption", None, "holds none of data/test-"),
        (".", "MLVU", {"json/1_plotQA.json": [{"question": "?"}]}, "1_plotQA.json has no video in row 1; its columns are question"),
        (".", "MLVU", {"json/1_plotQA.json": [ROW, {**ROW, "answer": "z"}]}, "'z' in row 2 of 1_plotQA.json is none of its 2 options"),
        (".", "MLVU", {"json/1_plotQA.json": [{**ROW, "candidates": "x"}]}, "candidates in row 1 .* not a list"),
        (".", "MLVU", {"json/1_plotQA.json": [ROW]}, "None of the 1 videos .* looked for at .*video/1_plotQA/a.mp4"),
        (".", "MLVU", {"json/1_plotQA.json": {"a": 1}}, "must hold a list of objects"),
        (".", "MLVU", {"json/1_plotQA.json": "[{"}, "cannot be read as json"),
        (".", "MovieChat", {"gt/1.json": {"info": {}, "global": []}}, "1.json has no video_path in row 1"),
        ("t.jsonl", "", {"t.jsonl": [{"question": "?"}]}, "t.jsonl has no video or video_path"),
        ("t.jsonl", "", {"t.jsonl": [{"video": "a.mp4", "start": "soon", "end": 2}]}, "are no seconds"),
        ("t.jsonl", "MLVU", {"t.jsonl": [ROW]}, "give the folder that holds MLVU"),
        ("t.txt", "", {"t.txt": "a.mp4"}, "t.txt is no table"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_in_one_sentence(tmp_path, monkeypatch, data, task, content, sentence):
    monkeypatch.chdir(tmp_path)
    for name, value in (content or {}).items():
        put(tmp_path / name, value)
    with pytest.raises(DataError, match=sentence) as caught:
        open_dataset(data, task)
    assert "\n" not in str(caught.value)


def test_options_are_asked_with_letters():
    assert asked("Which?", ("red", "blue")) == f"Which?\nA. red\nB. blue\n{DIRECTLY}"
    assert asked("Which?", ()) == "Which?"
    assert [bare(option, 1) for option in ("B. blue", "(B) blue", "A. blue", "blue")] == ["blue", "blue", "A. blue", "blue"]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"), ("b.", "B"), ("(B) blue", "B"), ("B. blue", "B"), ("The answer is B.", "B"), ("Answer: (C)", "C"),
        ("The best option is (B) because A is wrong", "B"), ("blue", "B"), ("It is blue.", "B"), ("The car is red", "A"),
        ("A man walks", None), ("I think so", None), ("", None), ("D", None), ("E. none", None), ("red and blue", None), ("B blue", "B"),
        ("So the answer is C.", "C"), ("**B**", "B"), ("A", "A"), ("Because", None), ("A's colour", None),
    ],
)  # fmt: skip
def test_what_an_answer_chooses(text, letter):
    assert chosen(text, ("red", "blue", "green")) == letter
