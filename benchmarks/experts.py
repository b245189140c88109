"""A mixture of experts against transformers' eager one, on the same weights and tokens (float32, CPU)."""

import torch
from transformers import MixtralConfig, Qwen3MoeConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from qkv import Config
from qkv.model.experts import MixtureOfExperts
from qkv.model.mixture import Experts

from ._measure import Row, publish, race

SHAPES = {
    "2 of 8": (
        MixtralSparseMoeBlock,
        MixtralConfig(hidden_size=256, intermediate_size=512, num_local_experts=8, num_experts_per_tok=2),
        Experts(8, 2, hidden=512),
    ),
    "8 of 64": (
        Qwen3MoeSparseMoeBlock,
        Qwen3MoeConfig(
            hidden_size=256, moe_intermediate_size=96, num_experts=64, num_experts_per_tok=8, norm_topk_prob=True
        ),
        Experts(64, 8, hidden=96),
    ),
}


@torch.no_grad()
def copied(theirs: torch.nn.Module, how: Experts) -> MixtureOfExperts:
    """Return our layer with the same weights."""
    ours = MixtureOfExperts(Config(width=256, n_head=4, n_layer=1, experts=how))
    ours.router.weight.copy_(theirs.gate.weight)
    for i, expert in enumerate(ours.experts):
        gate, up = theirs.experts.gate_up_proj[i].chunk(2)
        expert.gate.weight.copy_(gate)
        expert.up.weight.copy_(up)
        expert.down.weight.copy_(theirs.experts.down_proj[i])
    return ours


def layers() -> list[Row]:
    """A layer: prefill, a training step, one new token."""
    rows = []
    for name, (make, config, how) in SHAPES.items():
        torch.manual_seed(0)
        config._experts_implementation = "eager"
        theirs = make(config)
        for weight in theirs.parameters():
            torch.nn.init.normal_(weight, std=0.05)
        ours = copied(theirs, how)
        x = torch.randn(1, 512, 256)
        assert torch.allclose(ours(x), theirs(x), atol=1e-4)

        def reading(layer: torch.nn.Module, x: torch.Tensor = x) -> None:
            with torch.no_grad():
                layer(x)

        def learning(layer: torch.nn.Module, x: torch.Tensor = x) -> None:
            layer.zero_grad()
            layer(x).sum().backward()

        for what, work, inputs, bar in (
            ("512 tokens, forward + backward", learning, x, "≤ 0.8"),
            ("512 tokens, forward: three quarters of it are the matrix products that both have", reading, x, "≤ 0.8"),
            ("one new token", reading, x[:, :1], "≤ 0.8"),
        ):
            ours_ms, peer_ms = race(
                lambda work=work, inputs=inputs: work(ours, inputs),
                lambda work=work, inputs=inputs: work(theirs, inputs),
            )
            rows.append(Row(f"{name} experts per token, width 256, {what}", ours_ms, peer_ms, bar))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    publish("experts", "A mixture of experts against transformers' eager one", layers())


if __name__ == "__main__":
    main()
