"""`qkv models why`: everything that stands in a folder's way is said at once, and what is known of it; 0 if it loads."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv import Config, Transformer
from qkv.cli import main
from qkv.formats.families import to_hf
from qkv.formats.hf_export import export
from qkv.formats.load_report import inspect_model

from .files import hf_model, write_gguf

CONFIG = Config(vocab=37, width=24, n_layer=2, n_head=4, n_kv_head=2, hidden=20, context=29)


@pytest.fixture
def folder(tmp_path):
    export(Transformer(CONFIG), None, tmp_path / "model")
    return tmp_path / "model"


def change(folder, **settings):
    file = folder / "config.json"
    config = json.loads(file.read_text()) | settings
    file.write_text(json.dumps({name: value for name, value in config.items() if value != "gone"}))


def run_why(folder, capsys, lang="en"):
    capsys.readouterr()
    code = main(["models", "why", str(folder), "--lang", lang])
    return code, capsys.readouterr().out


def test_a_loadable_folder_is_described(folder, capsys):
    report = inspect_model(folder)
    assert report.loads and report.config == CONFIG.replace(init="normal")
    assert "n_kv_head=2" in report.settings() and not any("dropout" in setting for setting in report.settings())
    code, out = run_why(folder, capsys)
    assert code == 0 and "'llama', a layout of the family LLaMA" in out and "Nothing stands in the way" in out
    assert "decoder, 2 layers, width 24, 4:2 heads, vocabulary 37" in out and "n_kv_head=2" in out
    code, out = run_why(folder, capsys, "zh")
    assert code == 0 and "属于 LLaMA 家族" in out and "没有障碍" in out


def test_all_obstacles_are_reported_at_once(folder, capsys):
    """Settings by name, with their values and what is read instead."""
    change(folder, hidden_act="mish", is_causal=False, rope_parameters=dict(rope_type="odd"), rope_scaling=None)
    change(folder, quantization_config={"quant_method": "fp8"})
    code, out = run_why(folder, capsys)
    assert code == 1
    for sentence in (
        "the activation 'mish' is not supported: qkv reads silu, gelu",
        "is_causal is False in this config.json: qkv reads it with True only",
        "rotary scaling 'odd' is not supported: qkv reads linear",
        "is quantised (fp8)",
    ):
        assert sentence in out
    assert out.count("\n  - ") == 4 and "width 24" in out  # and the rest is known all the same
    code, out = run_why(folder, capsys, "zh")
    assert code == 1 and "障碍在于" in out and "is_causal" in out


def test_an_unknown_family_lists_the_supported(folder, capsys):
    change(folder, model_type="falcon")
    code, out = run_why(folder, capsys)
    assert code == 1 and "model_type 'falcon' is not one of llama, mistral" in out and "deepseek_v3" in out


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder, tensors: tensors.pop("model.norm.weight"), "missing model.norm.weight"),
        (lambda folder, tensors: tensors.update({"strange.weight": torch.zeros(2)}), "there is also strange.weight"),
        (
            lambda folder, tensors: tensors.update({"model.norm.weight": torch.ones(25)}),
            r"1 tensors have other shapes than its config promises: decoder_norm.weight: (25,) ≠ (24,)",
        ),
        (lambda folder, tensors: change(folder, hidden_size="gone"), "hidden_size"),
        (lambda folder, tensors: change(folder, hidden_size=10**9), "hidden_size is 1000000000, but its weights allow"),
    ],
)
def test_mismatched_weights_are_reported(folder, capsys, damage, sentence):
    tensors = load_file(folder / "model.safetensors")
    damage(folder, tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    code, out = run_why(folder, capsys)
    assert code == 1 and sentence in out


def test_pickled_weights_and_no_model_at_all(folder, capsys, tmp_path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    code, out = run_why(folder, capsys)
    assert code == 1 and "a pickled file" in out and "width 24" in out
    (tmp_path / "empty").mkdir()
    code, out = run_why(tmp_path / "empty", capsys)
    assert code == 1 and "a folder" in out
    assert main(["models", "why", str(tmp_path / "nowhere")]) == 2
    assert main(["models", "why"]) == 2


@pytest.mark.parametrize(("lang", "text"), [("en", "general.architecture 'deepseek2'"), ("zh", "deepseek2")])
def test_a_gguf_file_is_called_what_it_calls_itself(lang, text, capsys, tmp_path):
    file = write_gguf(hf_model("deepseek_v2"), tmp_path / "m.gguf")
    code, out = run_why(file, capsys, lang)
    assert code == 0 and text in out and "mixer" in out
    spoilt = write_gguf(hf_model("deepseek_v2"), tmp_path / "n.gguf", extra=lambda w: w.add_attn_temperature_scale(0.1))
    code, out = run_why(spoilt, capsys, lang)
    assert code == 1 and text in out and "attention.temperature_scale" in out
    (tmp_path / "o.gguf").write_bytes(b"GGUF\3")
    code, out = run_why(tmp_path / "o.gguf", capsys, lang)
    assert code == 1 and "GGUF" in out


HYBRIDS = {"bamba": "mamba2 attention", "qwen3_next": "delta attention"}


@pytest.fixture
def handwritten(tmp_path, request):
    """A folder with a config.json and nothing else, of a model of two layers."""
    gated = dict(norm="rms-centred", qk_norm="rms-centred", attention_gate=True) if request.param != "bamba" else {}
    config = CONFIG.replace(mixer=HYBRIDS[request.param], rotary_fraction=0.5, head_width=8, **gated)
    config, _state = to_hf(config, dict(Transformer(config).named_parameters()))
    assert config["model_type"] == request.param
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("handwritten", ["bamba"], indirect=True)
def test_attention_beyond_the_last_layer_is_refused_by_the_name_in_config_json(handwritten, capsys):
    change(handwritten, attn_layer_indices=[99])
    code, out = run_why(handwritten, capsys)
    sentence = "attn_layer_indices is [99] in this config.json, but its layers are numbered from 0 to 1: no layer"
    assert code == 1 and sentence in out and "n_kv_head" not in out and "position" not in out
    code, out = run_why(handwritten, capsys, "zh")
    assert code == 1 and "attn_layer_indices 是 [99]" in out


@pytest.mark.parametrize(
    ("handwritten", "changes"),
    [("bamba", dict(attn_layer_indices=[0, 1])), ("qwen3_next", dict(layer_types=["full_attention"] * 2))],
    indirect=["handwritten"],
)
def test_attention_in_every_layer_is_read(handwritten, changes):
    """All that is in the way is that there are no weights."""
    change(handwritten, **changes)
    report = inspect_model(handwritten)
    assert report.config.mixer == "attention" and report.config.n_state_head is None
    assert len(report.obstacles) == 1 and "weights" in str(report.obstacles[0])


@pytest.mark.parametrize("handwritten", HYBRIDS, indirect=True)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(num_key_value_heads=3), "n_kv_head = num_key_value_heads"),
        (dict(vocab_size=0), "vocab_size is 0"),
        (dict(is_causal=False), "is_causal is False in this config.json"),
        (dict(hidden_size="gone"), "lacks 'hidden_size', which a"),
    ],
)
def test_without_weights_a_refusal_names_what_config_json_has(handwritten, changes, sentence, capsys):
    change(handwritten, **changes)
    assert sentence in run_why(handwritten, capsys)[1]


@pytest.mark.parametrize("handwritten", ["qwen3_next"], indirect=True)
def test_a_missing_number_of_experts_is_reported_as_the_default(handwritten, capsys):
    change(handwritten, num_experts="gone")
    assert "lacks num_experts, which is 512 by default in transformers: 2 of 2" in run_why(handwritten, capsys)[1]
    change(handwritten, num_experts=8)
    out = run_why(handwritten, capsys)[1]
    assert "2 of 2 layers of this Qwen3-Next have a mixture of 8 experts" in out and "default" not in out
