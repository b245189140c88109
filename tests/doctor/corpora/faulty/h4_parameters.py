import numpy as np
import torch
import torch.nn as nn


class Attention(nn.Module):
    """Multi-head attention

    # Parameters
    d_model : size of the input
    h : number of heads
    """

    def __init__(self, d_model, h):
        super().__init__()
        self.d_model = d_model
        self.h = h
        self.Wq = nn.Parameter(torch.empty(d_model, d_model))
        self.Wk = nn.Parameter(torch.empty(d_model, d_model))
        self.Wv = nn.Parameter(torch.empty(d_model, d_model))
        self.Wo = nn.Parameter(torch.empty(d_model, d_model))
        for p in self.parameters():
            nn.init.xavier_uniform_(p)

    def forward(self, x):
        Q, K, V = x @ self.Wq, x @ self.Wk, x @ self.Wv
        A = torch.softmax(Q @ K.transpose(-1, -2) / np.sqrt(self.d_model), dim=-1)
        return (A @ V) @ self.Wo


if __name__ == "__main__":
    print(Attention(40, 5)(torch.randn(3, 6, 40)).shape)
