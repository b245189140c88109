"""Attention of the libraries people compare with, and our own: made here, since no file of theirs is ours to keep.

Each function gives the object to examine and the options to pass; sizes are small and all different. What isn't
installed is skipped.
"""

from typing import Any

import pytest
import torch
from torch import nn

import qkv
from qkv.attention.latent import LatentAttention
from qkv.attention.positions import Learned, Rotary, Sinusoidal
from qkv.model.layers import Block

Made = tuple[Any, dict[str, Any]]

WIDTH, HEADS = 24, 4


def torch_mha() -> Made:
    return nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), {}


def torch_mha_sequence_first() -> Made:
    return nn.MultiheadAttention(WIDTH, HEADS), {}


def torch_mha_other_widths() -> Made:
    return nn.MultiheadAttention(WIDTH, HEADS, dropout=0.3, kdim=18, vdim=30, batch_first=True), {}


def torch_mha_class() -> Made:
    return nn.MultiheadAttention, {"args": {"embed_dim": WIDTH, "num_heads": HEADS}}


def torch_sdpa() -> Made:
    return nn.functional.scaled_dot_product_attention, {}


def torch_encoder_layer() -> Made:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 50, batch_first=True), {}


def torch_encoder_layer_sequence_first() -> Made:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 50), {}


def torch_encoder_layer_pre_norm() -> Made:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 50, batch_first=True, norm_first=True, activation="gelu"), {}


def torch_decoder_layer() -> Made:
    return nn.TransformerDecoderLayer(WIDTH, HEADS, 50, batch_first=True), {}


def bert_config() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.BertConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=50, num_hidden_layers=1, vocab_size=11
    )


def bert_self_attention() -> Made:
    config = bert_config()
    from transformers.models.bert.modeling_bert import BertSelfAttention

    return BertSelfAttention(config), {"heads": HEADS}


def bert_attention() -> Made:
    config = bert_config()
    from transformers.models.bert.modeling_bert import BertAttention

    return BertAttention(config), {"heads": HEADS}


def bert_layer() -> Made:
    config = bert_config()
    from transformers.models.bert.modeling_bert import BertLayer

    return BertLayer(config), {"heads": HEADS}


def gpt2_config() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.GPT2Config(n_embd=WIDTH, n_head=HEADS, n_layer=1, n_positions=32)


def gpt2_attention() -> Made:
    """By itself it isn't causal: the model around it hands it the mask."""
    config = gpt2_config()
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    return GPT2Attention(config, layer_idx=0), {"heads": HEADS}


def gpt2_attention_fused() -> Made:
    """Causal where no mask is given, since the fused kernel is then told so."""
    config = gpt2_config()
    config._attn_implementation = "sdpa"
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    return GPT2Attention(config, layer_idx=0), {"heads": HEADS}


def gpt2_block() -> Made:
    config = gpt2_config()
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    return GPT2Block(config, layer_idx=0), {"heads": HEADS}


def llama_config() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        intermediate_size=50,
        num_hidden_layers=1,
        max_position_embeddings=64,
        vocab_size=11,
    )


def llama_attention() -> Made:
    """Wants the tables of cosines and sines as an argument."""
    config = llama_config()
    from transformers.models.llama.modeling_llama import LlamaAttention

    return LlamaAttention(config, layer_idx=0), {"heads": HEADS}


def llama_layer() -> Made:
    config = llama_config()
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    return LlamaDecoderLayer(config, layer_idx=0), {"heads": HEADS}


class WithTables(nn.Module):
    """A Llama attention that makes its own tables."""

    def __init__(self, attention: nn.Module, tables: nn.Module) -> None:
        super().__init__()
        self.attention, self.tables = attention, tables

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        places = torch.arange(hidden_states.shape[1])[None]
        return self.attention(hidden_states, self.tables(hidden_states, places), attention_mask)[0]


