import torch
import torch.nn as nn


class MultiHeadAttn(nn.Module):
    """Returns (output, attention weights of shape [B, H, Tq, Tk]) -- the weights are for plotting."""

    def __init__(self, emb_size, num_heads, dropout=0.2):
        super().__init__()
        self.num_heads = num_heads
        self.head = emb_size // num_heads
        self.queries = nn.Linear(emb_size, emb_size)
        self.keys = nn.Linear(emb_size, emb_size)
        self.values = nn.Linear(emb_size, emb_size)
        self.projection = nn.Linear(emb_size, emb_size)
        self.att_drop = nn.Dropout(dropout)

    def forward(self, query, memory, pad=None):
        # pad: (B, Tk) True on padding
        def heads(t):
            return t.unflatten(-1, (self.num_heads, self.head)).transpose(1, 2)

        q, k, v = heads(self.queries(query)), heads(self.keys(memory)), heads(self.values(memory))
        energy = torch.einsum('bhqd,bhkd->bhqk', q, k) / self.head ** 0.5
        if pad is not None:
            energy = energy.masked_fill(pad[:, None, None], torch.finfo(energy.dtype).min)
        att = energy.softmax(dim=-1)
        att = self.att_drop(att)
        out = torch.einsum('bhqk,bhkd->bhqd', att, v).transpose(1, 2).flatten(2)
        return self.projection(out), att


if __name__ == "__main__":
    m = MultiHeadAttn(32, 4)
    y, w = m(torch.randn(2, 5, 32), torch.randn(2, 7, 32))
    print(y.shape, w.shape)
