import torch
import torch.nn as nn


class PatchAttention(nn.Module):
    """Causal attention over image patches in raster order (image GPT). x: (B, patches, dim)"""

    def __init__(self, dim=32, heads=4, image=32, patch=8):
        super().__init__()
        self.heads = heads
        self.n = (image // patch) ** 2
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        logits = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        order = torch.ones(self.n, self.n, device=x.device).tril()
        logits = logits.masked_fill(order == 0, float("-inf"))
        y = logits.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, N, D))


if __name__ == "__main__":
    print(PatchAttention()(torch.randn(2, 16, 32)).shape)
