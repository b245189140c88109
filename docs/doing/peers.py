"""BertViz, TransformerLens, nanoGPT and qkv, side by side."""

# %% recorded
# SmolLM2, float32, two cores, November 2026 | SmolLM2，两核，2026 年 11 月
# transformers 5.22, TransformerLens 4.3 | transformers 5.22、TransformerLens 4.3
memory = {  # GB: no maps, all maps | GB：不要图，全部图
    512: {"fused": 0.06, "eager": 0.37, "lens": 1.49, "patterns": 0.44},
    1024: {"fused": 0.10, "eager": 1.24, "lens": 3.95, "patterns": 1.33},
    2048: {"fused": 0.18, "eager": 4.56, "patterns": 4.86},
    4096: {"fused": 0.25},
}
page = {32: 7.7, 128: 123, 512: 1991}  # MB, BertViz 1.4.1 | MB，BertViz 1.4.1 的页面
for tokens, each in memory.items():
    print(f"{tokens:5} tokens  ", "  ".join(f"{k} {v:.2f}" for k, v in each.items()))
for tokens, size in page.items():
    print(f"{tokens:5} tokens   BertViz page {size:,} MB")
needed = 30 * 9 * 4096**2 * 4 / 1e9  # layers, heads, n², bytes | 层、头、n²、字节

# %% measured
import re
from pathlib import Path

root = next(up for up in Path(__file__).resolve().parents if (up / "benchmarks").is_dir())
results = (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
types = (root / "docs" / "huggingface.md").read_text(encoding="utf-8")


def row(begins):
    """(ours, peer, ratio) of a row of benchmarks/RESULTS.md."""
    found = re.search(rf"^\| {re.escape(begins)}[^|]*\|([^|]+)\|([^|]+)\|([^|]+)\|", results, re.MULTILINE)
    return tuple(float(re.match(r"[\d.e+-]+", cell.strip())[0]) for cell in found.groups())


every = row("a trace of 512 tokens and all 270 exact maps")
extra = row("extra memory of tracing 512 tokens")
sized = row("page of 128 tokens, all 270 heads: size, against BertViz")
long_page = row("page of 512 tokens, all 270 heads: size")
long_trace = row("extra memory of tracing 4,096 tokens")
exact = row("any exact head at 4,096 tokens")
again = float(re.search(r"output_attentions takes ([\d.]+) GB at 1,024", results)[1])
pooled = row("one head of 100,000 tokens, pooled exactly")
small = row("GPT-2, 4 layers, width 128, context 64, batch 12: ours")
recipe = row("seconds to the recipe's final validation loss")
traced, eager_only, refused = map(
    int, re.search(r"(\d+) are traced, (\d+) more give .*?, (\d+) are refused", types).groups()
)
tried = traced + eager_only + refused
machine = re.search(r"## Seeing, against.*?\n\n(.*?)\.\n", results)[1]
