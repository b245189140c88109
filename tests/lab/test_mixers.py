"""`qkv lab mixers`: models of equal size, rows that are right, caches that hold what is said, sentences made of numbers."""

import copy
import itertools
import math
from functools import partial

import pytest
import torch

from qkv import record
from qkv.i18n import Problem
from qkv.lab import mixer_contest, mixer_summary, mixers, report, run
from qkv.lab.mixer_contest import KINDS, ContestShape, NextCharacter, Recall, TrainingRun, recall
from qkv.model.transformer import Transformer

SMALL = dict(steps=2, recall_steps=2, pairs=(1, 2), lengths=(4, 40), width=8, state=2, window=3, seeds=2)


def model(kind, shape, vocab=50, context=64):
    return Transformer(shape.config(kind, vocab, context))


@pytest.mark.parametrize(
    "width, layers, state", [(64, 2, 16), (128, 2, 8), (64, 4, 16), (48, 3, 4), (16, 2, 16), (32, 2, 64)]
)
def test_all_six_have_as_many_weights(width, layers, state):
    counts = [model(kind, ContestShape(width, layers, 31, state)).count() for kind in KINDS]
    assert max(counts) / min(counts) - 1 < 0.02, counts
    assert width != 64 or max(counts) / min(counts) - 1 < 0.005, counts


def test_the_keys_of_all_states_are_as_wide():
    shape = ContestShape(64, 2, 31, 6)
    states = [model(kind, shape).new_cache(1, 9).layers[0].state for kind in ("retention", "mamba2", "delta", "hybrid")]
    assert {state.shape[2] for state in states} == {6}


def test_the_models_match_their_names():
    shape = ContestShape(64, 3, 31, 8)
    assert model("hybrid", shape).config.mixers == ("mamba2", "mamba2", "attention")
    assert model("window", shape).config.window == 31 and model("attention", shape).config.window is None
    assert {model(kind, shape).config.mixers for kind in ("retention", "mamba2", "delta")} == {
        (kind,) * 3 for kind in ("retention", "mamba2", "delta")
    }


# the tasks


@pytest.mark.parametrize("pairs, symbols", [(1, 1), (3, 3), (5, 16), (32, 32)])
def test_every_question_has_the_value_of_its_key(pairs, symbols):
    x, y = recall(pairs, symbols, seed=3, step=4, rows=20)
    for row, answers in zip(x.tolist(), y.tolist(), strict=True):
        keys, values, questions = row[0 : 2 * pairs : 2], row[1 : 2 * pairs : 2], row[2 * pairs :]
        values_by_key = dict(zip(keys, values, strict=True))
        assert len(values_by_key) == pairs and sorted(questions) == sorted(keys)
        assert all(0 <= key < symbols for key in keys) and all(symbols <= value < 2 * symbols for value in values)
        assert answers == [-100] * 2 * pairs + [values_by_key[key] for key in questions]


def test_rows_are_a_function_of_seed_and_step_and_questions_come_in_any_order():
    first = recall(8, 8, 1, 2, 50)
    assert all(torch.equal(a, b) for a, b in zip(first, recall(8, 8, 1, 2, 50), strict=True))
    assert not torch.equal(first[0], recall(8, 8, 1, 3, 50)[0]) and not torch.equal(first[0], recall(8, 8, 2, 2, 50)[0])
    keys, questions = first[0][:, 0:16:2], first[0][:, 16:]
    assert 0.05 < float((keys == questions).float().mean()) < 0.25  # one in eight stands where it was told


def test_scores_of_a_perfect_and_of_a_guessing_model():
    class Knows(torch.nn.Module):
        def __init__(self, which):
            super().__init__()
            self.which = which

        def forward(self, x):
            n = x.shape[1] // 3
            hit = x[:, 2 * n :, None] == x[:, None, 0 : 2 * n : 2]  # (B, questions, pairs)
            at = hit.float().argmax(-1) if self.which == "right" else torch.zeros(len(x), n, dtype=torch.long)
            answers = x[:, 1 : 2 * n : 2].gather(1, at)
            logits = torch.zeros(*x.shape, 64)
            logits[:, 2 * n :].scatter_(2, answers[..., None], 1.0)
            return logits

    task = Recall((2, 8, 32), 9)
    assert task.score(Knows("right")) == [1.0, 1.0, 1.0]
    shares = task.score(Knows("any"))  # another pair may have the same value
    assert shares[0] == pytest.approx(1 / 2 + 1 / 64, abs=0.05) and shares[2] == pytest.approx(2 / 32, abs=0.03)


