"""Figures: the pixels' values are the weights, labels are the tokens, files are what their names say."""

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.draw import plots
from qkv.tracing.recorder import trace


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=3, n_head=6, n_kv_head=2))
    return trace(model, [3, 1, 4, 1, 5, 9, 2], name="small")


def image_of(axes):
    return np.asarray(axes.get_images()[0].get_array())


def test_a_head_shows_its_weights_and_tokens(found):
    axes = plots.head(found, 1, 4).axes[0]
    np.testing.assert_array_equal(image_of(axes), found.map(1, 4))
    assert [t.get_text() for t in axes.get_yticklabels()] == found.tokens().shown
    assert axes.get_title(loc="left") == "small · decoder 1.4"
    assert sum(len(c.get_paths()) for c in axes.collections) == 6  # a run of hidden keys in every row but the last


def test_a_layer_and_the_whole_model_have_every_head(found):
    axes = plots.layer(found, 2).axes
    assert len(axes) == 6
    np.testing.assert_array_equal(image_of(axes[5]), found.map(2, 5))
    axes = plots.overview(found, mark=[(1, 2)]).axes
    assert len(axes) == 18
    np.testing.assert_allclose(image_of(axes[8]) ** 2, found.map(1, 2), atol=1e-6)
    assert axes[8].spines["top"].get_linewidth() > axes[9].spines["top"].get_linewidth()


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_files_by_name(found, tmp_path, name, begins):
    plots.head(found, 0, 0, path=tmp_path / "new" / name)
    assert (tmp_path / "new" / name).read_bytes().startswith(begins)


def test_anyones_array(tmp_path):
    figure = plots.heatmap([[0.5, 0.5], [0.1, 0.9]], ["我", "$x_1$"], path=tmp_path / "a.png")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["我", "$x_1$"]
    with pytest.raises(ValueError, match="one matrix"):
        plots.heatmap(np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match="3 names of keys for 2"):
        plots.heatmap(np.eye(2), list("ab"), list("abc"))


def test_no_font_for_chinese_is_said(monkeypatch):
    monkeypatch.setattr(plots, "cjk_font", lambda: None)
    with pytest.warns(UserWarning, match=r"qkv\[fonts\]"):
        plots.heatmap(np.eye(1), ["我"])


def test_other_figures_keep_their_fonts():
    import matplotlib as mpl

    before = list(mpl.rcParams["font.family"])
    figure = plots.heatmap(np.eye(1), ["我"])
    assert list(mpl.rcParams["font.family"]) == before
    if plots.cjk_font() is not None:
        assert figure.axes[0].get_xticklabels()[0].get_fontfamily()[0] == plots.cjk_font()
