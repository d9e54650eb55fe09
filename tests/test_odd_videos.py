"""Files that are no usual video and yet play: joined ones, animations, frames that change their size, names that look like patterns."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from video_clips import brightness, numbers, picture, write

from lvspec_core.errors import VideoError
from lvspec_core.video.reading import READERS, read_here
from lvspec_core.video.sampling import Timeline

SIZE = (64, 48)
PIXELS = 448 * 448


def read(path, frames=6, readers=READERS):
    return read_here(path, frames, PIXELS, readers)


# clocks that are set anew --------------------------------------------------------------------------------------------


def pieces(folder, name, starts, **how):
    """Two clips of 15 numbered frames each, 0 to 29, joined as bytes; ``starts``: seconds at which their clocks begin."""
    joined = b""
    for part, start in enumerate(starts):
        frames = [picture(15 * part + k, *SIZE) for k in range(15)]
        times = [start + k / 10 for k in range(15)]
        joined += write(folder / f"{part}-{name}", frames, times=times, **how).read_bytes()
    (folder / name).write_bytes(joined)
    return folder / name


@pytest.mark.parametrize(
    ("name", "starts", "how"),
    [
        ("again.ts", (0, 0), {"container": "mpegts"}),
        ("again.webm", (0, 0), {"codec": "libvpx"}),
        ("earlier.ts", (100, 0), {"container": "mpegts"}),
        ("later.ts", (0, 100), {"container": "mpegts"}),
        ("branching.ts", (0, 0), {"container": "mpegts", "options": {"bf": "2", "g": "5"}}),
    ],
)
def test_joined_files_play_one_after_the_other(tmp_path, name, starts, how):
    clip = read(pieces(tmp_path, name, starts, **how))
    assert clip.seconds == pytest.approx(3, abs=0.11)
    np.testing.assert_allclose(numbers(clip.frames), [2, 7, 12, 17, 22, 27], atol=1)


def test_joined_program_streams_play_one_after_the_other(tmp_path):
    joined = b""
    for part in range(2):
        frames = [picture(15 * part + k, *SIZE) for k in range(15)]
        joined += write(tmp_path / f"{part}.mpg", frames, codec="mpeg2video", container="mpeg", fps=25, options={"g": "5"}).read_bytes()
    (tmp_path / "joined.mpg").write_bytes(joined)
    clip = read(tmp_path / "joined.mpg")
    assert clip.seconds == pytest.approx(30 / 25, rel=0.05)
    np.testing.assert_allclose(numbers(clip.frames), [2, 7, 12, 17, 22, 27], atol=1)


@pytest.mark.parametrize("name", ["slides.mp4", "slides.mkv", "slides.flv", "slides.ts"])
def test_a_picture_that_stays_for_long_is_no_leap_of_the_clock(tmp_path, name):
    clip = read(write(tmp_path / name, 4, times=[0, 30, 60, 90], container="mpegts" if name.endswith("ts") else None), 3)
    assert 90 < clip.seconds <= 120
    assert numbers(clip.frames) == [int((time + 1e-3) // 30) for time in clip.timestamps]


def test_the_last_frames_stay_is_not_read_off_the_order_of_decoding(tmp_path):
    """In MP4 a packet lasts until the next one that is decoded, which with B-frames is not the next one that is shown."""
    times = [0, 0.04, 0.08, 0.12, 0.16, 3, 3.04, 3.08, 10, 10.1, 10.2, 10.3, 20, 30, 30.5, 31]
    clip = read(write(tmp_path / "clip.mp4", len(times), times=times, options={"bf": "3"}), 4)
    assert 31 < clip.seconds < 32


def test_a_cut_into_an_open_group_of_pictures_is_sampled_from_its_first_frame_on(tmp_path):
    """Pictures that refer to what was cut off cannot be decoded: they are no part of the clip, and move nothing."""
    options = {"x264-params": "open-gop=1:keyint=10:min-keyint=10:bframes=3:b-adapt=0:scenecut=0"}
    whole = write(tmp_path / "whole.mkv", 40, options=options)
    with av.open(str(whole)) as file, av.open(str(tmp_path / "cut.mkv"), "w") as out:
        stream = out.add_stream_from_template(file.streams.video[0])
        keys = 0
        for packet in file.demux(video=0):
            keys += packet.is_keyframe
            if packet.size and keys >= 3:
                packet.stream = stream
                out.mux(packet)
    first = next(frame for frame in av.open(str(tmp_path / "cut.mkv")).decode(video=0))
    start = round((first.to_ndarray(format="rgb24").mean() - 40) / 4)
    clip = read(tmp_path / "cut.mkv", 5)
    expected = [start + int(time * 10 + 1e-3) for time in clip.timestamps]
    np.testing.assert_allclose(numbers(clip.frames), expected, atol=0.6)
    assert clip.seconds == pytest.approx((40 - start) / 10, abs=0.01)


def test_nonsense_for_a_unit_of_time_is_no_length(tmp_path):
    path = write(tmp_path / "clip.mp4", 30)
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b"mdhd") + 16
    damaged[at : at + 4] = b"\x7f\xff\xff\xff"
    path.write_bytes(damaged)
    clip = read(path)
    np.testing.assert_allclose(numbers(clip.frames), [2, 7, 12, 17, 22, 27], atol=1)
    assert clip.seconds > 0.1


def test_an_edit_list_that_leaves_nothing_is_no_reason_to_show_nothing(tmp_path):
    path = write(tmp_path / "clip.mp4", 30)
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b"elst") + 12
    damaged[at : at + 4] = bytes(4)
    at = damaged.index(b"mvhd") + 20
    damaged[at : at + 4] = bytes(4)
    path.write_bytes(damaged)
    np.testing.assert_allclose(numbers(read(path).frames), [2, 7, 12, 17, 22, 27], atol=1)


def test_a_program_stream_of_few_frames_is_read(tmp_path):
    path = write(tmp_path / "slides.mpg", 10, codec="mpeg2video", container="mpeg", fps=25, times=[15.0 * k for k in range(10)])
    assert len(read(path).frames) == 6
    assert len(Timeline.from_starts(np.arange(3), np.zeros(1)).cut(0).starts) == 1


# frames of another size ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["call.webm", "call.mkv", "call.mp4", "call.ts"])
def test_frames_of_another_size_keep_their_shape(tmp_path, name):
    """64 × 48, then 32 × 64, as where somebody turns a phone in a call: the second stands in the middle, as high as the first."""
    codec = "libvpx" if name.endswith("webm") else "libx264"
    with av.open(str(tmp_path / name), "w", format="mpegts" if name.endswith("ts") else None) as out:
        stream = out.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for first, (width, height) in ((0, SIZE), (10, (32, 64))):
            encoder = av.CodecContext.create(codec, "w")
            encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = width, height, "yuv420p", Fraction(1, 10)
            encoder.options = {"bf": "0", "g": "5"} if codec == "libx264" else {}
            pictures = [av.VideoFrame.from_ndarray(np.full((height, width, 3), 200, np.uint8), format="rgb24") for _ in range(10)]
            for k, frame in enumerate([*pictures, None]):
                if frame is not None:
                    frame.pts, frame.time_base = first + k, Fraction(1, 10)
                for packet in encoder.encode(frame):
                    packet.stream = stream
                    out.mux(packet)
    clip = read(tmp_path / name, 4)
    assert (clip.width, clip.height) == SIZE
    for frame, wide in zip(clip.frames, (64, 64, 24, 24), strict=True):
        assert ((frame.mean(axis=(0, 2)) > 100).sum(), (frame[:, 32].mean(axis=1) > 100).sum()) == (wide, 48)


# damage in the middle ------------------------------------------------------------------------------------------------


def test_what_is_missing_in_the_middle_does_not_shorten_the_clip(tmp_path):
    """One key frame, and every third packet zeros: what can be decoded is shown in its time, at every count of frames."""
    path = write(tmp_path / "clip.mp4", 50, codec="mpeg4", options={"g": "600"})
    with av.open(str(path)) as file:
        spots = [(packet.pos, packet.size) for packet in file.demux(video=0) if packet.size]
    rotten = bytearray(path.read_bytes())
    for position, size in spots[10::3]:
        rotten[position : position + size] = bytes(size)
    path.write_bytes(rotten)
    for frames in (4, 8, 16):
        assert read(path, frames).seconds == pytest.approx(5, abs=0.3)


# names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x%d.png", "x%01d.jpg", "x*.png", "x[0-9].png"])
def test_a_name_that_looks_like_a_pattern_opens_no_other_file(tmp_path, name):
    """FFmpeg takes such a name for that of a row of pictures: the video's own frames must come, not its neighbours'."""
    for k in range(10):
        for kind in ("png", "jpg"):
            Image.fromarray(picture(50, *SIZE)).save(tmp_path / f"x{k}.{kind}")
    write(tmp_path / "clip.mp4", 10, fps=25).rename(tmp_path / name)
    assert numbers(read(tmp_path / name, 5).frames) == [1, 3, 5, 7, 9]


# pictures ------------------------------------------------------------------------------------------------------------


def shots(count: int) -> list[Image.Image]:
    return [Image.fromarray(picture(k, *SIZE)) for k in range(count)]


@pytest.mark.parametrize("kind", ["webp", "avif"])
def test_an_animation_is_sampled_by_time(tmp_path, kind):
    first, *rest = shots(5)
    lossless = {"lossless": True} if kind == "webp" else {}  # lossy, it leaves out pictures that differ little
    try:
        first.save(tmp_path / f"a.{kind}", save_all=True, append_images=rest, duration=[100, 100, 1000, 100, 200], **lossless)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow writes no {kind}")
    clip = read(tmp_path / f"a.{kind}", 5)
    assert clip.seconds == pytest.approx(1.5)
    assert (clip.frame_count, clip.reader) == (5, "Pillow")
    np.testing.assert_allclose(numbers(clip.frames), [1, 2, 2, 2, 4], atol=1)


def test_an_animations_hasty_pictures_stay_as_long_as_browsers_let_them(tmp_path):
    first, *rest = shots(5)
    first.save(tmp_path / "a.webp", save_all=True, append_images=rest, duration=0, lossless=True)
    assert read(tmp_path / "a.webp").seconds == pytest.approx(0.5)


def test_pages_are_no_animation(tmp_path):
    first, *rest = shots(3)
    first.save(tmp_path / "pages.tif", save_all=True, append_images=rest)
    assert numbers(read(tmp_path / "pages.tif", 3).frames) == [0, 0, 0]


def test_a_moving_png_with_much_to_say_before_its_pictures_moves(tmp_path):
    words = PngImagePlugin.PngInfo()
    words.add_text("Comment", "x" * 9000)
    first, *rest = shots(6)
    first.save(tmp_path / "a.png", save_all=True, append_images=rest, duration=100, pnginfo=words)
    assert numbers(read(tmp_path / "a.png", 3).frames) == [1, 3, 5]


def test_a_cut_animation_gets_a_sentence(tmp_path):
    first, *rest = shots(5)
    first.save(tmp_path / "a.webp", save_all=True, append_images=rest, duration=100)
    (tmp_path / "a.webp").write_bytes((tmp_path / "a.webp").read_bytes()[:60])
    with pytest.raises(VideoError, match="cannot be read"):
        read(tmp_path / "a.webp")


@pytest.mark.parametrize(("name", "kind", "scale"), [("g.png", "uint16", 257), ("g.tif", "uint16", 257), ("f.tif", "float32", 1 / 255)])
def test_greys_of_more_than_eight_bits_keep_their_brightness(tmp_path, name, kind, scale):
    grey = np.tile(np.linspace(0, 255, 64), (48, 1))
    Image.fromarray((grey * scale).astype(kind)).save(tmp_path / name)
    np.testing.assert_allclose(read(tmp_path / name, 1).frames[0, :, :, 0], grey, atol=1.5)


def test_what_can_be_seen_through_stands_on_white(tmp_path):
    seen = np.zeros((48, 64, 4), np.uint8)
    seen[:, :32] = (*(brightness(3),) * 3, 255)
    Image.fromarray(seen).save(tmp_path / "logo.png")
    frame = read(tmp_path / "logo.png", 1).frames[0]
    assert (frame[:, :32] == brightness(3)).all()
    assert (frame[:, 32:] == 255).all()
