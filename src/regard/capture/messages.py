"""Errors and warnings of a capture that found no attention, or not all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.capture.joining.doubts import Doubt
from regard.capture.joining.ids_of_tokens import rival_ids
from regard.capture.joining.memory_budget import MemoryBudget, bytes_as_text
from regard.capture.reading.attention_calls import without_numbers
from regard.errors import ArgumentError, CaptureError, DtypeError
from regard.shapes import axes
from regard.torch_private import attention_implementation

if TYPE_CHECKING:
    from regard.capture.joining.call_chains import CallChain
    from regard.capture.joining.collector import Collector
    from regard.capture.watching.session import Session
    from regard.capture.watching.unseen_attention import UnseenAttention

__all__ = [
    "check_layers",
    "check_model",
    "doubtful_weights_warning",
    "dropped_warning",
    "ended_in_other_thread_error",
    "guessed_axes_warning",
    "no_attention_error",
    "ran_in_other_thread_error",
    "rival_ids_warning",
    "unjoined_steps_warning",
    "unseen_warning",
]

_UNSEEN = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention")
# The number of modules that a warning names.
_NAMED = 12
_DOUBTS = {
    Doubt.NOT_MULTIPLIED: (
        "as the softmax gives them, but are not seen to multiply the values: the model may change them first"
    ),
    Doubt.USED_TWICE: (
        "as they are first used, but the model multiplies values with another form of them as well: "
        "the records are not the whole attention"
    ),
    Doubt.PART_OF_KEYS: (
        "for a part of the keys each: the same queries attend to other keys in another call, as in ring attention, so "
        "that rows sum to 1 over a part of the keys"
    ),
}


def check_model(model: object) -> None:
    """Raise an error for a model that cannot be captured."""
    if not isinstance(model, nn.Module):
        inner = next((a for a in ("model", "module") if isinstance(getattr(model, a, None), nn.Module)), None)
        hint = f"pass its .{inner}" if inner else "pass the module whose forward is called"
        raise DtypeError("model", f"expected an nn.Module, got {type(model).__name__}", hint)
    if isinstance(model, torch.jit.ScriptModule):
        raise CaptureError(
            "model: a scripted or traced model runs outside of Python and cannot be watched: "
            "capture the nn.Module that it was made from"
        )


def ran_in_other_thread_error() -> CaptureError:
    """Return the error for a model that ran in another thread than the capture."""
    return CaptureError(
        "the model ran in another thread than the one that entered capture(), where its attention cannot be seen: "
        "put `with regard.capture(model)` into the function that the thread runs"
    )


def ended_in_other_thread_error() -> CaptureError:
    """Return the error for a capture that ended in another thread than the one in which it began."""
    return CaptureError(
        "the capture ended in another thread than the one that entered it. It is switched off, and its records may "
        "not be whole: enter and leave capture() in one thread"
    )


def no_attention_error(model: nn.Module, session: Session) -> CaptureError:
    """Return the error for a capture without a record."""
    if session.log.unseen.numberless:
        return without_numbers(session.log.unseen.numberless)
    return CaptureError(f"no attention was found in {type(model).__name__}: {_reason(model, session)}")


def check_layers(session: Session) -> None:
    """Raise ArgumentError if a chosen layer did not occur among the calls of the model."""
    wanted = session.collector.layers if isinstance(session.collector.layers, set) else set()
    missing = sorted(wanted - session.collector.layers_seen - session.collector.layers_from_end)
    if missing and session.collector.calls:
        seen = sorted(session.collector.layers_seen) or "attentions without a number in their name"
        raise ArgumentError("layers", f"layer {missing[0]} was asked for, but seen were {seen}")


def unseen_warning(unseen: UnseenAttention) -> str:
    """Return the warning for attention that ran and was not recorded."""
    reasons = []
    if unseen.softmaxes:
        reasons.append(
            f"a softmax in {_listed(unseen.softmaxes)}; "
            f"if that is attention, use capture(model, modules={list(unseen.softmaxes)})"
        )
    if unseen.without_softmax:
        reasons.append(_without_softmax(unseen))
    if unseen.others:
        kinds = (f"{len(names)} of {kind} ({_listed(names[:1])})" for kind, names in unseen.others.items())
        reasons.append(
            f"softmaxes that multiply no values, as those of a router or a classifier, in {', '.join(kinds)}"
        )
    if unseen.functions:
        reasons.append(
            f"a call of F.scaled_dot_product_attention in {_listed(sorted(unseen.functions))}, "
            "of tensors in an unusual form"
        )
    return f"not recorded: {'; '.join(reasons)}"


def guessed_axes_warning(guessed: Mapping[str, tuple[int, ...]]) -> str:
    """Return the warning for maps whose axes were guessed."""
    modules = ", ".join(f"{name!r} {axes(shape)}" for name, shape in guessed.items())
    name, shape = next(iter(guessed.items()))
    folded = len(shape) == 3
    letters = "(bh)qk" if folded else "b" * (len(shape) - 3) + "hqk"
    other = ", or '(hb)qk' where the heads come first" if folded else ""
    return (
        f"the axes of the scores of {modules} are a guess: nothing shows which are sequences, heads and queries; "
        f"give a letter for each, as in capture(model, modules={{{name!r}: {letters!r}}}){other}"
    )


def doubtful_weights_warning(doubt: Doubt, names: Iterable[str]) -> str:
    """Return the warning for records that may not be all that multiplies the values."""
    return f"the weights of {_listed(names)} are recorded {_DOUBTS[doubt]}; record.note marks them"


def unjoined_steps_warning(names: Iterable[str]) -> str:
    """Return the warning for steps of ``generate()`` that are records of their own."""
    return (
        f"not joined: in {_listed(names)} the keys of a step do not continue those of the step before, so that steps "
        "of generate() are records of their own: for one map, call the model once on the whole text"
    )


def rival_ids_warning(collector: Collector) -> str | None:
    """Return the warning for labels that are left out, since several arguments may be the token ids."""
    if not any(ids.rivals for ids in collector.token_ids):
        return None
    ids = rival_ids(kept for chain in collector.chains for kept in chain.calls)
    if ids is None:
        return None
    where, names = ids.name.rpartition(".")[0], ", ".join(map(repr, ids.rivals))
    return (
        f"no labels: {where!r} was given {len(ids.rivals)} integer tensors of one shape, {names}, and no name tells "
        "which holds the token ids: use capture(model, tokens=...), or call that argument input_ids"
    )


def dropped_warning(chains: Iterable[CallChain], budget: MemoryBudget) -> str | None:
    """Return the warning for records that exceed the memory budget, or None if there are none."""
    names = list(dict.fromkeys(chain.name for chain in chains if chain.dropped))
    if not names:
        return None
    return (
        f"not recorded, or not to the end: {_listed(names)}, past the memory budget of {bytes_as_text(budget.limit)}: "
        "raise memory=..., or choose layers=... or heads=...; seen.dropped has the details"
    )


def _without_softmax(unseen: UnseenAttention) -> str:
    several = len(unseen.without_softmax) > 1
    are, their = ("are", "their") if several else ("is", "its")
    return (
        f"{_listed(unseen.without_softmax)}, which {are} called attention but {'take' if several else 'takes'} no "
        f"softmax of torch's: {their} weights cannot be read, only shown with Recording.from_weights if you have them"
    )


def _listed(names: Iterable[str]) -> str:
    """Return the first names in quotes, and the number of the others."""
    quoted = [repr(name) for name in names]
    if len(quoted) > _NAMED:
        quoted[_NAMED:] = [f"{len(quoted) - _NAMED} more (seen.unseen has all)"]
    return ", ".join(quoted)


def _reason(model: nn.Module, session: Session) -> str:
    unseen = session.log.unseen
    if not session.collector.steps:
        return (
            "it was not called inside the with block (call the model itself, or one of its modules, in there)"
        )
    if session.collector.calls:
        return (
            f"it has {session.collector.calls} attention calls, but none in the layers that were asked for "
            f"(seen were {sorted(session.collector.layers_seen)}): leave out layers=..., or choose of these"
        )
    implementation = attention_implementation(model)
    if implementation in _UNSEEN:
        return f"{implementation} cannot be watched: load the model with attn_implementation='sdpa'"
    if unseen.all_softmaxes:
        taken = {softmax.name: softmax.shape for softmax in unseen.all_softmaxes.values()}
        shapes = ", ".join(f"{name!r} {axes(shape)}" for name, shape in taken.items())
        return (
            f"but there is a softmax in {shapes}: "
            f"if that is attention, use capture(model, modules={list(taken)})"
        )
    if unseen.without_softmax:
        return f"but there is {_without_softmax(unseen)}"
    scripted = [n for n, m in model.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        return f"{scripted[0]!r} is scripted, and only its operations are seen: use the nn.Module it was made from"
    return (
        "the model may have none. Seen are F.scaled_dot_product_attention, nn.MultiheadAttention, nn.Transformer, "
        "Regard's layers, and a softmax of a product inside a module that is called an attention or that you name: "
        "capture(model, modules=['name of the module'])"
    )
