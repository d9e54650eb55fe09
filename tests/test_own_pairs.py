"""A pair of one's own: how it is named, how it reaches the models, and who may name one."""

from __future__ import annotations

import json
import pickle
import threading
from types import SimpleNamespace

import gradio as gr
import pytest
from fake_race import recorded

import lvspec_core.__main__ as cli
import page_pairs
import races
from lvspec_core import bench, calibrate
from lvspec_core.errors import PairError, SettingsError
from lvspec_core.links import read_link
from lvspec_core.own_pairs import calibrations, own_pair, source_of
from lvspec_core.pair_options import not_registered
from lvspec_core.registry import PAIRS, PairInfo, pair_info
from lvspec_core.settings import METHODS, RaceSettings

TARGET, DRAFT = "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """Nothing of these tests stays in the user's cache or on the page."""
    monkeypatch.setenv("LVSPEC_PAIRS_FOLDER", str(tmp_path))
    monkeypatch.setattr(page_pairs, "OWN", {})
    monkeypatch.setattr(races, "OWN", page_pairs.OWN)


def test_the_same_models_always_have_the_same_name_and_calibration(tmp_path):
    one, again = own_pair(TARGET, DRAFT), own_pair(f" {TARGET} ", DRAFT)
    assert one == again
    assert one.calibration.parent.parent == tmp_path
    others = [own_pair(DRAFT, TARGET), own_pair(TARGET), own_pair(TARGET, DRAFT, "abc"), own_pair(TARGET, DRAFT, "", "abc")]
    assert len({each.name for each in (one, *others)} | {one.folder}) == 6
    assert own_pair(TARGET, DRAFT, quantise="4bit").folder == one.folder, "the same models"


def test_without_a_draft_the_target_drafts_for_itself():
    info = own_pair(TARGET, target_revision="abc")
    assert info.alone
    assert (info.draft, info.draft_revision) == (TARGET, "abc")
    assert info.title == "Qwen2.5-VL-7B-Instruct with itself"


