"""The lab's numbers are true: each equals an independent computation, a formula, or a real tensor."""

import math
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from qkv import masks
from qkv.attention.dispatch import attend
from qkv.attention.latent import LatentAttention
from qkv.i18n import Problem
from qkv.lab import EXPERIMENTS, complexity, distance, heads, memory, report, run, scaling, seq2seq
from qkv.lab import masks as lab_masks
from qkv.model.config import Config
from qkv.model.transformer import Transformer

# scaling


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 8.0])
def test_the_size_of_the_jacobian_is_autograds(spread):
    scores = spread * torch.randn(7, dtype=torch.float64)
    matrix = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert scaling.jacobian_size(scores.softmax(-1).numpy()) == pytest.approx(float(matrix.norm()), rel=1e-9)


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_entropy_is_torchs(spread):
    scores = spread * torch.randn(5, 9, dtype=torch.float64)
    ours = scaling.entropy(scaling.log_softmax(scores.numpy()))
    theirs = torch.distributions.Categorical(logits=scores).entropy().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_entropy_of_an_even_and_of_a_decided_row():
    assert scaling.entropy(scaling.log_softmax(np.zeros(8))) == pytest.approx(math.log(8))
    assert scaling.entropy(scaling.log_softmax(np.array([0.0, -5000.0, -9000.0]))) == 0.0


def test_scaling_finds_the_square_root_of_d():
    results = run("scaling", numbers=20_000, widths=(4, 64, 1024), keys=256, queries=256)
    for row in results["widths"]:
        assert row["raw"]["std"] == pytest.approx(math.sqrt(row["width"]), rel=0.1)
        assert row["scaled"]["std"] == pytest.approx(1, rel=0.1)
        # softmax of n numbers N(0, 1) has an entropy of ln n − 1/2 for large n
        assert row["scaled"]["entropy"] == pytest.approx(math.log(256) - 0.5, abs=0.08)
    wide, narrow = results["spreads"]
    assert wide["measured_std"] == pytest.approx(100 * narrow["measured_std"])
    assert narrow["entropy"] == pytest.approx(math.log(20_000) - 0.5, abs=0.05)
    assert wide["largest"] > 0.9 and wide["entropy"] < 0.5
    for spread in results["spreads"]:
        assert sum(spread["before"]["counts"]) == sum(spread["after"]["counts"]) == 20_000


def test_scaling_reports_where_the_usual_story_fails(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    # From 4 to 16 the gradient of undivided scores still grows: weights that differ pass more than even ones.
    early, late = run("scaling", widths=(4, 16)), run("scaling", widths=(16, 1024))
    assert early["widths"][1]["raw"]["gradient"] > early["widths"][0]["raw"]["gradient"]
    assert "don't both fall" in scaling.shows(early) and "here it doesn't help" in scaling.shows(early)
    assert "falls from" in scaling.shows(late) and "doesn't help" not in scaling.shows(late)
    assert "Give several --widths" in scaling.shows(run("scaling", widths=(8,)))


# complexity


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.1])
def test_a_fit_recovers_the_law(exponent):
    sizes = [100, 300, 700, 2000]
    scale, fitted = report.power_law(sizes, [7e-5 * n**exponent for n in sizes])
    assert fitted == pytest.approx(exponent) and scale == pytest.approx(7e-5)


def test_a_law_is_fitted_to_the_longest_and_carried_on():
    rows = [{"n": n, "seconds": 1e-9 * n**2, "bytes": 4 * n * n} for n in (200, 400, 800)]
    short = {"n": 100, "seconds": 5.0, "bytes": 10**9}  # the cost of a first call, which no law should see
    skipped = {"n": 1600, "seconds": None, "bytes": None}
    laws = complexity.fit_laws([short, *rows, skipped], 100_000)
    assert laws["seconds_exponent"] == pytest.approx(2) and laws["bytes_exponent"] == pytest.approx(2)
    assert laws["bytes"] == pytest.approx(4e10) and laws["seconds"] == pytest.approx(10)
    assert laws["seconds_off"] == pytest.approx(0, abs=1e-9)
    rows[1]["seconds"] *= 2
    assert complexity.fit_laws(rows, 100_000)["seconds_off"] > complexity.MAX_MISFIT


def test_peak_memory_counts_allocations_and_frees():
    def work():
        a = torch.ones(1000, 1000)  # 4 MB
        b = a + 1  # 8 MB held
        del a
        return b * 2  # 8 MB again

    assert report.peak_bytes(work) == pytest.approx(8e6, rel=0.01)


@pytest.fixture(scope="module")
def cost():
    with pytest.MonkeyPatch.context() as patch:  # what is looked at here is memory
        patch.setattr(report, "race", partial(report.race, rounds=1, seconds=0))
        return run("complexity", lengths=(128, 256, 512), window=16, width=16, context=16)


