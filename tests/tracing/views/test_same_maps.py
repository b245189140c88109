"""A published model read by us looks where transformers' own looks: every map of every head, with texts of one length and padded."""

import numpy as np
import pytest
import torch

from qkv import Transformer
from qkv.formats.families import from_hf
from qkv.tracing.record.recorder import trace
from tests.formats.test_families import CASES, model_inputs, save_and_read, texts, theirs

# Those whose attention has something of its own: fused or latent, capped, alternating windows, turned in part, and the
# layers of experts in between, which decide what the next attention reads.
NAMES = [
    *("mixtral", "mixtral, two experts each, a window, tied", "qwen3-moe"),
    *("qwen3-moe, some layers dense, shares as they are", "gemma", "gemma 2", "gemma 3", "phi-3", "phi-3, long"),
    *("gpt-neox", "gpt-neox, one after the other, no bias in attention", "opt", "opt as of 350 M, no bias"),
    *("deepseek-v2", "deepseek-v2 lite, yarn", "deepseek-v3", "deepseek-v3, yarn, no groups, shares as they are"),
]


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_the_maps_are_those_of_transformers(name, tmp_path):
    their = theirs(name, dtype=torch.float32)
    config, state = from_hf(*save_and_read(their, tmp_path))
    model = Transformer(config).eval()
    model.load_state_dict(state)
    own, looked = their.config._attn_implementation, 0.0
    their.set_attn_implementation("eager")
    try:
        for padding in ("none", "right", "left"):
            ids, masks, at = texts(name, padding)
            tables = their(**model_inputs(name, ids, masks, at), output_attentions=True).attentions
            recorded = trace(model, [row[real].tolist() for row, real in zip(ids, masks, strict=True)])
            assert recorded.n_layer() == len(tables) == CASES[name].settings["num_hidden_layers"]
            for layer, table in enumerate(tables):
                for item, real in enumerate(masks):
                    expected, n = table[item][:, real][:, :, real].numpy(), int(real.sum())
                    for head in range(recorded.n_head()):
                        ours = recorded.map(layer, head, batch=item)[:n, :n]
                        np.testing.assert_allclose(ours, expected[head], atol=1e-5, rtol=0)
                        looked = max(looked, ours.max(-1).mean())
    finally:
        their.set_attn_implementation(own)
    assert looked > 0.3, "heads must look somewhere for this to mean anything"
