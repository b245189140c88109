"""Kinds of public code that were once accused, or called right, without proof. Written by hand in the style of that code."""

from textwrap import dedent

import pytest

from qkv.doctor import doctor
from qkv.doctor.case import Asked
from qkv.doctor.doctor import check
from qkv.doctor.source.file import parse, read
from qkv.doctor.subject.errors import Budget
from tests.selection import slow_except

HEAD = "import math\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom typing import Optional\n"


def checked(code, name, **options):
    source = parse(HEAD + dedent(code))
    return check(source.load(name), source=source, name=name, **options)


def ids(report):
    return [finding.id for finding in report.findings]


WORD = """
class ForecastAttention(nn.Module):
    def __init__(self, d_model: int, q: int, v: int, h: int):
        super().__init__()
        self._h, self._q = h, q
        self._W_q, self._W_k = nn.Linear(d_model, q * h), nn.Linear(d_model, q * h)
        self._W_v, self._W_o = nn.Linear(d_model, v * h), nn.Linear(h * v, d_model)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: ANNOTATION = None):
        K = query.shape[1]
        queries = torch.cat(self._W_q(query).chunk(self._h, dim=-1), dim=0)
        keys = torch.cat(self._W_k(key).chunk(self._h, dim=-1), dim=0)
        values = torch.cat(self._W_v(value).chunk(self._h, dim=-1), dim=0)
        scores = torch.bmm(queries, keys.transpose(1, 2)) / self._q ** 0.5
        if mask == "subsequent":
            future = torch.triu(torch.ones((K, K)), diagonal=1).bool()
            scores = scores.masked_fill(future, float("-inf"))
        attention = torch.bmm(scores.softmax(-1), values)
        return self._W_o(torch.cat(attention.chunk(self._h, dim=0), dim=-1))
"""


def test_a_word_that_chooses_the_mask_is_no_mask():
    """It was called M3: a mask of numbers, compared with a word, changes nothing."""
    report = checked(WORD.replace("ANNOTATION", "Optional[str]"), "ForecastAttention")
    assert report.verdict == "right", report
    assert "with mask='subsequent'" in report.adapted["checked"]
    report = checked(WORD.replace(": ANNOTATION", ""), "ForecastAttention")
    assert report.verdict == "partly" and "compared with words" in str(report.unseen[0].text)


def test_what_the_word_chooses_is_checked_too():
    report = checked(
        WORD.replace("ANNOTATION", "Optional[str]").replace("diagonal=1", "diagonal=2"), "ForecastAttention"
    )
    assert ids(report) == ["M12"], report


FOUR_AXES = """
class SmallSdpaAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
        self.q_proj, self.k_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.v_proj, self.o_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        bsz, q_len, _ = hidden_states.size()
        shape = (bsz, q_len, self.num_heads, self.head_dim)
        query, key, value = (f(hidden_states).view(shape).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        WIDEN
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, is_causal=attention_mask is None and q_len > 1
        )
        return self.o_proj(out.transpose(1, 2).reshape(bsz, q_len, -1))
"""
REFUSE = "if attention_mask is not None and attention_mask.size() != (bsz, 1, q_len, q_len): raise ValueError(attention_mask.size())"
WIDEN = "attention_mask = None if attention_mask is None else attention_mask[:, None, None, :].bool()"


def test_a_mask_of_four_axes_holds_the_triangle():
    """transformers' own convention; M6 only where the mask can say nothing but which keys are padding."""
    assert checked(FOUR_AXES.replace("WIDEN", REFUSE), "SmallSdpaAttention").verdict == "right"
    assert ids(checked(FOUR_AXES.replace("WIDEN", WIDEN), "SmallSdpaAttention")) == ["M6"]


ADDED = """
def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, float(0.0))

class DecoderAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x, attn_mask=None):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.num_heads, -1).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if attn_mask is not None:
            scores = scores + attn_mask
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))

class Decoder(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = DecoderAttention(embed_dim, num_heads)

    def forward(self, x):
        return x + self.attn(x, generate_square_subsequent_mask(x.size(1)))
"""


@pytest.mark.parametrize("name", slow_except(["Decoder"], ["DecoderAttention", "Decoder"]))
def test_zeros_where_an_additive_mask_lets_through_are_right(name):
    assert checked(ADDED, name).verdict == "right"


@pytest.mark.slow
def test_zeros_where_an_additive_mask_hides_are_wrong():
    swapped = ADDED.replace("mask == 0, float", "mask == 1, float").replace("mask == 1, float(0", "mask == 0, float(0")
    assert checked(swapped, "Decoder").verdict == "wrong"


PAIRS = """
class PairAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        '''
        x: [B, N, d_model]
        mask: [B, N, N], 1 where attention is allowed
        '''
        B, N, D = x.shape
        q, k, v = (f(x).view(B, N, self.n_heads, -1).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value))
        att = torch.matmul(q, k.transpose(2, 3)) / (D // self.n_heads) ** 0.5
        if mask is not None:
            mask = mask.unsqueeze(1).expand(B, self.n_heads, N, N)
            att = att.masked_fill(mask == 0, -1e10)
        return self.out(torch.matmul(att.softmax(-1), v).permute(0, 2, 1, 3).contiguous().view(B, N, D))
"""


def test_a_documented_shape_of_a_mask_is_tried():
    report = checked(PAIRS, "PairAttention")
    assert report.verdict == "right" and report.adapted["mask"].startswith("(B, n, m)"), report
    assert ids(checked(PAIRS.replace("-1e10", "1e-10"), "PairAttention")) in (["M8"], ["M9"])


AWAKE = """
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

class MultiHeadAttention:
    def __init__(self, d_model, heads_num, dropout=0.1):
        self.d_model, self.heads_num, self.rate = d_model, heads_num, dropout
        rng = np.random.default_rng(0)
        self.W_q, self.W_k, self.W_v, self.W_o = (rng.normal(0, d_model ** -0.5, (d_model, d_model)) for _ in range(4))

    def split(self, x):
        return x.reshape(x.shape[0], -1, self.heads_num, self.d_model // self.heads_num).transpose(0, 2, 1, 3)

    def drop(self, x, training):
        return x * np.random.binomial(1, 1 - self.rate, size=x.shape) / (1 - self.rate) if training else x

    def forward(self, query, key, value, mask=None, training=True):
        q, k, v = self.split(query @ self.W_q), self.split(key @ self.W_k), self.split(value @ self.W_v)
        energy = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        if mask is not None:
            energy = np.where(mask == 0, -1e9, energy)
        out = self.drop(softmax(energy), training) @ v
        return out.transpose(0, 2, 1, 3).reshape(query.shape[0], -1, self.d_model) @ self.W_o
"""


