"""Figures: pixel values are the weights, labels the tokens, and the suffix selects the format."""

import itertools
import shlex
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

import qkv
from qkv import Config, Transformer, masks, steps
from qkv.draw import figure_canvas, plots
from qkv.i18n import Notice, Problem
from qkv.text import Bytes
from qkv.tracing.record.recorder import trace
from qkv.tracing.views.word_map import view
from tests.draw.pages import make_trace
from tests.mixers.test_models import TEXT, model_of
from tests.selection import slow_except

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recorded():
    torch.manual_seed(0)
    model = Transformer(Config(vocab=11, width=36, n_layer=3, n_head=6, n_kv_head=2))
    return trace(model, [3, 1, 4, 1, 5, 9, 2], name="small")


def image_of(axes):
    return np.asarray(axes.get_images()[0].get_array())


def test_a_head_shows_its_weights_and_tokens(recorded):
    axes = plots.head(recorded, 1, 4).axes[0]
    np.testing.assert_array_equal(image_of(axes), recorded.map(1, 4))
    assert [t.get_text() for t in axes.get_yticklabels()] == recorded.tokens().shown
    assert axes.get_title(loc="left") == "small · decoder 1.4"
    assert sum(len(c.get_paths()) for c in axes.collections) == 6  # a run of hidden keys in every row but the last


def test_a_layer_and_the_whole_model_have_every_head(recorded):
    axes = plots.layer(recorded, 2).axes
    assert len(axes) == 6
    np.testing.assert_array_equal(image_of(axes[5]), recorded.map(2, 5))
    axes = plots.overview(recorded, mark=[(1, 2)]).axes
    assert len(axes) == 18
    np.testing.assert_allclose(image_of(axes[8]) ** 2, recorded.map(1, 2), atol=1e-6)
    assert axes[8].spines["top"].get_linewidth() > axes[9].spines["top"].get_linewidth()


def pooled(weights, size):
    """Return the mean of each cell of `size` rows and columns; the last cells may be smaller."""
    row_starts, column_starts = (np.arange(0, length, size) for length in weights.shape)
    sums = np.add.reduceat(np.add.reduceat(weights, row_starts, 0), column_starts, 1)
    heights, widths = (
        np.diff([*starts, length]) for starts, length in zip((row_starts, column_starts), weights.shape, strict=True)
    )
    return sums / heights[:, None] / widths


@pytest.mark.parametrize(("n", "m"), [(600, 600), (601, 602)])
def test_a_long_text_is_pooled_and_what_is_hidden_stays_hidden(n, m):
    long = make_trace(n=n, m=m, heads=2, groups=1, width=4)
    weights = long.map(0, 1)
    axes = plots.head(long, 0, 1, lang="en").axes[0]
    np.testing.assert_allclose(image_of(axes), pooled(weights, 2), atol=1e-6)
    shade = np.asarray(axes.get_images()[1].get_array())[..., 3]
    np.testing.assert_array_equal(
        shade == 1, pooled((weights > 0).astype(int), 2) == 0
    )  # no pair of these cells may attend
    assert axes.get_title(loc="left").endswith("each cell: the mean of 2 × 2 weights")
    assert axes.get_xlim() == (0, m) and axes.get_ylim() == (n, 0)  # places in the text, not cells


def test_a_layer_of_a_long_text_is_pooled_head_by_head():
    long = make_trace(n=300, heads=2, groups=1, width=4)
    for head, axes in enumerate(plots.layer(long, 0).axes):
        np.testing.assert_allclose(image_of(axes), pooled(long.map(0, head), 2), atol=1e-6)
        assert not [t for t in axes.get_xticklabels() + axes.get_yticklabels() if t.get_text()]


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_files_by_name(recorded, tmp_path, name, begins):
    plots.head(recorded, 0, 0, path=tmp_path / "new" / name)
    assert (tmp_path / "new" / name).read_bytes().startswith(begins)


