"""Attention that ran and was not recorded, of which the user is warned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from regard.capture.reading.running_modules import RunningModule
from regard.capture.watching.operators import PRODUCTS, has_storage
from regard.capture.watching.weight_indices import storage_of

__all__ = ["SoftmaxesBeside", "UnrecordedSoftmax", "UnseenAttention", "WithoutSoftmax"]


@dataclass(eq=False)
class UnrecordedSoftmax:
    """A softmax that may be attention and was not recorded."""

    name: str
    # The name of the module's class.
    kind: str
    shape: tuple[int, ...]
    # The size of the axis that sums to 1.
    keys: int
    # Whether the module has the name of another part, such as a router.
    of_other_part: bool
    # The numbers of queries and keys in the records of the module.
    sizes_beside: set[int] = field(default_factory=set)
    # Whether its result is a part of weights that are recorded, as in a gated sum of two softmaxes.
    is_in_record: bool = False
    # Whether its result was multiplied with a tensor of the input, as attention is with its values.
    is_multiplied: bool = False
    # Whether the user asked for other layers.
    is_unwanted: bool = False

    @property
    def is_other(self) -> bool:
        """Whether it is no attention, but the softmax of a router, a classifier or the like.

        Such a softmax multiplies no values. Its module has the name of such a part, or has records of its own of other
        numbers of queries and keys.
        """
        of_other_size = bool(self.sizes_beside) and self.keys not in self.sizes_beside
        return not self.is_multiplied and (self.of_other_part or of_other_size)


class WithoutSoftmax(NamedTuple):
    """A module that took no softmax of torch's."""

    # The numbers of its products of queries and keys.
    products: range
    # The number of attention calls that were noticed up to its end.
    number: int


@dataclass
class UnseenAttention:
    """The modules of a model whose attention is in no record."""

    all_softmaxes: dict[tuple[str, bool], UnrecordedSoftmax] = field(default_factory=dict)
    """The softmaxes in no record, by the name of the module and whether they are known to be no attention."""
    functions: set[str] = field(default_factory=set)
    """Modules that called ``F.scaled_dot_product_attention`` with arguments that cannot be read."""
    without_softmax: dict[str, WithoutSoftmax] = field(default_factory=dict)
    """Modules that are called attention and took no softmax of torch's."""
    numberless: str | None = None
    """A description of the model, if its attention ran on tensors without numbers."""

    def __bool__(self) -> bool:
        return bool(self.softmaxes or self.others or self.functions or self.without_softmax)

    @property
    def softmaxes(self) -> dict[str, tuple[int, ...]]:
        """Modules with a softmax that may be attention, and its shape. The user can choose them in ``modules=``."""
        return {x.name: x.shape for x in self.all_softmaxes.values() if not x.is_other}

    @property
    def others(self) -> dict[str, list[str]]:
        """Modules with a softmax of another kind, such as a router's, by their class."""
        modules: dict[str, list[str]] = {}
        for x in self.all_softmaxes.values():
            if x.is_other:
                modules.setdefault(x.kind, []).append(x.name)
        return modules

    @property
    def names(self) -> list[str]:
        """The modules, each once."""
        return list(dict.fromkeys((*self.softmaxes, *self.without_softmax, *sorted(self.functions))))

    def forget_since(self, number: int) -> None:
        """Remove the notes after a number of attention calls on modules that took no softmax."""
        self.without_softmax = {at: x for at, x in self.without_softmax.items() if x.number <= number}

    def softmax_follows(self, product: int) -> None:
        """Remove the note on a module without softmax, since another module took the softmax of its product."""
        for name, noted in list(self.without_softmax.items()):
            if product in noted.products:
                del self.without_softmax[name]


class _Derived(NamedTuple):
    """A tensor that was computed from a softmax inside a module. It is held, so that its memory is not used again."""

    softmax: UnrecordedSoftmax
    tensor: Tensor
    running: RunningModule


class SoftmaxesBeside:
    """Softmaxes beside recorded attention, such as the positions that ConViT adds to its weights."""

    def __init__(self) -> None:
        self.tensors: dict[int, _Derived] = {}  # by the address of their storage

    def __bool__(self) -> bool:
        return bool(self.tensors)

    @property
    def softmaxes(self) -> list[UnrecordedSoftmax]:
        """The softmaxes that are followed, each once."""
        return list(dict.fromkeys(x.softmax for x in self.tensors.values()))

    def begin(self, softmax: UnrecordedSoftmax, result: Tensor, running: RunningModule) -> None:
        """Follow the result of a softmax that was taken inside a module."""
        self.tensors[storage_of(result)] = _Derived(softmax, result, running)

    def note_operation(
        self,
        func: Any,
        tensors: list[Tensor],
        result: Tensor,
        weights: Container[int],
        parameters: Callable[[], Collection[int]],
    ) -> None:
        """Note what an operation on some tensors does. ``weights`` are the storages of recorded weights."""
        storages = [storage_of(x) for x in tensors]
        found = [self.tensors[at] for at in storages if at in self.tensors]
        if not found:
            return
        for derived in found:
            derived.softmax.is_in_record |= any(at in weights for at in storages)
        if id(func) in PRODUCTS:
            others = [at for at in storages if at not in self.tensors and at not in weights]
            for derived in found:
                derived.softmax.is_multiplied |= any(at not in parameters() for at in others)
        elif has_storage(result) and result.is_floating_point():
            # A result of another size is no longer the softmax, but a tensor that it weighs or is added to.
            of_size = next(
                (x for x in tensors if x.numel() == result.numel() and storage_of(x) in self.tensors), None
            )
            if of_size is not None:
                self.tensors[storage_of(result)] = self.tensors[storage_of(of_size)]._replace(tensor=result)

    def end(
        self, running: RunningModule, kept: Collection[int], around: RunningModule | None
    ) -> list[UnrecordedSoftmax]:
        """Stop following the softmaxes of a module that has ended, and return those that are followed no longer.

        Those in the storages ``kept``, which the module returned, go on in the module around it.
        """
        ended = {at: x for at, x in self.tensors.items() if x.running is running}
        for at, derived in ended.items():
            if at in kept and around is not None:
                self.tensors[at] = derived._replace(running=around)
            else:
                del self.tensors[at]
        going_on = self.softmaxes
        return [x for x in dict.fromkeys(x.softmax for x in ended.values()) if x not in going_on]

    def clear(self) -> list[UnrecordedSoftmax]:
        """Stop following all softmaxes, and return them."""
        softmaxes = self.softmaxes
        self.tensors.clear()
        return softmaxes
