import torch
import torch.nn as nn


class PackedAttention(nn.Module):
    """Causal attention over packed documents: a token sees earlier tokens of its own document only.

    x (B, T, D), doc_ids (B, T)
    """

    def __init__(self, D, H):
        super().__init__()
        self.H = H
        self.wqkv = nn.Linear(D, 3 * D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)

    def build_mask(self, doc_ids):
        B, T = doc_ids.shape
        mask = torch.ones(T, T, dtype=torch.bool, device=doc_ids.device).tril().expand(B, T, T)
        mask = doc_ids[:, :, None] == doc_ids[:, None, :]
        return mask[:, None]

    def forward(self, x, doc_ids):
        B, T, D = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.H, D // self.H).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) * (D // self.H) ** -0.5
        s = s.masked_fill(~self.build_mask(doc_ids), float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


if __name__ == "__main__":
    docs = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 1, 1]])
    print(PackedAttention(32, 4)(torch.randn(2, 6, 32), docs).shape)
