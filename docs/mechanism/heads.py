"""Many heads: several questions at once."""

# %% by_hand
import numpy as np


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attend(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


words = ["it", "cat", "tired"]
q = np.array([[3.0, 0, 0, 3]])  # of "it" | it 的查询
k = np.array([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
v = np.array([[0.0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])

one_head = attend(q, k, v)
first = attend(q[:, :2], k[:, :2], v[:, :2])
second = attend(q[:, 2:], k[:, 2:], v[:, 2:])
print("one head of 4: ", one_head[0].round(3))
print("two heads of 2:", first[0].round(3), second[0].round(3))

# %% by_hand_numbers
shares = {
    "one": softmax(q @ k.T / 2)[0],
    "first": softmax(q[:, :2] @ k[:, :2].T / np.sqrt(2))[0],
    "second": softmax(q[:, 2:] @ k[:, 2:].T / np.sqrt(2))[0],
}

# %% multi_head
import torch


def multi_head(x, w_q, w_k, w_v, w_o, n_head):
    def cut(x):  # (N, C) → (H, N, D)
        return x.view(len(x), n_head, -1).transpose(0, 1)

    q, k, v = cut(x @ w_q), cut(x @ w_k), cut(x @ w_v)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (H, N, N)
    heads = scores.softmax(-1) @ v  # (H, N, D)
    side_by_side = heads.transpose(0, 1).reshape(len(x), -1)  # (N, C)
    return side_by_side @ w_o


# %% equal
torch.manual_seed(0)
theirs = torch.nn.MultiheadAttention(512, 8, bias=False, batch_first=True)
x = torch.randn(4, 512)
matrices = [*theirs.in_proj_weight.chunk(3), theirs.out_proj.weight]
with torch.no_grad():
    ours = multi_head(x, *(m.T for m in matrices), n_head=8)
    output, _ = theirs(x[None], x[None], x[None])
print("ours  ", ours[0, :5].numpy().round(4))
print("theirs", output[0, 0, :5].numpy().round(4))
print("all equal to 6 digits:", torch.allclose(ours, output[0], atol=1e-6))

# %% equal_numbers
assert torch.allclose(ours, output[0], atol=1e-6) and output.abs().max() > 0.1

# %% cut
rows = [[11, 12, 13, 14], [21, 22, 23, 24], [31, 32, 33, 34]]
tokens = torch.tensor(rows)  # 3 tokens of width 4 | 3 个词元，宽 4
right = tokens.view(3, 2, 2).transpose(0, 1)  # (N, H, D) → (H, N, D)
wrong = tokens.view(2, 3, 2)  # (H, N, D) at once | 直接变成 (H, N, D)
print("right, head 0:", right[0].tolist())
print("wrong, head 0:", wrong[0].tolist())

# %% merge
heads = right.contiguous()  # (H, N, D), as attention leaves it | 注意力算完就是这样
print("right:", heads.transpose(0, 1).reshape(3, 4).tolist())
print("wrong:", heads.reshape(3, 4).tolist())
try:
    heads.transpose(0, 1).view(3, 4)
except RuntimeError as error:
    print("view: ", str(error).split(" (")[0])

# %% merge_numbers
joined = heads.transpose(0, 1).reshape(3, 4)
assert joined.tolist() == rows
try:
    heads.transpose(0, 1).view(3, 4)
except RuntimeError:
    refused = True
assert refused

# %% plain
draw = np.random.default_rng(0)
X = draw.standard_normal((4, 512))  # 人, 工, 智, 能 | 人、工、智、能
plain = softmax(X @ X.T / np.sqrt(512))
print((X @ X.T / np.sqrt(512)).round(1))
print(plain.round(3))

# %% projected
from examples.width512 import W_K, W_O, W_Q, W_V, fused

w_q, w_k, w_v = fused(W_Q), fused(W_K), fused(W_V)  # each (512, 512) | 都是 (512, 512)
single = softmax((X @ w_q) @ (X @ w_k).T / np.sqrt(512))
print(single.round(3))

# %% eight
heads = [attend(X @ W_Q[h], X @ W_K[h], X @ W_V[h]) for h in range(8)]
long_way = np.concatenate(heads, axis=1) @ W_O

given = [torch.from_numpy(one) for one in (X, w_q, w_k, w_v, W_O)]
all_at_once = multi_head(*given, n_head=8).numpy()
print("W_q of one head", W_Q[0].shape, "side by side", w_q.shape)
print("equal to 12 digits:", np.allclose(long_way, all_at_once, atol=1e-12))

# %% eight_numbers
from examples import width512

made, shapes = width512.all_at_once()
assert np.allclose(made, all_at_once) and np.allclose(made, long_way) and np.array_equal(X, width512.X)
assert np.allclose(single, width512.projected().weights) and np.allclose(plain, width512.plain().weights)
scaled = X @ X.T / np.sqrt(512)
off = scaled[~np.eye(4, dtype=bool)]
other_share = 1 - plain.diagonal().min()
n_wide, head_width = width512.HEADS, width512.HEAD_WIDTH

# %% head
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
n_head = trace.n_head()
for head in range(n_head):
    row = trace.steps(13, head, "it")
    best = np.argsort(-row.weights[0])[:2]
    print(f"head {head}:", *(f"  {row.keys[key]:8} {row.weights[0, key]:.2f}" for key in best))

# %% grouped
call = trace.call(13)
n_kv_head = call.k.shape[1]
print("q", tuple(call.q.shape), "  k", tuple(call.k.shape), "  v", tuple(call.v.shape))

# %% figures
from qkv.draw.head_machine import Machine

shown = ("qkv", "scores", "scaled", "weights", "output")
first_head = Machine(["it"], key_words=words, q=q[:, :2], k=k[:, :2], v=v[:, :2], show=shown)
second_head = Machine(["it"], key_words=words, q=q[:, 2:], k=k[:, 2:], v=v[:, 2:], show=shown)
layer = Look(trace, 13, 8, show=("map", "lines"), focus=("it", "cat"))
