from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class ModelConfig:
    vocab_size: int = 1000
    hidden_size: int = 128
    num_attention_heads: int = 4
    num_layers: int = 2
    max_len: int = 128


class SelfAttentionLayer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.size = config.hidden_size // config.num_attention_heads
        self.scaling = self.size**-0.5
        self.linear_q = nn.Linear(config.hidden_size, config.hidden_size)
        self.linear_k = nn.Linear(config.hidden_size, config.hidden_size)
        self.linear_v = nn.Linear(config.hidden_size, config.hidden_size)
        self.linear_out = nn.Linear(config.hidden_size, config.hidden_size)
        self.softmax = nn.Softmax(dim=-1)
        self.attn = None  # for plotting

    def forward(self, x):
        batch = x.size(0)
        q = self.linear_q(x).view(batch, -1, self.num_heads, self.size).permute(0, 2, 1, 3)
        k = self.linear_k(x).view(batch, -1, self.num_heads, self.size).permute(0, 2, 3, 1)
        v = self.linear_v(x).view(batch, -1, self.num_heads, self.size).permute(0, 2, 1, 3)
        self.attn = self.softmax(torch.matmul(q, k)) * self.scaling
        x = torch.matmul(self.attn, v).permute(0, 2, 1, 3).contiguous()
        return self.linear_out(x.view(batch, -1, self.num_heads * self.size))


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([SelfAttentionLayer(config) for _ in range(config.num_layers)])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return x


if __name__ == "__main__":
    cfg = ModelConfig()
    print(Encoder(cfg)(torch.randint(0, cfg.vocab_size, (2, 11))).shape)
