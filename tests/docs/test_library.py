"""The picture of the first page: its light is attention's, live and still."""

import json
import re

import numpy as np

from qkv.attention.oracle import from_qkv
from tools.book import library

BOOKS = (("Cats", "stories"), ("A & B", "rain"))
Q, K = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


def test_the_light_on_each_book_is_what_attention_gives_it() -> None:
    shown = library.Library("en", ("Who?", "Rain?"), BOOKS, Q, K)
    expected = from_qkv(Q, K, np.eye(2)).weights
    np.testing.assert_allclose(shown.shares, expected)
    carried = re.search(r"const shares = (\[\[.*?\]\])", library.html(shown))
    assert carried is not None
    np.testing.assert_allclose(json.loads(carried[1]), expected, atol=1e-4)
    still = re.findall(r"<td>(\d+) %</td>", library.table_html(shown, "en"))
    assert [int(one) for one in still] == (100 * expected).round().astype(int).ravel().tolist()


def test_words_are_told_as_words() -> None:
    page = library.html(library.Library("zh", ("谁？", "雨？"), BOOKS, Q, K))
    assert "A &amp; B" in page and 'lang="zh-CN"' in page and "查询" in page
