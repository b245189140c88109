"""What looks like attention in a file, by reading alone: nothing is run.

Attention is a softmax (or an exp) beside a product of matrices, by names that speak of it or by what goes where: what
the softmax gives goes into another product; or a call of a library's attention. Retention, linear attention and the delta
rule go over q, k and v without a softmax. A block holds such a thing; a position code turns or adds sines and cosines. Training, plotting and sampling are none of these.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .imports import Names, imported_attention
from .nodes import role

if TYPE_CHECKING:
    from .file import Definition, Source

PRODUCTS = {"matmul", "bmm", "einsum", "dot", "baddbmm", "mm", "tensordot", "batch_dot", "contract"}
SOFTMAXES = {"softmax", "Softmax", "softmax_", "masked_softmax", "stable_softmax", "softmax_one", "entmax", "sparsemax"}
LIBRARY = {"scaled_dot_product_attention", "MultiheadAttention", "MultiHeadAttention", "multi_head_attention_forward"}
LIBRARY |= {"flex_attention", "flash_attn_func", "memory_efficient_attention", "TransformerEncoderLayer"}
LIBRARY |= {"TransformerDecoderLayer", "Transformer"}
ATTENTION = re.compile(r"att(entio)?n|attend|sdpa|mha\b|gqa\b|mqa\b|mla\b", re.IGNORECASE)
SPEAKS = re.compile(
    r"att(entio)?n|attend|quer(y|ies)|scores?|heads?|sdpa|_?q_?k_?v?|qkv|wq|w_q|q_proj|wei|energy", re.IGNORECASE
)
STATE = re.compile(
    r"retention|retnet|linear_?(att(entio)?n|transformer)|delta_?(rule|net)|gated_?delta|fast_?weight|selective_scan|\bssd\b",
    re.IGNORECASE,
)
POSITION = re.compile(
    r"pos(ition(al)?)?_?(enc|emb)|sinusoid|rotary|rope|alibi|apply_rot|position_?al|pe_table|relativeposition",
    re.IGNORECASE,
)
PART = re.compile(
    r"rotate_(half|every|queries)|freqs|inv_freq|precompute|slopes|(build|make|compute|get)_?\w*(rope|rotary|cos_sin|sin_cos)\w*"
    r"|(rope|rotary)_?(cache|table|params)",
    re.IGNORECASE,
)
NEVER = re.compile(
    r"(train|plot|visuali[sz]e|show|draw|test|tests|eval|evaluate|validate|generate|sample|decode|beam|greedy|translate|"
    r"predict|infer|inference|main|run|demo|example|benchmark|bench|profile|compare|load|save|download|get_batch|"
    r"batchify|data|preprocess|tokenize|encode_text|estimate|loss|compute_loss|accuracy|collate|print|log|check|verify|"
    r"convert|export|make_model|build_model|create_model|configure|timeit|measure|experiment|backward|fit)(_\w*)?",
    re.IGNORECASE,
)
NEVER_CLASS = re.compile(
    r".*(Dataset|DataLoader|Loader|Trainer|Config|Args|Arguments|Tokenizer|Vocab|Vocabulary|Sampler|Callback|Error|"
    r"Exception|Optimizer|Scheduler|Loss|Test|Tests|TestCase|Metric|Output|PreTrainedModel|For[A-Z]\w*)"
)
TOKENS = {"Embedding"}
POSITIONS = 4  # the rank of position codes
MASKY = re.compile(r"mask|msk|(^|_)(causal|subsequent|look_?ahead|future|tril|triu)(_|$)|掩码", re.IGNORECASE)
NOT_MASKS = re.compile(
    r"masked_|unmask|loss|decay|crit|acc(uracy)?$|mask_?(id|token|rate|prob|ratio|idx|index)", re.IGNORECASE
)


def candidates(source: "Source") -> list[str]:
    """Names that look like attention, then blocks that hold them, then position codes, then makers of masks."""
    ranks = _ranks(source, {})
    return sorted(ranks, key=lambda name: ranks[name])


def attention_names(source: "Source", known: Names) -> set[str]:
    """The names in a file that attend by themselves or hold what does; `known`: see imports.py."""
    return {name for name, (rank, _line) in _ranks(source, known).items() if rank < POSITIONS}


def _ranks(source: "Source", known: Names) -> dict[str, tuple[int, int]]:
    """Each candidate with what it is sorted by: how central it is, and its line."""
    own = {name for name, node in source.definitions.items() if _weighs(node)}
    here = {name: _Look(node, own) for name, node in source.definitions.items() if not _never(node)}
    cores = {name for name, look in here.items() if look.attends}
    functions = {name for name, look in here.items() if look.is_function}
    holders = {name for name, look in here.items() if name not in cores and look.is_attention_class}
    if holders:  # their softmax may be in another file of the project
        elsewhere = imported_attention(source, known)
        holders = {name for name in holders if here[name].holds(elsewhere)}
    while True:  # a block holds a multi-head, which holds heads
        more = {
            name
            for name, look in here.items()
            if name not in cores | holders and look.holds(cores | holders)
            if not look.is_function or (ATTENTION.search(name) and look.calls & functions)  # no factory
        }
        if not more:
            break
        holders |= more
    positions = {
        name
        for name, look in here.items()
        if name not in cores | holders and not PART.search(name) and (POSITION.search(name) or look.waves)
        if look.has_arithmetic
    }
    taken = cores | holders | positions
    makers = {name for name, look in here.items() if name not in taken and makes_masks(source.definitions[name])}

    def rank(name: str) -> tuple[int, int]:
        look = here[name]
        if name in makers:
            return 5, look.line
        if name in positions:
            return POSITIONS, look.line
        if name in cores:
            return (1 if look.is_function else 0), look.line
        return (0 if ATTENTION.search(name) else 3 if look.reads_tokens else 2), look.line

    built = {name for name in taken | makers if not _abstract(source.definitions[name])}
    return {name: rank(name) for name in built}


class _Look:
    """What can be seen in one definition."""

    def __init__(self, node: "Definition", softmaxes: set[str]) -> None:
        """`softmaxes`: what the file calls its own."""
        self.is_function = not isinstance(node, ast.ClassDef)
        self.line = node.lineno
        self.names: set[str] = set()  # every word in it
        self.calls: set[str] = set()
        product = False
        self.softmaxes = (SOFTMAXES | softmaxes) - {node.name}
        for inner in _inside(node):
            if isinstance(inner, ast.Name):
                self.names.add(inner.id)
            elif isinstance(inner, ast.Attribute):
                self.names.add(inner.attr)
            elif isinstance(inner, ast.arg):
                self.names.add(inner.arg)
            elif isinstance(inner, ast.BinOp | ast.AugAssign) and isinstance(inner.op, ast.MatMult):
                product = True
            if isinstance(inner, ast.Call):
                self.calls.add(_called(inner))
        product = product or bool(self.calls & PRODUCTS)
        speaks = any(SPEAKS.fullmatch(part) for name in (*self.names, node.name) for part in (name, *name.split("_")))
        speaks = speaks or bool(ATTENTION.search(node.name)) or {"q", "k"} <= {name.lower() for name in self.names}
        weighs = bool((self.calls | self.names) & self.softmaxes) or "exp" in self.calls
        named = bool(ATTENTION.search(node.name))
        methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        self.is_attention_class = not self.is_function and named and bool(methods & {"forward", "__call__", "call"})
        abstract = "NotImplementedError" in self.calls | self.names
        self.attends = (product and ((weighs and speaks) or named)) or "scaled_dot_product_attention" in self.calls
        self.attends = self.attends or (named and (weighs or bool(self.calls & LIBRARY))) or self._mixes(node)
        self.attends = self.attends or self._keeps_a_state(node, product)
        self.attends = self.attends and not (abstract and not weighs) and node.name not in SOFTMAXES
        self.waves = bool(self.calls & {"sin", "sin_"} and self.calls & {"cos", "cos_"})
        self.reads_tokens = bool(self.calls & TOKENS)
        self.has_arithmetic = any(isinstance(inner, ast.Call | ast.BinOp) for inner in _inside(node))

    def _mixes(self, node: "Definition") -> bool:
        """Whether what a softmax of one product gives goes into another product, whatever anything is called."""
        products, weights = _names_of(node, _is_product), _names_of(node, self._is_softmax)
        return any(
            _reaches(side, self._is_softmax, weights)
            for inner in _inside(node)
            if _is_product(inner)
            for side in ast.iter_child_nodes(inner)
        ) and any(
            _reaches(side, _is_product, products)
            for inner in _inside(node)
            if self._is_softmax(inner)
            for side in (inner, *ast.iter_child_nodes(inner))
        )

    def _keeps_a_state(self, node: "Definition", product: bool) -> bool:
        """Whether it mixes tokens without a softmax: by its name, or a function of q, k and v that goes over them."""
        goes = product or any(isinstance(inner, ast.For) for inner in _inside(node))
        if isinstance(node, ast.ClassDef) or STATE.search(node.name):
            return goes and bool(STATE.search(node.name))
        given = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        return goes and {"q", "k", "v"} <= {role(name) for name in given}

    def _is_softmax(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and (_called(node) in self.softmaxes or _called(node) == "exp")

    def holds(self, others: set[str]) -> bool:
        """Whether it uses one of these, or a library's attention."""
        return bool((self.names | self.calls) & others) or bool(self.calls & LIBRARY)


