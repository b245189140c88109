import torch
import torch.nn as nn


PAD_IDX = 0


def make_src_mask(src):
    # src: (B, S) -> (B, 1, 1, S), True for real tokens
    return (src != PAD_IDX).unsqueeze(1).unsqueeze(2)


class MultiHeadAttention(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        B = query.shape[0]
        Q = self.fc_q(query).view(B, -1, self.n_heads, self.head_dim).transpose(1, 2)
        K = self.fc_k(key).view(B, -1, self.n_heads, self.head_dim).transpose(1, 2)
        V = self.fc_v(value).view(B, -1, self.n_heads, self.head_dim).transpose(1, 2)
        energy = Q @ K.transpose(-1, -2) / self.head_dim ** 0.5
        if mask is not None:
            energy = energy.masked_fill(mask, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = self.dropout(attention) @ V
        x = x.transpose(1, 2).reshape(B, -1, self.n_heads * self.head_dim)
        return self.fc_o(x)


if __name__ == "__main__":
    src = torch.tensor([[4, 9, 3, 0, 0], [7, 2, 5, 8, 3]])
    emb = nn.Embedding(10, 32)
    attn = MultiHeadAttention(32, 4)
    h = emb(src)
    print(attn(h, h, h, make_src_mask(src)).shape)
