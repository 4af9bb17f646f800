"""The log of a model's attention calls, recorded by the collector or noted as not recorded."""

from __future__ import annotations

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.joining.collector import Collector
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.kinds import is_attention
from regard.capture.reading.running_modules import RunningModule
from regard.capture.watching.key_blocks import KeyBlocks
from regard.capture.watching.module_stack import ModuleStack
from regard.capture.watching.unseen_attention import UnseenAttention, WithoutSoftmax

__all__ = ["CallLog"]


class CallLog:
    """Counts every attention call, records those that can be read, and notes the others."""

    def __init__(self, stack: ModuleStack, collector: Collector):
        self.collector = collector
        self.unseen = UnseenAttention()
        self.guessed: dict[
            str, tuple[int, ...]
        ] = {}  # the shapes of scores whose axes are a guess, by module
        # The number of attention calls so far, recorded or not.
        self.noticed = 0
        self.key_blocks = KeyBlocks(collector)
        # For each module with a record, the number of its latest call among all that were noticed.
        self._recorded: dict[str, int] = {}
        self._stack = stack

    def record(self, call: AttentionCall, running: RunningModule | None = None) -> RecordedCall | None:
        """Record a call of a module, by default the innermost. Returns None where the user did not ask for it."""
        self.noticed += 1
        running = running or self._stack.innermost
        self._recorded[running.name] = self.noticed
        recorded = self.collector.add(call, running, self._stack.is_cross(running), self._stack.modules)
        if recorded is not None:
            self.key_blocks.note(call, recorded)
        return recorded

    def note_guess(self, running: RunningModule, shape: tuple[int, ...]) -> None:
        """Note that the axes of scores are a guess."""
        self.guessed.setdefault(running.name, shape)

    def note_unread_function(self) -> None:
        """Note a call of ``F.scaled_dot_product_attention`` whose arguments cannot be read."""
        self.noticed += 1
        self.unseen.functions.add(self._stack.innermost.name)

    def note_softmax(self, running: RunningModule, shape: tuple[int, ...]) -> None:
        """Note a softmax that may be attention and is not recorded."""
        self.noticed += 1
        self.unseen.softmaxes[running.name] = shape

    def forget_parts(self, running: RunningModule) -> None:
        """Remove the notes on parts of an attention whose own call was recorded, since they belong to this record."""
        owns_record = self.unseen and self._recorded.get(running.name, 0) > running.noticed
        if owns_record and is_attention(running.module, running.name):
            self.unseen.forget_since(running.noticed)

    def note_attention_without_softmax(self, running: RunningModule, products: range) -> None:
        """Note a module that is called attention, and in which neither an attention call nor a softmax was seen."""
        self.noticed += 1
        self.unseen.without_softmax[running.name] = WithoutSoftmax(products, self.noticed)
