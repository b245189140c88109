"""Every function that reads a text warns if it is longer than the model's context, and computes it if possible."""

import json
import warnings

import pytest
import torch
import transformers

from qkv import Config, Transformer
from qkv.draw.page import html
from qkv.evaluation.text_metrics import score_text
from qkv.generation.decoding import generate, masked_ids, translate_ids
from qkv.i18n import Notice
from qkv.text.tokenizer import Characters
from qkv.tracing.record.recorder import trace
from qkv.tracing.study.ablation import importance
from qkv.tracing.study.effects import without
from qkv.tracing.views.traces import Trace

CONTEXT = 12
LETTERS = Characters.make(["abcdefghij"], special=("pad", "bos", "eos", "mask", "unk"))


def native_model(**choices):
    torch.manual_seed(0)
    return Transformer(Config(vocab=LETTERS.vocab, width=16, n_layer=1, n_head=2, context=CONTEXT, **choices)).eval()


def hf_model():
    torch.manual_seed(0)
    sizes = dict(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, max_position_embeddings=CONTEXT)).eval()


# Each computes n tokens.
READERS = {
    "trace": lambda n: trace(native_model(position="rotary"), [1] * n),
    "trace, theirs": lambda n: trace(hf_model(), [1] * n),
    "trace, an encoder-decoder": lambda n: trace(
        native_model(kind="encoder-decoder", position="sinusoidal"), [1] * n, target=[[1, 2]]
    ),
    "importance": lambda n: importance(native_model(position="alibi"), [[1] * n], LETTERS),
    "importance, theirs": lambda n: importance(hf_model(), [[1] * n], None),
    "without": lambda n: without(native_model(position="rotary"), LETTERS, "a" * n, ["0.1"]),
    "fill": lambda n: masked_ids(native_model(kind="encoder", position="rotary"), LETTERS, "a" * (n - 3) + "[MASK]"),
    "translate": lambda n: translate_ids(
        native_model(kind="encoder-decoder", position="rotary"), LETTERS, [[1] * (n - 1) + [LETTERS.eos]], most=3
    ),
    "eval": lambda n: score_text(native_model(position="rotary"), LETTERS, "a" * (n + 1), context=n),
    "generate": lambda n: generate(native_model(position="rotary"), [[1] * (n - 4)], most=5),
}


@pytest.mark.parametrize("reader", READERS)
def test_texts_beyond_the_context_warn(reader):
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        READERS[reader](CONTEXT)
    with pytest.warns(Notice) as warned:
        READERS[reader](CONTEXT + 1)
    sentences = {(str(each.message), each.message.say("zh")) for each in warned if isinstance(each.message, Notice)}
    ((english, chinese),) = sentences
    assert f"context of {CONTEXT}" in english or f"{CONTEXT + 1} tokens and the model's context is {CONTEXT}" in english
    assert str(CONTEXT) in chinese and "上下文" in chinese


def test_traces_and_pages_store_the_context(tmp_path):
    for n in (CONTEXT, CONTEXT + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            recorded = trace(native_model(position="rotary"), [1] * n)
        recorded.save(tmp_path / "t.safetensors")
        expected = CONTEXT if n > CONTEXT else None
        for each in (recorded, Trace.load(tmp_path / "t.safetensors")):
            assert each.more.get("context") == expected
            header = html(each).partition('id="qkv-header">')[2].partition("</script>")[0]
            assert json.loads(header)["context"] == expected
