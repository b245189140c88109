"""Low-rank adapters: nothing before the first step, merged = apart, and the same logits in peft, both ways."""

import json

import peft
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from qkv import Config, Transformer
from qkv.formats.adapters import CONFIG, WEIGHTS, LowRank, adapt, adapter_files, attach, merge
from qkv.formats.hf_export import export
from qkv.formats.model_files import load
from qkv.i18n import Problem

from .cases import make, words

PAD = 1
LLAMA = dict(
    vocab_size=37,
    hidden_size=24,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=PAD,
)
GPT2 = dict(vocab_size=37, n_embd=24, n_layer=2, n_head=3, n_positions=30)
BERT = dict(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=30,
    pad_token_id=PAD,
    num_labels=3,
)
BART = dict(
    vocab_size=37,
    d_model=24,
    encoder_layers=2,
    decoder_layers=1,
    encoder_attention_heads=3,
    decoder_attention_heads=3,
    encoder_ffn_dim=20,
    decoder_ffn_dim=20,
    max_position_embeddings=30,
)
THEIRS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA)),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2)),
    "bert": (hf.BertModel, hf.BertConfig(**BERT)),
    "bert with labels": (hf.BertForSequenceClassification, hf.BertConfig(**BERT)),
    "roberta with labels": (hf.RobertaForSequenceClassification, hf.RobertaConfig(**BERT)),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig(**BART)),
}


@pytest.fixture(params=THEIRS)
def pair(request, tmp_path):
    """A model of transformers and the folder it lies in, and how it is asked."""
    kind, config = THEIRS[request.param]
    torch.manual_seed(0)
    theirs = kind(config).eval()
    theirs.save_pretrained(tmp_path / "base")
    return theirs, tmp_path / "base"


