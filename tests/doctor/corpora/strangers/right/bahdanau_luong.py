import torch
import torch.nn as nn


class BahdanauAttention(nn.Module):
    def __init__(self, dec_dim, enc_dim, attn_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim, bias=False)
        self.U = nn.Linear(enc_dim, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, s, enc, lengths):
        # s (B, dec_dim), enc (B, T, enc_dim)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.U(enc))).squeeze(-1)   # (B, T)
        pad = torch.arange(enc.size(1), device=enc.device)[None] >= lengths[:, None]
        a = e.masked_fill(pad, float('-inf')).softmax(dim=1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a


class LuongAttention(nn.Module):
    """score(s, h) = s^T W h  ('general') or s^T h ('dot'); Luong et al. do not divide by sqrt(d)"""

    def __init__(self, dim, method='general'):
        super().__init__()
        self.method = method
        if method == 'general':
            self.W = nn.Linear(dim, dim, bias=False)

    def forward(self, s, enc, lengths):
        keys = self.W(enc) if self.method == 'general' else enc
        e = torch.bmm(keys, s.unsqueeze(2)).squeeze(2)
        pad = torch.arange(enc.size(1), device=enc.device)[None] >= lengths[:, None]
        a = torch.softmax(e.masked_fill(pad, float('-inf')), dim=-1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a


if __name__ == '__main__':
    enc, s, n = torch.randn(3, 6, 8), torch.randn(3, 8), torch.tensor([6, 4, 1])
    print(BahdanauAttention(8, 8, 5)(s, enc, n)[1])
    print(LuongAttention(8)(s, enc, n)[1])
