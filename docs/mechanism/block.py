"""The block: residual, norm, feed-forward, encoder and decoder."""

# %% norm
import numpy as np


def norm(x):
    # Mean 0 and mean square 1, for each word by itself. | 每个词各自变成均值 0、方差 1。
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


# %% small
words = np.array([[4.0, 0.0], [0.0, 2.0]])
looked = norm(words)
scores = looked @ looked.T / np.sqrt(2)
weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
heard = weights @ looked
middle = words + heard
up = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
down = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
wide = norm(middle) @ up
thought = np.maximum(wide, 0) @ down
after = middle + thought

# %% block
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def look(self, x):
        return self.attention(x, x, x, need_weights=False)[0]

    def think(self, x):
        return self.down(F.relu(self.up(x)))

    def forward(self, x):
        x = x + self.look(self.norm1(x))
        return x + self.think(self.norm2(x))


# %% torchs
torch.manual_seed(0)
ours = Block(32, 4)
like = dict(dim_feedforward=128, dropout=0.0, batch_first=True)
theirs = nn.TransformerEncoderLayer(32, 4, norm_first=True, **like)
theirs.self_attn.load_state_dict(ours.attention.state_dict())
theirs.linear1.load_state_dict(ours.up.state_dict())
theirs.linear2.load_state_dict(ours.down.state_dict())
x = torch.randn(1, 10, 32)
difference = (ours(x) - theirs(x)).abs().max().item()
print(difference < 1e-6)

# %% deep
WIRINGS = {
    "no residual": lambda x, f, norm: f(norm(x)),
    "pre-norm": lambda x, f, norm: x + f(norm(x)),
    "post-norm": lambda x, f, norm: norm(x + f(x)),
}


def through(wiring, depth):
    torch.manual_seed(0)
    blocks = [Block(32, 4) for _ in range(depth)]
    x = start = torch.randn(1, 10, 32, requires_grad=True)
    for block in blocks:
        x = wiring(x, block.look, block.norm1)
        x = wiring(x, block.think, block.norm2)
    x[0, -1, 0].backward()
    unit = F.normalize(x[0], dim=-1)
    alike = (unit @ unit.T)[~torch.eye(10, dtype=bool)].mean().item()
    return alike, start.grad.norm().item()


# %% compared
tokens_deep, deepest = 10, 30
found = {name: [through(wiring, depth) for depth in (1, 6, 30)] for name, wiring in WIRINGS.items()}
print("             alike: 1      6     30    slope: 1     6    30")
for name, rows in found.items():
    alike = "  ".join(f"{one:5.2f}" for one, _ in rows)
    slopes = "  ".join(f"{one:4.2f}" for _, one in rows)
    print(f"{name:12}     {alike}        {slopes}")

# %% models
from qkv import Config, Transformer

shape = dict(vocab=1000, width=64, n_layer=2, n_head=4, context=128)
for kind in ("encoder", "decoder", "encoder-decoder"):
    model = Transformer(Config(kind=kind, **shape))
    total = sum(weight.numel() for weight in model.parameters())
    print(f"{kind:16} {total:,}")

# %% real
from tools.book.figures import Look, demo

trace = demo("weather-opus-zh-en")
later = {}
for part in ("encoder", "decoder"):
    tables = [trace.map(layer, head, part=part) for layer in range(6) for head in range(8)]
    later[part] = float(np.mean([np.triu(table, 1).sum(-1).mean() for table in tables]))
layers, heads = trace.n_layer("encoder"), trace.n_head("encoder")
chain = trace.patterns(part="encoder").best("next", 1)[0]
back = trace.patterns(part="decoder").best("previous", 1)[0]

# %% figures
from qkv.draw.head_machine import Machine

machine = Machine(["a", "b"], x=[[1, -1], [-1, 1]], show=("x", "scores", "weights", "output"))
encoder = Look(trace, chain.layer, chain.head, part="encoder")
decoder = Look(trace, back.layer, back.head, part="decoder")
