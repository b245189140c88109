"""Put one known mistake into right attention by editing its syntax tree, and ask `qkv check` for it.

    .venv/bin/python tools/inject.py FILE.py:NAME [FILE.py:NAME …] [--json FILE]
    .venv/bin/python tools/inject.py --wild FOLDER [--half work|held] [--json FILE]

Every mistake of `MISTAKES` goes in wherever its pattern is found, at most once per object. --wild takes the objects of
tests/doctor/corpora/wild/objects.tsv that are right and that the check calls right; FOLDER is as in tools/wild.py. What is printed
for each: the mistake that went in, and whether it was named, misnamed, missed as "partly" or missed as plain "right".
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

Edit = Callable[[ast.AST], ast.AST | None]  # a node → what takes its place, or None where the mistake doesn't fit


@dataclass(frozen=True)
class Injected:
    """A mistake: the ids that are a right answer, and the edit that makes it."""

    name: str
    ids: tuple[str, ...]
    edit: Edit


def called(node: ast.AST) -> str:
    """The last word of what a call calls.

    >>> called(ast.parse("F.softmax(x)", mode="eval").body)
    'softmax'
    """
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_root(node: ast.AST) -> bool:
    """A square root: math.sqrt(d), d ** 0.5."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and node.right.value == 0.5
    return called(node) == "sqrt"


def is_inverse_root(node: ast.AST) -> bool:
    """d ** -0.5, 1 / sqrt(d), or a name that says scale."""
    text = ast.unparse(node)
    return bool(re.fullmatch(r".+ \*\* -0\.5|1(\.0)? / .*(sqrt\(.*\)|\*\* 0\.5\)?)|(self\.)?\w*scal\w*", text))


def scaled(
    wanted: type[ast.operator], is_scale: Callable[[ast.AST], bool], made: Callable[[ast.BinOp], ast.AST]
) -> Edit:
    """Edit a product or quotient with the scale."""

    def edit(node: ast.AST) -> ast.AST | None:
        fits = isinstance(node, ast.BinOp) and isinstance(node.op, wanted) and is_scale(node.right)
        return made(node) if fits and not isinstance(node.left, ast.Constant) else None  # type: ignore[arg-type]

    return edit


def argument(call: str, name: str, place: int, value: str) -> Edit:
    """Give a call another value for an argument; of a method, places are counted without the object."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called(node) != call:
            return None
        assert isinstance(node, ast.Call)
        new = ast.parse(value, mode="eval").body
        for keyword in node.keywords:
            if keyword.arg == name:
                keyword.value = new
                return node
        of_module = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES
        at = place if of_module else place + 1
        if at < len(node.args):
            node.args[at] = new
            return node
        return None

    return edit


MODULES = ("torch", "F", "np", "numpy", "nn.functional", "torch.nn.functional", "functional")


def taken(call: str, which: str = "") -> Edit:
    """Leave a call out: its first argument, or the object of a method, takes its place."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called(node) != call or (which and not re.search(which, ast.unparse(node))):
            return None
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES:
            return node.func.value
        return node.args[0] if node.args else None

    return edit


def renamed(call: str, other: str) -> Edit:
    """Call something else."""

    def edit(node: ast.AST) -> ast.AST | None:
        if called(node) != call:
            return None
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute):
            node.func.attr = other
        else:
            node.func = ast.Name(other, ast.Load())
        return node

    return edit


def inverted(node: ast.AST) -> ast.AST | None:
    """masked_fill where the mask says the opposite."""
    if called(node) != "masked_fill":
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


def dropped(node: ast.AST) -> ast.AST | None:
    """x = x.masked_fill(…) whose result is thrown away."""
    if isinstance(node, ast.Assign) and called(node.value) == "masked_fill":
        return ast.Expr(node.value)
    return None


def ignored(node: ast.AST) -> ast.AST | None:
    """`if mask is not None:` that is never true."""
    if isinstance(node, ast.If) and re.fullmatch(r"\w*mask\w* is not None", ast.unparse(node.test)):
        node.test = ast.Constant(False)
        return node
    return None


def added(node: ast.AST) -> ast.AST | None:
    """A mask that is added as it is."""
    if called(node) != "masked_fill" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    return ast.parse(f"{ast.unparse(node.func.value)} + ({ast.unparse(node.args[0])})", mode="eval").body


def unmerged(node: ast.AST) -> ast.AST | None:
    """out.transpose(1, 2).reshape(b, n, c) without the transpose."""
    if called(node) not in ("view", "reshape", "flatten"):
        return None
    text = ast.unparse(node)
    if (
        not re.search(r"\.transpose\(1, 2\)(\.contiguous\(\))?\.(view|reshape|flatten)\(", text)
        or "head" in text.split("(")[-1]
    ):
        return None
    without = re.sub(r"\.transpose\(1, 2\)((\.contiguous\(\))?\.)(view|reshape)\(", r"\1reshape(", text)
    return ast.parse(without, mode="eval").body if without != text else None


