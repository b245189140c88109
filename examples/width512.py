"""人工智能 ("artificial intelligence"), four characters of width 512, in three stages up to 8 heads of 64.

1  Q = K = V = X: every character finds itself and hardly anything else, since a random vector is like no other.
2  Q, K and V by matrices W_q, W_k, W_v: now a character may look for something other than itself. (A model learns
   these; here they are drawn from a seed.)
3  8 heads: [1, 4, 512] → [1, 8, 4, 64] → [1, 4, 512]. W_q is the heads' W_q1 … W_q8 side by side, so computing head by
   head and computing all at once is the same thing.

人工智能四个字，宽 512：先是 X·Xᵀ，再是学习得到的 Q、K、V，最后分成 8 个头，每头 64；逐头计算与合并计算结果相同。
"""

import numpy as np
import torch

import qkv
from qkv import MultiHeadAttention
from qkv.attention import Steps, from_qkv
from qkv.i18n import say

CHARACTERS = list("人工智能")
WIDTH, HEADS = 512, 8
HEAD_WIDTH = WIDTH // HEADS

draw = np.random.default_rng(0)
X = draw.standard_normal((4, WIDTH))
# One matrix per head and use, then the one that mixes the heads.
W_Q, W_K, W_V = draw.standard_normal((3, HEADS, WIDTH, HEAD_WIDTH)) / np.sqrt(WIDTH)
W_O = draw.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)


def fused(per_head: np.ndarray) -> np.ndarray:
    """The heads' matrices side by side: (H, C, D) → (C, H·D)."""
    return np.concatenate(list(per_head), axis=1)


def plain() -> Steps:
    """Stage 1: softmax(X·Xᵀ/√512)·X."""
    return qkv.steps(X, names=CHARACTERS)


def projected() -> Steps:
    """Stage 2: one head of width 512 with matrices of its own."""
    return qkv.steps(X, fused(W_Q), fused(W_K), fused(W_V), names=CHARACTERS)


def head_by_head() -> np.ndarray:
    """Stage 3, the long way: eight small attentions, their outputs side by side, times W_o."""
    outputs = [from_qkv(X @ W_Q[h], X @ W_K[h], X @ W_V[h]).output for h in range(HEADS)]  # each (4, 64)
    return np.concatenate(outputs, axis=1) @ W_O  # (4, 512)


def module() -> MultiHeadAttention:
    """The same matrices in a PyTorch module; nn.Linear keeps its matrix transposed."""
    mha = MultiHeadAttention(WIDTH, HEADS, bias=False).double()
    matrices = (fused(W_Q), fused(W_K), fused(W_V), W_O)
    with torch.no_grad():
        for linear, matrix in zip((mha.q, mha.k, mha.v, mha.out), matrices, strict=True):
            linear.weight.copy_(torch.from_numpy(matrix.T))
    return mha


def all_at_once() -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Stage 3, the usual way: the output, and the shapes on the way."""
    x = torch.from_numpy(X)[None]  # (1, 4, 512)
    with torch.no_grad(), qkv.record() as calls:
        output = module()(x)  # (1, 4, 512)
    return output[0].numpy(), [tuple(x.shape), tuple(calls[0].q.shape), tuple(output.shape)]


if __name__ == "__main__":
    np.set_printoptions(precision=3, suppress=True)
    print(say("1  Q = K = V = X, weights"), plain().weights, sep="\n")
    print(say("2  with W_q, W_k, W_v, weights"), projected().weights, sep="\n")
    output, shapes = all_at_once()
    print(say("3  8 heads of 64:"), " → ".join(str(list(shape)) for shape in shapes))
    difference = float(np.abs(output - head_by_head()).max())
    print("   " + say("head by head = all at once, largest difference {difference}", difference=difference))
