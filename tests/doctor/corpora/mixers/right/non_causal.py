import torch
import torch.nn.functional as F

def linear_attention(q, k, v):
    """Not causal: every token sees every other (Katharopoulos et al.)."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    context = k.transpose(-1, -2) @ v
    z = 1 / (q @ k.sum(-2, keepdim=True).transpose(-1, -2))
    return (q @ context) * z
