import torch
import torch.nn as nn


class Forecaster(nn.Module):
    """Encoder-only transformer for multivariate forecasting.

    input : (batch, window, features)
    output: (batch, horizon)
    """

    def __init__(self, features=5, d_model=32, nhead=4, layers=2, window=24, horizon=6):
        super().__init__()
        self.inp = nn.Linear(features, d_model)
        self.pos = nn.Parameter(torch.zeros(1, window, d_model))
        enc = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=64, dropout=0.1)
        self.encoder = nn.TransformerEncoder(enc, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d_model, horizon)

    def forward(self, x):
        h = self.inp(x) + self.pos[:, :x.size(1)]
        h = self.encoder(h)
        return self.out(h[:, -1])


if __name__ == "__main__":
    model = Forecaster().eval()
    print(model(torch.randn(3, 24, 5)).shape)
