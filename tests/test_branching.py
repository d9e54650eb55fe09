"""Tokens that branch in one cache: each path reads as if it stood there alone."""

from __future__ import annotations

import pytest
import torch

from lvspec_core.families.cache import KVCache
from lvspec_core.relevance import AttentionShare
from lvspec_core.trees import Tree

TREE = Tree((-1, 0, -1, 1, 0, 2))
IDS = [40, 41, 42, 43, 44, 45]


@pytest.fixture(params=[None, [0, 3, 10, 17, 31]], ids=["all video tokens", "pruned"])
def stream(request, random_pair, make_clip):
    with torch.inference_mode():
        model = random_pair.target
        prompt = model.encode(make_clip(), "Describe the video.")
        stream = model.prefill(prompt, model.video_features(prompt), len(prompt.tail) + 40, request.param)
        stream.append(prompt.tail)
        return stream


@torch.inference_mode()
def test_every_path_of_a_tree_reads_as_it_would_alone(stream):
    pending = 30
    alone = {path: stream.fork().append(torch.tensor([pending, *(IDS[node] for node in path)]))[0] for path in TREE.paths}
    read = stream.append(torch.tensor([pending, *IDS]), sees=TREE.sees)[0]
    for path, expected in alone.items():
        torch.testing.assert_close(read[[0, *(node + 1 for node in path)]], expected, rtol=1e-4, atol=2e-5)


@torch.inference_mode()
def test_what_is_kept_of_a_tree_is_as_if_only_that_path_had_been_read(stream):
    start = stream.length
    for path in (*TREE.paths, (0,), (0, 1), ()):
        alone, branched = stream.fork(), stream.fork()
        alone.append(torch.tensor([30, *(IDS[node] for node in path)]))
        branched.append(torch.tensor([30, *IDS]), sees=TREE.sees)
        branched.keep(start + 1, path)
        assert branched.length == alone.length
        following = torch.tensor([50, 51])
        torch.testing.assert_close(branched.append(following), alone.append(following), rtol=1e-4, atol=2e-5)


@torch.inference_mode()
def test_a_tree_may_be_read_level_by_level(stream):
    """As a draft does: the second level looks back at rows of the first that are in the cache already."""
    tree = Tree((-1, -1, -1, 2, 0))
    at_once = stream.fork().append(torch.tensor([30, *IDS[:5]]), sees=tree.sees)[0]
    stream.append(torch.tensor([30]))
    first = stream.append(torch.tensor(IDS[:3]), sees=torch.eye(3, dtype=torch.bool))[0]
    second = stream.append(torch.tensor(IDS[3:5]), sees=tree.sees[4:, 1:])[0]
    torch.testing.assert_close(torch.cat([first, second]), at_once[1:], rtol=1e-4, atol=2e-5)


@torch.inference_mode()
def test_attention_can_be_watched_in_a_tree(stream):
    expected = []
    for path in TREE.paths:
        watch = AttentionShare(2, stream.video)
        stream.fork().append(torch.tensor([30, *(IDS[node] for node in path)]), watch)
        expected.append(watch.take()[0])
    watch = AttentionShare(2, stream.video)
    stream.append(torch.tensor([30, *IDS]), watch, TREE.sees)
    (shares,) = watch.take()
    for path, alone in zip(TREE.paths, expected, strict=True):
        torch.testing.assert_close(shares[[0, *(node + 1 for node in path)]], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("start", "rows"), [(3, [2]), (5, [0]), (-1, []), (2, [0, 3]), (6, [])])
def test_rows_that_are_not_there_cannot_be_kept(start, rows):
    cache = KVCache(1, 1, 8, 2, torch.float32, torch.device("cpu"))
    cache.length = 5
    with pytest.raises(IndexError, match="cannot keep rows"):
        cache.keep(start, rows)
    assert cache.length == 5


def test_kept_rows_move_together_and_nothing_before_them_changes():
    cache = KVCache(2, 1, 8, 1, torch.float32, torch.device("cpu"))
    cache.stores[0][:] = torch.arange(8.0).view(1, 1, 1, 8, 1)
    cache.length = 8
    cache.keep(2, [1, 2, 5])
    assert cache.length == 5
    assert all(cache.stores[0][part, 0, 0, :5, 0].tolist() == [0, 1, 3, 4, 7] for part in range(4))
    cache.keep(1, range(2))
    assert cache.length == 3
