"""The optimizers: Muon's matrices, who moves what, and the schedule."""

import pytest
import torch

from qkv import Config, Transformer
from qkv.train.optim import Muon, make_optimizers, orthogonalise, set_rate
from qkv.train.settings import Settings


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 13), (2, 13, 5), (1, 1, 7)], ids=str)
def test_orthogonalised_matrices_have_even_strength_and_keep_their_directions(shape):
    matrices = torch.randn(*shape, dtype=torch.float64)
    orthogonal = orthogonalise(matrices)
    values = torch.linalg.svdvals(orthogonal)
    assert ((values > 0.3) & (values < 1.4)).all()
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    inner = u.transpose(1, 2) @ orthogonal @ v.transpose(1, 2)
    off = inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-8


def test_muon_moves_each_matrix_as_if_alone():
    together = [torch.nn.Parameter(torch.randn(6, 4)) for _ in range(3)]
    alone = [torch.nn.Parameter(p.detach().clone()) for p in together]
    both = Muon(together)
    singles = [Muon([p]) for p in alone]
    for _ in range(3):
        for a, b in zip(together, alone, strict=True):
            a.grad = torch.randn(6, 4)
            b.grad = a.grad.clone()
        both.step()
        for single in singles:
            single.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_muon_is_momentum_then_orthogonal_by_the_formula():
    p = torch.nn.Parameter(torch.randn(8, 4, dtype=torch.float64))
    start, momentum = p.detach().clone(), torch.zeros(8, 4, dtype=torch.float64)
    optimizer = Muon([p], lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(2):
        p.grad = torch.randn(8, 4, dtype=torch.float64)
        momentum = 0.9 * momentum + 0.1 * p.grad
        update = orthogonalise((0.1 * p.grad + 0.9 * momentum)[None])[0]
        start = start * (1 - 0.1 * 0.01) - 0.1 * 2**0.5 * update
        optimizer.step()
    torch.testing.assert_close(p.detach(), start)


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_has_a_single_optimizer(kind, tied):
    model = Transformer(
        Config(kind=kind, vocab=9, width=8, n_layer=2, n_head=2, bias=True, tied=tied, position="relative")
    )
    for name in ("muon", "adamw"):
        optimizers = make_optimizers(model, Settings(optimizer=name))
        moved = [id(p) for o in optimizers for g in o.param_groups for p in g["params"]]
        assert sorted(moved) == sorted(id(p) for p in model.parameters())
    muon = make_optimizers(model, Settings())[0]
    assert all(p.ndim == 2 and p is not model.embedding.weight for g in muon.param_groups for p in g["params"])


def test_set_rate():
    optimizers = make_optimizers(Transformer(Config(vocab=9, width=8, n_layer=1, n_head=2, tied=False)), Settings())
    set_rate(optimizers, 0.5)
    assert [g["lr"] for o in optimizers for g in o.param_groups] == [0.01, 0.005, 0.0025]
