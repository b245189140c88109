"""A folder of any make: ours where qkv knows the layout, transformers' own model where it doesn't."""

import pytest
import torch

from qkv import Transformer
from qkv.formats.open_model import open_any
from qkv.i18n import Problem
from qkv.text import Bytes

from .files import hf_model


def test_a_layout_that_qkv_knows_is_ours_and_another_is_theirs(tmp_path):
    from transformers import Olmo2Config, Olmo2ForCausalLM

    hf_model("llama", vocab_size=300).save_pretrained(tmp_path / "llama")
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0)
    theirs = Olmo2ForCausalLM(Olmo2Config(vocab_size=300, num_key_value_heads=2, **sizes)).eval()
    theirs.save_pretrained(tmp_path / "olmo2")
    for folder in (tmp_path / "llama", tmp_path / "olmo2"):
        Bytes.make().save(folder)
    assert isinstance(open_any(tmp_path / "llama")[0], Transformer)
    model, tokenizer = open_any(tmp_path / "olmo2")
    ids = torch.tensor([tokenizer("a cat").input_ids])
    with torch.no_grad():
        assert torch.equal(model(ids).last_hidden_state, theirs.model(ids).last_hidden_state)
    with pytest.raises(Problem, match="there is no model nowhere"):
        open_any("nowhere")
