"""What looks like a mistake and may be meant is listed under "not checked", never claimed."""

import torch
from torch import nn

from qkv.doctor.doctor import check


class Weighted(nn.Module):
    """A mask that hides, and beside it an optional factor for the scores."""

    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def factor(self, scores, weights):
        return scores if weights is None else scores * weights

    def forward(self, queries, keys, values, attention_mask=None, attention_weights=None):
        b = len(queries)
        q, k, v = (
            layer(x).view(b, x.shape[1], self.h, -1).transpose(1, 2)
            for layer, x in ((self.q, queries), (self.k, keys), (self.v, values))
        )
        scores = self.factor(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, attention_weights)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask, float("-inf"))
        return self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


def test_a_factor_of_the_scores_is_no_mask():
    report = check(Weighted)
    assert report.verdict == "partly" and report.findings == [], report
    assert ["mask attention_weights"] == [each.id for each in report.unseen]


class Multiplied(Weighted):
    """The same number for number, but the one argument there is is a mask."""

    def forward(self, queries, keys, values, mask=None):
        return super().forward(queries, keys, values, attention_weights=mask)


def test_a_mask_that_multiplies_the_scores_is_still_named():
    report = check(Multiplied)
    assert report.verdict == "wrong" and report.findings[0].id in ("M7", "M8", "M9"), report


class TokensFirst(nn.Module):
    """(tokens, texts, width), with masks (keys, texts) or (queries, keys, texts), True = hidden."""

    fill = float("-inf")

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, h, attn_mask=None):
        n, b, c = h.shape
        q, k, v = (layer(h).view(n, b, self.n_head, c // self.n_head) for layer in (self.q, self.k, self.v))
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k) / (c // self.n_head) ** 0.5
        if attn_mask is not None:
            hidden = attn_mask[None, :, :, None] if attn_mask.dim() == 2 else attn_mask[:, :, :, None]
            scores = scores.masked_fill(hidden, self.fill)
        mixed = torch.einsum("ijbh,jbhd->ibhd", scores.softmax(1), v)
        return self.o(mixed.reshape(n, b, c))


def test_masks_of_tokens_first_are_tried():
    report = check(TokensFirst)
    assert report.verdict == "right", (report.findings, report.unseen)


class Unhidden(TokensFirst):
    """The same with a number that hides nothing."""

    fill = 1e-9


def test_and_their_mistakes_are_named():
    assert [finding.id for finding in check(Unhidden).findings] in (["M8"], ["M9"])


class Turned(nn.Module):
    """Rotary positions as matrices, which are kept as a plain tensor."""

    def __init__(self, d_model, max_len=64):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        angles = torch.arange(max_len)[:, None] * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
        self.turns = torch.zeros(max_len, d_model, d_model)
        for i in range(d_model // 2):
            cosine, sine = angles[:, i].cos(), angles[:, i].sin()
            block = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
            self.turns[:, 2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block

    def forward(self, x):
        n, d = x.shape[1:]
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k = (torch.bmm(each.transpose(0, 1), self.turns[:n]).transpose(0, 1) for each in (q, k))
        weights = torch.softmax(q @ k.transpose(-2, -1) / d**0.5, -1)
        return self.o(weights @ v)


class Drawn(Turned):
    """The same with a matrix that would have to learn."""

    def __init__(self, d_model):
        super().__init__(d_model)
        self.turns = torch.randn(64, d_model, d_model)


def test_a_table_is_no_weight_and_a_drawn_tensor_is():
    assert "T2" not in [finding.id for finding in check(Turned).findings]
    assert "T2" in [finding.id for finding in check(Drawn).findings]
