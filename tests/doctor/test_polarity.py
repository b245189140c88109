"""What True means is found by running what makes the mask: attention that uses it rightly is right, else it is M1."""

import pytest

from qkv.doctor import doctor
from qkv.doctor.source import file as source
from qkv.doctor.subject import makers
from tests.selection import slow_except

HEAD = """
import copy, math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
"""
ATTENTION = """
def attention(query, key, value, mask=None, dropout=None):
    "Compute 'Scaled Dot Product Attention'"
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = {use}
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = nn.ModuleList([copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4)])
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)
"""
KEEP, BLOCK = "scores.masked_fill(mask == 0, -1e9)", "scores.masked_fill(mask, float('-inf'))"
ONES, ADD = "scores.masked_fill(mask == 1, -1e9)", "scores + mask"

# How people make a mask: the way it is written, then the way to use it that is right, then the one that is inverted.
MADE = {
    "triu, then == 0": (
        """
def subsequent_mask(size):
    "Mask out subsequent positions."
    attn_shape = (1, size, size)
    mask = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return mask == 0
""",
        KEEP,
        BLOCK,
    ),
    "triu, then == 0 in two lines": (
        """
def subsequent_mask(size):
    ones = torch.ones(size, size)
    mask = torch.triu(ones, diagonal=1)
    return mask == 0
""",
        KEEP,
        ONES,
    ),
    "np.triu and from_numpy": (
        """
def subsequent_mask(size):
    "Mask out subsequent positions."
    attn_shape = (1, size, size)
    subsequent_mask = np.triu(np.ones(attn_shape), k=1).astype('uint8')
    return torch.from_numpy(subsequent_mask) == 0
""",
        KEEP,
        BLOCK,
    ),
    "tril": ("\ndef subsequent_mask(size):\n    return torch.tril(torch.ones(1, size, size))\n", KEEP, ONES),
    "tril, uint8": (
        "\ndef causal_mask(n):\n    return torch.tril(torch.ones((1, 1, n, n), dtype=torch.uint8))\n",
        KEEP,
        ONES,
    ),
    "the tutorial's, transposed": (
        """
def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones((sz, sz))) == 1).transpose(0, 1)
    mask = mask.float().masked_fill(mask == 0, float('-inf')).masked_fill(mask == 1, float(0.0))
    return mask
""",
        ADD,
        KEEP,
    ),
    "additive": (
        "\ndef causal_bias(n):\n    return torch.triu(torch.full((n, n), float('-inf')), diagonal=1)\n",
        ADD,
        KEEP,
    ),
    "True = block": (
        "\ndef causal_mask(seq_len):\n    return torch.triu(torch.ones(seq_len, seq_len), diagonal=1).bool()\n",
        BLOCK,
        KEEP,
    ),
    "True = block, named for the other": (
        "\ndef get_keep_mask(n):\n    keep = torch.tril(torch.ones(1, n, n))\n    return ~keep.bool()\n",
        BLOCK,
        KEEP,
    ),
    "1 = block, uint8": (
        """
def get_attn_subsequence_mask(seq):
    attn_shape = [seq.size(0), seq.size(1), seq.size(1)]
    return torch.from_numpy(np.triu(np.ones(attn_shape), k=1)).byte()
""",
        ONES,
        KEEP,
    ),
    "Batch.make_std_mask": (
        """
def subsequent_mask(size):
    attn_shape = (1, size, size)
    subsequent_mask = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return subsequent_mask == 0

class Batch:
    "Object for holding a batch of data with mask during training."
    def __init__(self, src, tgt=None, pad=2):
        self.src = src
        self.src_mask = (src != pad).unsqueeze(-2)
        if tgt is not None:
            self.tgt = tgt[:, :-1]
            self.tgt_y = tgt[:, 1:]
            self.tgt_mask = self.make_std_mask(self.tgt, pad)
            self.ntokens = (self.tgt_y != pad).data.sum()

    @staticmethod
    def make_std_mask(tgt, pad):
        "Create a mask to hide padding and future words."
        tgt_mask = (tgt != pad).unsqueeze(-2)
        tgt_mask = tgt_mask & Variable(subsequent_mask(tgt.size(-1)).type_as(tgt_mask.data))
        return tgt_mask
""",
        KEEP,
        BLOCK,
    ),
    "a method": (
        """
class Decoder(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.attn = MultiHeadedAttention(h, d_model)

    def make_causal_mask(self, x):
        N, T, _ = x.shape
        return torch.tril(torch.ones((T, T), device=x.device)).expand(N, T, T)

    def forward(self, x):
        return x + self.attn(x, x, x, self.make_causal_mask(x))
""",
        KEEP,
        ONES,
    ),
    "a staticmethod": (
        """
class Masks:
    @staticmethod
    def look_ahead_mask(length):
        return (1 - torch.triu(torch.ones(1, length, length), diagonal=1)).bool()
""",
        KEEP,
        BLOCK,
    ),
    "a lambda": (
        "\nmake_mask = lambda n: torch.ones(n, n, dtype=torch.bool).triu(1)\n",
        BLOCK,
        KEEP,
    ),
    "a buffer of the model": (
        """
class Model(nn.Module):
    def __init__(self, d_model, h, block_size):
        super().__init__()
        self.attn = MultiHeadedAttention(h, d_model)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)).view(1, block_size, block_size))

    def forward(self, x):
        T = x.size(1)
        return self.attn(x, x, x, self.mask[:, :T, :T])
""",
        KEEP,
        ONES,
    ),
    "in the caller's forward": (
        """
class Encoder(nn.Module):
    def __init__(self, vocab, d_model, h, pad_idx):
        super().__init__()
        self.pad_idx = pad_idx
        self.embed = nn.Embedding(vocab, d_model)
        self.attn = MultiHeadedAttention(h, d_model)

    def forward(self, src):
        src_mask = (src == self.pad_idx).unsqueeze(1)
        x = self.embed(src)
        return self.attn(x, x, x, src_mask)
""",
        BLOCK,
        KEEP,
    ),
    "turned where it is handed over": (
        """
def future(n):
    return torch.triu(torch.ones(1, n, n), diagonal=1).bool()

def step(model: MultiHeadedAttention, x):
    mask = future(x.size(1))
    return model(x, x, x, ~mask)
""",
        KEEP,
        BLOCK,
    ),
    "a padding mask": (
        """
def make_src_mask(src, src_pad_idx):
    # (N, 1, src_len)
    return (src != src_pad_idx).unsqueeze(1)
""",
        KEEP,
        BLOCK,
    ),
    "a padding mask by a constant": (
        "\nPAD_IDX = 1\n\ndef create_padding_mask(tokens):\n    return tokens.eq(PAD_IDX).unsqueeze(1)\n",
        BLOCK,
        KEEP,
    ),
    "a padding mask of numbers": (
        """
def get_pad_mask(seq_q, seq_k):
    batch_size, len_q = seq_q.size()
    batch_size, len_k = seq_k.size()
    pad_attn_mask = seq_k.data.eq(0).unsqueeze(1)
    return pad_attn_mask.expand(batch_size, len_q, len_k)
""",
        BLOCK,
        KEEP,
    ),
}


