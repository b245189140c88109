"""A plain "right" is for code that was run whole: what no call reached, and what no flag switched on, is listed."""

import subprocess
import sys
import textwrap

import pytest

from qkv.doctor import doctor
from qkv.doctor.source.file import parse

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
"""


def checked(code, name, **options):
    source = parse(HEAD + textwrap.dedent(code))
    return doctor.check(source.load(name), source=source, name=name, **options)


def unseen(report):
    return [str(remark.text) for remark in report.unseen]


LAYER = """
class Attention(nn.Module):
    def __init__(self, dim, heads, {options}):
        super().__init__()
        self.heads, self.head = heads, dim // heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))
        {setup}

    def split(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.heads, self.head).transpose(1, 2)

    def forward(self, x{arguments}):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        {before}
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head)
        {masking}
        b, _, n, _ = q.shape
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))
"""


def layer(options="p=0.0", setup="pass", arguments="", before="pass", masking="pass"):
    return LAYER.format(options=options, setup=setup, arguments=arguments, before=before, masking=masking)


def test_code_that_ran_whole_is_plainly_right():
    report = checked(layer(), "Attention")
    assert (report.verdict, unseen(report)) == ("right", [])


def test_positions_that_are_off_by_default_are_switched_on():
    turned = """
        if self.rope:
            angle = torch.arange(q.shape[2]).double()[:, None] / 10000 ** (torch.arange(0, self.head, 2).double() / self.head)
            cos, sin = angle.cos(), angle.sin()
            q, k = ({turn} for x, y in ((q[..., ::2], q[..., 1::2]), (k[..., ::2], k[..., 1::2])))
    """
    right = "torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2)"
    wrong = "torch.stack([x * cos + y * sin, x * sin + y * cos], -1).flatten(-2)"
    for turn, verdicts in ((right, ("right",)), (wrong, ("wrong", "partly"))):
        code = layer(
            "rope=False", "self.rope = rope", before=textwrap.dedent(turned).strip().replace("\n", "\n        ")
        )
        assert checked(code.replace("{turn}", turn), "Attention").verdict in verdicts


def test_a_triangle_that_is_off_by_default_is_switched_on():
    masking = """if self.causal_mask:
            scores = scores.masked_fill(torch.ones(q.shape[2], k.shape[2]).{half}(1).bool(), float("-inf"))"""
    for half, verdict in (("triu", "right"), ("tril", "wrong")):
        code = layer("causal_mask=False", "self.causal_mask = causal_mask", masking=masking.replace("{half}", half))
        assert checked(code, "Attention").verdict == verdict


def test_a_flag_for_a_triangle_that_hides_nothing_is_listed():
    masking = """if self.use_mask:
            future = torch.ones(q.shape[2], k.shape[2]).triu(1).bool()
            scores = torch.where(future, {fill}, scores)"""
    setup = "self.use_mask = use_mask"
    for fill, hides in (("float('-inf')", True), ("scores", False)):
        report = checked(layer("use_mask=False", setup, masking=masking.replace("{fill}", fill)), "Attention")
        assert report.verdict == "right" if hides else any("use_mask=True" in said for said in unseen(report))


def test_a_square_mask_that_a_comment_promises_is_tried():
    masking = """# mask: (batch_size, seq_len, seq_len) or (seq_len, seq_len), 0 = hidden
        if mask is not None:
            mask = {lift} if mask.dim() == 2 else mask[:, None]
            scores = scores.masked_fill(mask == 0, float("-inf"))"""
    for lift, verdict in (("mask[None, None]", "right"), ("mask[:, None, None]", "partly")):
        report = checked(layer(arguments=", mask=None", masking=masking.replace("{lift}", lift)), "Attention")
        assert report.verdict == verdict, (lift, unseen(report))


@pytest.mark.parametrize("name", ["broken", "zhezhao", "extra"])
def test_an_argument_of_a_strange_name_is_tried_or_listed(name):
    masking = f"""if {name} is not None:
            scores = scores.masked_fill({name}, 0.0)"""
    report = checked(layer(arguments=f", {name}=None", masking=masking), "Attention")
    assert report.verdict in ("wrong", "partly")


def test_an_option_that_cannot_be_guessed_is_listed():
    masking = """if self.cap is not None:
            scores = torch.tanh(scores / self.cap)"""
    report = checked(layer("cap=None", "self.cap = cap", masking=masking), "Attention")
    assert report.verdict == "partly" and any("if self.cap is not None" in said for said in unseen(report))


def test_what_follows_an_early_return_is_code_too():
    before = """if self.fast:
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))"""
    code = layer("fast=True", "self.fast = fast", before=before)
    assert checked(code, "Attention").verdict == "right"
    report = checked(code.replace("math.sqrt(self.head)", "math.sqrt(self.heads * self.head)"), "Attention")
    assert report.verdict == "wrong" and [finding.id for finding in report.findings] == ["S3"]


def test_a_weight_without_a_gradient_is_listed():
    report = checked(layer(setup="self.gate = nn.Linear(dim, dim)"), "Attention")
    assert report.verdict == "partly" and any("gate.weight" in said for said in unseen(report))


def test_a_cache_that_is_never_read_is_no_cache():
    assert checked(layer(arguments=", layer_past=None"), "Attention").verdict == "right"


def test_a_pattern_of_its_own_is_not_called_right():
    masking = """block = torch.arange(q.shape[2]) // 3
        scores = scores.masked_fill(block[:, None] {sign} block[None], float("-inf"))"""
    for sign in ("==", "!="):
        report = checked(layer(masking=masking.replace("{sign}", sign)), "Attention")
        assert report.verdict != "right"


def test_imports_that_were_supplied_are_told(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n\ndef attend(q, k, v):\n    return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v\n"
    )
    command = [sys.executable, "-m", "qkv", "check", "mine.py:attend", "--lang", "en"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert ended.returncode == 0 and "import torch.nn.functional as F" in ended.stdout and "NameError" in ended.stdout


def test_what_a_flag_leaves_unchecked_is_told_in_the_users_language(tmp_path):
    masking = """if self.odd:
            scores = scores.sin()
            if q.shape[2] == 1:
                raise RuntimeError("one token {alone}")
        if self.cap not in ({}, None):
            scores = torch.tanh(scores / self.cap)"""
    code = layer("odd=False, cap=None", "self.odd, self.cap = odd, cap").replace(
        "        pass\n        b, _", f"        {masking}\n        b, _"
    )
    (tmp_path / "mine.py").write_text(HEAD + code)
    command = [sys.executable, "-m", "qkv", "check", "mine.py:Attention", "--lang", "zh"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    said = "".join(ended.stdout.split())
    assert "设odd=True时" in said and "notin({},None)" in said, ended.stdout
    assert "known form" not in ended.stdout and "{alone}" in said


def test_attention_in_blocks_is_run_with_small_ones():
    masking = """if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        highest = torch.full_like(scores[..., :1], float("-inf"))
        total, mixed = torch.zeros_like(highest), torch.zeros_like(q)
        for start in range(0, k.shape[2], self.block_size_kv):
            part = scores[..., start : start + self.block_size_kv]
            higher = torch.maximum(highest, part.amax(-1, keepdim=True))
            safe = {safe}
            share, before = torch.exp(part - safe), torch.exp(highest - safe)
            total = total * before + share.sum(-1, keepdim=True)
            mixed = mixed * before + share @ v[:, :, start : start + self.block_size_kv]
            highest = higher
        return self.out((mixed / total).transpose(1, 2).reshape(*x.shape))"""
    setup = "self.block_size_kv = block_size_kv"
    for safe, left in (("torch.where(higher.isinf(), 0.0, higher)", []), ("higher", ["blocks"])):
        text = layer("block_size_kv=64", setup, ", mask=None", masking=masking.replace("{safe}", safe))
        report = checked(text.split("        b, _, n, _ = q.shape")[0], "Attention")
        assert [each.id for each in report.unseen] == left, report
