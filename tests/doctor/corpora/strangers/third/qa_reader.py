import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=128, n_heads=8):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)

    def forward(self, Q, K, V, mask=None):
        batch_size = Q.size(0)
        q_s = self.W_Q(Q).view(batch_size, -1, self.n_heads, self.d_head).transpose(1, 2)
        k_s = self.W_K(K).view(batch_size, -1, self.n_heads, self.d_head).transpose(1, 2)
        v_s = self.W_K(V).view(batch_size, -1, self.n_heads, self.d_head).transpose(1, 2)

        scores = q_s @ k_s.transpose(-1, -2) / self.d_head**0.5
        if mask is not None:
            # mask: (batch, len_q, len_k), True at positions to hide
            scores = scores.masked_fill(mask.unsqueeze(1), -1e9)
        attn = F.softmax(scores, dim=-1)
        context = (attn @ v_s).transpose(1, 2).reshape(batch_size, -1, self.n_heads * self.d_head)
        return self.fc(context), attn
