"""Any file people keep attention in can be read, and any name of it be had, with nothing run that isn't needed."""

import json
import sys
import textwrap

import pytest
import torch

from qkv.doctor.source.file import parse, read
from qkv.doctor.source.standins import OnCpu
from qkv.i18n import Problem

HEAD = """
class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * C**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)
"""
LECTURE = (
    """
import torch
import torch.nn as nn
from torch.nn import functional as F
batch_size = 64; n_embd = 12
block_size = 8
device = 'cuda' if torch.cuda.is_available() else 'cpu'
torch.manual_seed(1337)
with open('input.txt', 'r', encoding='utf-8') as f:
    text = f.read()
chars = sorted(list(set(text)))
vocab_size = len(chars)
data = torch.tensor([0 for c in text])
def get_batch(split):
    return data
@torch.no_grad()
def estimate_loss():
    return F.softmax(get_batch('x') @ get_batch('y'), -1)
"""
    + HEAD
    + """
class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList([Head(head_size) for _ in range(num_heads)])
        self.proj = nn.Linear(n_embd, n_embd)
    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.sa = MultiHeadAttention(3, 4)
    def forward(self, x):
        return x + self.sa(x)
class GPTLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.block = Block()
    def forward(self, idx):
        return self.block(self.tokens(idx))
model = GPTLanguageModel()
m = model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
for iter in range(10**9):
    loss = model(get_batch('train'))
    loss.backward()
    optimizer.step()
raise SystemExit("trained")
"""
)


def source_of(text, path="mine.py"):
    return parse(textwrap.dedent(text), path)


def test_a_script_that_trains_as_it_is_imported():
    source = parse(LECTURE, "gpt.py")
    assert source.candidates() == ["Head", "MultiHeadAttention", "Block", "GPTLanguageModel"]
    attention = source.load("MultiHeadAttention")(3, 4)
    assert attention(torch.randn(2, 5, 12)).shape == (2, 5, 12)
    assert "model" not in source.loader.space and "iter" not in source.loader.space
    assert source.load("Head") is source.loader.space["Head"]  # loaded once


def test_the_size_of_a_vocabulary_that_needs_a_text_is_guessed_and_said():
    source = parse(LECTURE, "gpt.py")
    model = source.load("GPTLanguageModel")()
    assert model(torch.tensor([[1, 2]])).shape == (1, 2, 12)
    assert list(source.loader.guessed) == ["vocab_size"]


def test_what_a_statement_would_have_read_is_told_with_its_line():
    with pytest.raises(Problem, match=r"chars could not be loaded \(gpt.py:9\):\n  with open"):
        parse(LECTURE, "gpt.py").load("chars")
    with pytest.raises(Problem) as problem:
        parse(LECTURE, "gpt.py").load("chars")
    assert "不运行调用 open()" in problem.value.say("zh")


def test_where_a_name_stands():
    source = parse(
        "import torch\n@torch.no_grad()\n@f\ndef a(q):\n    return q\nclass B:\n    def c(self):\n        pass\nd = 3\n"
    )
    assert source.segment("a") == (2, 5) and source.segment("B") == (6, 8)
    assert source.segment("B.c") == (7, 8) and source.segment("d") == (9, 9)
    assert source.node("a").name == "a"


def test_a_name_that_is_not_there_gets_the_nearest():
    source = parse(LECTURE, "gpt.py")
    with pytest.raises(Problem, match="did you mean MultiHeadAttention"):
        source.node("MultiheadAttn")
    with pytest.raises(Problem, match="did you mean Head"):
        source.load("head")
    with pytest.raises(Problem, match="nor any other"):
        parse("x = 1").node("y")


