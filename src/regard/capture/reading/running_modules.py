"""Which module of the model is running: its name, what it was given, and which layer it is."""

from __future__ import annotations

import functools
import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.capture.reading.kinds import is_called_attention

__all__ = ["Frame", "LayerNumbers", "heads_of", "is_simple", "may_attend", "named_modules"]


# A part of a name that is a number, or a layer with a number behind it: stage2, or torchvision's encoder_layer_3.
_NUMBER = re.compile(
    r"(?<![^.])((?:[A-Za-z]\w*_)?(?:layers?|blocks?|stages?|levels?)_?)?(\d+)(?![^.])", re.IGNORECASE
)


@dataclass(slots=True)
class Frame:
    """A module that is running now."""

    module: nn.Module
    name: str
    args: tuple
    kwargs: dict[str, Any]
    # How many there were when it began:
    first: int = 0  # pieces
    products: int = 0  # products of scores
    calls: int = 0  # attention calls
    exponentials: int = 0
    noticed: int = 0  # attentions, recorded or not
    _arguments: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the module was given, by the names of its ``forward``."""
        if self._arguments is None:
            self._arguments = _by_name(self.module, self.args, self.kwargs)
        return self._arguments


_HEADS = (
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "nhead",
    "heads",
    "num_head",
    "n_local_heads",
    "h",
)


def heads_of(frame: Frame, stack: Sequence[Frame] = ()) -> int | None:
    """How many heads a module says it has, or else one of the two around it."""
    around = stack[: next((n for n, one in enumerate(stack) if one is frame), 0)]
    for one in (frame, *around[:-3:-1]):
        own = one.module.__dict__  # asking the module would search all its parts
        for name in _HEADS:
            count = own.get(name)
            if type(count) is int and count > 0:
                return count
        for name in _heads_named_by(type(one.module)):
            count = getattr(type(one.module), name)
            if type(count) is int and count > 0:
                return count
    return None


@functools.lru_cache(maxsize=1024)
def _heads_named_by(kind: type[nn.Module]) -> tuple[str, ...]:
    """The names for a number of heads that a class has itself."""
    return tuple(name for name in _HEADS if hasattr(kind, name))


@functools.lru_cache(maxsize=1024)
def _parameters(kind: type[nn.Module]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of what the ``forward`` of a class takes by position, and what it takes where nothing is given."""
    taken = list(inspect.signature(kind.forward).parameters.values())[1:]  # without self
    by_position = tuple(p.name for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    return by_position, {p.name: p.default for p in taken if p.default is not p.empty}


def _by_name(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What is given by position goes by the names of the class; bound by hand, which is ten times inspect's speed."""
    try:
        names, defaults = _parameters(type(module))
    except (TypeError, ValueError, AttributeError):  # a forward without a signature
        names, defaults = (), {}
    found = dict(zip(names, args, strict=False))
    found |= {f"argument {n}": x for n, x in enumerate(args[len(names) :])}
    found |= kwargs
    for name, value in defaults.items():  # an argument that was offered and not used says something too
        found.setdefault(name, value)
    return found


_FEED_FORWARD = ("Intermediate", "MLP", "Output")  # ends of the names of classes
_SIMPLE = {nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.Dropout}
_SIMPLE |= {nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Identity}


@functools.lru_cache(maxsize=8192)
def is_simple(kind: type[nn.Module]) -> bool:
    """Whether modules of a class are known to do nothing but a layer, a norm, an activation or dropout.

    >>> is_simple(nn.Linear), is_simple(nn.MultiheadAttention)
    (True, False)
    """
    if kind in _SIMPLE:
        return True
    home, name = kind.__module__, kind.__name__
    if home == "transformers.pytorch_utils":
        return name == "Conv1D"
    return home == "transformers.activations" or (
        home.startswith("transformers.models.") and name.endswith("RMSNorm")
    )


def _is_feed_forward(kind: type[nn.Module]) -> bool:
    return kind.__module__.startswith("transformers.models.") and kind.__name__.endswith(_FEED_FORWARD)


def may_attend(module: nn.Module) -> bool:
    """Whether a module is worth watching.

    A layer of torch that has no others inside is not, and neither is a feed-forward part of a Hugging Face model. What
    happens in a module that is not watched counts as done by the module around it.
    """
    if is_simple(type(module)) or _is_feed_forward(type(module)):
        return False
    own = not type(module).__module__.startswith("torch.nn.modules")
    return own or bool(module._modules) or isinstance(module, nn.Conv2d | nn.MultiheadAttention)


def named_modules(model: nn.Module) -> dict[nn.Module, str]:
    """The modules of a model and their names; the model itself goes by the name of its class."""
    found: dict[nn.Module, str] = {}
    waiting = [("", model)]
    # In the order of model.named_modules(), whose generators inside one another take five times as long.
    while waiting:
        name, module = waiting.pop()
        if module not in found:
            found[module] = name or type(model).__name__
            parts = [
                (f"{name}.{at}" if name else at, x) for at, x in module._modules.items() if x is not None
            ]
            waiting += reversed(parts)
    return found


class LayerNumbers:
    """The number of the layer that a module belongs to, from its name and from the order of the calls.

    One number in the name is the layer (``encoder.layer.3.attention``, ``encoder_layer_3.self_attention``). Several
    (``stages.1.blocks.0.attn``, ``stage2.0.attn``) are counted through. Only a module that has no others beside it, as
    ALBERT's, is another layer with each call: where there are several, one that is called twice looked at two inputs.
    """

    def __init__(self, kinds: Mapping[str, type]):
        self._kinds = kinds  # the class of the module of each name
        self._families: dict[str, list[str]] = {}
        for name in kinds:
            self._families.setdefault(_family(name), []).append(name)
        self._counted_with: dict[str, list[str]] = {}
        self._about: dict[str, tuple[list[str], int | None]] = {}  # the family of a name, and its layer
        self._step = -1
        self._calls: Counter[str] = Counter()  # of each module in this step

    def call(self, name: str, step: int) -> tuple[int | None, int]:
        """The layer of a call, and how often this module was called in this step before."""
        if step != self._step:
            self._step = step
            self._calls.clear()
        about = self._about.get(name)
        if about is None:
            about = self._about[name] = (self._members(name), _place(name, self._counted(name)))
        members, layer = about
        before = self._calls[name]
        shared = len(members) == 1
        if before and not shared and sum(self._calls[one] for one in members) == before * len(members):
            before = 0  # all were called: the model runs over another input
            for member in members:
                self._calls[member] = 0
        self._calls[name] += 1
        return (layer + before if shared and layer is not None else layer), before

    def from_end(self, name: str, layer: int) -> int | None:
        """The same layer counted from the end, -1 for the last; None where the end is not known before it is there."""
        members = self._counted(name)
        last = max((n for one in members if (n := _place(one, members)) is not None), default=0)
        return layer - last - 1 if len(members) > 1 else None

    def _members(self, name: str) -> list[str]:
        return self._families.get(_family(name), [name])

    def _counted(self, name: str) -> list[str]:
        """The modules among which one is counted.

        Lists hold other modules too: of several numbers, those of its class count, and those called attention.
        """
        found = self._counted_with.get(name)
        if found is None:
            found = self._counted_with[name] = self._same_duty(name)
        return found

    def _same_duty(self, name: str) -> list[str]:
        members = self._members(name)
        if len(_numbers(name)) < 2:
            return members
        return [
            one
            for one in members
            if self._kinds.get(one) is self._kinds.get(name)
            or is_called_attention(one, self._kinds.get(one, object).__name__)
        ]


def _place(name: str, members: list[str]) -> int | None:
    """The layer that a name speaks of."""
    numbers = _numbers(name)
    if not numbers:
        return None
    return numbers[0] if len(numbers) == 1 else members.index(name)


@functools.lru_cache(maxsize=8192)
def _family(name: str) -> str:
    return _NUMBER.sub(lambda found: f"{found[1] or ''}*", name)


@functools.lru_cache(maxsize=8192)
def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(found[2]) for found in _NUMBER.finditer(name))
