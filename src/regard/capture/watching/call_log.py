"""The log of a model's attention calls, recorded by the collector or noted as not recorded."""

from __future__ import annotations

from collections.abc import Iterable

from regard.capture.joining.call_chains import RecordedCall
from regard.capture.joining.collector import Collector
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.axes_of_calls import heads_in_queries
from regard.capture.reading.head_folds import HeadFolds
from regard.capture.reading.kinds import has_another_duty, is_attention
from regard.capture.reading.running_modules import RunningModule
from regard.capture.watching.key_blocks import KeyBlocks
from regard.capture.watching.module_stack import ModuleStack
from regard.capture.watching.unseen_attention import UnrecordedSoftmax, UnseenAttention, WithoutSoftmax

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
        self.folds = HeadFolds()
        self._stack = stack

    def record(self, call: AttentionCall, running: RunningModule | None = None) -> RecordedCall | None:
        """Record a call of a module, by default the innermost. Returns None where the user did not ask for it."""
        self.noticed += 1
        running = running or self._stack.innermost
        self._recorded[running.name] = self.noticed
        folded, guessed = heads_in_queries(
            running, self._stack.modules, self._stack.choices, self.folds, call
        )
        if folded is not None:
            if guessed:
                self.note_guess(running, tuple(call.grid))
            call = folded.unfold_call(call)
        recorded = self.collector.add(call, running, self._stack.is_cross(running), self._stack.modules)
        if recorded is not None:
            self.key_blocks.note(call, recorded)
            return recorded if folded is None else recorded._replace(folded=folded)
        return None

    def note_guess(self, running: RunningModule, shape: tuple[int, ...]) -> None:
        """Note that the axes of scores are a guess."""
        self.guessed.setdefault(running.name, shape)

    def note_unread_function(self) -> None:
        """Note a call of ``F.scaled_dot_product_attention`` whose arguments cannot be read."""
        self.noticed += 1
        self.unseen.functions.add(self._stack.innermost.name)

    def note_softmax(self, running: RunningModule, shape: tuple[int, ...], axis: int) -> UnrecordedSoftmax:
        """Return a softmax over an axis that may be attention and is not recorded, to be followed and then listed."""
        self.noticed += 1
        of_other_part = has_another_duty(running.module, running.name)
        return UnrecordedSoftmax(
            running.name, type(running.module).__name__, shape, shape[axis], of_other_part
        )

    def module_ended(self, running: RunningModule, softmaxes: Iterable[UnrecordedSoftmax]) -> None:
        """Note the records of a module that has ended, for the softmaxes that it took beside them."""
        kept = self.collector.new_calls[running.first :]
        for softmax in softmaxes:
            if softmax.name == running.name:
                softmax.sizes_beside = {n for call in kept for n in call.grid[2:]}
                # The user asked for other layers.
                softmax.is_unwanted = not kept and self.collector.calls > running.calls

    def list_softmaxes(self, softmaxes: Iterable[UnrecordedSoftmax]) -> None:
        """List softmaxes that are in no record, now that it is known what the model did with them."""
        for softmax in softmaxes:
            if not softmax.is_in_record and not softmax.is_unwanted:
                self.unseen.all_softmaxes.setdefault((softmax.name, softmax.is_other), softmax)

    def forget_parts(self, running: RunningModule) -> None:
        """Remove the notes on parts of an attention whose own call was recorded, since they belong to this record."""
        owns_record = self._recorded.get(running.name, 0) > running.noticed
        if owns_record and is_attention(running.module, running.name):
            self.unseen.forget_since(running.noticed)

    def note_attention_without_softmax(self, running: RunningModule, products: range) -> None:
        """Note a module that is called attention, and in which neither an attention call nor a softmax was seen."""
        self.noticed += 1
        self.unseen.without_softmax[running.name] = WithoutSoftmax(products, self.noticed)
