import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """(batch, len, d_model) x 3 -> (batch, len, d_model)"""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        batch_size = query.shape[0]
        query = self.wq(query)
        key = self.wk(key)
        value = self.wv(value)

        query = key.view(batch_size, -1, self.num_heads, self.depth).permute(0, 2, 1, 3)
        value = key.view(batch_size, -1, self.num_heads, self.depth).permute(0, 2, 1, 3)
        key = key.view(batch_size, -1, self.num_heads, self.depth).permute(0, 2, 1, 3)

        logits = torch.matmul(query, key.transpose(-1, -2)) / self.depth ** 0.5
        weights = torch.softmax(logits, dim=-1)
        out = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        return self.dense(out.view(batch_size, -1, self.num_heads * self.depth))


if __name__ == "__main__":
    x = torch.randn(3, 8, 48)
    print(MultiHeadAttention(48, 6)(x, x, x).shape)
