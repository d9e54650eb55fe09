"""The training code against the stock model and processor: same pixels, same prompt, same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoProcessor
from transformers.video_utils import VideoMetadata

from lvspec_core.shapes import recipes, samples, teacher, train
from lvspec_core.shapes.architectures import SIDE
from lvspec_core.shapes.batched import caption_logits, sequence, video_features
from lvspec_core.shapes.data import BatchMaker
from lvspec_core.shapes.evaluate import facts_right, greedy_captions
from lvspec_core.shapes.models import ARCHITECTURES, LLAVA, QWEN
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import ATTRIBUTES, Scene, Thing, sample_scene
from lvspec_core.shapes.tiles import TileReader, tile_truth
from lvspec_core.video import read_video


@pytest.fixture(scope="module", params=ARCHITECTURES)
def maker(request):
    torch.manual_seed(0)
    architecture = ARCHITECTURES[request.param]
    model = architecture.model(architecture.build_config(layers=2, vision_layers=2, vision_hidden=64)).eval()
    return BatchMaker(architecture.build_processor(), model), model


def _processed(maker, frames, question, seconds):
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
    text = maker.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    count = len(frames)
    metadata = VideoMetadata(total_num_frames=count, fps=count / seconds, duration=seconds, frames_indices=list(range(count)))
    return maker.processor(text=[text], videos=[frames], video_metadata=[metadata], do_sample_frames=False, return_tensors="pt")


def _pixels(inputs) -> dict:
    return {name: inputs[name] for name in ("pixel_values_videos", "video_grid_thw") if name in inputs}


def test_the_prompt_equals_the_processors(maker):
    maker, model = maker
    frames = render(sample_scene(np.random.default_rng(0)), np.linspace(0, 1, 8))
    inputs = _processed(maker, frames, "Describe this video.", 5.0)
    prompt = maker.prompt("Describe this video.", 8, 5.0)
    assert torch.equal(prompt.input_ids, inputs["input_ids"][0])
    where = (prompt.input_ids == maker.processor.video_token_id).nonzero().flatten()
    assert int(where[0]) == prompt.video.start
    assert prompt.video.stop - prompt.video.start == np.prod(maker.architecture.grid(8))
    if maker.architecture is LLAVA:
        assert torch.equal(prompt.position_ids, torch.arange(len(prompt.input_ids))[None])
        assert int(where[-1]) == prompt.video.stop, "the newline"
        return
    assert int(where[-1]) == prompt.video.stop - 1
    positions, _ = model.model.get_rope_index(
        inputs["input_ids"],
        inputs["mm_token_type_ids"],
        video_grid_thw=inputs["video_grid_thw"],
        second_per_grid_ts=inputs["second_per_grid_ts"],
    )
    assert torch.equal(prompt.position_ids, positions[:, 0])


def test_the_batched_tower_equals_the_stock_one(maker):
    maker, model = maker
    frames = render(sample_scene(np.random.default_rng(0)), np.linspace(0, 1, 8))
    inputs = _processed(maker, frames, "Describe this video.", 5.0)
    with torch.inference_mode():
        ours = video_features(model, maker.patches(frames[None]))[0]
        stock = model.model.get_video_features(**_pixels(inputs), return_dict=True).pooler_output
        assert torch.allclose(ours, stock[0], atol=1e-5)


def test_the_batched_forward_equals_the_stock_one(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(1))
    with torch.inference_mode():
        features = video_features(model, maker.patches(batch.frames))
        logits = caption_logits(model, batch.prompt, features, batch.captions)
        _, positions, _ = sequence(model, batch.prompt, features, batch.captions[:, :-1])
        for row in range(2):
            ids = torch.cat([batch.prompt.input_ids, batch.captions[row, :-1]])[None]
            pixels = _pixels(_processed(maker, batch.frames[row], "Describe this video.", 5.0))
            where = maker.architecture.position_ids(positions[:, row : row + 1])
            stock = model(input_ids=ids, position_ids=where, **pixels).logits
            assert torch.allclose(stock[0, len(batch.prompt.input_ids) - 1 :], logits[row], atol=1e-4)


def test_batched_greedy_captions_equal_generate(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(2), question="Describe this video.")
    batch.patches = maker.patches(batch.frames)  # without a camera's noise, as the processor sees them
    texts = greedy_captions(model, maker, batch)
    pixels = _pixels(_processed(maker, batch.frames[1], "Describe this video.", 5.0))
    where = maker.architecture.position_ids(batch.prompt.position_ids[:, None])
    inputs = {"input_ids": batch.prompt.input_ids[None], "position_ids": where, **pixels}
    ids = model.generate(**inputs, do_sample=False, max_new_tokens=20)[0, len(batch.prompt.input_ids) :]
    expected = maker.processor.tokenizer.decode(ids, skip_special_tokens=True)
    assert texts[1].startswith(expected)


def test_deepening_changes_nothing_at_first(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(3))
    deep = train.deepen(model, maker.architecture.build_config(layers=7, vision_layers=2, vision_hidden=64)).eval()
    with torch.inference_mode():
        before = caption_logits(model, batch.prompt, video_features(model, batch.patches), batch.captions)
        after = caption_logits(deep, batch.prompt, video_features(deep, batch.patches), batch.captions)
    assert len(deep.model.language_model.layers) == 7
    assert torch.allclose(before, after, atol=1e-4)


def test_a_stage_may_run_through_the_first_layers_alone_and_leaves_the_others(tmp_path, capsys):
    stages = (recipes.Stage(1, 1, 2, 1e-3, bfloat16=False), recipes.Stage(3, 2, 2, 1e-3, through=1, bfloat16=False))
    training = train.Training("m", tmp_path, recipes.Recipe(QWEN, 1, 32, stages[:1], seed=9))
    training.run()
    deep = train.Training("m", tmp_path, recipes.Recipe(QWEN, 1, 32, stages, seed=9))
    before = deep.model.model.language_model.layers[0].mlp.up_proj.weight.detach().clone()
    deep.run()
    layers = deep.model.model.language_model.layers
    assert len(layers) == 3
    assert not torch.equal(layers[1].mlp.up_proj.weight, before)
    assert all(float(layers[place].mlp.down_proj.weight.detach().abs().max()) == 0 for place in (0, 2))


def test_a_pupil_starts_with_its_teachers_language_and_learns_its_video_tokens(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "WARM_UP", 1)
    stage = recipes.Stage(2, 30, 4, 3e-3, taught=1.0, words=False, bfloat16=False)
    training = train.Training("draft", tmp_path, recipes.Recipe(LLAVA, 1, 32, (stage,), seed=6, teacher="shapes-qwen"))
    mine, theirs = training.model.model.language_model, training.teacher.model.model.language_model
    for one, other in zip(mine.layers, theirs.layers, strict=True):
        assert all(torch.equal(weight, other.state_dict()[name]) for name, weight in one.state_dict().items())
    known, asked = (each.processor.tokenizer.get_vocab() for each in (training.teacher.maker, training.maker))
    for token in ("▁red", "<|im_end|>"):
        assert torch.equal(mine.embed_tokens.weight[asked[token]], theirs.embed_tokens.weight[known[token]])

    batch = training.maker.batch(4, np.random.default_rng(1))

    def distance():
        shown = video_features(training.model, batch.patches)[:, : batch.prompt.video.stop - batch.prompt.video.start]
        return float(training.teacher.distance(shown, batch, temporal=1).detach())

    before = distance()
    training.run()
    assert distance() < 0.9 * before


def test_a_deep_teacher_gives_the_layers_that_were_there_before_it_was_deepened(maker):
    maker, model = maker
    deep = train.deepen(model, maker.architecture.build_config(layers=9, vision_layers=2, vision_hidden=64))
    places = teacher.homes(len(model.model.language_model.layers), 9)
    for place, layer in zip(places, model.model.language_model.layers, strict=True):
        assert torch.equal(deep.model.language_model.layers[place].mlp.up_proj.weight, layer.mlp.up_proj.weight)


@pytest.mark.parametrize(("dies_at", "saved"), [(4, (0, 2)), (5, (1, 0))], ids=["within a stage", "before the model is deepened"])
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_training_goes_on_from_its_checkpoint_to_the_same_weights(tmp_path, monkeypatch, capsys, architecture, dies_at, saved):
    stages = (
        recipes.Stage(1, 4, 4, 1e-3, visual_weight=2, tiles=0.5, deep=0.5, pruned=0.5, bfloat16=False),
        recipes.Stage(2, 2, 4, 1e-3, pruned=1.0, bfloat16=False),
    )
    recipe = recipes.Recipe(architecture, 1, 32, stages, seed=9)
    monkeypatch.setattr(train, "SAVE_EVERY", 2)
    whole = train.Training("m", tmp_path / "whole", recipe)
    whole.run()

    class Killed(Exception):
        pass

    broken = train.Training("m", tmp_path / "broken", recipe)
    original, calls = broken._train_step, []

    def dies(stage):
        calls.append(1)
        if len(calls) == dies_at:
            raise Killed
        return original(stage)

    broken._train_step = dies
    with pytest.raises(Killed):
        broken.run()
    resumed = train.Training("m", tmp_path / "broken", recipe)
    assert (resumed.stage, resumed.step) == saved
    resumed.run()
    for (name, one), other in zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        assert torch.allclose(one, other, atol=1e-4), name


def test_a_written_out_model_can_be_trained_on_when_its_checkpoint_is_lost(tmp_path, monkeypatch, capsys):
    stage = recipes.Stage(1, 1, 2, 1e-3, bfloat16=False)
    recipe = recipes.Recipe(QWEN, 1, 32, (stage, stage), seed=5)
    monkeypatch.setitem(recipes.RECIPES["shapes-qwen"], "draft", recipe)
    first = train.Training("draft", tmp_path / "lost", recipe)
    first.model.save_pretrained(tmp_path / "out" / "draft")
    command = ["--model", "draft", "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    assert train.main([*command, "--adopt", "3"]) == 0  # after the last stage: as it stands
    finished = train.Training("draft", tmp_path / "work", recipe)
    assert (finished.stage, finished.step) == (2, 0)
    weights = first.model.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in finished.model.state_dict().items())
    with pytest.raises(SystemExit):
        train.main([*command, "--adopt", "2"])
    assert "holds a training of the draft already" in capsys.readouterr().err
    assert train.main([*command, "--adopt", "2", "--work", str(tmp_path / "further")]) == 0
    further = train.Training("draft", tmp_path / "further", recipe)
    assert further.stage == 2
    assert not all(torch.equal(weights[name], weight) for name, weight in further.model.state_dict().items())
    for wrong in (["--adopt", "1"], ["--adopt", "4"], ["--adopt", "2", "--model", "both"]):
        with pytest.raises(SystemExit):
            train.main([*command, *wrong])
        assert "--adopt takes" in capsys.readouterr().err


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_the_training_command_writes_a_pair_that_loads_and_a_card_with_its_figures(tmp_path, monkeypatch, capsys, architecture):
    tiny = (recipes.Stage(1, 1, 2, 1e-3, tiles=1.0, words=False), recipes.Stage(1, 1, 2, 1e-3, bfloat16=False))
    roles = {name: recipes.Recipe(architecture, 1, 32, tiny, seed) for seed, name in enumerate(("target", "draft"))}
    monkeypatch.setitem(recipes.RECIPES, architecture.pair, roles)
    monkeypatch.setattr("lvspec_core.shapes.evaluate.LONGEST", 24)
    out = tmp_path / "tiny-pair"
    command = ["--pair", architecture.pair, "--work", str(tmp_path / "work"), "--out", str(out), "--scenes", "4", "--threads", "1"]
    assert train.main(command) == 0
    card = (out / "README.md").read_text(encoding="utf-8")
    figures = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert architecture.title in card
    assert architecture.model.__name__ in card
    for role in ("target", "draft"):
        model = architecture.model.from_pretrained(out / role)
        assert sum(weight.numel() for weight in model.parameters()) == figures[role]["parameters"]
        assert f"{figures[role]['parameters']:,}" in card
        assert AutoProcessor.from_pretrained(out / role).tokenizer.decode([8]) is not None
    assert f"| **all** | {figures['target']['facts']['all']:.1%} | {figures['draft']['facts']['all']:.1%} |" in card


def test_tiles_hold_each_thing_where_its_centre_stands():
    thing = Thing("large", "red", "ring", "upper-left", "rightwards", 0.3, 0.2, 0.0)
    shares = np.array([0.0, 0.0, 1.0, 1.0])
    truth = tile_truth([Scene("white", (thing,), 4.0)], shares, temporal=2).view(2, 4, 4, 7)
    assert truth[..., 0].sum() == 2
    words = [
        ATTRIBUTES[name].index(word) for name, word in (("size", "large"), ("colour", "red"), ("shape", "ring"), ("motion", "rightwards"))
    ]
    assert truth[0, 0, 1, :5].tolist() == truth[1, 0, 2, :5].tolist() == [1, *words]
    for share, place in ((0.0, truth[0, 0, 1, 5:]), (1.0, truth[1, 0, 2, 5:])):
        x, y = thing.centre(share)
        across = 1 if share == 0 else 2
        assert place.tolist() == pytest.approx([x * 4 - across - 0.5, y * 4 - 0.5], abs=1e-6)
    assert tile_truth([Scene("white", (thing,), 4.0)], shares, temporal=1).shape == (1, 4 * 16, 7)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_a_glance_shows_a_scene_at_the_moment_that_it_is_given_with(architecture):
    model = architecture.model(architecture.build_config(1, 1, 32))
    maker = BatchMaker(architecture.build_processor(), model)
    patches, seen = maker.glances(3, np.random.default_rng(4))
    assert len({scene for scene, _ in seen}) == 3
    for row, (scene, moments) in zip(patches, seen, strict=True):
        assert len(moments) == architecture.temporal
        assert 0 <= moments[0] <= moments[-1] <= 1
        clean = maker.patches(render(scene, moments, SIDE)[None])[0]
        assert (row - clean).abs().mean() < 0.1, "but for a camera's noise"


def test_glances_train_the_tower_and_nothing_behind_it(tmp_path, capsys):
    stage = recipes.Stage(1, 2, 2, 1e-3, tiles=1.0, glances=3, words=False, bfloat16=False)
    training = train.Training("m", tmp_path, recipes.Recipe(LLAVA, 1, 32, (stage,), seed=9))
    loss = training._glances_loss(stage, np.random.default_rng(2))
    loss.backward()
    graded = {name for name, weight in training.model.named_parameters() if weight.grad is not None and weight.grad.abs().max() > 0}
    assert any("vision_tower.encoder" in name for name in graded)
    assert not any("language_model" in name for name in graded)
    training.run()
    assert training.stage == 1


def test_a_stage_may_show_crowded_scenes_and_stress_some_words(tmp_path, monkeypatch, capsys):
    def trained(folder, stress, **changes):
        monkeypatch.setattr(train, "STRESS", stress)
        stage = recipes.Stage(1, 1, 4, 1e-3, bfloat16=False, counts=(3,), **changes)
        training = train.Training("m", tmp_path / folder, recipes.Recipe(QWEN, 1, 32, (stage,), seed=9))
        drawn, batch = [], training.maker.batch
        training.maker.batch = lambda *given, **named: drawn.append(batch(*given, **named)) or drawn[-1]
        training.run()
        assert {len(scene.things) for scene in drawn[0].scenes} == {3}
        return training.model.lm_head.weight.detach()

    plain = trained("plain", 3.0)
    assert torch.equal(plain, trained("once", 1.0, stressed=("shape",)))
    assert not torch.equal(plain, trained("thrice", 3.0, stressed=("shape",)))


def test_a_reader_learns_what_its_tokens_hold_and_only_what_it_is_asked():
    torch.manual_seed(0)
    scenes = [sample_scene(np.random.default_rng(number)) for number in range(8)]
    truth = tile_truth(scenes, np.linspace(0, 1, 4), temporal=1)
    states = torch.cat([truth, torch.nn.functional.one_hot(truth[..., 1:5].long(), 8).flatten(-2)], dim=-1).float()
    reader = TileReader(states.shape[-1], read=("size", "colour"))
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.1)
    first = reader.loss(states, truth).item()
    for _ in range(60):
        optimizer.zero_grad()
        loss = reader.loss(states, truth)
        loss.backward()
        optimizer.step()
    assert loss.item() < first / 10
    assert reader.linear.out_features == 1 + len(ATTRIBUTES["size"]) + len(ATTRIBUTES["colour"]) + 2


ASSETS = Path(__file__).resolve().parents[2] / "assets"


# the goal is 97 % of all facts and 93 % of every attribute; what falls short of it: shapes, of which LLaVA-OneVision's tower sees every
# frame alone
REACHED = {"shapes-qwen": {"all": 0.97}, "shapes-llava": {"all": 0.97, "shape": 0.92}}


@pytest.mark.parametrize("pair", REACHED)
def test_a_bundled_pairs_card_states_what_was_measured_and_it_reaches_what_is_told(pair):
    figures = json.loads((ASSETS / pair / "metrics.json").read_text(encoding="utf-8"))
    card = (ASSETS / pair / "README.md").read_text(encoding="utf-8")
    target, draft = figures["target"]["facts"], figures["draft"]["facts"]
    assert figures["scenes"] == 500
    for name, share in target.items():
        label = "**all**" if name == "all" else name
        assert f"| {label} | {share:.1%} | {draft[name]:.1%} |" in card
        assert share >= REACHED[pair].get(name, 0.93), name
    assert 0.75 <= draft["all"] <= 0.92


@pytest.mark.parametrize("pair", REACHED)
def test_a_bundled_pair_is_calibrated_on_its_worlds_truth(pair):
    measured = json.loads((ASSETS / pair / "pair.json").read_text(encoding="utf-8"))["measured"]
    chosen = next(row for row in measured["scorers"] if row["chosen"])
    assert measured["truth"] == "the shapes world"
    assert chosen["auc"] >= 0.97
    assert chosen["precision_at_recall_90"] >= 0.9


def test_no_bundled_file_is_too_large_for_a_spaces_git():
    assert max(path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()) < 10_000_000


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [QWEN, LLAVA], ids=["shapes-qwen", "shapes-llava"])
def test_a_shipped_target_states_the_facts_of_scenes_it_never_saw(architecture):
    model = architecture.model.from_pretrained(ASSETS / architecture.pair / "target", dtype=torch.float32).eval()
    shares = facts_right(model, BatchMaker(architecture.build_processor(), model), scenes=30)
    assert shares["all"] >= 0.95


def test_the_samples_are_what_their_captions_say():
    entries = json.loads((ASSETS / "samples" / "samples.json").read_text(encoding="utf-8"))
    scenes = [entry for entry in entries if entry["facts"]]
    assert {len(entry["facts"]["shape"]) for entry in scenes} == {1, 2, 3}
    assert any(set(entry["facts"]["motion"]) == {"still"} for entry in scenes)
    assert any("still" not in entry["facts"]["motion"] for entry in scenes)
    assert len(entries) >= 8
    assert len(scenes) < len(entries)
    for entry in entries:
        clip = read_video(ASSETS / "samples" / entry["file"], frames=2)
        assert clip.seconds >= 1.5


def test_samples_are_written_again_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "WANTED", samples.WANTED[:1])
    monkeypatch.setattr(samples, "SIDE", 64)
    monkeypatch.setattr(samples, "sea_at_dusk", lambda: np.zeros((4, 36, 64, 3), np.uint8))
    entries = samples.write_samples(tmp_path)
    shipped = json.loads((ASSETS / "samples" / "samples.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "samples.json").read_text(encoding="utf-8")) == [shipped[0], shipped[-1]]
    assert read_video(tmp_path / entries[0]["file"], frames=1).width == 64


def test_the_painted_sea_moves():
    frames = samples.sea_at_dusk(seconds=0.25, width=96, height=54)
    assert frames.shape == (6, 54, 96, 3)
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 1
