"""Tiles by several threads: the same numbers as by one, and nothing else in the process is changed."""

import multiprocessing
import threading

import pytest
import torch

from qkv import masks
from qkv.attention.formula import Call
from qkv.tracing.views import attention_maps, layer_scan, parallel_tiles
from qkv.tracing.views.token_labels import Tokens

N = 150


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def random_call(mask):
    rng = torch.Generator().manual_seed(1)
    q, k, v = (2 * torch.randn(1, h, N, 8, generator=rng) for h in (4, 2, 2))
    return Call(q, k, v, mask, 8**-0.5)


def both(work):
    """By two threads, then by one."""
    several = work()
    torch.set_num_threads(1)
    return several, work()


@pytest.mark.parametrize("mask", [masks.causal(), masks.full()], ids=["causal", "full"])
def test_a_layer_scan_equals_that_of_a_single_thread(mask, monkeypatch):
    monkeypatch.setattr(layer_scan, "TILE", (20, 40))
    tokens = Tokens(tuple(f" w{i}" for i in range(N)))
    links = layer_scan.LinkFilter("decoder", tokens, tokens)
    several, alone = both(lambda: layer_scan.by_tiles(random_call(mask), links, 3, 3))
    for name, numbers in vars(several).items():
        torch.testing.assert_close(numbers, getattr(alone, name), atol=1e-6, rtol=0, equal_nan=True)


@pytest.mark.parametrize("without", [(), (0, 7)], ids=["whole", "without"])
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(
    "mask", [masks.causal(), masks.full(), masks.window(9, 3)], ids=["causal", "full", "by scores"]
)
def test_a_tile_equals_that_of_a_single_thread(mask, pool, without, monkeypatch):
    monkeypatch.setattr(attention_maps, "TILE", (20, 40))
    several, alone = both(
        lambda: attention_maps.head_of(random_call(mask), 0, 1).tile(slice(3, 140), slice(0, N), 3, 2, pool, without)
    )
    torch.testing.assert_close(several, alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_callers_mode_may_change_from_call_to_call(threads, monkeypatch):
    monkeypatch.setattr(attention_maps, "TILE", (20, 40))
    torch.set_num_threads(threads)
    head, tiles = attention_maps.head_of(random_call(masks.causal()), 0, 1), []
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode):
        with mode():
            tiles.append(head.tile(slice(0, N), slice(0, N), 3, 3))
    assert all(torch.equal(tile, tiles[0]) for tile in tiles)


def test_a_pooled_map_equals_that_of_a_single_thread(monkeypatch):
    monkeypatch.setattr(attention_maps, "TILE", (20, 40))
    monkeypatch.setattr(attention_maps, "LARGE", 0)
    several, alone = both(lambda: attention_maps.head_of(random_call(masks.causal()), 0, 1).pooled(11))
    torch.testing.assert_close(several, alone, atol=1e-6, rtol=0)


def test_every_task_runs_once_in_single_threaded_workers():
    done, numbers, names = torch.zeros(200), set(), set()

    def work(i):
        done[i] += 1
        numbers.add(torch.get_num_threads())
        names.add(threading.current_thread().name)
        assert torch.is_inference_mode_enabled()

    parallel_tiles.run_tasks(work, range(200))
    assert bool((done == 1).all()) and numbers == {1} and threading.current_thread().name not in names
    assert torch.get_num_threads() == 2 and not torch.is_inference_mode_enabled()
    new = []
    other = threading.Thread(target=lambda: new.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert new == [2]  # a thread that begins later has all of them


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        parallel_tiles.run_tasks(lambda i: 1 / i, [3, 2, 1, 0, 1])


def _forked(pipe):
    parts = []
    parallel_tiles.run_tasks(parts.append, range(5))
    pipe.send(sorted(parts))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_fork_has_threads_of_its_own():
    parallel_tiles.run_tasks(lambda i: None, range(5))
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_forked, args=(there,))
    child.start()
    assert here.poll(30) and here.recv() == [0, 1, 2, 3, 4]
    child.join()
