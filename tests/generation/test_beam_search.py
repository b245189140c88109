"""Beam search: width 1 is the greedy choice, a width that holds everything is brute force, scores are true."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.formats.hf_export import export
from qkv.generation.beam_search import beam
from qkv.generation.decoding import generate
from tests.formats.cases import SHAPES, make, words

PROMPTS = [words(n, seed=n).tolist() for n in (5, 1, 3)]
SOURCES = [words(n, seed=10 + n).tolist() for n in (4, 7, 1)]


def logprob(model, prompt, tokens, source=None):
    """Of these tokens after that prompt, by one plain pass."""
    ids = torch.tensor([[*prompt, *tokens]])
    sources = () if source is None else (torch.tensor([source]),)
    chances = model(ids, *sources)[0, len(prompt) - 1 : -1].log_softmax(-1)
    return chances[torch.arange(len(tokens)), torch.tensor(tokens)].sum().item()


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("name", SHAPES)
def test_width_1_is_greedy(name, penalty):
    model = make(name)
    free = generate(model, PROMPTS, most=8)
    stop = [free[0][4], free[1][6]]
    greedy = generate(model, PROMPTS, most=8, stop=stop)
    results = beam(model, PROMPTS, width=1, most=8, stop=stop, length_penalty=penalty)
    assert [best[0].tokens for best in results] == greedy
    assert min(map(len, greedy)) < 8  # some end, so that ending is tested too


def test_width_1_is_greedy_for_an_encoder_decoder():
    model, begin = make("rotary", "encoder-decoder"), [[1]] * 3
    stop = [generate(model, begin, source=SOURCES, most=8)[0][3]]
    greedy = generate(model, begin, source=SOURCES, most=8, stop=stop)
    results = beam(model, begin, source=SOURCES, width=1, most=8, stop=stop)
    assert [best[0].tokens for best in results] == greedy


@given(st.integers(0, 30), st.sampled_from([0.0, 0.7, 1.0, 2.0]), st.integers(1, 4))
@settings(max_examples=25)
def test_a_width_that_holds_everything_is_brute_force(prompt, penalty, most):
    vocab, stop = 4, 2
    model = make("rotary", vocab=vocab)
    prompt = [prompt % vocab, prompt // vocab % vocab]
    possible = []
    for length in range(1, most + 1):
        for tokens in product(range(vocab), repeat=length):
            inside, last = tokens[:-1], tokens[-1]
            if stop not in inside and (last == stop or length == most):
                possible.append((logprob(model, prompt, tokens) / length**penalty, list(tokens)))
    possible.sort(reverse=True)
    best = beam(model, [prompt], width=vocab**most, most=most, stop=[stop], length_penalty=penalty, best=min(3, vocab))[
        0
    ]
    for text, (score, tokens) in zip(best, possible, strict=False):
        assert text.score == pytest.approx(score)
        assert [*text.tokens, *([stop] if text.ended else [])] == tokens


def reference_search(model, prompt, width, most, stop, penalty):
    """The same search in the fewest words: everything recomputed, no cache."""
    beams, ended = [(0.0, [])], []
    for n in range(1, most + 1):
        grown = [(logprob(model, prompt, [*text, t]), [*text, t]) for _, text in beams for t in range(5)]
        grown.sort(reverse=True)
        ended += [(total / n**penalty, text) for total, text in grown[:width] if text[-1] == stop or n == most]
        ended = sorted(ended, reverse=True)[:width]
        beams = [(total, text) for total, text in grown if text[-1] != stop][:width]
        if len(ended) == width and beams[0][0] / n**penalty <= ended[-1][0]:
            break
    return ended[0]


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("width", [2, 3])
def test_the_search_equals_the_reference(width, penalty):
    model = make("rotary", vocab=5)
    for stop in range(5):
        score, tokens = reference_search(model, [1, 3], width, 5, stop, penalty)
        best = beam(model, [[1, 3]], width=width, most=5, stop=[stop], length_penalty=penalty)[0][0]
        assert [*best.tokens, *([stop] if best.ended else [])] == tokens
        assert best.score == pytest.approx(score)


@pytest.mark.parametrize("cache", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", ["rotary", "rotary, GQA", "rotary, window", "learned", "alibi", "relative", "latent"])
def test_scores_are_true_and_a_batch_equals_single_searches(name, cache):
    model, stop = make(name), 3
    options = dict(width=4, most=6, stop=[stop], best=3, length_penalty=0.8)
    together = beam(model, PROMPTS, cache=cache, **options)
    for prompt, candidates in zip(PROMPTS, together, strict=True):
        assert candidates == sorted(candidates, key=lambda text: -text.score)
        assert len({tuple(text.tokens) for text in candidates}) == len(candidates) == 3
        for text in candidates:
            tokens = [*text.tokens, *([stop] if text.ended else [])]
            assert text.logprob == pytest.approx(logprob(model, prompt, tokens))
            assert text.score == pytest.approx(text.logprob / len(tokens) ** 0.8)
        alone = beam(model, [prompt], cache=cache, **options)[0]
        assert [text.tokens for text in alone] == [text.tokens for text in candidates]


def test_scores_are_true_for_an_encoder_decoder():
    model, stop = make("sinusoidal", "encoder-decoder"), 3
    results = beam(model, [[1]] * 3, source=SOURCES, width=5, most=6, stop=[stop])
    for source, (text,) in zip(SOURCES, results, strict=True):
        tokens = [*text.tokens, *([stop] if text.ended else [])]
        assert text.logprob == pytest.approx(logprob(model, [1], tokens, source))
        alone = beam(model, [[1]], source=[source], width=5, most=6, stop=[stop])[0][0]
        assert (alone.tokens, alone.ended) == (text.tokens, text.ended)


def test_a_wider_beam_finds_a_likelier_text():
    model = make("rotary")
    narrow, wide = (beam(model, PROMPTS, width=width, most=5, length_penalty=0) for width in (1, 8))
    assert sum(w[0].logprob for w in wide) > sum(n[0].logprob for n in narrow)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="width is 0"):
        beam(make("rotary"), [[1]], width=0)
    with pytest.raises(ValueError, match="best is 3"):
        beam(make("rotary"), [[1]], width=2, best=3)
    with pytest.raises(ValueError, match="most is 0"):
        beam(make("rotary"), [[1]], most=0)
    assert beam(make("rotary"), []) == []


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("width", [2, 3, 5])
def test_the_search_finds_what_transformers_finds(width, penalty, tmp_path):
    from transformers import AutoModelForCausalLM

    model, stop = make("rotary"), 3
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    export(model, None, tmp_path / "hf")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=next(model.parameters()).dtype)
    lengths = set()
    for start in range(12):
        prompt = [start, 2 * start % 31, 5]
        best = beam(model, [prompt], width=width, most=9, stop=[stop], never=[7], length_penalty=penalty)[0][0]
        options = dict(num_beams=width, max_new_tokens=9, length_penalty=penalty, do_sample=False)
        ids = torch.tensor([prompt])
        expected = theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            eos_token_id=stop,
            pad_token_id=0,
            bad_words_ids=[[7]],
            **options,
        )[0, 3:].tolist()
        assert [*best.tokens, *([stop] if best.ended else [])] == expected[: len(best.tokens) + best.ended]
        assert set(expected[len(best.tokens) + best.ended :]) <= {0}
        lengths.add(len(best.tokens))
    assert len(lengths) > 1  # some end early
