import torch
import torch.nn as nn


class MSA(nn.Module):
    """Multi-head self attention of the audio spectrogram encoder."""

    def __init__(self, hidden_d, n_heads=2):
        super(MSA, self).__init__()
        self.hidden_d = hidden_d
        self.n_heads = n_heads
        self.d_head = hidden_d // n_heads

        self.q_map = nn.Linear(hidden_d, hidden_d)
        self.k_map = nn.Linear(hidden_d, hidden_d)
        self.v_map = nn.Linear(hidden_d, hidden_d)
        self.out_map = nn.Linear(hidden_d, hidden_d)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, sequences):
        # sequences: (N, seq_length, hidden_d)
        N, L, _ = sequences.shape
        q = self.q_map(sequences).reshape(N, L, self.n_heads, self.d_head).swapaxes(1, 2)
        k = self.k_map(sequences).reshape(N, L, self.n_heads, self.d_head).swapaxes(1, 2)
        v = self.v_map(sequences).reshape(N, L, self.n_heads, self.d_head).swapaxes(1, 2)

        attention = self.softmax(q @ k.mT / (self.n_heads**0.5))
        result = (attention @ v).swapaxes(1, 2).reshape(N, L, self.hidden_d)
        return self.out_map(result)


def main():
    msa = MSA(8, 2)
    print(msa(torch.randn(7, 50, 8)).shape)


if __name__ == "__main__":
    main()
