"""Every family is the same model here: made by transformers, read by us, with its logits, its cache, its greedy words.

Each case is small and awkward: an odd vocabulary, heads that share keys but not all of them, head widths that don't divide
the width, other depths on the two sides, texts longer than a window. No weight is left as it was born: norms and biases
begin at 1 and 0, where mistakes don't show.

transformers computes RMS norms, rotary tables, Marian's sines and the loops of mixers in float32, whatever the model is in. Here
they are told to do it in float64 (`exactly`), so that every family must agree to 1e-10; as they come, to 1e-6.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.utils import logging

from qkv import Transformer, masks
from qkv.formats.families import FAMILIES, from_hf, to_hf
from qkv.formats.families.bert import ROBERTA
from qkv.formats.hf_export import export
from qkv.generation.decode_step import can_step
from qkv.generation.decoding import generate
from qkv.model.mixture import Experts

logging.set_verbosity_error()
logging.disable_progress_bar()

N = 23  # tokens of a text
PAD = 1


@dataclass(frozen=True)
class Case:
    """A model of transformers."""

    make: type
    config: type
    settings: dict[str, Any]
    change: Callable[[Any], None] = lambda model: None
    positions: int | None = None  # what its position_ids begin with; None: it takes none
    expected: dict[str, Any] = field(default_factory=dict)  # that our config must then say


def untie(model):
    """T5 1.1 has a head of its own, which transformers 5 can't be told by a config."""
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
    model.config.scale_decoder_outputs = False


