import torch
import torch.nn as nn


class TextEncoder(nn.Module):
    """One encoder layer around nn.MultiheadAttention.

    attention_mask comes from the tokenizer: 1 for tokens, 0 for padding.
    """

    def __init__(self, d_model=32, nhead=4, d_ff=64):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, attention_mask=None):
        if attention_mask is not None:
            attention_mask = attention_mask.bool()
        a, _ = self.self_attn(x, x, x, key_padding_mask=attention_mask, need_weights=False)
        x = self.norm1(x + a)
        return self.norm2(x + self.ff(x))


def collate(seqs, pad=0):
    n = max(map(len, seqs)) + 1
    ids = torch.tensor([s + [pad] * (n - len(s)) for s in seqs])
    return {"input_ids": ids, "attention_mask": (ids != pad).long()}


if __name__ == "__main__":
    batch = collate([[5, 6, 7], [8, 9, 2, 4, 3]])
    emb = nn.Embedding(20, 32, padding_idx=0)
    enc = TextEncoder()
    print(enc(emb(batch["input_ids"]), batch["attention_mask"]).shape)
