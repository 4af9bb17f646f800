"""Checks by source code whether a Hugging Face architecture can run on Regard's attention."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys

from regard.errors import ArgumentError
from regard.torch_private import supports_sdpa

__all__ = ["check_architecture"]

_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_HONOURED = {
    *("query", "key", "value", "attention_mask", "dropout", "scaling", "is_causal", "position_bias"),
    *("softcap", "s_aux", "indices", "block_indices", "sliding_window", "position_ids", "output_attentions"),
    *("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "deterministic"),
}

_SOFTMAX = re.compile(r"softmax\(|Softmax\(|scaled_dot_product_attention\(")
_WITH_OWN_MASKS = {"transformers.models.longt5.modeling_longt5"}
"""Modules that do not support torch's fused attention, although their classes of attention make their own masks."""


def check_architecture(model: type) -> None:
    """Raise ArgumentError unless all attention of a model class goes through Transformers' attention interface.

    A model that computes its attention by itself accepts any registered name, and loses its mask.
    """
    problem = _problem(model.__module__)
    if not problem and not supports_sdpa(model):
        own = _own_attention(model.__module__)
        problem = f"{own} computes its attention itself, and expects masks of another kind" if own else ""
    if problem:
        raise ArgumentError(
            "attn_implementation", f'"regard" cannot be used by {model.__name__}: {problem}', 'use "eager"'
        )


def _source(module_name: str) -> str:
    module = sys.modules.get(module_name)
    try:
        return inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        return ""


@functools.lru_cache(maxsize=1024)
def _problem(module_name: str) -> str:
    """Return the reason why the models of a module cannot be used, or an empty text."""
    source = _source(module_name)
    if not source:
        return "its source code cannot be read, to see whether its attention can be replaced"
    tables = set(re.findall(r"(\w+)\[[\w.]*\b_?attn_implementation\]", source)) - {_INTERFACE}
    if tables:
        return f"it chooses its attention from {sorted(tables)[0]}, which has no entry for other functions"
    has_attention = re.search(r"^class \w*Attention\w*\(nn\.Module\):", source, re.MULTILINE)
    if has_attention and f"{_INTERFACE}." not in source and f"{_INTERFACE}[" not in source:
        return "its attention is not routed through Transformers' attention interface"
    unknown = _keywords(source) - _HONOURED
    if unknown:
        return f"its attention is given {', '.join(sorted(unknown))}, which is not computed here"
    return ""


def _keywords(source: str) -> set[str]:
    """Return the names of the keywords with which a source calls the attention interface."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    found = [
        call for call in calls if isinstance(call.func, ast.Name) and "attention_interface" in call.func.id
    ]
    return {keyword.arg for call in found for keyword in call.keywords if keyword.arg is not None}


@functools.lru_cache(maxsize=1024)
def _own_attention(module_name: str) -> str:
    """Return the first attention class of a module that computes a softmax itself, or an empty text.

    Such a class does not call the attention interface, for which the masks are made.
    """
    if module_name in _WITH_OWN_MASKS:
        return ""
    source = _source(module_name)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and "Attention" in node.name:
            code = ast.get_source_segment(source, node) or ""
            if _SOFTMAX.search(code) and "attention_interface" not in code and _INTERFACE not in code:
                return node.name
    return ""
