import torch
import torch.nn as nn


def create_padding_mask(seq, pad=0):
    # (batch, seq_len) -> 4-D so that it can be used with the scores of all heads
    return (seq != pad).unsqueeze(1).unsqueeze(3)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.dense = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        return x.view(x.size(0), -1, self.num_heads, self.depth).transpose(1, 2)

    def forward(self, x, mask=None):
        q, k, v = self.split_heads(self.wq(x)), self.split_heads(self.wk(x)), self.split_heads(self.wv(x))
        logits = torch.matmul(q, k.transpose(-2, -1)) / self.depth ** 0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(logits, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.dense(out)


class EncoderAttention(nn.Module):
    def __init__(self, vocab=30, d_model=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.mha = MultiHeadAttention(d_model, heads)

    def forward(self, seq):
        return self.mha(self.emb(seq), create_padding_mask(seq))


if __name__ == "__main__":
    print(EncoderAttention()(torch.tensor([[7, 6, 3, 0, 0], [1, 2, 3, 4, 5]])).shape)
