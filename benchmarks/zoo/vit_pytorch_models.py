"""Small models of vit-pytorch, compared with the results of their softmax in float64."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from zoo.judging import Absent, Case, Subject, Truth
from zoo.packages import need, torchvision_stand_in
from zoo.weights import randomise, softmaxes, watched

BATCH = 2
PLAIN = {
    "image_size": 20,
    "patch_size": 4,
    "num_classes": 5,
    "dim": 24,
    "depth": 2,
    "heads": 3,
    "mlp_dim": 16,
}
HEADED = PLAIN | {"dim_head": 8}
MOBILE = {
    "image_size": (64, 64),
    "dims": [24, 24, 24],
    "channels": [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16],
    "num_classes": 5,
}
CROSS = {"image_size": 64, "num_classes": 5, "depth": 1, "sm_dim": 24, "lg_dim": 48, "sm_patch_size": 8}
LEVIT = {
    "image_size": 64,
    "num_classes": 5,
    "stages": 2,
    "dim": (24, 48),
    "depth": 1,
    "heads": (3, 5),
    "mlp_mult": 2,
}
Weights = Callable[[nn.Module, Callable[[], Any]], list[Tensor]]


def of_softmax(model: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    """Return the result of every softmax."""
    with softmaxes() as found:
        call()
    return [_on_four_axes(weights) for weights in found]


def _on_four_axes(weights: Tensor) -> Tensor:
    if weights.ndim != 3:
        return weights.flatten(0, -4)  # (b,h,q,k), or pixels of a patch before the heads
    one_head = weights.shape[0] == BATCH
    return weights[:, None] if one_head else weights.unflatten(0, (BATCH, -1))  # else (b*h,q,k)


def after_talking(model: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    """Return the weights of CaiT, which mixes its heads after the softmax."""
    mixes = [m.mix_heads_post_attn for m in model.modules() if hasattr(m, "mix_heads_post_attn")]
    pairs = zip(of_softmax(model, call), mixes, strict=True)
    return [torch.einsum("bhij,hg->bgij", weights, mix) for weights, mix in pairs]


def after_normalising(model: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    """Return the weights of DeepViT, which mixes and normalises its heads after the softmax."""
    with watched(model, lambda name, _: "output" if name.endswith("reattn_norm") else None) as named:
        call()
    return [weights for _, weights in named]


@dataclass(frozen=True)
class Entry:
    """A model, its sizes, the side of its picture, and the function that gives its weights."""

    module: str
    kind: str
    sizes: dict[str, Any]
    pixels: int = 20
    weights: Weights = of_softmax


ENTRIES = (
    Entry("vit", "ViT", HEADED),
    Entry("simple_vit", "SimpleViT", HEADED),
    Entry("simple_vit_with_register_tokens", "SimpleViT", HEADED),
    Entry("simple_vit_with_qk_norm", "SimpleViT", HEADED),
    Entry("simple_vit_with_value_residual", "SimpleViT", HEADED),
    Entry("simple_vit_with_patch_dropout", "SimpleViT", HEADED),
    Entry("deepvit", "DeepViT", HEADED, weights=after_normalising),
    Entry("cait", "CaiT", HEADED | {"cls_depth": 1}, weights=after_talking),
    Entry("parallel_vit", "ViT", HEADED),
    Entry("vit_for_small_dataset", "ViT", HEADED),
    Entry("learnable_memory_vit", "ViT", HEADED),
    Entry("rvt", "RvT", HEADED),
    Entry("pit", "PiT", HEADED | {"depth": (1, 1)}),
    Entry("mobile_vit", "MobileViT", MOBILE, pixels=64),
    Entry("cross_vit", "CrossViT", CROSS, pixels=64),
    Entry("levit", "LeViT", LEVIT, pixels=64),
    Entry("xcit", "XCiT", HEADED | {"cls_depth": 1, "local_patch_kernel_size": 3}),
    Entry("simple_uvit", "SimpleUViT", HEADED),
)


def cases() -> list[Case]:
    """Yield every model."""
    return [Case("vit-pytorch", entry.module, _builder(entry)) for entry in ENTRIES]


def _builder(entry: Entry) -> Callable[[], Subject]:
    return lambda: build(entry)


def build(entry: Entry) -> Subject:
    """Build a model and a call, with its weights."""
    need("vit_pytorch")
    with torchvision_stand_in():
        try:
            kind = getattr(importlib.import_module(f"vit_pytorch.{entry.module}"), entry.kind)
        except (ImportError, AttributeError) as error:
            raise Absent(f"vit-pytorch does not have it: {error}") from error
    torch.manual_seed(0)
    model = kind(**entry.sizes).double().eval()
    randomise(model)
    sides = (BATCH, 3, entry.pixels, entry.pixels)
    picture = torch.randn(sides, generator=torch.Generator().manual_seed(1)).double()

    @torch.no_grad()
    def call() -> Any:
        return model(picture)

    with torch.no_grad():
        weights = entry.weights(model, call)
    return Subject(model, call, [Truth(x, "self" if x.shape[2] > 1 else None) for x in weights])
