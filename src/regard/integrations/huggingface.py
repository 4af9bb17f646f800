"""Regard's attention inside Hugging Face models, chosen by ``attn_implementation="regard"``.

Importing this module registers the name and a mask function. Without a mask function, Transformers drops the padding
mask silently. Architectures whose attention does not go through Transformers' attention interface raise an error when
the model is built.

>>> from transformers import BertConfig, BertModel  # doctest: +SKIP
>>> from regard.integrations import huggingface  # doctest: +SKIP
>>> model = BertModel.from_pretrained(folder, attn_implementation="regard")  # doctest: +SKIP
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core import attention, attention_with_weights
from regard.errors import ArgumentError, MissingExtraError
from regard.integrations.huggingface_architectures import check_architecture
from regard.masks import Mask, as_mask, causal
from regard.shapes import Grid
from regard.torch_private import supports_sdpa

__all__ = ["NAME", "attention_forward", "register"]

NAME = "regard"


def register() -> None:
    """Register ``attn_implementation="regard"`` with Transformers, if it is not registered yet."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
        from transformers.masking_utils import sdpa_mask  # noqa: F401

        original = PreTrainedModel.get_correct_attn_implementation
    except (ImportError, AttributeError) as error:
        raise MissingExtraError("transformers 5.19 or newer", "hf", 'attn_implementation="regard"') from error
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, mask_of)
    if not hasattr(original, "checks_for_regard"):
        # Transformers accepts any registered name for any model. It calls this method for every model and for every
        # model inside it, when they are built and when the implementation is changed.
        PreTrainedModel.get_correct_attn_implementation = _checking(original)


def _checking(original: Any) -> Any:
    """Return Transformers' method that chooses an implementation, with a check of the architecture after it."""

    @functools.wraps(original)
    def choose(model: Any, *arguments: Any, **options: Any) -> str:
        chosen = original(model, *arguments, **options)
        if chosen == NAME:
            check_architecture(type(model))
            if not supports_sdpa(model):
                _MASKED.add(type(model.config))
        return chosen

    choose.checks_for_regard = True  # type: ignore[attr-defined]
    return choose


_MASKED: set[type] = set()
"""Configs of models without support for torch's fused attention, whose attribute ``is_causal`` may be wrong."""


def mask_of(*arguments: Any, config: Any = None, **options: Any) -> Tensor | None:
    """Make a boolean mask in which True may be attended, as everywhere in Regard.

    Transformers leaves out a mask that is only causal or hides nothing, and relies on the module's ``is_causal``. For
    models that do not support torch's fused attention, ``is_causal`` may be wrong, so the mask is always made.
    """
    from transformers.masking_utils import sdpa_mask

    if type(config) in _MASKED:
        options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return sdpa_mask(*arguments, config=config, **options)