def randomise(model):
    """Let every weight that learns be something."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def logits(ours):
    """Ours, of some ids; what transformers gives for the same."""
    ids = torch.randint(5, 37, (2, 9), generator=torch.Generator().manual_seed(1))
    more = [ids] if ours.config.kind == "encoder-decoder" else []
    return ours(ids, *more).detach()


def hf_logits(theirs):
    ids = torch.randint(5, 37, (2, 9), generator=torch.Generator().manual_seed(1))
    both = {"decoder_input_ids": ids} if theirs.config.is_encoder_decoder else {}
    with torch.no_grad():
        output = theirs(input_ids=ids, **both)
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def write(model, folder, base):
    folder.mkdir()
    model.base = str(base)
    for name, content in adapter_files(model).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("parts", ["attention", "all"])
def test_peft_computes_the_same_from_a_saved_adapter(pair, parts, tmp_path):
    theirs, base = pair
    ours, _ = load(base)
    before = logits(ours)
    assert torch.equal(logits(adapt(ours, 3, parts=parts).eval()), before), "no step changes no logit"
    randomise(ours)
    unmerged = logits(ours)
    folder = write(ours, tmp_path / "adapter", base)
    theirs = peft.PeftModel.from_pretrained(theirs, folder).eval()
    assert not torch.allclose(unmerged, before, atol=1e-2)
    assert_close(hf_logits(theirs), unmerged, atol=2e-5, rtol=0)
    again, _ = load(folder)
    assert_close(logits(again), unmerged, atol=2e-5, rtol=0)
    assert not any(isinstance(module, LowRank) for module in again.modules())
    assert_close(logits(merge(ours)), unmerged, atol=2e-5, rtol=0)


@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_of_peft_computes_the_same(pair, rslora, tmp_path):
    theirs, base = pair
    kind = {"SequenceClassification": "SEQ_CLS", "CausalLM": "CAUSAL_LM", "LMHead": "CAUSAL_LM", "Generation": "SEQ_2_SEQ_LM"}  # fmt: skip
    task = next((word for ending, word in kind.items() if ending in type(theirs).__name__), None)
    named = [name for name, _ in theirs.named_modules()]
    targets = [part for part in ("q_proj", "v_proj", "c_attn", "query", "output.dense", "c_fc") if any(name.endswith(part) for name in named)]  # fmt: skip
    ranks = {"rank_pattern": {targets[0]: 5}, "alpha_pattern": {targets[0]: 3}}
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, task_type=task, use_rslora=rslora, **ranks)
    learned = randomise(peft.get_peft_model(theirs, config).eval())
    learned.save_pretrained(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / CONFIG).read_text())
    (tmp_path / "adapter" / CONFIG).write_text(json.dumps(settings | {"base_model_name_or_path": str(base)}))
    ours, _ = load(tmp_path / "adapter")
    assert_close(logits(ours), hf_logits(learned), atol=2e-5, rtol=0)
    export(ours, None, tmp_path / "merged")
    kind = type(learned.get_base_model())
    kind = hf.AutoModelForSequenceClassification if "Roberta" in kind.__name__ else kind  # written as the BERT it is
    assert_close(hf_logits(kind.from_pretrained(tmp_path / "merged").eval()), hf_logits(learned), atol=2e-5, rtol=0)


def test_a_model_of_no_published_layout_keeps_its_own_names(tmp_path):
    model = randomise(adapt(make("rotary, MQA, layer qk norm", dtype=torch.float32), 2))
    ids = words(2, 9)
    unmerged, base = model(ids).detach(), make("rotary, MQA, layer qk norm", dtype=torch.float32)
    folder = write(model, tmp_path / "adapter", "nowhere")
    assert_close(attach(base, folder)(ids), unmerged)
    theirs = peft.PeftModel.from_pretrained(make("rotary, MQA, layer qk norm", dtype=torch.float32), folder)
    assert_close(theirs(ids), unmerged, atol=1e-5, rtol=0)


def test_only_the_adapter_learns_and_the_base_gets_no_gradient():
    model = adapt(make(dtype=torch.float32), 2)
    model(words(2, 9)).sum().backward()
    with_gradient = {name.rpartition(".")[2] for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == {"a", "b"}
    assert all(p.grad is None for name, p in model.named_parameters() if not name.endswith((".a", ".b")))


@pytest.mark.parametrize("other", ["another width", "fewer layers", "another layout"])
def test_an_adapter_for_another_model_is_refused(other, tmp_path):
    sizes = {"another width": dict(width=32), "fewer layers": dict(n_layer=1), "another layout": dict(norm="layer", bias=True, position="learned", feed_forward="gelu-tanh")}  # fmt: skip
    plain = dict(vocab=37, width=24, n_layer=2, n_head=4)
    folder = write(adapt(Transformer(Config(**plain)), 2), tmp_path / "adapter", "its-own")
    with pytest.raises(Problem, match=r"is an adapter for another model: .*made for its-own"):
        attach(Transformer(Config(**plain | sizes[other])), folder)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha_pattern": {"^model.*q_proj": 9}},
        {"rank_pattern": {"(q|k)_proj": 2}},
        {"peft_type": "IA3"},
        {"use_dora": True},
        {"bias": "all"},
        {"lora_alpha": "much"},
    ],
    ids=str,
)
def test_what_is_not_plain_lora_is_refused_by_name(change, tmp_path):
    config = Config(vocab=37, width=24, n_layer=1, n_head=4)
    folder = write(adapt(Transformer(config), 2), tmp_path / "adapter", "base")
    settings = json.loads((folder / CONFIG).read_text()) | change
    (folder / CONFIG).write_text(json.dumps(settings))
    with pytest.raises(Problem, match=next(iter(change))):
        attach(Transformer(config), folder)


def test_a_damaged_file_or_a_missing_base_is_refused(tmp_path):
    config = Config(vocab=37, width=24, n_layer=1, n_head=4)
    folder = write(adapt(Transformer(config), 2), tmp_path / "adapter", "nobody/has-it")
    with pytest.raises(Problem, match=r"base.*nobody/has-it"):
        load(folder)
    (folder / WEIGHTS).write_bytes(b"\1" * 40)
    with pytest.raises(Problem, match="not a readable safetensors file"):
        attach(Transformer(config), folder)


FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
BROKEN = {
    "a rank of 0": ({FIRST.format("A"): torch.zeros(0, 24), FIRST.format("B"): torch.zeros(24, 0)}, r"is \(0, 24\)"),
    "a number": ({FIRST.format("A"): torch.tensor(1.0)}, r"is \(\), \(2, 24\) is expected"),
    "a vector": ({FIRST.format("B"): torch.zeros(24)}, r"is \(24,\), \(24, 2\) is expected"),
    "no B": ({FIRST.format("B"): None}, r"lora_B.weight is \(0, 0\)"),
    "whole numbers": ({FIRST.format("A"): torch.zeros(2, 24, dtype=torch.int64)}, "holds int64"),
    "truth values": ({FIRST.format("B"): torch.zeros(24, 2, dtype=torch.bool)}, "holds bool"),
    "NaN": ({FIRST.format("A"): torch.full((2, 24), torch.nan)}, "not finite"),
    "a norm": ({FIRST.format("A").replace("self_attn.q_proj", "input_layernorm"): torch.zeros(2, 24)}, "not a linear"),
    "an embedding": (
        {"base_model.model.model.embed_tokens.lora_A.weight": torch.zeros(2, 24)},
        "embed_tokens.weight, which is not a linear layer",
    ),
    "an embedding as peft has it": (
        {"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(2, 37)},
        "lora_embedding_A, which this model lacks",
    ),
    "a whole norm of another shape": ({"base_model.model.model.norm.weight": torch.tensor(1.0)}, r"is \(\), \(24,\)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_tensors_that_are_no_adapter_are_refused(name, tmp_path):
    config = Config(vocab=37, width=24, n_layer=1, n_head=4)
    folder = write(adapt(Transformer(config), 2), tmp_path / "adapter", "base")
    changes, sentence = BROKEN[name]
    tensors = {key: value for key, value in (load_file(folder / WEIGHTS) | changes).items() if value is not None}
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(Problem, match=sentence):
        attach(Transformer(config), folder)


@pytest.mark.parametrize(
    "value", ["0", "-1", "true", "null", '"2"', "2.5", "NaN", "1e999", "1" + "0" * 400, "[2]", "{}"]
)
@pytest.mark.parametrize("name", ["r", "lora_alpha", "rank_pattern", "alpha_pattern"])
def test_numbers_that_no_adapter_has_are_refused(name, value, tmp_path):
    config = Config(vocab=37, width=24, n_layer=1, n_head=4)
    folder = write(adapt(Transformer(config), 2), tmp_path / "adapter", "base")
    settings = json.loads((folder / CONFIG).read_text())
    table = {name: json.loads(value)} if "pattern" not in name else {name: {"q_proj": json.loads(value)}}
    (folder / CONFIG).write_text(json.dumps(settings | table))
    if name.endswith(("alpha", "alpha_pattern")) and value in ("0", "-1", "2.5"):
        attach(Transformer(config), folder)
    else:
        with pytest.raises(Problem, match=r"r is |lora_alpha is "):
            attach(Transformer(config), folder)


def test_an_adapter_that_is_its_own_base_is_refused(tmp_path):
    model = adapt(Transformer(Config(vocab=37, width=24, n_layer=1, n_head=4)), 2)
    for name, base in (("a", "b"), ("b", "a"), ("c", "c"), ("long", "x" * 1_000_000), ("null", "x\0y")):
        write(model, tmp_path / name, str(tmp_path / base) if len(base) == 1 else base)
    for name in "abc":
        with pytest.raises(Problem, match="is its own base"):
            load(tmp_path / name)
    for name in ("long", "null"):
        with pytest.raises(Problem, match="is an adapter, and its base can't be opened"):
            load(tmp_path / name)


def test_a_model_without_attention_cannot_be_adapted():
    with pytest.raises(Problem, match="no projections"):
        adapt(Transformer(Config(vocab=37, width=24, n_layer=1, n_head=4, mixer="mamba2", feed_forward="none")), 2)
