"""A whole GPT that trains, on two short poems, in seconds.

A GPT reads characters and guesses at every place which comes next. Four parts are left to you:

    Block       causal attention and a feed-forward, each added to x (pre-norm, as in the last exercise)
    TinyGPT     word vectors + place vectors, the blocks, a last norm, and a score for every character: logits (B, N, V)
    loss        at place t the target is the character at t + 1: logits[:, :-1] against ids[:, 1:], by cross-entropy
    train_step  one step of training: clear old gradients, loss, gradients, step

Cross-entropy takes logits, no softmax before it. A model that knows nothing has the loss ln V (3.9 for 49
characters). If it falls almost to 0 within a few steps, the model sees what it should guess: the mask or the
shift is wrong. `python 18_tiny_gpt.py` trains it and lets it write.

B sentences, N places, C width, V characters.
----
完整的、能训练的 GPT：两首短诗，几秒钟。

GPT 读字符，在每个位置猜下一个是什么。留给你的有四部分：

    Block       因果注意力和前馈，各自加到 x 上（pre-norm，与上一个练习相同）
    TinyGPT     字向量 + 位置向量，各个 Block，最后的归一化，再给每个字符打分：logits (B, N, V)
    loss        位置 t 的目标是 t + 1 处的字符：logits[:, :-1] 对 ids[:, 1:]，用交叉熵
    train_step  训练一步：清掉旧梯度，算损失，求梯度，更新

交叉熵直接接收 logits，前面不要 softmax。什么都不懂的模型损失是 ln V（49 个字符时是 3.9）。如果几步就降到几
乎为 0，说明模型看到了要猜的内容：掩码或错位写错了。运行 `python 18_tiny_gpt.py` 会训练它并让它写诗。

B 个句子，N 个位置，宽度 C，V 个字符。
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POEMS = """Twinkle, twinkle, little star,
How I wonder what you are!
Up above the world so high,
Like a diamond in the sky.
床前明月光，疑是地上霜。
举头望明月，低头思故乡。
"""
LETTERS = sorted(set(POEMS))
TEXT = torch.tensor([LETTERS.index(letter) for letter in POEMS])


class Block(nn.Module):
    """x + causal attention(norm1(x)), then x + feed-forward(norm2(x)).
    ----
    先 x + 因果注意力(norm1(x))，再 x + 前馈(norm2(x))。
    """

    def __init__(self, width: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x: Tensor) -> Tensor:
        """Causal multi-head attention, (B, N, C) → (B, N, C), with self.q, self.k, self.v and self.out.
        ----
        因果多头注意力，(B, N, C) → (B, N, C)，用 self.q、self.k、self.v 和 self.out。
        """
        # hole
        q, k, v = (part(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()  # True = may attend | True = 可以看
        weights = torch.softmax(scores.masked_fill(~past, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))
        # end

    def forward(self, x: Tensor) -> Tensor:
        """Given.
        ----
        已给出。
        """
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class TinyGPT(nn.Module):
    """Characters in, a score for every next character out.
    ----
    输入字符，在每个位置输出下一个字符的分数。
    """

    def __init__(self, vocab: int, width: int, n_head: int, n_layer: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, n_head) for _ in range(n_layer))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, N), N ≤ context → logits (B, N, V).
        ----
        ids (B, N)，N ≤ context → logits (B, N, V)。
        """
        # hole
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
        # end


def loss(model: nn.Module, ids: Tensor) -> Tensor:
    """The mean cross-entropy of every next character of ids (B, N): one number. Knowing nothing, it is ln V:
    ----
    ids (B, N) 里每个“下一个字符”的平均交叉熵：一个数。什么都不懂时是 ln V：
    ----

    >>> round(loss(lambda ids: torch.zeros(*ids.shape, 49), torch.tensor([[1, 2, 3]])).item(), 2)
    3.89
    """
    # hole
    logits = model(ids)[:, :-1]  # (B, N − 1, V)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    # end


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, ids: Tensor) -> float:
    """Learn from one batch; gives its loss before the step.
    ----
    用一个批次训练一步；返回这一步之前的损失。
    """
    # hole
    optimizer.zero_grad()
    value = loss(model, ids)
    value.backward()
    optimizer.step()
    return value.item()
    # end


def train(steps: int = 150, seed: int = 0) -> tuple[TinyGPT, list[float]]:
    """Given: a GPT trained on random stretches of the poems, and its losses.
    ----
    已给出：在诗的随机片段上训练的 GPT，以及它的损失。
    """
    torch.manual_seed(seed)
    model = TinyGPT(len(LETTERS), width=48, n_head=4, n_layer=2, context=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(TEXT) - 32, (16,))
        losses.append(train_step(model, optimizer, torch.stack([TEXT[s : s + 32] for s in starts])))
    return model, losses


@torch.no_grad()
def write(model: TinyGPT, start: str, length: int = 60) -> str:
    """Given: let it go on, always with the likeliest character.
    ----
    已给出：让它接着写，每次取最可能的字符。
    """
    ids = torch.tensor([[LETTERS.index(letter) for letter in start]])
    for _ in range(length):
        best = model(ids[:, -model.context :])[:, -1].argmax(-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return "".join(LETTERS[i] for i in ids[0].tolist())


if __name__ == "__main__":
    torch.set_num_threads(1)  # small matrices are quicker on one | 矩阵小，用一个线程更快
    trained, history = train()
    print(f"loss {history[0]:.2f} → {history[-1]:.2f}")
    print(write(trained, "How"))
    print(write(trained, "床前", 22))
