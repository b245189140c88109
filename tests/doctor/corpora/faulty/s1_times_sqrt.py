import math

import torch
import torch.nn as nn

config = {
    "vocab_size": 5000,
    "hidden": 96,
    "heads": 6,
    "layers": 2,
    "dropout": 0.0,
}


class BertSelfAttention(nn.Module):
    """Encoder self attention. attention_mask is additive: 0 for tokens, a large negative number for padding."""

    def __init__(self, config):
        super().__init__()
        self.heads = config["heads"]
        self.head_dim = config["hidden"] // config["heads"]
        self.query = nn.Linear(config["hidden"], config["hidden"])
        self.key = nn.Linear(config["hidden"], config["hidden"])
        self.value = nn.Linear(config["hidden"], config["hidden"])
        self.dense = nn.Linear(config["hidden"], config["hidden"])
        self.dropout = nn.Dropout(config["dropout"])

    def forward(self, hidden_states, attention_mask=None):
        n, length, width = hidden_states.shape
        q = self.query(hidden_states).reshape(n, length, self.heads, self.head_dim)
        k = self.key(hidden_states).reshape(n, length, self.heads, self.head_dim)
        v = self.value(hidden_states).reshape(n, length, self.heads, self.head_dim)

        scores = torch.einsum("nqhd,nkhd->nhqk", q, k)
        scores = scores * math.sqrt(self.head_dim)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.dropout(torch.softmax(scores, dim=-1))

        context = torch.einsum("nhqk,nkhd->nqhd", probs, v).reshape(n, length, width)
        return self.dense(context)


if __name__ == "__main__":
    layer = BertSelfAttention(config)
    print(layer(torch.randn(2, 7, config["hidden"])).shape)
