"""Video reading: the right frames with the right times from every kind of file, one sentence for everything else."""

from __future__ import annotations

import base64
import importlib.util
import io
import os
import random
import socket
import time
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from video_clips import add_sound, numbers, picture, turn, write

from lvspec_core.errors import VideoError
from lvspec_core.video import decord_reader, describe, film_strip, process, pyav_reader, read_video, sampling
from lvspec_core.video.formats import inspect, recognise
from lvspec_core.video.pyav_source import Source
from lvspec_core.video.reading import READERS, read_here
from lvspec_core.video.sampling import Timeline, cost, fit, sample

PIXELS = 448 * 448
HAS_DECORD = importlib.util.find_spec("decord") is not None  # it has no wheel for some machines
X265 = {"x265-params": "log-level=none:pools=1"}


def read(path, frames=6, readers=READERS, max_pixels=PIXELS):
    return read_here(path, frames, max_pixels, readers)


def noisy(count: int, size=(160, 120)) -> list[np.ndarray]:
    """Numbered frames that do not compress to nothing, so that a cut or a flipped byte hits pictures."""
    noise = np.random.default_rng(0)
    return [
        (picture(k, *size).astype(int) + noise.integers(-20, 20, (size[1], size[0], 3))).clip(0, 255).astype(np.uint8) for k in range(count)
    ]


# every kind of file -------------------------------------------------------------------------------------------------

KINDS = {
    "h264.mp4": ({}, "decord"),
    "h264.mov": ({"options": {"bf": "3", "g": "8"}}, "decord"),
    "h264.mkv": ({}, "decord"),
    "h264.flv": ({}, "decord"),
    "fragmented.mp4": ({"muxer": {"movflags": "frag_keyframe+empty_moov"}, "options": {"g": "5"}}, "decord"),
    "sound.mp4": ({"sound": True}, "decord"),
    "hevc.mp4": ({"codec": "libx265", "options": X265}, "decord"),
    "hdr.mp4": ({"codec": "libx265", "pixels": "yuv420p10le", "options": X265}, "decord"),
    "vp8.webm": ({"codec": "libvpx"}, "decord"),
    "vp9.webm": ({"codec": "libvpx-vp9"}, "decord"),
    "mpeg4.avi": ({"codec": "mpeg4", "options": {"qmin": "1", "qmax": "2"}}, "decord"),
    "alpha.webm": ({"codec": "libvpx-vp9", "pixels": "yuva420p"}, "decord"),
    "av1.mp4": ({"codec": "libsvtav1", "options": {"svtav1-params": "lp=1"}}, "PyAV"),
    "tiny.mp4": ({"size": (16, 16)}, "PyAV"),
    "loop.gif": ({"codec": "gif", "pixels": "gray"}, "PyAV"),
    "moving.png": ({"codec": "apng", "pixels": "rgb24", "container": "apng"}, "PyAV"),
    "h264.ts": ({"container": "mpegts", "options": {"g": "5"}}, "PyAV"),
    "mpeg2.mpg": ({"codec": "mpeg2video", "container": "mpeg", "fps": 25}, "PyAV"),
    "bframes.avi": ({"options": {"bf": "2", "g": "10"}}, "PyAV"),
    "ffv1.mkv": ({"codec": "ffv1"}, "PyAV"),
    "vp8.ivf": ({"codec": "libvpx", "container": "ivf"}, "PyAV"),
    "raw.h264": ({"container": "h264"}, "PyAV"),
    "raw.hevc": ({"codec": "libx265", "container": "hevc", "options": X265}, "PyAV"),
    "plain.y4m": ({"codec": "rawvideo", "container": "yuv4mpegpipe"}, "PyAV"),
    "live.webm": ({"codec": "libvpx", "muxer": {"live": "1"}}, "PyAV"),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_right_frames_at_the_right_times(tmp_path, name):
    how, reader = KINDS[name]
    clip = read(write(tmp_path / name, 30, **how))
    assert clip.reader == (reader if HAS_DECORD else "PyAV")
    np.testing.assert_allclose(numbers(clip.frames), [2, 7, 12, 17, 22, 27], atol=1)  # lossy codecs move the brightness by a step
    fps = 25 if name.startswith(("raw", "mpeg2")) else 10  # a raw stream does not tell its rate
    assert clip.seconds == pytest.approx(30 / fps, rel=0.05)
    assert clip.timestamps == pytest.approx([(i + 0.5) * clip.seconds / 6 for i in range(6)])
    assert clip.frame_count == 30
    assert clip.fps == pytest.approx(fps, rel=0.05)
    assert clip.frames.dtype == np.uint8
    assert clip.frames.shape[1:] == (clip.height, clip.width, 3)


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="this system has no scheduling policies")
def test_writing_a_clip_leaves_the_process_as_urgent_as_it_was(tmp_path):
    before = os.sched_getscheduler(0)
    write(tmp_path / "av1.mp4", 4, **KINDS["av1.mp4"][0])
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_open_groups_of_pictures_are_left_to_the_reader_that_counts_right(tmp_path, codec):
    parameters = {
        f"{codec[3:]}-params": "open-gop=1:keyint=10:bframes=3:scenecut=0" + (":log-level=none:pools=1" if codec == "libx265" else "")
    }
    clip = read(write(tmp_path / "open.mp4", noisy(50), size=(160, 120), codec=codec, options=parameters))
    assert clip.reader == "PyAV"
    np.testing.assert_allclose(numbers(clip.frames), [4, 12, 20, 29, 37, 45], atol=1)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv"])
