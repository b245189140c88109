import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    """Attention inside windows of an image, with a learned bias for each distance in the plane.

    x (windows * batch, N, C); mask (windows, N, N), 0 or -inf, for windows that were shifted over the border
    """

    def __init__(self, dim, window_size, num_heads, qkv_bias=True):
        super().__init__()
        rows, cols = window_size
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.relative_position_bias_table = nn.Parameter(0.02 * torch.randn((2 * rows - 1) * (2 * cols - 1), num_heads))
        where = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))  # (N, 2)
        dy, dx = (where[:, None] - where[None, :]).unbind(-1)
        self.register_buffer("lookup", (dy + rows - 1) * (2 * cols - 1) + dx + cols - 1)

    def forward(self, x, mask=None):
        W, N, C = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        logits = (q * q.shape[-1] ** -0.5) @ k.mT + self.relative_position_bias_table[self.lookup].permute(2, 0, 1)
        if mask is not None:
            per_image = logits.unflatten(0, (-1, len(mask)))  # (batch, windows, heads, N, N)
            logits = (per_image + mask[None, :, None]).flatten(0, 1)
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(W, N, C))
