"""Typical answers of beginners, written differently from the known wrong answers, are diagnosed correctly."""

import re

import pytest

from qkv.lessons.grade import grade
from qkv.lessons.lesson import render

ROTATED = """half = x.shape[-1] // 2
freq = 1.0 / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
angles = torch.outer(places, freq)
a, b = {pairs}
return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)"""
CACHED = """past = 0 if cache is None else cache[0].shape[2]
p = torch.arange({places})
q, k = rotate(q, p), rotate(k, p)
if cache is not None:
    k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
y = torch.nn.functional.scaled_dot_product_attention(q, k, v, {mask})
return self.out(y.transpose(1, 2).flatten(2)), (k, v)"""
MASKED = "return np.tril(np.ones((n, m), bool), m - n)"
LOWER = "attn_mask=torch.ones(x.shape[1], k.shape[2]).tril(k.shape[2] - x.shape[1]).bool()"

PARALLEL = "return np.tril(q @ k.T) @ v"
LOOP = """S, out = np.zeros((k.shape[1], v.shape[1])), []
for i in range(len(q)):
    {steps}
return {returned}"""
WRITE, READ, BOTH = "S {sign} k[i][:, None] * v[i]", "out.append(q[i] @ S)", "np.array(out), S"
PAIR = "it has to return two things: {what}."
TWICE = (
    "the same text a second time gave other numbers: the state of the first call was still there. Begin every call "
    "with a state of zeros, made inside the function."
)


def looped(*steps, returned="np.array(out)"):
    return LOOP.format(steps="\n    ".join(steps), returned=returned)


ADD = WRITE.format(sign="= S +")
RECURRENT = looped(ADD, READ, returned=BOTH)
FADING = "return np.array([[gamma ** (i - j) if j <= i else 0 for j in range(n)] for i in range(n)])"
CHUNK = """n = len(q)
cross = (gamma ** np.arange({first}, n + {first})).reshape{column} * (q @ state)
left = gamma ** np.arange(n)[::-1] * {extra}
return (fading(n, gamma) * (q @ k.T)) @ v + cross, gamma**n * state + np.einsum("j,jd,je->de", left, k, v)"""
RIGHT_CHUNK = CHUNK.format(first=1, column="(-1, 1)", extra=1)
GLOBAL_STATE = """global kept
kept, parts = globals().get("kept", np.zeros((3, 2))), []
for s in range(0, len(q), size):
    y, kept = chunk(q[s : s + size], k[s : s + size], v[s : s + size], gamma, kept)
    parts.append(y)
return np.vstack(parts)"""
WRITTEN = "return state - beta * k[:, None] * (state.T @ k - v)"
DELTA = looped("S = write(S, k[i], v[i], beta[i])", READ)