def llama_attention_with_tables() -> Made:
    config = llama_config()
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    return WithTables(LlamaAttention(config, layer_idx=0), LlamaRotaryEmbedding(config)), {"heads": HEADS}


def t5_config() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.T5Config(
        d_model=WIDTH, d_kv=5, num_heads=HEADS, d_ff=50, num_layers=1, num_decoder_layers=1, vocab_size=11
    )


def t5_attention() -> Made:
    """Not scaled, as T5 is defined."""
    config = t5_config()
    from transformers.models.t5.modeling_t5 import T5Attention

    return T5Attention(config), {"heads": HEADS}


def t5_attention_with_distances() -> Made:
    config = t5_config()
    from transformers.models.t5.modeling_t5 import T5Attention

    return T5Attention(config, has_relative_attention_bias=True), {"heads": HEADS}


def x_transformers_attention() -> Made:
    library = pytest.importorskip("x_transformers")
    return library.Attention(WIDTH, dim_head=5, heads=HEADS), {"heads": HEADS}


def x_transformers_causal() -> Made:
    library = pytest.importorskip("x_transformers")
    return library.Attention(WIDTH, dim_head=6, heads=HEADS, causal=True), {"heads": HEADS, "causal": True}


def x_transformers_fused() -> Made:
    library = pytest.importorskip("x_transformers")
    return library.Attention(WIDTH, dim_head=6, heads=HEADS, flash=True), {"heads": HEADS}


def x_transformers_few_keys() -> Made:
    library = pytest.importorskip("x_transformers")
    return library.Attention(WIDTH, dim_head=6, heads=HEADS, kv_heads=2), {"heads": HEADS}


def qkv_self_attention() -> Made:
    return qkv.SelfAttention(WIDTH, d_k=7), {}


def qkv_self_attention_class() -> Made:
    return qkv.SelfAttention, {}


def qkv_mha() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS), {}


def qkv_mha_class() -> Made:
    return qkv.MultiHeadAttention, {}


def qkv_rotary_few_keys() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, 2, position="rotary", bias=False), {}


def qkv_alibi() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, position="alibi"), {}


def qkv_relative() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, position="relative"), {}


def qkv_window() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, window=2), {}


def qkv_normed() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, head_width=10, qk_norm="rms"), {}


def qkv_cross() -> Made:
    return qkv.MultiHeadAttention(WIDTH, HEADS, memory_width=18), {}


def qkv_latent() -> Made:
    return LatentAttention(WIDTH, HEADS, rank=9, head_width=6, rope_width=4), {}


def qkv_attend() -> Made:
    return qkv.attend, {}


def qkv_block() -> Made:
    """The layer asks for a mask; `causal` only says how it is meant."""
    config = qkv.Config(width=WIDTH, n_head=HEADS, n_layer=1, position="none")
    return Block(config, "decoder.0", None, causal=True, cross=False), {}


def qkv_block_post_norm() -> Made:
    config = qkv.Config(
        kind="encoder",
        width=WIDTH,
        n_head=HEADS,
        n_layer=1,
        position="none",
        norm="layer",
        norm_place="post",
        feed_forward="gelu",
        bias=True,
    )
    return Block(config, "encoder.0", None, causal=False, cross=False), {}


def qkv_block_with_memory() -> Made:
    config = qkv.Config(kind="encoder-decoder", width=WIDTH, n_head=HEADS, n_layer=1, position="none")
    return Block(config, "decoder.0", None, causal=True, cross=True), {}


def qkv_sinusoidal() -> Made:
    return Sinusoidal(WIDTH), {}


def qkv_sinusoidal_halves() -> Made:
    return Sinusoidal(WIDTH, halves=True), {}


def qkv_learned() -> Made:
    return Learned(32, WIDTH), {}


def qkv_rotary() -> Made:
    return Rotary(6), {}


def qkv_rotary_interleaved() -> Made:
    return Rotary(6, interleaved=True), {}