def test_plain_attention_holds_the_matrix_and_fused_does_not(cost):
    peaks = {(row["n"], row["kind"]): row["bytes"] for row in cost["rows"]}
    for n in (128, 256, 512):
        output = 4 * 16 * n
        assert 4 * n * n <= peaks[n, "plain"] <= 4 * n * n * 1.2 + 2 * output
    assert peaks[512, "fused"] < peaks[512, "plain"] / 2
    assert cost["laws"]["plain"]["bytes_exponent"] == pytest.approx(2, abs=0.15)
    assert cost["laws"]["windowed"]["bytes_exponent"] < 1.3
    assert cost["matrix"] == {"entries": 10**10, "bytes": 40 * 10**9}


def test_the_training_step_is_timed_with_each_kernel(cost):
    plain, fused = cost["steps"]  # nothing is compiled unless it was asked for
    assert plain["seconds"] > 0 and fused["seconds"] > 0


def test_the_plain_step_uses_the_plain_kernel(monkeypatch):
    """Otherwise the two times would be of one and the same thing."""
    from qkv.attention import heads as module

    kernels = []

    def spy(*tensors, kernel="auto", **options):
        kernels.append(kernel)
        return attend(*tensors, kernel=kernel, **options)

    monkeypatch.setattr(module, "attend", spy)
    complexity._time_steps(8, 0, False, lambda done: None)
    assert set(kernels) == {"plain", "auto"} and kernels == sorted(kernels, reverse=True)
    assert module.attend is spy  # put back


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_missing_compiler_is_reported(monkeypatch, lang, cost):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("QKV_LANG", lang)
    steps = complexity._time_steps(8, 0, True, lambda done: None)
    assert steps[2] == {"kind": "compiled", "seconds": None, "why": "none"}
    summary = complexity.shows({**cost, "steps": steps})
    assert ("no C++ compiler" if lang == "en" else "没有 C++ 编译器") in summary


@pytest.mark.slow
@pytest.mark.needs("a C++ compiler")
def test_a_compiled_step_is_timed():
    step = complexity._time_steps(16, 0, True, lambda done: None)[2]
    assert step["seconds"] > 0 and step["first"] > step["seconds"]


# memory


def test_only_layers_that_attend_keep_keys_and_values():
    for name, layers in {"tiny": 4, "tiny-bamba": 1, "tiny-qwen3-next": 1}.items():
        assert memory.shape_of(name).layers == layers


@pytest.mark.parametrize(
    "config",
    [
        Config(vocab=9, width=24, n_layer=3, n_head=6),
        Config(vocab=9, width=24, n_layer=2, n_head=6, n_kv_head=3),
        Config(vocab=9, width=24, n_layer=1, n_head=6, n_kv_head=1, head_width=8),
        Config(vocab=9, width=24, n_layer=2, n_head=6, mixer="latent", rank=10, rope_width=2),
    ],
    ids=["MHA", "GQA", "MQA", "MLA"],
)
def test_the_bytes_are_those_of_a_real_models_cache(config, monkeypatch):
    """The table's row for the model's own kind against tensors that `Transformer.new_cache` has made in memory."""
    monkeypatch.setitem(memory.PRESETS, "mine", config)
    results = run("memory", model="mine", length=11, batch=3, bytes=4)
    (own,) = [row for row in results["rows"] if row["own"]]
    cache = Transformer(config).new_cache(3, 11)
    real = sum(part.nelement() * part.element_size() for layer in cache.layers for part in (layer.k, layer.v))
    assert own["bytes"] == own["tensors"] == real


@pytest.mark.parametrize("name", memory.SHAPES)
@pytest.mark.parametrize("each", [1, 2, 4, 8])
def test_formula_and_tensors_agree_for_every_shape(name, each):
    for row in run("memory", model=name, length=1000, bytes=each)["rows"]:
        assert row["bytes"] == row["tensors"]


