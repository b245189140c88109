"""What a file shows of its own use says how to build and to call what its names keep to themselves."""

import re
import textwrap

import pytest

from qkv.doctor import doctor
from qkv.doctor.source import file as source
from qkv.doctor.subject import usage

HEAD = "import torch\nimport torch.nn as nn\nimport numpy as np\n"
PAIR = """
class Blick(nn.Module):
    def __init__(self, breite, stücke):
        super().__init__()
        self.s = stücke
        self.a, self.b, self.c, self.d = (nn.Linear(breite, breite) for _ in range(4))
    def forward(self, hier, dort):
        teile = lambda t: t.unflatten(-1, (self.s, -1)).transpose(1, 2)
        p, r, w = teile(self.a(hier)), teile(self.b(dort)), teile(self.c(dort))
        g = torch.softmax(p @ r.mT / p.shape[-1] ** 0.5, dim=-1)
        return self.d((g @ w).transpose(1, 2).flatten(2))
"""
WEIGHTS = """
def blick(satz, gewichte, teile):
    n, d = satz.shape
    q, k, v = (np.stack(np.split(satz @ gewichte[w], teile, -1)) for w in "abc")
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d // teile)
    g = np.exp(s - s.max(-1, keepdims=True))
    g = g / g.sum(-1, keepdims=True)
    return np.concatenate(list(g @ v), -1) @ gewichte["d"]
"""
EDGES = """
class Netz(nn.Module):
    def __init__(self, breite):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(breite, breite) for _ in range(3))
    def forward(self, knoten, kanten):
        s = self.a(knoten) @ self.b(knoten).mT / knoten.shape[-1] ** 0.5
        return s.masked_fill(kanten == 0, float("-inf")).softmax(-1) @ self.c(knoten)
"""
IMAGE = """
class Bild(nn.Module):
    def __init__(self, kanäle):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(kanäle, kanäle, 1) for _ in range(3))
    def forward(self, bild):
        q, k, v = (f(bild).flatten(2).mT for f in (self.a, self.b, self.c))
        z = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return z.mT.reshape(bild.shape)
"""
ONE = """
class Frage(nn.Module):
    def __init__(self, breite):
        super().__init__()
        self.b = nn.Linear(breite, breite)
    def forward(self, stand, worte, wieviele):
        s = torch.einsum("bd,btd->bt", stand, self.b(worte)) / stand.shape[-1] ** 0.5
        s = s.masked_fill(torch.arange(worte.shape[1]) >= wieviele[:, None], float("-inf"))
        return torch.einsum("bt,btd->bd", s.softmax(-1), worte)
"""
CLASSES = """
class Urteil(nn.Module):
    def __init__(self, worte, breite):
        super().__init__()
        self.e, self.a = nn.Embedding(worte, breite), nn.MultiheadAttention(breite, 4, batch_first=True)
        self.u = nn.Linear(breite, 3)
    def forward(self, satz):
        x = self.e(satz)
        return self.u((x + self.a(x, x, x)[0]).mean(1))
"""
CACHE = """
class Fenster(nn.Module):
    def __init__(self, breite):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(breite, breite) for _ in range(3))
    def leer(self, stapel):
        return {"b": torch.zeros(stapel, 0, self.a.in_features), "c": torch.zeros(stapel, 0, self.a.in_features)}
    def forward(self, neu, stand):
        stand["b"] = torch.cat([stand["b"], self.b(neu)], 1)
        stand["c"] = torch.cat([stand["c"], self.c(neu)], 1)
        s = self.a(neu) @ stand["b"].mT / neu.shape[-1] ** 0.5
        weit = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
        return s.masked_fill(~weit, float("-inf")).softmax(-1) @ stand["c"]
"""
SHOWN = {
    "two texts": (PAIR, "Blick", "Blick(32, 4)(torch.randn(2, 10, 32), torch.randn(2, 12, 32))"),
    "the second asks": (
        PAIR.replace("hier, dort)", "dort, hier)"),
        "Blick",
        "Blick(32, 4)(torch.randn(2, 6, 32), torch.randn(2, 6, 32))",
    ),
    "under main": (PAIR, "Blick", "if __name__ == '__main__':\n    n = Blick(24, 3)\n    n(torch.randn(2, 4, 24), torch.ones(2, 6, 24))"),
    "in a test": (PAIR, "Blick", "def test_shape():\n    x = torch.randn(2, 4, 24)\n    assert Blick(24, 3)(x, x).shape == x.shape"),
    "in another class": (
        PAIR,
        "Blick",
        "class Turm(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = Blick(24, 3)\n"
        "    def forward(self, x):\n        return self.l(x, x)\nprint(Turm()(torch.randn(2, 5, 24)))",
    ),
    "again and again": (PAIR, "Blick", "n = Blick(24, 3)\nwhile True:\n    n(torch.randn(2, 4, 24), torch.randn(2, 5, 24))"),
    "a dict of weights": (
        WEIGHTS,
        "blick",
        "r = np.random.default_rng(0)\nblick(r.normal(size=(5, 16)), {w: r.normal(size=(16, 16)) for w in 'abcd'}, 4)",
    ),
    "edges of a graph": (EDGES, "Netz", "k = (torch.rand(2, 6, 6) > 0.5).float() + torch.eye(6)\nNetz(10)(torch.randn(2, 6, 10), k)"),
    "an image": (IMAGE, "Bild", "Bild(8)(torch.randn(2, 8, 5, 4))"),
    "one query per text": (ONE, "Frage", "Frage(16)(torch.randn(3, 16), torch.randn(3, 7, 16), torch.tensor([7, 4, 1]))"),
    "ids in, classes out": (CLASSES, "Urteil", "Urteil(90, 32)(torch.randint(0, 90, (4, 11)))"),
    "a state of its own": (CACHE, "Fenster", "f = Fenster(16)\ns = f.leer(2)\nf(torch.randn(2, 6, 16), s)"),
}  # fmt: skip


