"""Cached = uncached: whatever the chunks, whatever each item's length."""

import pytest
import torch

from qkv import MultiHeadAttention, masks
from qkv.attention import KVCache, WindowCache

B, N, WIDTH = 3, 13, 24


def attention(position, window=None):
    kind = {"none": None}.get(position, position)
    mha = MultiHeadAttention(WIDTH, 6, 2, position=kind, window=window, qk_norm="rms").double().eval()
    for p in mha.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return mha


def room(window, static=False):
    if window is None:
        return KVCache(B, 2, N + 4, 4, dtype=torch.float64, static=static)
    return WindowCache(B, 2, window, 4, dtype=torch.float64)


POSITIONS = ["none", "rotary", "alibi", "relative"]
ROOMS = {
    "grows": (None, False),
    "static": (None, True),
    "window 0": (0, False),
    "window 4": (4, False),
    "window 40": (40, False),
}


@torch.no_grad()
@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize("chunk", [1, 3, 5, N])
@pytest.mark.parametrize("position", POSITIONS)
def test_cached_equals_uncached(position, chunk, name):
    window, static = ROOMS[name]
    mha = attention(position, window)
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    whole, weights = mha(x, mask=masks.causal(), weights=True)
    assert weights.sum(-1).allclose(torch.ones(()).double())
    cache = room(window, static)
    parts = [mha(part, mask=masks.causal(), cache=cache) for part in x.split(chunk, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize("position", POSITIONS)
def test_items_of_different_lengths(position, name):
    """Prompts of 7, 2 and 4 tokens, padded on the right, then 5 more tokens each, the first three at once."""
    window, static = ROOMS[name]
    mha = attention(position, window)
    lengths, more = [7, 2, 4], 5
    x = torch.randn(B, 7 + more, WIDTH, dtype=torch.float64)
    prompt = torch.stack(
        [torch.cat([x[b, :n], torch.full((7 - n, WIDTH), 99.0).double()]) for b, n in enumerate(lengths)]
    )
    cache = room(window, static)
    cache.expect(lengths)
    first = mha(prompt, mask=masks.causal(), cache=cache)
    rest = torch.stack([x[b, n : n + more] for b, n in enumerate(lengths)])
    later = [mha(part, mask=masks.causal(), cache=cache) for part in rest.split([3, 1, 1], 1)]
    for b, n in enumerate(lengths):
        alone = mha(x[b : b + 1, : n + more], mask=masks.causal())[0]
        torch.testing.assert_close(first[b, :n], alone[:n], atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(torch.cat(later, 1)[b], alone[n:], atol=1e-12, rtol=1e-12)


@torch.no_grad()
def test_a_window_cache_forgets():
    mha = attention("rotary", window=4)
    cache = room(4)
    for part in torch.randn(B, N, WIDTH, dtype=torch.float64).split(2, 1):
        mha(part, mask=masks.causal(), cache=cache)
        assert cache.k.shape[2] == 5


@torch.no_grad()
def test_a_static_step_is_compiled_once():
    mha = MultiHeadAttention(WIDTH, 6, 2, position="rotary").double().eval()
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    whole = mha(x, mask=masks.causal())
    cache = room(None, static=True)
    step = torch.compile(
        lambda token: mha(token, mask=masks.causal(), cache=cache), fullgraph=True, backend="aot_eager"
    )
    torch._dynamo.utils.counters.clear()
    parts = [step(token) for token in x.split(1, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=1e-12)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@torch.no_grad()
def test_cross_attention_computes_its_memory_once():
    mha = MultiHeadAttention(WIDTH, 6, memory_width=10).eval()
    memory, x = torch.randn(2, 7, 10), torch.randn(2, 4, WIDTH)
    rule = masks.padding([7, 3])
    whole = mha(x, memory, rule)
    cache = KVCache(2, 6, 7, 4)
    calls = []
    mha.k.register_forward_hook(lambda *_: calls.append(1))
    parts = [mha(token, memory, rule, cache=cache) for token in x.split(1, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)
    assert len(calls) == 1


@torch.no_grad()
def test_cross_attention_keeps_its_memory_in_a_static_cache_too():
    mha = MultiHeadAttention(WIDTH, 6, memory_width=10).eval()
    memory, x = torch.randn(2, 7, 10), torch.randn(2, 4, WIDTH)
    whole = mha(x, memory)
    cache = KVCache(2, 6, 12, 4, static=True)
    parts = [mha(token, memory, cache=cache) for token in x.split(1, 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="holds a memory of 7 tokens, not 5"):
        mha(x, memory[:, :5], cache=cache)
    with pytest.raises(ValueError, match="cross-attention needs a KVCache"):
        mha(x, memory, cache=WindowCache(2, 6, 3, 4))


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True])
def test_recorded_calls_do_not_change_when_the_cache_grows(static):
    from qkv import record

    mha = attention("rotary")
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    cache = room(None, static)
    cache.expect([5, 2, 3])
    with record() as calls:
        mha(x[:, :5], cache=cache)
    before = calls[0].weights().clone()
    mha(x[:, 5:7], cache=cache)
    torch.testing.assert_close(calls[0].weights(), before)


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True])
def test_documents_and_bool_padding_with_a_cache(static):
    mha = attention("rotary")
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    ids = torch.arange(N) // 4
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :3] = False
    for rule in (masks.causal() & masks.documents(ids), masks.causal() & masks.padding(real)):
        whole = mha(x, mask=rule)
        cache = room(None, static)
        first = masks.causal() & (masks.documents(ids) if "documents" in repr(rule) else masks.padding(real[:, :N]))
        parts = []
        for start in range(0, N, 5):
            stop = min(start + 5, N)
            now = (
                first
                if static
                else masks.causal()
                & (masks.documents(ids[:stop]) if "documents" in repr(rule) else masks.padding(real[:, :stop]))
            )
            parts.append(mha(x[:, start:stop], mask=now, cache=cache))
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-12, rtol=1e-12)


