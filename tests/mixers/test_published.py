"""Folders as they are published, by the doors that people use: load, generate, see, describe; and models of transformers."""

import json

import pytest
import torch
import transformers as hf

import qkv
from qkv import Config, Transformer
from qkv.cli import main
from qkv.formats.hf_export import export
from qkv.i18n import Problem
from qkv.model.describe import state_bytes
from qkv.model.presets import PRESETS
from qkv.text import train_tokenizer

TEXT = "the cat sat on the mat. the dog sat on the log."
FAMILIES = ["tiny-mamba2", "tiny-bamba", "tiny-qwen3-next"]
SMALL = dict(width=24, n_head=4, head_width=8, state_width=5, n_state_head=6, state_head_width=8)
LAYERS = {"tiny-mamba2": None, "tiny-bamba": ("3", "0, 1, 2"), "tiny-qwen3-next": ("3", "0, 1, 2")}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("characters", [TEXT], special=["pad", "bos", "eos"])


@pytest.fixture
def folder(request, tokenizer, tmp_path):
    """A small model of a preset's kind, its weights large enough to say something, written as transformers would."""
    torch.manual_seed(3)
    model = Transformer(PRESETS[request.param].replace(vocab=tokenizer.vocab, init="normal", **SMALL)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(9)
    export(model, tokenizer, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("folder", FAMILIES, indirect=True)
def test_loaded_models_generate_as_transformers_does(folder, tokenizer):
    """Greedily, from prompts of different lengths, with a cache and without."""
    model, reader = qkv.load(folder)
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    prompts = [reader.encode(text) for text in ("the cat", "a", "on the m")]
    longest = max(map(len, prompts))
    ids = torch.tensor([[tokenizer.pad] * (longest - len(row)) + row for row in prompts])
    real = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    theirs.generation_config.eos_token_id = None
    options = dict(max_new_tokens=9, do_sample=False, pad_token_id=tokenizer.pad)
    expected = theirs.generate(input_ids=ids, attention_mask=real, **options)[:, -9:].tolist()
    assert len({tuple(row) for row in expected}) == 3
    assert model.generate(prompts, most=9) == model.generate(prompts, most=9, cache=False) == expected


@pytest.mark.parametrize("folder", FAMILIES, indirect=True)
def test_the_commands_take_it(folder, request, capsys):
    """The right layer numbers in hybrids; what the state takes is what a cache of it holds."""
    model, _ = qkv.load(folder)
    assert main(["generate", "the cat", "--model", str(folder), "--most", "5", "--lang", "en"]) == 0
    assert capsys.readouterr().out.startswith("the cat")
    hybrid = LAYERS[request.node.callspec.params["folder"]]
    assert main(["see", "the cat", "--model", str(folder), "--part", "mixers", "--lang", "en"]) == 0
    printed = capsys.readouterr().out
    assert "rows don't add up to 1" in printed
    assert hybrid is None or f"These are layers {hybrid[1]}; --part decoder shows {hybrid[0]}." in printed
    assert main(["see", "the cat", "--model", str(folder), "--lang", "en"]) == 0
    printed = capsys.readouterr().out
    assert ("rows don't add up to 1" in printed) == (hybrid is None)
    assert hybrid is None or f"These are layers {hybrid[0]}; --part mixers shows {hybrid[1]}." in printed
    if hybrid is not None:
        assert main(["see", "the cat", "--model", str(folder), "--layer", "0", "--lang", "en"]) == 2
        assert "layer 0 has no attention in this trace" in capsys.readouterr().err
    numbers = sum(cache.numbers for cache in model.new_cache(1, 3).layers if hasattr(cache, "state"))
    assert numbers and state_bytes(model) == 4 * numbers


@pytest.fixture
def experts(tokenizer, tmp_path):
    """A Qwen3-Next as the large ones are."""
    torch.manual_seed(4)
    sizes = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=8)
    heads = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=8, partial_rotary_factor=0.5)
    state = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5, linear_value_head_dim=6)
    config = hf.Qwen3NextConfig(
        vocab_size=tokenizer.vocab, hidden_size=24, intermediate_size=20, num_hidden_layers=4, **sizes, **heads, **state
    )
    hf.Qwen3NextForCausalLM(config).save_pretrained(tmp_path / "experts")
    tokenizer.save(tmp_path / "experts")
    return tmp_path / "experts"


def test_experts_are_refused_by_name_and_traced_through_transformers(experts, capsys):
    with pytest.raises(Problem, match="4 of 4 layers of this Qwen3-Next have a mixture of 4 experts"):
        qkv.load(experts)
    assert main(["see", "the cat", "--model", str(experts), "--part", "mixers", "--lang", "en"]) == 0
    assert "These are layers 0, 1, 2; --part decoder shows 3." in capsys.readouterr().out
    for auto in (hf.AutoModel, hf.AutoModelForCausalLM):  # with its head and without
        trace = qkv.trace(auto.from_pretrained(experts), [3, 1, 4, 1, 5])
        assert (trace.layers("decoder"), trace.layers("mixers")) == ((3,), (0, 1, 2))


@pytest.mark.parametrize("folder", ["tiny-qwen3-next"], indirect=True)
def test_a_layout_that_changed_is_refused_by_name(folder, capsys):
    config = json.loads((folder / "config.json").read_text())
    for changes, message in (
        (dict(layer_types=["linear_attention", "quantum"] * 2), "layer_types names 'quantum'"),
        (dict(model_type="qwen4_next"), "did you mean 'qwen3_next'?"),
        (dict(linear_key_head_dim=50_000), "linear_key_head_dim is 50000, but its weights allow"),
        (dict(linear_num_key_heads=5), "model"),
    ):
        (folder / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(Problem) as caught:
            qkv.load(folder)
        assert message in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_word_that_is_half_remembered_finds_its_preset(capsys):
    assert main(["train", "lm", "--text", "x.txt", "--preset", "tiny-mamba", "--lang", "en"]) == 2
    assert "tiny-mamba2" in capsys.readouterr().err
    assert Config.from_dict(PRESETS["tiny-bamba"].to_dict()) == PRESETS["tiny-bamba"]
