"""What attention costs: n², tiles, the KV cache, shared heads, the latent."""

# %% table
for n, unit, name in ((10, 1, "B"), (1_000, 1e6, "MB"), (100_000, 1e9, "GB")):
    cells = n * n
    print(f"{n:>7,}² = {cells:>14,}   × 4 = {4 * cells / unit:>3.0f} {name}")

# %% sizes
n, bytes_each = 100_000, 4
table_gb = n * n * bytes_each / 1e9
qkv_mb = 3 * n * 64 * bytes_each / 1e6
doubling = (2 * n) ** 2 / n**2

# %% by_hand
import numpy as np

by_scores, by_values = np.array([1.0, 2.0, 3.0, 0.0]), np.array([10.0, 20.0, 30.0, 40.0])
first, second = by_scores[:2], by_scores[2:]
top_1 = first.max()
sum_1 = np.exp(first - top_1).sum()
out_1 = np.exp(first - top_1) @ by_values[:2]
top_2 = max(top_1, second.max())
shrink = np.exp(top_1 - top_2)
sum_2 = sum_1 * shrink + np.exp(second - top_2).sum()
out_2 = out_1 * shrink + np.exp(second - top_2) @ by_values[2:]
whole = np.exp(by_scores) / np.exp(by_scores).sum() @ by_values

# %% online
import numpy as np


def online(q, k, v, block):
    top, total, out = -np.inf, 0.0, np.zeros(v.shape[1])
    for start in range(0, len(k), block):
        scores = k[start : start + block] @ q / np.sqrt(len(q))
        new = max(top, scores.max())
        # What was summed so far shrinks to the new maximum. | 已经累加的部分按新的最大值缩小。
        powers, shrink = np.exp(scores - new), np.exp(top - new)
        total = total * shrink + powers.sum()
        out = out * shrink + powers @ v[start : start + block]
        top = new
    return out / total


# %% same
rng = np.random.default_rng(0)
q, (k, v) = rng.normal(size=64), rng.normal(size=(2, 1000, 64))
scores = k @ q / np.sqrt(64)
weights = np.exp(scores - scores.max())
plain = weights / weights.sum() @ v
for block in (1, 7, 128, 1000):
    difference = np.abs(online(q, k, v, block) - plain).max()
    print(f"block {block:>4}: {difference:.0e}")


# %% cache
def attend(q, k, v):
    scores = q @ k.T / np.sqrt(k.shape[1])
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ v


x, (w_q, w_k, w_v) = rng.normal(size=(6, 8)), rng.normal(size=(3, 8, 8))
keys, vals = np.empty((0, 8)), np.empty((0, 8))
for t in range(6):
    # Only the new word is projected. | 只投影新来的词。
    keys = np.vstack([keys, x[t] @ w_k])
    vals = np.vstack([vals, x[t] @ w_v])
    cached = attend(x[t] @ w_q, keys, vals)
    anew = attend(x[t] @ w_q, x[: t + 1] @ w_k, x[: t + 1] @ w_v)
    print(f"{t + 1}: {np.abs(cached - anew).max():.0e}")

# %% kept
layers, heads, width, tokens, two_bytes = 32, 32, 128, 32_768, 2
numbers = {
    "MHA": 2 * heads * width,  # k and v of every head | 每个头的 k 和 v
    "GQA": 2 * 8 * width,  # of 8 shared heads | 8 个共用的头
    "MQA": 2 * 1 * width,  # of one head for all | 所有头共用一个
    "MLA": 512 + 64,  # one latent and its rotary key | 一个潜在向量和旋转键
}
for name, count in numbers.items():
    size = count * layers * tokens * two_bytes / 1e9
    print(f"{name}  {count:>5,} numbers  {size:>5.2f} GB")

# %% plain_kept
mha_gb = numbers["MHA"] * layers * tokens * two_bytes / 1e9
gqa_gb = numbers["GQA"] * layers * tokens * two_bytes / 1e9
mla_gb = numbers["MLA"] * layers * tokens * two_bytes / 1e9

# %% latent
c, q = rng.normal(size=(6, 4)), rng.normal(size=8)
w_k, w_v = rng.normal(size=(2, 4, 8))
rebuilt = (c @ w_k) @ q  # keys made anew from the latents | 由潜在向量恢复键
absorbed = c @ (w_k @ q)  # the query comes to the latents | 让查询去就潜在向量
print(f"{np.abs(rebuilt - absorbed).max():.0e}")
print(c.size, "<", (c @ w_k).size + (c @ w_v).size)

# %% head
from qkv.attention.tiles import tiles
from tools.book.figures import Look, demo

trace = demo("cat-smollm2")
call = trace.call(13)
q, k, v = call.q[0, 8].numpy(), call.k[0, 2].numpy(), call.v[0, 2].numpy()
seen = tiles(q[7:8], k[:8], v[:8], block=4)
for tile in seen.tiles:
    top, total, shrunk = tile.largest[0], tile.total[0], tile.shrink[0]
    print(f"keys {tile.keys.start}–{tile.keys.stop - 1}: max {top:.3f}  sum {total:.3f}  shrink {shrunk:.3f}")
print(f"output differs by at most {seen.difference:.0e}")

# %% shared
n_head, n_kv = call.q.shape[1], call.k.shape[1]
six, seven, eight = (trace.row(13, head, "it")[1] for head in (6, 7, 8))
saved = n_head / n_kv

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(
    ["it"],
    scores=[[1, 2, 3, 0]],
    v=[[10], [20], [30], [40]],
    key_words=["a", "b", "c", "d"],
    show=("scores", "weights", "output"),
)
shared_8 = Look(trace, 13, 8, focus=("it", "cat"))
