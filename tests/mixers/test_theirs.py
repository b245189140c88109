"""Mixers inside models of transformers are heard: every map's row times V is what the layer's own kernel gave, and the same
model read by us has the same maps."""

import copy
import threading
from functools import wraps

import numpy as np
import pytest
import torch
from transformers.models.bamba import modeling_bamba
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.qwen3_next import modeling_qwen3_next

import qkv
from qkv import Transformer
from qkv.formats.families import from_hf
from qkv.tracing.record import hf_mixers
from qkv.tracing.record.hf_attention import Untraceable
from qkv.tracing.views.traces import Trace
from tests.formats.test_families import save_and_read, texts, theirs

NAMES = ["mamba2", "mamba2 with biases", "bamba", "qwen3-next", "qwen3-next, as many of all heads, tied"]
LAYERS = {
    "mamba2": ((), (0, 1, 2)),
    "mamba2 with biases": ((), (0, 1, 2)),
    "bamba": ((1, 4), (0, 2, 3)),
    "qwen3-next": ((2, 4), (0, 1, 3)),
    "qwen3-next, as many of all heads, tied": ((3,), (0, 1, 2, 4)),
}
FILES = (modeling_mamba2, modeling_bamba, modeling_qwen3_next)


def small(name):
    """Without the skip, so that what goes into the norm is what the kernel made of the state alone."""
    model = copy.deepcopy(theirs(name, torch.float32, spread=0.7, words=0.3))
    for module in model.modules():
        if hf_mixers.kernel_of(module) == "mamba2_chunk_scan":
            torch.nn.init.zeros_(module.D)
    return model


def kernels():
    return [getattr(file, kernel) for file in FILES for kernel in hf_mixers.KERNELS if hasattr(file, kernel)]


def normed(model):
    """What each mixer hands to its norm, (B, N, H·P), before the gate."""
    norm_inputs = {}

    def hook(name):
        return lambda norm, inputs: norm_inputs.__setitem__(name, inputs[0].detach())

    mixers = [(name, module) for name, module in model.named_modules() if hf_mixers.kernel_of(module)]
    return norm_inputs, [module.norm.register_forward_pre_hook(hook(name)) for name, module in mixers]


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_a_map_s_row_times_v_is_what_the_layer_computes(name, padding, tmp_path):
    model = small(name)
    ids, real, _ = texts(name, padding)
    batch = {"input_ids": ids, "attention_mask": real.long()}
    with torch.no_grad():
        plain, before = model(**batch).logits, kernels()
    norm_inputs, hooks = normed(model)
    trace = qkv.trace(model, batch, logits=True)
    for hook in hooks:
        hook.remove()
    assert torch.equal(trace.more["logits"], plain) and kernels() == before  # nothing changed, nothing left behind
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    attends, mixes = LAYERS[name]
    assert trace.parts == ["decoder"] * bool(attends) + ["mixers"] and trace.more["kind"] == "decoder"
    assert trace.layers("mixers") == mixes and (not attends or trace.layers("decoder") == attends)
    trace.save(tmp_path / "trace.safetensors")
    again = Trace.load(tmp_path / "trace.safetensors")
    for layer, expected in zip(mixes, norm_inputs.values(), strict=True):
        call = trace.call(layer, "mixers")
        expected = expected.reshape(*ids.shape, call.n_head, -1)  # (B, N, H, P)
        for item, head in ((0, 0), (1, call.n_head - 1), (2, 1)):
            table = trace.map(layer, head, part="mixers", batch=item)
            computed, there = table @ call.v[item, head].numpy(), expected[item, :, head].numpy()
            scale = np.abs(there[real[item]]).max()
            assert scale > 1e-3 and np.abs(np.tril(table, -1)).max() > 1e-4 and not np.triu(table, 1).any()
            np.testing.assert_allclose(computed[real[item]], there[real[item]], atol=2e-5 * max(scale, 1))
            np.testing.assert_allclose(again.map(layer, head, part="mixers", batch=item), table, atol=1e-6)
            row = int(real[item].nonzero()[-1])
            np.testing.assert_allclose(
                trace.row(layer, head, row, part="mixers", batch=item), table[row], atol=1e-6 * max(scale, 1)
            )


@pytest.mark.parametrize("name", NAMES)
def test_traces_of_theirs_and_ours_are_equal(name, tmp_path):
    model = small(name)
    config, state = from_hf(*save_and_read(model, tmp_path / "theirs"))
    ours = Transformer(config).eval()
    ours.load_state_dict(state)
    ids = texts(name)[0][:1].tolist()[0]
    their_trace, our_trace = qkv.trace(model, ids), qkv.trace(ours, ids)
    assert their_trace.parts == our_trace.parts
    for part in their_trace.parts:
        assert their_trace.layers(part) == our_trace.layers(part)
        for layer in their_trace.layers(part):
            for head in range(their_trace.n_head(part, layer)):
                theirs_, mine = their_trace.map(layer, head, part=part), our_trace.map(layer, head, part=part)
                np.testing.assert_allclose(theirs_, mine, atol=1e-4 * max(1, np.abs(mine).max()))


def test_kernels_with_other_arguments_are_refused(monkeypatch):
    """A kernel that does more than its arguments tell makes no map, and leaves nothing behind."""
    model, own = small("qwen3-next"), modeling_qwen3_next.torch_chunk_gated_delta_rule

    @wraps(own)
    def more(*args, **options):
        output, state = own(*args, **options)
        return output * 1.1, state

    def other(*args, **options):  # as if a new version had other names
        return own(*args, **options)

    for kernel in (more, other):
        monkeypatch.setattr(modeling_qwen3_next, "torch_chunk_gated_delta_rule", kernel)
        with pytest.raises(Untraceable, match="Qwen3NextGatedDeltaNet does more with its state") as caught:
            qkv.trace(model, [3, 1, 4, 1, 5])
        assert caught.value.say("zh") != str(caught.value)
        assert modeling_qwen3_next.torch_chunk_gated_delta_rule is kernel
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_two_threads_record_their_own_model():
    models, maps = [small("mamba2"), small("bamba"), small("mamba2")], {}
    ids, before = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8]], kernels()
    alone = [qkv.trace(model, row).map(0, 1, part="mixers") for model, row in zip(models, ids, strict=True)]
    gate = threading.Barrier(3)

    def look(i):
        gate.wait()
        for _time in range(5):
            maps[i] = qkv.trace(models[i], ids[i]).map(0, 1, part="mixers")

    threads = [threading.Thread(target=look, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kernels() == before
    for i in range(3):
        np.testing.assert_array_equal(maps[i], alone[i])