LLAMA = dict(
    vocab_size=37,
    hidden_size=24,
    intermediate_size=20,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    rms_norm_eps=1e-4,
    pad_token_id=PAD,
)
ROPE3 = dict(
    rope_type="llama3",
    rope_theta=500.0,
    factor=4.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
BERT = dict(
    vocab_size=43,
    hidden_size=21,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=29,
    max_position_embeddings=31,
    layer_norm_eps=1e-3,
    pad_token_id=PAD,
)
T5 = dict(
    vocab_size=41,
    d_model=22,
    d_kv=6,
    d_ff=19,
    num_layers=2,
    num_decoder_layers=3,
    num_heads=3,
    relative_attention_num_buckets=10,
    relative_attention_max_distance=14,
    layer_norm_epsilon=1e-4,
    pad_token_id=PAD,
    decoder_start_token_id=PAD,
)
BART = dict(
    vocab_size=39,
    d_model=21,
    encoder_layers=3,
    decoder_layers=2,
    encoder_attention_heads=3,
    decoder_attention_heads=3,
    encoder_ffn_dim=23,
    decoder_ffn_dim=23,
    max_position_embeddings=37,
    pad_token_id=PAD,
    bos_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=2,
)
MAMBA2 = dict(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=3,
    num_heads=6,
    head_dim=8,
    state_size=5,
    n_groups=3,
    conv_kernel=3,
    chunk_size=7,
    layer_norm_epsilon=1e-4,
    pad_token_id=PAD,
)
BAMBA = LLAMA | dict(
    num_hidden_layers=5,
    attn_layer_indices=[1, 4],
    head_dim=12,
    mamba_n_heads=6,
    mamba_d_head=8,
    mamba_n_groups=2,
    mamba_d_state=7,
    mamba_d_conv=3,
    mamba_chunk_size=5,
)
NEXT = LLAMA | dict(
    num_hidden_layers=5,
    layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention"],
    head_dim=12,
    linear_num_key_heads=3,
    linear_num_value_heads=6,
    linear_key_head_dim=5,
    linear_value_head_dim=7,
    linear_conv_kernel_dim=3,
    rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5),
    num_experts=0,
)
LONG = dict(
    rope_type="longrope",
    rope_theta=500.0,
    short_factor=[1.0, 1.1, 1.3],
    long_factor=[1.0, 2.0, 4.5],
    original_max_position_embeddings=16,
)
NEOX = dict(
    vocab_size=41,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=31,
    max_position_embeddings=64,
    layer_norm_eps=1e-3,
    rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5),
    pad_token_id=PAD,
)
OPT = dict(
    vocab_size=41,
    hidden_size=21,
    num_hidden_layers=3,
    num_attention_heads=3,
    ffn_dim=31,
    max_position_embeddings=35,
    pad_token_id=PAD,
)
GEMMA = LLAMA | dict(head_dim=10, query_pre_attn_scalar=7, sliding_window=5, hidden_activation="gelu_pytorch_tanh")
DEEPSEEK = LLAMA | dict(
    num_key_value_heads=4,
    moe_intermediate_size=11,
    n_routed_experts=8,
    num_experts_per_tok=3,
    n_shared_experts=2,
    first_k_dense_replace=1,
    routed_scaling_factor=1.7,
    kv_lora_rank=10,
    q_lora_rank=13,
    qk_nope_head_dim=6,
    qk_rope_head_dim=4,
    v_head_dim=5,
)
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16, mscale=0.8)
MOE = LLAMA | dict(num_experts_per_tok=3, num_local_experts=7)
CASES = {
    "llama 2": Case(
        hf.LlamaForCausalLM,
        hf.LlamaConfig,
        LLAMA | dict(num_attention_heads=6, num_key_value_heads=3, head_dim=10),
        positions=0,
        expected=dict(head_width=10, n_kv_head=3),
    ),
    "llama 3, its rotary scaling": Case(
        hf.LlamaForCausalLM, hf.LlamaConfig, LLAMA | dict(rope_parameters=ROPE3), positions=0
    ),
    "smollm, tied": Case(
        hf.LlamaForCausalLM,
        hf.LlamaConfig,
        LLAMA
        | dict(hidden_size=27, num_attention_heads=9, num_key_value_heads=3, head_dim=4, tie_word_embeddings=True),
        positions=0,
        expected=dict(tied=True, n_kv_head=3),
    ),
    "mistral, a window of 6": Case(
        hf.MistralForCausalLM,
        hf.MistralConfig,
        LLAMA | dict(sliding_window=6, head_dim=8),
        positions=0,
        expected=dict(window=5),
    ),
    "qwen2": Case(hf.Qwen2ForCausalLM, hf.Qwen2Config, LLAMA, positions=0, expected=dict(bias="qkv")),
    "qwen2, a window of 4": Case(
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config,
        LLAMA | dict(use_sliding_window=True, sliding_window=4, max_window_layers=0),
        positions=0,
        expected=dict(window=3),
    ),
    "qwen3": Case(
        hf.Qwen3ForCausalLM, hf.Qwen3Config, LLAMA | dict(head_dim=10), positions=0, expected=dict(qk_norm="rms")
    ),
    "llama, biases on attention only": Case(
        hf.LlamaForCausalLM,
        hf.LlamaConfig,
        LLAMA | dict(attention_bias=True),
        positions=0,
        expected=dict(bias="qkv out"),
    ),
    "llama, biases on the feed-forward only": Case(
        hf.LlamaForCausalLM, hf.LlamaConfig, LLAMA | dict(mlp_bias=True), positions=0, expected=dict(bias="forward")
    ),
    "llama, dynamic rotary scaling": Case(
        hf.LlamaForCausalLM,
        hf.LlamaConfig,
        LLAMA
        | dict(max_position_embeddings=16, rope_parameters=dict(rope_type="dynamic", rope_theta=500.0, factor=3.0)),
        positions=0,
        expected=dict(rotary_scaling=dict(kind="dynamic", factor=3.0, original=16)),
    ),
    "qwen2, a window in some layers": Case(
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config,
        LLAMA | dict(use_sliding_window=True, sliding_window=4, max_window_layers=1),
        positions=0,
        expected=dict(window=3, window_layers="full window×2"),
    ),
    "qwen3, a window in some layers, biases": Case(
        hf.Qwen3ForCausalLM,
        hf.Qwen3Config,
        LLAMA
        | dict(
            head_dim=10,
            attention_bias=True,
            use_sliding_window=True,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        positions=0,
        expected=dict(window=3, window_layers="window full window", bias="qkv out"),
    ),
    "gemma": Case(
        hf.GemmaForCausalLM,
        hf.GemmaConfig,
        LLAMA | dict(head_dim=10, hidden_act="gelu_pytorch_tanh"),
        positions=0,
        expected=dict(norm="rms-centred", embedding_scale=24**0.5, feed_forward="geglu-tanh"),
    ),
    "gemma 2": Case(
        hf.Gemma2ForCausalLM,
        hf.Gemma2Config,
        GEMMA | dict(attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
        positions=0,
        expected=dict(norm_place="both", softcap=2.0, output_softcap=3.0, window=4, window_layers="window full window"),
    ),
    "gemma 2, no caps, all layers see all, untied": Case(
        hf.Gemma2ForCausalLM,
        hf.Gemma2Config,
        GEMMA
        | dict(attn_logit_softcapping=None, final_logit_softcapping=None, query_pre_attn_scalar=10)
        | dict(layer_types=["full_attention"] * 3, tie_word_embeddings=False, attention_bias=True),
        positions=0,
        expected=dict(softcap=None, output_softcap=None, window=None, attention_scale=None, tied=False),
    ),
    "gemma 3": Case(
        hf.Gemma3ForCausalLM,
        hf.Gemma3TextConfig,
        GEMMA
        | dict(
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", rope_theta=900.0, factor=2.0),
                sliding_attention=dict(rope_type="default", rope_theta=50.0),
            ),
        ),
        positions=0,
        expected=dict(qk_norm="rms-centred", window_base=50.0, rotary_base=900.0, window_layers="window×2 full"),
    ),
    "phi-3": Case(
        hf.Phi3ForCausalLM, hf.Phi3Config, LLAMA | dict(sliding_window=6), positions=0, expected=dict(window=5)
    ),
    "phi-3, long": Case(
        hf.Phi3ForCausalLM,
        hf.Phi3Config,
        LLAMA | dict(rope_parameters=LONG, original_max_position_embeddings=16),
        positions=0,
        expected=dict(n_kv_head=2),
    ),
    "gpt-neox": Case(
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig,
        NEOX,
        positions=0,
        expected=dict(parallel=True, rotary_fraction=0.5, bias=True),
    ),
    "gpt-neox, one after the other, no bias in attention": Case(
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig,
        NEOX | dict(use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True),
        positions=0,
        expected=dict(parallel=False, bias="forward", tied=True),
    ),
    "opt": Case(hf.OPTForCausalLM, hf.OPTConfig, OPT, positions=0, expected=dict(tied=True, bias=True)),
    "opt as of 350 M, no bias": Case(
        hf.OPTForCausalLM,
        hf.OPTConfig,
        OPT | dict(do_layer_norm_before=False, word_embed_proj_dim=10, enable_bias=False),
        positions=0,
        expected=dict(norm_place="post", embedding_width=10, bias=False),
    ),
    "mixtral": Case(
        hf.MixtralForCausalLM,
        hf.MixtralConfig,
        MOE,
        positions=0,
        expected=dict(experts=Experts(7, 3), n_kv_head=2),
    ),
    "mixtral, two experts each, a window, tied": Case(
        hf.MixtralForCausalLM,
        hf.MixtralConfig,
        MOE | dict(num_experts_per_tok=2, sliding_window=5, head_dim=10, tie_word_embeddings=True),
        positions=0,
        expected=dict(experts=Experts(7, 2), window=4, tied=True),
    ),
    "qwen3-moe": Case(
        hf.Qwen3MoeForCausalLM,
        hf.Qwen3MoeConfig,
        MOE | dict(moe_intermediate_size=11, head_dim=10, norm_topk_prob=True),
        positions=0,
        expected=dict(experts=Experts(7, 3, hidden=11), qk_norm="rms"),
    ),
    "qwen3-moe, some layers dense, shares as they are": Case(
        hf.Qwen3MoeForCausalLM,
        hf.Qwen3MoeConfig,
        MOE | dict(moe_intermediate_size=11, mlp_only_layers=[1]),
        positions=0,
        expected=dict(experts=Experts(7, 3, hidden=11, layers="experts dense experts", normed=False)),
    ),
    "deepseek-v2": Case(
        hf.DeepseekV2ForCausalLM,
        hf.DeepseekV2Config,
        DEEPSEEK | dict(topk_method="group_limited_greedy", n_group=4, topk_group=2, attention_bias=True),
        positions=0,
        expected=dict(mixer="latent", rank=10, q_rank=13, value_width=5, head_width=None, bias="qkv out"),
    ),
    "deepseek-v2 lite, yarn": Case(
        hf.DeepseekV2ForCausalLM,
        hf.DeepseekV2Config,
        DEEPSEEK | dict(q_lora_rank=None, rope_parameters=YARN | dict(mscale_all_dim=0.5), v_head_dim=6),
        positions=0,
        expected=dict(q_rank=None, value_width=None),
    ),
    "deepseek-v3": Case(
        hf.DeepseekV3ForCausalLM,
        hf.DeepseekV3Config,
        DEEPSEEK | dict(n_group=4, topk_group=2, qk_nope_head_dim=7),
        positions=0,
        expected=dict(
            head_width=7,
            experts=Experts(8, 3, 11, 22, "dense experts×2", "sigmoid", True, 1.7, 4, 2, True),
        ),
    ),
    "deepseek-v3, yarn, no groups, shares as they are": Case(
        hf.DeepseekV3ForCausalLM,
        hf.DeepseekV3Config,
        DEEPSEEK | dict(n_group=1, topk_group=1, norm_topk_prob=False, rope_parameters=YARN | dict(mscale_all_dim=0.8)),
        positions=0,
    ),
    "mamba2": Case(hf.Mamba2ForCausalLM, hf.Mamba2Config, MAMBA2, expected=dict(n_state_group=3, feed_forward="none")),
    "mamba2, tied, thrice as wide": Case(
        hf.Mamba2ForCausalLM,
        hf.Mamba2Config,
        MAMBA2 | dict(num_heads=9, expand=3, tie_word_embeddings=True),
        expected=dict(n_state_head=9, tied=True),
    ),
    "mamba2 with biases": Case(
        hf.Mamba2ForCausalLM, hf.Mamba2Config, MAMBA2 | dict(use_bias=True), expected=dict(bias=True)
    ),
    "bamba": Case(
        hf.BambaForCausalLM,
        hf.BambaConfig,
        BAMBA,
        positions=0,
        expected=dict(mixer="mamba2 attention mamba2×2 attention", rotary_fraction=0.5, n_kv_head=2),
    ),
    "bamba with biases": Case(
        hf.BambaForCausalLM,
        hf.BambaConfig,
        BAMBA | dict(attention_bias=True, mlp_bias=True, mamba_proj_bias=True),
        positions=0,
        expected=dict(bias=True),
    ),
    "bamba, attention in every layer": Case(
        hf.BambaForCausalLM,
        hf.BambaConfig,
        BAMBA | dict(attn_layer_indices=[0, 1, 2, 3, 4]),
        positions=0,
        expected=dict(mixer="attention", n_state_head=None, state_width=None, rotary_fraction=0.5),
    ),
    "qwen3-next": Case(
        hf.Qwen3NextForCausalLM,
        hf.Qwen3NextConfig,
        NEXT,
        positions=0,
        expected=dict(
            mixer="delta×2 attention delta attention", attention_gate=True, n_state_group=3, rotary_fraction=0.5
        ),
    ),
    "qwen3-next, as many of all heads, tied": Case(
        hf.Qwen3NextForCausalLM,
        hf.Qwen3NextConfig,
        NEXT | dict(num_key_value_heads=4, linear_num_value_heads=3, layer_types=None, tie_word_embeddings=True),
        positions=0,
        expected=dict(mixer="delta×3 attention delta", tied=True, n_kv_head=None, n_state_group=None),
    ),
    "qwen3-next, attention in every layer": Case(
        hf.Qwen3NextForCausalLM,
        hf.Qwen3NextConfig,
        NEXT | dict(layer_types=["full_attention"] * 5),
        positions=0,
        expected=dict(mixer="attention", n_state_head=None, state_width=None, rotary_fraction=0.5),
    ),
    "gpt2": Case(
        hf.GPT2LMHeadModel,
        hf.GPT2Config,
        dict(vocab_size=41, n_positions=35, n_embd=21, n_layer=3, n_head=3, n_inner=31, layer_norm_epsilon=1e-3),
        positions=0,
    ),
    "gpt2, scaled by depth": Case(
        hf.GPT2LMHeadModel,
        hf.GPT2Config,
        dict(vocab_size=41, n_positions=35, n_embd=21, n_layer=3, n_head=3, scale_attn_by_inverse_layer_idx=True),
        positions=0,
        expected=dict(depth_scale=True, attention_scale=None),
    ),
    "gpt2, not scaled": Case(
        hf.GPT2LMHeadModel,
        hf.GPT2Config,
        dict(vocab_size=41, n_positions=35, n_embd=21, n_layer=3, n_head=3, scale_attn_weights=False),
        positions=0,
        expected=dict(depth_scale=False, attention_scale=1.0),
    ),
    "bert": Case(hf.BertForMaskedLM, hf.BertConfig, BERT, positions=0, expected=dict(head="mlm", pooler=False)),
    "bert as it was pretrained": Case(
        hf.BertForPreTraining, hf.BertConfig, BERT | dict(hidden_act="gelu_new"), positions=0
    ),
    "bert, the encoder alone": Case(
        hf.BertModel, hf.BertConfig, BERT, positions=0, expected=dict(head="none", pooler=True)
    ),
    "roberta": Case(
        hf.RobertaForMaskedLM, hf.RobertaConfig, BERT | dict(type_vocab_size=1), positions=2, expected=dict(context=29)
    ),
    "roberta, the encoder alone": Case(
        hf.RobertaModel,
        hf.RobertaConfig,
        BERT | dict(type_vocab_size=1),
        positions=2,
        expected=dict(head="none", pooler=True),
    ),
    "xlm-roberta": Case(hf.XLMRobertaForMaskedLM, hf.XLMRobertaConfig, BERT | dict(type_vocab_size=1), positions=2),
    "camembert": Case(hf.CamembertForMaskedLM, hf.CamembertConfig, BERT | dict(type_vocab_size=1), positions=2),
    "t5 1.0": Case(
        hf.T5ForConditionalGeneration,
        hf.T5Config,
        T5,
        expected=dict(tied=True, output_scale=22**-0.5, n_decoder_layer=3),
    ),
    "t5 1.1": Case(
        hf.T5ForConditionalGeneration,
        hf.T5Config,
        T5 | dict(feed_forward_proj="gated-gelu"),
        change=untie,
        expected=dict(tied=False, output_scale=1.0),
    ),
    "mt5": Case(
        hf.MT5ForConditionalGeneration, hf.MT5Config, T5, change=untie, expected=dict(tied=False, output_scale=1.0)
    ),
    "encoder of t5": Case(
        hf.T5EncoderModel,
        hf.T5Config,
        T5 | dict(feed_forward_proj="gated-gelu"),
        expected=dict(kind="encoder", head="none"),
    ),
    "bart, untied": Case(
        hf.BartForConditionalGeneration,
        hf.BartConfig,
        BART | dict(tie_word_embeddings=False),
        expected=dict(tied=False, source_vocab=39, vocab=39),
    ),
    "marian of two vocabularies": Case(
        hf.MarianMTModel,
        hf.MarianConfig,
        BART | dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=45, decoder_start_token_id=PAD),
        expected=dict(tied=True, source_vocab=39, vocab=45),
    ),
    "marian of two vocabularies, untied": Case(
        hf.MarianMTModel,
        hf.MarianConfig,
        BART
        | dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=45, decoder_start_token_id=PAD)
        | dict(tie_word_embeddings=False),
        expected=dict(tied=False, source_vocab=39, vocab=45),
    ),
    "bart": Case(hf.BartForConditionalGeneration, hf.BartConfig, BART, expected=dict(sides="own", head_bias=True)),
    "bart, scaled": Case(
        hf.BartForConditionalGeneration, hf.BartConfig, BART | dict(scale_embedding=True, encoder_layers=2)
    ),
    "mbart": Case(hf.MBartForConditionalGeneration, hf.MBartConfig, BART | dict(scale_embedding=True)),
    "marian": Case(
        hf.MarianMTModel,
        hf.MarianConfig,
        BART | dict(scale_embedding=True, activation_function="swish", decoder_start_token_id=PAD),
        expected=dict(sinusoid="halves", head_bias=True),
    ),
}
BARE = [name for name in CASES if name.endswith("alone")]
TRANSLATORS = [name for name in CASES if name.startswith(("t5", "mt5", "bart", "mbart", "marian"))]
ENCODERS = [name for name in CASES if "bert" in name or name.startswith("encoder of")]
STATEFUL = [name for name in CASES if name.startswith(("mamba2", "bamba", "qwen3-next"))]
# Where there is padding, their convolution reads the bias of what goes in; ours reads nothing.
BIASED = [name for name in CASES if name.endswith("with biases")]
# Their angles change when a text grows, and with them all that was kept of it: in pieces it is another text.
GROWING = ["llama, dynamic rotary scaling", "phi-3, long"]
DULL = ["llama, dynamic rotary scaling", "gemma 2", "opt as of 350 M, no bias"]  # they like to repeat a word
DECODERS = [name for name in CASES if name not in TRANSLATORS + ENCODERS + BIASED]