def test_a_command_line_at_top_level_gives_its_defaults():
    source = source_of(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument('--dim', type=int, default=48)
        parser.add_argument('--data', required=True)
        args = parser.parse_args()
        parser.error("never run")
        def attend(q):
            return args.dim, args.data
        """
    )
    before = list(sys.argv)
    assert source.load("attend")(0) == (48, None)
    assert sys.argv == before


def test_every_way_to_read_a_command_line():
    source = source_of(
        """
        import argparse
        class Hparams:
            parser = argparse.ArgumentParser()
            parser.add_argument('--d_model', type=int, default=512)
        def get_args():
            parser = argparse.ArgumentParser()
            parser.add_argument('--heads', type=int, default=8)
            parser.add_argument('--file', required=True)
            return parser.parse_args()
        args = None
        hp, _ = Hparams().parser.parse_known_args()
        def attend(q):
            return hp.d_model, args.heads
        if __name__ == "__main__":
            args = get_args()
        """
    )
    assert source.load("attend")(0) == (512, 8)


def test_a_star_may_hide_a_builtin(tmp_path):
    write(
        tmp_path,
        helpers="from deeper import *\nsum = lambda x: 'ours'\nmodel = 1 / 0\n",
        deeper="from helpers import *\ndepth = 9\n",
    )
    write(
        tmp_path,
        a="from math import *\nfrom helpers import *\ndef attend(q):\n    return sum(q), depth, pi > 3, max(q)\n",
    )
    source = read(tmp_path / "a.py")
    assert source.load("attend")([1, 2]) == ("ours", 9, True, 2)


def test_the_last_value_counts():
    source = source_of("n = 4\nheads = 2\nd_k = n\nd_k = int(n / heads)\ndef attend(q): return d_k\n")
    assert source.load("attend")(0) == 2


def test_only_what_is_needed_runs(capsys):
    source = source_of(
        """
        import os, torch
        print("top")
        trace = []
        def log(x):
            trace.append(x)
            return x
        unused = log("unused")
        needed = log("needed")
        table = {}
        table["a"] = needed
        table.update(b=2)
        torch.softmax = None
        def attend(q):
            return table
        log("call")
        """
    )
    assert source.load("attend")(0) == {"a": "needed", "b": 2}
    assert source.loader.space["trace"] == ["needed"]
    assert torch.softmax is not None and capsys.readouterr().out == ""


def test_names_that_only_running_as_a_script_sets():
    source = source_of(
        """
        import torch
        def attend(q):
            return q * d_k + scale + late
        def setup():
            global scale
            scale = 5
        def main():
            late = 7
            other = 1
            while True: pass
        if __name__ == "__main__":
            d_k = 4
            print(attend(torch.ones(1)))
            while True: pass
        """
    )
    assert source.load("attend")(2) == 2 * 4 + 5 + 7


def test_a_name_of_the_module_is_not_taken_from_main():
    """d_k is a mistake here: only main knows it under another name."""
    source = source_of("def attend(q):\n    return q * d_k\ndef train():\n    d_k = 3\n")
    with pytest.raises(NameError):
        source.load("attend")(2)


def test_the_later_definition_wins_and_wrappers_stay():
    source = source_of(
        """
        import functools
        def attend(q): return 1
        def attend(q): return 2
        attend = functools.lru_cache(attend)
        attend = attend(3)
        """
    )
    assert source.load("attend")(0) == 2


def test_definitions_before_what_they_need():
    source = source_of(
        """
        class A(Base):
            size = SIZE
        SIZE = 4
        class Base: pass
        """
    )
    assert source.load("A").size == 4


ABSENT = """
import torch
import torch.nn as nn
import flash_attn_absent as fa
from einops_absent import rearrange, repeat
from typed_absent import Float, typed, checked
from lightning_absent import LightningModule
from torch.nn import no_such_thing
import tensorflow_absent.keras.layers as kl
try:
    from fused_absent import fused
    HAS = True
except ImportError:
    fused, HAS = None, False
if fa.is_here():
    import math as m

def helper(a, b, c):
    return a

@typed(typechecker=checked)
@checked
@fa.kernel(helper)
def attend(q: Float[torch.Tensor, "b n d"], k, v):
    return torch.softmax(q @ k.mT / m.sqrt(4), -1) @ v

class Attention(LightningModule):
    def __init__(self, norm: fa.Norm | None = None, wide=nn.Identity):
        super().__init__()
        self.q = nn.Linear(4, 4)
    def forward(self, x):
        return rearrange(self.q(x), "b n d -> b d n")
    def fast(self, x):
        return fa.ops.flash(x) if isinstance(x, fa.Tensor) or HAS else self.q(x)
    def old(self, x):
        return no_such_thing(x)
"""


def test_absent_packages_are_named_only_when_they_are_needed():
    source = parse(ABSENT, "a.py")
    q = torch.randn(2, 3, 4)
    assert source.load("attend")(q, q, q).shape == (2, 3, 4)
    module = source.load("Attention")()
    assert isinstance(module, torch.nn.Module) and len(list(module.parameters())) == 2
    assert module.fast(q).shape == (2, 3, 4)
    assert source.load("HAS") is False and source.load("fused") is None
    with pytest.raises(ImportError, match="No module named 'einops_absent'") as error:
        module(q)
    assert error.value.name == "einops_absent"
    with pytest.raises(ImportError, match="cannot import name 'no_such_thing'"):
        module.old(q)
    for use in (lambda s: s + 1, lambda s: range(s), lambda s: list(s), lambda s: s.a.b(1)):
        with pytest.raises(ImportError, match="einops_absent"):
            use(source.load("repeat"))


def test_drawing_packages_are_imported_only_when_they_draw():
    source = source_of(
        """
        import seaborn
        import matplotlib.pyplot as plt
        class Attention:
            def show(self): return plt.figure
            def lower(self): return seaborn.heatmap()
        """
    )
    attention = source.load("Attention")()
    import matplotlib.pyplot

    assert attention.show() is matplotlib.pyplot.figure


def write(folder, **files):
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


SIBLINGS = {
    "pkg__layers": """
        import wandb_absent
        from .more import deep
        from . import more
        def double(x): return 2 * deep(x) + more.extra
        while True: pass
        """,
    "pkg__more": "def deep(x): return x + 1\nextra = 100\nraise SystemExit\n",
    "utils": "import time\nfactor = 3\ndef _hidden(): pass\nbad = open('nothing').read()\ntime.sleep(1000)\n",
    "config": "n = 5\n",
}


@pytest.mark.parametrize("package", [True, False], ids=["with __init__", "without"])
@pytest.mark.parametrize(
    "imports",
    [
        "from .layers import double\nfrom ..utils import *\n",
        "from pkg.layers import double\nfrom utils import factor\n",
        "import pkg.layers as layers\nimport utils\ndouble, factor = layers.double, utils.factor\n",
        "import pkg.layers\nfrom utils import factor\ndouble = pkg.layers.double\n",
        "from layers import double\nfrom utils import factor as f\nfactor = f\n",
        "def double(x):\n    from layers import double\n    return double(x)\nfrom utils import factor\n",
    ],
    ids=lambda text: text.split("\n")[0],
)
def test_files_beside_the_file_and_above_it(tmp_path, imports, package):
    write(tmp_path, **SIBLINGS, pkg__model=imports + "def attend(q):\n    return double(q) * factor\n")
    if package:
        (tmp_path / "pkg" / "__init__.py").write_text("from .layers import double\n1 / 0\n")
    assert read(tmp_path / "pkg" / "model.py").load("attend")(1) == (2 * 2 + 100) * 3


def test_a_file_named_like_a_package_imports_the_package(tmp_path):
    write(tmp_path, torch="import torch\ndef attend(q): return torch.ones(q)\n", random="x = 1\n")
    assert read(tmp_path / "torch.py").load("attend")(3).shape == (3,)


def test_files_that_import_each_other(tmp_path):
    write(
        tmp_path,
        a="from b import two\none = 1\ndef f(): return two()\n",
        b="from a import one\ndef two(): return one + 1\n",
    )
    assert read(tmp_path / "a.py").load("f")() == 2


def test_a_broken_file_beside_it_is_told(tmp_path):
    write(tmp_path, a="from b import two\ndef f(): return two()\ndef g(): return 1\n", b="def two(:\n")
    source = read(tmp_path / "a.py")
    assert source.load("g")() == 1
    with pytest.raises(ImportError, match=r"b.py:1 is not Python"):
        source.load("f")()


def notebook(*cells):
    kinds = [{"cell_type": "markdown", "source": ["# Attention"]}]
    kinds += [{"cell_type": "code", "source": cell.splitlines(True), "outputs": []} for cell in cells]
    return json.dumps({"cells": kinds, "nbformat": 4})


def test_a_folder_names_its_files(tmp_path):
    with pytest.raises(Problem, match=r"is a folder without a \.py file or a notebook"):
        read(tmp_path)
    (tmp_path / "mine.py").write_text("x = 1")
    with pytest.raises(Problem, match=r"such as mine\.py$"):
        read(tmp_path)


def test_a_notebook(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(
        notebook(
            "!pip install torch\n%matplotlib inline\nimport torch\nfiles = !ls\nif True:\n    %time 1\n",
            "%%bash\nrm -rf nothing\n",
            "def attend(q, k, v):\n    return 'old'",
            "%%time\ndef attend(q, k, v):\n    x = (5\n         % 3)\n    return torch.softmax(q @ k.mT, -1) @ v\n",
            "this is no python",
            "attend?\nclass A:\n  def f(self):\n    return files\n",
        ),
        encoding="utf-8",
    )
    source = read(path)
    assert source.candidates() == ["attend"] and list(source.broken) == [5]
    q = torch.randn(1, 2, 3)
    assert source.load("attend")(q, q, q).shape == (1, 2, 3)
    assert source.place(source.segment("attend")[0]) == (4, 2)
    assert source.lines[source.segment("attend")[0] - 1] == "def attend(q, k, v):"
    assert source.place(source.node("A").lineno) == (6, 2)
    assert source.load("A")().f() is None


def test_an_old_notebook_and_none(tmp_path):
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["def f(q):\n", "    return 1"]}]}], "nbformat": 3}
    (tmp_path / "old.ipynb").write_text(json.dumps(old))
    assert read(tmp_path / "old.ipynb").load("f")(0) == 1
    for text in ("", "[1, 2]", '{"cells": 3}', "not json", '{"cells": [[]]}'):
        (tmp_path / "bad.ipynb").write_text(text)
        with pytest.raises(Problem, match="not a notebook"):
            read(tmp_path / "bad.ipynb")


@pytest.mark.parametrize(
    "raw",
    [
        "﻿def f(q):\n    return '注意'\n".encode(),
        "def f(q):\r\n    return '注意'\r\n".encode(),
        "def f(q):\r    return '注意'\r".encode(),
        "# -*- coding: gbk -*-\ndef f(q):\n    return '注意'\n".encode("gbk"),
        "def f(q):\n    return '注意'\n".encode("gbk"),
        "def f(q):\n    return '注意'\n".encode("utf-16"),
        "\x0cdef f(q):\n    return '注意'\n".encode(),
        "def f(q):\n\tif q:\n        return '注意'\n\treturn '注意'\n".encode(),
        "!pip install x\ndef f(q):\n    return '注意'\n".encode(),
    ],
    ids=["bom", "crlf", "cr", "gbk named", "gbk", "utf-16", "form feed", "tabs and blanks", "colab"],
)
def test_texts_of_every_editor(tmp_path, raw):
    (tmp_path / "a.py").write_bytes(raw)
    assert read(tmp_path / "a.py").load("f")(0) == "注意"


def test_what_is_no_python_names_its_line(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\ndef f(:\n    pass\n")
    with pytest.raises(Problem, match=r"a.py:2 is not Python.*\n  def f\(:"):
        read(tmp_path / "a.py")
    (tmp_path / "b.py").write_text("f(" * 5000)
    with pytest.raises(Problem, match="is not Python"):
        read(tmp_path / "b.py")
    (tmp_path / "c.py").write_bytes(b"\x7fELF\0\0\0")
    with pytest.raises(Problem, match="is not text"):
        read(tmp_path / "c.py")
    with pytest.raises(Problem, match=r"is a folder.*a\.py"):
        read(tmp_path)
    with pytest.raises(Problem, match="there is no file"):
        read(tmp_path / "none.py")


def test_configs_aliases_and_the_future():
    source = source_of(
        """
        '''A docstring.'''
        from __future__ import annotations
        import enum
        from dataclasses import dataclass, field
        from typing import NamedTuple, TypeVar
        T = TypeVar("T")
        Tensor = "whatever"
        def registered(cls):
            cls.known = True
            return cls
        class Kind(enum.Enum):
            A = 1
        @dataclass
        class Config:
            n_head: int = 4
            sizes: list[int] = field(default_factory=list)
            kind: Kind = Kind.A
            later: NotDefined = None
        class Pair(NamedTuple):
            one: int = 1
        @registered
        class Attention:
            config = Config()
            def f(self, x: Unknown, pair: Tensor = Pair()) -> T:
                return self.config.n_head, pair.one
        """
    )
    assert source.load("Attention")().f(0) == (4, 1) and source.load("Attention").known


def test_an_annotation_that_fails_is_left_alone():
    source = source_of("class A:\n    def f(self, x: Missing, y: missing.Thing[3] = 1) -> Nothing:\n        return y\n")
    assert source.load("A")().f(0) == 1


def test_a_class_that_cannot_be_made_says_why():
    source = source_of("import torch\nsize = torch.load('x.pt').size\nclass A:\n    size = size + 1\n")
    with pytest.raises(Problem, match=r"A could not be loaded \(mine.py:2\):\n  size = torch.load"):
        source.load("A")
    source = source_of("import sys\nsize = sys.exit(3)\nclass A:\n    size = size + 1\n")
    with pytest.raises(Problem, match="SystemExit: 3"):
        source.load("A")
    with pytest.raises(Problem, match="ZeroDivisionError"):
        source_of("class A:\n    x = 1 / 0\n").load("A")


def test_an_instance_and_its_method():
    source = source_of("class A:\n    def __init__(self, n): self.n = n\n    def f(self): return self.n\na = A(3)\n")
    assert source.load("a").n == 3 and source.load("a.f")() == 3
    with pytest.raises(Problem, match=r"has no a\.g"):
        source.load("a.g")


CANDIDATES = {
    "numpy": (
        "import numpy as np\ndef attention(Q, K, V):\n    e = np.exp(Q @ K.T)\n    return e / e.sum(-1) @ V",
        ["attention"],
    ),
    "library": ("def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)", ["f"]),
    "own softmax": (
        "def softmax(x):\n    return np.exp(x) / np.exp(x).sum()\ndef sa(query, key):\n    return softmax(np.dot(query, key))",
        ["sa"],
    ),
    "a layer that holds torch's": (
        "class Block(nn.Module):\n    def __init__(self):\n        self.a = nn.MultiheadAttention(8, 2)",
        ["Block"],
    ),
    "einsum": (
        "class SA(nn.Module):\n    def forward(self, q, k, v):\n        e = torch.einsum('a', q, k)\n        return nn.Softmax(-1)(e)",
        ["SA"],
    ),
    "a classifier": (
        "class Net(nn.Module):\n    def forward(self, x):\n        return F.softmax(self.fc(x) @ self.w, -1)",
        [],
    ),
    "training": (
        "def train(q, k):\n    return F.softmax(q @ k, -1)\ndef plot_attention(q, k):\n    return F.softmax(q @ k, -1)\n"
        "def main():\n    return F.softmax(query @ key, -1)\ndef test_attention(q):\n    return F.softmax(q @ key, -1)",
        [],
    ),
    "sampling in a model": (
        "class GPT(nn.Module):\n    def generate(self, head):\n        return F.softmax(head @ head, -1)\n    def forward(self, x):\n        return x",
        [],
    ),
    "positions": (
        "class PositionalEncoding(nn.Module):\n    def forward(self, x):\n        return x + torch.sin(x)\n"
        "def rotate_half(x):\n    return -x\ndef apply_rotary_emb(x, cos, sin):\n    return x * cos + rotate_half(x) * sin",
        ["PositionalEncoding", "apply_rotary_emb"],
    ),
    "the most central first": (
        "class Encoding(nn.Module):\n    def __init__(self):\n        self.pe = torch.sin(x) + torch.cos(x)\n"
        "class Layer(nn.Module):\n    def __init__(self):\n        self.a = MultiHead(8)\n"
        "def sdpa(q, k, v):\n    return (q @ k).softmax(-1) @ v\n"
        "class MultiHead(nn.Module):\n    def forward(self, q, k, v):\n        return sdpa(q, k, v) @ q.softmax(-1)",
        ["MultiHead", "sdpa", "Layer", "Encoding"],
    ),
    "arguments by name only": (
        "def attention(*, queries, keys, values):\n    return (queries @ keys.mT).softmax(-1) @ values\n"
        "def attend(**given):\n    return (given['q'] @ given['k'].mT).softmax(-1) @ given['v']\n"
        "def attention_of_a_sentence():\n    return (queries @ keys.mT).softmax(-1)",
        ["attention"],
    ),
    "whatever it is called": (
        "def guiyihua(f):\n    z = torch.exp(f)\n    return z / z.sum(-1)\n"
        "def zhuyili(a, b, c):\n    f = torch.bmm(a, b)\n    return torch.bmm(guiyihua(f), c)\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        f = self.a(x) @ self.b(x)\n        w = f.softmax(1)\n        return w @ x\n"
        "def classify(x, a, b):\n    return softmax(x @ a @ b)",
        ["Net", "zhuyili"],
    ),
    "a function around one": (
        "def attention(q, k, v):\n    return (q @ k).softmax(-1) @ v\n"
        "def self_attention(x, w):\n    return attention(*np.split(x * w, 3))\ndef other(x):\n    return attention(x, x, x)\n"
        "class Attention(nn.Module):\n    def forward(self, q):\n        return attention(q, q, q)\n"
        "def get_attention(n):\n    return Attention(n)",
        ["self_attention", "Attention", "attention"],
    ),
    "sums over edges": (
        "class EdgeAttention(nn.Module):\n    def forward(self, q, k, v):\n        w = torch.exp((q * k).sum(-1))\n        return w * v",
        ["EdgeAttention"],
    ),
    "what can't be built": (
        "class Attention(ABC):\n    @abstractmethod\n    def score(self, q, k): ...\n"
        "    def forward(self, q, k, v):\n        return (self.score(q, k) @ q).softmax(-1) @ v",
        [],
    ),
    "data and settings": (
        "@dataclass\nclass AttentionConfig:\n    x = softmax(q @ k)\nclass HeadDataset(Dataset):\n    y = softmax(q @ k)",
        [],
    ),
}


@pytest.mark.parametrize("case", CANDIDATES)
def test_what_looks_like_attention(case):
    text, names = CANDIDATES[case]
    assert parse(text).candidates() == names


def test_a_card_that_is_not_there_is_not_needed():
    source = source_of(
        """
        import torch
        class A(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q = torch.nn.Linear(4, 4, device="cuda")
                self.register_buffer("m", torch.tril(torch.ones(3, 3)).cuda())
            def forward(self, x):
                x = x.to("cuda:0").cuda(non_blocking=True).to(device=torch.device("cuda", 1))
                return self.q(x) + torch.zeros(4, device="cuda")
        """
    )
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    with OnCpu():
        module = source.load("A")().cuda().to("cuda")
        assert module(torch.ones(2, 4)).device.type == "cpu"
