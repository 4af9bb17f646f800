"""Regard's attention inside Hugging Face models: ``attn_implementation="regard"``.

Importing this module registers the name, together with a mask function: without one, Transformers drops the
padding mask and says nothing.

>>> from transformers import BertConfig, BertModel  # doctest: +SKIP
>>> from regard.capture import hf  # doctest: +SKIP
>>> model = BertModel.from_pretrained(folder, attn_implementation="regard")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.core import attention, attention_with_weights
from regard.errors import ArgumentError, MissingExtraError
from regard.masks import Mask, causal

__all__ = ["NAME", "attention_forward", "register"]

NAME = "regard"
_REFUSED = {
    "softcap": "scores cannot be capped",
    "s_aux": "attention sinks are not supported",
    "cache": "paged caches are not supported",
}


def register() -> None:
    """Tell Transformers of ``attn_implementation="regard"``; doing so twice does no harm."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise MissingExtraError("transformers 4.53 or newer", "hf", 'attn_implementation="regard"') from error
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)  # True may be attended, as everywhere in Regard


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
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention as Transformers calls it: ``(b,h,n,d)`` in, ``(b,q,h,d)`` out, and the weights if asked for.

    Keys and values of grouped heads are taken as they are.
    """
    for name, problem in _REFUSED.items():
        if options.get(name) is not None:
            raise ArgumentError("attn_implementation", f'"regard": {problem}', 'use "eager" for this model')
    queries = query.shape[2]
    wants_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    mask: Mask | Tensor | None = attention_mask
    if attention_mask is None and wants_causal and queries > 1:
        key, value = key[:, :, :queries], value[:, :, :queries]  # the free places of a static cache
        position_bias = None if position_bias is None else position_bias[..., :queries]
        mask = causal()
    given: dict[str, Any] = {"mask": mask, "bias": position_bias, "scale": scaling, "dropout": dropout}
    weights = None
    if options.get("output_attentions"):
        out, weights = attention_with_weights(query, key, value, **given)
    else:
        out = attention(query, key, value, **given)
    return out.transpose(1, 2).contiguous(), weights  # (b,q,h,d)


register()