def test_dropout_that_a_flag_of_the_call_switches_on_is_no_mistake():
    """It was called T3, and H2 for what the noise did."""
    assert checked(AWAKE, "MultiHeadAttention").verdict == "right"
    assert "T3" in ids(checked(AWAKE.replace("if training else x", "if self.rate else x"), "MultiHeadAttention"))


TURNED = """
def apply_rotary_emb(xq, xk, freqs_cos, freqs_sin):
    xq_r, xq_i = xq.reshape(xq.shape[:-1] + (-1, 2)).unbind(-1)
    xk_r, xk_i = xk.reshape(xk.shape[:-1] + (-1, 2)).unbind(-1)
    cos, sin = freqs_cos[None, :, None, :], freqs_sin[None, :, None, :]
    xq_out = torch.stack([xq_r * cos - xq_i * sin, xq_r * sin + xq_i * cos], dim=-1).flatten(3)
    xk_out = torch.stack([xk_r * cos - xk_i * sin, xk_r * sin + xk_i * cos], dim=-1).flatten(3)
    return xq_out, xk_out
"""


def test_a_helper_that_returns_a_pair_is_not_accused_as_attention():
    """It was called P1, as if q and k were unused projections."""
    report = checked(TURNED, "apply_rotary_emb")
    assert report.verdict in ("right", "partly") and not report.findings, report
    assert (
        checked(TURNED.replace("xq_r * cos - xq_i * sin", "xq_r * cos + xq_i * sin"), "apply_rotary_emb").verdict
        != "right"
    )


def test_weights_drawn_in_a_demonstration_are_listed():
    code = """
    def self_attention(x, d_k=8):
        W_q, W_k, W_v = (np.random.randn(x.shape[-1], d_k) for _ in range(3))
        scores = x @ W_q @ (x @ W_k).swapaxes(-2, -1) / np.sqrt(d_k)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ (x @ W_v)
    """
    report = checked(code, "self_attention")
    assert report.verdict == "partly" and "drawn anew in every call" in str(report.unseen[0].text), report


def test_a_layer_that_is_made_in_forward_is_still_named():
    code = """
    class SelfAttention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q, self.k, self.dim = nn.Linear(dim, dim), nn.Linear(dim, dim), dim

        def forward(self, x):
            v = nn.Linear(self.dim, self.dim).to(x.dtype)(x)
            return (self.q(x) @ self.k(x).mT / self.dim ** 0.5).softmax(-1) @ v
    """
    assert "T1" in ids(checked(code, "SelfAttention"))


ONE = """
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        return (self.q(x) @ self.k(x).mT / self.dim ** 0.5).softmax(-1) @ self.v(x)
"""


def test_of_two_classes_of_one_name_the_report_says_which():
    report = checked(ONE.replace(" / self.dim ** 0.5", "") + ONE, "SelfAttention")
    assert report.verdict == "right" and [remark.id for remark in report.remarks] == ["twice"], report
    assert "2 times" in str(report.remarks[0].text)
    assert not checked(ONE, "SelfAttention").remarks


TWICE = """
class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size=64):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1)) / (C // self.n_head) ** 0.5
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = torch.softmax(att, dim=-1)
        att = torch.softmax(att, dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))
"""


def test_a_second_softmax_is_not_a_missing_causal_mask():
    report = checked(TWICE, "CausalSelfAttention")
    assert report.verdict != "right" and "M14" not in ids(report), report
    missing = TWICE.replace('att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))', "")
    assert ids(
        checked(missing.replace("        att = torch.softmax(att, dim=-1)\n", "", 1), "CausalSelfAttention")
    ) == ["M14"]


def test_a_mistake_that_only_one_set_of_sizes_shows_is_not_claimed():
    """A scale that is right for one width only, as a constant in the code can be."""
    code = ONE.replace("self.dim ** 0.5", "(self.dim ** 0.5 if self.dim != 24 else 1.0)")
    report = checked(code, "SelfAttention")
    assert report.verdict == "partly" and not report.findings, report
    assert any("S2" in str(each.text) and "one set of sizes" in str(each.text) for each in report.unseen)
    assert ids(checked(ONE.replace("self.dim ** 0.5", "1.0"), "SelfAttention")) == ["S2"]


