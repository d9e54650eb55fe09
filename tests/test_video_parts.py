"""Reading a part of a video, and few frames of a long one: the same frames whoever reads."""

from __future__ import annotations

import pytest
from video_clips import numbers, write

from lvspec_core.video import read_video
from lvspec_core.video.reading import READERS, read_here
from lvspec_core.video.sampling import within

PIXELS = 448 * 448
ONE_KEY_FRAME = {"g": "100", "bf": "0"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """50 frames, ten a second, with a single key frame: whoever wants a late frame decodes all before it."""
    return write(tmp_path_factory.mktemp("parts") / "clip.mp4", 50, options=ONE_KEY_FRAME)


@pytest.mark.parametrize("readers", [READERS, ("PyAV",)])
@pytest.mark.parametrize(("frames", "expected"), [(1, [25]), (2, [12, 37]), (4, [6, 18, 31, 43])])
def test_few_frames_are_spread_over_the_whole_video(clip, readers, frames, expected):
    assert numbers(read_here(clip, frames, PIXELS, readers).frames) == expected


@pytest.mark.parametrize("readers", [READERS, ("PyAV",)])
def test_a_part_is_a_clip_of_its_own(clip, readers):
    part = read_here(clip, 2, PIXELS, readers, (1.0, 2.0))
    assert numbers(part.frames) == [12, 17]
    assert part.timestamps == pytest.approx((0.25, 0.75))
    assert (part.seconds, part.frame_count) == (pytest.approx(1.0), 10)


def test_a_part_crosses_to_the_reading_process_and_is_remembered_apart_from_the_whole(clip):
    whole, part = read_video(clip, 2), read_video(clip, 2, span=(1.0, 2.0))
    assert numbers(whole.frames) == [12, 37]
    assert numbers(part.frames) == [12, 17]
    assert read_video(clip, 2, span=(1.0, 2.0)) is part


@pytest.mark.parametrize(
    ("span", "expected"), [(None, (0, 5)), ((1, 2), (1, 2)), ((-3, 2), (0, 2)), ((4, 99), (4, 5)), ((7, 9), (0, 5)), ((2, 2), (0, 5))]
)
def test_a_part_that_is_not_in_the_video_is_all_of_it(span, expected):
    assert within(span, 5.0) == expected
