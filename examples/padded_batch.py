"""A batch of two sentences of different length, 8 heads: padding gets a weight of exactly 0.

Token 0 fills up the shorter rows. The mask says which keys are real (True = may attend); a hidden key's score is −∞
before softmax, so its weight is 0 and not merely small, in every head, and the rest still sums to 1.

两句话补齐成一批，0 是填充：在全部 8 个头里，填充位置的权重恰好是 0。
"""

import torch

from qkv import MultiHeadAttention, masks
from qkv.i18n import say

IDS = torch.tensor([[5, 2, 1, 0, 0], [1, 3, 1, 4, 0]])
PADDING = 0


def model() -> tuple[torch.nn.Embedding, MultiHeadAttention]:
    """A vector for each of 6 tokens, and 8 heads of 8; drawn from a seed, not learned."""
    torch.manual_seed(0)
    return torch.nn.Embedding(6, 64), MultiHeadAttention(64, n_head=8)


def attention() -> tuple[torch.Tensor, torch.Tensor]:
    """The output (2, 5, 64) and the weights (2, 8, 5, 5)."""
    words, mha = model()
    with torch.no_grad():
        return mha(words(IDS), mask=masks.padding(IDS != PADDING), weights=True)


if __name__ == "__main__":
    torch.set_printoptions(precision=3, sci_mode=False)
    output, weights = attention()
    hidden = (IDS == PADDING)[:, None, None, :].expand_as(weights)
    for row in range(len(IDS)):
        print(say("tokens {ids}, head 0", ids=IDS[row].tolist()), weights[row, 0], sep="\n")
    print(
        say(
            "weights {shape}, the largest on padding in all heads: {most}",
            shape=list(weights.shape),
            most=weights[hidden].max().item(),
        )
    )
    sums = weights.sum(-1)
    print(say("row sums from {least} to {most}", least=round(sums.min().item(), 6), most=round(sums.max().item(), 6)))