@pytest.mark.parametrize("readers", [READERS, ("PyAV",)])
def test_a_variable_rate_clip_is_sampled_by_time_not_by_index(tmp_path, name, readers):
    """20 frames in the first second, then one a second for ten seconds, from a stream that starts at 5 s."""
    starts = [k * 0.05 for k in range(20)] + [1 + k for k in range(10)]
    clip = read(write(tmp_path / name, 30, times=[5 + start for start in starts]), 10, readers)
    on_screen = [max(k for k in range(30) if starts[k] <= instant + 1e-3) for instant in clip.timestamps]
    np.testing.assert_allclose(numbers(clip.frames), on_screen, atol=1)
    assert sum(number >= 20 for number in numbers(clip.frames)) == 9
    assert np.diff(clip.timestamps) == pytest.approx(clip.seconds / 10)


def test_fewer_frames_than_asked_for_are_repeated_evenly(tmp_path):
    assert numbers(read(write(tmp_path / "two.mp4", 2), 6).frames) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", ["one.mp4", "one.webm", "one.gif"])
def test_one_frame_is_repeated_and_lasts_some_time(tmp_path, name):
    codec = {"mp4": "libx264", "webm": "libvpx", "gif": "gif"}[name[4:]]
    clip = read(write(tmp_path / name, 1, codec=codec, pixels="gray" if codec == "gif" else "yuv420p"), 4)
    assert numbers(clip.frames) == [0, 0, 0, 0]
    assert clip.frame_count == 1
    assert clip.seconds > 0
    assert clip.fps > 0
    assert list(clip.timestamps) == sorted(clip.timestamps)


def test_one_asked_frame_is_the_middle_one(tmp_path):
    assert numbers(read(write(tmp_path / "clip.mp4", 31), 1).frames) == [15]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp"])
def test_a_still_picture_under_a_videos_name_is_one_frame(tmp_path, suffix):
    Image.fromarray(picture(3, 64, 48)).save(tmp_path / f"still.{suffix}")
    os.rename(tmp_path / f"still.{suffix}", tmp_path / "still.mp4")
    clip = read(tmp_path / "still.mp4", 3)
    assert numbers(clip.frames) == [3, 3, 3]
    assert clip.reader == "Pillow"
    assert clip.seconds == 1.0


# upright, undistorted, small ----------------------------------------------------------------------------------------

CORNERS = np.zeros((48, 64, 3), dtype=np.uint8)
CORNERS[:24, :32], CORNERS[:24, 32:], CORNERS[24:, :32], CORNERS[24:, 32:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), 255