def test_any_array(tmp_path):
    figure = plots.heatmap([[0.5, 0.5], [0.1, 0.9]], ["我", "$x_1$"], path=tmp_path / "a.png")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["我", "$x_1$"]
    for shape in ((3,), (1, 2, 3, 4, 5), (2, 0, 3, 3)):
        with pytest.raises(ValueError, match="heads, queries, keys"):
            plots.heatmap(np.zeros(shape))
    with pytest.raises(ValueError, match="not a matrix of numbers"):
        plots.heatmap([[1, 2], [3]])
    with pytest.raises(ValueError, match="3 names of keys for 2"):
        plots.heatmap(np.eye(2), list("ab"), list("abc"))


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 5, 4)], ids=["heads", "batch"])
def test_a_grid_shows_every_head_of_every_item(shape):
    """The maps are in order, from any array type, with one scale."""
    weights = torch.rand(shape, dtype=torch.bfloat16, requires_grad=True)
    axes = plots.heatmap(weights, list("abcde"), list("wxyz")).axes
    tables = weights.detach().double().numpy().reshape(-1, 5, 4)
    assert len(axes) == len(tables)
    for subplot, table in zip(axes, tables, strict=True):
        np.testing.assert_array_equal(image_of(subplot), table)
        assert subplot.get_images()[0].get_clim() == (0, tables.max())
        assert [t.get_text() for t in subplot.get_xticklabels()] == list("wxyz")
    assert [subplot.get_title() for subplot in axes] == [f"head {h}" for h in range(3)] * (len(tables) // 3)


def test_an_item_is_drawn_without_its_padding():
    weights = np.random.default_rng(0).random((2, 2, 4, 4))
    axes = plots.heatmap(weights, [list("abcd"), list("ef")]).axes
    np.testing.assert_array_equal(image_of(axes[3]), weights[1, 1, :2, :2])
    assert [t.get_text() for t in axes[3].get_yticklabels()] == ["e", "f"]
    for wrong, names in (("for 3 items and the array has 2", [list("abcd")] * 3), ("5 names", list("abcde"))):
        with pytest.raises(ValueError, match=wrong):
            plots.heatmap(weights, names)
    with pytest.raises(ValueError, match=r"2 names of queries for 4"):
        plots.heatmap(weights[0], list("ab"))  # one text has no padding to leave out
    with pytest.raises(ValueError, match="300 maps"):
        plots.heatmap(np.zeros((3, 100, 2, 2)))


def test_any_numbers_have_their_colours():
    """Negative numbers have a symmetric scale, −inf is hatched, and a shared mask hides cells in every head."""
    axes = plots.heatmap([[-1.0, 3.0], [-np.inf, 0.0]]).axes[0]
    assert axes.get_images()[0].get_clim() == (-3, 3)
    assert sum(len(c.get_paths()) for c in axes.collections) == 1
    for subplot in plots.heatmap(np.ones((2, 3, 3)), allowed=np.tri(3)).axes:
        assert sum(len(c.get_paths()) for c in subplot.collections) == 2
    with pytest.raises(ValueError, match="broadcasts"):
        plots.heatmap(np.eye(2), allowed=np.ones((3, 3)))


@pytest.mark.parametrize(("lang", "third"), [("en", "3  softmax: weights"), ("zh", "3  softmax：权重")])
def test_the_steps_as_a_picture(lang, third):
    done = steps(np.random.default_rng(0).standard_normal((3, 8)), n_head=2, mask=masks.causal(), names=list("我爱你"))
    axes = plots.steps(done, head=1, lang=lang).axes
    for subplot, table in zip(axes, (done.scores[1], done.masked[1], done.weights[1]), strict=True):
        np.testing.assert_array_equal(image_of(subplot), table)
        assert [t.get_text() for t in subplot.get_xticklabels()] == list("我爱你")
    assert [len(subplot.texts) for subplot in axes] == [9, 6, 6]  # a number in each cell that isn't hidden
    assert axes[2].get_title(loc="left") == third
    assert done._repr_html_().startswith('<img src="data:image/png;base64,')  # a notebook shows it


def test_the_steps_without_a_chinese_font(monkeypatch, tmp_path):
    monkeypatch.setattr(figure_canvas, "cjk_font", lambda: None)
    with pytest.warns(Notice, match="no font with Chinese characters"):
        plots.steps(steps([[1.0]], names=["我"]), path=tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def no_fonts(monkeypatch, tmp_path):
    """Hide all fonts but matplotlib's own; return a folder that is searched for fonts."""
    matplotlib_fonts = [font for font in font_manager.fontManager.ttflist if "matplotlib" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", matplotlib_fonts)
    find_fonts = font_manager.findSystemFonts
    monkeypatch.setattr(
        font_manager, "findSystemFonts", lambda folders=(tmp_path / "fonts",): find_fonts(list(folders))
    )
    monkeypatch.setattr(figure_canvas, "FONT_PACKAGE", "no-such-package")
    (tmp_path / "fonts").mkdir()
    return tmp_path / "fonts"


def write_font(file, family, characters):
    """Write a font whose glyphs are black squares."""
    square = TTGlyphPen(None)
    square.moveTo((0, 0)), square.lineTo((0, 900)), square.lineTo((900, 900)), square.lineTo((900, 0))
    square.closePath()
    names = [".notdef", *(f"uni{ord(character):04X}" for character in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(character): name for character, name in zip(characters, names[1:], strict=True)})
    builder.setupGlyf(dict.fromkeys(names, square.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable(dict(familyName=family, styleName="Regular"))
    builder.setupOS2()
    builder.setupPost()
    builder.save(file)


def test_a_font_newer_than_matplotlibs_list_is_detected(no_fonts, tmp_path):
    with pytest.warns(Notice):
        plots.heatmap(np.eye(1), ["汉"])
    (no_fonts / "broken.ttf").write_bytes(b"no font")
    write_font(no_fonts / "latin.ttf", "Letters Only", "abc")
    write_font(no_fonts / "japanese.ttf", "Kanji Only", "漢層頭訳")
    assert figure_canvas.cjk_font() is None
    write_font(no_fonts / "any.ttf", "Whatever It Is Called", figure_canvas.CHINESE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plots.heatmap(np.eye(1), ["汉"], path=tmp_path / "a.png")
    assert figure.axes[0].get_xticklabels()[0].get_fontfamily()[0] == "Whatever It Is Called"


@pytest.mark.parametrize("name", [n for n in figure_canvas.CJK_FONTS if n.startswith(("Noto", "WenQuanYi M"))])
def test_a_font_with_a_listed_name_is_used_without_a_search(no_fonts, monkeypatch, name):
    write_font(no_fonts / "a.ttf", name, "汉")
    font_manager.fontManager.addfont(no_fonts / "a.ttf")
    monkeypatch.setattr(font_manager, "findSystemFonts", None)
    assert figure_canvas.cjk_font() == name


def test_a_removed_font_is_not_used(no_fonts):
    write_font(no_fonts / "a.ttf", "Noto Sans SC", figure_canvas.CHINESE)
    assert figure_canvas.cjk_font() == "Noto Sans SC"
    (no_fonts / "a.ttf").unlink()
    assert figure_canvas.cjk_font() is None


def test_the_advice_is_a_command_for_this_python_and_the_package_of_the_extra():
    with pytest.MonkeyPatch.context() as patched, pytest.warns(Notice) as notices:
        patched.setattr(figure_canvas, "cjk_font", lambda: None)
        plots.heatmap(np.eye(1), ["我"])
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    package = extra["fonts"][0].split(">=")[0]
    for lang in ("en", "zh"):
        assert notices[0].message.say(lang).endswith(f"\n  {shlex.quote(sys.executable)} -m pip install {package}")


def test_other_figures_keep_their_fonts():
    import matplotlib as mpl

    before = list(mpl.rcParams["font.family"])
    figure = plots.heatmap(np.eye(1), ["我"])
    assert list(mpl.rcParams["font.family"]) == before
    if figure_canvas.cjk_font() is not None:
        assert figure.axes[0].get_xticklabels()[0].get_fontfamily()[0] == figure_canvas.cjk_font()


def test_parts_of_characters_are_joined_and_special_tokens_grey(tmp_path):
    torch.manual_seed(0)
    tokenizer = Bytes.make(["bos"])
    model = Transformer(Config(vocab=tokenizer.vocab, width=24, n_layer=2, n_head=4))
    recorded = trace(model, [[tokenizer.bos, *tokenizer.encode("我爱cats")]], tokenizer, name="bytes")
    for axes in (
        plots.head(recorded, 1, 2).axes[0],
        plots.layer(recorded, 1).axes[2],
        plots.growth([recorded], 1, 2).axes[0],
    ):
        np.testing.assert_array_equal(image_of(axes), view(recorded, 1, 2).weights)
        for labels in (axes.get_yticklabels(), axes.get_xticklabels()):
            assert [t.get_text() for t in labels] == ["[BOS]", "我", "爱", *"cats"]
            assert [t.get_color() for t in labels] == [figure_canvas.GREY, *["black"] * 6]
    names = [t.get_text() for t in plots.head(recorded, 1, 2, by="words").axes[0].get_yticklabels()]
    assert names == ["[BOS]", "我", "爱", "cats"]
    axes = plots.head(recorded, 1, 2, by="tokens").axes[0]
    np.testing.assert_array_equal(image_of(axes), recorded.map(1, 2))


def test_figures_use_the_requested_language(recorded):
    assert plots.head(recorded, 1, 4, lang="zh").axes[0].get_title(loc="left") == "small · 解码器 1.4"
    assert plots.layer(recorded, 1, lang="zh").get_suptitle() == "small · 解码器 · 第 1 层"


def test_a_missing_font_warns_once_and_in_both_languages(monkeypatch, tmp_path):
    monkeypatch.setattr(figure_canvas, "cjk_font", lambda: None)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        plots.heatmap(np.eye(1), ["我"], path=tmp_path / "a.png")
    assert [type(warning.message) for warning in notices] == [Notice]  # and none of matplotlib's about each letter
    assert "方框" in notices[0].message.say("zh") and "boxes" in notices[0].message.say("en")


TEXTS = {
    "english": "The history of the bridge begins in the year when two villages agreed to share a road ".split(),
    "bytes": [f"{sign}{'₁₂₃'[i]}" for sign in "今天天气很好我们一起去公园散步" for i in range(3)],
    "pairs": ["我们", "公园", "散步", "WW", "花开"],
}


def are_apart(first, second, dpi):
    """Two labels beside each other don't touch; of turned ones, the lines they stand on are further apart than letters
    are high."""
    from matplotlib.transforms import Bbox

    angle = first.get_rotation()
    if angle:
        a, b = (text.get_transform().transform(text.get_position())[0] for text in (first, second))
        return abs(b - a) * np.sin(np.deg2rad(angle)) >= first.get_fontsize() * dpi / 72 * 1.1
    return Bbox.intersection(first.get_window_extent(), second.get_window_extent()) is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "n"),
    slow_except(
        [(name, n) for name, n in zip(TEXTS, (24, 47, 64), strict=True)], itertools.product(TEXTS, (24, 47, 64))
    ),
)
def test_labels_never_touch(name, n):
    """24 stand in a small picture of a layer, as wide as 3 inches; the others in a picture of one head."""
    words = (TEXTS[name] * 50)[:n]
    if n == 24:
        figure = figure_canvas.blank((3.1, 3.1), words)
        figure_canvas.label(figure.add_subplot(), words, words, small=True)
        figure.axes[0].set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
        figure_canvas.save(figure, None)
    else:
        figure = plots.heatmap(np.eye(n), words)
    figure.draw_without_rendering()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        labels = [label for label in axis.get_ticklabels() if label.get_text()]
        assert all(are_apart(*pair, figure.dpi) for pair in itertools.pairwise(labels))
        assert len(labels) >= n / 3
        assert [label.get_text() for label in labels] == [words[round(tick)] for tick in axis.get_ticklocs()]


def test_a_mixers_figures_are_signed_and_share_a_scale():
    """All heads of a layer, and a head as it forms, by the largest weight of all that stand side by side; the overview's
    pictures each by its own."""
    recorded = qkv.trace(model_of("mamba2 attention delta").float(), TEXT)
    tables = [recorded.map(2, head, part="mixers") for head in range(recorded.n_head("mixers", 2))]
    assert min(table.min() for table in tables) < 0
    drawn = [axes.images[0] for axes in plots.layer(recorded, 2, part="mixers").axes]
    top = max(np.abs(table).max() for table in tables)
    assert all(image.get_clim() == pytest.approx((-top, top)) and image.get_cmap().name == "RdBu" for image in drawn)
    for image, table in zip(drawn, tables, strict=True):
        np.testing.assert_allclose(image.get_array(), table, rtol=1e-5)
    grown = plots.growth([recorded, recorded], 2, 1, part="mixers").axes[0].images[0]
    assert grown.get_clim() == pytest.approx((-np.abs(tables[1]).max(), np.abs(tables[1]).max()))
    small_model = [axes.images[0] for axes in plots.overview(recorded, part="mixers").axes][-len(tables) :]
    for image, table in zip(small_model, tables, strict=True):
        np.testing.assert_allclose(image.get_array(), np.sign(table) * np.abs(table) ** 0.5, rtol=1e-4, atol=1e-6)
        assert image.get_clim()[0] == -image.get_clim()[1]


def test_trace_tokens_label_a_map_and_other_types_are_refused():
    recorded = trace(Transformer(Config(vocab=256, width=8, n_layer=1, n_head=2)), "a b", Bytes.make())
    axes = qkv.heatmap(recorded.map(0, 0), recorded.tokens()).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == recorded.tokens().shown
    for wrong, kind in ((recorded.tokens, "method"), (3, "int")):
        with pytest.raises(Problem, match=rf"queries is a {kind}: give a list .*trace\.tokens\(\)\)"):
            qkv.heatmap(recorded.map(0, 0), wrong)
    with pytest.raises(Problem, match="keys is a int"):
        qkv.heatmap(recorded.map(0, 0), None, 3)