class Exact(TorchFunctionMode):
    """float32 is float64 inside: norms and the loops of mixers ask for float32, whatever the model is in."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def exact(value):
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(exact, args), **{name: exact(value) for name, value in (kwargs or {}).items()})


def rotary(table, x, position_ids, layer_type=None):
    """Its angles as its paper has them."""
    rope = table.config.rope_parameters if layer_type is None else table.config.rope_parameters[layer_type]
    width = 2 * len(table.inv_freq if layer_type is None else getattr(table, f"{layer_type}_inv_freq"))
    length, base, stretch = int(position_ids.max()) + 1, rope["rope_theta"], 1.0
    if rope["rope_type"] == "dynamic":
        longest = table.config.max_position_embeddings
        grown = rope["factor"] * max(length, longest) / longest - (rope["factor"] - 1)
        base *= grown ** (width / (width - 2))
    turns = base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    if rope["rope_type"] == "linear":
        turns = turns / rope["factor"]
    if rope["rope_type"] == "longrope":
        original = rope["original_max_position_embeddings"]
        turns = turns / torch.tensor(rope["long_factor" if length > original else "short_factor"], dtype=torch.float64)
        stretch = (1 + math.log(table.config.max_position_embeddings / original) / math.log(original)) ** 0.5
    if rope["rope_type"] == "llama3":
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        waves, original = 2 * torch.pi / turns, rope["original_max_position_embeddings"]
        smooth = (original / waves - low) / (high - low)
        blended = (1 - smooth) * turns / factor + smooth * turns
        blended = torch.where(waves > original / low, turns / factor, blended)
        turns = torch.where(waves < original / high, turns, blended)
    if rope["rope_type"] == "yarn":
        with Exact():
            turns, stretch = ROPE_INIT_FUNCTIONS["yarn"](table.config)
    angles = position_ids[..., None].double() * turns
    if "V2" in type(table).__name__:
        return torch.polar(torch.full_like(angles, stretch), angles)
    angles = torch.cat([angles, angles], -1)
    return angles.cos() * stretch, angles.sin() * stretch


@torch.no_grad()
def exactly(model):
    """The same model, in float64 throughout."""
    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith("RotaryEmbedding"):
            module.forward = partial(rotary, module)
        elif kind.endswith("TextScaledWordEmbedding"):  # of which float32 keeps seven digits
            module.embed_scale = torch.tensor(module.scalar_embed_scale, dtype=torch.float64)
        elif kind == "MarianSinusoidalPositionalEmbedding":
            n, width = module.weight.shape
            sines = (width + 1) // 2
            for column in range(width):
                power = 2 * (column % sines) / width
                angles = torch.arange(n, dtype=torch.float64) / 10000**power
                module.weight[:, column] = angles.sin() if column < sines else angles.cos()
    forward = model.forward

    @wraps(forward)  # `generate` reads its signature
    def exact(*args, **kwargs):
        with Exact():
            return forward(*args, **kwargs)

    model.forward = exact
    return model


@cache
def theirs(name, dtype=torch.float64, spread=1.0, words=0.5, exact=True):
    """The model as transformers makes it, with weights large enough that what it says depends on what it reads."""
    case, generator = CASES[name], torch.Generator().manual_seed(5)
    model = case.make(case.config(**case.settings)).double().eval()
    case.change(model)
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")  # the one that takes float64
    with torch.no_grad():
        for part, weight in [*model.named_parameters(), *model.named_buffers()]:
            if not weight.is_floating_point() or (isinstance(weight, nn.Parameter) and not weight.requires_grad):
                continue  # Marian's sines
            if "inv_freq" in part or "embed_scale" in part:
                continue
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            if (weight.ndim == 2 and weight.shape[0] > 1) or ".experts." in part:
                table = any(word in part for word in ("embed", "shared", "wte", "wpe", "relative_attention_bias"))
                weight.copy_(drawn * (words if table else spread * weight.shape[-1] ** -0.5))
            else:
                weight.copy_(0.3 * drawn + float("norm" in part.lower() or ".ln_" in part) * part.endswith("weight"))
    return exactly(model) if dtype == torch.float64 and exact else model.to(dtype)


def save_and_read(model, folder):
    """What lies in a folder that transformers wrote."""
    model.save_pretrained(folder)
    return json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")


def ours(name, folder, dtype=torch.float64, **how):
    """The same model, read from what transformers wrote."""
    config, state = from_hf(*save_and_read(theirs(name, dtype, **how), folder / "theirs"))
    for setting, value in CASES[name].expected.items():
        assert getattr(config, setting) == value, setting
    model = Transformer(config).to(dtype).eval()
    model.load_state_dict(state)
    return model


@pytest.fixture
def read(tmp_path):
    return lambda name, *args, **how: ours(name, tmp_path, *args, **how)


def texts(name, padding="none", seed=0):
    """Three texts of different lengths, which of their tokens are real, and where these stand."""
    vocab = CASES[name].settings["vocab_size"]
    ids = torch.randint(3, vocab, (3, N), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(3, N, dtype=torch.bool)
    if padding == "right":
        mask[1, -4:], mask[2, -16:] = False, False
    elif padding == "left":
        mask[1, :4], mask[2, :16] = False, False
    at = (mask.cumsum(1) - 1).clamp(min=0)
    return ids.where(mask, PAD), mask, at


def model_inputs(name, ids, mask, at):
    """The arguments of theirs."""
    case = CASES[name]
    inputs = dict(input_ids=ids, attention_mask=mask.long())
    return inputs if case.positions is None else inputs | dict(position_ids=at + case.positions)


def logits_of(output):
    """Logits, or states where there is no head."""
    for word in ("logits", "prediction_logits", "last_hidden_state"):
        if word in output:
            return output[word]
    raise AssertionError(list(output))


def close(ours, expected, atol=1e-10):
    assert expected.std() > 0.2 and expected.std(-2).mean() > 0.05  # else any two models would be equal
    assert_close(ours, expected, atol=atol, rtol=0)


@pytest.mark.parametrize("name", DECODERS + ENCODERS)
@torch.no_grad()
def test_the_same_logits(name, read):
    model, padded = read(name), texts(name, "left")[2]
    for padding in ("none", "right", "left"):
        ids, mask, at = texts(name, padding)
        ours = model(ids, mask=mask, at=at)
        close(ours[mask], logits_of(theirs(name)(**model_inputs(name, ids, mask, at)))[mask])
        if padding != "left":
            assert_close(model(ids, mask=mask)[mask], ours[mask], atol=1e-10, rtol=0)  # positions are counted by itself
    if model.config.position == "learned":  # and where they are not, it shows
        assert not torch.allclose(model(ids, mask=mask)[mask], model(ids, mask=mask, at=padded)[mask], atol=1e-3)


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_the_same_logits_of_an_encoder_decoder(name, read):
    model, target = read(name), texts(name, seed=1)[0]
    for padding in ("none", "right", "left"):
        source, mask, _ = texts(name, padding)
        expected = theirs(name)(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        close(model(target, source, source_mask=mask), expected)
    target, target_mask, _ = texts(name, "right", seed=1)
    inputs = dict(decoder_input_ids=target, decoder_attention_mask=target_mask.long())
    expected = theirs(name)(input_ids=source, attention_mask=mask.long(), **inputs).logits
    close(model(target, source, mask=target_mask, source_mask=mask)[target_mask], expected[target_mask])


@pytest.mark.parametrize(
    "how", [dict(exact=False, spread=0.5, words=0.2), dict(dtype=torch.float32)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_the_same_logits_as_they_come(name, how, read):
    model, their, atol = read(name, **how), theirs(name, **how), 1e-4 if "dtype" in how else 1e-6
    coarse = name in STATEFUL or name.startswith("gemma")  # the loops of mixers, the scale of word vectors
    atol = {1e-6: 3e-5, 1e-4: 5e-4}[atol] if coarse else atol
    ids, mask, at = texts(name)
    if name in TRANSLATORS:
        return close(model(ids.flip(1), ids), their(input_ids=ids, decoder_input_ids=ids.flip(1)).logits, atol)
    close(
        model(ids),
        logits_of(their(**model_inputs(name, ids, mask, at))).to(ids.device, how.get("dtype", torch.float64)),
        atol,
    )


def own(name):
    """The family whose file this was: some models could be written as another's, too."""
    return next(family for family in FAMILIES if CASES[name].config.model_type in family.types)