def checked(tmp_path, text, name):
    path = tmp_path / "given.py"
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    found = source.read(str(path))
    return doctor.check(found.load(name), source=found, name=name)


@pytest.mark.parametrize("shown", SHOWN)
def test_what_a_file_shows_is_how_it_is_called(tmp_path, shown):
    code, name, use = SHOWN[shown]
    report = checked(tmp_path, f"{code}\n{use}\n", name)
    assert report.verdict in ("right", "partly"), (report.problem, [f.id for f in report.findings])


@pytest.mark.parametrize("shown", ["two texts", "edges of a graph", "a state of its own"])
def test_a_mistake_in_it_is_found_so(tmp_path, shown):
    code, name, use = SHOWN[shown]
    wrong = re.sub(r" / \w+\.shape\[-1\] \*\* 0\.5", "", code)  # no scale
    assert wrong != code
    report = checked(tmp_path, f"{wrong}\n{use}\n", name)
    assert [f.id for f in report.findings] == ["S2"], report.problem


@pytest.mark.parametrize("reach", ["open('made', 'w').write('x')", "torch.save(n, 'made')"])
def test_a_demo_that_reaches_outside_is_not_run(tmp_path, monkeypatch, reach):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "given.py"
    demo = f"def demo():\n    n = Blick(24, 3)\n    {reach}\n    return n(torch.randn(2, 4, 24), torch.randn(2, 5, 24))\nif __name__ == '__main__':\n    demo()\n"
    path.write_text(HEAD + PAIR + demo, encoding="utf-8")
    assert usage.examples(source.read(str(path)), "Blick") == []
    assert not (tmp_path / "made").exists()


def test_a_demo_without_end_is_cut(tmp_path):
    path = tmp_path / "given.py"
    path.write_text(HEAD + PAIR + "i = 0\nwhile Blick:\n    i += 1\n", encoding="utf-8")
    assert usage.examples(source.read(str(path)), "Blick") == []
