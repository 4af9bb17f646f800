"""The stack of a model's running modules, and the kind of attention that each computes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from regard.capture.reading.axes import AxisLetters
from regard.capture.reading.kinds import has_another_duty, is_attention, is_cross
from regard.capture.reading.module_choice import ModuleChoice, is_chosen
from regard.capture.reading.running_modules import RunningModule
from regard.torch_private import repeats_for_gradient

__all__ = ["SESSIONS_OF", "ModuleStack"]

SESSIONS_OF: Counter[int] = Counter()
"""The number of active captures in each thread."""


class ModuleStack:
    """The watched modules that are running in the thread of a capture, outermost first."""

    def __init__(self, choices: Mapping[ModuleChoice, AxisLetters | None]):
        # The modules that the user chose in modules=.
        self.choices = choices
        self.modules: list[RunningModule] = []
        # Whether the model was called in a thread without a capture.
        self.ran_in_other_thread = False
        self._thread = threading.get_ident()

    @property
    def is_in_its_thread(self) -> bool:
        """Whether this is the thread in which the capture began."""
        return threading.get_ident() == self._thread

    @property
    def is_in_forward_pass(self) -> bool:
        """Whether the model's forward pass runs now, in the thread that captures it."""
        if not self.modules or threading.get_ident() != self._thread:
            return False
        return not repeats_for_gradient()

    @property
    def innermost(self) -> RunningModule:
        """The module that was called last."""
        return self.modules[-1]

    def note_other_thread(self) -> None:
        """Note that a module was called in another thread. A pass that is repeated for the gradient is allowed."""
        self.ran_in_other_thread |= not repeats_for_gradient() and threading.get_ident() not in SESSIONS_OF

    def pop(self, module: nn.Module) -> RunningModule | None:
        """Remove a module that has ended, and unfinished modules inside it. Returns None if it is not on the stack."""
        innermost = self.modules[-1].module if self.modules else None
        if innermost is not module and all(running.module is not module for running in self.modules):
            return None
        running = self.modules.pop()
        while running.module is not module:
            running = self.modules.pop()
        return running

    def around(self, running: RunningModule) -> RunningModule | None:
        """The module that called another, or None for the outermost."""
        depth = next(n for n, other in enumerate(self.modules) if other is running)
        return self.modules[depth - 1] if depth else None

    def has_chosen_module(self) -> bool:
        """Whether one of the running modules was chosen by the user."""
        return bool(self.choices) and any(self.is_chosen(running) for running in self.modules)

    def is_chosen(self, running: RunningModule) -> bool:
        """Whether the user chose a module in ``modules=``."""
        return is_chosen(running.module, running.name, self.choices)

    def attends(self, running: RunningModule) -> bool:
        """Whether a module is an attention, or a part that computes one, such as ``Attend`` of x-transformers."""
        if is_attention(running.module, running.name):
            return True
        around = self.around(running)
        in_attention = around is not None and is_attention(around.module, around.name)
        return in_attention and not has_another_duty(running.module, running.name)

    def is_cross(self, running: RunningModule) -> bool | None:
        """Whether an attention has the keys of another sequence. None where neither it nor its caller shows it."""
        cross = is_cross(running.module, running.name, running.arguments, self._outside(running))
        if cross is not None:
            return cross
        around = self.around(running)
        if around is None or not is_attention(around.module, around.name):
            return None
        return is_cross(around.module, around.name, around.arguments, self._outside(around))

    def _outside(self, running: RunningModule) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
        """Yield the modules around another with their arguments, innermost first."""
        around = self.around(running)
        while around is not None:
            yield around.module, around.arguments
            around = self.around(around)