def published(model, tensors):
    """Tensors as files have them: transformers 5 keeps the experts of a layer in one."""
    if model.config.model_type == "gpt_neox":
        return {name.replace("lm_head", "embed_out"): tensor for name, tensor in tensors.items()}
    if not hasattr(model.config, "num_experts_per_tok"):
        return tensors
    mixtral = model.config.model_type == "mixtral"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    split = {}
    for name, tensor in tensors.items():
        prefix, _, leaf = name.rpartition(".")
        prefix = prefix.replace(".mlp", ".block_sparse_moe") if mixtral else prefix
        if not prefix.endswith(".experts"):
            split[f"{prefix}.{leaf}"] = tensor
            continue
        for i, expert in enumerate(tensor):
            parts = {down: expert} if leaf == "down_proj" else dict(zip((gate, up), expert.chunk(2), strict=True))
            split |= {f"{prefix}.{i}.{part}.weight": matrix for part, matrix in parts.items()}
    return split


@pytest.mark.parametrize("name", DECODERS + BIASED)
def test_the_same_gradients(name, read):
    """Ours under their names, by the table that names the weights."""
    model, their = read(name), theirs(name)
    ids, mask, at = texts(name, "none" if name in BIASED else "left")
    loss = torch.randn(len(ids), N, their.config.vocab_size, dtype=torch.float64) * mask[..., None]

    def gradients(parameters, logits):
        return dict(zip(parameters, torch.autograd.grad((logits * loss).sum(), parameters.values()), strict=True))

    learned = {key: weight for key, weight in model.named_parameters() if weight.requires_grad}
    ours = gradients(learned, model(ids, mask=mask, at=at))
    ours |= {key: weight for key, weight in model.named_parameters() if key not in learned}
    expected = gradients(dict(their.named_parameters()), logits_of(their(**model_inputs(name, ids, mask, at))))
    expected = published(their, expected)
    ours = to_hf(model.config, ours, own(name))[1]
    ours = {key: gradient for key, gradient in ours.items() if not key.endswith("correction_bias")}  # not learned so
    assert ours.keys() == expected.keys()
    for part, gradient in expected.items():
        assert gradient.any() or ".experts." in part, part  # which perhaps no token took
        # A bias of keys moves all scores of a row alike: its gradient is 0, but for rounding.
        atol = max(1e-9 * float(gradient.abs().max()), 1e-12)
        assert torch.allclose(ours[part], gradient, atol=atol, rtol=0), part


