# character level GPT, typed along with the lecture. all sizes are globals
import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size = 32
block_size = 128
max_iters = 3000
learning_rate = 3e-4
device = "cuda" if torch.cuda.is_available() else "cpu"
n_embd = 192
n_head = 6
n_layer = 4
dropout = 0.2

with open("input.txt") as f:
    text = f.read()

vocab = sorted(set(text))
vocab_size = len(vocab)
to_id = {c: i for i, c in enumerate(vocab)}
data = torch.tensor([to_id[c] for c in text])
cut = len(data) * 9 // 10


def get_batch(part):
    source = data[:cut] if part == "train" else data[cut:]
    at = torch.randint(0, len(source) - block_size - 1, (batch_size, 1))
    window = source[at + torch.arange(block_size + 1)].to(device)
    return window[:, :-1], window[:, 1:]


class Head(nn.Module):
    """a single causal head"""

    def __init__(self, head_size):
        super().__init__()
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("tril", torch.ones(block_size, block_size).tril())

    def forward(self, x):
        T = x.shape[1]
        q, k, v = self.query(x), self.key(x), self.value(x)
        wei = q @ k.transpose(1, 2) * q.size(2) ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return self.drop(F.softmax(wei, dim=-1)) @ v


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList(Head(head_size) for _ in range(num_heads))
        self.proj = nn.Linear(num_heads * head_size, n_embd)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.proj(torch.cat([head(x) for head in self.heads], dim=2)))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        return self.net(x)


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.sa = MultiHeadAttention(n_head, n_embd // n_head)
        self.ffwd = FeedForward(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class GPTLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*(Block(n_embd, n_head) for _ in range(n_layer)))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets=None):
        places = torch.arange(idx.size(1), device=idx.device)
        x = self.token_embedding_table(idx) + self.position_embedding_table(places)
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(1, 2), targets)


model = GPTLanguageModel().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
for step in range(max_iters):
    logits, loss = model(*get_batch("train"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 250 == 0:
        print(step, loss.item())

ids = torch.zeros(1, 1, dtype=torch.long, device=device)
for _ in range(400):
    logits, _ = model(ids[:, -block_size:])
    ids = torch.cat((ids, torch.multinomial(logits[:, -1].softmax(-1), 1)), dim=1)
print("".join(vocab[i] for i in ids[0]))
