import torch
import torch.nn as nn
import torch.nn.functional as F


class MHA(nn.Module):
    def __init__(self, emb_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.emb_size = emb_size
        self.keys = nn.Linear(emb_size, emb_size)
        self.queries = nn.Linear(emb_size, emb_size)
        self.values = nn.Linear(emb_size, emb_size)
        self.projection = nn.Linear(emb_size, emb_size)

    def forward(self, query, key, value):
        n, l = query.shape[0], key.shape[1]
        queries = self.queries(query)
        keys = self.keys(key)
        values = self.values(value)

        shape = (n, l, self.num_heads, self.emb_size // self.num_heads)
        q = keys.reshape(shape).permute(0, 2, 1, 3)
        k = keys.reshape(shape).permute(0, 2, 1, 3)
        v = keys.reshape(shape).permute(0, 2, 1, 3)

        energy = torch.einsum("bhqd, bhkd -> bhqk", q, k) / (self.emb_size // self.num_heads) ** 0.5
        att = F.softmax(energy, dim=-1)
        out = torch.einsum("bhal, bhlv -> bhav", att, v).permute(0, 2, 1, 3).reshape(n, l, self.emb_size)
        return self.projection(out)


if __name__ == "__main__":
    x = torch.randn(2, 6, 32)
    print(MHA(32, 4)(x, x, x).shape)
