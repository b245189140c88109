"""A config catches typos, takes words from the command line, and survives JSON."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

import qkv
from qkv import Config, Transformer
from qkv.attention.heads import NORMS
from qkv.model import layers, words
from qkv.model.config import CHOICES, GROUP_FIELDS, GROUPS, NAMES
from qkv.model.config_checks import MIXERS, STATES
from qkv.model.layers import ACTIVATIONS
from qkv.model.presets import PRESETS


@pytest.mark.parametrize(
    ("name", "wrong", "near"),
    [
        ("position", "rotery", "rotary"),
        ("norm", "rmsnorm", "rms"),
        ("kind", "decodr", "decoder"),
        ("feed_forward", "swigl", "swiglu"),
        ("mixer", "latnet", "latent"),
    ],
)
def test_a_wrong_word_is_refused_with_the_right_words(name, wrong, near):
    with pytest.raises(ValueError, match=f"did you mean '{near}'") as refusal:
        Config(**{name: wrong})
    assert all(str(right) in str(refusal.value) for right in (MIXERS if name == "mixer" else CHOICES[name]))


def test_an_unknown_setting_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="no setting 'n_layers'; did you mean 'n_layer'"):
        Config().replace(n_layers=3)
    with pytest.raises(ValueError, match="did you mean 'width'"):
        Config().set(["widht=64"])
    with pytest.raises(ValueError, match="no setting 'flavour'"):
        Config.from_dict({"flavour": "vanilla"})
    with pytest.raises(ValueError, match="write name=value"):
        Config().set(["width"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(width=30, n_head=4), "30 doesn't divide into 4 heads"),
        (dict(n_head=6, width=12, n_kv_head=4), "6 heads don't divide"),
        (dict(n_layer=0), "n_layer is 0"),
        (dict(vocab=2.5), "vocab is 2.5"),
        (dict(dropout=1.0), "dropout is 1.0"),
        (dict(mixer="latent", position="alibi"), "'alibi' can't be added"),
        (dict(mixer="latent", window=4), "'latent' has no window"),
        (dict(mixer="latent", n_kv_head=2), "'latent' has no n_kv_head"),
        (dict(mixer="latent", softcap=1.0), "'latent' has no softcap"),
        (dict(n_kv_head=0), "n_kv_head is 0"),
        (
            dict(n_decoder_layer=2),
            "n_decoder_layer=2 tells the sides of an encoder-decoder apart: kind is decoder, which has one",
        ),
        (dict(kind="encoder", sides="own"), "sides='own' tells the sides"),
        (dict(head="none"), "head='none' belongs to an encoder"),
        (dict(kind="encoder-decoder", pooler=True), "pooler=true belongs to an encoder"),
        (dict(kind="encoder", head="mlm", head_bias=True), "head_bias belongs to head 'linear'"),
        (dict(kind="encoder", head="none", output_scale=0.5), "output_scale belongs to head 'linear'"),
        (dict(relative_buckets=3), "relative_buckets is 3: give 4 or more"),
        (dict(position="relative", relative_buckets=32, relative_distance=16), "relative_distance is 16"),
    ],
)
def test_what_cannot_be_built_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**settings)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("width=64", "width", 64),
        ("position=learned", "position", "learned"),
        ("tied=False", "tied", False),
        ("bias=qkv", "bias", "qkv"),
        ("window=None", "window", None),
        ("dropout = 0.25", "dropout", 0.25),
        ('rotary_scaling={"kind": "linear", "factor": 2}', "rotary_scaling", {"kind": "linear", "factor": 2}),
    ],
)
def test_settings_are_read_from_words(text, name, value):
    assert getattr(Config().set([text]), name) == value


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_survives_json(name):
    config = PRESETS[name].replace(rotary_scaling={"kind": "linear", "factor": 2.0})
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_each_setting_of_a_group_has_a_name_in_files():
    assert {group: list(names) for group, names in NAMES.items()} == {
        group: [field.name for field in fields(kind)] for group, kind in GROUPS.items() if group != "experts"
    }
    own = {field.name for field in fields(Config)}
    assert not own & GROUP_FIELDS.keys() and GROUPS.keys() < own
    assert Config().to_dict().keys() == own - NAMES.keys() | GROUP_FIELDS.keys()


# A value for each setting of a group that isn't its default, and what else a model with it needs.
OTHERS = {
    name: not has if isinstance(has, bool) else 200 for name, has in Config().to_dict().items() if name in GROUP_FIELDS
} | {
    **dict(rotary_scaling={"kind": "linear", "factor": 2}, rotary_fraction=0.5),
    **dict(sides="own", head="mlm", labels=["c", "d"]),
}
NEEDS = {name: dict(mixer="mamba2") for name in NAMES["state"].values()} | {
    "window_base": dict(window=3),
    "sides": dict(kind="encoder-decoder"),
    **{name: dict(kind="encoder") for name in ("token_types", "head", "pooler")},
    "labels": dict(kind="encoder", head="classes", pooler=True, labels=["a", "b"]),
}


@pytest.mark.parametrize("name", GROUP_FIELDS)
def test_a_setting_of_a_group_has_two_names(name):
    group, inner = GROUP_FIELDS[name]
    dotted, value, before = f"{group}.{inner}", OTHERS[name], Config(**NEEDS.get(name, {}))
    config = Config(**NEEDS.get(name, {}) | {name: value})
    assert config != before and json.loads(json.dumps(config.to_dict()))[name] == value
    assert getattr(config, name) == getattr(getattr(config, group), inner)
    assert config == before.replace(**{name: value}) == before.replace(**{dotted: value})
    assert config == replace(before, **{name: value}) == replace(before, **{group: asdict(getattr(config, group))})
    words = value if isinstance(value, str) else json.dumps(value)
    assert config == before.set([f"{name}={words}"]) == before.set([f"{dotted}={words}"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(rotary=3), r'rotary is 3: give an object such as {"base": 10000.0, '),
        (dict(rotary=dict(bass=3)), r"no setting 'rotary.bass'; did you mean 'rotary.base'"),
        ({"rotary.bass": 3}, r"no setting 'rotary.bass'; did you mean 'rotary.base'"),
        ({"rotary": 3, "rotary.base": 1e6}, "rotary is 3: give"),
        ({"width.base": 3}, "no setting 'width.base'"),
        ({"experts.per_token": 3}, "experts are"),
        ({"rotary_bas": 3}, "did you mean 'rotary_base'"),
    ],
)
def test_a_group_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**settings)


def test_what_is_no_setting_is_no_attribute():
    assert not hasattr(Config(), "widht") and not hasattr(Config(), "base")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name):
    with torch.device("meta"):
        model = Transformer(PRESETS[name])
    assert model(torch.zeros(1, 3, dtype=torch.long, device="meta")).shape == (1, 3, PRESETS[name].vocab)


def test_gpt2_has_the_published_size():
    with torch.device("meta"):
        assert Transformer(PRESETS["gpt2"]).count() == 124_439_808


def test_each_table_has_the_words_that_the_types_name():
    assert set(layers.NORMS) == set(get_args(words.Norm)) == set(CHOICES["qk_norm"]) - {None}
    assert set(layers.HEADS) == set(get_args(words.Head))
    assert {"none", *ACTIVATIONS} == set(get_args(words.Activation))
    assert MIXERS == get_args(words.Mixer) and set(STATES) < set(MIXERS)
    assert set(NORMS) == set(get_args(words.Norm))
    hints = get_type_hints(Config)
    hints |= {name: get_type_hints(GROUPS[group])[inner] for name, (group, inner) in GROUP_FIELDS.items()}
    for name, among in CHOICES.items():
        named = {word for part in (hints[name], *get_args(hints[name])) for word in get_args(part) or ()}
        assert {word for word in among if isinstance(word, str)} == {word for word in named if isinstance(word, str)}


@pytest.mark.parametrize("feed_forward", CHOICES["feed_forward"])
def test_gated_and_plain_feed_forwards_have_about_as_many_weights(feed_forward):
    config = Config(width=96, n_head=4, feed_forward=feed_forward)
    weights = config.hidden_width * config.width * (3 if config.gated else 2)
    assert abs(weights / (8 * 96 * 96) - 1) < 0.05


def test_a_config_of_an_earlier_version_reads_as_it_was():
    """A run keeps its config as JSON; what was added since has a default that changes nothing."""
    file = Path(qkv.__file__).parent / "demo" / "dates" / "config.json"
    stored = json.loads(file.read_text())["model"]
    new = {"n_decoder_layer", "attention_scale", "sinusoid", "relative_buckets", "relative_distance", "sides"}
    new |= {"head_bias", "output_scale", "pooler"}
    assert not new & stored.keys()
    config = Config.from_dict(stored)
    assert {name: value for name, value in config.to_dict().items() if name in stored} == stored
    assert config.layers == (stored["n_layer"], stored["n_layer"])


def test_sides_may_differ_in_depth():
    assert Config(kind="encoder-decoder", n_layer=3, n_decoder_layer=1).layers == (3, 1)
    assert (Config(n_layer=3).layers, Config(kind="encoder", n_layer=3).layers) == ((0, 3), (3, 0))


@pytest.mark.parametrize(
    "setting",
    [
        *("dropout=abc", "dropout=1", "norm_eps=abc", "norm_eps=0", "rotary_base=abc", "embedding_scale=abc"),
        *("rotary_scaling=3", "attention_scale=q", "output_scale=x", "window=abc", "window=-1", "tied=maybe"),
        *("pooler=3", "n_layer=true", "width=12.5", "token_types=-1", "hidden=abc", "rotary_scaling={}"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(setting):
    with pytest.raises(ValueError, match=setting.split("=")[0]):
        Config().set([setting])
