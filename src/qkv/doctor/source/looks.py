"""What looks like attention in a file, by reading alone: nothing is run.

Attention is a softmax (or an exp) beside a product of matrices, or a call of a library's attention; a block holds such
a thing; a position code turns or adds sines and cosines. Training, plotting and sampling are none of these.
"""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .file import Definition, Source

PRODUCTS = {"matmul", "bmm", "einsum", "dot", "baddbmm", "mm", "tensordot", "batch_dot", "contract"}
SOFTMAXES = {"softmax", "Softmax", "softmax_", "masked_softmax", "stable_softmax", "softmax_one", "entmax", "sparsemax"}
LIBRARY = {"scaled_dot_product_attention", "MultiheadAttention", "MultiHeadAttention", "multi_head_attention_forward"}
LIBRARY |= {"flex_attention", "flash_attn_func", "memory_efficient_attention", "TransformerEncoderLayer"}
ATTENTION = re.compile(r"att(entio)?n|attend|sdpa|mha\b|gqa\b|mqa\b|mla\b", re.IGNORECASE)
SPEAKS = re.compile(
    r"att(entio)?n|attend|quer(y|ies)|scores?|heads?|sdpa|_?q_?k_?v?|qkv|wq|w_q|q_proj|wei|energy", re.IGNORECASE
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
    r"convert|export|make_model|build_model|create_model|configure|timeit|measure|experiment)(_\w*)?",
    re.IGNORECASE,
)
NEVER_CLASS = re.compile(
    r".*(Dataset|DataLoader|Loader|Trainer|Config|Args|Arguments|Tokenizer|Vocab|Vocabulary|Sampler|Callback|Error|"
    r"Exception|Optimizer|Scheduler|Loss|Test|Tests|TestCase|Metric|Output|PreTrainedModel|For[A-Z]\w*)"
)
TOKENS = {"Embedding"}


def candidates(source: "Source") -> list[str]:
    """Names that look like attention, then blocks that hold them, then position codes."""
    here = {name: _Look(node) for name, node in source.definitions.items() if not _never(node)}
    cores = {name for name, look in here.items() if look.attends}
    holders: set[str] = set()
    while True:  # a block holds a multi-head, which holds heads
        more = {
            name
            for name, look in here.items()
            if name not in cores | holders and look.holds(cores | holders) and not look.is_function
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

    def rank(name: str) -> tuple[int, int]:
        look = here[name]
        if name in positions:
            return 4, look.line
        if name in cores:
            return (1 if look.is_function else 0), look.line
        return (0 if ATTENTION.search(name) else 3 if look.reads_tokens else 2), look.line

    return sorted(cores | holders | positions, key=rank)


class _Look:
    """What can be seen in one definition."""

    def __init__(self, node: "Definition") -> None:
        self.is_function = not isinstance(node, ast.ClassDef)
        self.line = node.lineno
        self.names: set[str] = set()  # every word in it
        self.calls: set[str] = set()
        product = False
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
        weighs = bool((self.calls | self.names) & SOFTMAXES) or "exp" in self.calls or "softmax" in self.names
        named = bool(ATTENTION.search(node.name))
        abstract = "abstractmethod" in self.names or "NotImplementedError" in self.calls | self.names
        self.attends = (product and ((weighs and speaks) or named)) or "scaled_dot_product_attention" in self.calls
        self.attends = self.attends or bool(self.calls & LIBRARY and named)
        self.attends = self.attends and not (abstract and not weighs) and node.name not in SOFTMAXES
        self.waves = bool(self.calls & {"sin", "sin_"} and self.calls & {"cos", "cos_"})
        self.reads_tokens = bool(self.calls & TOKENS)
        self.has_arithmetic = any(isinstance(inner, ast.Call | ast.BinOp) for inner in _inside(node))

    def holds(self, others: set[str]) -> bool:
        """Whether it uses one of these, or a library's attention."""
        return bool((self.names | self.calls) & others) or bool(self.calls & LIBRARY)


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
