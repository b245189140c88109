"""The worked examples come out true: every number that people know them by, to the digits given."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import qkv
from examples import by_hand, cross, onehot, padded_batch, play, seed42, sharp, width512
from qkv.attention import Steps

FOLDER = Path(onehot.__file__).parent


def formula(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q·kᵀ/√d) and that times v, written out here so that nothing under test is used."""
    raised = np.exp(q @ k.T / np.sqrt(k.shape[-1]))
    weights = raised / raised.sum(-1, keepdims=True)
    return weights, weights @ v


def rounded(values: np.ndarray, digits: int = 3) -> list:
    return (np.round(values, digits) + 0.0).tolist()  # + 0.0 turns −0 into 0


EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    "path", [pytest.param(EXAMPLES[0], marks=pytest.mark.cold), *EXAMPLES[1:]], ids=lambda path: path.name
)
def test_runs_by_itself(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, path], capture_output=True, encoding="utf-8", timeout=60, env={**os.environ, "PYTHONUTF8": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and not done.stderr


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_speaks_chinese_too(path: Path) -> None:
    """Under LANG=zh no sentence stays English: what is left in Latin letters are names, numbers and the example's words."""
    environment = {**os.environ, "PYTHONUTF8": "1", "QKV_LANG": "zh"}
    done = subprocess.run([sys.executable, path], capture_output=True, encoding="utf-8", timeout=60, env=environment)
    english = re.findall(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", done.stdout)
    assert done.returncode == 0 and not english


def test_one_hot_words_look_at_themselves_a_little_more() -> None:
    done = onehot.attention()
    assert done.scores.tolist() == np.eye(3).tolist()
    assert done.scaled.tolist() == (0.5 * np.eye(3)).tolist()
    a, b = 0.452, 0.274  # not 0.506 and 0.247
    assert rounded(done.weights) == [[a, b, b], [b, a, b], [b, b, a]]
    assert rounded(done.output) == [[a, b, b, 0], [b, a, b, 0], [b, b, a, 0]]


def test_the_row_of_play_sums_to_1() -> None:
    done = play.attention()
    assert "".join(play.WORDS) == "今天天气真好，我想出去玩"
    assert done.scaled.tolist() == [[0.1, 0.2, 0.3, 0.4, 0.0, 0.1, 0.5, 0.6, 0.7, 0.8]]
    assert rounded(done.weights[0]) == [0.074, 0.082, 0.09, 0.1, 0.067, 0.074, 0.11, 0.122, 0.134, 0.149]
    assert done.weights.sum() == pytest.approx(1, abs=1e-15)  # not 0.87


def test_seed_42() -> None:
    done = seed42.attention()
    assert rounded(done.scores[0]) == [0.113, 0.092, -0.075, 0.043]
    assert rounded(done.weights[0]) == [0.257, 0.255, 0.238, 0.25]
    weights, output = formula(done.q, done.k, done.v)
    assert np.allclose(done.weights, weights, atol=1e-12) and np.allclose(done.output, output, atol=1e-12)


def test_seed_42_is_what_np_random_seed_gives() -> None:
    state = np.random.get_state()
    np.random.seed(42)
    x, w_q, w_k, w_v = np.random.randn(4, 6), *(0.1 * np.random.randn(6, 6) for _ in range(3))
    np.random.set_state(state)
    done = seed42.attention()
    assert np.allclose(done.q, x @ w_q) and np.allclose(done.k, x @ w_k) and np.allclose(done.v, x @ w_v)


def test_9631() -> None:
    done = sharp.attention()
    assert done.scaled.tolist() == [[9, 6, 3, 1]]
    assert rounded(done.weights[0]) == [0.95, 0.047, 0.002, 0]  # not .75 .15 .07 .03
    assert rounded(sharp.attention(scale=0.5).weights[0]) == [0.774, 0.173, 0.039, 0.014]


class TestWidth512:
    def test_plain(self) -> None:
        done, x = width512.plain(), width512.X
        assert x.shape == (4, 512)
        assert np.allclose(done.scores, x @ x.T, atol=1e-9)
        weights, output = formula(x, x, x)
        assert np.allclose(done.weights, weights, atol=1e-12) and np.allclose(done.output, output, atol=1e-12)
        assert (done.weights.argmax(-1) == np.arange(4)).all() and (done.weights.diagonal() > 0.999).all()

    def test_projected(self) -> None:
        done = width512.projected()
        w_q, w_k, w_v = (np.hstack([w[h] for h in range(8)]) for w in (width512.W_Q, width512.W_K, width512.W_V))
        weights, output = formula(width512.X @ w_q, width512.X @ w_k, width512.X @ w_v)
        assert np.allclose(done.weights, weights, atol=1e-12) and np.allclose(done.output, output, atol=1e-12)

    def test_shapes_of_eight_heads(self) -> None:
        _, shapes = width512.all_at_once()
        assert shapes == [(1, 4, 512), (1, 8, 4, 64), (1, 4, 512)]

    def test_per_head_is_fused(self) -> None:
        x = width512.X
        matrices = zip(width512.W_Q, width512.W_K, width512.W_V, strict=True)
        ours = np.hstack([formula(x @ w_q, x @ w_k, x @ w_v)[1] for w_q, w_k, w_v in matrices]) @ width512.W_O
        fused = [width512.fused(w) for w in (width512.W_Q, width512.W_K, width512.W_V)]
        assert [w.shape for w in fused] == [(512, 512)] * 3
        for result in (
            width512.head_by_head(),
            width512.all_at_once()[0],
            qkv.steps(x, *fused, width512.W_O, n_head=8).output,
        ):
            assert np.allclose(result, ours, atol=1e-12)


class TestPaddedBatch:
    def test_padding_weighs_exactly_nothing_in_all_heads(self) -> None:
        _, weights = padded_batch.attention()
        assert padded_batch.IDS.tolist() == [[5, 2, 1, 0, 0], [1, 3, 1, 4, 0]]
        assert weights.shape == (2, 8, 5, 5)
        assert (weights[0, :, :, 3:] == 0).all() and (weights[1, :, :, 4:] == 0).all()
        assert (weights[0, :, :, :3] > 0).all() and (weights[1, :, :, :4] > 0).all()
        assert torch.allclose(weights.sum(-1), torch.ones(2, 8, 5))

    @pytest.mark.parametrize(("row", "length"), [(0, 3), (1, 4)])
    def test_is_the_sentence_without_its_padding(self, row: int, length: int) -> None:
        output, weights = padded_batch.attention()
        words, mha = padded_batch.model()
        with torch.no_grad():
            x = words(padded_batch.IDS[row, :length])  # (length, 64)
            q, k, v = (np.split(linear(x).double().numpy(), 8, axis=1) for linear in (mha.q, mha.k, mha.v))
            heads = [formula(q[h], k[h], v[h]) for h in range(8)]
            merged = mha.out(torch.from_numpy(np.hstack([o for _, o in heads])).float())
        assert np.allclose(weights[row, :, :length, :length], [w for w, _ in heads], atol=1e-6)
        assert torch.allclose(output[row, :length], merged, atol=1e-6)


class TestByHand:
    """Each number as pencil and paper give it, with e^0.7071 = 2.028, e^1.4142 = 4.113, e^2.1213 = 8.342."""

    @pytest.fixture
    def done(self) -> Steps:
        return by_hand.attention()

    def test_projections(self, done: Steps) -> None:
        assert done.q.tolist() == [[1, 0], [1, 1], [2, 1]]
        assert done.k.tolist() == [[0, 1], [1, 0], [1, 1]]
        assert done.v.tolist() == [[1, 2], [0, 3], [1, 5]]

    def test_scores(self, done: Steps) -> None:
        assert done.scores.tolist() == [[0, 1, 1], [1, 1, 2], [1, 2, 3]]
        assert rounded(done.scaled) == [[0, 0.707, 0.707], [0.707, 0.707, 1.414], [0.707, 1.414, 2.121]]
        assert done.masked.tolist() == done.scaled.tolist()

    def test_softmax(self, done: Steps) -> None:
        raised = by_hand.powers(done)
        assert rounded(raised) == [[1, 2.028, 2.028], [2.028, 2.028, 4.113], [2.028, 4.113, 8.342]]
        assert rounded(raised.sum(-1)) == [5.056, 8.169, 14.484]
        assert rounded(done.weights) == [[0.198, 0.401, 0.401], [0.248, 0.248, 0.503], [0.14, 0.284, 0.576]]

    def test_output(self, done: Steps) -> None:
        assert rounded(by_hand.terms(done, 0)) == [[0.198, 0.396], [0, 1.203], [0.401, 2.006]]
        assert rounded(by_hand.terms(done, 1)) == [[0.248, 0.497], [0, 0.745], [0.503, 2.517]]
        assert rounded(by_hand.terms(done, 2)) == [[0.14, 0.28], [0, 0.852], [0.576, 2.88]]
        assert rounded(done.output) == [[0.599, 3.604], [0.752, 3.759], [0.716, 4.012]]
        for row in range(3):
            assert np.allclose(by_hand.terms(done, row).sum(0), done.output[row])


def test_cross_attention_takes_q_from_x_and_k_and_v_from_memory() -> None:
    done = cross.attention()
    assert (len(cross.TARGET), len(cross.SOURCE)) == (5, 7)
    assert (done.q.shape, done.k.shape, done.v.shape) == ((5, 4), (7, 4), (7, 4))
    assert (done.weights.shape, done.output.shape) == ((5, 7), (5, 4))
    weights, output = formula(cross.X @ cross.W_Q, cross.MEMORY @ cross.W_K, cross.MEMORY @ cross.W_V)
    assert np.allclose(done.weights, weights, atol=1e-12) and np.allclose(done.output, output, atol=1e-12)
