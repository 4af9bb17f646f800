"""Models of timm, small or with small pictures, with timm's own attention and with torch's fused attention.

The truth is the input of the dropout of the weights, or the result of the softmax if there is no such module, in a
float64 copy without fused attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from zoo.judging import Absent, Case, Subject, Truth
from zoo.packages import need, torchvision_stand_in
from zoo.weights import randomise, softmaxes, watched

BATCH = 2
TINY = {"img_size": 32, "depth": 2, "embed_dim": 24, "num_heads": 3}
SHALLOW = {"img_size": 64, "depth": 2}
SMALL = {"img_size": 64}


@dataclass(frozen=True)
class Entry:
    """A model of timm, its sizes, and the function that makes maps of its weights."""

    name: str
    sizes: dict[str, Any] = field(default_factory=dict)
    pixels: int = 64
    by_softmax: bool = False  # whether it has no module for the dropout of the weights
    as_map: Callable[[Tensor], Tensor] = lambda weights: weights


def windows_third(weights: Tensor) -> Tensor:
    """Reshape ``(b,h,windows,q,k)`` to ``(b*windows,h,q,k)``."""
    return weights.transpose(1, 2).flatten(0, 1) if weights.ndim == 5 else weights


def windows_second(weights: Tensor) -> Tensor:
    """Reshape ``(b,windows,h,q,k)`` to ``(b*windows,h,q,k)``."""
    return weights.flatten(0, 1) if weights.ndim == 5 else weights


def one_head(weights: Tensor) -> Tensor:
    """Reshape ``(b,q,k)`` to ``(b,1,q,k)``."""
    return weights[:, None]


ENTRIES = (
    *(
        Entry(name, TINY, 32)
        for name in (
            "vit_tiny_patch16_224",
            "deit_tiny_distilled_patch16_224",
            "beit_base_patch16_224",
            "eva02_tiny_patch14_224",
            "cait_xxs24_224",
            "convit_tiny",
            "visformer_tiny",
            "vit_relpos_small_patch16_224",
            "vit_srelpos_small_patch16_224",
            "xcit_nano_12_p16_224",
            "naflexvit_base_patch16_gap",
            "vit_tiny_r_s16_p8_224",
            "flexivit_small",
            "vit_small_patch16_dinov3",
            "vit_base_patch16_rope_reg1_gap_256",
        )
    ),
    Entry("samvit_base_patch16_224", TINY, 32, as_map=lambda x: x.unflatten(0, (BATCH, 3))),
    *(
        Entry(name, SHALLOW)
        for name in (
            "swin_tiny_patch4_window7_224",
            "swinv2_tiny_window8_256",
            "swinv2_cr_tiny_224",
            "tnt_s_legacy_patch16_224",
            "vitamin_small_224",
        )
    ),
    *(
        Entry(name, SMALL)
        for name in ("gcvit_xxtiny", "maxvit_tiny_tf_224", "pit_ti_224", "twins_pcpvt_small", "caformer_s18")
    ),
    Entry("nest_tiny", SMALL, as_map=windows_third),
    Entry("twins_svt_small", SMALL, as_map=windows_second),
    Entry("volo_d1_224", SMALL, as_map=windows_third),
    Entry("mobilevit_xxs", SMALL),
    Entry("mobilevitv2_050", SMALL),
    Entry("coatnet_nano_rw_224", SMALL),
    Entry("crossvit_9_240"),
    Entry("edgenext_xx_small"),
    Entry("nextvit_small"),
    Entry("pvt_v2_b0"),
    Entry("fastvit_sa12"),
    Entry("iformer_t", as_map=one_head),
    Entry("hiera_tiny_224", SMALL, by_softmax=True, as_map=windows_third),
    Entry("levit_128s", SMALL, by_softmax=True),
    Entry("mvitv2_tiny", SMALL, by_softmax=True),
    Entry("davit_tiny", by_softmax=True),
    Entry("tiny_vit_5m_224", by_softmax=True),
    Entry("efficientvit_m0", SMALL, by_softmax=True, as_map=one_head),
    Entry("vit_base_patch16_siglip_224", TINY, 32, by_softmax=True),
    Entry("efficientformer_l1", pixels=224, by_softmax=True),
    Entry("botnet26t_256", SMALL, by_softmax=True, as_map=lambda x: x.unflatten(0, (BATCH, -1))),
)


def cases() -> list[Case]:
    """Yield every model with timm's own attention and with torch's."""
    return [
        Case("timm", f"{entry.name}, {how}", _builder(entry, how))
        for entry in ENTRIES
        for how in ("eager", "fused")
    ]


def _builder(entry: Entry, how: str) -> Callable[[], Subject]:
    return lambda: build(entry, how)


def build(entry: Entry, how: str) -> Subject:
    """Build a model and a call, with the weights of a copy without fused attention."""
    need("timm")
    with torchvision_stand_in():
        import timm  # pyright: ignore[reportMissingImports]
    if not timm.is_model(entry.name):
        raise Absent(f"timm {timm.__version__} does not have it")
    truth_model = _model(timm, entry, fused=False)
    randomise(truth_model)
    model = truth_model
    if how == "fused":
        model = _model(timm, entry, fused=True)
        model.load_state_dict(truth_model.state_dict())
    picture = torch.randn(BATCH, 3, entry.pixels, entry.pixels, generator=torch.Generator().manual_seed(1))

    @torch.no_grad()
    def call(of: nn.Module = model) -> Tensor:
        return of(picture.double())

    maps = [entry.as_map(x) for x in _weights(entry, truth_model, lambda: call(truth_model))]
    return Subject(model, call, [Truth(x, "self" if x.shape[2] > 1 else None) for x in maps])


def _model(timm: Any, entry: Entry, fused: bool) -> nn.Module:
    timm.layers.set_fused_attn(fused)
    torch.manual_seed(0)
    try:
        return timm.create_model(entry.name, num_classes=5, **entry.sizes).double().eval()
    finally:
        timm.layers.set_fused_attn(True)


def _weights(entry: Entry, model: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    if entry.by_softmax:
        with softmaxes() as found:
            call()
        return found
    with watched(model, lambda name, _: "input" if name.endswith("attn_drop") else None) as named:
        call()
    return [weights for _, weights in named]