PATCHED = """
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).mT / self.dim ** 0.5
        if mask is not None:
            hidden = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ self.v(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "works"),
    [
        ("scores.softmax(-1)", "hidden.softmax(-1)", False),  # an UnboundLocalError for every call without a mask
        ("hidden = scores.masked_fill", "scores = scores.masked_fill", True),
    ],
)
def test_a_patch_that_stops_a_call_that_ran_before_is_no_patch(old, new, works):
    source = parse(HEAD + dedent(PATCHED))
    target, budget = source.load("Attention"), Budget()
    report = doctor._diagnose(target, "Attention", "", source=source, asked=Asked(), budget=budget)
    assert ids(report) == ["M3"]
    begin = source.text.index(old)
    patched = source.edited([(begin, begin + len(old), new)])
    after = doctor._again(patched, target, "Attention", Asked(), Budget, budget.calls)
    assert (after is not None) == works and (after is None or not after.findings)


def test_a_failure_says_its_cause():
    """`--args` stood under every failure and helped with one in five."""
    body = ONE.replace("self.dim = dim", "self.dim = dim\n        assert dim % 7 == 0, 'a width of sevens'")
    problem = str(checked(body, "SelfAttention").problem)
    assert "a width of sevens" in problem and "refuses the sizes that were tried" in problem, problem
    problem = str(
        checked(
            ONE.replace("self.dim = dim", "self.dim = dim\n        raise ValueError('never')"), "SelfAttention"
        ).problem
    )
    assert "refuses the sizes" in problem and "--call" not in problem, problem
    problem = str(
        checked(
            ONE.replace("def __init__(self, dim)", "def __init__(self, zzz, dim)").replace(
                "self.dim = dim", "self.dim = dim + zzz['a'].b"
            ),
            "SelfAttention",
        ).problem
    )
    assert "constructor" in problem and "--args" in problem, problem


CHANGES = {
    "q or k is changed": ("self.q(x) @", "torch.tanh(self.q(x)) @"),
    "before the softmax": ("/ self.dim ** 0.5", "/ self.dim ** 0.5 + torch.sin(x @ x.mT)"),
    "between the softmax": (".softmax(-1)", ".softmax(-1) ** 2"),
    "after the weights": ("@ self.v(x)", "@ self.v(x) * torch.sigmoid(x)"),
}


@pytest.mark.parametrize("stage", slow_except(["between the softmax"], CHANGES))
def test_numbers_of_no_known_form_say_where_they_differ(stage):
    """Each stage changed in turn: the sentence names that stage, and those before it as recognised."""
    report = checked(ONE.replace(*CHANGES[stage]), "SelfAttention")
    text = next(str(each.text) for each in report.unseen if each.id == "numbers")
    assert stage in text.partition("First difference")[2], text


SCALED = """
class ScaledDotProductAttention(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.sqrt_dim = np.sqrt(dim)

    def forward(self, query, key, value, mask=None):
        score = torch.bmm(query, key.transpose(1, 2)) / self.sqrt_dim
        if mask is not None:
            score.masked_fill_(mask.view(score.size()), -float("inf"))
        return torch.bmm(F.softmax(score, -1), value)
"""


def test_a_scale_by_the_size_that_the_constructor_got_is_the_builders():
    """It was called S4: the width that it was built for and the width of the inputs were both ours."""
    assert checked(SCALED, "ScaledDotProductAttention").verdict == "right"
    assert checked(SCALED.replace("np.sqrt(dim)", "dim ** 0.25"), "ScaledDotProductAttention").verdict == "wrong"


QUERIES = """
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None, query_mask=None):
        scores = self.q(x) @ self.k(x).mT / self.dim ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -2 ** 32 + 1)
        weights = scores.softmax(-1)
        if query_mask is not None:
            weights = weights * query_mask
        return self.o(weights @ self.v(x))
"""


def test_a_mask_of_queries_beside_one_of_keys_is_not_accused():
    """It was called X7: rows of padding queries are set to 0 after the softmax, the keys are hidden before it."""
    report = checked(QUERIES, "Attention")
    assert report.verdict == "partly" and "query_mask" in str(report.unseen[0].text), report
    alone = QUERIES.replace("mask=None, query_mask=None", "query_mask=None").replace("if mask is not None", "if False")
    assert ids(checked(alone, "Attention")) == ["X7"]


def test_a_mask_that_the_code_replaces_by_its_own_is_listed():
    """It was called M3: a class with a triangle of its own takes the argument for others' sake."""
    code = """
    class CausalAttention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q, self.k, self.v, self.dim = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim), dim

        def forward(self, x, mask=None):
            mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
            scores = (self.q(x) @ self.k(x).mT / self.dim ** 0.5).masked_fill(~mask, -1e9)
            return scores.softmax(-1) @ self.v(x)
    """
    report = checked(code, "CausalAttention")
    assert report.verdict == "partly" and not report.findings, report
    assert ids(checked(ONE.replace("def forward(self, x):", "def forward(self, x, mask=None):"), "SelfAttention")) == [
        "M3"
    ]


def test_a_mask_that_another_layer_keeps_for_itself_is_no_evidence():
    """It was called M7: the mask of a ReLU was taken for one that attention gets."""
    code = """
    class ReLU:
        def forward(self, x):
            self._mask = x > 0
            return x * self._mask

    def sdpa(q, k, v, mask=None):
        scores = np.matmul(q, np.swapaxes(k, -2, -1)) / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return np.matmul(scores / scores.sum(-1, keepdims=True), v)
    """
    assert checked(code, "sdpa").verdict == "right"


def test_the_second_of_two_texts_may_be_the_one_that_asks():
    """A reshape with the other text's length was called right: only equal lengths were tried."""
    code = """
    class CrossAttention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dim = dim
            self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

        def forward(self, x, y):
            b, n, c = x.shape
            k, v = self.kv(x).reshape(b, n, 2 * c).chunk(2, -1)
            q = self.q(y).reshape(b, n, c)
            return self.o((q @ k.mT / self.dim ** 0.5).softmax(-1) @ v)
    """
    assert ids(checked(code, "CrossAttention")) == ["C3"]
    assert checked(code.replace("self.q(y).reshape(b, n, c)", "self.q(y)"), "CrossAttention").verdict == "right"


def test_a_pattern_with_gaps_is_not_called_right():
    code = """
    def dilated(q, k, v):
        places = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
        near = (places % 2 == 0) & (places.abs() <= 4)
        return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~near, -1e9).softmax(-1) @ v
    """
    report = checked(code, "dilated")
    assert report.verdict == "partly" and "pattern of its own" in str(report.unseen[0].text), report


def test_a_model_that_stops_at_texts_of_different_lengths_is_not_called_right():
    code = """
    class Translator(nn.Module):
        def __init__(self, vocab_size, d_model):
            super().__init__()
            self.source, self.target = nn.Embedding(vocab_size, d_model), nn.Embedding(vocab_size, d_model)
            self.q, self.k, self.v, self.d = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model), nn.Linear(d_model, d_model), d_model

        def forward(self, src, trg):
            memory, x = self.source(src), self.target(trg)
            scores = self.q(x) @ self.k(memory).mT / self.d ** 0.5
            LIMIT
            return scores.softmax(-1) @ self.v(memory)
    """
    assert checked(code.replace("LIMIT", ""), "Translator").verdict == "right"
    report = checked(code.replace("LIMIT", "scores = scores + torch.zeros(trg.shape[1], trg.shape[1])"), "Translator")
    assert report.verdict == "partly" and [each.id for each in report.unseen] == ["other keys"], report


