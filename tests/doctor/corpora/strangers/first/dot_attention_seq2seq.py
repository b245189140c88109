import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class DotProductAttention(nn.Module):
    """Scaled dot attention between decoder states and encoder outputs.

    decoder_states:  (batch, tgt_len, hidden)
    encoder_outputs: (batch, src_len, hidden)
    src_lengths:     (batch,) number of real source tokens
    """

    def forward(self, decoder_states, encoder_outputs, src_lengths=None):
        batch, src_len, hidden = encoder_outputs.shape
        energy = torch.bmm(decoder_states, encoder_outputs.transpose(1, 2))
        energy = energy / math.sqrt(encoder_outputs.size(1))
        if src_lengths is not None:
            steps = torch.arange(src_len, device=energy.device)
            pad = steps[None, :] >= src_lengths[:, None]
            energy = energy.masked_fill(pad.unsqueeze(1), float("-inf"))
        weights = F.softmax(energy, dim=-1)
        context = torch.bmm(weights, encoder_outputs)
        return context, weights


if __name__ == "__main__":
    attn = DotProductAttention()
    dec, enc = torch.randn(3, 4, 16), torch.randn(3, 7, 16)
    ctx, w = attn(dec, enc, torch.tensor([7, 5, 2]))
    print(ctx.shape, w.sum(-1))