@torch.no_grad()
def test_a_cache_under_autocast():
    mha = MultiHeadAttention(WIDTH, 6, 2, position="rotary", window=4).eval()
    x = torch.randn(B, N, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        whole = mha(x, mask=masks.causal())
        for cache in (KVCache(B, 2, N, 4), KVCache(B, 2, N, 4, static=True), WindowCache(B, 2, 4, 4)):
            parts = [mha(part, mask=masks.causal(), cache=cache) for part in x.split(3, 1)]
            torch.testing.assert_close(torch.cat(parts, 1), whole, atol=0.03, rtol=0.03)


@torch.no_grad()
def test_reordered_items_continue_what_they_took_over():
    mha = attention("rotary")
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    order, lengths = torch.tensor([2, 0, 0]), [9, 4, 12]
    for window in (None, 4):
        mha = attention("rotary", window)
        for cache in (room(window), room(window, static=True)):
            cache.expect(lengths)
            mha(x[:, :-1], mask=masks.causal(), cache=cache)
            cache.reorder(order)
            last = mha(x[:, -1:], mask=masks.causal(), cache=cache)
            for b, source in enumerate(order.tolist()):
                alone = torch.cat([x[source : source + 1, : lengths[source]], x[b : b + 1, -1:]], 1)
                expected = mha(alone, mask=masks.causal())[0, -1]
                torch.testing.assert_close(last[b, 0], expected, atol=1e-12, rtol=1e-12)


@torch.no_grad()
def test_reset_starts_over():
    mha = attention("rotary")
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    for cache in (room(None), room(None, static=True), room(40)):
        cache.expect([9, 4, N])  # reset must forget that, too
        mha(x, mask=masks.causal(), cache=cache)
        cache.reset()
        first = mha(x, mask=masks.causal(), cache=cache)
        cache.reset()
        torch.testing.assert_close(mha(x, mask=masks.causal(), cache=cache), first, atol=1e-12, rtol=1e-12)


def test_a_full_cache_is_an_error():
    cache = KVCache(1, 1, 4, 2)
    k = torch.zeros(1, 1, 3, 2)
    cache.append(k, k)
    with pytest.raises(ValueError, match="room for 4 tokens and holds 3: 3 more don't fit"):
        cache.append(k, k)
    with pytest.raises(ValueError, match=r"keys are \(2, 1, 1, 2\)"):
        cache.append(torch.zeros(2, 1, 1, 2), torch.zeros(2, 1, 1, 2))
    with pytest.raises(ValueError, match=r"expects \[9\] new tokens, but the input has 1"):
        cache.expect([9])
        cache.append(k[:, :, :1], k[:, :, :1])
    static = KVCache(1, 1, 4, 2, static=True)
    static.append(k, k)
    with pytest.raises(ValueError, match="room for 4 tokens"):
        static.append(k, k)
