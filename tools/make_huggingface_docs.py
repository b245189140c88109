"""Write docs/huggingface.md and docs/huggingface.zh-CN.md: which model types of transformers can be seen, and how.

    .venv/bin/python tools/make_huggingface_docs.py            all types, about 10 minutes
    .venv/bin/python tools/make_huggingface_docs.py bert t5    what becomes of these, nothing written

Every type is built small with random weights and held to the laws of tests/tracing/record/test_zoo.py, each in a process of its own.
The test compares the pages with what it finds itself, so they can't say more than is true.
"""

import multiprocessing
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
FILES = {"en": HERE / "docs" / "huggingface.md", "zh": HERE / "docs" / "huggingface.zh-CN.md"}
OUTCOMES = ("traced", "eager", "refused", "unreadable", "unbuilt")
PATIENCE = 300  # seconds for one type

BEFORE = {
    "en": """# Hugging Face models

[简体中文](huggingface.zh-CN.md)

    qkv see "The cat sat on the mat" --model ./folder            # a folder as from_pretrained takes it
    qkv see "The cat sat on the mat" --model ./folder --eager    # for those that can't be listened to

    trace = qkv.trace(model, "The cat sat on the mat", tokenizer)
    trace = qkv.trace(model, {"pixel_values": pixels})           # pictures: patches are called by row and column
    trace = qkv.trace(model, "…", tokenizer, eager=True)

**Traced.** Most models of transformers ask the library for the function that computes their attention. While qkv traces, it gets
the very function it always gets, and what goes in is kept: q, k, v and the mask. Nothing of the model is changed, its logits are
bit for bit the same, and memory grows with the length of the text, not with its square. Two rows of every layer are held against what
the kernel gave, and the size of every layer against the tokens; what doesn't fit is refused.

**Layers have the model's own numbers.** Where only some layers attend (Jamba, Qwen3-Next), `trace.layers()` names them.

**Layers that keep a state instead of attending** are the part `mixers`: `trace.map(3, 0, part="mixers")`, `qkv see … --part mixers`.
Heard are Mamba-2's scan (Mamba-2, Bamba, Falcon-H1, Granite hybrid, Nemotron-H, Zamba 2) and the gated delta rule (Qwen3-Next,
Qwen3.5, OLMo Hybrid). What goes into their kernel is kept, and all that comes out of it is computed again from that; what doesn't
fit is refused. Such maps are signed and their rows don't add up to 1: [what may stand where attention stands](mixers.md).
Mamba-1 (Jamba's too) and Kimi Linear's own delta rule are of another kind and not shown.

**With `--eager`.** Other models compute attention in code of their own. They can hand out their weights (`output_attentions=True`),
which are then kept whole: layers × heads × n² numbers, said before they are made. There are no q, k and v, so steps and contributions
can't be shown; maps, links, patterns, pages and files are the same. What isn't a map of the tokens is refused.

**Refused.** Nothing that can be seen (Mamba-1, RWKV), or weights that aren't shares of the tokens: windows (Longformer), pooled rows (Funnel),
latents (Perceiver), scores before the softmax (SqueezeBERT), one softmax over two texts (T5Gemma 2).
""",
    "zh": """# Hugging Face 模型

[English](huggingface.md)

    qkv see "The cat sat on the mat" --model ./folder            # from_pretrained 能读的文件夹
    qkv see "The cat sat on the mat" --model ./folder --eager    # qkv 接不进去的模型

    trace = qkv.trace(model, "The cat sat on the mat", tokenizer)
    trace = qkv.trace(model, {"pixel_values": pixels})           # 图像：图块以行、列为名
    trace = qkv.trace(model, "…", tokenizer, eager=True)

**可记录。** transformers 的大多数模型向库索取计算注意力的函数。qkv 记录时，模型拿到的仍是原来那个函数，只是进入其中的 q、k、v 和掩码被保留下来。
模型本身不做任何改动，logits 逐位相同，内存随文本长度增长，而不是随它的平方。每一层都取两行与内核的结果核对，大小与词元核对；不符的就拒绝。

**层号就是模型自己的层号。** 如果只有部分层有注意力（Jamba、Qwen3-Next），`trace.layers()` 会列出它们。

**保存状态、没有注意力的层**属于 `mixers` 部分：`trace.map(3, 0, part="mixers")`、`qkv see … --part mixers`。能记录的有 Mamba-2 的扫描
（Mamba-2、Bamba、Falcon-H1、Granite 混合模型、Nemotron-H、Zamba 2）和门控 delta 规则（Qwen3-Next、Qwen3.5、OLMo Hybrid）。进入内核的内容被保留下来，
内核给出的一切都由它重新算一遍核对；不符的就拒绝。这样的图有正有负，一行加起来不是 1：见[什么可以代替注意力](mixers.zh-CN.md)。
Mamba-1（包括 Jamba 里的）和 Kimi Linear 自己的 delta 规则是另一类，不显示。

**用 `--eager`。** 另一些模型用自己的代码计算注意力。它们可以交出权重（`output_attentions=True`），这时权重被完整保存：层数 × 头数 × n² 个数，
大小会事先说明。没有 q、k、v，因此看不到计算步骤和贡献；图、连接、模式、网页和文件都照常。不是词元之间的图的，会被拒绝。

**拒绝。** 没有可看的内容（Mamba-1、RWKV），或者给出的不是词元的份额：窗口（Longformer）、合并后的行（Funnel）、隐变量（Perceiver）、
softmax 之前的分数（SqueezeBERT）、对两段文本一起做的 softmax（T5Gemma 2）。
""",
}
TITLES = {
    "en": {
        "traced": "Traced",
        "eager": "With `--eager`",
        "refused": "Refused",
        "unreadable": "Not tried: what they read couldn't be made up here (boxes, grids, several things at once, other sounds)",
        "unbuilt": "Not built: a library is missing, or no small one could be made",
    },
    "zh": {
        "traced": "可记录",
        "eager": "用 `--eager`",
        "refused": "拒绝",
        "unreadable": "没有试：这里造不出它们要读的东西（方框、网格、同时多种输入、别种声音）",
        "unbuilt": "没有构建：缺少库，或做不出小模型",
    },
}
COUNTED = {
    "en": "## Which\n\ntransformers {version} has {every} model types with a model class. {tried} of them were built small with random weights and "
    "given a text (a picture, a sound): {traced} are traced, {eager} more give their weights with `--eager`, {refused} are refused with "
    "the reason. Every map of attention was compared with the one that the model's own eager kernel gives, to 10⁻⁵; of three Nemotron speech "
    "encoders that one is NaN, and only their logits were compared (`tests/tracing/record/test_zoo.py`; this list is made by "
    "`tools/make_huggingface_docs.py`).\n",
    "zh": "## 哪些模型\n\ntransformers {version} 有 {every} 种带模型类的类型。其中 {tried} 种以随机权重构建成小模型，并给了一段文本（图像、声音）："
    "{traced} 种可记录，另有 {eager} 种用 `--eager` 给出权重，{refused} 种说明原因后拒绝。每张注意力图都与模型自己的 eager 内核的结果比较过，误差不超过 10⁻⁵；"
    "只有三个 Nemotron 语音编码器的 eager 结果是 NaN，只比较了 logits（`tests/tracing/record/test_zoo.py`；本列表由 `tools/make_huggingface_docs.py` 生成）。\n",
}


