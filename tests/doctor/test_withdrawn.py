"""Claims that are withdrawn: sizes that hide everything, options that are the caller's, products that were not identified."""

import pytest

from tests.doctor.test_wild_kinds import checked, ids

CHANNELS = """
class LinearImageAttention(nn.Module):
    def __init__(self, in_channels, key_channels, HEADS, value_channels):
        super().__init__()
        self.heads, self.key_channels, self.value_channels = HEADS, key_channels, value_channels
        self.keys, self.queries = nn.Conv2d(in_channels, key_channels, 1), nn.Conv2d(in_channels, key_channels, 1)
        self.values, self.back = nn.Conv2d(in_channels, value_channels, 1), nn.Conv2d(value_channels, in_channels, 1)

    def forward(self, picture):
        n, _, h, w = picture.size()
        keys = self.keys(picture).reshape(n, self.heads, -1, h * w).softmax(-1)
        queries = self.queries(picture).reshape(n, self.heads, -1, h * w).softmax(2)
        values = self.values(picture).reshape(n, self.heads, -1, h * w)
        mixed = (keys @ values.transpose(2, 3)).transpose(2, 3) @ queries
        return self.back(mixed.reshape(n, self.value_channels, h, w)) + picture
"""


def test_a_softmax_over_one_element_proves_nothing():
    """Built with as many heads as channels, each head is one wide: its softmax is 1 and the queries get no gradient."""
    report = checked(CHANNELS.replace("HEADS", "n_groups_of_channels"), "LinearImageAttention")
    assert ids(report) == [] and report.verdict in ("partly", "unknown"), report


OPTION = """
class SmallAttention(nn.Module):
    def __init__(self, nx, n_head, scale=False):
        super().__init__()
        self.n_head, self.scale = n_head, scale
        self.c_attn, self.c_proj = nn.Linear(nx, 3 * nx), nn.Linear(nx, nx)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(c, dim=-1))
        w = q @ k.transpose(-2, -1)
        if self.scale:
            w = w / RIGHT
        return self.c_proj((w.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
"""


def test_a_default_that_an_option_changes_is_the_callers_choice():
    report = checked(OPTION.replace("RIGHT", "math.sqrt(v.size(-1))"), "SmallAttention")
    assert ids(report) == [] and report.verdict == "partly", report
    assert "scale=True" in str(report.unseen[0].text)


def test_an_option_that_makes_it_no_better_excuses_nothing():
    report = checked(OPTION.replace("RIGHT", "math.sqrt(c)"), "SmallAttention")
    assert ids(report) == ["S2"], report


FOLDED = """
class MemoryAttention(nn.Module):
    def __init__(self, in_dim, slots, num_heads):
        super().__init__()
        self.heads = num_heads
        self.query, self.proj = nn.Linear(in_dim, in_dim), nn.Linear(in_dim, in_dim)
        self.keys = nn.Parameter(torch.randn(slots, in_dim))
        self.values = nn.Parameter(torch.randn(slots, in_dim))

    def forward(self, x):
        q = self.query(x)
        k, v = (each.expand(len(x), -1, -1) for each in (self.keys, self.values))
        q, k, v = (torch.cat(each.chunk(self.heads, dim=-1), dim=0) for each in (q, k, v))
        out = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.proj(torch.cat(out.chunk(self.heads, dim=0), dim=-1))
"""


def test_heads_along_the_batch_are_mixed_up_only_if_texts_see_each_other():
    """It was called H3: with learned keys and values every text has the same ones, whatever the order."""
    assert ids(checked(FOLDED, "MemoryAttention")) == []


SHARED = """
class SharedKeys(nn.Module):
    def __init__(self, d_model, num_headsWIDTH):
        super().__init__()
        self.heads, self.head_dim = num_heads, HEAD
        self.q = nn.Linear(d_model, num_heads * self.head_dim)
        self.k, self.v = nn.Linear(d_model, self.head_dim), nn.Linear(d_model, self.head_dim)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        k, v = self.k(x)[:, None], self.v(x)[:, None]
        out = (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).softmax(-1) @ v
        return out.transpose(1, 2).reshape(b, n, -1)
"""


@pytest.mark.parametrize(
    "width, head, expected", [("", "d_model // num_heads", ["P4"]), (", head_dim", "head_dim", [])], ids=["tied", "own"]
)
def test_an_output_projection_is_missed_only_where_the_widths_are_tied(width, head, expected):
    report = checked(SHARED.replace("WIDTH", width).replace("HEAD", head), "SharedKeys")
    assert ids(report) == expected, report


TURN = """
def add_rotary(q, k):
    b, s, d = q.shape
    thetas = 1.0 / (10000 ** (EXPONENT))
    angles = torch.arange(s)[:, None] * thetas
    sin, cos = (t.repeat_interleave(2, dim=-1).unsqueeze(0) for t in (angles.sin(), angles.cos()))

    def swap(x):
        x1, x2 = x.reshape(b, s, d // 2, 2).unbind(-1)
        return torch.stack((-x2, x1), dim=-1).reshape(b, s, d)

    return q * cos + swap(q) * sin, k * cos + swap(k) * sin
"""


def test_a_turn_of_one_frequency_is_named():
    """It keeps lengths and depends on the distance alone, so it was called right."""
    assert ids(checked(TURN.replace("EXPONENT", "torch.arange(0, d, 2) / d"), "add_rotary")) == []
    report = checked(TURN.replace("EXPONENT", "torch.arange(0, d // 2) / d // 2"), "add_rotary")
    assert ids(report) == ["R1"], report


PAST = """
class CachedAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len):
        super().__init__()
        self.heads = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, kv_cache=None, past_length=0):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if kv_cache is not None:
            k, v = torch.cat([kv_cache[0], k], 2), torch.cat([kv_cache[1], v], 2)
        seen = torch.ones(n, k.shape[2]).tril(past_length) == 1
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(out.transpose(1, 2).reshape(b, n, c)), (k, v)
"""


def test_a_past_length_is_no_cache():
    """It was called K2: the cache went on and the length stayed 0."""
    report = checked(PAST, "CachedAttention")
    assert ids(report) == [] and report.verdict == "partly", report


AWAKE = """
class PatchAttention(nn.Module):
    def __init__(self, n_embd, n_head, drop_rate=0.0):
        super().__init__()
        self.n_head, self.drop_rate = n_head, drop_rate
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x, training=True):
        b, n, c = x.shape
        self.training = training
        q, k, v = (t.view(b, n, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        p = self.drop_rate if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.c_proj(out.transpose(1, 2).reshape(b, n, c))
"""


def test_dropout_that_eval_does_not_end_is_listed():
    report = checked(AWAKE, "PatchAttention")
    assert ids(report) == [] and report.verdict == "partly", report
    assert "training=self.training" in str(report.unseen[0].text)