@pytest.mark.parametrize("name", BARE)
@torch.no_grad()
def test_the_pooler_is_theirs(name, read):
    model = read(name)
    ids, mask, at = texts(name, "right")
    expected = theirs(name)(**model_inputs(name, ids, mask, at)).pooler_output
    assert_close(model.pool(model(ids, mask=mask)), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["bert", "bert, the encoder alone"])
@torch.no_grad()
def test_token_types_are_theirs(name, read):
    ids, mask, at = texts(name)
    types = torch.randint(2, ids.shape)
    expected = logits_of(theirs(name)(**model_inputs(name, ids, mask, at), token_type_ids=types))
    close(read(name)(ids, types=types), expected)


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("name", [name for name in DECODERS if name not in GROWING])
@torch.no_grad()
def test_with_the_cache(name, padding, read):
    """Padded on the right, a cache is told how many tokens are real, and goes on from there; on the left, by the mask."""
    model = read(name)
    ids, mask, at = texts(name, padding)
    expected = logits_of(theirs(name)(**model_inputs(name, ids, mask, at)))
    kv, states = model.new_cache(3, N), []
    if padding == "right":
        counts, prompt_length = mask.sum(1), 6
        kv.expect(counts.clamp(max=prompt_length))
        first = model.decode(ids[:, :prompt_length], cache=kv)
        close(model.head(first), expected[:, :prompt_length])
        kv.expect((counts - prompt_length).clamp(min=0))
        ours = model.head(model.decode(ids[:, prompt_length:], cache=kv))
        return close(ours[mask[:, prompt_length:]], expected[:, prompt_length:][mask[:, prompt_length:]])
    for a, b in [(0, 9), (9, 12), *((i, i + 1) for i in range(12, N))]:
        states.append(model.decode(ids[:, a:b], mask=mask[:, :b], at=at[:, a:b], cache=kv))
    close(model.head(torch.cat(states, 1))[mask], expected[mask])


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_an_encoder_decoder_with_the_cache(name, read):
    model, target = read(name), texts(name, seed=1)[0]
    source, mask, _ = texts(name, "right")
    expected = theirs(name)(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
    memory, rule, states = model.encode(source, mask), masks.padding(mask), []
    kv = model.new_cache(3, N, memory=N)
    for a, b in [(0, 2), (2, 5), *((i, i + 1) for i in range(5, N))]:
        states.append(model.decode(target[:, a:b], memory, memory_mask=rule, cache=kv))
    close(model.head(torch.cat(states, 1)), expected)


WILD = dict(spread=3.0)  # so that a text doesn't go round in circles


def greedy(name, **inputs):
    """What transformers writes, 12 tokens of it."""
    model = theirs(name, **WILD)
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    return model.generate(**inputs, max_new_tokens=12, do_sample=False, num_beams=1, pad_token_id=PAD)[:, -12:].tolist()


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_same_greedy_words(name, cached, read):
    ids, mask, _ = texts(name, "none" if name in DULL else "left")  # theirs also counts padding as said before
    ids, mask = ids[:, 1:18], mask[:, 1:18]
    prompts = [row[real].tolist() for row, real in zip(ids, mask, strict=True)]
    # With its cache, theirs keeps keys that were turned by other angles; of these two only Phi-3 reads all again.
    penalty = dict(repetition_penalty=5.0) if name in DULL else {}
    expected = greedy(name, input_ids=ids, attention_mask=mask.long(), use_cache=name != GROWING[0], **penalty)
    assert len({tuple(row) for row in expected}) == 3 and len({token for row in expected for token in row}) > 5
    assert generate(read(name, **WILD), prompts, most=12, cache=cached, **penalty) == expected


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_same_greedy_words_of_an_encoder_decoder(name, cached, read):
    model, start = read(name, **WILD), CASES[name].settings["decoder_start_token_id"]
    source, mask, _ = texts(name, "right")
    inputs: dict[str, Any] = dict(input_ids=source, attention_mask=mask.long(), decoder_start_token_id=start)
    # A tied head likes to repeat the last word; and theirs has no cache for a decoder that is deeper than the encoder.
    expected = greedy(name, **inputs, repetition_penalty=5.0, use_cache=name.startswith(("bart", "mbart", "marian")))
    assert len({tuple(row) for row in expected}) == 3 and len({token for row in expected for token in row}) > 9
    rows = [row[real].tolist() for row, real in zip(source, mask, strict=True)]
    assert generate(model, [[start]] * 3, most=12, source=rows, cache=cached, repetition_penalty=5.0) == expected
    if model.config.position != "relative":  # those take the flat road, on which the sums run in another order
        assert can_step(model, model.new_cache(1, 3, memory=2))


def loaded(folder):
    config = json.loads((folder / "config.json").read_text())
    model, info = getattr(hf, config["architectures"][0]).from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")
    return exactly(model.eval())


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith("attention in every layer")])
@torch.no_grad()
def test_an_export_has_the_same_logits_in_transformers(name, read, tmp_path):
    model = read(name)
    export(model, None, tmp_path / "ours")
    again = loaded(tmp_path / "ours")
    ids, mask, at = texts(name, "right")
    if name in TRANSLATORS:
        inputs: dict[str, Any] = dict(input_ids=ids, attention_mask=mask.long(), decoder_input_ids=ids.flip(1))
        return close(again(**inputs).logits, theirs(name)(**inputs).logits)
    expected = theirs(name)(**model_inputs(name, ids, mask, at))
    ours = again(input_ids=ids, attention_mask=mask.long(), position_ids=at)  # a RoBERTa is written as the BERT it is
    close(logits_of(ours)[mask], logits_of(expected)[mask])
    if name in BARE:
        assert_close(ours.pooler_output, expected.pooler_output, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", [name for name in DECODERS if name.startswith(("phi", "opt"))])
@torch.no_grad()
def test_a_model_that_fits_two_layouts_can_be_written_in_its_own(name, read, tmp_path):
    """Left to itself, a Phi-3 is written as the LLaMA it amounts to, and most OPTs as GPT-2."""
    model = read(name)
    config, tensors = to_hf(model.config, dict(model.named_parameters()), own(name))
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(config | {"dtype": "float64", "pad_token_id": PAD}))
    save_file(tensors, tmp_path / "ours" / "model.safetensors", {"format": "pt"})
    ids, mask, at = texts(name, "right")
    expected = theirs(name)(**model_inputs(name, ids, mask, at))
    close(logits_of(loaded(tmp_path / "ours")(**model_inputs(name, ids, mask, at)))[mask], logits_of(expected)[mask])
    config, state = from_hf(config, tensors)
    assert config == model.config and all(torch.equal(state[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["roberta", "roberta, the encoder alone"])
@torch.no_grad()
def test_a_roberta_can_be_written_as_a_roberta(name, read, tmp_path):
    model = read(name)
    config, tensors = to_hf(model.config, dict(model.named_parameters()), ROBERTA)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text(json.dumps(config | {"dtype": "float64"}))
    save_file(tensors, tmp_path / "ours" / "model.safetensors", {"format": "pt"})
    ids, mask, _ = texts(name, "right")
    inputs = dict(input_ids=ids, attention_mask=mask.long())  # positions by itself, after the padding token's
    close(logits_of(loaded(tmp_path / "ours")(**inputs))[mask], logits_of(theirs(name)(**inputs))[mask])
    config, state = from_hf(config, tensors)
    assert config == model.config and all(torch.equal(state[key], value) for key, value in model.state_dict().items())


def test_names_of_a_bare_model_and_of_an_old_file_are_read(tmp_path):
    """OpenAI's GPT-2 is published without `transformer.`, BART without `model.`, Google's BERT with gamma and beta."""
    for name, prefix in (("gpt2", "transformer."), ("bart", "model."), ("smollm, tied", "model.")):
        config, tensors = save_and_read(theirs(name), tmp_path / name)
        bare = {key.removeprefix(prefix): value for key, value in tensors.items()}
        assert bare.keys() != tensors.keys()
        whole, again = from_hf(config, tensors)[1], from_hf(config, bare)[1]
        assert whole.keys() == again.keys() and all(torch.equal(whole[key], again[key]) for key in whole)
    config, tensors = save_and_read(theirs("bert"), tmp_path / "bert")
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for key, value in tensors.items()
    }
    assert old.keys() != tensors.keys()
    whole, again = from_hf(config, tensors)[1], from_hf(config, old)[1]
    assert all(torch.equal(whole[key], again[key]) for key in whole)
    config, tensors = save_and_read(theirs("bart"), tmp_path / "bart")
    del tensors["final_logits_bias"]
    assert from_hf(config, tensors)[0].head_bias is False


def test_the_head_of_a_t5_follows_its_tensors_not_its_config(tmp_path):
    """As published, 1.0 says nothing of its head and 1.1 says it isn't tied; transformers 5 writes that all are."""
    for name, scale, tied in (("t5 1.0", 22**-0.5, True), ("t5 1.1", 1.0, False)):
        hf_config, tensors = save_and_read(theirs(name), tmp_path / name)
        assert hf_config["tie_word_embeddings"] is True
        old = {
            key: value
            for key, value in hf_config.items()
            if key not in ("tie_word_embeddings", "scale_decoder_outputs")
        }
        old |= {} if tied else {"tie_word_embeddings": False}
        for config in (hf_config, old):
            read = from_hf(config, tensors)[0]
            assert (read.output_scale, read.tied) == (scale, tied)
    hf_config, tensors = save_and_read(theirs("t5 1.0"), tmp_path / "twice")
    repeated = {name: tensors["shared.weight"] for name in ("lm_head.weight", "encoder.embed_tokens.weight")}
    assert from_hf(hf_config, tensors | repeated)[0].tied is True


@pytest.mark.parametrize(
    ("name", "old", "fraction"),
    [
        ("bamba", dict(rope_theta=700.0, attn_rotary_emb=6, partial_rotary_factor=0.25), 0.5),  # theirs is deaf to that
        ("bamba", dict(rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=1.0)), 1.0),
        ("qwen3-next", dict(rope_theta=700.0, partial_rotary_factor=0.5), 0.5),
        ("qwen3-next", dict(rope_theta=700.0, head_dim=24), 0.25),
    ],
)
def test_the_rotary_fraction_is_read_as_transformers_reads_it(name, old, fraction, tmp_path):
    """Files of transformers 4 say it beside the angles, or nowhere."""
    config, tensors = save_and_read(theirs(name), tmp_path / "theirs")
    config = {key: value for key, value in config.items() if key != "rope_parameters"} | old
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(config))
    own = CASES[name].config.from_pretrained(tmp_path / "theirs").rope_parameters
    assert (own["partial_rotary_factor"], own["rope_theta"]) == (fraction, 700.0)
    mixer_tensors = {key: value for key, value in tensors.items() if "self_attn" not in key}
    read = next(family for family in FAMILIES if config["model_type"] in family.types).read(config, mixer_tensors)
    assert (read.rotary_fraction, read.rotary_base) == (fraction, 700.0)


