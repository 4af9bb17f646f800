"""Attention that ran and was not recorded, of which the user is warned."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["UnseenAttention"]


@dataclass
class UnseenAttention:
    """The modules of a model whose attention is in no record."""

    softmaxes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Modules with a softmax that may be attention, and its shape. The user can choose them in ``modules=``."""
    functions: set[str] = field(default_factory=set)
    """Modules that called ``F.scaled_dot_product_attention`` with arguments that cannot be read."""
    without_softmax: dict[str, range] = field(default_factory=dict)
    """Modules that are called attention and took no softmax, and the numbers of their products."""
    numberless: str | None = None
    """A description of the model, if its attention ran on tensors without numbers."""

    def __bool__(self) -> bool:
        return bool(self.softmaxes or self.functions or self.without_softmax)

    @property
    def names(self) -> list[str]:
        """The modules, each once."""
        return list(dict.fromkeys((*self.softmaxes, *self.without_softmax, *sorted(self.functions))))

    def softmax_follows(self, product: int) -> None:
        """Remove the note on a module without softmax, since another module took the softmax of its product."""
        for name, products in list(self.without_softmax.items()):
            if product in products:
                del self.without_softmax[name]
