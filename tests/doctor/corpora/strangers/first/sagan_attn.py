import torch
import torch.nn as nn


class SelfAttn(nn.Module):
    """ Self attention layer over feature maps """

    def __init__(self, in_dim):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.ones(1) * 0.1)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        """
            x : input feature maps (B, C, W, H)
            returns: self attention value + input feature, attention (B, N, N), N = W*H
        """
        b, c, w, h = x.size()
        proj_query = self.query_conv(x).view(b, -1, w * h).permute(0, 2, 1)  # B, N, C'
        proj_key = self.key_conv(x).view(b, -1, w * h)                       # B, C', N
        energy = torch.bmm(proj_query, proj_key) / proj_query.size(-1) ** 0.5  # rows: queries
        attention = self.softmax(energy)
        proj_value = self.value_conv(x).view(b, -1, w * h)                   # B, C, N

        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        out = out.view(b, c, w, h)
        return self.gamma * out + x, attention


if __name__ == "__main__":
    layer = SelfAttn(32)
    y, a = layer(torch.randn(2, 32, 6, 5))
    print(y.shape, a.shape)
