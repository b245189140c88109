"""Frame mixing by multi-head attention (speech enhancement front-end)."""
import torch
import torch.nn as nn


class FrameMixer(nn.Module):
    def __init__(self, n_feat=40, n_head=4, p=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = n_feat // n_head
        self.norm = nn.LayerNorm(n_feat)
        self.w_out = nn.Linear(n_feat, n_feat)
        self.drop = nn.Dropout(p)

    def forward(self, query, memory):
        """query: (B, T, F), memory: (B, S, F)"""
        q = query.reshape(*query.shape[:2], self.n_head, self.d_k)
        k = memory.reshape(*memory.shape[:2], self.n_head, self.d_k)
        v = k
        s = torch.einsum("bthd,bshd->bhts", q, k) / self.d_k ** 0.5
        z = torch.einsum("bhts,bshd->bthd", self.drop(s.softmax(-1)), v).flatten(2)
        return self.norm(query + self.w_out(z))


if __name__ == "__main__":
    print(FrameMixer().eval()(torch.randn(2, 5, 40), torch.randn(2, 11, 40)).shape)
