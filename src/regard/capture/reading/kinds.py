"""The kind of an attention, which is self, causal or cross."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.capture.reading.tensor_subclasses import is_wrapper
from regard.torch_private import parameters_of, parts_of

__all__ = [
    "attribute",
    "has_another_duty",
    "is_attention",
    "is_called_attention",
    "is_cross",
    "kind_of",
    "may_be_whole_attention",
    "sequences_in",
]

# CrossFormer is a model with self-attention, and cross-covariance attention is between channels.
_OTHER = re.compile(
    r"cross(?!_?former|_?cov)|encoder_attn|enc_?dec|encoder_?decoder|multihead_attn|src_attn", re.IGNORECASE
)
_OWN = re.compile(r"self_?attn|self_?attention|^self$", re.IGNORECASE)
_ATTENTION = re.compile(
    r"attention|attn|attend(?!ance)|(?<![a-z])mhs?a(?![a-z])|(?-i:MHS?A(?![a-z])|GAT(?:v\d|(?![a-z])))",
    re.IGNORECASE,
)
# The last word of the name of a norm, a mask or another part beside an attention, such as attn_norm1.
_HELPER = re.compile(
    r"(?:norm|ln|drop|dropout|drop_?path|scale|mask|bias|pos|positions?|embeddings?|rotary|rope|s?conv|mlp|ffn)_?\d*$",
    re.IGNORECASE,
)
_OTHER_DUTY = re.compile(r"router|gate|gating|expert|moe|mlp|ffn|feed_?forward|classif|quanti", re.IGNORECASE)
_NO_SEQUENCE = re.compile(
    r"mask|bias|pos|rotary|cos|sin|freq|rope|cache|past|(?<!hidden_)state|prev|scale", re.IGNORECASE
)
_NO_QUERIES = re.compile(r"weight|bias|proj|pos|table|scale|gamma|gate|mix|mem|sink", re.IGNORECASE)
# Arguments by which an attention is given another sequence.
_FOREIGN = (
    "key_value_states",
    "encoder_hidden_states",
    "cross_hidden_states",
    "cross_attention_states",
    "encoder_output",
    "memory",
    "context",
)


def is_cross(
    module: nn.Module,
    name: str,
    arguments: Mapping[str, Any],
    around: Iterable[tuple[nn.Module, Mapping[str, Any]]] = (),
) -> bool | None:
    """Return whether an attention has keys of another sequence, or None if that is unknown.

    The arguments count more than the name, and the numbers in them do not count. The same sequence as query and key
    is self-attention under any name. Two tensors may be made of one sequence, which the modules ``around`` the
    attention show by their own arguments, innermost first.

    >>> import torch
    >>> attend, x, y = nn.MultiheadAttention(4, 2), torch.ones(5, 1, 4), torch.zeros(7, 1, 4)
    >>> is_cross(attend, "layer", {"query": x, "key": x}), is_cross(attend, "layer", {"query": x, "key": y})
    (False, True)
    >>> is_cross(attend, "layer", {"query": x, "key": y}, [(nn.Identity(), {"x": y})])
    False
    """
    if attribute(module, "is_cross_attention") is True:
        return True
    query, key = arguments.get("query"), arguments.get("key")
    if isinstance(query, Tensor) and isinstance(key, Tensor) and _same(key, query):
        return False
    if _another(arguments):
        return True
    by_name = _by_its_name(name, type(module).__name__)
    if by_name is not None:
        return by_name
    if isinstance(query, Tensor):
        return not _made_of_one_sequence(query, key, around) if isinstance(key, Tensor) else key is not None
    return False if _is_given_one_sequence(module, arguments) else None


def attribute(module: nn.Module, name: str) -> object:
    """Return an attribute that is neither a tensor nor a module, or None if there is none.

    It is faster than ``getattr``, for which ``nn.Module`` searches all its parts.

    >>> attribute(nn.Linear(2, 3), "in_features"), attribute(nn.Linear(2, 3), "num_heads")
    (2, None)
    """
    own = module.__dict__
    if name in own:
        return own[name]
    if hasattr(type(module), name) or isinstance(module, torch.jit.ScriptModule):
        return getattr(module, name, None)
    return None


def _made_of_one_sequence(
    query: Tensor, key: Tensor, around: Iterable[tuple[nn.Module, Mapping[str, Any]]]
) -> bool:
    """Return whether the modules around an attention show that its query and key were made of one sequence.

    A module decides if it was given a single sequence, and has or has not learned queries, or if only one of its
    sequences has the sizes of query and key. A module that was given other sequences passes the question on.
    """
    sizes = query.shape[:-1]
    for module, arguments in around:
        given = sequences_in(arguments)
        count = len(given) + sum(_holds_tokens(at, x) for at, x in arguments.items())
        if given and count == 1 and not given.keys() & set(_FOREIGN):
            return not any(map(_has_learned_queries, _with_parts(module)))
        if sizes == key.shape[:-1] and [x.shape[:-1] for x in given.values()].count(sizes) == 1:
            return True
        if _another(arguments):
            return False
    return False


def _holds_tokens(name: str, x: Any) -> bool:
    """Return whether an argument is a tensor of token ids."""
    is_ids = isinstance(x, Tensor) and x.ndim > 1 and not (x.is_floating_point() or x.dtype == torch.bool)
    return is_ids and not _names_no_sequence(name) and "type" not in name


def _is_given_one_sequence(module: nn.Module, arguments: Mapping[str, Any]) -> bool:
    """Return whether a module was given a single sequence and has no learned queries."""
    if "hidden_states" in arguments:
        return True
    given = list(sequences_in(arguments))
    return len(given) == 1 and given[0] not in _FOREIGN and not _has_learned_queries(module)


def _with_parts(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a module and the parts that may hold learned queries, which are neither attentions nor layers of torch."""
    yield module
    for name, part in parts_of(module).items():
        is_layer = type(part).__module__.startswith("torch.nn.modules.") and not _is_container(part)
        if part is not None and not is_layer and not is_attention(part, name):
            yield from _with_parts(part)


