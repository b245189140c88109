"""Attention with one weight tensor per head, for looking inside."""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

try:
    from jaxtyping import Float
except ImportError:

    class _Any:
        def __getitem__(self, item):
            return Tensor

    Float = _Any()


@dataclass
class Config:
    d_model: int = 768
    debug: bool = True
    layer_norm_eps: float = 1e-5
    d_vocab: int = 50257
    init_range: float = 0.02
    n_ctx: int = 1024
    d_head: int = 64
    d_mlp: int = 3072
    n_heads: int = 12
    n_layers: int = 12


class Attention(nn.Module):
    IGNORE: Float[Tensor, ""]

    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.W_Q = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_K = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_V = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_model, cfg.d_head)))
        self.W_O = nn.Parameter(torch.empty((cfg.n_heads, cfg.d_head, cfg.d_model)))
        self.b_Q = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_K = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_V = nn.Parameter(torch.zeros((cfg.n_heads, cfg.d_head)))
        self.b_O = nn.Parameter(torch.zeros((cfg.d_model)))
        nn.init.normal_(self.W_Q, std=self.cfg.init_range)
        nn.init.normal_(self.W_K, std=self.cfg.init_range)
        nn.init.normal_(self.W_V, std=self.cfg.init_range)
        nn.init.normal_(self.W_O, std=self.cfg.init_range)
        self.register_buffer("IGNORE", torch.tensor(float("-inf"), dtype=torch.float32))

    def forward(self, resid: Float[Tensor, "batch posn d_model"]) -> Float[Tensor, "batch posn d_model"]:
        q = torch.einsum("bpm,nmh->bpnh", resid, self.W_Q) + self.b_Q
        k = torch.einsum("bpm,nmh->bpnh", resid, self.W_K) + self.b_K
        v = torch.einsum("bpm,nmh->bpnh", resid, self.W_V) + self.b_V

        scores = torch.einsum("bqnh,bknh->bnqk", q, k)
        masked = self.apply_causal_mask(scores / self.cfg.d_head**0.5)
        pattern = masked.softmax(-1)

        z = torch.einsum("bknh,bnqk->bqnh", v, pattern)
        return torch.einsum("bqnh,nhm->bqm", z, self.W_O) + self.b_O

    def apply_causal_mask(
        self, scores: Float[Tensor, "batch n_heads query_pos key_pos"]
    ) -> Float[Tensor, "batch n_heads query_pos key_pos"]:
        ones = torch.ones(scores.size(-2), scores.size(-1), device=scores.device)
        mask = torch.triu(ones, diagonal=1).bool()
        scores = scores.masked_fill(mask, self.IGNORE)
        return scores


class TransformerBlock(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.d_model, eps=cfg.layer_norm_eps)
        self.attn = Attention(cfg)
        self.ln2 = nn.LayerNorm(cfg.d_model, eps=cfg.layer_norm_eps)
        self.mlp = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_mlp), nn.GELU(), nn.Linear(cfg.d_mlp, cfg.d_model))

    def forward(self, resid_pre):
        resid_mid = self.attn(self.ln1(resid_pre)) + resid_pre
        resid_post = self.mlp(self.ln2(resid_mid)) + resid_mid
        return resid_post
