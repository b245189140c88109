"""Differences of logits to transformers, for every family: random small models of unusual sizes, as in the tests.

    python -m benchmarks.parity            all of it, into RESULTS.md

In float64, on texts without padding, padded right and padded left; the tests require 1e-10. In float32, "as it comes", both
sides round in their own order.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from tests.formats.test_families import BIASED, CASES, TRANSLATORS, logits_of, model_inputs, ours, texts, theirs

from ._measure import Row, publish

BAR = 1e-10


@torch.no_grad()
def apart(name: str, dtype: torch.dtype) -> float:
    """Return the largest difference of any logit of a real token."""
    with tempfile.TemporaryDirectory() as folder:
        model = ours(name, Path(folder), dtype)
    differences = [float((ours - expected).abs().max()) for ours, expected in _both(name, model, theirs(name, dtype))]
    return max(differences)


def _both(name: str, model: torch.nn.Module, their: torch.nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    target = texts(name, seed=1)[0]
    # With biases, transformers' Mamba-2 reads padding: compared as its tests do, without.
    for padding in ("none",) if name in BIASED else ("none", "right", "left"):
        ids, mask, at = texts(name, padding)
        if name in TRANSLATORS:
            expected = their(input_ids=ids, attention_mask=mask.long(), decoder_input_ids=target).logits
            yield model(target, ids, source_mask=mask), expected
        else:
            yield model(ids, mask=mask, at=at)[mask], logits_of(their(**model_inputs(name, ids, mask, at)))[mask]


def main() -> None:
    torch.set_num_threads(1)
    families: dict[str, list[str]] = defaultdict(list)
    for name, case in CASES.items():
        families[case.config.model_type].append(name)
    rows = []
    for family, names in families.items():
        exact = max(apart(name, torch.float64) for name in names)
        rounded = max(apart(name, torch.float32) for name in names)
        print(f"{family}: {exact:.1e}, in float32 {rounded:.1e}", flush=True)
        note = f"configurations: {len(names)}, in float32 as it comes {rounded:.1e}"
        rows.append(Row(f"`{family}`", exact, BAR, "≤ 1", "", note))
    publish(
        "parity", "Parity: logits of random small models, the largest difference from transformers' (float64)", rows
    )


if __name__ == "__main__":
    main()
