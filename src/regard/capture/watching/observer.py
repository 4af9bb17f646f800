"""The interface through which modes and module calls report to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

if TYPE_CHECKING:
    from regard.capture.watching.handwritten_attention import HandwrittenAttention

__all__ = ["Observer"]


class Observer(Protocol):
    """Is notified of modules, functions and operations."""

    handwritten: HandwrittenAttention

    @property
    def is_in_forward_pass(self) -> bool:
        """Whether the model's forward pass runs now."""
        ...

    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """Note that the call of a module begins."""
        ...

    def leave(self, module: nn.Module, result: object, *, failed: bool) -> None:
        """Note that the call of a module has ended, or raised an error."""
        ...

    def call_sdpa(self, func: Any, args: tuple, kwargs: dict[str, Any], *, in_order: bool = False) -> Any:
        """Call ``F.scaled_dot_product_attention``, record the call and return its result."""
        ...

    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Note an operation that torch has done."""
        ...

    def fake_operation(self, func: Any) -> None:
        """Note an operation on fake tensors."""
        ...

    def whole_graph(self, func: Any) -> None:
        """Note an operation that runs a whole graph, such as ``flex_attention``."""
        ...
