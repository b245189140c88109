import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    # head_size = how many heads (legacy name, kept for old checkpoints)
    def __init__(self, hidden_dim, head_size):
        super().__init__()
        self.head_size = head_size
        self.att_size = att_size = hidden_dim // head_size
        self.scale = att_size**-0.5
        self.linear_q = nn.Linear(hidden_dim, head_size * att_size, bias=False)
        self.linear_k = nn.Linear(hidden_dim, head_size * att_size, bias=False)
        self.linear_v = nn.Linear(hidden_dim, head_size * att_size, bias=False)
        self.output_layer = nn.Linear(head_size * att_size, hidden_dim, bias=False)

    def forward(self, key, query, value, mask=None):
        """note the order: key, query, value. mask: True = masked, (B, 1, n)"""
        d = self.att_size
        b = query.size(0)
        q = self.linear_q(query).view(b, -1, self.head_size, d).transpose(1, 2)
        k = self.linear_k(key).view(b, -1, self.head_size, d).transpose(1, 2).transpose(2, 3)
        v = self.linear_v(value).view(b, -1, self.head_size, d).transpose(1, 2)
        q = q * self.scale
        x = torch.matmul(q, k)
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(1), -1e9)
        x = torch.softmax(x, dim=3)
        x = x.matmul(v)
        x = x.transpose(1, 2).contiguous().view(b, -1, self.head_size * d)
        return self.output_layer(x)


class Memory(nn.Module):
    """x is the memory, y asks"""

    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.kv = nn.Linear(dim, 2 * dim)
        self.q = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, y):
        B, M, D = x.shape
        N = y.shape[1]
        k, v = self.kv(x).view(B, M, 2, self.n_head, -1).unbind(2)
        q = self.q(y).view(B, N, self.n_head, -1)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.out(o.transpose(1, 2).reshape(B, N, D))
