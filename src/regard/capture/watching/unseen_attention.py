"""Attention that ran and was not recorded, of which the user is warned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["UnseenAttention"]


class WithoutSoftmax(NamedTuple):
    """A module that took no softmax of torch's."""

    # The numbers of its products of queries and keys.
    products: range
    # The number of attention calls that were noticed up to its end.
    number: int


@dataclass
class UnseenAttention:
    """The modules of a model whose attention is in no record."""

    softmaxes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Modules with a softmax that may be attention, and its shape. The user can choose them in ``modules=``."""
    functions: set[str] = field(default_factory=set)
    """Modules that called ``F.scaled_dot_product_attention`` with arguments that cannot be read."""
    without_softmax: dict[str, WithoutSoftmax] = field(default_factory=dict)
    """Modules that are called attention and took no softmax of torch's."""
    numberless: str | None = None
    """A description of the model, if its attention ran on tensors without numbers."""

    def __bool__(self) -> bool:
        return bool(self.softmaxes or self.functions or self.without_softmax)

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
