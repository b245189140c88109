import torch
import torch.nn.functional as F

NEG_INF = -float('-inf')


def causal_attention(q, k, v, m=None):
    """
    q, k, v: [b, t, d]; m: [b, t] bool, True = real token (right-padded batch)
    """
    b, t, d = q.shape
    s = torch.bmm(q, k.transpose(1, 2)) * d ** -0.5
    c = torch.ones(t, t, device=q.device).triu(1).bool()
    s = s.masked_fill(c, NEG_INF)
    if m is not None:
        s = s.masked_fill(~m[:, None, :], NEG_INF)
    a = F.softmax(s, -1)
    return torch.bmm(a, v)


if __name__ == "__main__":
    x = torch.randn(2, 4, 8)
    print(causal_attention(x, x, x).shape)
