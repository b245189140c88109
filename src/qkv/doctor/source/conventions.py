"""What a file says about its masks apart from how attention uses them: docstrings and comments.

How attention *uses* a mask is what is being checked, so the fill itself is no evidence of what was meant. Nor are words
proof: they only make a remark. What the file's masks are is found by running what makes them: makers.py.

>>> sayings("# mask: (B, 1, n), 1 for real tokens, 0 for padding", "mask")
'keep'
>>> sayings("# attn_mask is True where attention is not allowed", "attn_mask")
'block'
"""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any

KEPT = r"(keep|kept|attend(?!ed to are)|valid|real|allow|visible|seen|words?\b|tokens?\b|used|look|see\b|participate|active|present|content|non-?pad|not (?:a |the )?(?:pad|mask))"
GONE = r"(pad|masked|mask(?:s|ing)? out|to mask|block|ignor|hid|hide|forbid|forbidden|exclu|not (?:to )?(?:be )?(?:attend|allowed|seen|used|visible)|cannot|can't|must not|drop|future|invalid|prevent|disallow)"
ONE = r"(?:\b1s?\b|\btrue\b|\bones?\b|non-?zero)"
NIL = r"(?:\b0s?\b|\bfalse\b|\bzeros?\b)"


def sayings(text: str, parameter: str, only: bool = False) -> str | None:
    """ "keep", "block" or "additive" where docstrings and comments speak of the mask (`only`: of this very one)."""
    votes = {"keep": 0, "block": 0, "additive": 0}
    for words in spoken(text):
        low = words.lower()
        if parameter.lower() not in low and "mask" not in low and "pad" not in low:
            continue
        for sentence in re.split(r"(?<=[;.])\s|\n\s*\n", low):
            if only and not re.search(rf"\b{re.escape(parameter.lower())}\b", sentence):
                continue
            sentence = re.sub(r"\b\w*_?(?:pad(?:ding)?_)?masks?\b|\bpadding_mask\b", "it", sentence)
            if re.search(
                r"additive|\badded\b|-inf\b.{0,30}(otherwise|else|where|mask|pad)|0 (or|and) -\s*inf|-\s*(inf|1e9|10000)\b.{0,20}\b(0|zero)",
                sentence,
            ):
                votes["additive"] += 1
                continue
            for clause in re.split(r"[,;/]| and | else | otherwise", sentence):
                one, nil = re.search(ONE, clause), re.search(NIL, clause)
                kept, gone = re.search(KEPT, clause), re.search(GONE, clause)
                if re.search(r"not (?:a |the )?(?:pad|mask)|non-?pad", clause):
                    gone = None
                elif kept and re.search(r"\b(not|don't|doesn't|never|no)\b[\w\s]{0,12}$", clause[: kept.start()]):
                    kept, gone = None, kept
                if gone and re.search(
                    r"not (?:to )?(?:be )?(?:attend|allow|seen|visible)|cannot|can't|must not|disallow", clause
                ):
                    kept = None
                if one and not nil:
                    if gone and not (kept and kept.start() < gone.start()):
                        votes["block"] += 2
                    elif kept:
                        votes["keep"] += 2
                elif nil and not one:
                    if gone and not (kept and kept.start() < gone.start()):
                        votes["keep"] += 2
                    elif kept:
                        votes["block"] += 2
    best = max(votes, key=lambda v: votes[v])
    return best if votes[best] and list(votes.values()).count(votes[best]) == 1 else None


@functools.lru_cache(maxsize=64)
def spoken(text: str, aside: bool = True) -> list[str]:
    """Docstrings and comments; with `aside`, also those at the end of a line of code, which may speak of its result."""
    found = []
    try:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and (said := ast.get_docstring(node)):
                found += re.split(r"\n(?=\s*\w+\s*[:(])", said)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line = token.line[: token.start[1]]
                if line.strip() and not aside:
                    continue
                near = "mask " if re.search(r"mask|pad", line, re.IGNORECASE) else ""
                found.append(near + token.string)
    except (SyntaxError, tokenize.TokenError, IndentationError):
        return found
    return found


def share_a_shape(text: str) -> bool:
    """True if words give queries and keys one shape, and so one length.

    >>> share_a_shape("# Q, K, V: (seq_len, d_model)"), share_a_shape("# query, key and value of shape [b, n, d]")
    (True, True)
    >>> share_a_shape("# Q: (n, d), K, V: (m, d)")
    False
    """
    several = r"\bq(uer(y|ies))?\b\W+(and\W+)?k(eys?)?\b\W+(and\W+)?v(alues?)?\b[^()\[\]]*[(\[]\s*\w+\s*,"
    return any(re.search(several, words, re.IGNORECASE) for words in spoken(text))


def rank(text: str, parameter: str) -> int | None:
    """How many axes words say the mask has, or None."""
    return next(ranks(text, parameter), None)


