import torch
from torch import nn


class GPTAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.n_heads = cfg["n_heads"]
        self.head_dim = cfg["emb_dim"] // cfg["n_heads"]
        self.W_query = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_key = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.W_value = nn.Linear(cfg["emb_dim"], cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.out_proj = nn.Linear(cfg["emb_dim"], cfg["emb_dim"])
        self.dropout = nn.Dropout(cfg["drop_rate"])
        self.register_buffer("causal", torch.tril(torch.ones(cfg["context_length"], cfg["context_length"])))

    def forward(self, x):
        b, num_tokens, emb = x.shape
        keys = self.W_key(x).view(b, num_tokens, self.n_heads, self.head_dim).transpose(1, 2)
        queries = self.W_query(x).view(b, num_tokens, self.n_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(b, num_tokens, self.n_heads, self.head_dim).transpose(1, 2)

        attn_scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        attn_scores = attn_scores * self.causal[:num_tokens, :num_tokens]
        attn_weights = self.dropout(torch.softmax(attn_scores, dim=-1))

        context_vec = (attn_weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, emb)
        return self.out_proj(context_vec)


GPT_CONFIG_SMALL = {
    "vocab_size": 50257,
    "context_length": 256,
    "emb_dim": 96,
    "n_heads": 6,
    "n_layers": 4,
    "drop_rate": 0.1,
    "qkv_bias": False,
}

if __name__ == "__main__":
    print(GPTAttention(GPT_CONFIG_SMALL)(torch.randn(2, 9, 96)).shape)
