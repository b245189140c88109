import torch
import torch.nn as nn


def create_padding_mask(seq):
    # 1.0 where there is padding
    return (seq == 0).float()[:, None, None, :]


def create_look_ahead_mask(size):
    return 1 - torch.tril(torch.ones(size, size))


def scaled_dot_product_attention(q, k, v, mask):
    matmul_qk = q @ k.transpose(-1, -2)
    dk = torch.tensor(k.shape[-1], dtype=q.dtype)
    scaled_attention_logits = matmul_qk / torch.sqrt(dk)
    # add the mask to the scaled tensor: masked places get about -1e9
    if mask is not None:
        scaled_attention_logits += (mask * -1e9)
    attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
    return attention_weights @ v, attention_weights


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_model = d_model
        assert d_model % self.num_heads == 0
        self.depth = d_model // self.num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)

    def split_heads(self, x, batch_size):
        x = x.reshape(batch_size, -1, self.num_heads, self.depth)
        return x.permute(0, 2, 1, 3)

    def forward(self, v, k, q, mask):
        batch_size = q.shape[0]
        q = self.split_heads(self.wq(q), batch_size)
        k = self.split_heads(self.wk(k), batch_size)
        v = self.split_heads(self.wv(v), batch_size)
        scaled_attention, attention_weights = scaled_dot_product_attention(q, k, v, mask)
        scaled_attention = scaled_attention.permute(0, 2, 1, 3)
        concat_attention = scaled_attention.reshape(batch_size, -1, self.d_model)
        return self.dense(concat_attention), attention_weights


temp_mha = MultiHeadAttention(d_model=64, num_heads=8)
y = torch.rand(1, 12, 64)
out, attn = temp_mha(y, k=y, q=y, mask=None)
print(out.shape, attn.shape)
