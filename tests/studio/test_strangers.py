"""Two models with different tokens: the studio compares common tokens and names the others."""

import pytest

from qkv.cli import main
from tests.conftest import SMALL, TEXT
from tests.draw.pages import until
from tests.studio.test_rooms import REFUSED, browser, opened  # noqa: F401


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Two runs of the same kind and size: one reads characters, the other bytes."""
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    for cut in ("characters", "bytes"):
        arguments = ["--text", str(folder / "book.txt"), "--tokenizer", cut, "--out", str(folder / cut)]
        assert main(["train", "lm", *arguments, *SMALL]) == 0
    return folder


@pytest.mark.parametrize(
    ("locale", "refusal"),
    [
        ("en-US", "characters and bytes split the text into different tokens and have none in common"),
        pytest.param("zh-CN", "characters 和 bytes", marks=pytest.mark.slow),
    ],
)
def test_models_without_a_common_token_have_no_difference_map(opened, shelf, locale, refusal):  # noqa: F811
    other = f"{shelf.name}/bytes"
    tab = opened("characters", "我爱", mode="compare", by="models", withModel=other, locale=locale)
    until(tab, f"document.querySelector('{REFUSED}') !== null")
    assert refusal in tab.inner_text(REFUSED)
    a, b, difference = ".three section:nth-child(1)", ".three section:nth-child(2)", ".three section:nth-child(3)"
    assert tab.is_visible(a) and tab.is_visible(b) and not tab.is_visible(difference)
    assert tab.inner_text(f"{b} h3") == "B · bytes"
    assert tab.locator("qkv-comparison .ranking li").count() == 0
    tab.fill("qkv-textbox textarea", "cat")  # of these every byte is a character
    until(tab, f"document.querySelector('{REFUSED}') === null")
    until(tab, "document.querySelector('.three[data-old]') === null")
    assert tab.is_visible(difference)
    assert tab.locator("qkv-comparison .ranking li").count() > 0
