"""Attention of a few keys in bfloat16, whose gradients are computed in float32 on the CPU."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.kernels import sdpa


@pytest.mark.parametrize("autocast", [False, True])
def test_gradients_in_bfloat16_are_those_of_float32_rounded_once(
    autocast: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sdpa, "_has_amx", lambda: False)
    torch.manual_seed(0)
    exact = [torch.randn(2, 3, 7, 16).bfloat16().float().requires_grad_() for _ in range(3)]
    half = [x.detach().bfloat16().requires_grad_() for x in exact]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = regard.attention(*half)
    assert output.dtype == torch.bfloat16
    expected = torch.autograd.grad(regard.attention(*exact).square().sum(), exact)
    found = torch.autograd.grad(output.float().square().sum(), half)
    for wide, narrow in zip(expected, found, strict=True):
        # bfloat16 has 8 bits, and the output and its gradient are rounded too.
        assert (wide - narrow.float()).abs().max() <= 2**-6 * wide.abs().max()


def test_the_kernel_runs_in_float32_only_for_gradients_of_few_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sdpa, "_has_amx", lambda: False)
    seen: list[torch.dtype] = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def watched(q: torch.Tensor, *rest: torch.Tensor, **options: object) -> torch.Tensor:
        seen.append(q.dtype)
        return kernel(q, *rest, **options)

    monkeypatch.setattr(sdpa.F, "scaled_dot_product_attention", watched)
    for keys, trained in ((7, True), (7, False), (400, True)):
        q = torch.randn(1, 1, keys, 8, dtype=torch.bfloat16, requires_grad=trained)
        sdpa.fused(q, q, q, 1.0, None, False)
    assert seen == [torch.float32, torch.bfloat16, torch.bfloat16]