def corners(frame: np.ndarray) -> str:
    height, width = frame.shape[:2]
    spots = [frame[y, x] for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
    return "".join("w" if spot.min() > 150 else "rgb"[int(spot.argmax())] for spot in spots)


@pytest.mark.parametrize(
    ("matrix", "expected", "size"),
    [
        ((1, 0, 0, 1), "rgbw", (64, 48)),
        ((0, 1, -1, 0), "brwg", (48, 64)),
        ((-1, 0, 0, -1), "wbgr", (64, 48)),
        ((0, -1, 1, 0), "gwrb", (48, 64)),
        ((-1, 0, 0, 1), "grwb", (64, 48)),
        ((0, 1, 1, 0), "rbgw", (48, 64)),
    ],
)
def test_a_turned_or_mirrored_phone_video_is_upright(tmp_path, matrix, expected, size):
    clip = read(turn(write(tmp_path / "phone.mp4", [CORNERS] * 5), matrix), 2)
    assert corners(clip.frames[0]) == corners(clip.frames[1]) == expected
    assert (clip.width, clip.height) == size
    assert clip.frames.shape[1:3] == size[::-1]


def test_a_turned_picture_is_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # recorded a quarter turn to the left
    Image.fromarray(CORNERS).save(tmp_path / "turned.jpg", exif=exif)
    clip = read(tmp_path / "turned.jpg", 1)
    assert corners(clip.frames[0]) == "brwg"
    assert (clip.width, clip.height) == (48, 64)


@pytest.mark.parametrize("readers", [READERS, ("PyAV",)])
@pytest.mark.parametrize(("aspect", "size"), [(Fraction(4, 3), (85, 48)), (Fraction(1, 2), (64, 96))])
def test_pixels_that_are_not_square_are_stretched(tmp_path, readers, aspect, size):
    clip = read(write(tmp_path / "wide.mp4", 5, aspect=aspect), 2, readers)
    assert (clip.width, clip.height) == size
    assert clip.frames.shape[1:3] == size[::-1]


@pytest.mark.parametrize("readers", [READERS, ("PyAV",)])
def test_large_frames_are_scaled_down_in_the_same_ratio(tmp_path, readers):
    clip = read(write(tmp_path / "large.mp4", 3, size=(640, 360)), 2, readers, 96 * 96)
    assert (clip.width, clip.height) == (640, 360)
    assert clip.frames.shape[1:3] == (72, 128)


@given(st.integers(1, 8192), st.integers(1, 8192), st.integers(64, 10**6))
def test_fitting_keeps_the_ratio_and_the_limit(width, height, limit):
    fitted = fit(width, height, limit)
    assert fitted[0] * fitted[1] <= limit or min(fitted) == 1
    assert min(fitted) >= 1
    assert fitted[0] <= width
    assert fitted[1] <= height
    if min(fitted) > 20:
        assert fitted[0] / fitted[1] == pytest.approx(width / height, rel=0.06)


# how much is decoded ------------------------------------------------------------------------------------------------


@example([0.5294254269369707] * 4, 40, 1, 10**9)  # key frames midway between two instants
@settings(deadline=None)
@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=80), st.integers(1, 40), st.integers(1, 30), st.sampled_from([1, 10**9]))
def test_samples_are_on_screen_at_their_instants(gaps, frames, group, pixels):
    starts = np.concatenate([[0], np.cumsum(gaps)])
    timeline = Timeline.from_starts(starts, np.arange(0, len(starts), group))
    indices, instants = sample(timeline, frames, pixels)
    assert len(indices) == len(instants) == frames
    assert (np.diff(instants) > 0).all()
    for index, instant in zip(indices, instants, strict=True):
        assert starts[index] <= instant + 1e-6
        assert index + 1 == len(starts) or starts[index + 1] > instant - 1e-6
    step = timeline.seconds / frames
    assert (np.abs(instants - (np.arange(frames) + 0.5) * step) < step / 2 + 1e-9).all()


def test_where_decoding_would_cost_too_much_key_frames_are_taken():
    """Two hours of 1080p with a key frame every ten seconds: exactly reaching 128 instants would decode 16,000 frames."""
    timeline = Timeline.from_starts(np.arange(180_000) / 25, np.arange(0, 180_000, 250))
    exact, _ = sample(timeline, 128, 1)
    cheap, instants = sample(timeline, 128, 1920 * 1080)
    assert cost(timeline, exact) > 10_000
    assert cost(timeline, cheap) == 128
    assert (timeline.starts[cheap] == instants).all()