def test_infinity_is_read_as_both_versions_write_it(tmp_path):
    config, tensors = save_and_read(theirs("mamba2"), tmp_path / "theirs")
    assert config["time_step_limit"] != [0.0, float("inf")]  # transformers 5 has a word of its own for it
    old = json.loads(json.dumps(config | dict(time_step_limit=[0.0, float("inf")])))
    assert from_hf(config, tensors)[0] == from_hf(old, tensors)[0]


STRANGE = {
    "olmo2": (hf.Olmo2Config, "llama"),
    "gemma3n_text": (hf.Gemma3nTextConfig, None),
    "falcon": (hf.FalconConfig, None),
    "bloom": (hf.BloomConfig, None),
    "electra": (hf.ElectraConfig, "roberta"),
    "pegasus": (hf.PegasusConfig, "bart"),
    "longt5": (hf.LongT5Config, "t5"),
    "olmoe": (hf.OlmoeConfig, "mixtral"),
    "falcon_h1": (hf.FalconH1Config, "bamba"),
    "qwen3_5_text": (hf.Qwen3_5TextConfig, "qwen3_next"),
}


@pytest.mark.parametrize("word", STRANGE)
def test_an_unknown_family_is_refused_with_the_nearest(word):
    config, near = STRANGE[word]
    with pytest.raises(
        ValueError, match=f"model_type '{word}' is not one of llama, mistral, .*marian, .*; "
    ) as refusal:
        from_hf(config().to_dict(), {})
    assert near is None or f"'{near}'" in str(refusal.value)
    assert word in refusal.value.say("zh") and "llama、" in refusal.value.say("zh")


