"""What looks like a mistake and may be meant is listed under "not checked", never claimed."""

import torch
from torch import nn

from qkv.doctor.doctor import check
from qkv.doctor.source.file import parse, read


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


HEADS = """
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head = heads, dim // heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return ((q @ k.mT / self.head**0.5).softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
"""
AROUND = "from torch import nn\nfrom heads import Heads\n\n\nclass Layer(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n        self.heads, self.out = Heads(dim, 4), nn.Linear(dim, dim)\n"


def test_a_projection_may_stand_in_the_layer_around(tmp_path):
    """Only a class that nobody uses has to have an output projection itself."""
    (tmp_path / "heads.py").write_text(HEADS)
    verdicts = []
    for other in (None, "from torch import nn\n", AROUND):
        if other is not None:
            (tmp_path / "layer.py").write_text(other)
        source = read(tmp_path / "heads.py")
        report = check(source.load("Heads"), source=source, name="Heads")
        verdicts.append((report.verdict, [finding.id for finding in report.findings]))
    assert verdicts == [("wrong", ["P4"]), ("wrong", ["P4"]), ("partly", [])]
    assert "layer.py" in str(report.unseen[0].text)


def said(line):
    """Of a function with this line about its mask."""
    code = f"""
import torch


def attend(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        {line}
    return scores.softmax(-1) @ v
"""
    source = parse(code)
    return check(source.load("attend"), source=source, name="attend")


def test_keys_of_the_queries_number_are_no_mistake_of_a_design_for_one_length():
    code = """
import torch


def attend(q, k, v):
    places = torch.arange(q.shape[1])
    near = -(places[:, None] - places).abs().to(q.dtype)
    return (q @ k.mT / q.shape[-1] ** 0.5 + near * 0).softmax(-1) @ v
"""
    source = parse(code)
    report = check(source.load("attend"), source=source, name="attend")
    assert report.verdict == "right" and any(remark.id == "C3" for remark in report.remarks)


def test_a_mask_that_moves_next_to_nothing_is_named():
    """−inf times 1e-9 is −inf: a mask of −inf hides the mistake that every mask of numbers shows."""
    assert [finding.id for finding in said("scores = scores + (1 - mask) * -1e-9").findings] == ["M9"]
    assert said("scores = scores + (1 - mask) * -1e9").verdict == "right"


def test_the_fill_of_bert_is_a_remark():
    report = said("scores = scores + (1 - mask) * -10000.0")
    assert report.verdict == "right" and any(remark.id == "M19" for remark in report.remarks)
    assert [finding.id for finding in said("scores = scores + (1 - mask) * -1000.0").findings] == ["M19"]


ADDITIVE = """
import torch
from torch import nn

class Additive(nn.Module):
    def __init__(self, decoder_dim, encoder_dim, attention_dim):
        super().__init__()
        self.of_query, self.of_keys = nn.Linear(decoder_dim, attention_dim), nn.Linear(encoder_dim, attention_dim)
        self.score = nn.Linear(attention_dim, 1)

    def forward(self, query, encoder_outputs):  # (B, C) and (B, N, C)
        both = torch.tanh(self.of_query(query).unsqueeze(1) + self.of_keys(encoder_outputs))
        weights = self.score(both).squeeze(-1).softmax(1)
        return (weights.unsqueeze(-1) * encoder_outputs).sum(1), weights
"""


def test_a_score_without_a_product_does_not_run_across_the_batch():
    source = parse(ADDITIVE)
    report = check(source.load("Additive"), source=source, name="Additive")
    assert report.verdict != "wrong", report.findings


