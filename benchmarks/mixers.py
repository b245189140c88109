"""Recurrent mixers against transformers' torch code and against attention, in the same run (float32, CPU)."""

import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.mamba2.modeling_mamba2 import Mamba2Config, Mamba2Mixer
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

from qkv import MultiHeadAttention, masks
from qkv.mixers import GatedDelta, Mamba2, Retention, mix

from ._measure import Row, publish, race


def mamba2() -> list[Row]:
    """The layer, forward and backward, against transformers' with its default chunk size and with the best one."""
    torch.manual_seed(0)
    n, chunks = 2048, (256, 128, 64, 32)
    sizes = dict(hidden_size=512, num_heads=16, head_dim=64, state_size=128, n_groups=1)
    theirs = [Mamba2Mixer(Mamba2Config(**sizes, chunk_size=chunk), 0) for chunk in chunks]
    ours, x = Mamba2.from_transformers(theirs[0]), torch.randn(1, n, 512, requires_grad=True)
    seed = torch.randn(1, n, 512)
    times = race(*(lambda layer=layer: layer(x).backward(seed) for layer in (ours, *theirs)), rounds=7)
    best = min(times[1:])
    size = "width 512, 16 heads of 64, state 128"
    chunk_note = f"at its best chunk, {chunks[times.index(best) - 1]}"
    return [
        Row(
            f"Mamba-2 layer, n = {n}, forward + backward ({size}), against transformers'", times[0], times[1], "≤ 0.45"
        ),
        Row(f"the same, transformers' {chunk_note}", times[0], best, "≤ 0.75"),
    ]


def delta() -> list[Row]:
    """Only the delta rule, forward and backward, on the same q, k, v."""
    rows, n = [], 2048
    for heads, width in ((8, 64), (4, 128)):
        torch.manual_seed(0)
        q, k = (F.normalize(torch.randn(1, heads, n, width), dim=-1).requires_grad_() for _ in range(2))
        v, write = torch.randn(1, heads, n, width, requires_grad=True), torch.rand(1, heads, n, requires_grad=True)
        decay = (-0.1 * torch.rand(1, heads, n)).requires_grad_()
        seed = torch.randn(1, heads, n, width)

        def theirs() -> None:
            turned = (t.transpose(1, 2) for t in (q, k, v, decay, write))
            torch_chunk_gated_delta_rule(*turned)[0].transpose(1, 2).backward(seed)

        ours, peer = race(lambda: mix(q, k, v, decay, write=write)[0].backward(seed), theirs, rounds=7)
        what = (
            f"delta rule, n = {n}, forward + backward, {heads} heads of {width}, against torch_chunk_gated_delta_rule"
        )
        rows.append(Row(what, ours, peer, "≤ 0.5"))
    return rows


