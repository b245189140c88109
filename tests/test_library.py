"""The library as its users type it: types that mypy can use, verbs from `import qkv`, mistakes that teach."""

import copy
import importlib
import pickle
import pkgutil
import types

import pytest
import torch
from mypy import api

import qkv
from qkv import Config, MultiHeadAttention, Transformer, attend
from qkv.doctor.report import Report

SCRIPT = """
import torch
import qkv
from qkv import Config, MultiHeadAttention, SelfAttention, Transformer, attend
q = torch.randn(1, 2, 3, 4)
x = torch.randn(1, 3, 8)
asked = bool(len(q))
heads = MultiHeadAttention(8, 2)
reveal_type(attend(q, q, q))
reveal_type(attend(q, q, q, weights=True))
reveal_type(attend(q, q, q, weights=asked))
reveal_type(heads(x))
reveal_type(heads(x, weights=True))
reveal_type(heads.forward(x, weights=True))
reveal_type(SelfAttention(8)(x))
trace = qkv.trace(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2)), [3, 1, 4])
reveal_type(trace)
reveal_type(trace.call(0))
reveal_type(trace.call(0, "cross"))
reveal_type(trace.head(0, 0))
reveal_type(trace.steps(0, 0, 0))
"""


@pytest.mark.slow
def test_a_users_script_has_types(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    out, err, code = api.run(
        ["--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "mine.py")]
    )
    revealed = [line.split('"')[1].replace("torch._tensor.", "") for line in out.splitlines() if "Revealed" in line]
    both = "tuple[Tensor, Tensor]"
    call, mixing = "qkv.attention.formula.Call", "qkv.mixers.calls.Mixing"
    of_trace = [
        *("qkv.tracing.views.traces.Trace", f"{call} | {mixing}", call),
        "qkv.tracing.views.attention_maps.Head | qkv.mixers.mixer_maps.MixerHead",
        "qkv.attention.oracle.Steps | qkv.mixers.stepwise.MixerSteps",
    ]
    expected = ["Tensor", both, f"Tensor | {both}", "Tensor", both, both, both, *of_trace]
    assert code == 0 and revealed == expected, out + err


def test_every_public_name_exists_and_has_a_docstring():
    assert len(qkv.__all__) <= 25
    for name in qkv.__all__:
        assert name == "masks" or callable(getattr(qkv, name)), name
        assert getattr(qkv, name).__doc__, name


NAMESPACES = {"masks", "page", "plots", "terminal_map", "foreign"}


@pytest.mark.parametrize("package", ["attention", "doctor", "draw", "model", "text", "tracing", "train"])
def test_dir_shows_what_a_package_offers_and_no_module_hides_it(package):
    home = importlib.import_module(f"qkv.{package}")
    for module in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"qkv.{package}.{module.name}")
    assert home.__all__ and set(home.__all__) <= set(dir(home))
    for name in home.__all__:
        assert (name in NAMESPACES) == isinstance(getattr(home, name), types.ModuleType), name


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="no setting 'n_heads'; did you mean 'n_head'"):
        Config(n_heads=3)
    config = Config(n_head=2, width=8)
    for again in (
        copy.copy(config),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
        config.replace(width=8),
    ):
        assert again == config


def test_words_and_third_inputs_are_no_masks():
    q, x = torch.randn(1, 2, 3, 4), torch.randn(1, 3, 8)
    with pytest.raises(ValueError, match=r"mask is the word 'causal': write masks.parse\('causal'\)"):
        attend(q, q, q, "causal")
    with pytest.raises(ValueError, match=r"third argument is \(1, 3, 8\) .* write mha\(x, memory\)"):
        MultiHeadAttention(8, 2)(x, x, x)


@pytest.mark.parametrize("ids", [[[3, 10]], [[-1, 3]]])
def test_ids_beyond_the_vocabulary_are_refused(ids):
    model = Transformer(Config(vocab=10, width=8, n_layer=1, n_head=2, context=8))
    with pytest.raises(
        ValueError, match=f"ids go from {min(ids[0])} to {max(ids[0])}, but this model knows the tokens 0 to 9"
    ):
        model(torch.tensor(ids))


def test_the_verbs_from_the_package():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=10, width=8, n_layer=1, n_head=2, context=8)).eval()
    generated = model.generate([[1, 2], [3]], most=4)
    assert [len(row) for row in generated] == [4, 4] and generated == model.generate([[1, 2], [3]], most=4, cache=False)
    figure = qkv.heatmap([[1.0, 0.0], [0.5, 0.5]], ["a", "b"])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
    assert qkv.check(qkv.MultiHeadAttention(8, 2), heads=2).ok


def test_drawings_render_in_a_notebook():
    drawings = [
        qkv.steps([[1.0, 0.0], [0.0, 1.0]]),
        qkv.masks.causal(),
        qkv.check(qkv.MultiHeadAttention(8, 2), heads=2),
    ]
    for drawing in drawings:
        text = drawing._repr_html_()
        assert "<pre" in text and str(drawing).splitlines()[0] in text.replace("&lt;", "<")
    assert "<b>" not in Report("<b>", "right")._repr_html_()
