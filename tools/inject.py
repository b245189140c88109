"""Inject a known mistake into correct attention by editing its syntax tree, and run `qkv check` on it.

    .venv/bin/python tools/inject.py FILE.py:NAME [FILE.py:NAME …] [--json FILE]
    .venv/bin/python tools/inject.py --wild FOLDER [--half work|held] [--json FILE]

Every mistake of `MISTAKES` is injected where its pattern matches, at most once per object. --wild takes the objects of
tests/doctor/corpora/wild/objects.tsv that are right; FOLDER is as in tools/wild.py. For each injected mistake it prints
whether it was named, misnamed, missed as "partly" or missed as "right".
"""

import argparse
import ast
import copy
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

try:
    from tools import wild
except ImportError:  # started as a script
    import wild

Edit = Callable[[ast.AST], ast.AST | None]  # a node → its replacement, or None if the mistake doesn't apply


@dataclass(frozen=True)
class Mistake:
    """A mistake: the ids that are a correct answer, and the edit that injects it."""

    name: str
    ids: tuple[str, ...]
    edit: Edit


def called_name(node: ast.AST) -> str:
    """Return the last part of the name that a call calls.

    >>> called_name(ast.parse("F.softmax(x)", mode="eval").body)
    'softmax'
    """
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_root(node: ast.AST) -> bool:
    """True for a square root: math.sqrt(d), d ** 0.5."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and node.right.value == 0.5
    return called_name(node) == "sqrt"


def is_inverse_root(node: ast.AST) -> bool:
    """True for d ** -0.5, 1 / sqrt(d), or a name that contains "scal"."""
    text = ast.unparse(node)
    return bool(re.fullmatch(r".+ \*\* -0\.5|1(\.0)? / .*(sqrt\(.*\)|\*\* 0\.5\)?)|(self\.)?\w*scal\w*", text))


def edit_scale(
    operator: type[ast.operator], is_scale: Callable[[ast.AST], bool], replace: Callable[[ast.BinOp], ast.AST]
) -> Edit:
    """Return an edit of a product or quotient with the scale."""

    def edit(node: ast.AST) -> ast.AST | None:
        fits = isinstance(node, ast.BinOp) and isinstance(node.op, operator) and is_scale(node.right)
        return replace(node) if fits and not isinstance(node.left, ast.Constant) else None  # type: ignore[arg-type]

    return edit


def argument(call: str, name: str, position: int, value: str) -> Edit:
    """Return an edit that changes an argument of a call; positions in a method don't count the object."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called_name(node) != call:
            return None
        assert isinstance(node, ast.Call)
        new = ast.parse(value, mode="eval").body
        for keyword in node.keywords:
            if keyword.arg == name:
                keyword.value = new
                return node
        of_module = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES
        at = position if of_module else position + 1
        if at < len(node.args):
            node.args[at] = new
            return node
        return None

    return edit


MODULES = ("torch", "F", "np", "numpy", "nn.functional", "torch.nn.functional", "functional")


def remove_call(call: str, which: str = "") -> Edit:
    """Return an edit that replaces a call by its first argument, or a method call by its object."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called_name(node) != call or (which and not re.search(which, ast.unparse(node))):
            return None
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES:
            return node.func.value
        return node.args[0] if node.args else None

    return edit


def rename_call(call: str, other: str) -> Edit:
    """Return an edit that calls another function."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called_name(node) != call:
            return None
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute):
            node.func.attr = other
        else:
            node.func = ast.Name(other, ast.Load())
        return node

    return edit


def invert_mask(node: ast.AST) -> ast.AST | None:
    """Invert the mask of masked_fill."""
    if called_name(node) != "masked_fill":
        return None
    assert isinstance(node, ast.Call)
    if not node.args:
        return None
    condition = node.args[0]
    if isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Eq | ast.NotEq):
        condition.ops = [ast.NotEq() if isinstance(condition.ops[0], ast.Eq) else ast.Eq()]
    elif isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Invert):
        node.args[0] = condition.operand
    else:
        node.args[0] = ast.parse(f"({ast.unparse(condition)}) == 0", mode="eval").body
    return node


def discard_result(node: ast.AST) -> ast.AST | None:
    """Discard the result of x = x.masked_fill(…)."""
    if isinstance(node, ast.Assign) and called_name(node.value) == "masked_fill":
        return ast.Expr(node.value)
    return None