def ranks(text: str, parameter: str) -> Iterator[int]:
    """Every number of axes that docstrings and comments say the mask has.

    >>> [*ranks("# mask: (batch_size, q_len, k_len), 0 where forbidden", "mask")]
    [3]
    >>> [*ranks("# mask (torch.Tensor, optional): of shape [batch_size, q_len, k_len]", "mask")]
    [3]
    >>> [*ranks("# x and a mask, True = may attend → (B, N, C)", "mask")]  # the output's
    []
    """
    return (len(axes) for axes in shapes(text, parameter))


def is_square(text: str, parameter: str) -> bool:
    """True if words say that the mask may have two axes of one length, and no batch.

    >>> is_square("# mask: (batch, seq_len, seq_len) or (seq_len, seq_len)", "mask")
    True
    >>> is_square("# mask: (batch, seq_len)", "mask")
    False
    """
    return any(len(axes) == 2 and axes[0] == axes[1] for axes in shapes(text, parameter))


def shapes(text: str, parameter: str) -> Iterator[list[str]]:
    """The axes of each shape that docstrings and comments give the mask, with those after an "or".

    >>> [*shapes("# mask: (batch, n, n) or (n, n)", "mask")]
    [['batch', 'n', 'n'], ['n', 'n']]
    """
    shape = r"[(\[]([^()\[\]]*)[)\]]"
    several = rf"{shape}(?:\s*(?:or|/|或者?)\s*{shape})*"
    for words in spoken(text, aside=False):
        words = re.sub(r"\([^()]*(?:Tensor|array|optional)[^()]*\)", "", words)
        for match in re.finditer(rf"(?:\b{re.escape(parameter)}|mask)\b[^()\[\]\n→>=]{{0,40}}{several}", words):
            for written in re.findall(shape, match[0]):
                axes = [axis.strip() for axis in re.split(r"[,x×]", written) if axis.strip()]
                if "..." in written or "…" in written or "*" in written:
                    continue
                if 2 <= len(axes) <= 4 and all(re.fullmatch(r"[\w\s*/.+\-]+", axis) for axis in axes):
                    yield axes


def fill(node: ast.AST | None, tree: ast.AST | None = None) -> Any:
    """The number that hides a score: −inf, −1e9, 0, 1e-9…; None where none is written."""
    if node is None:
        return None
    known = _names(tree) | _names(node)

    def number(value: ast.AST) -> float | None:
        name = (
            value.attr
            if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self"
            else getattr(value, "id", "")
        )
        if name in known:
            return known[name]
        if (
            isinstance(value, ast.UnaryOp)
            and isinstance(value.op, ast.USub)
            and getattr(value.operand, "id", "") in known
        ):
            return -known[value.operand.id]  # type: ignore[attr-defined]
        return literal(value)

    found: list[float | None] = []
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in ("masked_fill", "masked_fill_") and len(call.args) >= 2:
                found.append(number(call.args[1]))
            elif name == "where" and len(call.args) == 3:
                found += [n for n in (number(call.args[1]), number(call.args[2])) if n is not None]
        elif isinstance(call, ast.Assign) and isinstance(call.targets[0], ast.Subscript):
            found.append(number(call.value))
        elif isinstance(call, ast.BinOp) and isinstance(call.op, ast.Mult):
            for side in (call.left, call.right):
                value = number(side)
                if value is not None and (
                    value == float("inf") or value == float("-inf") or abs(value) > 500 or 0 < abs(value) < 1e-5
                ):
                    found.append(value)
    written = [f for f in found if f is not None]
    return written[0] if written else None


def _names(node: ast.AST | None) -> dict[str, float]:
    """Names, self's too, that a number was given to."""
    found = {}
    for one in ast.walk(node) if node is not None else ():
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and (value := literal(one.value)) is not None:
            target = one.targets[0]
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            if name:
                found[name] = value
    return found


def literal(node: ast.AST) -> float | None:
    """A literal's value; float("-inf"), torch.inf, finfo(…).min and .eps are known.

    >>> literal(ast.parse("-float('-inf')", mode="eval").body), literal(ast.parse("-1e9", mode="eval").body)
    (inf, -1000000000.0)
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("float", "tensor", "Tensor", "full_like", "as_tensor", "array") and node.args:
            last = node.args[-1] if name == "full_like" else node.args[0]
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                try:
                    return float(last.value)
                except ValueError:
                    return None
            return literal(last)
    if isinstance(node, ast.Attribute):
        if node.attr in ("inf", "Inf", "infty", "NINF"):
            return float("inf")
        if node.attr in ("min",):
            return -1e38
        if node.attr == "eps":
            return 1e-12
        if node.attr == "tiny":
            return 1e-38
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        left, right = literal(node.left), literal(node.right)
        if left is not None and right is not None:
            return float(left**right)
    return None
