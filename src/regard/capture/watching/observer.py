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
    def is_in_forward_pass(self) -> bool: ...
    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None: ...
    def leave(self, module: nn.Module, result: object) -> None: ...
    def call_sdpa(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any: ...
    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None: ...
    def fake_operation(self, func: Any) -> None: ...
    def whole_graph(self, func: Any) -> None: ...