def cut_across(node: ast.AST) -> ast.AST | None:
    """x.view(b, n, h, d).transpose(1, 2) as x.view(b, h, n, d)."""
    if called(node) != "transpose" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    inner = node.func.value
    if called(inner) not in ("view", "reshape") or not isinstance(inner, ast.Call) or len(inner.args) != 4:
        return None
    if [ast.unparse(a) for a in node.args] not in (["1", "2"], ["2", "1"]):
        return None
    inner.args[1], inner.args[2] = inner.args[2], inner.args[1]
    return inner


def other_projection(wanted: str, instead: str) -> Edit:
    """k made by the layer that makes q."""
    letters = {"q": r"(w_?|to_?)?q(uer(y|ies))?(_?(proj|linear|layer|w))?s?", "k": r"(w_?|to_?)?k(eys?)?(_?(proj|linear|layer|w))?s?", "v": r"(w_?|to_?)?v(alues?)?(_?(proj|linear|layer|w))?s?"}  # fmt: skip

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.ClassDef):
            return None
        made = {
            called(n): n for n in ast.walk(node) if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("self.")
        }
        one = next((n for word, n in made.items() if re.fullmatch(letters[wanted], word.lower())), None)
        two = next((word for word in made if re.fullmatch(letters[instead], word.lower())), None)
        if one is None or two is None or not isinstance(one.func, ast.Attribute):
            return None
        one.func.attr = two
        return node

    return edit


def no_output(node: ast.AST) -> ast.AST | None:
    """return self.out(x) as return x."""
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
    """softmax(x / √d) as softmax(x) / √d."""
    if called(node) != "softmax" or not isinstance(node, ast.Call) or not node.args:
        return None
    taken_ = node.args[0]
    if isinstance(taken_, ast.BinOp) and isinstance(taken_.op, ast.Div | ast.Mult):
        node.args[0] = taken_.left
        return ast.BinOp(node, taken_.op, taken_.right)
    return None


def plain_list(node: ast.AST) -> ast.AST | None:
    """A list of layers that the module doesn't know of."""
    return node.args[0] if called(node) == "ModuleList" and isinstance(node, ast.Call) and node.args else None


def always_dropout(node: ast.AST) -> ast.AST | None:
    """Dropout that also works in eval mode."""
    if re.fullmatch(r"self\.\w*drop\w*", ast.unparse(node.func) if isinstance(node, ast.Call) else ""):
        assert isinstance(node, ast.Call)
        return ast.parse(
            f"__import__('torch').nn.functional.dropout({ast.unparse(node.args[0])}, 0.5)", mode="eval"
        ).body
    return None