def test_published_sizes():
    rows = {row["kind"]: row for row in run("memory", model="deepseek-v3", length=1)["rows"]}
    assert rows["MLA"]["own"] and rows["MLA"]["bytes_per_token"] == 61 * (512 + 64) * 2
    llama = {row["kind"]: row for row in run("memory", model="llama-3-8b", length=8192)["rows"]}
    assert llama["GQA"]["own"] and llama["GQA"]["bytes"] == 2**30  # the GiB that people quote for 8k tokens
    assert llama["MHA"]["bytes"] == 4 * llama["GQA"]["bytes"]
    assert llama["GQA"]["fits"] == int(16e9 // (2**30 / 8192))


def test_latent_cache_bytes_match_the_model():
    cache = LatentAttention(24, 6, rank=10, head_width=4, rope_width=2).new_cache(2, 7)
    cache_bytes = sum(part.nelement() * part.element_size() for part in (cache.k, cache.v))
    assert cache_bytes == memory.tensor_bytes("MLA", 1, 6, 4, 10, 2, 7, 2, 4)


def test_own_sizes_replace_the_models():
    results = run("memory", model="gpt2", layers=2, heads=8, kv_heads=4, head_width=16, length=5, batch=3, bytes=1)
    assert results["rows"][1]["bytes"] == 2 * (2 * 4 * 16) * 5 * 3 and results["rows"][1]["own"]


# distance, heads, seq2seq


def test_recall_rows_contain_the_answer_only_at_their_start():
    ids, word = distance.recall(9, symbols=5, seed=3, step=4, rows=64)
    assert ids.shape == (64, 11) and torch.equal(ids[:, 0], word) and int(word.max()) < 5
    assert bool((ids[:, 1:] >= 5).all())
    again, _ = distance.recall(9, symbols=5, seed=3, step=4, rows=64)
    other, _ = distance.recall(9, symbols=5, seed=3, step=5, rows=64)
    assert torch.equal(ids, again) and not torch.equal(ids, other)


def test_both_learn_over_a_short_gap_and_repeatably():
    sizes = dict(gaps=(2,), symbols=4, steps=80, width=16, batch=16)
    first, second = run("distance", **sizes), run("distance", **sizes)
    assert [row["losses"] for row in first["rows"]] == [row["losses"] for row in second["rows"]]
    assert [row["accuracy"] > 0.9 for row in first["rows"]] == [True, True]
    assert first["rows"][1]["weight_on_the_word"] > 0.5  # an even share is 1/4
    assert [row["chain"] for row in first["rows"]] == [4, 1]


def test_question_weights_are_what_attention_computes():
    model = distance.AttentionModel(10, 8, 3)
    ids = torch.randint(10, (2, 6))
    x = model.embedding(ids)
    q, k = (part(x).unflatten(-1, (4, 2)).transpose(1, 2) for part in (model.attention.q, model.attention.k))
    expected = (q[:, :, -1:] @ k.transpose(-1, -2) / math.sqrt(2)).softmax(-1)[:, :, 0].mean(1)
    torch.testing.assert_close(model.question_weights(ids), expected)


@pytest.mark.slow
def test_attention_remembers_where_the_lstm_forgets():
    lstm, attention = run("distance", gaps=(64,), steps=200)["rows"]
    assert attention["accuracy"] > 0.95 and lstm["accuracy"] < 0.5


def test_heads_have_equal_weights_and_true_patterns():
    results = run("heads", heads=(1, 2), length=6, symbols=12, steps=4, width=16, batch=4)
    # the norms of q and k, in each of two layers, are as wide as a head; all else is the same
    assert len({row["parameters"] - 2 * 2 * row["head_width"] for row in results["rows"]}) == 1
    for row in results["rows"]:
        assert sum(row["patterns"]["names"].values()) == row["heads"] * 2
        assert row["curve"][-1][0] == 4 and 0 <= row["accuracy"] <= 1
        best = row["patterns"]["best"]["previous"]
        table = np.array(best["map"])
        np.testing.assert_allclose(table.sum(1), 1, atol=1e-3)
        # row 0 has no one before it and row 1 … have a choice: the mean weight one to the left
        assert best["score"] == pytest.approx(np.diagonal(table, -1).mean(), abs=1e-3)


@pytest.mark.slow
def test_two_heads_learn_to_repeat_by_induction():
    (row,) = run("heads", heads=(2,), steps=300)["rows"]
    assert row["accuracy"] > 0.85 and row["patterns"]["best"]["induction"]["score"] > 0.5


@pytest.fixture(scope="module")
def dates():
    return run("seq2seq", steps=3, width=16, batch=4, tests=5)


def test_alignments_add_up(dates):
    assert [row["kind"] for row in dates["rows"]] == ["gru", "transformer"]
    for alignment in dates["alignments"]:
        assert alignment["keys"] == [*"15 November 2026", "⏎"]
        if alignment["map"]:
            assert len(alignment["map"]) == len(alignment["said"])
            np.testing.assert_allclose(np.sum(alignment["map"], 1), 1, atol=2e-3)


def test_any_text_fits_into_the_table(dates):
    strange = {**dates, "sizes": {**dates["sizes"], "text": "a|b\n{c}"}}
    assert "a¦b {c}" in str(seq2seq.tables(strange)[0])


def test_single_sizes_can_be_summarized_and_drawn(monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    small = dict(steps=2, width=8, batch=2)
    for module, results in (
        (scaling, run("scaling", numbers=10, widths=(8,))),
        (distance, run("distance", gaps=(2,), symbols=2, **small)),
        (heads, run("heads", heads=(1,), length=4, symbols=4, **small)),
        (memory, run("memory", model="tiny", heads=1, kv_heads=1, length=1)),
    ):
        assert module.shows(results) and module.tables(results) and module.draw(results).axes


def test_greedy_generation_equals_the_forward_pass():
    """What the GRU says step by step is what its forward pass says of the same text, padding or not."""
    model = seq2seq.GRUTranslator(20, 8)
    source, lengths = torch.randint(4, 20, (2, 7)), torch.tensor([7, 4])
    tokens, weights = model.generate(source, lengths, start=1)
    target = torch.cat([torch.full((2, 1), 1), tokens[:, :-1]], 1)
    with torch.no_grad():
        assert torch.equal(model(target, source, lengths).argmax(-1), tokens)
        alone = model(target[1:], source[1:, :4], lengths[1:])
        torch.testing.assert_close(alone, model(target, source, lengths)[1:])
    assert bool((weights[1, :, 4:] == 0).all())


def test_copying_the_year_is_scored_by_the_digits():
    keys = [*"15 May 1987", "⏎"]
    table = np.zeros((10, len(keys)))
    for i in range(4):
        table[i, 7 + i] = 0.5
    assert seq2seq.year_copy_score(table, "1987-05-15", keys) == 0.5
    assert seq2seq.year_copy_score(table, "1988-05-15", keys) is None
    assert seq2seq.year_copy_score(table[:2], "19", keys) is None


@pytest.mark.slow
def test_both_translators_learn_dates():
    results = run("seq2seq", tests=100)
    assert all(row["accuracy"] > 0.8 for row in results["rows"])


# masks


@pytest.mark.parametrize("own", [{}, {"text": "I love it so", "source": "我 爱 它"}], ids=["real", "own words"])
def test_masks_match_their_description(own):
    results = run("masks", **own)
    for row in results["rows"]:
        weights, allowed = np.array(row["weights"]), np.array(row["allowed"])
        n, m = weights.shape
        assert (n, m) == (len(row["queries"]), len(row["keys"])) and row["pairs"] == allowed.sum()
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-4)
        assert row["hidden_weight"] == 0 and (weights[~allowed] == 0).all()
    own_, causal, cross = results["rows"]
    assert own_["moved"] == len(own_["queries"]) and cross["moved"] == len(cross["queries"])
    assert causal["moved"] == 1 and np.array_equal(causal["allowed"], np.tri(len(causal["queries"]), dtype=bool))
    assert cross["keys"] == own_["keys"] and len(cross["queries"]) == len(causal["queries"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_row_names_are_explained(lang, monkeypatch):
    """In the real translator's tables the same row has two names: the token read there, and the one written from it."""
    monkeypatch.setenv("QKV_LANG", lang)
    results = run("masks")
    _, causal, cross = results["rows"]
    assert cross["queries"] == [*causal["queries"][1:], "■"]  # what is told below
    summary = lab_masks.shows(results)
    first, second = causal["queries"][:2]
    assert "■" in summary and first in summary and f"{first} → {second}" in summary
    assert {"en": "is read", "zh": "读到"}[lang] in summary and {"en": "is written", "zh": "写出"}[lang] in summary
    own = lab_masks.shows(run("masks", text="I love it", source="我 爱"))
    assert "■" not in own  # one's own words aren't moved


def test_own_words_are_attention_by_the_formula():
    inputs = lab_masks._from_words(["a", "b", "a"], ["x", "y"], 6, 1)
    call, _, _ = inputs["calls"]["cross"]
    q, k, v = (part[0, 0].numpy() for part in (call.q, call.k, call.v))
    scores = np.exp(q @ k.T / math.sqrt(6))
    np.testing.assert_allclose(call.weights()[0, 0], scores / scores.sum(1, keepdims=True), rtol=1e-9)
    assert np.array_equal(q[0], q[2]) and not np.array_equal(q[0], q[1]) and v.shape == (2, 6)
    assert inputs["calls"]["causal"][0].mask.array(2, 2).tolist() == masks.causal().array(2, 2).tolist()


# what may be asked


def test_every_default_is_within_its_own_bounds():
    from qkv.lab import checked

    for experiment in EXPERIMENTS.values():
        for size in experiment.sizes:
            if size.default is not None:
                assert checked(size, size.default) == size.default


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(Problem, match="did you mean 'scaling'"):
        run("scalin")
    with pytest.raises(Problem, match="did you mean 'widths'"):
        run("scaling", width=3)


def test_heads_need_an_even_width():
    with pytest.raises(Problem, match="16 heads of an even width"):
        heads.measure(
            heads=(1, 16), layers=1, length=4, symbols=4, steps=1, width=16, batch=1, seed=0, progress=lambda a, b: None
        )
