import torch
import torch.nn as nn


class Scaler:
    """1/sqrt(d), worked out once"""

    def __init__(self):
        self.factor = None

    def __call__(self, t):
        if not self.factor:
            self.factor = 1.0 / float(t.size(-1)) ** 0.5
        return t * self.factor


class MultimodalFusion(nn.Module):
    """Text reads audio and video; the two modalities have their own key sizes."""

    def __init__(self, text=32, audio=8, video=128):
        super().__init__()
        self.q_audio, self.k_audio, self.v_audio = nn.Linear(text, audio), nn.Linear(audio, audio), nn.Linear(audio, text)
        self.q_video, self.k_video, self.v_video = nn.Linear(text, video), nn.Linear(video, video), nn.Linear(video, text)
        self.scaled = Scaler()

    def read(self, q, k, v):
        w = torch.softmax(self.scaled(q) @ k.transpose(1, 2), dim=-1)
        return w @ v

    def forward(self, text, audio, video):
        a = self.read(self.q_audio(text), self.k_audio(audio), self.v_audio(audio))
        b = self.read(self.q_video(text), self.k_video(video), self.v_video(video))
        return text + a + b


if __name__ == "__main__":
    net = MultimodalFusion()
    print(net(torch.randn(2, 5, 32), torch.randn(2, 9, 8), torch.randn(2, 4, 128)).shape)