def examined(text, name="MultiHeadedAttention", **options):
    file = source.parse(HEAD + text, "mine.py")
    return doctor.check(file.load(name), source=file, name=name, **options)


@pytest.mark.parametrize("how", MADE)
def test_used_as_it_is_made_it_is_right(how):
    made, use, _ = MADE[how]
    report = examined(ATTENTION.format(use=use) + made)
    assert report.verdict == "right", report


@pytest.mark.parametrize("how", slow_except([*MADE][::3], MADE))
def test_used_the_other_way_round_it_is_m1(how):
    made, _, use = MADE[how]
    report = examined(ATTENTION.format(use=use) + made)
    assert [finding.id for finding in report.findings] == ["M1"], report
    (finding,) = report.findings
    assert "gives [[" in finding.evidence.say("en") and "得到 [[" in finding.evidence.say("zh")
    assert finding.code.strip() in {f"scores = {use}", "if mask is not None:"}, report


def test_an_additive_mask_that_hides_the_past():
    made = "\ndef causal_bias(n):\n    return torch.tril(torch.full((n, n), float('-inf')), diagonal=-1)\n"
    report = examined(ATTENTION.format(use=ADD) + made)
    assert [finding.id for finding in report.findings] == ["M1"] and "hides what may be seen" in str(report)


OWN = """
class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        {buffer}

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = {use}
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)
"""
BUFFERS = {  # what is kept, how it is used, and how it is used the other way round
    "(1, 1, N, N) float": (
        "torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size)",
        "att.masked_fill(self.mask[:, :, :T, :T] == 0, -1e9)",
        "att.masked_fill(self.mask[:, :, :T, :T] == 1, -1e9)",
    ),
    "(N, N) bool": (
        "torch.triu(torch.ones(block_size, block_size), diagonal=1).bool()",
        "att.masked_fill(self.mask[:T, :T], -1e9)",
        "att.masked_fill(~self.mask[:T, :T], -1e9)",
    ),
    "(N, N) bool, -inf": (
        "torch.triu(torch.ones(block_size, block_size), diagonal=1) == 0",
        "att.masked_fill(self.mask[:T, :T].logical_not(), float('-inf'))",
        "att.masked_fill(self.mask[:T, :T], float('-inf'))",
    ),
    "(1, N, N) additive": (
        "torch.triu(torch.full((1, block_size, block_size), -1e9), diagonal=1)",
        "att + self.mask[:, :T, :T]",
        "att + (-1e9 - self.mask[:, :T, :T])",
    ),
}