BESIDE = """
class CausalHead(nn.Module):
    def __init__(self, dim, block_size=16):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.register_buffer("mask", torch.triu(torch.ones(block_size, block_size), diagonal=1).bool())

    def forward(self, x):
        n = x.shape[1]
        scores = self.q(x) @ self.k(x).mT / self.q.out_features ** 0.5
        return scores.masked_fill(self.mask[:n, :n], float("-inf")).softmax(-1) @ self.v(x)


class CrossHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, memory, mask=None):
        scores = self.q(x) @ self.k(memory).mT / self.q.out_features ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ self.v(memory)
"""
HOLDER = """
class Model(nn.Module):
    def __init__(self, dim, block_size=16):
        super().__init__()
        self.attn = CrossHead(dim)
        self.register_buffer("mask", torch.triu(torch.ones(block_size, block_size), diagonal=1).bool())

    def forward(self, x):
        return self.attn(x, x, self.mask[: x.shape[1], : x.shape[1]])
"""


def test_a_mask_that_another_class_keeps_for_itself_is_no_evidence():
    """CrossHead was called M1, since CausalHead has a triangle of the opposite meaning."""
    assert checked(BESIDE, "CrossHead").verdict == "right"
    assert ids(checked(BESIDE + HOLDER, "CrossHead")) == ["M1"]


OWN_WORDS = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        '''
        Args:
            query (torch.Tensor): of shape [batch, length, width]
            mask (torch.Tensor, optional): of shape [batch, length, length]
        '''
        b = query.size(0)
        q, k, v = (f(t).view(b, -1, self.n_head, self.d_k).transpose(1, 2) for f, t in ((self.w_q, query), (self.w_k, key), (self.w_v, value)))
        scores = q @ k.mT / self.d_k ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, -1, self.n_head * self.d_k))
"""


def test_a_type_in_brackets_is_no_shape():
    """`(torch.Tensor, optional)` was read as a mask of two axes, which the code refuses: M16."""
    assert checked(OWN_WORDS, "MultiHeadAttention").verdict == "right"


def test_words_that_contradict_each_other_prove_nothing():
    """One comment says (batch, length, length), another (batch, 1, length, length), which is what the code takes."""
    plain = OWN_WORDS.replace("mask.unsqueeze(1) == 0", "mask == 0")
    assert ids(checked(plain, "MultiHeadAttention")) == ["M16"]
    other = plain + "\n\ndef make(n):\n    # mask: (batch, 1, length, length)\n    return n\n"
    report = checked(other, "MultiHeadAttention")
    assert report.verdict == "partly" and [one.id for one in report.unseen] == ["shape mask"], report


def test_a_mask_over_queries_that_changes_nothing_is_a_remark():
    two = OWN_WORDS.replace("mask=None", "q_padding_mask=None, mask=None")
    report = checked(two, "MultiHeadAttention")
    assert not report.findings and "M3" in [one.id for one in report.remarks], report
    assert ids(checked(two.replace("q_padding_mask", "memory_mask"), "MultiHeadAttention")) == ["M3"]


WIDTHS = """
class SelfAttention(nn.Module):
    def __init__(self, input_dim, dim_k, dim_v):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(input_dim, dim_k), nn.Linear(input_dim, dim_k), nn.Linear(input_dim, dim_v)
        self.norm = 1 / math.sqrt(dim_k)

    def forward(self, x):
        return nn.Softmax(dim=-1)(torch.bmm(self.q(x), self.k(x).permute(0, 2, 1))) * self.norm @ self.v(x)

