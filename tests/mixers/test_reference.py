"""The NumPy reference against itself: the whole matrix and the recurrence are two ways to the same numbers."""

import subprocess
import sys

import numpy as np
import pytest

from qkv.mixers import reference

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(2, 7, 3)), RNG.normal(size=(2, 7, 3)), RNG.normal(size=(2, 7, 4))
K /= np.linalg.norm(K, axis=-1, keepdims=True)
DECAY, WRITE = -RNG.uniform(size=(2, 7)), RNG.uniform(size=(2, 7))
MIXERS = {
    "retention": lambda q, k, v, n: reference.retention(q[:, :n], k[:, :n], v[:, :n], [0.9, 0.5]),
    "ssd": lambda q, k, v, n: reference.ssd(q[:, :n], k[:, :n], v[:, :n], WRITE[:, :n], np.array([-1.0, -0.2])),
    "delta": lambda q, k, v, n: reference.delta(q[:, :n], k[:, :n], v[:, :n], DECAY[:, :n], WRITE[:, :n]),
}


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_matrix_reads_what_the_recurrence_wrote(mixer):
    """y = Sᵀq after every token: the state of each prefix against the rows of the matrix."""
    whole = MIXERS[mixer](Q, K, V, 7)
    for n in range(1, 8):
        state = MIXERS[mixer](Q, K, V, n).state
        np.testing.assert_allclose(np.einsum("hd,hdp->hp", Q[:, n - 1], state), whole.output[:, n - 1], atol=1e-12)


def test_no_decay_is_linear_attention():
    whole = reference.retention(Q, K, V, [1.0, 1.0])
    np.testing.assert_allclose(whole.output, np.tril(Q @ K.swapaxes(1, 2)) @ V, atol=1e-12)


def test_the_delta_rule_overwrites():
    """Orthogonal keys are written side by side; a key written again holds the new value alone."""
    keys = np.eye(2)[[0, 1, 0]]
    values = np.array([[1.0], [2.0], [5.0]])
    assert reference.delta(keys, keys, values, np.zeros(3), np.ones(3)).state.tolist() == [[5.0], [2.0]]
    assert reference.linear(keys, keys, values, np.zeros(3)).state.tolist() == [[6.0], [2.0]]


def test_it_needs_no_torch():
    code = "import sys; from qkv.mixers import reference; reference.products([0.0]); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