def test_only_the_needed_frames_are_decoded(tmp_path, monkeypatch):
    path = write(tmp_path / "long.mkv", noisy(50), size=(160, 120), options={"g": "10", "sc_threshold": "0"})
    decoded = []
    original = Source.frames
    monkeypatch.setattr(Source, "frames", lambda self: (decoded.append(1) or frame for frame in original(self)))
    clip = read(path, 2, ("PyAV",))  # frames 12 and 37: three and eight frames from their key frames, and the first look
    assert numbers(clip.frames) == [12, 37]
    assert len(decoded) <= 1 + 1 + 3 + 8 + 2


@pytest.mark.parametrize("name", ["large.mp4", "large.mkv"])
def test_enormous_files_are_sampled_by_their_index(tmp_path, monkeypatch, name):
    monkeypatch.setattr(pyav_reader, "LARGE_BYTES", 0)
    monkeypatch.setattr(decord_reader, "LARGE_BYTES", 0)
    clip = read(write(tmp_path / name, noisy(50), size=(160, 120), options={"g": "10", "bf": "2"}), 5)
    assert clip.reader == "PyAV"
    np.testing.assert_allclose(numbers(clip.frames), [5, 15, 25, 35, 45], atol=1)


# damage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cut.mp4", "cut.webm", "cut.ts", "cut.avi"])
def test_a_cut_off_tail_leaves_what_was_there(tmp_path, name):
    codec = {"webm": "libvpx", "avi": "mpeg4"}.get(name[4:], "libx264")
    path = write(
        tmp_path / name,
        noisy(50),
        size=(160, 120),
        codec=codec,
        options={"g": "10"},
        muxer={"movflags": "faststart"} if name == "cut.mp4" else {},
        container="mpegts" if name == "cut.ts" else None,
    )
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    clip = read(path)
    seen = numbers(clip.frames)
    assert 5 <= clip.frame_count < 50
    assert clip.seconds < 5
    np.testing.assert_allclose(seen, [clip.frame_count * (i + 0.5) / 6 - 0.5 for i in range(6)], atol=1.6)


def test_a_stream_that_begins_in_the_middle_of_a_file_is_passed_over(tmp_path):
    """PyAV raises IndexError at the first packet of a stream that the head of the file did not announce, and its demuxer is spent."""

    class Interrupted:
        def __init__(self, container):
            self.container, self.times = container, 3

        def demux(self, stream):
            for count, packet in enumerate(self.container.demux(stream)):
                yield packet
                if count == 4 and self.times > 0:
                    self.times -= 1
                    raise IndexError("list index out of range")

        def close(self):
            self.container.close()

    location, form = inspect(write(tmp_path / "clip.ts", 30, container="mpegts"))
    with Source(location, form, "clip.ts") as source:
        source.reopen()
        source._container = Interrupted(source._container)
        assert sum(packet.size > 0 for packet in source.packets()) == 30


def test_a_file_without_its_index_gets_a_sentence(tmp_path):
    path = write(tmp_path / "cut.mp4", noisy(20), size=(160, 120))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match="cut off"):
        read(path)


@pytest.mark.parametrize("name", ["rot.mp4", "rot.webm", "rot.ts"])
def test_bit_rot_never_gets_past_a_sentence(tmp_path, name):
    codec = "libvpx" if name == "rot.webm" else "libx264"
    path = write(
        tmp_path / name, noisy(30), size=(160, 120), codec=codec, options={"g": "10"}, container="mpegts" if name == "rot.ts" else None
    )
    sound, dice, readable = path.read_bytes(), random.Random(0), 0
    for share in (0.0001, 0.001, 0.05):
        rotten = bytearray(sound)
        for _ in range(max(1, int(share * len(sound)))):
            rotten[dice.randrange(len(rotten))] = dice.randrange(256)
        path.write_bytes(rotten)
        try:
            readable += len(read_video(path, 4).frames) == 4
        except VideoError as error:
            assert_one_sentence(error)
    assert readable >= 1


def assert_one_sentence(error: VideoError) -> None:
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 250


# what is refused ----------------------------------------------------------------------------------------------------

