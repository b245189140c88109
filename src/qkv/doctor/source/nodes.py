"""What one node of a tree says by itself: its name, its number, what it calls, whether it speaks of a mask."""

import ast
import re
from collections.abc import Iterable
from typing import Any

PRODUCTS = {"matmul", "bmm", "einsum", "dot", "baddbmm", "tensordot", "inner", "contract", "mm"}


RESHAPES = {"view", "reshape", "unflatten", "flatten", "rearrange"}


MOVES = {"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "rearrange", "einsum", "mT"}


FUSED = {"scaled_dot_product_attention", "flash_attn_func", "memory_efficient_attention"}


LIBRARIES = frozenset("torch np numpy F nn functional jnp math scipy tf mx".split())
TORCH = {"torch", "nn", "F", "masked_fill", "masked_fill_", "unsqueeze", "permute", "view", "mT", "Tensor", "bmm"}


MASKY = re.compile(
    r"mask|tril|triu|causal|(^|_)pad|padding|subsequent|look_?ahead|future|nopeak|visible|(^|_)(bias|valid|keep|allowed)$",
    re.I,
)


HEADS = re.compile(
    r"^(n|num|nb|no|number_of)?_?(of_?)?(attn|attention|q|kv|query|key_value)?_?(n|num)?_?(h|heads?)$", re.I
)


HEAD_WIDTH = re.compile(
    r"^(d_?[kqvh]|d_?head|head_?d|(attn_)?head_?(dim|size|width|features)|dim_?(per_)?head|depth|(key|query|qk)_?(dim|size)"
    r"|dim_?[kqv]|hs|hd|per_head_dim|attention_head_size)$",
    re.I,
)


WIDTH = re.compile(
    r"^(d|dm|dim|width|c|emb|n_?emb(d|ed)?|(d|n)_?(model|embed)|(model|embed(ding)?|emb|hidden|input|in|out|feature|channel)s?_?(dim|size|features|width|d)?"
    r"|(dim|size|width)_?(model|in|out|embed|emb)|in_channels|channels|all_head_size|inner_dim)$",
    re.I,
)


LENGTH = re.compile(
    r"^(n|t|l|s|len|seq|length|(max_?)?(seq|sequence|context|block|q|k|kv|src|tgt)_?(len|length|size)?|n_?ctx)$", re.I
)


def role(name: str) -> str:
    """ "q", "k", "v" or "o" where a name says which of them it is, else "".

    >>> [role(name) for name in ("W_q", "toqueries", "k_proj", "linear_v", "fc_out", "keys", "x", "wv", "d_k")]
    ['q', 'q', 'k', 'v', 'o', 'k', '', 'v', '']
    """
    if HEAD_WIDTH.match(name):
        return ""
    words = set(re.split(r"[_\d.]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    for letter, one, more in (("q", "query", "queries"), ("k", "key", "keys"), ("v", "value", "values")):
        full = {one, more, "w" + one, "to" + one, "to" + more, one + "s", one[:3]}
        if words & (full | {letter, letter + "s", "w" + letter, "to" + letter, "x" + letter, letter + "proj"}):
            return letter
    return "o" if words & {"o", "out", "output", "wo", "unifyheads", "toout"} else ""


def called(node: ast.AST) -> str:
    """The last name of what a call calls: "softmax" for torch.softmax(...), else ""."""
    return last(node.func) if isinstance(node, ast.Call) else ""


def last(node: ast.AST | None) -> str:
    """The last name of an expression: "head_dim" for self.head_dim, "d" for d, else ""."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def path(node: ast.AST | None) -> str:
    """The dotted name, "self.head_dim", or "" where it isn't one."""
    if isinstance(node, ast.Attribute):
        before = path(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def number(node: ast.AST | None) -> float | None:
    """The number an expression is: -1, 1e-9, float("-inf"), -math.inf, 1/2; None where it isn't plainly one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        a, b = number(node.left), number(node.right)
        return a / b if a is not None and b else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        a, b = number(node.left), number(node.right)
        return a**b if a is not None and b is not None and a > 0 and abs(b) < 30 else None
    if called(node or ast.Pass()) == "float" and isinstance(node, ast.Call) and len(node.args) == 1:
        word = node.args[0]
        if isinstance(word, ast.Constant) and str(word.value).strip("+-").lower() in ("inf", "infinity"):
            return float(str(word.value))
        return number(word)
    if last(node) in ("inf", "Inf", "infty", "NINF"):
        return float("-inf") if last(node) == "NINF" else float("inf")
    return None


def names(node: ast.AST) -> set[str]:
    """All plain names and attribute names in it."""
    return {last(n) for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)}


def masky(node: ast.AST | None) -> bool:
    """Whether it speaks of a mask by name."""
    return node is not None and any(MASKY.search(name) for name in names(node))


def same(a: ast.AST, b: ast.AST) -> bool:
    """Whether two expressions are written alike."""
    return ast.dump(a).replace("Store()", "Load()") == ast.dump(b).replace("Store()", "Load()")


def argument(call: ast.Call, place: int, *keywords: str) -> ast.expr | None:
    """A call's argument by place or by one of its names; a starred list hides places."""
    for keyword in call.keywords:
        if keyword.arg in keywords:
            return keyword.value
    if place < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: place + 1]):
        return call.args[place]
    return None


def is_library(node: ast.AST) -> bool:
    """Whether a dotted name begins in torch, NumPy or their usual short names."""
    return path(node).split(".")[0] in LIBRARIES


def first_of(items: Iterable[Any]) -> Any:
    return next(iter(items), None)