class WithEdges(nn.Module):
    """Self-attention beside an argument that only a loop reads."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, edge_attr, paths=()):
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        for path in paths:
            scores = scores + edge_attr[path].mean()
        return scores.softmax(-1) @ self.v(x)


def test_an_argument_that_nothing_calls_a_memory_is_listed_where_it_changes_nothing():
    report = check(WithEdges)
    assert report.verdict == "partly" and "edge_attr" in [each.id.split()[-1] for each in report.unseen], report


class Compared(Weighted):
    """Hidden are the places where the mask is minus infinity."""

    def forward(self, queries, keys, values, attention_mask=None):
        return super().forward(
            queries, keys, values, None if attention_mask is None else attention_mask == float("-inf")
        )


def test_a_mask_that_is_compared_with_minus_infinity_is_tried_so():
    assert check(Compared).verdict == "right"


class NormedQuery(nn.Module):
    """A layer with its residual, whose norm the keys and values go through or not."""

    all = False

    def __init__(self, d_model, h):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(d_model), Weighted(d_model, h)

    def forward(self, q, k, v):
        return q + self.attention(self.norm(q), *(self.norm(x) if self.all else x for x in (k, v)))


class NormedAll(NormedQuery):
    all = True


def test_a_norm_for_the_query_only_is_listed():
    assert [each.id for each in check(NormedQuery).unseen] == ["normed"]
    assert check(NormedAll).verdict == "right"


class Normalised(nn.Module):
    """Retention whose rows are divided by their own sums."""

    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        n = torch.arange(x.shape[1], dtype=x.dtype)
        distance = (n[:, None] - n).clamp(min=0)
        retention = (self.q(x) @ self.k(x).transpose(-2, -1) * 0.9**distance).tril()
        return retention / retention.sum(-1, keepdim=True).abs().clamp(min=0.1) @ self.v(x)


def test_rows_that_are_divided_are_no_growing_state():
    report = check(Normalised)
    assert report.verdict != "wrong", report.findings


class CopiedEncoder(nn.Module):
    """torch.nn.TransformerEncoder copies the layer that it is given, and the one that is copied never runs."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(d_model, nhead, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(self.layer, 1)

    def forward(self, x):
        return self.layers(x)


def test_a_layer_that_is_only_copied_may_lie_idle():
    assert check(CopiedEncoder).verdict == "right"


class Forgotten(nn.Module):
    """Two layers of one class, each with weights of its own, of which one is never called."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.first, self.second = (nn.TransformerEncoderLayer(d_model, nhead, 32, batch_first=True) for _ in range(2))

    def forward(self, x):
        return self.first(self.first(x))


def test_a_layer_that_was_forgotten_is_named():
    report = check(Forgotten)
    assert report.verdict == "wrong" and "second" in str(report.findings[0].evidence), report


def test_gradients_are_looked_at_where_the_caller_has_switched_them_off():
    with torch.no_grad():
        report = check(Forgotten)
    assert report.verdict == "wrong" and "second" in str(report.findings[0].evidence), report


CONFIGURED = """
from torch import nn

class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.scale = config.n_head, config.scale
        self.q, self.k, self.v, self.out = (nn.Linear(config.d_model, config.d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / self.scale
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


def test_a_scale_that_the_configuration_gives_is_the_callers():
    for code in (CONFIGURED, CONFIGURED.replace("/ self.scale", "* self.scale")):
        source = parse(code)
        report = check(source.load("Attention"), source=source, name="Attention")
        assert report.verdict == "right", report.findings
    source = parse(CONFIGURED.replace(" / self.scale", ""))
    assert [each.id for each in check(source.load("Attention"), source=source, name="Attention").findings] == ["S2"]


EMBEDDED = """
import torch
from torch import nn

class PositionalEncoding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.d_model = d_model

    def forward(self, ids):
        n, channel = torch.arange(ids.shape[1], dtype=torch.float64)[:, None], torch.arange(self.d_model)
        angle = n / 10000 ** (2 * (channel // 2) / self.d_model)
        table = torch.where(channel % 2 == 0, angle.sin(), angle.cos())
        return self.words(ids) * self.d_model ** 0.5 + table
"""


def test_a_table_is_looked_at_beside_the_words_that_it_is_added_to():
    for code, expected in ((EMBEDDED, []), (EMBEDDED.replace("(channel // 2)", "channel"), ["R1"])):
        source = parse(code)
        report = check(source.load("PositionalEncoding"), source=source, name="PositionalEncoding")
        assert [each.id for each in report.findings] == expected and report.verdict != "partly", report


SIZED = """
from torch import nn

class Attention(nn.Module):
    def __init__(self, {name}):
        super().__init__()
        self.factor = {name} ** 0.5

    def forward(self, q, k, v):
        return (q @ k.transpose(-2, -1) / self.factor).softmax(-1) @ v
"""


def test_a_size_without_a_known_name_is_the_callers():
    for name in ("d_attention", "d_model"):
        source = parse(SIZED.replace("{name}", name))
        report = check(source.load("Attention"), source=source, name="Attention")
        assert not report.findings, (name, report)


UPSIDE_DOWN = """
import torch
from torch import nn

class CausalAttention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = ~torch.triu(torch.ones_like(scores, dtype=torch.bool))
        scores[mask] = -float("inf")
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""


def test_vectors_that_see_themselves_alone_are_no_attention():
    source = parse(UPSIDE_DOWN)
    report = check(source.load("CausalAttention"), source=source, name="CausalAttention")
    ids = [each.id for each in report.findings]
    assert ids[0] == "M12" and not {"S1", "P4"} & {*ids}, report