def test_a_folder_is_a_source_wherever_one_stands(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert source_of("mine", "target") == source_of(str(tmp_path / "mine"), "target") == str((tmp_path / "mine").resolve())


@pytest.mark.parametrize(
    "text", ["", "  ", "a/b/c", "https://huggingface.co/a/b", "../up", "-flag", "a b", "x" * 500, "a/b\nc", "\0", "~/nowhere"]
)
def test_what_is_neither_a_folder_nor_a_hub_name_is_refused(text):
    with pytest.raises(PairError, match=r"neither a folder here nor a hub name|Name the target"):
        own_pair(text, DRAFT)


def test_calibrations_lie_in_the_users_cache_unless_a_folder_is_named(monkeypatch, tmp_path):
    assert calibrations() == tmp_path
    monkeypatch.delenv("LVSPEC_PAIRS_FOLDER")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert calibrations() == tmp_path / "cache" / "lvspec-race" / "pairs"


def test_it_is_plain_data():
    info = own_pair(TARGET, DRAFT, quantise="8bit", spread=True)
    assert pickle.loads(pickle.dumps(info)) == info
    assert all(isinstance(value, (str, bool, int, type(None))) for value in vars(info).values())


# ------------------------------------------------------------------ the command line


@pytest.fixture
def raced(monkeypatch, capsys):
    """The command line with a worker that remembers its settings and its pair."""
    seen = SimpleNamespace(settings=None, pair=None)

    class Worker:
        def race(self, path, settings, stop, pair=None):
            seen.settings, seen.pair = settings, pair
            yield recorded()

    monkeypatch.setattr(cli, "get_worker", Worker)

    def run(*arguments):
        seen.status = cli.main(["race", "clip.mp4", "--json", *arguments])
        seen.err = capsys.readouterr().err
        return seen

    return run


def test_a_registered_pair_is_told_by_its_name_alone(raced):
    seen = raced("--pair", "qwen2.5-vl-7b")
    assert (seen.status, seen.settings.pair, seen.pair) == (0, "qwen2.5-vl-7b", None)
    assert raced().settings.pair == RaceSettings.pair


def test_target_draft_and_how_they_are_loaded_reach_the_race(raced):
    seen = raced(
        "--target", TARGET, "--draft", DRAFT, "--revision", "abc", "--draft-revision", "def", "--quantise", "4bit", "--device-map", "auto"
    )
    assert seen.pair == own_pair(TARGET, DRAFT, "abc", "def", quantise="4bit", spread=True)
    assert seen.settings.pair == seen.pair.name
    assert raced("--target", TARGET).pair == own_pair(TARGET)


def test_a_registered_pair_loaded_in_another_way_crosses_as_data(raced):
    seen = raced("--pair", "qwen2.5-vl-32b", "--quantise", "8bit")
    assert seen.settings.pair == "qwen2.5-vl-32b"
    assert (seen.pair.quantise, seen.pair.target) == ("8bit", pair_info("qwen2.5-vl-32b").target)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pair", "qwen2.5-vl-7b", "--target", TARGET), "either --pair, or --target"),
        (("--draft", DRAFT), "name the target too"),
        (("--revision", "abc"), "name the target too"),
        (("--pair", "nope"), "Unknown pair 'nope'; choose among shapes-qwen"),
        (("--target", "no such/thing"), "neither a folder here nor a hub name"),
        (("--quantise", "4bit"), "small enough as it is"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_contradictions_are_one_sentence(raced, arguments, words):
    seen = raced(*arguments)
    assert seen.status == 2
    assert words in seen.err


@pytest.mark.parametrize("tool", [bench, calibrate])
def test_the_tools_take_any_pair_too(tool, monkeypatch):
    def load(info, settings):
        raise PairError(f"asked for {info.target} and {info.draft} in {info.quantise}")

    monkeypatch.setattr(tool, "load_pair", load)
    with pytest.raises(PairError, match=f"asked for {TARGET} and {DRAFT} in 8bit"):
        tool.main(["--target", TARGET, "--draft", DRAFT, "--quantise", "8bit"])


def test_not_registered_is_what_the_name_does_not_tell():
    assert not_registered(pair_info("shapes-qwen")) is None
    assert not_registered(own_pair(TARGET)) == own_pair(TARGET)


# ------------------------------------------------------------------ the page


def test_a_typed_pair_can_be_chosen_and_is_raced(monkeypatch):
    chosen = page_pairs.use_own_pair(TARGET, DRAFT, "", False)
    info = own_pair(TARGET, DRAFT)
    assert chosen.value == info.name
    assert (info.title, info.name) in chosen.choices
    seen = []

    class Worker:
        def race(self, path, settings, stop, pair=None):
            seen.append((settings.pair, pair))
            yield recorded()

    monkeypatch.setattr(races, "get_worker", Worker)
    knobs = [getattr(races.DEFAULTS, name) for name in races.KNOBS]
    visitor = SimpleNamespace(session_hash="visitor")
    list(races.race_on_page(visitor, "clip.mp4", info.name, "What?", list(METHODS), True, 0.5, *knobs))
    assert seen == [(info.name, info)]
    list(races.race_stream("clip.mp4", RaceSettings(), threading.Event()))
    assert seen[1] == (RaceSettings.pair, None)


def test_the_same_models_loaded_in_another_way_are_another_choice():
    names = [page_pairs.add_own_pair(TARGET, DRAFT, *how).name for how in (("", False), ("4bit", False), ("", True), ("8bit", True))]
    assert len(set(names)) == len(page_pairs.OWN) == 4


def test_a_mistyped_pair_is_a_notice_and_changes_nothing(monkeypatch):
    notices = []
    monkeypatch.setattr(gr, "Warning", notices.append)
    assert page_pairs.use_own_pair("<b>", "", "", False) == gr.skip()
    assert notices == ["The target &#x27;&lt;b&gt;&#x27; is neither a folder here nor a hub name such as Qwen/Qwen2.5-VL-7B-Instruct."]
    assert page_pairs.OWN == {}


def test_a_spaces_visitors_choose_among_the_registrys_pairs(monkeypatch):
    monkeypatch.setattr(page_pairs, "LOCAL", False)
    with pytest.raises(PairError, match="On a Space only the listed pairs can race"):
        page_pairs.add_own_pair(TARGET, DRAFT)
    assert page_pairs.OWN == {}


def test_the_page_tells_what_a_pair_takes_at_its_settings():
    few, many = (page_pairs.pair_notice("qwen2.5-vl-7b", frames, METHODS) for frames in (8, 128))
    assert few != many
    assert "at 8 frames and 4 lanes" in few
    assert "at 8 frames and 1 lane," in page_pairs.pair_notice("qwen2.5-vl-7b", 8, ["ar"])
    assert page_pairs.pair_notice("shapes-qwen", 8, METHODS) == PAIRS["shapes-qwen"].notice
    assert "about 25 GB" in page_pairs.pair_notice(page_pairs.add_own_pair(TARGET, DRAFT).name, 8, METHODS), "these are known"
    assert "reckoned from its configurations" in page_pairs.pair_notice(page_pairs.add_own_pair("a/b", "a/c").name, 8, METHODS)


@pytest.mark.parametrize("name", [own_pair(TARGET, DRAFT).name, f"{TARGET}", f"{TARGET} {DRAFT}", "own-0123456789"])
def test_neither_a_link_nor_a_program_can_make_the_page_load_other_models(name):
    link = read_link({"pair": name}, ("pair",), ())
    assert link.settings == {}
    assert "pair" in link.complaint
    with pytest.raises(PairError, match="Unknown pair"):
        races.settings_of(name, "What?", list(METHODS), True, 0.5, *[getattr(races.DEFAULTS, knob) for knob in races.KNOBS])
    with pytest.raises(gr.Error, match="Unknown pair"):
        next(races.api_race("clip.mp4", settings={"pair": name}))
    for field in ("target", "draft", "own", "info"):
        with pytest.raises(SettingsError, match="Unknown setting"):
            RaceSettings.from_dict({field: TARGET})


def test_no_field_of_a_settings_object_can_hold_a_pair():
    assert not any(isinstance(value, PairInfo) for value in vars(RaceSettings()).values())
    assert json.dumps(RaceSettings().to_dict())
