import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_layer = nn.Linear(d_model, d_model)
        self.k_layer = nn.Linear(d_model, d_model)
        self.v_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        """
        q: (batch_size, q_len, d_model), k and v: (batch_size, k_len, d_model)
        mask: (batch_size, q_len, k_len), 0 where attention is forbidden
        """
        batch_size = q.shape[0]
        q = self.q_layer(q).reshape(batch_size, -1, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.k_layer(k).reshape(batch_size, -1, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        v = self.v_layer(v).reshape(batch_size, -1, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        scaled = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim**0.5
        if mask is not None:
            scaled = scaled.masked_fill(mask == 0, float("-inf"))
        attention = torch.softmax(scaled, dim=-1)
        values = torch.matmul(attention, v)
        values = values.permute(0, 2, 1, 3).reshape(batch_size, -1, self.d_model)
        return self.linear_layer(values)


if __name__ == "__main__":
    # batch of 8 and 8 heads
    x = torch.randn(8, 5, 64)
    print(MultiHeadAttention(64, 8)(x, x, x, torch.ones(8, 5, 5)).shape)
