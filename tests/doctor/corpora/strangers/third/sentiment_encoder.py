import math

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.out = nn.Linear(hidden_size, hidden_size)

    def forward(self, x, attention_mask=None):
        """attention_mask: (batch, seq_len) from the tokenizer, 1 for tokens and 0 for padding"""
        b, n, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, n, self.num_heads, self.head_size).transpose(1, 2)
        k = k.view(b, n, self.num_heads, self.head_size).transpose(1, 2)
        v = v.view(b, n, self.num_heads, self.head_size).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
        if attention_mask is not None:
            scores = scores + attention_mask[:, None, None, :]
        probs = scores.softmax(-1)
        ctx = torch.matmul(probs, v).transpose(1, 2).reshape(b, n, c)
        return self.out(ctx)


class SentimentClassifier(nn.Module):
    def __init__(self, vocab_size=1000, hidden_size=64, num_heads=4, num_classes=2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        self.attn = SelfAttention(hidden_size, num_heads)
        self.head = nn.Linear(hidden_size, num_classes)

    def forward(self, input_ids, attention_mask):
        x = self.attn(self.embed(input_ids), attention_mask)
        m = attention_mask.unsqueeze(-1).float()
        return self.head((x * m).sum(1) / m.sum(1))
