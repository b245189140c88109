"""The row of a trace as text has the numbers of its item, head and word, a line per key."""

import re

import numpy as np
import pytest
import torch

from qkv import Config, Transformer
from qkv.draw.derivation import row
from qkv.text import Bytes
from qkv.tracing.record.recorder import trace
from tests.draw.pages import make_trace


@pytest.mark.parametrize("item", [0, 1])
@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_a_row_has_the_weights_of_its_item(item, position):
    torch.manual_seed(0)
    tokenizer = Bytes.make(["bos"])
    model = Transformer(Config(vocab=tokenizer.vocab, width=24, n_layer=1, n_head=4, n_kv_head=2, position=position))
    recorded = trace(model, [tokenizer.encode("abcde"), tokenizer.encode("vwxyz")], tokenizer)
    text = row(recorded, 0, 3, "cx"[item], batch=item)
    # the sum at the end begins with the word, too: of equals the first counts
    lines = {line.split()[0]: line.split()[-1] for line in text.split("\n")[::-1] if line.startswith("  ")}
    for letter, share in zip(("abcde", "vwxyz")[item], recorded.row(0, 3, 2, batch=item), strict=True):
        assert float(lines[letter]) == pytest.approx(share, abs=6e-4)
    assert ("rotary positions" in text) is (position == "rotary")


def test_keys_that_are_not_listed_are_named_as_hidden_where_the_mask_hides_them():
    recorded = make_trace(n=20)
    assert "and 8 more keys, hidden by the mask: 0" in row(recorded, 0, 1, "w3")
    weights = np.sort(recorded.row(0, 1, 15))
    text = row(recorded, 0, 1, "w15")
    shared = re.search(r"and 8 more keys, which share (\S+); 4 of them are hidden by the mask", text)
    assert float(shared[1]) == pytest.approx(weights[:8].sum(), abs=5e-4)
    assert "and 8 more keys, which share" in row(recorded, 0, 1, "w19") and "hidden" not in row(recorded, 0, 1, "w19")
