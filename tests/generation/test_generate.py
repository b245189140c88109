"""Generation: cached = uncached, batch = one by one, the rules of choice are transformers', text ends where it should."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from qkv import record
from qkv.generation import decoding as module
from qkv.generation.decode_step import can_step
from qkv.generation.decoding import complete, fill, generate, stream, translate, translate_ids, until
from qkv.generation.prefill import Reading
from qkv.generation.sampling import Sampling, draws
from qkv.text.tokenizer import Bytes, Characters
from tests.formats.cases import SHAPES, make, words

NAMES = list(SHAPES)
PROMPTS = [words(n, seed=n).tolist() for n in (5, 1, 3)]
SOURCES = [words(n, seed=10 + n).tolist() for n in (4, 7, 1)]
FLAT = {name for name in NAMES if name.startswith(("rotary", "learned", "sinusoidal", "none")) and "window" not in name}


def texts(length: int = 37) -> Characters:
    """A tokenizer of as many characters as the models here have tokens, the last ones special."""
    letters = [chr(i) for i in range(ord("a"), ord("z") + 1)] + list("一二三四五六七八")
    return Characters.make(letters[: length - 3], special=("bos", "eos", "mask"))


@given(
    st.integers(0, 999),
    st.sampled_from([0.3, 1.0, 1.7]),
    st.none() | st.integers(1, 12),
    st.none() | st.sampled_from([0.05, 0.5, 0.9, 0.999]),
    st.sampled_from([0.8, 1.0, 1.3]),
)
def test_logits_are_shaped_as_transformers_does(seed, temperature, top_k, top_p, penalty):
    from transformers.generation import logits_process as theirs

    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 11, generator=generator) * 3
    logits[0, 4] = logits[0, 7]  # equal ones stay together
    ids = torch.randint(11, (3, 5), generator=generator)
    previous = torch.zeros(3, 11, dtype=torch.bool).scatter(1, ids, True)
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(ids, logits)
    expected = theirs.TemperatureLogitsWarper(temperature)(ids, expected)
    if top_k is not None:
        expected = theirs.TopKLogitsWarper(top_k)(ids, expected)
    if top_p is not None:
        expected = theirs.TopPLogitsWarper(top_p)(ids, expected)
    ours = Sampling(temperature, top_k, top_p, penalty).shape(logits, previous)
    assert torch.equal(ours, expected)


def test_draws_follow_the_probabilities():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, -1.0]]).expand(20_000, -1)
    drawn = Sampling(temperature=1.0).choose(logits, draws([0], 20_000)[0])
    shares = torch.bincount(drawn, minlength=5) / 20_000
    assert_close(shares, logits[0].softmax(-1), atol=0.01, rtol=0)
    assert shares[2] == 0
    only = Sampling(temperature=1.0, top_k=2).choose(logits, draws([1], 20_000)[0])
    assert set(only.tolist()) == {1, 3}
    # the ends of the range: the first and the last token that can be drawn
    assert Sampling(temperature=1.0).choose(
        logits[:2], torch.tensor([0, 1 - 2**-53], dtype=torch.float64)
    ).tolist() == [4, 0]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_cached_is_uncached_and_a_batch_equals_single_calls(name, temperature):
    model = make(name)
    options = dict(most=9, temperature=temperature, top_k=20, repetition_penalty=1.1)
    together = generate(model, PROMPTS, seed=5, **options)
    assert together == generate(model, PROMPTS, seed=5, cache=False, **options)
    for item, prompt in enumerate(PROMPTS):
        assert together[item] == generate(model, [prompt], seed=5 + item, **options)[0]
    assert temperature == 0 or len({t for text in together for t in text}) > 4  # saying one thing proves nothing


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", ["rotary", "learned", "rotary, post-norm", "rotary, GQA", "alibi", "latent"])
def test_an_encoder_decoder_too(name, temperature):
    model = make(name, "encoder-decoder")
    options = dict(most=7, temperature=temperature)
    begin = [[1], [1], [1]]
    together = generate(model, begin, source=SOURCES, **options)
    assert together == generate(model, begin, source=SOURCES, cache=False, **options)
    for item, source in enumerate(SOURCES):
        assert together[item] == generate(model, begin[:1], source=[source], seed=item, **options)[0]
    padded = torch.tensor([row + [9] * (7 - len(row)) for row in SOURCES])
    assert together == generate(model, begin, source=padded, source_lengths=[4, 7, 1], **options)
    first, second = (Reading(model, [[1]], most=1, source=[source]).logits for source in SOURCES[:2])
    assert not torch.allclose(first, second)  # what it says depends on what it read


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("prompts", [[[3, 4], [5, 6]], [[3, 4], [5]]], ids=["one length", "two lengths"])
@pytest.mark.parametrize("name", NAMES)
def test_the_flat_step_is_the_model(name, prompts, kind):
    model = make(name, kind)
    source = dict(source=SOURCES[:2]) if kind == "encoder-decoder" else {}
    flat, plain = (Reading(model, prompts, most=4, **source) for _ in range(2))
    assert can_step(model, flat.cache) == (name in FLAT)  # where it doesn't, speed is lost in silence
    plain._step = None
    for tokens in words(4, 2, seed=3):
        for reading in (flat, plain):
            reading.feed(tokens)
        assert_close(flat.logits, plain.logits)


def test_a_block_with_a_part_of_its_own_is_not_stepped_flat():
    model = make("rotary")
    model.decoder[1].attention.extra = torch.nn.Linear(2, 2)
    assert not can_step(model, model.new_cache(1, 4))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_rows_may_be_dropped_doubled_and_mixed(index):
    model = make("rotary, GQA")
    reading = Reading(model, PROMPTS, most=3)
    reading.feed(torch.tensor([7, 8, 9]))
    reading.keep(index)
    reading.feed(torch.tensor([11] * len(index)))
    for row, item in enumerate(index):
        alone = model(torch.tensor([[*PROMPTS[item], 7 + item, 11]]))[0, -1]
        assert_close(reading.logits[row], alone)


def test_the_same_seed_gives_the_same_text():
    model = make("rotary")
    options = dict(most=12, temperature=1.0)
    torch.manual_seed(1)
    first = generate(model, [PROMPTS[0]], seed=3, **options)[0]
    torch.rand(17)
    untouched = torch.get_rng_state()
    assert generate(model, [PROMPTS[0]], seed=3, **options)[0] == first
    assert torch.equal(torch.get_rng_state(), untouched)
    assert generate(model, [PROMPTS[0]], seed=4, **options)[0] != first
    assert generate(model, [PROMPTS[0]], seed=3, most=5, temperature=1.0)[0] == first[:5]
    same = generate(model, [PROMPTS[0]] * 2, seed=[3, 3], **options)
    assert same[0] == same[1] == first
    twice = generate(model, [PROMPTS[0]] * 2, seed=3, **options)
    assert twice[0] == first != twice[1]  # two samples of one prompt are two samples


def test_a_text_ends_before_a_stop_token_and_the_others_go_on():
    model = make("rotary")
    whole = generate(model, PROMPTS, most=10, temperature=1.0)
    stop = next(t for t in whole[0][2:] if t not in whole[0][:2])
    cut = generate(model, PROMPTS, most=10, temperature=1.0, stop=[stop])
    for before, after in zip(whole, cut, strict=True):
        assert after == before[: before.index(stop)] if stop in before else after == before
    assert len(cut[0]) < 10 == max(map(len, cut))


def test_on_token_is_called_in_order_and_may_end_a_text():
    model, calls = make("rotary"), []

    def on_token(item, token):
        calls.append((item, token))
        return item == 1 and sum(i == 1 for i, _ in calls) == 2

    results = generate(model, PROMPTS, most=4, on_token=on_token)
    assert [len(text) for text in results] == [4, 2, 4]
    assert [item for item, _ in calls] == [0, 1, 2, 0, 1, 2, 0, 2, 0, 2]
    assert all([t for i, t in calls if i == item] == results[item] for item in range(3))


def test_most_none_fills_the_context():
    assert [len(text) for text in generate(make("learned"), [[1, 2, 3]], most=None)] == [38]  # the last is never read
    assert generate(make("rotary"), [], most=None) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_model_in_training_generates_without_dropout_and_trains_on(name):
    model = make(name, dropout=0.3).train()
    tokens = generate(model, PROMPTS, most=4)
    assert model.training and all(part.training for part in model.modules())
    model(words(2, 9)).square().mean().backward()  # tables made while generating must not get in the way
    assert tokens == generate(model.eval(), PROMPTS, most=4)


def test_recorders_get_every_step():
    model = make("rotary", "encoder-decoder")
    with record() as calls:
        generate(model, [[1]], source=[[2, 3]], most=3)
    names = ["encoder.0", "encoder.1", *["decoder.0", "cross.0", "decoder.1", "cross.1"] * 3]
    assert [call.name for call in calls] == names
    assert [call.k.shape[2] for call in calls if call.name == "decoder.1"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "prompts", "options", "message"),
    [
        ("learned", [[1] * 30], dict(most=20), "30 tokens and 20 more .* learned 40 positions: .* ask for 11 at most"),
        ("learned", [[1] * 41], dict(most=1), "the prompt has 41 tokens"),
        ("rotary", [[1] * 41], dict(most=None), "fills the context of 40"),
        ("rotary", [1, 2], {}, "list of lists of token ids, such as"),
        ("rotary", "hello", {}, "list of lists of token ids, such as"),
        ("rotary", [[1], []], {}, "prompt 1 is empty: give at least one token"),
        ("rotary", [[1, 37]], {}, "holds token 37: this model knows 0 to 36"),
        ("rotary", torch.tensor([1, 2]), {}, r"give \(batch, tokens\)"),
        ("rotary", [[1]], dict(most=0), "most is 0"),
        ("rotary", [[1]], dict(seed=[1, 2]), "1 prompts but 2 seeds"),
        ("rotary", [[1]], dict(source=[[1]]), "reads no source"),
        ("rotary", [[1]], dict(temperature=-1.0), "temperature is -1.0"),
        ("rotary", [[1]], dict(temperature=float("nan")), "temperature is nan"),
        ("rotary", [[1]], dict(top_k=0), "top_k is 0"),
        ("rotary", [[1]], dict(top_p=1.5), "top_p is 1.5"),
        ("rotary", [[1]], dict(repetition_penalty=0.0), "repetition_penalty is 0.0"),
    ],
)
def test_bad_arguments_are_refused(name, prompts, options, message):
    with pytest.raises(ValueError, match=message):
        generate(make(name), prompts, **options)


def test_the_wrong_kind_of_model_is_refused():
    with pytest.raises(ValueError, match="use fill"):
        generate(make("rotary", "encoder"), [[1]])
    both = make("learned", "encoder-decoder")
    with pytest.raises(ValueError, match="give source="):
        generate(both, [[1]], most=5)
    with pytest.raises(ValueError, match="1 prompts but 2 sources"):
        generate(both, [[1]], most=5, source=[[1], [2]])
    with pytest.raises(ValueError, match="the source has 41 tokens, but this model learned 40"):
        generate(both, [[1]], most=5, source=[[1] * 41])
    with pytest.raises(ValueError, match="doesn't fill in words"):
        fill(make("rotary"), texts(), "a[MASK]")


def test_a_stream_is_the_text_that_completion_gives():
    model, tokenizer = make("rotary"), texts()
    options = dict(most=20, temperature=1.0, seed=2)
    tokens = []
    pieces = list(stream(model, tokenizer, "二a", on_token=tokens.append, **options))
    assert len(pieces) > 5 and len(tokens) >= len(pieces)
    assert complete(model, tokenizer, ["二a"], **options) == ["".join(pieces)]
    assert complete(model, tokenizer, ["xyz", "二a"], most=20, temperature=1.0, seed=[7, 2])[1] == "".join(pieces)


def test_stop_texts_end_a_text_before_them():
    model, tokenizer = make("rotary"), texts()
    options = dict(most=20, temperature=1.0, seed=2)
    whole = complete(model, tokenizer, ["二a"], **options)[0]
    for stop in (whole[4:7], whole[0], whole[-2:], "nowhere"):
        expected = whole[: whole.index(stop)] if stop in whole else whole
        assert complete(model, tokenizer, ["二a"], stop=[stop, "never there"], **options) == [expected]
        assert "".join(stream(model, tokenizer, "二a", stop=[stop, "never there"], **options)) == expected
    counted = []
    list(stream(model, tokenizer, "二a", stop=[whole[4]], on_token=counted.append, **options))
    assert len(counted) < 20  # nothing is computed beyond the stop
    with pytest.raises(ValueError, match="a stop text is empty"):
        list(stream(model, tokenizer, "a", stop=[""]))


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2), st.integers(1, 3))
def test_text_until_a_stop(text, stops, size):
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    ends = [text.index(s) for s in stops if s in text]
    output = list(until(iter(pieces), stops))
    # the stop that shows first in the stream ends it; one that begins earlier but is longer may then be cut into
    assert text.startswith("".join(output)) and all(output)
    assert "".join(output) == text[: min(ends)] if len(stops) < 2 and ends else len("".join(output)) <= len(text)
    assert not any(s in "".join(output) for s in stops)
    assert ends or "".join(output) == text


def test_a_stream_never_gives_half_a_character(monkeypatch):
    text = "你好，世界！🙂"
    monkeypatch.setattr(module, "grow", lambda *_, **__: ((0, byte) for byte in text.encode()))
    pieces = list(stream(make("rotary"), Bytes.make(), "x", stop=["界！"]))
    assert "".join(pieces) == "你好，世" and all(len(piece) == 1 for piece in pieces)


def test_an_empty_text_begins_where_a_document_does():
    tokenizer = texts()
    model = make("rotary")
    expected = tokenizer.decode(generate(model, [[tokenizer.bos]], most=5, stop=[tokenizer.eos])[0])
    assert complete(model, tokenizer, [""], most=5) == [expected]
    with pytest.raises(ValueError, match="the text is empty"):
        complete(model, Bytes.make(), [""])


def test_translation_reads_and_writes_text():
    model, tokenizer = make("learned", "encoder-decoder"), texts()
    answers = translate(model, tokenizer, ["abc", "四五"], most=6)
    ids = [[*tokenizer.encode(text), tokenizer.eos] for text in ("abc", "四五")]
    expected = generate(model, [[tokenizer.bos]] * 2, source=ids, most=6, stop=[tokenizer.eos])
    assert answers == [tokenizer.decode(row) for row in expected]
    assert translate_ids(model, tokenizer, ids, most=6) == expected
    assert translate(model, tokenizer, []) == []
    assert len(translate(model, tokenizer, ["abc"], width=3, most=6)) == 1
    with pytest.raises(ValueError, match="no eos"):
        translate(model, Bytes.make(), ["a"])


def test_hidden_words_are_filled_with_their_probabilities():
    model, tokenizer = make("rotary", "encoder"), texts()
    guesses = fill(model, tokenizer, "ab[MASK]d[MASK]", k=3)
    ids = [tokenizer.bos, *tokenizer.encode("ab[MASK]d[MASK]", special=True), tokenizer.eos]
    logits = model(torch.tensor([ids]))[0, [3, 5]]
    logits[:, tokenizer.special_ids] = -torch.inf
    for word_guesses, row in zip(guesses, logits.softmax(-1), strict=True):
        shares, best = row.topk(3)
        assert [word for word, _ in word_guesses] == [tokenizer.decode([i]) for i in best.tolist()]
        assert [share for _, share in word_guesses] == pytest.approx(shares.tolist(), rel=1e-4)
    with pytest.raises(ValueError, match=r"the text has no \[MASK\]"):
        fill(model, tokenizer, "abc")
    with pytest.raises(ValueError, match="no mask token"):
        fill(model, Bytes.make(), "abc")
    with pytest.raises(ValueError, match="43 tokens but this model learned 40"):
        fill(make("learned", "encoder"), tokenizer, "a" * 40 + "[MASK]")


def test_never_excludes_tokens():
    model = make("rotary")
    free = generate(model, [[1, 2, 3]], most=6)[0]
    tokens = generate(model, [[1, 2, 3]], most=6, never=free[:2])[0]
    assert not set(tokens) & set(free[:2])
    logits = model(torch.tensor([[1, 2, 3]]))[0, -1]
    logits[free[:2]] = -torch.inf
    assert tokens[0] == int(logits.argmax())


@pytest.mark.parametrize(
    ("logits", "options"),
    [
        ([1.0, 3.0, 2.0], dict(temperature=5e-324)),
        ([1.0, 3.0, 2.0], dict(temperature=1e-40, top_p=0.5)),
        ([-1.0, 3.0, -2.0], dict(temperature=1.0, repetition_penalty=1e-320)),
        ([-torch.inf] * 3, dict(temperature=1.0)),
        ([-torch.inf] * 3, dict(temperature=0.7, top_k=2, top_p=0.9)),
    ],
    ids=str,
)
def test_choose_without_probabilities_takes_the_largest_logit(logits, options):
    logits = torch.tensor([logits] * 2)
    tokens = Sampling(**options).choose(logits, torch.tensor([0.0, 0.999]), torch.ones(2, 3, dtype=torch.bool))
    assert tokens.tolist() == logits.argmax(-1).tolist()