# The exercise, the code for its holes in order, and the expected cause ("" for right answers).
ANSWERS = [
    ("scores", ["return np.dot(q, k)"], "untransposed dot"),
    ("scores", ["return np.array([[sum(a * b) for a in q] for b in k])"], "other way"),
    ("scores", ["return np.inner(q, k)", "return q @ k.T / np.linalg.norm(q) / np.linalg.norm(k)"], "whole norms"),
    ("scaling", ["d = len(q)\nreturn q @ k.T / np.sqrt(d)"], "by queries"),
    ("scaling", ["return q @ k.T / (1 / np.sqrt(q.shape[1]))"], "times root"),
    (
        "scaling",
        [
            "return q @ k.T / q.shape[1] ** 0.5",
            "s, d = scaled_scores(q, k), q.shape[1] ** 0.5\nreturn softmax(q @ k.T).max(1).mean(), softmax(s / d).max(1).mean()",
        ],
        "scaled twice",
    ),
    (
        "scaling",
        [
            "return q @ k.T / q.shape[1] ** 0.5",
            "s, d = scaled_scores(q, k), q.shape[1] ** 0.5\nreturn softmax(s).max(1).mean(), softmax(s / d).max(1).mean()",
        ],
        "one scale more",
    ),
    ("softmax", ["return np.exp(x) / np.sum(np.exp(x))"], "over all"),
    ("softmax", ["e = np.exp(x)\nreturn np.nan_to_num(e / e.sum(-1, keepdims=True))"], "NaN covered"),
    ("softmax", ["return np.exp(x) / np.exp(x).sum(axis=1)"], "no keepdims"),
    ("softmax", ["e = np.exp(x - np.max(x))\nreturn e / e.sum(axis=-1, keepdims=True)"], "one maximum"),
    ("softmax", ["return np.apply_along_axis(lambda r: np.exp(r) / sum(np.exp(r)), -1, x)"], "unstable"),
    ("weighted_sum", ["return sum(weights * v)"], "elementwise"),
    ("weighted_sum", ["return np.einsum('nm,me->ne', weights, v)", "return softmax(q @ k.T) @ v"], "unscaled"),
    ("weighted_sum", ["return weights @ v", "return softmax(q @ k.T / len(k) ** 0.5) @ v"], "by keys"),
    ("weighted_sum", ["return weights @ v", "d = len(q)\nreturn softmax(q @ k.T / np.sqrt(d)) @ v"], "by queries"),
    ("projections", ["return attention(w_q @ x, w_k @ x, w_v @ x)"], "in front"),
    ("projections", ["k = x @ w_k\nreturn attention(x @ w_q, k, x @ w_k)"], "values by w_k"),
    ("causal_mask", ["return np.tril(np.ones((n, m)))"], "corner"),
    ("causal_mask", ["return np.array([[j < i + m - n for j in range(m)] for i in range(n)])"], "strict"),
    ("causal_mask", ["return np.tril(np.ones((n, m)), m - n)"], "numbers"),
    ("causal_mask", ["return np.tril(np.ones((n, m), int), m - n)"], "numbers"),
    ("causal_mask", ["return [[j <= i + m - n for j in range(m)] for i in range(n)]"], ""),
    ("causal_mask", ["return np.tril(np.ones((n, m)), m - n + 1)"], "one further"),
    ("causal_mask", ["return np.triu(np.ones((n, m)), m - n)"], "upper"),
    (
        "causal_mask",
        [MASKED, "s = q @ k.T / q.shape[1] ** 0.5\nreturn softmax(np.where(mask, -np.inf, s)) @ v"],
        "wrong way",
    ),
    (
        "causal_mask",
        [MASKED, "s = q @ k.T / q.shape[1] ** 0.5\ns[mask] = -1e9\nreturn softmax(s) @ v"],
        "wrong way, finite",
    ),
    (
        "padding_mask",
        [
            "return np.arange(m) < lengths[:, None, None]",
            "s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5\nreturn softmax(np.where(mask, -np.inf, s)) @ v",
        ],
        "wrong way",
    ),
    ("padding_mask", ["return np.array([[i < l for i in range(m)] for l in lengths])"], "flat"),
    ("both_masks", ["return np.maximum(causal, padding)"], "either"),
    ("cross_attention", ["return attention(x @ w_q, memory @ w_k, memory @ w_v, True)"], "no mask"),
    ("split_heads", ["return x.view(x.shape[0], n_head, x.shape[1], -1)"], "view only"),
    ("split_heads", ["return torch.stack(x.chunk(n_head, -1), 1)"], ""),
    ("merge_heads", ["b, h, n, d = heads.shape\nreturn heads.transpose(1, 2).view(b, n, h * d)"], "view"),
    ("merge_heads", ["return torch.cat(list(heads.unbind(1)), -1)"], ""),
    ("rotary", [ROTATED.format(pairs="x[..., :half], x[..., half:]")], ""),
    ("rotary", [ROTATED.format(pairs="x[..., ::2], x[..., 1::2]")], "neighbours to halves"),
    ("grouped_heads", ["return torch.cat([x] * (n_head // x.shape[1]), 1)"], "tiled"),
    ("grouped_heads", ["return x[:, torch.arange(n_head) // (n_head // x.shape[1])]"], ""),
    ("kv_cache", [CACHED.format(places="past, past + x.shape[1]", mask=LOWER)], ""),
    ("kv_cache", [CACHED.format(places="past, past + x.shape[1]", mask="is_causal=True")], "corner"),
    ("kv_cache", [CACHED.format(places="x.shape[1]", mask=LOWER)], "from 0"),
    ("kv_cache", [CACHED.format(places="past, past + x.shape[1]", mask="is_causal=cache is None")], "masked at first"),
    ("kv_cache", ["return self.out(v.transpose(1, 2).flatten(2))"], "it has to return two things: {what}."),
    ("linear_attention", ["return np.einsum('nd,md,me->ne', q, k, v)"], "no mask"),
    ("linear_attention", [PARALLEL, RECURRENT], ""),
    ("linear_attention", [PARALLEL, looped(READ, ADD, returned=BOTH)], "read first"),
    ("linear_attention", [PARALLEL, looped(ADD, READ)], PAIR),
    (
        "linear_attention",
        [
            PARALLEL,
            looped(WRITE.format(sign="+="), "out.append(S)", returned="np.array([a @ s for a, s in zip(q, out)]), S"),
        ],
        "end",
    ),
    ("linear_attention", [PARALLEL, RECURRENT, "return recurrent(q, k, v)[0]"], "not emptied"),
    ("linear_attention", [PARALLEL, RECURRENT, looped(ADD, READ, "S = S * (not begins[i])")], "too late"),
    ("linear_attention", [PARALLEL, RECURRENT, looped("S = S * (not begins[i])", ADD, READ)], ""),
    ("retention", ["return gamma ** abs(np.subtract.outer(np.arange(n), np.arange(n)))"], "both sides"),
    ("retention", ["return np.tril(gamma ** np.arange(n)[:, None] * np.ones(n))"], "by row"),
    ("retention", [FADING, RIGHT_CHUNK], ""),
    ("retention", [FADING, CHUNK.format(first=0, column="(-1, 1)", extra=1)], "from 0"),
    ("retention", [FADING, CHUNK.format(first=1, column="(1, -1)", extra=1)], "values' axis"),
    ("retention", [FADING, CHUNK.format(first=1, column="(-1, 1)", extra="gamma")], "one γ more"),
    ("retention", [FADING, RIGHT_CHUNK, GLOBAL_STATE], TWICE),
    ("delta_rule", ["return state + beta * k[:, None] @ v[None]"], "added"),
    ("delta_rule", ["return state * (1 - beta) + beta * np.outer(k, v)"], "fades everything"),
    ("delta_rule", ["return state - np.outer(k, k @ state) + beta * np.outer(k, v)"], "all removed"),
    ("delta_rule", [WRITTEN, looped(READ, "S = write(S, k[i], v[i], beta[i])")], "read first"),
    (
        "delta_rule",
        [WRITTEN, DELTA, looped("S = write(S, k[i], v[i], beta[i])", READ, "S = S * gamma[i]")],
        "late",
    ),
    ("delta_rule", [WRITTEN, DELTA, looped("S = gamma[i] * write(S, k[i], v[i], beta[i])", READ)], "after"),
    ("delta_rule", [WRITTEN, DELTA, looped("S = write(gamma[i] * S, k[i], v[i], beta[i])", READ)], ""),
    ("encoder_layer", ["x = x + self.attention(self.norm1(x), mask)\nreturn x"], "only attention"),
    (
        "encoder_layer",
        [
            "y = self.norm1(x)\nx = x + self.attention(y, mask)\ny = self.norm2(x)\nreturn y + self.down(self.up(y).relu())"
        ],
        "second from normed",
    ),
]


