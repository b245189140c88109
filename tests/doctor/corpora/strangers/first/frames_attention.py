import torch
import torch.nn as nn
import torch.nn.functional as F


class FrameAttention(nn.Module):
    """Self attention over spectrogram frames.

    frames:  (batch, time, mel)
    padding: (batch, time) True = padded frame
    """

    def __init__(self, mel=40, dim=32):
        super().__init__()
        self.dim = dim
        self.query = nn.Linear(mel, dim)
        self.key = nn.Linear(mel, dim)
        self.value = nn.Linear(mel, dim)

    def forward(self, frames, padding=None):
        q, k, v = self.query(frames), self.key(frames), self.value(frames)
        energy = torch.bmm(q, k.transpose(1, 2)) / self.dim ** 0.5
        if padding is not None:
            energy = energy.masked_fill(padding.unsqueeze(-1), -1e9)
        weights = F.softmax(energy, dim=-1)
        return torch.bmm(weights, v)


class SpeakerPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = FrameAttention()

    def forward(self, frames, padding):
        h = self.attn(frames, padding)
        keep = (~padding).unsqueeze(-1).float()
        return (h * keep).sum(1) / keep.sum(1)


if __name__ == "__main__":
    pad = torch.arange(20)[None] >= torch.tensor([20, 13])[:, None]
    print(SpeakerPooling()(torch.randn(2, 20, 40), pad).shape)