_WITHOUT_EFFECT = {
    # These are part of the mask already.
    "sliding_window",
    "position_ids",
    "cache_position",
    # These select the outputs of a model.
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "return_dict",
    "use_cache",
    "logits_to_keep",
    "num_items_in_batch",
    # Only the kernels of flash attention use these.
    "deterministic",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
}


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention with the arguments of Transformers' attention interface.

    ``query``, ``key`` and ``value`` are ``(b,h,n,d)``, where keys and values may have fewer heads. The output is
    ``(b,q,h,d)``. The weights are returned if ``output_attentions`` is true, and None otherwise.

    softcap
        Scores are limited to ``softcap * tanh(score / softcap)``.
    s_aux
        The score of an attention sink, one number per head. The sink takes part in the softmax and has no value.
    indices, block_indices
        Keys ``(b,q,n)``, or blocks of keys ``(b,h or fewer,q,n)``, to which each query is restricted.
    """
    _check_options(attention_mask, options)
    queries = query.shape[2]
    wants_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    mask: Mask | Tensor | None = attention_mask
    if attention_mask is None and wants_causal and queries > 1:
        # The unused positions of a static cache are cut off.
        key, value = key[:, :, :queries], value[:, :, :queries]
        position_bias = None if position_bias is None else position_bias[..., :queries]
        mask = causal()
    for chosen in (_chosen_keys(indices, key), _chosen_blocks(block_indices, module, query, key)):
        mask = mask if chosen is None else _both(mask, chosen)
    bias = position_bias
    if s_aux is not None:
        key, value, mask, bias = _with_sink(query, key, value, mask, bias, s_aux)
    given: dict[str, Any] = {"mask": mask, "bias": bias, "scale": scaling, "dropout": dropout}
    if softcap is not None:
        given |= {
            "score": _Capped(softcap, query.shape[-1] ** -0.5 if scaling is None else scaling),
            "scale": None,
        }
    weights = None
    if options.get("output_attentions"):
        out, weights = attention_with_weights(query, key, value, **given)
        weights = weights if s_aux is None else weights[..., :-1]
    else:
        out = attention(query, key, value, **given)
    return out.transpose(1, 2).contiguous(), weights  # (b,q,h,d)


def _check_options(attention_mask: Tensor | None, options: dict[str, Any]) -> None:
    """Raise ArgumentError for a keyword that changes attention in a way that is not computed here."""
    given = {name for name, value in options.items() if value is not None}
    unknown = given - _WITHOUT_EFFECT
    # Packed sequences need a mask that separates them.
    if attention_mask is None and "cu_seq_lens_q" in given:
        unknown = {"cu_seq_lens_q"}
    if unknown:
        problem = f'"{NAME}" does not compute {", ".join(sorted(unknown))}'
        raise ArgumentError("attn_implementation", problem, 'use "eager" for this model')


class _Capped:
    """A dot-product score that is limited by a hyperbolic tangent (soft cap)."""

    def __init__(self, cap: float, scale: float):
        self.cap, self.scale = cap, scale

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return self.cap * torch.tanh(q @ k.transpose(-2, -1) * (self.scale / self.cap))  # (b,h,q,k)


def _both(mask: Mask | Tensor | None, chosen: Tensor) -> Mask | Tensor:
    """Return the mask restricted to the chosen pairs, ``(b,h or 1,q,k)``."""
    if isinstance(mask, Tensor) and mask.is_floating_point():
        return mask.masked_fill(~chosen, float("-inf"))
    return as_mask(chosen) if mask is None else as_mask(chosen) & mask


def _chosen_keys(indices: Tensor | None, key: Tensor) -> Tensor | None:
    if indices is None:
        return None
    empty = torch.zeros(*indices.shape[:2], key.shape[2] + 1, dtype=torch.bool, device=key.device)
    places = indices.long().masked_fill(indices < 0, key.shape[2])  # -1 is no key
    return empty.scatter(-1, places, True)[:, None, :, :-1]  # (b,1,q,k)


def _chosen_blocks(indices: Tensor | None, module: nn.Module, query: Tensor, key: Tensor) -> Tensor | None:
    if indices is None:
        return None
    size = getattr(getattr(module, "indexer", None), "block_size", None)
    if not isinstance(size, int):
        problem = f'"{NAME}" cannot tell the size of the blocks of a {type(module).__name__}'
        raise ArgumentError("attn_implementation", problem, 'use "eager" for this model')
    blocks = -(-key.shape[2] // size)
    empty = torch.zeros(*indices.shape[:3], blocks + 1, dtype=torch.bool, device=key.device)
    chosen = empty.scatter(-1, indices.long().masked_fill(indices < 0, blocks), True)[
        ..., :-1
    ]  # (b,g,q,blocks)
    chosen = chosen.repeat_interleave(size, dim=-1)[..., : key.shape[2]]
    return chosen.repeat_interleave(query.shape[1] // chosen.shape[1], dim=1)  # (b,h,q,k)


def _with_sink(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None, bias: Tensor | None, sink: Tensor
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Add the sink as a last key of zeros with a value of zeros, whose score is the bias."""
    grid = Grid(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    column = F.pad(sink.reshape(1, -1, 1, 1).float(), (grid.k, 0))  # (1,h,1,k+1)
    bias = column if bias is None else F.pad(bias, (0, 1)) + column
    if isinstance(mask, Mask):
        mask = mask.dense(grid, query.device)  # (b or 1,h or 1,q,k)
    if mask is not None:
        mask = F.pad(mask, (0, 1), value=0.0 if mask.is_floating_point() else True)
    return F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1)), mask, bias


register()
