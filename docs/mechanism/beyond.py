"""What else may stand where attention stands: retention, Mamba-2, the delta rule."""

# %% trained slow
import contextlib
import io
import tempfile
from pathlib import Path

import qkv
from qkv.train import run as runs

# Kept beside this script: what a small model that was trained here does with one line.
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    changes = {"mixer": "delta×3 attention", "steps": 300}
    runs.start("lm", out=Path(folder) / "run", source="shakespeare", changes=changes).train()
    trained, tokenizer = qkv.load(Path(folder) / "run")
    made = qkv.trace(trained, "My lord, my lord is come", tokenizer)
    made.save(Path(__file__).with_suffix(".safetensors"), half=True)
    training_steps, train_layers = changes["steps"], trained.config.n_layer

# %% table
import numpy as np

k = q = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
v = np.array([[3.0], [7.0], [5.0]])
gamma = 0.5
left = np.tril(gamma ** np.maximum(np.subtract.outer(range(3), range(3)), 0))
a = left * (q @ k.T)
print(a, (a @ v).ravel(), sep="\n")

# %% by_hand
faded = gamma * gamma * v[0, 0]
smooth = np.exp((q @ k.T)[2] / np.sqrt(2))
attended = float((smooth / smooth.sum() @ v)[0])


# %% forms
def parallel(q, k, v, gamma):
    steps = np.subtract.outer(range(len(q)), range(len(q)))
    return np.tril(gamma ** np.maximum(steps, 0)) * (q @ k.T) @ v


def recurrent(q, k, v, gamma):
    state, y = np.zeros((k.shape[1], v.shape[1])), []
    for t in range(len(q)):
        state = gamma * state + np.outer(k[t], v[t])
        y.append(q[t] @ state)
    return np.array(y)


def chunked(q, k, v, gamma, size):
    state, y = np.zeros((k.shape[1], v.shape[1])), []
    for start in range(0, len(q), size):
        part = slice(start, start + size)
        n = len(q[part])
        fade = gamma ** np.arange(1, n + 1)[:, None]
        inside = parallel(q[part], k[part], v[part], gamma)
        y.append(inside + fade * (q[part] @ state))
        state = gamma**n * state + (fade[::-1] / gamma * k[part]).T @ v[part]
    return np.concatenate(y)


# %% equal
rng = np.random.default_rng(0)
long_q, long_k, long_v = rng.normal(size=(3, 200, 16)) / 4
whole = parallel(long_q, long_k, long_v, 0.97)
one_by_one = recurrent(long_q, long_k, long_v, 0.97)
in_chunks = chunked(long_q, long_k, long_v, 0.97, size=64)
print(f"recurrent  {np.abs(one_by_one - whole).max():.0e}")
print(f"chunkwise  {np.abs(in_chunks - whole).max():.0e}")


# %% delta
def delta(q, k, v, beta):
    state, y = np.zeros((k.shape[1], v.shape[1])), []
    for t in range(len(q)):
        # What stands under this key now | 这个键名下现在的内容
        held = k[t] @ state
        state = state + beta * np.outer(k[t], v[t] - held)
        y.append(q[t] @ state)
    return np.array(y)


print(delta(q, k, v, beta=1.0).ravel(), recurrent(q, k, v, 1.0).ravel())

# %% signed
from qkv.mixers import reference

keys = np.array([[1.0, 0.0], [0.6, 0.8]])
asks = np.array([[1.0, 0.0], [0.0, 1.0]])
values = np.array([[3.0], [7.0]])
mixed = reference.delta(asks, keys, values, decay=[0, 0], write=[1, 1])
print(mixed.weights.round(2))

# %% mamba
one, x = np.ones((3, 1)), np.array([[8.0], [0.0], [1.0]])
steps = np.array([1.0, 1.0, 4.0])
mamba = reference.ssd(one, one, x, steps, rate=-np.log(2))
print(mamba.weights.round(3), mamba.output.ravel(), sep="\n")

# %% sizes
d = 64
state_numbers, per_word = d * d, 2 * d
as_many = state_numbers // per_word

# %% real
from qkv.tracing.views.traces import Trace
from tools.book.figures import Look

trace = Trace.load(__file__.replace(".py", ".safetensors"))
tables = {
    (layer, head): trace.map(layer, head, part="mixers")
    for layer in trace.layers("mixers")
    for head in range(trace.n_head("mixers", layer))
}
layer, head = min(tables, key=lambda place: np.tril(tables[place], -1).min())
table = tables[layer, head]
below = float((table < 0).sum() / np.tri(len(table)).sum())
letters = trace.tokens("mixers").shown
asker, taken = (int(one) for one in np.unravel_index(np.tril(table, -1).argmin(), table.shape))

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(["Ann", "Bob", "Ann"], q=q, k=k, v=v, mask="causal", show=("qkv", "scores", "weights", "output"))
signed_head = Look(trace, layer, head, part="mixers", focus=(asker, taken))
attention_head = Look(trace, trace.layers("decoder")[0], 0, part="decoder")
