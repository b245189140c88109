"""The figure of the first page shows attention weights, in HTML and as a table."""

import json
import re

import numpy as np

from qkv.attention.oracle import from_qkv
from tools.book import library

BOOKS = (("Cats", "stories"), ("A & B", "rain"))
Q, K = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


def test_shares_are_attention_weights() -> None:
    example = library.Library("en", ("Who?", "Rain?"), BOOKS, Q, K)
    expected = from_qkv(Q, K, np.eye(2)).weights
    np.testing.assert_allclose(example.shares, expected)
    shares = re.search(r"const shares = (\[\[.*?\]\])", library.html(example))
    assert shares is not None
    np.testing.assert_allclose(json.loads(shares[1]), expected, atol=1e-4)
    table_cells = re.findall(r"<td>(\d+) %</td>", library.table_html(example, "en"))
    assert [int(percent) for percent in table_cells] == (100 * expected).round().astype(int).ravel().tolist()


def test_titles_are_escaped() -> None:
    page = library.html(library.Library("zh", ("谁？", "雨？"), BOOKS, Q, K))
    assert "A &amp; B" in page and 'lang="zh-CN"' in page and "查询" in page
