import torch
import torch.nn as nn


class Head(nn.Module):
    def __init__(self, emb, size):
        super().__init__()
        self.query = nn.Linear(emb, size)
        self.key = nn.Linear(emb, size)
        self.value = nn.Linear(emb, size)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        w = torch.softmax(torch.bmm(q, k.permute(0, 2, 1)) / q.size(2) ** 0.5, dim=2)
        return torch.bmm(w, v)


class MultiHead(nn.Module):
    """Runs every head on its own and puts the results together."""

    def __init__(self, emb, heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(emb, emb // heads) for _ in range(heads)])
        self.unify = nn.Linear(emb, emb)

    def forward(self, x):
        b, n, emb = x.shape
        out = torch.stack([head(x) for head in self.heads], dim=1)
        return self.unify(out.view(b, n, emb))


if __name__ == "__main__":
    print(MultiHead(30, 5)(torch.randn(2, 7, 30)).shape)
