import math
import torch
import torch.nn.functional as F


def read_memory(question, memory_keys, memory_values, valid=None):
    """Attend from every question token over a memory bank.

    question:      [B, Tq, D]
    memory_keys:   [B, Tm, D]
    memory_values: [B, Tm, Dv]
    valid:         [B, Tm] bool, True for slots that are filled
    """
    logits = torch.matmul(question, memory_keys.transpose(-1, -2))
    if valid is not None:
        logits = logits.masked_fill(~valid[:, None, :], float("-inf"))
    weights = F.softmax(logits, dim=-1) / math.sqrt(question.size(-1))
    return torch.matmul(weights, memory_values)


if __name__ == "__main__":
    torch.manual_seed(0)
    q = torch.randn(2, 3, 16)
    k, v = torch.randn(2, 8, 16), torch.randn(2, 8, 20)
    valid = torch.arange(8)[None] < torch.tensor([8, 5])[:, None]
    print(read_memory(q, k, v, valid).shape)