REFUSED = {
    "nothing": (b"", "empty"),
    "text": (b"a letter to a friend\n", "not a video"),
    "zeros": (bytes(4096), "not a video"),
    "archive": (b"PK\x03\x04" + bytes(500), "not a video"),
    "web page": (b"<!DOCTYPE html><html></html>", "not a video"),
    "playlist": (b"#EXTM3U\n#EXTINF:1,\nother.mp4\n", "playlist or script"),
    "marked playlist": (b"\xef\xbb\xbf\n#EXTM3U\nother.mp4\n", "playlist or script"),
    "concat script": (b"ffconcat version 1.0\nfile 'other.mp4'\n", "playlist or script"),
    "bare concat script": (b"file 'other.mp4'\n", "playlist or script"),
    "session description": (b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n", "playlist or script"),
    "manifest": (b'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011">', "playlist or script"),
    "song": (b"ID3\x04" + bytes(500), "sound but no picture"),
    "wave": (b"RIFF\x24\x00\x00\x00WAVEfmt ", "sound but no picture"),
    "broken film": (b"\x1a\x45\xdf\xa3" + bytes(500), "damaged"),
    "broken picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "cannot be read"),
    "header alone": (b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "cut off|damaged|no video"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_video_gets_one_sentence(tmp_path, kind):
    data, words = REFUSED[kind]
    path = tmp_path / "clip.mp4"
    path.write_bytes(data)
    with pytest.raises(VideoError, match=words) as caught:
        read(path)
    assert_one_sentence(caught.value)
    assert "clip.mp4" in str(caught.value)


def test_sound_alone_gets_one_sentence(tmp_path):
    with av.open(str(tmp_path / "song.mp4"), "w") as out:
        add_sound(out)
    with pytest.raises(VideoError, match="sound but no picture"):
        read(tmp_path / "song.mp4")


def test_what_is_no_ordinary_file_gets_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")  # opening it would wait for ever
    for path, words in [
        (None, "Choose a video"),
        ("", "Choose a video"),
        (tmp_path, "folder"),
        (tmp_path / "missing.mp4", "no file"),
        (tmp_path / "pipe.mp4", "not an ordinary file"),
        ("/dev/zero", "not an ordinary file"),
        ("bad\0name.mp4", "rename"),
        ("http://127.0.0.1:9/clip.mp4", "no file"),
        ("concat:a.mp4|b.mp4", "no file"),
    ]:
        with pytest.raises(VideoError, match=words) as caught:
            read_video(path)
        assert_one_sentence(caught.value)


def test_no_reader_follows_a_script_behind_a_videos_first_bytes(tmp_path):
    """The bytes of a Matroska file, then a session description and a playlist that name a host: nobody may call it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        lure = f"\nc=IN IP4 127.0.0.1\nm=video {port} RTP/AVP 96\n#EXTM3U\nhttp://127.0.0.1:{port}/a.ts\n".encode()
        for start in (b"\x1a\x45\xdf\xa3", b"\x00\x00\x01\xba", b"GIF89a", b"FLV\x01", b""):
            (tmp_path / "clip.mkv").write_bytes(start + lure)
            with pytest.raises(VideoError):
                read_video(tmp_path / "clip.mkv", 2)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_reader_that_guesses_never_sees_a_file_with_a_script_inside(tmp_path):
    path = write(tmp_path / "clip.mkv", 10)
    path.write_bytes(path.read_bytes() + b"\nc=IN IP4 127.0.0.1\n")
    assert not recognise(path.read_bytes(), "clip").guessable
    assert read(path, 2).reader == "PyAV"


def test_a_picture_too_large_or_too_narrow_is_refused_before_it_is_decoded(tmp_path):
    with pytest.raises(VideoError, match="9000×9000"):
        sampling.check_size(9000, 9000, "“x”")
    header = b"GIF89a" + (65000).to_bytes(2, "little") * 2 + b"\x00\x00\x00,\x00\x00\x00\x00\xe8\xfd\xe8\xfd\x00\x02\x02L\x01\x00;"
    (tmp_path / "bomb.gif").write_bytes(header)
    with pytest.raises(VideoError):
        read_video(tmp_path / "bomb.gif", 1)
    thin = write(tmp_path / "thin.mkv", [np.zeros((2, 1000, 3), np.uint8)] * 2, size=(1000, 2), codec="ffv1")
    with pytest.raises(VideoError, match="200 times"):
        read(thin)


# the reading process ------------------------------------------------------------------------------------------------


def test_names_with_spaces_quotes_and_any_letters(tmp_path):
    path = write(tmp_path / '«ü» 日本 "quo\'te" <b>&.mp4', 10)
    assert read_video(path, 2).name == path.name


def test_a_clip_is_remembered_until_its_file_changes(tmp_path):
    path = write(tmp_path / "clip.mp4", 10)
    first = read_video(path, 2)
    assert read_video(str(path), 2) is first
    assert read_video(path, 3) is not first
    write(path, 20)
    assert read_video(path, 2).frame_count == 20


def test_the_reading_process_gives_the_same_clip(tmp_path):
    path = write(tmp_path / "clip.mp4", 30)
    here, apart = read(path, 6), read_video(path, 6)
    assert np.array_equal(here.frames, apart.frames)
    assert here.timestamps == apart.timestamps
    assert describe(here) == describe(apart)


def test_when_decord_brings_its_process_down_pyav_reads(tmp_path, monkeypatch):
    crash = "import sys, os; from lvspec_core.video import reading, decord_reader; decord_reader.read = lambda *a: os.abort(); "
    monkeypatch.setattr(process, "PROGRAM", crash + process.PROGRAM)
    clip = read_video(write(tmp_path / "clip.mp4", 30), 6)
    assert clip.reader == "PyAV"
    assert numbers(clip.frames) == [2, 7, 12, 17, 22, 27]


def test_when_every_reader_crashes_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROGRAM", "import os; os.abort()")
    with pytest.raises(VideoError, match="crash"):
        read_video(write(tmp_path / "clip.mp4", 3))


def test_a_reader_that_hangs_is_ended_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(process, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(VideoError, match=r"Reading “clip\.mp4” took over"):
        read_video(write(tmp_path / "clip.mp4", 3))
    assert time.monotonic() - began < 5


def test_when_decord_hangs_fails_or_counts_otherwise_pyav_reads(tmp_path, monkeypatch):
    decord = pytest.importorskip("decord")
    path = write(tmp_path / "clip.mp4", 30)
    monkeypatch.setattr(decord_reader, "SECONDS", 0.2)
    for fault in (lambda *a, **k: time.sleep(1), lambda *a, **k: [][1], lambda *a, **k: range(7)):
        with monkeypatch.context() as patch:
            patch.setattr(decord, "VideoReader", fault)
            clip = read(path)
        assert clip.reader == "PyAV"
        assert numbers(clip.frames) == [2, 7, 12, 17, 22, 27]


def test_an_unforeseen_failure_is_still_one_sentence(tmp_path, monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError("inside\na decoder")

    monkeypatch.setattr(process, "read_here", fail)
    header, pixels = process.answer({"location": str(tmp_path / "a.mp4"), "frames": 1, "max_pixels": 1, "readers": READERS})
    assert b"cannot be read (ZeroDivisionError)" in header
    assert pixels == b""


def test_a_count_below_one_is_a_programming_error(tmp_path):
    with pytest.raises(ValueError, match="at least 1"):
        read_video(tmp_path / "clip.mp4", 0)


# what is shown ------------------------------------------------------------------------------------------------------


def test_the_film_strip_shows_each_frame_with_its_time(tmp_path):
    clip = read(write(tmp_path / "clip.mp4", 30, size=(320, 240)), 6)
    strip = film_strip(clip, height=96)
    assert [entry["time"] for entry in strip] == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]
    for entry, frame in zip(strip, clip.frames, strict=True):
        kind, _, data = entry["image"].partition(",")
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert kind == "data:image/jpeg;base64"
        assert image.size == (128, 96)
        assert np.asarray(image.convert("RGB")).mean() == pytest.approx(frame.mean(), abs=3)


def test_a_clip_is_described_in_plain_values(tmp_path):
    clip = read(write(tmp_path / "clip.mp4", 30), 2)
    assert describe(clip) == {
        "name": "clip.mp4",
        "seconds": 3.0,
        "fps": 10.0,
        "width": 64,
        "height": 48,
        "frames": 2,
        "timestamps": [0.75, 2.25],
        "reader": "decord" if HAS_DECORD else "PyAV",
    }


def test_the_format_is_told_by_content_not_by_name(tmp_path):
    path = write(tmp_path / "clip.webm", 3, codec="libvpx")
    renamed = path.rename(tmp_path / "clip.m3u8")
    assert inspect(renamed)[1].demuxer == "matroska"
    assert numbers(read(renamed, 1).frames) == [1]
