"""What to say when nothing can be seen, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.capture.calls import without_numbers
from regard.errors import ArgumentError, CaptureError, DtypeError
from regard.shapes import axes

if TYPE_CHECKING:
    from regard.capture.session import Session

__all__ = ["check_layers", "check_model", "guessed_axes", "nothing_found", "partly_found", "ran_elsewhere"]

_UNSEEN = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention")


def check_model(model: object) -> None:
    """Refuse what cannot be watched, before anything runs."""
    if not isinstance(model, nn.Module):
        inner = next((a for a in ("model", "module") if isinstance(getattr(model, a, None), nn.Module)), None)
        hint = f"pass its .{inner}" if inner else "pass the module whose forward is called"
        raise DtypeError("model", f"expected an nn.Module, got {type(model).__name__}", hint)
    if isinstance(model, torch.jit.ScriptModule):
        raise CaptureError(
            "model: a scripted or traced model runs outside of Python and cannot be watched: "
            "capture the nn.Module that it was made from"
        )


def ran_elsewhere() -> CaptureError:
    """The error for a model that ran in a thread in which nothing can be seen."""
    return CaptureError(
        "the model ran in another thread than the one that entered capture(), where its attention cannot be seen: "
        "put `with regard.capture(model)` into the function that the thread runs"
    )


def nothing_found(model: nn.Module, session: Session) -> CaptureError:
    """The error for a capture without a record."""
    if session.numberless:
        return without_numbers(session.numberless)
    return CaptureError(f"no attention was found in {type(model).__name__}: {_reason(model, session)}")


def check_layers(session: Session) -> None:
    """Refuse layers that the model, which has run, does not have."""
    wanted = session.layers if isinstance(session.layers, set) else set()
    missing = sorted(wanted - session.layers_seen - session.layers_from_end)
    if missing and session.calls:
        seen = sorted(session.layers_seen) or "attentions without a number in their name"
        raise ArgumentError("layers", f"layer {missing[0]} was asked for, but seen were {seen}")


def partly_found(session: Session) -> str:
    """The warning for a capture that has records, but not of all that looks like attention."""
    told = []
    if session.unnamed:
        names = ", ".join(repr(name) for name in session.unnamed)
        told.append(
            f"a softmax in {names}; if that is attention, use capture(model, modules={list(session.unnamed)})"
        )
    if session.unread:
        names = ", ".join(repr(name) for name in sorted(session.unread))
        told.append(f"a call of F.scaled_dot_product_attention in {names}, of tensors in an unusual form")
    return f"not recorded: {'; '.join(told)}"


def guessed_axes(session: Session) -> str:
    """The warning for maps whose axes may be meant in another way than they were read."""
    told = ", ".join(f"{name!r} {axes(shape)}" for name, shape in session.guessed.items())
    name, shape = next(iter(session.guessed.items()))
    letters = "b" * (len(shape) - 3) + "hqk"
    return (
        f"the axes of the scores of {told} are a guess: nothing shows which are sequences, heads and queries; "
        f"give a letter for each, as in capture(model, modules={{{name!r}: {letters!r}}})"
    )


def _reason(model: nn.Module, session: Session) -> str:
    if not session.steps:
        return (
            "it was not called inside the with block (call the model itself, or one of its modules, in there)"
        )
    if session.calls:
        return (
            f"it has {session.calls} attention calls, but none in the layers that were asked for "
            f"(seen were {sorted(session.layers_seen)}): leave out layers=..., or choose of these"
        )
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if implementation in _UNSEEN:
        return f"{implementation} cannot be watched: load the model with attn_implementation='sdpa'"
    if session.unnamed:
        name, shape = next(iter(session.unnamed.items()))
        return (
            f"but there is a softmax in {name!r}, {axes(shape)}: "
            f"if that is attention, use capture(model, modules=[{name!r}])"
        )
    scripted = [n for n, m in model.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        return f"{scripted[0]!r} is scripted and cannot be watched: use the nn.Module it was made from"
    return (
        "seen are F.scaled_dot_product_attention, nn.MultiheadAttention, nn.Transformer, Regard's layers, and a "
        "softmax inside a module that you name: try capture(model, modules=['name of the module'])"
    )