def disable_mask(node: ast.AST) -> ast.AST | None:
    """Make `if mask is not None:` never true."""
    if isinstance(node, ast.If) and re.fullmatch(r"\w*mask\w* is not None", ast.unparse(node.test)):
        node.test = ast.Constant(False)
        return node
    return None


def add_mask(node: ast.AST) -> ast.AST | None:
    """Add the boolean mask to the scores instead of filling."""
    if called_name(node) != "masked_fill" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return ast.parse(f"{ast.unparse(node.func.value)} + ({ast.unparse(node.args[0])})", mode="eval").body


def skip_transpose(node: ast.AST) -> ast.AST | None:
    """Remove the transpose from out.transpose(1, 2).reshape(b, n, c)."""
    if called_name(node) not in ("view", "reshape", "flatten"):
        return None
    text = ast.unparse(node)
    if (
        not re.search(r"\.transpose\(1, 2\)(\.contiguous\(\))?\.(view|reshape|flatten)\(", text)
        or "head" in text.split("(")[-1]
    ):
        return None
    without = re.sub(r"\.transpose\(1, 2\)((\.contiguous\(\))?\.)(view|reshape)\(", r"\1reshape(", text)
    return ast.parse(without, mode="eval").body if without != text else None


def swap_view_axes(node: ast.AST) -> ast.AST | None:
    """Replace x.view(b, n, h, d).transpose(1, 2) by x.view(b, h, n, d)."""
    if called_name(node) != "transpose" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    inner = node.func.value
    if called_name(inner) not in ("view", "reshape") or not isinstance(inner, ast.Call) or len(inner.args) != 4:
        return None
    if [ast.unparse(a) for a in node.args] not in (["1", "2"], ["2", "1"]):
        return None
    inner.args[1], inner.args[2] = inner.args[2], inner.args[1]
    return inner


def other_projection(projection: str, replacement: str) -> Edit:
    """Return an edit that computes a projection with the layer of another one."""
    letters = {"q": r"(w_?|to_?)?q(uer(y|ies))?(_?(proj|linear|layer|w))?s?", "k": r"(w_?|to_?)?k(eys?)?(_?(proj|linear|layer|w))?s?", "v": r"(w_?|to_?)?v(alues?)?(_?(proj|linear|layer|w))?s?"}  # fmt: skip

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.ClassDef):
            return None
        calls_by_layer = {
            called_name(n): n
            for n in ast.walk(node)
            if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("self.")
        }
        call = next((n for word, n in calls_by_layer.items() if re.fullmatch(letters[projection], word.lower())), None)
        replacement_layer = next(
            (word for word in calls_by_layer if re.fullmatch(letters[replacement], word.lower())), None
        )
        if call is None or replacement_layer is None or not isinstance(call.func, ast.Attribute):
            return None
        call.func.attr = replacement_layer
        return node

    return edit


def no_output(node: ast.AST) -> ast.AST | None:
    """Replace return self.out(x) by return x."""
    if not isinstance(node, ast.Return) or node.value is None:
        return None
    whole = node.value
    first = whole.elts[0] if isinstance(whole, ast.Tuple) else whole
    if not re.fullmatch(
        r"self\.\w*(out|proj|w_?o|fc|dense)\w*", ast.unparse(first.func) if isinstance(first, ast.Call) else "", re.I
    ):
        return None
    assert isinstance(first, ast.Call)
    if isinstance(whole, ast.Tuple):
        whole.elts[0] = first.args[0]
    else:
        node.value = first.args[0]
    return node


def after_softmax(node: ast.AST) -> ast.AST | None:
    """Replace softmax(x / √d) by softmax(x) / √d."""
    if called_name(node) != "softmax" or not isinstance(node, ast.Call) or not node.args:
        return None
    scaled_scores = node.args[0]
    if isinstance(scaled_scores, ast.BinOp) and isinstance(scaled_scores.op, ast.Div | ast.Mult):
        node.args[0] = scaled_scores.left
        return ast.BinOp(node, scaled_scores.op, scaled_scores.right)
    return None


def plain_list(node: ast.AST) -> ast.AST | None:
    """Replace a ModuleList by a plain list."""
    return node.args[0] if called_name(node) == "ModuleList" and isinstance(node, ast.Call) and node.args else None


def always_dropout(node: ast.AST) -> ast.AST | None:
    """Apply dropout in eval mode too."""
    if re.fullmatch(r"self\.\w*drop\w*", ast.unparse(node.func) if isinstance(node, ast.Call) else ""):
        assert isinstance(node, ast.Call)
        return ast.parse(
            f"__import__('torch').nn.functional.dropout({ast.unparse(node.args[0])}, 0.5)", mode="eval"
        ).body
    return None