class Block(nn.Module):
    """A mixer and a feed-forward, widened until the block has so many weights."""

    def __init__(self, mixer: nn.Module, width: int, weights: int) -> None:
        super().__init__()
        hidden = (weights - sum(p.numel() for p in mixer.parameters())) // (2 * width) // 16 * 16
        self.mixer, self.up, self.down = (
            mixer,
            nn.Linear(width, hidden, bias=False),
            nn.Linear(hidden, width, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(x, mask=masks.causal())
        return x + self.down(F.gelu(self.up(x)))


def training() -> list[Row]:
    """Tokens per second of a block, forward and backward, against an attention block of equal size."""
    torch.manual_seed(0)
    width, n = 384, 4096
    weights = 12 * width * width
    mixers = {
        "retention": Retention(width, 6, value_width=64),
        "Mamba-2": Mamba2(width, key_width=64),
        "gated delta": GatedDelta(width, 6),
    }
    blocks = [Block(m, width, weights) for m in (MultiHeadAttention(width, 6, bias=False), *mixers.values())]
    x = torch.randn(1, n, width)
    times = race(*(lambda block=block: block(x).sum().backward() for block in blocks), rounds=5)
    speed = [n / t * 1e3 for t in times]
    return [
        Row(f"{name}, training a block of {weights / 1e6:.1f} M weights, n = {n}, against attention", ours, speed[0], "≥ 1.0", "tokens/s")
        for name, ours in zip(mixers, speed[1:], strict=True)
    ]  # fmt: skip


@torch.no_grad()
def new_token() -> list[Row]:
    """The cost of a new token does not depend on the context."""
    rows, width = [], 384
    torch.manual_seed(0)
    for name, layer in (
        ("retention", Retention(width, 6)),
        ("Mamba-2", Mamba2(width)),
        ("gated delta", GatedDelta(width, 6)),
    ):
        caches, x = [layer.new_cache(1) for _ in range(2)], torch.randn(1, 8192, width)
        layer(x[:, :1024], cache=caches[0])
        for _ in range(8):
            layer(x, cache=caches[1])
        short, long = race(*(lambda cache=cache: layer(x[:, :1], cache=cache) for cache in caches), rounds=15)
        rows.append(Row(f"{name}, one new token at context 65,536 against 1,024", long, short, "≤ 1.1"))
    return rows


MAP = """
import re, time, torch
from qkv import record
from qkv.mixers import head_of, mix
torch.manual_seed(0)
n = 100_000
q, v = torch.randn(1, 1, n, 64), torch.randn(1, 1, n, 64)
k = torch.nn.functional.normalize(torch.randn(1, 1, n, 64), dim=-1)
with torch.no_grad(), record() as calls:
    mix(q, k, v, torch.full((1, 1, n), -1e-5), write={write})
start = time.perf_counter()
head_of(calls[0], 0, 0).pooled(512)
seconds = time.perf_counter() - start
# Not getrusage: a child inherits the peak of the process that started it.
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e6, seconds)
"""


def maps() -> list[Row]:
    """The exact map of one head at 100,000 tokens, pooled to 512 × 512: the whole process's memory."""
    rows = []
    for name, write in (("retention, Mamba-2", "None"), ("gated delta", "torch.rand(1, 1, n)")):
        process = subprocess.run(
            [sys.executable, "-c", MAP.format(write=write)], capture_output=True, text=True, check=True
        )
        peak, seconds = map(float, process.stdout.split())
        rows.append(Row(f"{name}: exact pooled map at 100,000 tokens, peak of the whole process", peak, 1.0, "≤ 1.0", "GB", f"{seconds:.0f} s"))  # fmt: skip
    return rows


PREFILL = """
import re, time, torch
from qkv import Config, Transformer
from qkv.generation.prefill import Reading
torch.manual_seed(0)
torch.set_num_threads(1)
n = 100_000
model = Transformer(Config(vocab=256, width=128, n_layer=2, n_head=4, context=n, mixer="{mixer}")).eval()
ids = torch.randint(256, (1, n)).tolist()
held = lambda name: int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e6
before, start = held("VmRSS"), time.perf_counter()
Reading(model, ids, most=1)
print(held("VmHWM") - before, time.perf_counter() - start)
"""


def prefill() -> list[Row]:
    """Memory above the weights during a prefill of 100,000 tokens, against attention."""

    def measure(mixer: str) -> list[float]:
        code = PREFILL.format(mixer=mixer)
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return [float(number) for number in process.stdout.split()]

    peer, waited = measure("attention")
    rows = []
    for name, mixer in (("retention", "retention"), ("Mamba-2", "mamba2"), ("gated delta", "delta")):
        peak, seconds = measure(mixer)
        rows.append(Row(f"{name}: peak above the weights while reading 100,000 tokens, against attention", peak, peer, "≤ 0.3", "GB", f"{seconds:.0f} s; attention {waited:.0f} s"))  # fmt: skip
    return rows


def main() -> None:
    torch.set_num_threads(1)
    publish("mixers", "Mixing by a state", [*mamba2(), *delta(), *training(), *new_token(), *maps(), *prefill()])


if __name__ == "__main__":
    main()
