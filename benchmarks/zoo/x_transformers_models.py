"""Models of x-transformers with the options of its README.

The truth is the input of the dropout of the weights, or the output of the talking heads after the softmax, in a float64
copy without torch's fused attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from zoo.judging import Case, Subject, Truth
from zoo.packages import need
from zoo.weights import is_causal, randomise, watched

BATCH, TOKENS, TARGETS = 2, 7, 5
SIZES = {"dim": 24, "depth": 2, "heads": 3, "attn_dim_head": 8}

DECODERS: dict[str, dict[str, Any]] = {
    "decoder": {},
    "flash": {"attn_flash": True},
    "rotary": {"rotary_pos_emb": True},
    "flash rotary": {"attn_flash": True, "rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "flash alibi": {"attn_flash": True, "alibi_pos_bias": True},
    "relative bias": {"rel_pos_bias": True},
    "one kv head": {"attn_one_kv_head": True},
    "grouped": {"heads": 6, "attn_kv_heads": 3},
    "qk norm": {"attn_qk_norm": True},
    "qk norm groups": {"attn_qk_norm": True, "attn_qk_norm_groups": 2, "attn_qk_norm_dim_scale": True},
    "sparse top-k": {"attn_sparse_topk": 3},
    "memory keys": {"attn_num_mem_kv": 2},
    "residual attention": {"residual_attn": True},
    "talking heads before": {"attn_pre_talking_heads": True},
    "talking heads after": {"attn_post_talking_heads": True},
    "learned sink": {"attn_head_learned_sink": True},
    "zero key": {"attn_add_zero_kv": True},
    "soft clamp": {"attn_softclamp_logits": True, "attn_logit_softclamp_value": 2.0},
    "sigmoid": {"attn_sigmoid": True},
    "distance": {"attn_l2_distance": True},
    "selective": {"attn_selective": True},
    "contextual positions": {"attn_use_cope": True},
    "data dependent alibi": {"attn_data_dependent_alibi": True},
    "gated values": {"attn_gate_values": True},
    "head scale": {"attn_head_scale": True},
    "macaron": {"macaron": True},
    "shifted tokens": {"shift_tokens": 1},
    "laser": {"attn_laser": True},
    "latent keys": {"attn_use_latent_kv": True, "attn_dim_latent_kv": 8},
}
"""Options of a decoder by the name they go by here."""

SINKS = ("learned sink",)


def cases() -> list[Case]:
    """Yield decoders with their options, encoders, an encoder-decoder and a vision model."""
    made = [Case("x-transformers", name, _decoder_of(name)) for name in DECODERS]
    others = {"encoder": encoder, "flash encoder": flash_encoder, "encoder-decoder": encoder_decoder}
    made += [Case("x-transformers", name, build) for name, build in others.items()]
    return [*made, Case("x-transformers", "vision", vision)]


def _decoder_of(name: str) -> Callable[[], Subject]:
    return lambda: decoder(name)


def decoder(name: str) -> Subject:
    """Build a language model with some of the options."""
    need("x_transformers")
    from x_transformers import Decoder  # pyright: ignore[reportMissingImports]

    options = DECODERS[name]
    ids = _ids(TOKENS)
    return _subject(
        lambda flash: _language_model(Decoder, options | ({} if flash else {"attn_flash": False})),
        lambda model: model(ids),
        flash=options.get("attn_flash", False),
        sink=name in SINKS,
    )


def encoder(flash: bool = False) -> Subject:
    """Build an encoder with a padded batch."""
    need("x_transformers")
    from x_transformers import Encoder  # pyright: ignore[reportMissingImports]

    ids, mask = _ids(TOKENS), torch.ones(BATCH, TOKENS, dtype=torch.bool)
    mask[1, -2:] = False
    return _subject(
        lambda fused: _language_model(Encoder, {"attn_flash": fused}),
        lambda model: model(ids, mask=mask),
        flash=flash,
    )


def flash_encoder() -> Subject:
    """Build the same encoder with torch's fused attention."""
    return encoder(flash=True)


def encoder_decoder() -> Subject:
    """Build a translator, as in the README."""
    need("x_transformers")
    from x_transformers import XTransformer  # pyright: ignore[reportMissingImports]

    sizes = {"num_tokens": 97, "depth": 2, "heads": 3, "attn_dim_head": 8, "max_seq_len": 64}
    named = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in sizes.items()}
    source, target = _ids(TOKENS), _ids(TARGETS + 1)  # the loss shifts the target by one
    return _subject(
        lambda flash: XTransformer(dim=24, **named),
        lambda model: model(source, target),
        cross=(TARGETS, TOKENS),
    )


def vision() -> Subject:
    """Build a classifier of pictures."""
    need("x_transformers")
    from x_transformers import Encoder, ViTransformerWrapper  # pyright: ignore[reportMissingImports]

    picture = torch.randn(BATCH, 3, 20, 20, generator=torch.Generator().manual_seed(1)).double()
    return _subject(
        lambda flash: ViTransformerWrapper(
            image_size=20, patch_size=4, num_classes=5, attn_layers=Encoder(**SIZES)
        ),
        lambda model: model(picture),
    )


def _language_model(kind: Any, options: dict[str, Any]) -> nn.Module:
    from x_transformers import TransformerWrapper  # pyright: ignore[reportMissingImports]

    return TransformerWrapper(num_tokens=97, max_seq_len=64, attn_layers=kind(**(SIZES | options)))


def _subject(
    make: Callable[[bool], nn.Module],
    call: Callable[[nn.Module], Any],
    *,
    flash: bool = False,
    sink: bool = False,
    cross: tuple[int, int] | None = None,
) -> Subject:
    truth_model, model = (make(fused).double().eval() for fused in (False, flash))
    randomise(truth_model)
    model.load_state_dict(truth_model.state_dict())
    with torch.no_grad(), watched(truth_model, _weights_of) as named:
        call(truth_model)
    truths = [_truth(weights, cross, sink) for weights in _last_of_each_call(named)]

    @torch.no_grad()
    def run() -> Any:
        return call(model)

    return Subject(model, run, truths)


def _weights_of(name: str, module: nn.Module) -> str | None:
    if name.endswith("attend.post_softmax_talking_heads"):
        return "output"
    return "input" if name.endswith("attend.attn_dropout") else None


def _last_of_each_call(named: list[tuple[str, Tensor]]) -> list[Tensor]:
    """Return the last weights of each attention call, after its talking heads if it has them."""
    following = [*(name for name, _ in named[1:]), ""]
    return [
        weights
        for (_, weights), after in zip(named, following, strict=True)
        if not after.endswith("post_softmax_talking_heads")
    ]


def _truth(weights: Tensor, cross: tuple[int, int] | None, sink: bool) -> Truth:
    if cross is not None and weights.shape[-1] == cross[1] != weights.shape[-2]:
        return Truth(weights, "cross", sink=sink)
    return Truth(weights, "causal" if is_causal(weights) else "self", sink=sink)


def _ids(n: int) -> Tensor:
    return torch.randint(3, 97, (BATCH, n), generator=torch.Generator().manual_seed(n))