@pytest.mark.parametrize("how", BUFFERS)
def test_a_buffer_of_its_own(how):
    kept, right, inverted = BUFFERS[how]
    buffer = f'self.register_buffer("mask", {kept})'
    assert (report := examined(OWN.format(buffer=buffer, use=right), "CausalSelfAttention")).ok, report
    report = examined(OWN.format(buffer=buffer, use=inverted), "CausalSelfAttention")
    assert [finding.id for finding in report.findings][:1] == ["M1"], report


def test_words_alone_make_a_remark_and_leave_the_verdict_open():
    said = ATTENTION.replace("    def forward(", "    # mask: 1 for real tokens, 0 for padding\n    def forward(")
    report = examined(said.format(use=BLOCK))
    assert report.verdict == "partly" and report.findings == [] and "M1" in [one.id for one in report.remarks], report
    assert "--mask-true-means" in report.unseen[0].text.say("en")
    report = examined(said.format(use=BLOCK), mask_true_means="keep")  # who asks knows
    assert [finding.id for finding in report.findings] == ["M1"], report
    report = examined(said.format(use=BLOCK) + MADE["True = block"][0])  # what runs is worth more than a comment
    assert report.ok, report


def test_beside_masks_of_two_kinds_nothing_is_called_right_or_wrong():
    """One of the two must go wrong if it is handed over, and which of them is, nobody saw."""
    both = MADE["True = block"][0] + "\ndef make_pad_mask(src, pad):\n    return (src != pad).unsqueeze(1)\n"
    report = examined(ATTENTION.format(use=KEEP) + both)
    assert report.verdict == "partly", report
    told = " ".join(str(report).split())
    assert "right with those of make_pad_mask" in told and "wrong with those of causal_mask" in told, told
    assert examined(ATTENTION.format(use=KEEP) + both, mask_true_means="keep").verdict == "right"


@pytest.mark.parametrize(
    "aside",
    [
        "def masked_loss(pred, y, pad):\n    mask = (y == pad)\n    return (F.cross_entropy(pred, y) * mask).sum()\n",
        "def theirs(x):\n    mha = nn.MultiheadAttention(8, 2)\n    mask = torch.triu(torch.ones(5, 5), 1).bool()\n"
        "    return mha(x, x, x, attn_mask=mask)\n",
        "mask_rate = 0.15\ndef corrupt(ids, mask_id):\n    mask = ids == 0\n    ids[mask] = mask_id\n    return ids\n",
        "def make_mask(n):\n    raise RuntimeError('never')\n",
        "def look(n):\n    mask = torch.triu(torch.ones(n, n), 1).bool()\n    print(mask)\n",
    ],
    ids=["of a loss", "for torch's own", "for masked words", "that raises", "only shown"],
)
def test_a_mask_for_somebody_else_is_no_witness(aside):
    assert (report := examined(ATTENTION.format(use=KEEP) + aside)).verdict == "right", report


TOUCHES = "Path({mark!r}).touch()"


@pytest.mark.parametrize(
    "body",
    [
        "{touch}\n    return torch.tril(torch.ones(n, n))",
        "return helper(n)\ndef helper(n):\n    {touch}\n    return torch.tril(torch.ones(n, n))",
        "return inner_mask(n)\ndef inner_mask(n):\n    {touch}\n    return torch.tril(torch.ones(n, n))",
        "mask = model.generate_mask({touch})\n    return mask",
        "import subprocess\n    subprocess.run(['touch', {mark!r}])\n    return torch.ones(n, n)",
        "torch.save(torch.ones(1), {mark!r})\n    return torch.ones(n, n)",
        "torch.ones(n).numpy().tofile({mark!r})\n    return torch.ones(n, n)",
        "os.system('touch ' + {mark!r})\n    return torch.ones(n, n)",
        "while True:\n        pass",
        "for i in range(10**9):\n        n = n + 1\n    return torch.ones(n, n)",
    ],
)
def test_nothing_is_run_that_does_more_than_count(tmp_path, body):
    """A function with "mask" in its name may train a model, write a file or check this very file."""
    mark = str(tmp_path / "touched")
    text = f"import os\nfrom pathlib import Path\ndef make_mask(n):\n    {body.format(touch=TOUCHES.format(mark=mark), mark=mark)}\n"
    assert makers.masks(source.parse(HEAD + text), "attention") == []
    assert not (tmp_path / "touched").exists()


def test_what_makes_a_mask_is_run_on_texts_with_padding():
    file = source.parse(HEAD + MADE["Batch.make_std_mask"][0])
    made = {one.name: one for one in makers.masks(file, "attention")}
    assert made.keys() == {"self.src_mask", "self.tgt_mask"}  # what they are made of is no mask that attention gets
    assert all(one.lets("keep") is True and one.lets("block") is False for one in made.values())
