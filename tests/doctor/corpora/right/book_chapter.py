# typed up while reading chapters 3 and 4; see the notebook for the plots
import torch
import torch.nn as nn

try:
    import tiktoken
except ImportError:
    tiktoken = None

GPT_SMALL = {
    "vocab_size": 50257,
    "context_length": 256,
    "emb_dim": 192,
    "n_heads": 6,
    "n_layers": 4,
    "drop_rate": 0.1,
    "qkv_bias": False,
}


class SelfAttention_v1(nn.Module):
    """first try: raw matrices, one sentence"""

    def __init__(self, d_in, d_out):
        super().__init__()
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Parameter(torch.rand(d_in, d_out)))

    def forward(self, x):
        q, k, v = x @ self.W_query, x @ self.W_key, x @ self.W_value
        return torch.softmax(q @ k.T / k.shape[-1] ** 0.5, dim=-1) @ v


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("future", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        omega = q @ k.transpose(1, 2)
        omega.masked_fill_(self.future[:n, :n], -torch.inf)
        return self.dropout(torch.softmax(omega / k.shape[-1] ** 0.5, dim=-1)) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("future", torch.ones(context_length, context_length).triu(1).bool())

    def forward(self, x):
        b, n, _ = x.shape
        ks = self.W_key(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        qs = self.W_query(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        vs = self.W_value(x).view(b, n, self.num_heads, -1).transpose(1, 2)
        omega = (qs @ ks.transpose(2, 3)).masked_fill(self.future[:n, :n], -torch.inf)
        alpha = self.dropout(torch.softmax(omega / ks.shape[-1] ** 0.5, dim=-1))
        return self.out_proj((alpha @ vs).transpose(1, 2).contiguous().view(b, n, -1))


class LayerNorm(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(emb_dim)), nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.shift + self.scale * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["emb_dim"]
        self.layers = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))

    def forward(self, x):
        return self.layers(x)


class TransformerBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d, p = cfg["emb_dim"], cfg["drop_rate"]
        self.att = MultiHeadAttention(d, d, cfg["context_length"], p, cfg["n_heads"], cfg["qkv_bias"])
        self.ff = FeedForward(cfg)
        self.norm1, self.norm2 = LayerNorm(d), LayerNorm(d)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        for norm, sub in ((self.norm1, self.att), (self.norm2, self.ff)):
            x = x + self.drop(sub(norm(x)))
        return x


class GPTModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok_emb = nn.Embedding(cfg["vocab_size"], cfg["emb_dim"])
        self.pos_emb = nn.Embedding(cfg["context_length"], cfg["emb_dim"])
        self.trf_blocks = nn.Sequential(*(TransformerBlock(cfg) for _ in range(cfg["n_layers"])))
        self.final_norm = LayerNorm(cfg["emb_dim"])
        self.out_head = nn.Linear(cfg["emb_dim"], cfg["vocab_size"], bias=False)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb.weight[: ids.shape[1]]
        return self.out_head(self.final_norm(self.trf_blocks(x)))


if __name__ == "__main__":
    tokenizer = tiktoken.get_encoding("gpt2")
    ids = torch.tensor([tokenizer.encode("Once upon a")])
    model = GPTModel(GPT_SMALL).eval()
    for _ in range(10):
        ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
    print(tokenizer.decode(ids[0].tolist()))
