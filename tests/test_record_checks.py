"""What a file claims of the models' thoughts and of the video is refused where it cannot be true or could do harm."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import pytest
from fake_race import recorded
from PIL import Image

from lvspec_core.errors import RecordError
from lvspec_core.race_files import load_race, save_race
from lvspec_core.record_checks import THUMBNAIL_SIDE
from lvspec_core.records import Evidence, Prefill, Round, from_dict, to_dict
from lvspec_core.settings import RaceSettings

RACE = recorded(RaceSettings(question="fast", max_new_tokens=20, details=True))
START = RACE[0]
SIGHT = next(record for record in RACE if isinstance(record, Prefill) and record.kept)
ROUND = next(record for record in RACE if isinstance(record, Round) and record.lane == "lvspec")
EVIDENCE = next(record for record in RACE if isinstance(record, Evidence))
ROWS = len(ROUND.proposed) + 1
TOP = ((" a", 0.5),)


def jpeg(width: int, height: int = 8, kind: str = "JPEG") -> str:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, kind)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def refused(record, expected: str, **changes) -> None:
    values = json.loads(json.dumps({**to_dict(record), **changes}))
    with pytest.raises(RecordError, match=expected):
        from_dict(values)


def test_a_race_with_details_comes_back_equal(tmp_path):
    assert load_race(save_race(RACE, tmp_path / "race.jsonl")) == RACE


def test_a_race_from_before_there_were_details_is_read():
    added = {"threshold", "thumbnails", "grid", "kept", "target_top", "draft_top", "chances", "why"}
    for record in recorded():
        older = {name: value for name, value in to_dict(record).items() if name not in added}
        assert from_dict(older) == (replace(record, threshold=None) if record.type == "start" else record)


@pytest.mark.parametrize("threshold", [-0.1, 1.1])
def test_a_threshold_is_a_relevance(threshold):
    refused(START, "threshold is not between 0 and 1", threshold=threshold)


@pytest.mark.parametrize(
    "picture",
    [
        "https://example.org/spy.jpg",
        "javascript:alert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:image/jpeg;base64,",
        "data:image/jpeg;base64,not base64",
        "data:image/jpeg;base64,AAAA\nAAAA",
        "data:image/jpeg;base64,PHNjcmlwdD4=",
        jpeg(8, kind="PNG"),
        jpeg(THUMBNAIL_SIDE + 1),
        jpeg(8, THUMBNAIL_SIDE + 1),
    ],
)
def test_a_thumbnail_is_a_small_jpeg_and_nothing_else(picture):
    refused(START, "not a small JPEG picture", thumbnails=[jpeg(8), picture])


def test_thumbnails_are_few_and_small():
    refused(START, "thumbnails are too large", thumbnails=[jpeg(8)] * 129)
    refused(START, "thumbnails are too large", thumbnails=["data:image/jpeg;base64," + "A" * 2**18])


@pytest.mark.parametrize("grid", [(0, 4, 4), (-1, -4, 4), (2**11, 2**11, 1), (10**17, 1, 1)])
def test_a_grid_is_of_tokens_that_a_video_can_have(grid):
    refused(SIGHT, "grid of video tokens is not possible", grid=grid, kept="")


@pytest.mark.parametrize("kept", ["qg==", "qqqq", "!", "é"])
def test_the_kept_tokens_fit_the_grid(kept):
    refused(SIGHT, "do not fit its grid", kept=kept)
    refused(SIGHT, "of no grid", grid=None)


@pytest.mark.parametrize("name", ["target_top", "draft_top"])
def test_the_models_choices_are_few_and_probabilities(name):
    refused(ROUND, "more choices than it has positions", **{name: [TOP] * (ROWS + 1)})
    refused(ROUND, "more choices than it has positions", **{name: [TOP * 6]})
    for chance in (-0.1, 1.1):
        refused(ROUND, "probability is not between", **{name: [[[" a", chance]]]})
    refused(ROUND, "not a number", **{name: [[[" a", "1"]]]})
    refused(ROUND, "not a text", **{name: [[[1, 0.5]]]})


def test_chances_are_those_of_the_draft_tokens():
    refused(ROUND, "not those of what was proposed", chances=[[0.5, 0.5]])
    refused(ROUND, "probability is not between", chances=[[0.5, 2]] * len(ROUND.proposed))
    refused(ROUND, "unknown reason", why="<b>")


def test_heat_fits_its_grid():
    one = base64.b64encode(bytes(16)).decode()
    refused(EVIDENCE, "heat map does not fit", heat=[one[:-4]], shares=[0.1])
    refused(EVIDENCE, "heat map does not fit", heat=["?"], shares=[0.1])
    refused(EVIDENCE, "shares of attention", heat=[one], shares=[])
    refused(EVIDENCE, "shares of attention", heat=[one], shares=[1.5])
    refused(EVIDENCE, "shares of attention", peak=-1)
    for grid in ((0, 4, 4), (64, 64, 2), (1, 4)):
        refused(EVIDENCE, "grid", grid=grid)


def refused_file(tmp_path, records, expected: str) -> None:
    with pytest.raises(RecordError, match=expected):
        load_race(save_race(records, tmp_path / "race.jsonl"))


def test_evidence_is_of_the_text_that_the_lane_wrote(tmp_path):
    before = RACE[: RACE.index(EVIDENCE)]
    refused_file(tmp_path, [*before, replace(EVIDENCE, lanes=("nobody",))], "'nobody' is not in this race")
    refused_file(tmp_path, [*before, EVIDENCE, EVIDENCE], "evidence twice")
    refused_file(tmp_path, [*before, replace(EVIDENCE, heat=EVIDENCE.heat[1:], shares=EVIDENCE.shares[1:])], "does not fit the tokens")
    refused_file(tmp_path, [START, EVIDENCE], "does not fit the tokens")


def test_the_prefill_is_of_lanes_of_the_race(tmp_path):
    refused_file(tmp_path, [START, replace(SIGHT, lanes=("nobody",))], "'nobody' is not in this race")


def test_the_choices_words_are_no_longer_than_the_texts(tmp_path):
    long = (((" " * 1001, 0.5),),)
    refused_file(tmp_path, [START, replace(ROUND, target_top=long)], "more than 1,000 characters")
    refused_file(tmp_path, [START, replace(ROUND, draft_top=long)], "more than 1,000 characters")
