"""Masks: who may look at whom."""

# %% by_hand
import numpy as np

scores = np.array([2.0, 1.0, 0.0, 3.0])  # the last is padding | 最后一个是填充
may = np.array([True, True, True, False])  # True = may attend | True = 可以看


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


open_row = softmax(scores)
weights = softmax(np.where(may, scores, -np.inf))
print("no mask        ", open_row.round(3))
print("−∞ before      ", weights.round(3))

# %% wrong
zeros = softmax(np.where(may, scores, 0))
after = np.where(may, softmax(scores), 0)
print("0 before       ", zeros.round(3), "sum", zeros.sum().round(3))
print("0 after softmax", after.round(3), "sum", after.sum().round(3))

# %% masks
n = 4
causal = np.tril(np.ones((n, n), bool))  # key j ≤ query i | 键 j ≤ 查询 i
padding = np.broadcast_to(may, (n, n))  # the same for every query | 每个查询都一样
both = causal & padding
signs = np.where([causal, padding, both], "■", "·")
for i in range(n):
    print("     ".join(" ".join(mask[i]) for mask in signs))

# %% nothing
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import qkv
from qkv import MultiHeadAttention, masks

torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 1, 3, 4)  # each (batch, heads, tokens, width)
may_see = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 1, 1]]).bool()
raw = q @ k.transpose(-2, -1) / 4**0.5

rows = {
    "filled with −∞": raw.masked_fill(~may_see, -torch.inf).softmax(-1) @ v,
    "filled with −1e9": raw.masked_fill(~may_see, -1e9).softmax(-1) @ v,
    "torch's SDPA": sdpa(q, k, v, attn_mask=may_see),
    "qkv.attend": qkv.attend(q, k, v, mask=may_see),
}
for name, output in rows.items():
    print(f"{name:17}", output[0, 0, 0].numpy().round(3))

# %% nothing_numbers
average = v[0, 0].mean(0)
same = bool(torch.allclose(rows["filled with −1e9"][0, 0, 0], average))
assert same and rows["filled with −∞"][0, 0, 0].isnan().all() and not rows["torch's SDPA"][0, 0, 0].any()

# %% libraries slow
from torch import nn
from transformers import BertConfig, BertModel

sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
bert = BertModel(BertConfig(**sizes, intermediate_size=8)).eval()
mha = nn.MultiheadAttention(8, 2, batch_first=True).eval()
ours = MultiHeadAttention(8, n_head=2)
layers = {
    "MultiheadAttention": lambda x, m: mha(x, x, x, key_padding_mask=m)[0],
    "SDPA": lambda x, m: sdpa(x, x, x, attn_mask=m[:, None]),
    "transformers": lambda x, m: bert(inputs_embeds=x, attention_mask=m)[0],
    "qkv": lambda x, m: ours(x, mask=masks.padding(m)),
}

mask = torch.tensor([[True, True, False]])
x = torch.randn(1, 3, 8)
changed = torch.cat([x[:, :2], torch.randn(1, 1, 8)], 1)  # another last token | 换掉最后一个
with torch.no_grad():
    for name, layer in layers.items():
        before, now = layer(x, mask)[:, 0], layer(changed, mask)[:, 0]
        means = "may attend" if torch.equal(before, now) else "hidden"
        print(f"{name:18}  True = {means}")

# %% attn_mask
told = {}
square = torch.tensor([[True, True, False]]).expand(3, 3)
with torch.no_grad():
    x, layer = torch.randn(1, 3, 8), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    for name in ("attn_mask", "key_padding_mask"):
        given = square if name == "attn_mask" else square[:1]
        told[name] = layer(x, x, x, **{name: given})[1][0, 0].tolist()
assert all(one[:2] == [0, 0] and one[2] == 1 for one in told.values())

# %% corner
torch.manual_seed(0)
query, keys = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 3, 4)
values = torch.eye(3)[None, None]  # so that the output is the weights | 这样输出就是权重
theirs = sdpa(query, keys, values, is_causal=True)
mine = qkv.attend(query, keys, values, mask=masks.causal())
print("SDPA, is_causal", theirs[0, 0, 0].numpy().round(3))
print("qkv, causal()  ", mine[0, 0, 0].numpy().round(3))

# %% batch
ids = torch.tensor([[5, 2, 1, 0, 0], [1, 3, 1, 4, 0]])  # 0: padding | 0：填充
torch.manual_seed(0)
embedding = torch.nn.Embedding(6, 64)
attention = MultiHeadAttention(64, n_head=8)
with torch.no_grad():
    x, real = embedding(ids), masks.padding(ids != 0)
    output, shares = attention(x, mask=real, weights=True)
print("weights", tuple(shares.shape))
print(shares[0, 0].numpy().round(3))

# %% alone
hidden = (ids == 0)[:, None, None, :].expand_as(shares)
with torch.no_grad():
    alone = attention(embedding(ids[:1, :3]))  # the first text by itself | 第一条文本单独算
difference = float((output[:1, :3] - alone).abs().max())
print("largest weight on padding, all heads:", shares[hidden].max().item())
print(f"in the batch − alone, at most:        {difference:.0e}")

# %% batch_numbers
from examples import padded_batch

n_text, n_head, n_place, _ = shares.shape
assert padded_batch.IDS.equal(ids) and torch.equal(padded_batch.attention()[1], shares)
assert shares[hidden].max() == 0 and torch.allclose(shares.sum(-1), torch.ones(2, 8, 5))

# %% head
from tools.book.figures import Look, demo

writer, reader = demo("cat-smollm2"), demo("cat-minilm")
row = writer.steps(13, 8, "it")
for key, score, weight in zip(row.keys, row.masked[0], row.weights[0], strict=True):
    print(f"{key:8} {score:7.3f}  {weight:.3f}")
after_it = [key for key, score in zip(row.keys, row.masked[0], strict=True) if score == -np.inf]

# %% reader_numbers
ahead = reader.map(2, 8)
names = reader.tokens().shown
assert names[1:3] == ["the", "cat"] and names[8:11] == ["it", "was", "tired"]

# %% figures
from qkv.draw.head_machine import Machine

table = [[1, 0, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3], [1, 1, 0, 3]]
words = ["I", "like", "tea", "▢"]
machine = Machine(words, scores=table, mask=both, scale="none", show=("scores", "masked", "weights"))
labels = [[str(one) if one else "pad" for one in text] for text in ids.tolist()]


def heads(lang):
    return qkv.heatmap(shares, labels, allowed=~hidden.numpy(), lang=lang)


triangle = Look(writer, 13, 8, show=("map",), focus=("it", "cat"))
square = Look(reader, 2, 8, show=("map",), focus=(1, 2))