def fill(name, bodies):
    """Return the exercise with its first holes filled."""
    text = render(name, "zh")
    for body in bodies:
        hole = text.index("...  # 在这里写你的代码")
        indent = text[text.rindex("\n", 0, hole) + 1 : hole]
        end = text.index("raise NotImplementedError\n", hole) + len("raise NotImplementedError\n")
        text = text[:hole] + body.replace("\n", f"\n{indent}") + "\n" + text[end:]
    return text


@pytest.mark.parametrize(("name", "bodies", "wrong"), ANSWERS, ids=[f"{a[0]}-{a[2] or 'right'}" for a in ANSWERS])
def test_answers_of_beginners_are_diagnosed(name, bodies, wrong):
    graded = grade(name, fill(name, bodies), f"{name}.py")
    if wrong:
        assert graded.verdict == "wrong" and graded.cause == wrong, graded.messages
    else:
        assert graded.verdict == "right" or (graded.cause == "hole" and graded.passed), graded.messages


def typed(**numbers):
    """Return the grade of the exercise by hand with some numbers changed."""
    text = render("by_hand", "en", solved=True)
    for name, row in numbers.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {row}", text, flags=re.MULTILINE)
    return grade("by_hand", text, "by_hand.py")


def test_two_decimals_are_not_called_different():
    graded = typed(powers=[7.39, 2.72, 5])
    assert graded.verdict == "wrong" and not graded.cause and graded.passed == 2
    assert "at [2] you have 5; 1 is right" in graded.messages[1].say("en") and "1 of 3" in graded.messages[1].say("en")
    assert "[2]" in graded.messages[1].say("zh") and "3 个数里有 1 个" in graded.messages[1].say("zh")
    graded = typed(weights=[0.66, 0.3, 0.06])  # the second has the largest error
    assert "at [1] you have 0.3; 0.2447 is right" in graded.messages[1].say("en") and "2 of 3" in graded.messages[
        1
    ].say("en")


@pytest.mark.parametrize("powers", [[7.39, 2.72, 0], [7.389, 2.718, 0.0]])
def test_e_to_the_0_is_1(powers):
    graded = typed(powers=powers)
    assert graded.cause == "e to the 0" and all("e⁰ = 1" in graded.messages[-1].say(lang) for lang in ("en", "zh"))