def no_residual(node: ast.AST) -> ast.AST | None:
    """Replace x = x + f(x) by x = f(x)."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        target, call = node.value.left, node.value.right
        if (
            ast.unparse(target) == ast.unparse(node.targets[0])
            and isinstance(call, ast.Call)
            and "self." in ast.unparse(call)
        ):
            node.value = call
            return node
    return None


def multiply_instead(node: ast.BinOp) -> ast.AST:
    return ast.BinOp(node.left, ast.Mult(), node.right)


def remove_scale(node: ast.BinOp) -> ast.AST:
    return node.left


def change_scale(node: ast.BinOp) -> ast.AST:
    return ast.BinOp(node.left, node.op, ast.BinOp(ast.Constant(1.7), ast.Mult(), node.right))


ROOTS, INVERSE = is_root, is_inverse_root
MISTAKES = (
    Mistake("multiplied by the root", ("S1", "S4"), edit_scale(ast.Div, ROOTS, multiply_instead)),
    Mistake("divided by the inverse root", ("S1", "S4"), edit_scale(ast.Mult, INVERSE, lambda n: ast.BinOp(n.left, ast.Div(), n.right))),
    Mistake("no division by the root", ("S2", "S4"), edit_scale(ast.Div, ROOTS, remove_scale)),
    Mistake("no product with the scale", ("S2", "S4"), edit_scale(ast.Mult, INVERSE, remove_scale)),
    Mistake("another root", ("S3", "S4"), edit_scale(ast.Div, ROOTS, change_scale)),
    Mistake("another scale", ("S3", "S4"), edit_scale(ast.Mult, INVERSE, change_scale)),
    Mistake("scaled after the softmax", ("S6", "S2", "S4"), after_softmax),
    Mistake("softmax over the queries", ("X1",), argument("softmax", "dim", 0, "-2")),
    Mistake("softmax over axis 1", ("X3", "X1", "X2"), argument("softmax", "dim", 0, "1")),
    Mistake("softmax over the batch", ("X2", "X1", "X3"), argument("softmax", "dim", 0, "0")),
    Mistake("no softmax", ("X6",), remove_call("softmax")),
    Mistake("the logarithm of the softmax", ("X6", "X5"), rename_call("softmax", "log_softmax")),
    Mistake("filled with 0", ("M8", "M9"), argument("masked_fill", "value", 1, "0.0")),
    Mistake("filled with next to nothing", ("M9", "M8"), argument("masked_fill", "value", 1, "-1e-9")),
    Mistake("filled with infinity", ("M9", "M11", "M12"), argument("masked_fill", "value", 1, "float('inf')")),
    Mistake("filled with -100", ("M19", "M9"), argument("masked_fill", "value", 1, "-100.0")),
    Mistake("mask the wrong way round", ("M1", "M12", "M14"), invert_mask),
    Mistake("masked scores thrown away", ("M2", "M3", "M14"), discard_result),
    Mistake("mask never used", ("M3", "M14"), disable_mask),
    Mistake("mask added as it is", ("M7", "M9", "M8"), add_mask),
    Mistake("triangle without its diagonal", ("M12",), argument("triu", "diagonal", 0, "0")),
    Mistake("triangle one too wide", ("M12",), argument("triu", "diagonal", 0, "2")),
    Mistake("lower for upper", ("M12", "M1", "M14"), rename_call("triu", "tril")),
    Mistake("upper for lower", ("M12", "M1", "M14"), rename_call("tril", "triu")),
    Mistake("no lower triangle", ("M14", "M3"), remove_call("tril", "ones")),
    Mistake("no upper triangle", ("M14", "M1", "M9", "M12"), remove_call("triu", "ones")),
    Mistake("merged without a transpose", ("H2",), skip_transpose),
    Mistake("heads cut across tokens", ("H1",), swap_view_axes),
    Mistake("k by the layer of q", ("P1",), other_projection("k", "q")),
    Mistake("v by the layer of k", ("P1",), other_projection("v", "k")),
    Mistake("no output projection", ("P4",), no_output),
    Mistake("layers in a plain list", ("T2",), plain_list),
    Mistake("dropout in eval mode", ("T3",), always_dropout),
    Mistake("heads repeated in another order", ("H8",), rename_call("repeat_interleave", "tile")),
    Mistake("no residual", ("T6", "T5"), no_residual),
)  # fmt: skip


def injections(text: str, name: str) -> Iterator[tuple[Mistake, str]]:
    """Yield each mistake that applies to a definition, with the source of the changed file.

    >>> right = "def attend(q, k, v):\\n    return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v"
    >>> [mistake.name for mistake, _ in injections(right, "attend")][:3]
    ['multiplied by the root', 'no division by the root', 'another root']
    """
    tree = ast.parse(text)
    for mistake in MISTAKES:
        changed = copy.deepcopy(tree)
        root = next((n for n in ast.walk(changed) if getattr(n, "name", "") == name), None)
        if root is not None and _apply_first(root, mistake.edit):
            injected = ast.unparse(ast.fix_missing_locations(changed))
            if injected != ast.unparse(tree):
                yield mistake, injected


def _apply_first(root: ast.AST, edit: Edit) -> bool:
    """Apply the first edit that matches; return True if there was one."""
    if isinstance(root, ast.ClassDef) and edit(root) is not None:
        return True
    for node in ast.walk(root):
        for field, value in ast.iter_fields(node):
            for index, inner in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(inner, ast.AST) or (new := edit(inner)) is None:
                    continue
                if isinstance(value, list):
                    value[index] = new
                else:
                    setattr(node, field, new)
                return True
    return False


def try_mistakes(folder: Path, path: str, name: str) -> list[dict[str, str]]:
    """Every mistake that fits one object, and what the check said of it; nothing where it doesn't call the object right."""
    file = folder / path
    before = file.read_text(encoding="utf-8")
    reports, _, _ = wild.check(folder, f"{path}:{name}")
    if not reports or reports[0]["verdict"] not in ("right", "partly"):
        return []
    results = []
    for mistake, text in injections(before, name):
        file.write_text(text, encoding="utf-8")
        reports, _, _ = wild.check(folder, f"{path}:{name}")
        verdict = reports[0]["verdict"] if reports else "unknown"
        ids = [finding["id"] for finding in reports[0]["findings"]] if reports else []
        row = wild.Row("", "", path, name, "+".join(mistake.ids), "", "")
        answer = {"outcome": wild.outcome(row, verdict, ids), "ids": ", ".join(ids)}
        results.append({"object": f"{path}:{name}", "mistake": mistake.name, **answer})
    file.write_text(before, encoding="utf-8")
    return results