UNREADABLE = {
    "padding that is not 1": ("roberta", dict(pad_token_id=0), "pad_token_id is 0 in this config.json"),
    "a RoBERTa with another activation": ("roberta", dict(hidden_act="relu"), "hidden_act is 'relu'"),
    "sides of different width": ("bart", dict(decoder_ffn_dim=24), "encoder_ffn_dim and decoder_ffn_dim differ"),
    "a strange gate": ("t5 1.1", dict(dense_act_fn="mish"), "activation 'mish' is not supported"),
    "a convolution without its bias": ("mamba2", dict(use_conv_bias=False), "use_conv_bias is False"),
    "steps that are kept within limits": ("bamba", dict(time_step_limit=[0.0, 0.1]), "time_step_limit is .*0.1"),
    "steps of Mamba-2 within limits": ("mamba2", dict(time_step_limit=[0.001, 0.1]), "time_step_limit is .*0.1"),
    "an activation of mixers": ("mamba2", dict(hidden_act="gelu"), "activation 'gelu' is not supported"),
    "some biases": ("bamba", dict(mlp_bias=True), "mlp_bias is True"),
    "a Bamba that never attends": ("bamba", dict(attn_layer_indices=[]), "no layer of this Bamba attends"),
    "a Bamba whose attention lies beyond its last layer": (
        "bamba",
        dict(attn_layer_indices=[99]),
        r"^attn_layer_indices is \[99\] in this config.json, but its layers are numbered from 0 to 4: no layer of this Bamba",
    ),
    "a Qwen3-Next that never attends": (
        "qwen3-next",
        dict(layer_types=["linear_attention"] * 5),
        "no layer of this Qwen3-Next attends",
    ),
    "experts": ("qwen3-next", dict(num_experts=8, mlp_only_layers=[1]), "4 of 5 layers .* a mixture of 8 experts"),
    "a new kind of layer": (
        "qwen3-next",
        dict(layer_types=["linear_attention", "sliding_attention"] * 2 + ["full_attention"]),
        "layer_types names 'sliding_attention'",
    ),
    "another gate": ("qwen3-next", dict(attn_output_gate=False), "attn_output_gate is False"),
    "a DeepSeek that turns a part": ("deepseek-v3", dict(partial_rotary_factor=0.5), "partial_rotary_factor is 0.5"),
    "a DeepSeek that turns another width": ("deepseek-v3", dict(head_dim=3), "head_dim is 3"),
    "experts of no group": ("deepseek-v3", dict(topk_group=0), "topk_group is 0"),
    "a GPT-NeoX with heads of another width": ("gpt-neox", dict(head_dim=6), "head_dim is 6"),
    "a Bamba that sees what comes": ("bamba", dict(is_causal=False), "is_causal is False"),
    "a Mamba-2 that sees what comes": ("mamba2", dict(is_causal=False), "is_causal is False"),
    "shared experts in the file alone": (
        "deepseek-v2",
        dict(n_shared_experts=0),
        r"there is also model\.layers\.1\.mlp\.shared_experts",
    ),
    "a norm by its own name": ("bamba", dict(rms_norm_eps=0.0), "^rms_norm_eps is 0.0"),
    "states by their own name": ("bamba", dict(mamba_d_state=0), "^mamba_d_state is 0"),
    "heads by their own name": ("qwen3-next", dict(linear_num_value_heads=0), "^linear_num_value_heads is 0"),
    "keys by their own name": ("qwen3-next", dict(num_key_value_heads=3), "n_kv_head = num_key_value_heads"),
    "layers by their own name": (
        "qwen3-next",
        dict(num_hidden_layers=6),
        "^layer_types has length 5 in this config.json, but num_hidden_layers is 6",
    ),
    "one word for all layers": (
        "qwen3-next",
        dict(layer_types=["full_attention"]),
        "^layer_types has length 1 in this config.json, but num_hidden_layers is 5",
    ),
    "states of another width": ("qwen3-next", dict(linear_key_head_dim=6), r"in_proj_qkvz.weight is \(114, 24\)"),
    "a layer more": (
        "llama 2",
        dict(num_hidden_layers=4),
        r"not a complete LLaMA: missing model\.layers\.3\..* and 4 more",
    ),
    "a layer less": ("t5 1.0", dict(num_decoder_layers=2), r"there is also decoder\.block\.2\."),
}


def test_gelu_of_the_first_gemma_is_the_approximation(tmp_path):
    """As Google published it; transformers reads it so, too."""
    config, tensors = save_and_read(theirs("gemma"), tmp_path / "theirs")
    assert from_hf(config | dict(hidden_act="gelu"), tensors)[0] == from_hf(config, tensors)[0]


def test_deepseek_has_two_shared_experts_by_default(tmp_path):
    config, tensors = save_and_read(theirs("deepseek-v2"), tmp_path / "theirs")
    del config["n_shared_experts"]
    assert from_hf(config, tensors)[0].experts.shared == 2 * config["moe_intermediate_size"]


@pytest.mark.parametrize("case", UNREADABLE)
def test_unsupported_settings_are_refused(case, tmp_path):
    name, changes, sentence = UNREADABLE[case]
    config, tensors = save_and_read(theirs(name), tmp_path / "theirs")
    with pytest.raises(ValueError, match=sentence) as refusal:
        from_hf(config | changes, tensors)
    assert refusal.value.say("zh") != str(refusal.value)
