"""Where the whole can't be compared, its parts are: what the values are multiplied with, what is added to the input, what a
mask and a window leave together. Each mistake beside the right code that looks most like it."""

import pytest

from tests.selection import slow_except

from .test_usage import checked

BIASED = """
class Atoms(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.slope = nn.Parameter(torch.ones(heads))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, far, atoms):  # atoms (B, A), True = atom
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        s = q @ k.mT / q.shape[-1] ** 0.5 - self.slope[:, None, None] * far[:, None]
        # here
        return x + self.o((w @ v).transpose(1, 2).flatten(2))


if __name__ == "__main__":
    places = torch.randn(2, 6, 3)
    atoms = torch.arange(6)[None] < torch.tensor([6, 4])[:, None]
    print(Atoms(32, 4)(torch.randn(2, 6, 32), torch.cdist(places, places), atoms).shape)
"""
BEFORE = "w = s.masked_fill(~atoms[:, None, None], -1e9).softmax(-1)"
LETTERS = """
def start(width, heads):
    w = {n: torch.randn(width, heads, width // heads) * width ** -0.5 for n in ("wq", "wk", "wv")}
    return {**w, "wo": torch.randn(heads, width // heads, width) * width ** -0.5}


def attend(weights, x):
    q, k, v = (torch.einsum("bim,mhd->bihd", x, weights[n]) for n in ("wq", "wk", "wv"))
    s = torch.einsum("bihd,bjhd->bijh", q, k) / q.shape[-1] ** 0.5
    w = torch.tanh(s).softmax(-2)
    return torch.einsum("bijh,bjhd,hdm->bim", w, v, weights["wo"])


print(attend(start(24, 4), torch.randn(2, 5, 24)).shape)
"""
LAYER = """
class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.one(x + self.o(y))
        return self.two(x + self.down(F.gelu(self.up(x))))
"""
NEAR = """
class Near(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, padding=None, reach=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        n = x.shape[1]
        see = torch.ones(len(x), 1, n, n, dtype=torch.bool)
        if padding is not None:
            see = see & padding[:, None, None, :]
        if reach is not None:
            at = torch.arange(n)
            see = see & ((at[:, None] - at).abs() < reach)
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=see).transpose(1, 2).flatten(2))
"""
HANDED = """
def start(width):
    return {n: np.random.randn(width, width) * width ** -0.5 for n in ("q", "k", "v", "o")}


def attend(x, w, heads=2):
    b, n, c = x.shape
    q, k, v = ((x @ w[name]).reshape(b, n, heads, -1).swapaxes(1, 2) for name in ("q", "k", "v"))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(c // heads)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(b, n, c) @ w["o"]


print(attend(np.random.randn(2, 5, 12), start(12)).shape)
"""
# The right code, its name, and what turns it into the mistake
PAIRS = {
    "X7": (BIASED.replace("# here", BEFORE), "Atoms", (BEFORE, "w = s.softmax(-1) * atoms[:, None, None]")),
    "X1": (BIASED.replace("# here", BEFORE), "Atoms", (".softmax(-1)", ".softmax(-2)")),
    "X2": (LETTERS, "attend", ("softmax(-2)", "softmax(0)")),
    "X3": (LETTERS, "attend", ("softmax(-2)", "softmax(-1)")),
    "P4": (LAYER, "Layer", ("self.o(y)", "y")),
    "M5": (NEAR, "Near", ("see = see & ((at", "see = ((at")),
    "P1": (HANDED, "attend", ('in ("q", "k", "v"))\n    s', 'in ("q", "k", "k"))\n    s')),
}


@pytest.mark.parametrize("mistake", slow_except([*PAIRS][:3], PAIRS))
def test_a_part_is_compared_where_the_whole_cant_be(tmp_path, mistake):
    code, name, (right, wrong) = PAIRS[mistake]
    report = checked(tmp_path, code, name)
    assert report.verdict in ("right", "partly"), (report.findings, report.problem)
    assert right in code
    report = checked(tmp_path, code.replace(right, wrong), name)
    assert [one.id for one in report.findings][:1] == [mistake], (report.findings, report.problem, report.unseen)
