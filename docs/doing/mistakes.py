"""Find the mistake in your attention: what qkv check does, done once by hand."""

# %% mine
from pathlib import Path
from runpy import run_path

import torch

here = Path(__file__).resolve()
root = next(up for up in here.parents if (up / "examples").is_dir())
MultiHeadAttention = run_path(str(root / "examples/check/mine.py"))["MultiHeadAttention"]

# %% runs
torch.manual_seed(0)
mine = MultiHeadAttention(d_model=24, num_heads=4).double()
x = torch.randn(2, 7, 24, dtype=torch.float64)
output = mine(x, x, x)
print(output.shape, "NaN:", output.isnan().any().item())

# %% compare
from itertools import product


def attention(x, scaled_by, swapped):
    made = mine.W_q(x), mine.W_k(x), mine.W_v(x)
    q, k, v = map(mine.split_heads, made)
    scores = q @ k.transpose(-2, -1) / scaled_by**0.5
    out = scores.softmax(-1) @ v
    out = out.transpose(1, 2) if swapped else out
    return mine.W_o(out.reshape(x.shape))


apart = {}
for scaled_by, swapped in product((6, 24), (True, False)):
    form = attention(x, scaled_by, swapped)
    apart[scaled_by, swapped] = (form - output).abs().max().item()
    print(f"√{scaled_by:<2}  heads moved back: {swapped!s:5}", end="  ")
    print(f"differs by {apart[scaled_by, swapped]:.0e}")
head_width, width = 6, 24

# %% probe
causal = torch.ones(7, 7, dtype=torch.bool).tril()
changed = x.clone()
changed[:, -1] += 1  # the last token alone | 只改最后一个词元
before = mine(x, x, x, causal)
after = mine(changed, changed, changed, causal)
moved = (after - before).abs().amax((0, 2))
for place, by in enumerate(moved.tolist()):
    print(f"token {place}   moved by {by:.4f}")

# %% polarity
# True = may attend here … | 这里 True 表示可以看……
sdpa = torch.nn.functional.scaled_dot_product_attention
q = torch.randn(1, 1, 3, 4)
allowed = torch.ones(3, 3, dtype=torch.bool).tril()
causal_rows = sdpa(q, q, torch.eye(3)[None, None], attn_mask=allowed)[0, 0]
# … and may not attend there. | ……那里 True 表示不许看。
there = torch.nn.MultiheadAttention(4, 1, batch_first=True)
_, rows = there(q[0], q[0], q[0], attn_mask=allowed)
print(causal_rows.round(decimals=2))
print(rows[0].detach().round(decimals=2))

# %% catalogue
from qkv.doctor.mistakes import CATALOGUE

known = len(CATALOGUE)

# %% test
from qkv import assert_correct

try:
    assert_correct(mine, heads=4)
except AssertionError as error:
    print(str(error).splitlines()[0])

# %% survey
import re

text = (root / "docs" / "check.md").read_text(encoding="utf-8")
surveyed, wrong = map(int, re.search(r"survey of (\d+) public .*? from scratch, (\d+) silently", text).groups())
