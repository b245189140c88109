import torch
import torch.nn as nn


class DecoderBlock(nn.Module):
    """Autoregressive GPT block (pre-norm): masked self-attention followed by an MLP."""

    def __init__(self, cfg):
        super().__init__()
        d = cfg["d_model"]
        self.ln_1 = nn.LayerNorm(d)
        self.masked_attn = nn.MultiheadAttention(d, cfg["n_heads"], batch_first=True)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        h = self.ln_1(x)
        a, _ = self.masked_attn(h, h, h, need_weights=False)
        x = x + a
        return x + self.mlp(self.ln_2(x))


CONFIG = {"d_model": 32, "n_heads": 4, "layers": 2}
gpt = nn.Sequential(*[DecoderBlock(CONFIG) for _ in range(CONFIG["layers"])])
print(gpt(torch.randn(2, 8, 32)).shape)
