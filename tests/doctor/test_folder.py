"""What `qkv check .` looks at in a project: attention whose softmax is in another file, and makers of masks."""

import textwrap

import pytest

from qkv.doctor import doctor, isolated_check
from qkv.doctor.source.file import parse, read

pytestmark = pytest.mark.usefixtures("warm")

OPS = """
import math, torch

def attend(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.softmax(scores, -1) @ v

def rotate(x):
    return x

class RotaryEmbedding:
    def forward(self, x):
        return torch.cat([torch.sin(x), torch.cos(x)], -1)
"""
LAYER = """
from torch import nn
{imports}

class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o({call}(q, k, v, mask).transpose(1, 2).reshape(b, n, c))

class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.sublayer, self.norm = CausalSelfAttention(d_model, num_heads), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        return x + self.sublayer(self.norm(x), mask)

class AttentionPooling(nn.Module):
    def forward(self, x):
        return x.mean(1)

class Feed(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.net = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.net(x)
"""
IMPORTS = {
    "relative": ("from .ops import attend", "attend"),
    "renamed": ("from .ops import attend as att", "att"),
    "by the package": ("from pkg.ops import attend", "attend"),
    "a module": ("from . import ops", "ops.attend"),
    "a module by its path": ("import pkg.ops as o", "o.attend"),
    "star": ("from .ops import *", "attend"),
    "handed on": ("from .more import attend", "attend"),
}


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .layers import CausalSelfAttention\n")
    (folder / "ops.py").write_text(OPS)
    (folder / "more.py").write_text("from .ops import attend\nfrom . import layers\n")  # a circle
    return folder


@pytest.mark.parametrize("kind", IMPORTS)
def test_attention_by_name_with_its_softmax_in_another_file(package, kind):
    imports, call = IMPORTS[kind]
    (package / "layers.py").write_text(LAYER.format(imports=imports, call=call))
    assert read(package / "layers.py").candidates() == ["CausalSelfAttention", "Block"]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from .ops import rotate", "rotate"),
        ("from .ops import RotaryEmbedding", "RotaryEmbedding"),
        ("from .absent import attend", "attend"),
        ("from elsewhere import attend", "attend"),
        ("", "print"),
    ],
)
def test_a_name_alone_is_no_attention(package, imports, call):
    (package / "layers.py").write_text(LAYER.format(imports=imports, call=call))
    assert read(package / "layers.py").candidates() == []


def test_a_class_with_its_softmax_elsewhere_is_checked(package):
    (package / "layers.py").write_text(LAYER.format(imports="from .ops import attend", call="attend"))
    for scale, verdict in ((" / math.sqrt(q.shape[-1])", "right"), ("", "wrong")):
        (package / "ops.py").write_text(OPS.replace(" / math.sqrt(q.shape[-1])", scale))
        source = read(package / "layers.py")
        report = doctor.check(source.load("CausalSelfAttention"), source=source, name="CausalSelfAttention")
        assert report.verdict == verdict, report


def test_each_file_is_read_once_however_often_it_is_imported(tmp_path, monkeypatch):
    from qkv.doctor.source import file

    count = 12
    for i in range(count):  # each imports all before it: 2 ** 12 ways lead to the first
        lines = [f"from m{j} import attend as a{j}" for j in range(i)]
        (tmp_path / f"m{i}.py").write_text("\n".join(lines))
    (tmp_path / "layers.py").write_text(LAYER.format(imports="from m11 import attend", call="attend"))
    source, reads, original = read(tmp_path / "layers.py"), [], file.read
    monkeypatch.setattr(file, "read", lambda path: reads.append(path) or original(path))
    assert source.candidates() == [] and len(reads) == count


ATTENTION = """
def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = {takes}
    return torch.softmax(scores, -1) @ v
"""
KEEP = 'scores.masked_fill(mask == 0, float("-inf"))'
BLOCK = 'scores.masked_fill(mask, float("-inf"))'
ADD = "scores + mask"


def report_on(name, body, takes=KEEP, more=""):
    attention = ATTENTION.format(takes=takes) if takes else ""
    source = parse(f"import torch\n\n{textwrap.dedent(body)}\n{attention}\n{more}")
    assert name in source.candidates()
    return doctor.check(source.load(name), source=source, name=name)


def causal(code):
    return f"def make_causal_mask(n):\n    return {code}\n"


@pytest.mark.parametrize(
    ("code", "takes", "line"),
    [
        ("torch.tril(torch.ones(n, n), diagonal=-1)", KEEP, "doesn't see itself"),
        ("torch.tril(torch.ones(n, n), diagonal=1)", KEEP, "sees the one after itself"),
        ("torch.triu(torch.ones(n, n)) == 0", KEEP, "doesn't see itself"),
        ("torch.triu(torch.ones(n, n)).bool()", BLOCK, "doesn't see itself"),
        ("torch.triu(torch.ones(n, n), diagonal=2).bool()", BLOCK, "sees the one after itself"),
        ("torch.full((n, n), float('-inf')).triu(2)", ADD, "sees the one after itself"),
    ],
)
def test_a_triangle_that_is_off_by_one(code, takes, line):
    report = report_on("make_causal_mask", causal(code), takes)
    assert report.verdict == "wrong" and [one.id for one in report.findings] == ["M12"]
    assert line in str(report.findings[0].evidence) and report.findings[0].line == 4


