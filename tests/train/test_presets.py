"""Any preset with any one other choice: it trains, or a choice of the preset gives way and that is said, or the refusal says
what to do."""

import re

import pytest
import torch

from qkv import Config, Transformer
from qkv.cli import main
from qkv.model.config import CHOICES
from qkv.model.presets import PRESETS
from qkv.train import settings
from qkv.train.optim import make_optimizers
from qkv.train.settings import TASKS, resolve_preset
from qkv.train.tasks import summed_loss
from tests.selection import slow_except

SMALL = dict(n_layer=1, width=16, n_head=2, context=12, batch=2)
SINGLE = [(name, word) for name, words in {**CHOICES, **settings.CHOICES}.items() for word in words]
SINGLE += [(name, on) for name, has in Config().to_dict().items() if isinstance(has, bool) for on in (True, False)]
SINGLE += [("n_kv_head", 1), ("window", 3), ("hidden", 8), ("head_width", 4), ("rank", 4), ("rope_width", 4)]
SINGLE += [("attention_scale", 0.5), ("token_types", 1), ("output_scale", 2.0), ("n_decoder_layer", 2)]
# What a refusal says to do.
ADVICE = re.compile(r"leave it out|leave kind out|set 0$")


def learns(config, run_settings):
    """One step moves the weights and the loss is a number."""
    torch.manual_seed(0)
    model = Transformer(config.replace(vocab=20))
    optimizers = make_optimizers(model, run_settings)
    ids = torch.randint(20, (2, 7))
    before = [p.detach().clone() for p in model.parameters()]
    inputs = (ids, ids) if config.kind == "encoder-decoder" else (ids,)
    loss, count = summed_loss(model(*inputs), ids)
    (loss / count).backward()
    for optimizer in optimizers:
        optimizer.step()
    assert torch.isfinite(loss)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


STATEFUL = [name for name in settings._RUNS if name not in ("tiny", "small", "gpt2")]


@pytest.mark.parametrize(
    ("preset", "task"),
    slow_except(
        [("tiny", task) for task in TASKS] + [(STATEFUL[0], "lm")],
        [(p, t) for p in settings._RUNS for t in TASKS if p not in STATEFUL or t == "lm"],
    ),
)
def test_any_single_choice_trains_overrides_or_is_refused_with_advice(preset, task):
    small = SMALL | ({"n_layer": 4} if "×" in PRESETS[preset].mixer else {})  # a pattern names them all
    for name, value in SINGLE:
        try:
            config, run_settings, yielded = resolve_preset(preset, task, {**small, name: value})
        except ValueError as error:
            assert ADVICE.search(str(error)), f"{name}={value}: {error}"
            assert set(re.findall(r"\w+_\w+", str(error))) <= {name}, (
                f"{name}={value} is told of what nobody set: {error}"
            )
            continue
        learns(config, run_settings)
        assert getattr(config if hasattr(config, name) else run_settings, name) == value
        plain = resolve_preset(preset, task, small)[0].to_dict()
        changed = {key for key, had in plain.items() if config.to_dict()[key] != had} - {name}
        assert changed == yielded.keys(), f"{name}={value} changed {changed} and told {yielded}"


@pytest.mark.parametrize("task", ["mlm", "translate"])
@pytest.mark.parametrize("preset", STATEFUL)
def test_a_recurrent_preset_learns_lm_alone(preset, task):
    with pytest.raises(ValueError, match=f"preset {preset} reads from left to right.*tiny, small, gpt2$") as refusal:
        resolve_preset(preset, task, {})
    assert refusal.value.say("zh") != str(refusal.value)


def test_explicit_settings_are_never_overridden():
    with pytest.raises(ValueError, match="qk_norm"):
        resolve_preset("tiny", "lm", {"mixer": "latent", "qk_norm": "rms"})


def test_a_group_is_set_by_the_names_of_its_settings():
    same = resolve_preset("tiny", "lm", {"rotary_base": 5e5, "sides": "shared"})
    assert resolve_preset("tiny", "lm", {"rotary.base": 5e5, "embedding.sides": "shared"}) == same
    assert resolve_preset("tiny-bamba", "lm", {"output.head": "linear", "rotary.fraction": 1.0}).yielded == {}
    assert resolve_preset("tiny", "lm", {"experts.count": 5, "experts.per_token": 1}).config.experts.count == 5
    for name in ("rotary.bass", "rotary", "experts", "width.base"):
        with pytest.raises(ValueError, match=name):
            resolve_preset("tiny", "lm", {name: 3})


def test_sizes_are_never_overridden():
    with pytest.raises(ValueError, match="width"):
        resolve_preset("small", "lm", {"width": 128})  # which 6 heads don't divide, though the usual 4 would


def test_mla_is_a_single_option_and_overrides_are_reported(tmp_path, capsys):
    (tmp_path / "book.txt").write_text("the cat sat on the mat. " * 40)
    words = ["--text", str(tmp_path / "book.txt"), "--out", str(tmp_path / "run"), "--steps", "1", "--batch", "2"]
    assert main(["train", "lm", *words, "--set", "mixer=latent", "--set", "width=16", "--set", "eval_batches=1"]) == 0
    assert "qk_norm: none; the preset's rms gives way to what was asked for" in capsys.readouterr().out


def test_sentences_longer_than_learned_positions_are_refused_before_there_is_a_run(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("short\tshort\n" * 5 + f"{'long ' * 9}\tshort\n")
    options = ["--pairs", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "run"), "--context", "12"]
    assert main(["train", "translate", *options, "--set", "position=learned"]) == 2
    assert "has 45 tokens but this model learns 12 positions: set --context 45" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
