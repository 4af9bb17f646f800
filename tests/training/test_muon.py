"""Tests of the Muon optimizer against its definition, and of its state in checkpoints."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.models import LanguageModel, LanguageModelConfig
from regard.training import TrainingOptions, train
from regard.training.muon import Muon, orthogonalised
from regard.training.optimizer import make_optimizer
from support.training_runs import Toy, ToyTask, digests, options


class DeepToy(Toy):
    """The toy with two matrices inside, one of them tall."""

    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.wide, self.tall = nn.Linear(5, 7), nn.Linear(7, 5)

    def hidden(self, words):
        return super().hidden(words) + self.tall(self.wide(super().hidden(words)).tanh())


def deep_toy(dropout=0.0):
    torch.manual_seed(3)
    return DeepToy(dropout)


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (1, 5)])
def test_the_singular_values_become_nearly_1_and_the_vectors_stay(shape):
    torch.manual_seed(1)
    matrices = torch.randn(5, *shape)
    u, s, vh = torch.linalg.svd(matrices, full_matrices=False)
    assert (s.amax(dim=1) / s.amin(dim=1)).max() < 60
    found = u.mT @ orthogonalised(matrices) @ vh.mT  # diagonal in the old vectors
    values = found.diagonal(dim1=1, dim2=2)
    assert (values > 0.3).all()
    assert (values < 1.35).all()
    assert (found - torch.diag_embed(values)).abs().max() < 0.1
    assert orthogonalised(torch.zeros(1, *shape)).eq(0).all()


def test_an_update_follows_the_definition():
    torch.manual_seed(2)
    p, gradients = nn.Parameter(torch.randn(3, 5)), torch.randn(2, 3, 5)
    before = p.detach().clone()
    optimizer = Muon([p], [], lr=0.1, momentum=0.9, weight_decay=0.5)
    held = update = torch.zeros(3, 5)
    for gradient in gradients:
        p.grad = gradient.clone()
        optimizer.step()
        held = 0.9 * held + 0.1 * gradient
        ahead = 0.9 * held + 0.1 * gradient
        update = orthogonalised(ahead[None])[0] * 0.2 * 5**0.5
        before = before * (1 - 0.1 * 0.5) - 0.1 * update
    torch.testing.assert_close(p.detach(), before)
    # The size of an update is that of AdamW, about 0.2 for each number.
    assert 0.1 < update.square().mean().sqrt() < 0.25


def test_muon_takes_the_matrices_of_the_blocks_alone():
    model = LanguageModel(LanguageModelConfig(vocabulary_size=11, width=8, heads=2, layers=1))
    optimizer = make_optimizer(model, TrainingOptions(steps=1, optimizer="muon"))
    assert isinstance(optimizer, Muon)
    names = {p: name for name, p in model.named_parameters()}
    taken = {names[p] for p in optimizer.matrices["params"]}
    block = "decoder.layers.0"
    projections = {f"{block}.self_attention.W_{part}.weight" for part in "qkvo"}
    assert taken == projections | {f"{block}.feed_forward.{part}.weight" for part in ("widen", "narrow")}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(held) == len(set(held)) == len(list(model.parameters()))
    untied = LanguageModel(
        LanguageModelConfig(vocabulary_size=11, width=8, heads=2, layers=1, tied_output=False)
    )
    others = make_optimizer(untied, TrainingOptions(steps=1, optimizer="muon"))
    assert untied.output.weight not in set(others.param_groups[0]["params"])


def test_a_run_with_muon_resumes_exactly(tmp_path):
    values = options(steps=12, save_every=1, keep=99, optimizer="muon")
    train(deep_toy(0.3), ToyTask(), values, tmp_path / "whole", show=False)
    train(deep_toy(0.3), ToyTask(signal_at=5), values, tmp_path / "parts", show=False)
    train(deep_toy(0.3), ToyTask(), values, tmp_path / "parts", resume=True, show=False)
    assert digests(tmp_path / "parts", numbers=False) == digests(tmp_path / "whole", numbers=False)
    plain = options(steps=12, save_every=1, keep=99)
    train(deep_toy(0.3), ToyTask(), plain, tmp_path / "plain", show=False)
    assert digests(tmp_path / "plain", numbers=False) != digests(tmp_path / "whole", numbers=False)