attention = SelfAttention(2, 4, 5)
"""


def test_a_scale_after_the_softmax_is_named_at_any_sizes():
    """A table of decays over channels had the wrong axes, and the check itself failed."""
    assert ids(checked(WIDTHS, "SelfAttention")) == ["S6"]


ALWAYS_DROPS = """
class Linear:
    def __init__(self, a, b):
        self.w = np.random.randn(a, b) * 0.1

    def forward(self, x):
        return x @ self.w


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, dropout=0.1):
        self.d_model, self.num_heads, self.d_k, self.dropout = d_model, num_heads, d_model // num_heads, dropout
        self.W_q, self.W_k, self.W_v, self.W_o = (Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, _ = x.shape
        Q, K, V = (w.forward(x).reshape(b, n, self.num_heads, self.d_k).transpose(0, 2, 1, 3) for w in (self.W_q, self.W_k, self.W_v))
        scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(self.d_k)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        if self.dropout > 0:
            weights = weights * (np.random.rand(*weights.shape) > self.dropout) / (1 - self.dropout)
        return self.W_o.forward((weights @ V).transpose(0, 2, 1, 3).reshape(b, n, self.d_model))
"""


def test_dropout_that_is_always_on_is_named_alone():
    """It was called T1 and H2: with another mask of dropout, shuffled tokens give other outputs."""
    assert ids(checked(ALWAYS_DROPS, "MultiHeadAttention")) == ["T3"]


BLOCK = """
class SelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.key, self.query, self.value, self.proj = (nn.Linear(n_embd, n_embd) for _ in range(4))

    def forward(self, key, value, query):
        B, L, D = query.size()
        k, q, v = (f(t).view(B, L, self.n_head, D // self.n_head).transpose(1, 2) for f, t in ((self.key, key), (self.query, query), (self.value, value)))
        att = (q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(B, L, D))


class EncodeBlock(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = SelfAttention(n_embd, n_head)
        self.mlp = nn.Sequential(nn.Linear(n_embd, n_embd), nn.GELU(), nn.Linear(n_embd, n_embd))

    def forward(self, x):
        x = self.ln1(x + self.attn(x, x, x))
        return self.ln2(x + self.mlp(x))
"""


def test_a_block_that_reads_one_text_is_not_blamed_for_other_lengths():
    """Its attention could not read keys of another length, which the block never hands over: C3."""
    assert checked(BLOCK, "EncodeBlock").verdict == "right"


GROUPED = """
class GQARope(nn.Module):
    def __init__(self, k, head_dim, heads=16, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, head_dim
        self.q, self.kv = nn.Linear(k, heads * head_dim), nn.Linear(k, 2 * heads // groups * head_dim)
        self.unify = nn.Linear(heads * head_dim, k)

    def forward(self, x, rope=None):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k, v = (t.reshape(b, n, -1, self.size).transpose(1, 2).repeat_interleave(self.groups, 1) for t in self.kv(x).chunk(2, -1))
        if rope is not None:
            q, k = rope(q), rope(k)
        return self.unify(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1))
"""


def test_attention_named_after_its_positions_is_no_position_code():
    """A name that ends with Rope was called R5: every token turned alike."""
    report = checked(GROUPED, "GQARope")
    assert not report.findings and report.adapted["kind"] != "positions", report


NEXT_ITEM = """
class SASRecBlock(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, padding_mask=None):
        y = self.norm(x)
        return x + self.attn(y, y, y, key_padding_mask=padding_mask)[0]
"""


def test_a_causal_layer_that_takes_padding_alone_has_no_triangle():
    """It was called right, since a mask can be given; but no triangle can."""
    assert ids(checked(NEXT_ITEM, "SASRecBlock")) == ["M14"]
    assert checked(NEXT_ITEM.replace("SASRec", "Encoder"), "EncoderBlock").verdict == "right"
    given = NEXT_ITEM.replace("padding_mask=None", "attn_mask=None").replace(
        "key_padding_mask=padding", "attn_mask=attn"
    )
    assert not checked(given, "SASRecBlock").findings


CACHE_WITH_NAN = """
class CachedAttention(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache[0].shape[2]
        steps = torch.arange(past, past + x.shape[1])
        q, k, v = (p(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        allowed = torch.arange(k.shape[2]) <= steps[:, None]
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~allowed, float("-inf"))
        heads = torch.softmax(scores, dim=1) @ v
        return self.out(heads.transpose(1, 2).flatten(2)), (k, v)
"""


def test_a_cache_whose_outputs_are_nan_is_not_judged():
    """Softmax over the heads gives NaN where all are masked; the check ended with an IndexError."""
    report = checked(CACHE_WITH_NAN, "CachedAttention")
    assert ids(report) == ["X3"]


RELATIVE_TABLE = """
def relative_positions(length, d_model):
    table = torch.zeros(length, d_model)
    steps = torch.arange(length).unsqueeze(1).float() - length // 2
    rate = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(steps * rate)
    table[:, 1::2] = torch.cos(steps * rate)
    return table
"""


@pytest.mark.parametrize(
    "code",
    [
        RELATIVE_TABLE,
        RELATIVE_TABLE.replace("length // 2", "1"),
        RELATIVE_TABLE.replace("return table", "return 0.02 * table"),
        RELATIVE_TABLE.replace("steps * rate", "steps / length * 2 * math.pi * rate"),
    ],
)
def test_a_table_of_other_positions_has_no_wrong_frequencies(code):
    """It was called R1: places from -n/2 to n/2 have other sines than places from 0."""
    report = checked(code, "relative_positions")
    assert not ids(report) and report.verdict != "right", report


def test_a_table_whose_pairs_have_two_frequencies_is_still_wrong():
    code = RELATIVE_TABLE.replace(" - length // 2", "").replace(
        "cos(steps * rate)", "cos(steps * rate * 10000 ** (-1 / d_model))"
    )
    assert ids(checked(code, "relative_positions")) == ["R1"]


SET_BEFORE = """
class RelativePositions(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        self.d_model = d_model

    def extend(self, length):
        self.register_buffer("pe", torch.zeros(1, 2 * length - 1, self.d_model))

    def forward(self, x):
        return x, self.pe[:, : x.size(1)]
"""


def test_what_another_method_sets_is_no_attribute_that_is_missing():
    """It was called W1: the encoder calls `extend` before."""
    assert checked(SET_BEFORE, "RelativePositions").verdict == "unknown"


ABSENT_BASE = """
import a_package_that_is_not_here as trainers

class SelfAttentionModel(trainers.TrainerModule):
    def __init__(self, d_model):
        super().__init__()
        self.save_settings()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
"""


def test_an_attribute_may_belong_to_an_absent_base_class():
    """It was called W1: the package that has the method is not installed."""
    assert checked(ABSENT_BASE, "SelfAttentionModel").verdict == "unknown"


IN_PLACE = """
def attend(q, k, v, mask=None):
    if mask is not None:
        k = k.masked_fill_(~mask[:, None, :, None], 0.0)
        v = v.masked_fill_(~mask[:, None, :, None], 0.0)
    q, k = q.softmax(dim=-1), k.softmax(dim=-2)
    return q @ (k.transpose(-2, -1) @ v)
"""


def test_projections_may_be_edited_in_place():
    """It was called N2: the check handed over leaves, where a model hands over outputs of its projections."""
    assert "N2" not in ids(checked(IN_PLACE, "attend"))


LATENTS = """
class Attend(nn.Module):
    def __init__(self, dim, heads=1):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, queries, keys):
        B, N, C = queries.shape
        q, k, v = (t.view(B, -1, self.heads, C // self.heads).transpose(1, 2) for t in (self.q(queries), self.k(keys), self.v(keys)))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(B, N, C))

class LatentBlock(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.read = Attend(dim)
        self.think = Attend(dim, heads)

    def forward(self, x, z):
        z = self.read(z, x)
        return self.think(z, z)
"""


def test_the_second_text_may_be_the_query_and_the_first_attention_single_headed():
    """It was called C5, by the letters x and z, and H4, by the heads of the attention that comes second."""
    report = checked(LATENTS, "LatentBlock")
    assert not ids(report) and report.verdict != "right", report


WHOLE_MODEL = """
class Forecaster(nn.Module):
    def __init__(self, d_in, d_model, n_heads, d_ff, d_out):
        super().__init__()
        self.embed = nn.Linear(d_in, d_model)
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.head = nn.Linear(d_model, d_out)

    def forward(self, x):
        x = self.embed(x)
        h = self.norm1(x)
        x = x + self.attn(h, h, h)[0]
        return self.head(x + self.ff(self.norm2(x)))
"""


@pytest.mark.parametrize("code", [WHOLE_MODEL, WHOLE_MODEL.replace("        x = self.embed(x)\n", "")])
def test_a_projection_behind_the_blocks_is_no_residual_that_is_missing(code):
    """It was called T6: the output of a model is its head's."""
    assert "T6" not in ids(checked(code, "Forecaster"))


def test_a_block_without_residuals_is_still_wrong():
    code = WHOLE_MODEL.replace("        x = self.embed(x)\n", "")
    code = code.replace("x + self.attn", "self.attn").replace(
        "self.head(x + self.ff(self.norm2(x)))", "self.ff(self.norm2(x))"
    )
    assert "T6" in ids(checked(code, "Forecaster"))


RECOMMENDER = """
class Recommender(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, users, sequences):
        x = self.items(sequences)
        n = x.shape[1]
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return scores.softmax(-1) @ self.v(x)
"""


def test_an_argument_that_nothing_uses_is_no_mask():
    """It was called M3: taken for a mask because nothing else fitted."""
    report = checked(RECOMMENDER, "Recommender")
    assert not ids(report) and report.verdict != "right", report


OUTER = """
class MemoryAttention(nn.Module):
    def __init__(self, d_query, d_memory, d_attention):
        super().__init__()
        self.w_q = nn.Linear(d_query, d_attention)
        self.w_k, self.w_v = nn.Linear(d_memory, d_attention), nn.Linear(d_memory, d_attention)

    def forward(self, query, keys, values):
        q = self.w_q(query)
        return (q @ keys.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ values

class StepDecoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = MemoryAttention(width, width, width)

    def forward(self, x, memory):
        return self.attention(x, self.attention.w_k(memory), self.attention.w_v(memory))
"""


def test_a_layer_that_the_decoder_calls_once_is_used():
    """It was called P1 and P3: keys and values come projected."""
    report = checked(OUTER, "MemoryAttention")
    assert not ids(report) and report.verdict != "right", report
    assert ids(checked(OUTER.split("class StepDecoder")[0], "MemoryAttention"))


def test_a_block_of_another_file_that_no_call_built_is_not_checked(tmp_path):
    """It was called right: the class that the other word chooses stands in another file."""
    (tmp_path / "distances.py").write_text(
        "from torch import nn\nclass DistanceAttention(nn.MultiheadAttention):\n    pass\n"
    )
    (tmp_path / "model.py").write_text(
        HEAD
        + dedent("""
            from distances import DistanceAttention

            class Attend(nn.Module):
                def __init__(self, dim, kind="plain"):
                    super().__init__()
                    if kind in KINDS:
                        self.other = DistanceAttention(dim, 2)
                    self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

                def forward(self, x):
                    q, k, v = self.q(x), self.k(x), self.v(x)
                    return (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        """).replace("KINDS", "('distance',) if len(kind) > 99 else ()")
    )
    source = read(tmp_path / "model.py")
    report = check(source.load("Attend"), source=source, name="Attend")
    assert report.verdict == "partly" and "no call reached" in str(report), report


SEQUENCE_FIRST = """
class EncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, d_ff):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, src):
        src = self.norm1(src + self.self_attn(src, src, src)[0])
        return self.norm2(src + self.linear2(self.linear1(src).relu()))
"""


def test_a_layer_whose_axes_nobody_names_may_be_sequence_first():
    """It was called H9, though torch's own attention takes the sequence first unless told otherwise."""
    report = checked(SEQUENCE_FIRST, "EncoderLayer")
    assert not ids(report) and report.verdict == "partly", report
    named = SEQUENCE_FIRST.replace("def forward(self, src):", "def forward(self, src):  # (batch, length, d_model)")
    assert ids(checked(named, "EncoderLayer")) == ["H9"]


FLAGGED = """
class BlockAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(self, x, attn_mask=None):
        n = x.shape[1]
        future = torch.ones(n, n).triu(1).bool() if attn_mask else None
        return self.attn(x, x, x, attn_mask=future)[0]
"""


def test_a_flag_named_like_a_mask_is_no_broken_mask():
    """It was called M17: a tensor has no single truth, and this is no tensor."""
    report = checked(FLAGGED, "BlockAttention")
    assert not ids(report) and report.verdict == "partly", report
    broken = FLAGGED.replace(
        "future = torch.ones(n, n).triu(1).bool() if attn_mask else None", "future = ~attn_mask if attn_mask else None"
    )
    assert ids(checked(broken, "BlockAttention")) == ["M17"]


OPTION = '''
class PixelAttention(nn.Module):
    """Self-attention. With causal_mask, each pixel only considers previous pixels, not future ones."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, causal_mask=False):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        if causal_mask:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return self.out(scores.softmax(-1) @ self.v(x))
'''


def test_an_optional_triangle_is_not_missing():
    """It was called M14: the words that ask for a triangle are about the flag."""
    assert not ids(checked(OPTION, "PixelAttention"))


HEAD_WIDTH = """
class PatchAttention(nn.Module):
    def __init__(self, embed_dim, heads=4, dim_head=8):
        super().__init__()
        inner = INNER
        self.heads, self.scale = heads, dim_head ** -0.5
        self.qkv, self.out = nn.Linear(embed_dim, 3 * inner), nn.Linear(inner, embed_dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(B, N, -1))
"""


def test_a_width_of_heads_that_only_scales_is_not_checked():
    """It was called right: the check had built it with the one width that fits."""
    report = checked(HEAD_WIDTH.replace("INNER", "embed_dim"), "PatchAttention")
    assert report.verdict == "partly" and "dim_head" in str(report), report
    assert checked(HEAD_WIDTH.replace("INNER", "heads * dim_head"), "PatchAttention").verdict == "right"


BASED = """
def sinusoid_table(positions, d_hid, T=1000):
    angle = torch.arange(positions)[:, None] / T ** (2 * (torch.arange(d_hid) // 2) / d_hid)
    angle[:, 0::2], angle[:, 1::2] = torch.sin(angle[:, 0::2]), torch.cos(angle[:, 1::2])
    return angle
"""


def test_a_base_that_the_caller_chooses_is_no_wrong_frequency():
    """It was called R1: its base is 1000, which is what its argument says."""
    assert checked(BASED, "sinusoid_table").verdict == "partly"
    assert ids(checked(BASED.replace(", T=1000", "").replace("T **", "1000 **"), "sinusoid_table")) == ["R1"]


COSINE = """
def attend(q, k, v):
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v

class CosineAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads, self.scale = heads, nn.Parameter(torch.tensor(10.0))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return self.out(attend(q * self.scale, k, v).transpose(1, 2).reshape(B, N, C))
"""


def test_scores_that_the_caller_scales_need_no_scale():
    """It was called S2: the class that calls it divides q and k by their lengths."""
    report = checked(COSINE, "attend")
    assert not ids(report) and report.verdict == "partly", report
    assert ids(checked(COSINE.split("class CosineAttention")[0], "attend")) == ["S2"]


BUCKETS = """
def attend_in_buckets(q, k, v, k_bucket_size=512):
    q = q * q.shape[-1] ** -0.5
    tops, sums, outs = [], [], []
    for key, value in zip(k.split(k_bucket_size, dim=-2), v.split(k_bucket_size, dim=-2)):
        scores = q @ key.transpose(-2, -1)
        tops.append(scores.amax(-1, keepdim=True))
        weights = (scores - tops[-1]).exp()
        sums.append(weights.sum(-1, keepdim=True))
        outs.append(weights @ value)
    top = torch.stack(tops).amax(0)
    total = sum(s * (t - top).exp() for s, t in zip(sums, tops))
    return sum(o * (t - top).exp() for o, t in zip(outs, tops)) / total
"""


def test_buckets_that_never_meet_in_a_short_text_are_shrunk():
    """It was called right with only one bucket: whether buckets add up was never seen."""
    assert checked(BUCKETS, "attend_in_buckets").verdict == "right"
    forgot = BUCKETS.replace("s * (t - top).exp() for s", "s for s")
    assert checked(forgot, "attend_in_buckets").verdict == "partly"


FREQUENCIES = """
def original_rope(i_values, base, dim):
    return base ** (-2 * i_values / dim)

def rotate_pairs(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)
"""


def test_other_functions_are_not_judged_as_turns():
    """Frequencies computed from their indices were called R5, and so is any step of a turn by itself."""
    for name in ("original_rope", "rotate_pairs"):
        assert not checked(FREQUENCIES, name).findings


HALF_TURNED = """
class Rotary(nn.Module):
    def __init__(self, dim, max_seq_len):
        super().__init__()
        freq = (1 / 10000) ** torch.linspace(0, 1, steps=dim // 4, dtype=torch.float32)
        theta = torch.einsum("i,j->ij", torch.arange(max_seq_len).float(), torch.cat([freq, torch.zeros(dim // 4)]))
        self.register_buffer("cos", theta.cos())
        self.register_buffer("sin", theta.sin())

    def forward(self, x_bthd):
        cos, sin = self.cos[None, : x_bthd.size(-3), None, :], self.sin[None, : x_bthd.size(-3), None, :]
        x1, x2 = x_bthd.chunk(2, dim=-1)
        return torch.cat((x1 * cos + x2 * sin, x2 * cos - x1 * sin), 3)

class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))

def row_softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
"""


def test_a_function_of_the_values_of_its_input_is_no_table():
    """A turn of zeros was read as a table of zeros (R1); a feed-forward layer and a softmax as learned tables (right)."""
    assert not checked(HALF_TURNED, "Rotary").findings
    for name in ("PositionwiseFeedForward", "row_softmax"):
        assert checked(HALF_TURNED, name).verdict == "unknown"


IN_TWO_PARTS = """
class SelfPart(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.num_heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)

class OutPart(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dense, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)

    def forward(self, mixed, x):
        return self.norm(self.dense(mixed) + x)

class Both(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.self = SelfPart(dim, num_heads)
        self.output = OutPart(dim)

    def forward(self, x):
        mixed = self.self.forward(x)
        return self.output.forward(mixed, x)
"""


def test_the_output_projection_may_stand_in_another_part():
    """It was called P4: the class that builds both parts has no matrix of its own."""
    assert checked(IN_TWO_PARTS, "SelfPart").verdict == "partly"
    assert checked(IN_TWO_PARTS, "Both").verdict == "right"
    alone = IN_TWO_PARTS.replace("self.output.forward(mixed, x)", "self.output.forward(mixed + x, x)")
    assert ids(checked(alone, "SelfPart")) == ["P4"]


INVERTED = """
class Attend(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.num_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, n, c))

class Model(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.attn = Attend(dim, num_heads)

    def make(self, length):
        if not hasattr(self, "_causal_mask"):
            self._causal_mask = torch.triu(torch.ones(length, length), diagonal=1).bool()[None, None]
        return KEPT[:, :, :length, :length]

    def forward(self, x):
        return self.attn(x, mask=self.make(x.size(1)))
"""


def test_a_mask_that_is_turned_round_before_it_is_handed_on_blames_nobody():
    """It was called M1: what an object keeps was taken for what it hands on."""
    assert not checked(INVERTED.replace("KEPT", "(~self._causal_mask)"), "Attend").findings
    assert not checked(INVERTED.replace("KEPT", "(self._causal_mask == 0)"), "Attend").findings
    assert ids(checked(INVERTED.replace("KEPT", "self._causal_mask"), "Attend")) == ["M1"]


REFUSED = """
class PaddedAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, value, attention_mask=None):
        # expanded mask : (B, 1, 1, Lk)
        b, n, c = query.shape
        q, k, v = (f(t).view(b, -1, self.num_heads, c // self.num_heads).transpose(1, 2) for f, t in ((self.q, query), (self.k, key), (self.v, value)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.num_heads)
        if attention_mask is not None:
            if attention_mask.shape != (b, k.shape[2]):
                raise ValueError(f"attention mask must have shape ({b}, {k.shape[2]})")
            scores = scores.masked_fill(attention_mask.eq(0)[:, None, None, :], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""


def test_a_shape_that_the_code_refuses_is_not_promised():
    """It was called M16: a comment on a line within was read as the shape of the argument."""
    assert not checked(REFUSED, "PaddedAttention").findings


EQUAL_LENGTHS = '''
class MultiHead(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value):
        """query, key, value: tensors of shape (batch, seq_len, d_model)."""
        b, n, c = query.shape
        q, k, v = (f(t).view(b, n, self.h, -1).transpose(1, 2) for f, t in ((self.wq, query), (self.wk, key), (self.wv, value)))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (c // self.h) ** 0.5, dim=-1)
        return self.wo((weights @ v).transpose(1, 2).reshape(b, n, c))
'''


def test_a_shape_shared_by_queries_and_keys_promises_equal_lengths():
    """It was called C3, since keys of another number stop it."""
    report = checked(EQUAL_LENGTHS, "MultiHead")
    assert report.verdict == "partly" and report.unseen[0].id == "other keys", report
    assert ids(checked(EQUAL_LENGTHS.replace("query, key, value: t", "T"), "MultiHead")) == ["C3"]


TURN = """
class RotaryEmbedding(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0):
        super().__init__()
        freq = theta ** (-torch.arange(0, d_k, 2).float() / d_k)
        angles = torch.outer(torch.arange(max_seq_len).float(), freq)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
"""


def test_a_turn_by_other_frequencies_stays_open():
    """A turn by any angles keeps lengths and distances, so it was called right."""
    assert checked(TURN, "RotaryEmbedding").verdict == "right"
    for right, wrong in (("/ d_k)", "/ d_k / 2)"), ("(0, d_k, 2)", "(0, d_k // 2)"), ("theta **", "7 + theta **")):
        assert checked(TURN.replace(right, wrong), "RotaryEmbedding").verdict == "partly", wrong
    assert checked(TURN.replace("theta=10000.0", "theta=500_000"), "RotaryEmbedding").verdict == "right"


WORDS_ALONE = """
class BigramModel(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx):
        return self.token_embedding_table(idx)
"""


def test_a_table_of_words_is_no_table_of_positions():
    assert checked(WORDS_ALONE, "BigramModel").verdict == "unknown"


FIRST_AXIS = """
class PositionalEncoding(nn.Module):
    'Sinusoidal positions.'

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(1))

    def forward(self, x):
        return x + self.pe[: x.size(0)]
"""


def test_a_table_along_the_first_axis_is_right_only_if_the_class_names_that_axis():
    """It was called right in files whose texts stand along the first axis."""
    assert checked(FIRST_AXIS, "PositionalEncoding").verdict == "partly"
    tokens_first = FIRST_AXIS.replace("positions.'", "positions; x: [seq_len, batch_size, dim].'")
    assert checked(tokens_first, "PositionalEncoding").verdict == "right"
    assert ids(checked(tokens_first.replace("seq_len, batch_size", "batch_size, seq_len"), "PositionalEncoding")) == [
        "R3"
    ]


THREE_AXES = """
import torch
from torch import nn

class MultiHead(nn.Module):
    def __init__(self, embed_size, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.out = (nn.Linear(embed_size, embed_size) for _ in range(4))

    def forward(self, q, k, v, mask=None):
        # mask: (batch_size, seq_len_q, seq_len_k)
        b, n, c = q.shape
        q, k, v = (f(t).view(b, -1, self.h, c // self.h).transpose(1, 2) for f, t in ((self.wq, q), (self.wk, k), (self.wv, v)))
        scores = q @ k.transpose(-2, -1) / (c // self.h) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""
LAYERS = """
from torch import nn
from attention import MultiHead

class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.up = MultiHead(dim, heads), nn.Linear(dim, dim)

    def forward(self, x, mask):
        return self.up(self.attention(x, x, x, mask[:, None]))
"""


def test_a_mask_from_another_file_may_have_another_shape_than_in_a_comment(tmp_path):
    """It was called M16, by the comment alone."""
    path = tmp_path / "attention.py"
    path.write_text(THREE_AXES)
    assert ids(check(read(path).load("MultiHead"), source=read(path), name="MultiHead")) == ["M16"]
    (tmp_path / "layers.py").write_text(LAYERS)
    report = check(read(path).load("MultiHead"), source=read(path), name="MultiHead")
    assert report.verdict == "partly" and report.unseen[0].id == "shape mask", report


def test_a_softmax_over_a_dimension_is_no_attention():
    """A softmax by itself, over the axis that the check chose, was called H3."""
    code = "def softmax(x, dim):\n    e = torch.exp(x - x.amax(dim, keepdim=True))\n    return e / e.sum(dim, keepdim=True)\n"
    assert not checked(code, "softmax").findings


THIRD_AXIS = """
def scaled_dot_product_attention(Q, K, V):
    # (batch, seq_len, d_v)
    d = Q.shape[2]
    weights = F.softmax(Q @ K.transpose(-2, -1) / math.sqrt(d), dim=-1)
    return weights @ V
"""


def test_a_function_without_heads_is_not_blamed_with_heads():
    """With an axis of heads its third axis is the length: it was called S4."""
    assert checked(THIRD_AXIS, "scaled_dot_product_attention").verdict == "right"
    with_heads = THIRD_AXIS.replace("(batch,", "(batch, heads,")
    assert checked(with_heads, "scaled_dot_product_attention").verdict == "partly"
    assert ids(checked(THIRD_AXIS.replace("shape[2]", "shape[1]"), "scaled_dot_product_attention")) == ["S4"]


WITHOUT_MASK = '''
class PlainAttention(nn.Module):
    """Basic self-attention without causal masking, to learn from."""

    def __init__(self, din, dout):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(din, dout), nn.Linear(din, dout), nn.Linear(din, dout)

    def forward(self, x):
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / self.k.out_features ** 0.5, dim=-1)
        return weights @ self.v(x)

class NonCausalAttention(PlainAttention):
    pass
'''


def test_a_docstring_that_denies_causality_needs_no_triangle():
    """The words "without causal masking" were read as causal: M14."""
    for name in ("PlainAttention", "NonCausalAttention"):
        assert checked(WITHOUT_MASK, name).verdict == "right"
    assert ids(checked(WITHOUT_MASK.replace("without causal masking", "with a causal mask"), "PlainAttention")) == [
        "M14"
    ]


DOCUMENTED_SHAPES = """
class Attention(nn.Module):
    \"\"\"mask: (batch, tokens), (batch, tokens, tokens) or (batch, heads, tokens, tokens), 1 = attend\"\"\"

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def widen(self, mask):
        if mask.dim() == 2:
            return mask[:, None, None]
        if mask.dim() == 3:
            return mask[:, None]
        FOUR_AXES

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = None if mask is None else self.widen(mask)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(("four_axes", "verdict"), [("return mask", "right"), ("return None", "partly")])
def test_a_mask_of_another_shape_that_changes_nothing_is_listed(four_axes, verdict):
    """A mask with four axes was dropped without an error, and the attention called right."""
    report = checked(DOCUMENTED_SHAPES.replace("FOUR_AXES", four_axes), "Attention")
    assert ids(report) == [] and report.verdict == verdict


DOT_ATTENTION = """
class DotAttention(nn.Module):
    def forward(self, decoder_hidden, encoder_states):
        energies = torch.bmm(encoder_states, decoder_hidden.unsqueeze(2))
        weights = F.softmax(energies, dim=1)
        return torch.bmm(weights.transpose(1, 2), encoder_states).squeeze(1)
"""


def test_dot_attention_without_weights_needs_no_scale():
    """Luong's score q·k was called S2."""
    assert ids(checked(DOT_ATTENTION, "DotAttention")) == []
