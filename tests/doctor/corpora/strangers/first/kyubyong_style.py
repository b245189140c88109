import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.fc = nn.Linear(n_head * d_v, d_model)

    def forward(self, q, k, v, mask=None):
        # mask: (b, lq, lk), True = masked
        d_k, d_v, n_head = self.d_k, self.d_v, self.n_head
        sz_b, len_q, _ = q.size()
        len_k = k.size(1)

        q = self.w_qs(q).view(sz_b, len_q, n_head, d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, d_k)
        v = self.w_vs(v).view(sz_b, len_k, n_head, d_v)

        q = q.permute(0, 2, 1, 3).contiguous().view(-1, len_q, d_k)  # (b*n) x lq x dk
        k = k.permute(0, 2, 1, 3).contiguous().view(-1, len_k, d_k)
        v = v.permute(0, 2, 1, 3).contiguous().view(-1, len_k, d_v)

        attn = torch.bmm(q, k.transpose(1, 2)) / d_k ** 0.5
        if mask is not None:
            mask = mask.repeat(n_head, 1, 1)  # (n*b) x .. x ..
            attn = attn.masked_fill(mask, -1e9)
        output = torch.bmm(attn.softmax(2), v)

        output = output.view(sz_b, n_head, len_q, d_v).permute(0, 2, 1, 3).reshape(sz_b, len_q, -1)
        return self.fc(output)


if __name__ == "__main__":
    ids = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    x = torch.randn(2, 5, 32)
    pad = ids.eq(0).unsqueeze(1).expand(-1, 5, -1)
    print(MultiHeadAttention(4, 32, 8, 8)(x, x, x, pad).shape)