def test_training_starts_with_the_smallest_number_of_pairs():
    task = Recall((2, 4, 8, 16), 40)
    pair_counts = [task.batch(0, step)[0].shape[1] // 3 for step in range(40)]
    assert set(pair_counts[:5]) == {2} and 16 not in pair_counts[:15] and set(pair_counts[15:]) == {2, 4, 8, 16}
    assert all(900 < task.batch(0, step)[0].numel() <= 1024 for step in range(40))


def test_the_text_is_split_and_an_untrained_model_has_uniform_loss(tmp_path):
    content = "".join(chr(97 + i * i % 7) for i in range(4000))
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    task = NextCharacter(str(tmp_path / "a.txt"), 32)
    assert len(task.data.train) + len(task.data.validation) == 4000 and 300 < len(task.data.validation) < 500
    shape = ContestShape(16, 2, 7, 2)
    fresh = Transformer(shape.config("attention", task.vocab, task.context))
    assert task.score(fresh) == [pytest.approx(math.log(task.vocab), rel=1e-5)]  # its head begins at 0
    evaluations = TrainingRun(fresh.config, task, 0.02, 7, 0).run()
    assert [row["step"] for row in evaluations] == [1, 2, 3, 4, 5, 6, 7] and evaluations[-1]["tokens"] == 7 * 1024
    assert all(a["seconds"] < b["seconds"] for a, b in itertools.pairwise(evaluations))


def test_the_same_seed_learns_the_same():
    shape, task = ContestShape(16, 2, 7, 2), Recall((1, 2), 5)
    scores = [TrainingRun(shape.config("mamba2", 4, 6), task, 0.02, 5, seed).run()[-1] for seed in (0, 0)]
    assert scores[0]["score"] == scores[1]["score"]


# one more token


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_token_attends_to_the_expected_keys(kind):
    """n keys and itself where attention is full, at every call; window and state as much as they ever keep."""
    shape, n = ContestShape(16, 2, 7, 2), 40
    subject = model(kind, shape).eval()
    with torch.no_grad():
        step, cache = mixers.make_step(subject, n)
        cache_bytes, longer_bytes = (
            sum(p.nbytes for p in mixers.cached_tensors(c)) for c in (cache, mixers.make_step(subject, 3 * n)[1])
        )
        step()
        with record() as calls:
            step()
    keys = [call.k.shape[2] for call in calls if not hasattr(call, "decay")]
    full, token_bytes = {"attention": 2, "hybrid": 1}.get(kind, 0), 2 * 16 * 4  # bytes of a token's key and value
    assert keys == ([n + 1] * full if kind != "window" else [shape.window + 2] * 2)  # the oldest is masked
    assert longer_bytes - cache_bytes == full * token_bytes * 2 * n
    if kind in ("attention", "window"):
        assert cache_bytes == 2 * token_bytes * (n + 1 if kind == "attention" else shape.window + 1)


def test_a_state_has_read_the_text():
    subject = model("delta", ContestShape(16, 2, 7, 2)).eval()
    read_lengths = []
    layer = subject.decoder[0].attention
    layer.register_forward_pre_hook(lambda module, inputs: read_lengths.append(inputs[0].shape[1]))
    with torch.no_grad():
        step, _ = mixers.make_step(subject, 2500)
        step()
    assert read_lengths == [1024, 1024, 452, 1]


# the whole


@pytest.fixture(scope="module", autouse=True)
def quick():
    """No time is looked at here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "race", partial(report.race, rounds=1, seconds=0))
        yield


@pytest.fixture(scope="module")
def results(quick, tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_text("to be or not to be, that is the question. " * 100, encoding="utf-8")
    return run("mixers", text=str(file), **SMALL)


def test_every_kind_is_measured_with_every_seed(results):
    for task in ("text", "recall"):
        rows = results[task]["rows"]
        assert [(row["seed"], row["kind"]) for row in rows] == [(s, kind) for s in (0, 1) for kind in KINDS]
    assert {(row["kind"], row["n"]) for row in results["cost"]} == {(kind, n) for kind in KINDS for n in (4, 40)}


def test_rates_are_the_best_of_the_recorded_sweep(results):
    for task, better in (("text", min), ("recall", max)):
        assert list(mixers.SWEEP[task]) == list(KINDS)
        for kind, scores in mixers.SWEEP[task].items():
            assert len(scores) == len(mixers.RATES)
            (best_rate,) = [m["rates"][task] for m in results["models"] if m["kind"] == kind]
            assert scores[mixers.RATES.index(best_rate)] == better(scores)


def test_tuning_chooses_by_seeds_that_are_not_measured(monkeypatch):
    used = []

    class Spy(TrainingRun):
        def run(self, on_progress):
            used.append((self.seed, self.settings.lr))
            score = 1 / (1 + abs(self.settings.lr - 0.01))  # 0.01 is best for everyone
            self.seconds = 1.0
            return [{"step": 1, "tokens": 1, "seconds": 1.0, "score": [score] * 2}]

    monkeypatch.setattr(mixers, "TrainingRun", Spy)
    monkeypatch.setattr(mixers, "_find_text", lambda name: None)
    results = run("mixers", tune=1, **SMALL)
    assert {model["rates"]["recall"] for model in results["models"]} == {0.01} and results["tuned"]
    rates = list(mixers.RATES)
    assert {rate for seed, rate in used if seed == mixers.SWEEP_SEED} == set(rates)
    assert {(seed, rate) for seed, rate in used if seed != mixers.SWEEP_SEED} == {(0, 0.01), (1, 0.01)}
    assert len(mixers.tables(results)) == len(mixers.tables(results | {"tuned": False})) + 1


def changed(results, **shares):
    """The same, with other shares of right answers."""
    other = copy.deepcopy(results)
    for row in other["recall"]["rows"]:
        if row["kind"] in shares:
            row["looks"][-1]["score"] = list(shares[row["kind"]])
    return other


def test_the_recall_summary_follows_the_numbers(results, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    all_right = dict.fromkeys(KINDS, (1.0, 1.0))
    cured = mixer_summary.shows(changed(results, **all_right | {"mamba2": (1.0, 0.4), "retention": (0.5, 0.3)}))
    assert "cures it: 40.0 % of 2 pairs without, 100 % with it" in cured
    assert "Mamba-2: up to 1 (40.0 % at 2)" in cured
    assert "retention: none (50.0 % at 1, 30.0 % at 2)" in cured
    assert "by itself" in mixer_summary.shows(changed(results, **all_right))
    not_cured = mixer_summary.shows(changed(results, **all_right | {"mamba2": (1.0, 0.4), "hybrid": (1.0, 0.5)}))
    assert "did not cure" in not_cured and "hybrid: up to 1 (50.0 % at 2)" in not_cured
    none = mixer_summary.shows(changed(results, **dict.fromkeys(KINDS, (0.5, 0.5))))
    assert "No model recalled" in none and "each held so: attention: none" in none and "others held" not in none


def test_the_text_summary_follows_the_numbers(results, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    other = copy.deepcopy(results)
    for row in other["text"]["rows"]:
        at = KINDS.index(row["kind"])
        for look in row["looks"]:
            look["seconds"] = look["step"] * (10.0 if at == 0 else 1.0)  # attention takes ten times as long
            look["score"] = [4 - look["step"] + at / 10 + row["seed"] / 100]
    summary = mixer_summary.shows(other)
    assert "attention came to the lowest loss (2.005 ±0.005), hybrid to the highest (2.505 ±0.005)" in summary
    assert "no other's seeds" in summary and "another leads: windowed attention, with 2.105" in summary
    for row in other["text"]["rows"]:
        row["looks"][-1]["score"][0] += row["seed"]
    assert "can't be told apart" in mixer_summary.shows(other)
    other["text"]["rows"] = other["text"]["rows"][: len(KINDS)]
    assert "by one seed each" in mixer_summary.shows(other) and "told apart" not in mixer_summary.shows(other)


def test_the_cost_summary_follows_the_numbers(results, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    other = copy.deepcopy(results)
    for row in other["cost"]:
        grows = row["kind"] == "delta" and row["n"] == 40
        row |= {"seconds": 3.0 if grows else 1.0, "kept": 700 if grows else 100, "worked": 0}
    summary = mixer_summary.shows(other)
    assert "a new token costs more: gated delta 7 times the memory, 3 times the time." in summary
    assert (
        "changes by 0 % at most, and their time to: attention 1 times; windowed attention 1 times; retention" in summary
    )
    for row in other["cost"]:
        row["kept"] = 100 if row["n"] == 4 else 900
    assert "the memory of these" not in mixer_summary.shows(other)


def test_a_best_rate_at_the_edge_of_the_sweep_is_reported(results, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    other = copy.deepcopy(results)
    for task in ("text", "recall"):
        for kind in KINDS:  # the best in the middle
            other["sweep"][task][kind] = [3.0, 2.0, 1.0, 2.0, 3.0] if task == "text" else [0.1, 0.2, 0.9, 0.2, 0.1]
    assert "lowest or the highest" not in mixer_summary.shows(other)
    other["sweep"]["recall"]["hybrid"] = [0.9, 0.2, 0.9, 0.2, 0.9]  # as good within
    assert "lowest or the highest" not in mixer_summary.shows(other)
    other["sweep"]["recall"]["delta"] = [0.9, 0.8, 0.7, 0.6, 0.5]
    assert "For gated delta the best was the lowest or the highest" in mixer_summary.shows(other)


def test_the_tables_have_the_numbers_of_the_run(results, monkeypatch):
    monkeypatch.setenv("QKV_LANG", "en")
    six, text, pairs, cost = map(str, mixers.tables(results))
    for kind, model_ in zip(KINDS, results["models"], strict=True):
        assert f"{model_['parameters']['text']:,}" in six and f"{model_['parameters']['recall']:,}" in six
        ends = [row["looks"][-1]["score"] for row in results["recall"]["rows"] if row["kind"] == kind]
        assert f"{100 * sum(end[1] for end in ends) / 2:.1f}" in pairs
    losses = [row["looks"][-1]["score"][0] for row in results["text"]["rows"] if row["kind"] == "delta"]
    assert f"{sum(losses) / 2:.3f} ±{abs(losses[0] - losses[1]) / 2:.3f}" in text
    assert "40" in cost.splitlines()[1]


def test_a_single_seed_and_size_suffice():
    results = run("mixers", **SMALL | dict(seeds=1, pairs=(2,), lengths=(5,)), text=__file__)
    assert mixers.shows(results) and mixers.tables(results) and mixers.draw(results).axes


def test_without_the_text_only_recall_and_cost_are_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="shakespeare"):
        results = run("mixers", **SMALL | dict(seeds=1))
    assert results["text"]["rows"] == [] and "qkv data get shakespeare" in mixers.shows(results)
    assert len(mixers.tables(results)) == 3 and mixers.draw(results).axes


def test_a_missing_text_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    with pytest.raises(Problem, match="qkv data get enwik8"):
        run("mixers", text="enwik8", **SMALL)
    with pytest.raises(Problem, match=r"nowhere\.txt"):
        run("mixers", text="nowhere.txt", **SMALL)
    (tmp_path / "short.txt").write_text("too short", encoding="utf-8")
    with pytest.raises(Problem, match="context of 128"):
        run("mixers", text=str(tmp_path / "short.txt"), **SMALL)


@pytest.mark.slow
def test_a_single_attention_layer_restores_recall():
    task, shape = Recall((2, 4, 8, 16, 32), 400), ContestShape(64, 2, 31, 4)
    last = {
        kind: TrainingRun(shape.config(kind, task.vocab, task.context), task, 0.02, 400, 0).run()[-1]["score"][-1]
        for kind in ("mamba2", "hybrid")
    }
    assert last["mamba2"] < 0.7 and last["hybrid"] > 0.9


assert mixer_contest.BATCH_TOKENS == 1024  # what is counted above
