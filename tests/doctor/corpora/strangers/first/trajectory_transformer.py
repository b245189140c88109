import torch
import torch.nn as nn


class AgentAttention(nn.Module):
    """Cars attend to cars. agents: (B, A, D); present: (B, A) 1 if the agent exists, 0 if the slot is empty."""

    def __init__(self, hidden: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.hd = hidden // heads
        self.ln = nn.LayerNorm(hidden)
        self.wq = nn.Linear(hidden, hidden)
        self.wk = nn.Linear(hidden, hidden)
        self.wv = nn.Linear(hidden, hidden)
        self.wo = nn.Linear(hidden, hidden)

    def forward(self, agents, present):
        B, A, D = agents.shape
        z = self.ln(agents)
        out = []
        for h in range(self.heads):
            sl = slice(h * self.hd, (h + 1) * self.hd)
            q, k, v = self.wq(z)[..., sl], self.wk(z)[..., sl], self.wv(z)[..., sl]
            s = torch.bmm(q, k.transpose(1, 2)) / self.hd ** 0.5
            s = s.masked_fill(present.unsqueeze(2) == 0, -1e9)
            out.append(torch.bmm(s.softmax(dim=2), v))
        return agents + self.wo(torch.cat(out, dim=2))


if __name__ == "__main__":
    present = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    print(AgentAttention()(torch.randn(2, 5, 32), present).shape)
