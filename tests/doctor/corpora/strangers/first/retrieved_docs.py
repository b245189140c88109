import torch
import torch.nn as nn
import torch.nn.functional as F


class DocumentReader(nn.Module):
    """Attend from question tokens to retrieved document vectors.

    num_docs (B,) says how many of the K slots are filled; it can be 0 when the search found nothing.
    """

    def __init__(self, dim, heads=4):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def forward(self, question, docs, num_docs):
        B, T, D = question.shape
        K = docs.size(1)
        q = self.wq(question).view(B, T, self.h, self.d).transpose(1, 2)
        k = self.wk(docs).view(B, K, self.h, self.d).transpose(1, 2)
        v = self.wv(docs).view(B, K, self.h, self.d).transpose(1, 2)
        logits = q @ k.transpose(2, 3) / self.d ** 0.5
        empty = torch.arange(K, device=docs.device)[None, :] >= num_docs[:, None]
        logits = logits.masked_fill(empty[:, None, None, :], -1e9)
        a = F.softmax(logits, dim=-1)
        return question + self.wo((a @ v).transpose(1, 2).reshape(B, T, D))


if __name__ == "__main__":
    reader = DocumentReader(32)
    print(reader(torch.randn(3, 5, 32), torch.randn(3, 4, 32), torch.tensor([4, 2, 0])).shape)