def page(lang: str, outcomes: dict[str, str], version: str) -> str:
    """Return the page, from the outcome of every type."""
    kinds = {outcome: sorted(kind for kind in outcomes if outcomes[kind] == outcome) for outcome in OUTCOMES}
    counts = {outcome: len(names) for outcome, names in kinds.items()}
    tried = counts["traced"] + counts["eager"] + counts["refused"]
    lines = [BEFORE[lang], COUNTED[lang].format(version=version, every=len(outcomes), tried=tried, **counts)]
    for outcome in OUTCOMES:
        lines.append(f"### {TITLES[lang][outcome]} ({counts[outcome]})\n")
        lines.append(", ".join(f"`{kind}`" for kind in kinds[outcome]) + "\n")
    return "\n".join(lines)


def read_outcomes(lang: str = "en") -> dict[str, str]:
    """Return the outcome of every type, as listed on the page."""
    text = FILES[lang].read_text(encoding="utf-8")
    parts = re.split(r"^### .*$", text, flags=re.MULTILINE)[1:]
    return {
        kind: outcome for outcome, part in zip(OUTCOMES, parts, strict=True) for kind in re.findall("`([^`]+)`", part)
    }


def _find_outcome(kind: str, answer: "multiprocessing.Queue[str]") -> None:
    from tests.tracing.record import zoo
    from tests.tracing.record.test_zoo import outcome

    warnings.simplefilter("ignore")
    try:
        answer.put(outcome(kind))
    except zoo.Unbuildable:
        answer.put("unbuilt")
    except BaseException as error:
        answer.put(f"{type(error).__name__}: {error}")


def find_outcome(kind: str) -> str:
    """Return the outcome of a type, determined in a separate process."""
    fork = multiprocessing.get_context("fork")
    answer = fork.Queue()
    process = fork.Process(target=_find_outcome, args=(kind, answer))
    process.start()
    try:
        return answer.get(timeout=PATIENCE)
    except Exception:
        process.kill()
        return f"no answer in {PATIENCE} s"
    finally:
        process.join()


def main(requested_kinds: list[str]) -> int:
    import torch
    import transformers

    from tests.tracing.record import zoo

    torch.set_num_threads(1)
    zoo.build("llama")  # load shared modules before forking
    outcomes = {}
    kinds = requested_kinds or zoo.types()
    for done, kind in enumerate(kinds, 1):
        outcomes[kind] = find_outcome(kind)
        print(f"{done}/{len(kinds)} {kind}: {outcomes[kind]}", flush=True)
    wrong = [kind for kind, outcome in outcomes.items() if outcome not in OUTCOMES]
    if not requested_kinds and not wrong:
        for lang, file in FILES.items():
            file.write_text(page(lang, outcomes, transformers.__version__), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