def no_residual(node: ast.AST) -> ast.AST | None:
    """x = x + f(x) as x = f(x)."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        left, right = node.value.left, node.value.right
        if (
            ast.unparse(left) == ast.unparse(node.targets[0])
            and isinstance(right, ast.Call)
            and "self." in ast.unparse(right)
        ):
            node.value = right
            return node
    return None


def dividing(node: ast.BinOp) -> ast.AST:
    return ast.BinOp(node.left, ast.Mult(), node.right)


def unscaled(node: ast.BinOp) -> ast.AST:
    return node.left


def twice(node: ast.BinOp) -> ast.AST:
    return ast.BinOp(node.left, node.op, ast.BinOp(ast.Constant(1.7), ast.Mult(), node.right))


ROOTS, INVERSE = is_root, is_inverse_root
MISTAKES = (
    Injected("multiplied by the root", ("S1", "S4"), scaled(ast.Div, ROOTS, dividing)),
    Injected("divided by the inverse root", ("S1", "S4"), scaled(ast.Mult, INVERSE, lambda n: ast.BinOp(n.left, ast.Div(), n.right))),
    Injected("no division by the root", ("S2", "S4"), scaled(ast.Div, ROOTS, unscaled)),
    Injected("no product with the scale", ("S2", "S4"), scaled(ast.Mult, INVERSE, unscaled)),
    Injected("another root", ("S3", "S4"), scaled(ast.Div, ROOTS, twice)),
    Injected("another scale", ("S3", "S4"), scaled(ast.Mult, INVERSE, twice)),
    Injected("scaled after the softmax", ("S6", "S2", "S4"), after_softmax),
    Injected("softmax over the queries", ("X1",), argument("softmax", "dim", 0, "-2")),
    Injected("softmax over axis 1", ("X3", "X1", "X2"), argument("softmax", "dim", 0, "1")),
    Injected("softmax over the batch", ("X2", "X1", "X3"), argument("softmax", "dim", 0, "0")),
    Injected("no softmax", ("X6",), taken("softmax")),
    Injected("the logarithm of the softmax", ("X6", "X5"), renamed("softmax", "log_softmax")),
    Injected("filled with 0", ("M8", "M9"), argument("masked_fill", "value", 1, "0.0")),
    Injected("filled with next to nothing", ("M9", "M8"), argument("masked_fill", "value", 1, "-1e-9")),
    Injected("filled with infinity", ("M9", "M11", "M12"), argument("masked_fill", "value", 1, "float('inf')")),
    Injected("filled with -100", ("M19", "M9"), argument("masked_fill", "value", 1, "-100.0")),
    Injected("mask the wrong way round", ("M1", "M12", "M14"), inverted),
    Injected("masked scores thrown away", ("M2", "M3", "M14"), dropped),
    Injected("mask never used", ("M3", "M14"), ignored),
    Injected("mask added as it is", ("M7", "M9", "M8"), added),
    Injected("triangle without its diagonal", ("M12",), argument("triu", "diagonal", 0, "0")),
    Injected("triangle one too wide", ("M12",), argument("triu", "diagonal", 0, "2")),
    Injected("lower for upper", ("M12", "M1", "M14"), renamed("triu", "tril")),
    Injected("upper for lower", ("M12", "M1", "M14"), renamed("tril", "triu")),
    Injected("no lower triangle", ("M14", "M3"), taken("tril", "ones")),
    Injected("no upper triangle", ("M14", "M1", "M9", "M12"), taken("triu", "ones")),
    Injected("merged without a transpose", ("H2",), unmerged),
    Injected("heads cut across tokens", ("H1",), cut_across),
    Injected("k by the layer of q", ("P1",), other_projection("k", "q")),
    Injected("v by the layer of k", ("P1",), other_projection("v", "k")),
    Injected("no output projection", ("P4",), no_output),
    Injected("layers in a plain list", ("T2",), plain_list),
    Injected("dropout in eval mode", ("T3",), always_dropout),
    Injected("heads repeated in another order", ("H8",), renamed("repeat_interleave", "tile")),
    Injected("no residual", ("T6", "T5"), no_residual),
)  # fmt: skip


def injections(text: str, name: str) -> Iterator[tuple[Injected, str]]:
    """Each mistake that fits a definition, with the whole file as it is then.

    >>> right = "def attend(q, k, v):\\n    return torch.softmax(q @ k.mT / math.sqrt(d), dim=-1) @ v"
    >>> [mistake.name for mistake, _ in injections(right, "attend")][:3]
    ['multiplied by the root', 'no division by the root', 'another root']
    """
    tree = ast.parse(text)
    for mistake in MISTAKES:
        changed = copy.deepcopy(tree)
        root = next((n for n in ast.walk(changed) if getattr(n, "name", "") == name), None)
        if root is not None and _first(root, mistake.edit):
            made = ast.unparse(ast.fix_missing_locations(changed))
            if made != ast.unparse(tree):
                yield mistake, made


def _first(root: ast.AST, edit: Edit) -> bool:
    """Put in the first edit that fits; whether there was one."""
    if isinstance(root, ast.ClassDef) and edit(root) is not None:
        return True
    for node in ast.walk(root):
        for field, value in ast.iter_fields(node):
            for place, inner in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(inner, ast.AST) or (new := edit(inner)) is None:
                    continue
                if isinstance(value, list):
                    value[place] = new
                else:
                    setattr(node, field, new)
                return True
    return False


def tried(folder: Path, path: str, name: str) -> list[dict[str, str]]:
    """Every mistake that fits one object, and what the check said of it; nothing where it doesn't call the object right."""
    file = folder / path
    before = file.read_text(encoding="utf-8")
    reports, _, _ = wild.check(folder, f"{path}:{name}")
    if not reports or reports[0]["verdict"] not in ("right", "partly"):
        return []
    found = []
    for mistake, text in injections(before, name):
        file.write_text(text, encoding="utf-8")
        reports, _, _ = wild.check(folder, f"{path}:{name}")
        verdict = reports[0]["verdict"] if reports else "unknown"
        ids = [finding["id"] for finding in reports[0]["findings"]] if reports else []
        row = wild.Row("", "", path, name, "+".join(mistake.ids), "", "")
        said = {"outcome": wild.outcome(row, verdict, ids), "ids": ", ".join(ids)}
        found.append({"object": f"{path}:{name}", "mistake": mistake.name, **said})
    file.write_text(before, encoding="utf-8")
    return found


def _copies(options: argparse.Namespace, temporary: Path) -> Iterator[tuple[Path, str, str]]:
    """(folder, path, name): a folder of its own for each object, since its file is written to."""
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
    told: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(wild.WORKERS) as pool:
        for each in pool.map(lambda one: tried(*one), list(_copies(options, Path(temporary)))):
            told += each
            for one in each:
                if one["outcome"] != "named":
                    print(f"{one['outcome']:15} {one['mistake']:32} {one['object']}  {one['ids']}", flush=True)
    count = Counter(one["outcome"] for one in told)
    print(
        f"{len(told)} mistakes of {len({one['mistake'] for one in told})} kinds: "
        + ", ".join(f"{n} {w}" for w, n in count.most_common())
    )
    if options.json is not None:
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