def _is_container(module: nn.Module | None) -> bool:
    return isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict)


def _has_learned_queries(module: nn.Module) -> bool:
    """Return whether a parameter of a module, or an embedding that is a part of it, may be learned queries."""
    own = [at for at, x in parameters_of(module).items() if x is not None and x.ndim > 1]
    own += [at for at, part in parts_of(module).items() if isinstance(part, nn.Embedding)]
    return not all(_NO_QUERIES.search(at) for at in own)


def sequences_in(arguments: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the arguments that may be sequences of vectors, by name. Masks and biases are left out."""
    return {
        at: x
        for at, x in arguments.items()
        if isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 2 and not _names_no_sequence(at)
    }


@functools.lru_cache(maxsize=8192)
def _names_no_sequence(name: str) -> bool:
    return _NO_SEQUENCE.search(name) is not None


@functools.lru_cache(maxsize=8192)
def _by_its_name(name: str, kind: str) -> bool | None:
    tail = name.split(".")[-3:]
    if any(_OTHER.search(part) for part in (*tail, kind)):
        return True
    # Queries and keys may still differ, since positions were added or some queries were left out.
    if any(_OWN.search(part) for part in tail[-2:]):
        return False
    return None


def _another(arguments: Mapping[str, Any]) -> bool:
    """Return whether an argument with a name of _FOREIGN is another sequence than the first argument."""
    if not any(isinstance(arguments.get(name), Tensor) for name in _FOREIGN):
        return False
    given = {at: x for at, x in arguments.items() if isinstance(x, Tensor) and x.is_floating_point()}
    own = next((x for at, x in given.items() if at not in _FOREIGN), None)
    others = [x for at, x in given.items() if at in _FOREIGN]
    return own is not None and any(x.ndim == own.ndim and not _same(x, own) for x in others)


def _same(one: Any, other: Any) -> bool:
    """Return whether two arguments are the same tensor, or one of them is a view of the other.

    Two parts of a tensor side by side are not, since a model may join two sequences in one tensor.
    """
    if one is other:
        return True
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or is_wrapper(one) or is_wrapper(other):
        return False
    if (
        one.layout is not torch.strided
        or other.layout is not torch.strided
        or not one.numel() * other.numel()
    ):
        return False
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    (start, end), (first, last) = _range(one), _range(other)
    return (start <= first and last <= end) or (first <= start and end <= last)


def _range(x: Tensor) -> tuple[int, int]:
    """Return the first and the last place of a tensor in its storage."""
    start = int(x.storage_offset())
    return start, start + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))


def kind_of(cross: bool | None, causal: bool, grows: bool, q: int, k: int) -> str:
    """Return the kind of an attention, ``"self"``, ``"causal"`` or ``"cross"``.

    ``grows`` says that its keys grow from step to step.

    >>> kind_of(None, False, False, 5, 7), kind_of(None, True, False, 5, 5), kind_of(False, False, False, 5, 5)
    ('cross', 'causal', 'self')
    """
    if cross:
        return "cross"
    if causal or grows:
        return "causal"
    return "cross" if cross is None and q != k else "self"


def is_attention(module: nn.Module, name: str) -> bool:
    """Return whether the name or the class of a module says that it is an attention.

    >>> is_attention(nn.MultiheadAttention(4, 2), "mixer"), is_attention(nn.Linear(2, 2), "head")
    (True, False)
    """
    if isinstance(module, nn.MultiheadAttention):
        return True
    return is_called_attention(name, _class_name(module))


@functools.lru_cache(maxsize=8192)
def is_called_attention(name: str, kind: str) -> bool:
    """Return whether the name of a module or of its class contains a word for attention.

    >>> is_called_attention("layers.0.attn", "Mixer"), is_called_attention("layers.0.mixer", "Mixer")
    (True, False)
    """
    return _speaks(_ATTENTION, name, kind)


def may_be_whole_attention(module: nn.Module, name: str) -> bool:
    """Return whether a module with a word for attention in its name may be one, and not a norm or a mask beside one.

    >>> class AttentionNorm(nn.Module): ...
    >>> class FlashAttention(nn.Module): ...
    >>> may_be_whole_attention(AttentionNorm(), "attn"), may_be_whole_attention(FlashAttention(), "attn")
    (False, True)
    """
    kind = _class_name(module)
    if _HELPER.search(kind) or _HELPER.search(name.rpartition(".")[2]):
        return False
    # A norm and the kernel of an attention have no matrix, and differ in the names of their classes.
    return is_called_attention("", kind) or any(x.ndim > 1 for x in module.parameters())


def has_another_duty(module: nn.Module, name: str) -> bool:
    """Return whether a module has the name of another part that computes a softmax, such as a router.

    >>> has_another_duty(nn.Identity(), "attention.router"), has_another_duty(nn.Identity(), "attention.core")
    (True, False)
    """
    return _speaks(_OTHER_DUTY, name, _class_name(module))


def _class_name(module: nn.Module) -> str:
    return module.original_name if isinstance(module, torch.jit.ScriptModule) else type(module).__name__


def _speaks(words: re.Pattern[str], name: str, kind: str) -> bool:
    return bool(words.search(kind) or words.search(name.rpartition(".")[2]))