@pytest.mark.parametrize(
    ("code", "takes"),
    [
        ("torch.tril(torch.ones(n, n))", KEEP),
        ("torch.triu(torch.ones(n, n), diagonal=1) == 0", KEEP),
        ("torch.triu(torch.ones(n, n), diagonal=1).bool()", BLOCK),
    ],
)
def test_a_triangle_that_is_right(code, takes):
    report = report_on("make_causal_mask", causal(code), takes)
    assert report.verdict == "partly" and "unchanged" in str(report.unseen[0].text), report


PAD = "def get_pad_mask(seq, pad_idx):\n    return (seq != pad_idx).unsqueeze(-2)\n"


@pytest.mark.parametrize("code", ["torch.triu(torch.ones(n, n), diagonal=1) == 1", "torch.triu(torch.ones(n, n)) == 1"])
def test_a_triangle_that_may_be_turned_where_it_is_used(code):
    report = report_on("make_causal_mask", causal(code), KEEP, PAD)  # the padding mask fits
    assert report.verdict == "partly" and "inverted or transposed" in str(report.unseen[0].text), report
    assert not report_on("make_causal_mask", causal(code)).findings  # the attention is told instead: M1


def test_padding_masks():
    assert "unchanged" in str(report_on("get_pad_mask", PAD).unseen[0].text)
    assert not report_on("get_pad_mask", PAD.replace("!=", "==")).findings


NOT_CHECKED = {
    "no attention": (causal("torch.tril(torch.ones(n, n), -1)"), "", ""),
    "attention without a mask": (causal("torch.tril(torch.ones(n, n), -1)"), "scores", ""),
    "two meanings": (
        causal("torch.tril(torch.ones(n, n), -1)"),
        KEEP,
        ATTENTION.format(takes=BLOCK).replace("attention", "attend_blocked"),
    ),
    "a diagonal that is filled": (causal("torch.tril(torch.ones(n, n), -1)"), KEEP, "EYE = lambda n: torch.eye(n)"),
    "on purpose": (causal("torch.tril(torch.ones(n, n), -1)  # strictly before"), KEEP, ""),
    "a window": (causal("torch.tril(torch.ones(n, n)).triu(-1)"), KEEP, ""),
    "what does more than count": (
        "def make_causal_mask(n):\n    print(n)\n    return torch.tril(torch.ones(n, n), -1)\n",
        KEEP,
        "",
    ),
}


@pytest.mark.parametrize("kind", NOT_CHECKED)
def test_makers_that_cannot_be_judged_are_not_checked(kind):
    report = report_on("make_causal_mask", *NOT_CHECKED[kind])
    expected = "partly" if kind == "a window" else "unknown"
    assert report.verdict == expected and not report.findings and report.adapted["kind"] == "mask maker", report


def test_what_takes_masks_or_only_speaks_of_them_is_no_maker():
    source = parse(
        "import torch\n"
        "def apply_mask(scores, mask): return scores.masked_fill(mask == 0, -1e9)\n"
        "def mask_token_id(x): return x == 3\n"
        "def masked_loss(x, y): return (x == y).sum()\n"
        "def causal_name(x): return x + 1\n"
    )
    assert source.candidates() == []


def test_a_package_with_a_module_of_its_own_name_is_found(tmp_path):
    """model/attention.py says `from model.rope import …`, and model/model.py was taken for the package."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.py").write_text("from model.attention import attend\n")
    (tmp_path / "model" / "scale.py").write_text("def scaled(s, d):\n    return s / d ** 0.5\n")
    code = "import torch\nfrom model.scale import scaled\n\n\ndef attend(q, k, v):\n    return scaled(q @ k.mT, q.shape[-1]).softmax(-1) @ v\n"
    (tmp_path / "model" / "attention.py").write_text(code)
    [report] = isolated_check.examine(tmp_path / "model" / "attention.py", "attend", {})
    assert report.verdict == "right", report


def test_a_maker_beside_attention_that_cannot_be_loaded_and_one_of_one_axis():
    code = """
import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(-1) @ v


class BrokenAttention(Missing):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.mT, -1) @ v


def make_causal_mask(n):
    return torch.tril(torch.ones(n, n), diagonal=1)


def word_mask(ids):
    return (ids != 0)[0]
"""
    source = parse(code)
    verdicts = {
        name: doctor.check(source.load(name), source=source, name=name) for name in ("make_causal_mask", "word_mask")
    }
    assert [one.id for one in verdicts["make_causal_mask"].findings] == ["M12"]
    assert verdicts["word_mask"].verdict == "unknown", verdicts["word_mask"]


def test_a_triangle_that_is_off_by_one_at_one_length_alone_is_not_claimed():
    """A maker is run at two lengths, like everything that is accused."""
    code = "def make_causal_mask(n):\n    return torch.tril(torch.ones(n, n), diagonal=1 if n == 5 else 0)\n"
    assert not report_on("make_causal_mask", code).findings
