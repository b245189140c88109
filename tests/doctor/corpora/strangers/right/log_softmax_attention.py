import torch
import torch.nn.functional as F


def log_attention(q, k, v, lengths=None):
    """returns context and log attention weights; lengths (B,) number of real keys per sample"""
    logits = torch.einsum('bqd,bkd->bqk', q, k).div(q.size(-1) ** 0.5)
    if lengths is not None:
        pad = torch.arange(k.size(1), device=k.device).unsqueeze(0) >= lengths.unsqueeze(1)
        logits = logits.masked_fill(pad.unsqueeze(1), float('-inf'))
    logp = F.log_softmax(logits, dim=-1)
    return torch.einsum('bqk,bkd->bqd', logp.exp(), v), logp


if __name__ == '__main__':
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 6, 8), torch.randn(2, 6, 8)
    out, logp = log_attention(q, k, v, torch.tensor([6, 4]))
    assert torch.allclose(logp.logsumexp(-1), torch.zeros(2, 3), atol=1e-5)