def _copies(options: argparse.Namespace, temporary: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield (folder, path, name): a separate folder for each object, since its file is changed."""
    for number, target in enumerate(options.targets):
        path, _, name = target.rpartition(":")
        folder = temporary / f"target{number}"
        folder.mkdir()
        shutil.copy(path, folder)
        yield folder, Path(path).name, name
    if options.wild is None:
        return
    for number, row in enumerate(wild.read_manifest(wild.MANIFEST)):
        git = wild.git_folder(options.wild, row.repository)
        if row.truth == "right" and row.half == options.half and row.path.endswith(".py") and git is not None:
            folder = temporary / f"wild{number}"
            wild.copy_sources(git, row.commit, folder)
            if (folder / row.path).exists():
                yield folder, row.path, row.object


def main() -> int:
    """Print every mistake that was not named, then the counts."""
    parser = argparse.ArgumentParser(description="Put known mistakes into right attention, and ask qkv check for them.")
    parser.add_argument("targets", nargs="*", metavar="FILE.py:NAME")
    parser.add_argument("--wild", type=Path, metavar="FOLDER", help="copies of the repositories of the manifest")
    parser.add_argument("--half", choices=["work", "held"], default="work", help="of the manifest (work)")
    parser.add_argument("--json", type=Path, help="also write every answer to this file")
    options = parser.parse_args()
    answers: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(wild.WORKERS) as pool:
        for object_answers in pool.map(lambda answer: try_mistakes(*answer), list(_copies(options, Path(temporary)))):
            answers += object_answers
            for answer in object_answers:
                if answer["outcome"] != "named":
                    print(
                        f"{answer['outcome']:15} {answer['mistake']:32} {answer['object']}  {answer['ids']}", flush=True
                    )
    count = Counter(answer["outcome"] for answer in answers)
    print(
        f"{len(answers)} mistakes of {len({answer['mistake'] for answer in answers})} kinds: "
        + ", ".join(f"{n} {w}" for w, n in count.most_common())
    )
    if options.json is not None:
        options.json.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