def speaks_of_masks(name: str) -> bool:
    """True if a name is one that masks have."""
    return bool(MASKY.search(name)) and not NOT_MASKS.search(name)


def makes_masks(node: "Definition") -> bool:
    """True if a function is named like a maker of masks, makes triangles or compares, and neither takes masks nor attends."""
    if isinstance(node, ast.ClassDef) or not speaks_of_masks(node.name) or _never(node):
        return False
    takes = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    returns = any(isinstance(one, ast.Return) and one.value is not None for one in ast.walk(node))
    calls = {_called(one) for one in ast.walk(node) if isinstance(one, ast.Call)}
    compares = any(isinstance(one, ast.Compare) for one in ast.walk(node))
    makes = bool(calls & {"tril", "triu", "tri", "tril_", "triu_"}) or compares
    mixes = any(map(_is_product, ast.walk(node))) or bool(ATTENTION.search(node.name))
    return returns and makes and not mixes and not any(map(speaks_of_masks, takes)) and not calls & SOFTMAXES


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and _called(node) in PRODUCTS


def _names_of(node: ast.AST, made: Callable[[ast.AST], bool]) -> set[str]:
    """The names that stand for what came of something: of a product, of a softmax."""
    found: set[str] = set()
    for inner in _inside(node):
        if isinstance(inner, ast.Assign) and _reaches(inner.value, made, found):
            found |= {one.id for target in inner.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


def _reaches(node: ast.AST, made: Callable[[ast.AST], bool], names: set[str]) -> bool:
    return any(made(one) or (isinstance(one, ast.Name) and one.id in names) for one in ast.walk(node))


def _weighs(node: "Definition") -> bool:
    """Whether a function is a softmax by what it does: powers of e divided by their sum, and no product."""
    if isinstance(node, ast.ClassDef) or any(_is_product(one) for one in ast.walk(node)):
        return False
    calls = {_called(one) for one in ast.walk(node) if isinstance(one, ast.Call)}
    divides = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div) for one in ast.walk(node))
    return bool(calls & SOFTMAXES) or ("exp" in calls and "sum" in calls and divides)


def _abstract(node: "Definition") -> bool:
    """Whether only classes that come of it can be built."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any("abstractmethod" in map(_word, one.decorator_list) for one in methods)


def _never(node: "Definition") -> bool:
    if node.name.startswith("__") or NEVER.fullmatch(node.name.lstrip("_")):
        return True
    if isinstance(node, ast.ClassDef):
        decorated = {_word(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
        bases = {_word(base) for base in node.bases}
        odd = {"Dataset", "IterableDataset", "Enum", "NamedTuple", "TypedDict", "Protocol", "TestCase", "Exception"}
        return bool(NEVER_CLASS.fullmatch(node.name)) or "dataclass" in decorated or bool(bases & odd)
    given = node.args
    return not (given.args or given.posonlyargs or given.kwonlyargs or given.vararg)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a definition but the methods that generate, train or plot."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and NEVER.fullmatch(inner.name.lstrip("_")):
            continue
        yield inner
        yield from _inside(inner)


def _called(node: ast.Call) -> str:
    return _word(node.func)


def _word(node: ast.AST) -> str:
    """The last word of a.b.c, a.b.c[…] or a.b.c(…)."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
