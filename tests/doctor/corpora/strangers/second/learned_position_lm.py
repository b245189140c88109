import torch
import torch.nn as nn
import torch.nn.functional as F


class TinyLM(nn.Module):
    def __init__(self, vocab=64, n_embd=32, n_head=4, block_size=32):
        super().__init__()
        self.n_head = n_head
        self.tok_emb = nn.Embedding(vocab, n_embd)
        self.pos_emb = nn.Embedding(block_size, n_embd)
        self.ln1 = nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab, bias=False)

    def attend(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = [t.view(B, T, self.n_head, -1).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, idx):
        tok = self.tok_emb(idx)                                       # (B, T, C)
        pos = torch.arange(idx.shape[0], device=idx.device)
        x = tok + self.pos_emb(pos).unsqueeze(1)
        x = x + self.attend(self.ln1(x))
        return self.head(self.ln_f(x))


model = TinyLM()
print(model(torch.randint(0, 64, (3, 10))).shape)
