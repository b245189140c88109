"""Speech encoder / decoder blocks: the scale goes half to q and half to k."""

from typing import Optional

from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, mask: Optional[Tensor] = None):
        """xa: the audio, for cross-attention. mask: 0 / -inf for the longest text, cut here. Gives logits as well."""
        source = x if xa is None else xa
        q, k, v = (
            t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)
            for t in (self.query(x), self.key(source), self.value(source))
        )
        quarter = q.shape[-1] ** -0.25
        logits = (q * quarter) @ (k * quarter).mT
        if mask is not None:
            n = x.shape[1]
            logits = logits + mask[:n, :n]
        mixed = logits.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2)), logits.detach()


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int, cross_attention: bool = False):
        super().__init__()
        self.attn, self.attn_ln = MultiHeadAttention(n_state, n_head), nn.LayerNorm(n_state)
        if cross_attention:
            self.cross_attn, self.cross_attn_ln = MultiHeadAttention(n_state, n_head), nn.LayerNorm(n_state)
        else:
            self.cross_attn = None
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, mask: Optional[Tensor] = None):
        heard, _ = self.attn(self.attn_ln(x), mask=mask)
        x = x + heard
        if self.cross_attn is not None:
            heard, _ = self.cross_attn(self.cross_attn_ln(x), xa)
            x = x + heard
        return x + self.mlp(self.mlp_ln(x))
