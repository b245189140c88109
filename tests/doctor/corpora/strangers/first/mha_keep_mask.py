import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, n_head, d_model, p=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(p)

    def _heads(self, x):
        return x.view(x.size(0), x.size(1), self.n_head, self.d_head).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self._heads(self.q_proj(q)), self._heads(self.k_proj(k)), self._heads(self.v_proj(v))
        scores = q @ k.transpose(-2, -1) / self.d_head ** 0.5
        if mask is not None:
            # mask broadcastable to (B, H, Tq, Tk), False = hidden
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1)
        weights = self.drop(scores)
        out = (weights @ v).transpose(1, 2).flatten(2)
        return self.out_proj(out)


if __name__ == "__main__":
    layer = MultiHead(4, 32)
    x = torch.randn(2, 6, 32)
    print(layer(x, x, x).shape)
