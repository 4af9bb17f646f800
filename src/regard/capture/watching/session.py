"""An active capture, which is notified of modules, functions and operations and passes them to its parts."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import nn

from regard.capture.joining.collector import Collector
from regard.capture.joining.memory_budget import MemoryBudget
from regard.capture.reading.attention_calls import AttentionCall, refuse_transforms
from regard.capture.reading.axes import AxisLetters
from regard.capture.reading.image_patches import patch_grids_after
from regard.capture.reading.kinds import is_attention
from regard.capture.reading.module_choice import ModuleChoice
from regard.capture.reading.picture_inputs import EncodedPictures, encoded_pictures, picture_inputs
from regard.capture.reading.running_modules import RunningModule
from regard.capture.reading.token_ids import ids_in, may_hold_ids, without_words
from regard.capture.watching.call_log import CallLog
from regard.capture.watching.fused_attention import FusedAttention
from regard.capture.watching.handwritten_attention import HandwrittenAttention
from regard.capture.watching.modes import operations_watched
from regard.capture.watching.module_stack import ModuleStack
from regard.capture.watching.operators import OPERATOR_ROLES
from regard.errors import CaptureError
from regard.kernels.dispatch import Call
from regard.torch_private import transform_on_top

__all__ = ["Session"]


class Session:
    """Watches the forward passes of a model until its capture ends."""

    def __init__(
        self,
        names: dict[nn.Module, str],
        *,
        layers: Collection[int] | None,
        heads: list[int] | None,
        modules: Mapping[ModuleChoice, AxisLetters | None],
        device: torch.device | None,
        budget: MemoryBudget,
    ):
        self.names = names
        self.stack = ModuleStack(modules)
        self.collector = Collector(names, layers=layers, heads=heads, device=device, budget=budget)
        self.log = CallLog(self.stack, self.collector)
        self.handwritten = HandwrittenAttention(names, self.stack, self.log)
        # A strong reference would keep the records in memory until Python collects reference cycles.
        this = weakref.ref(self)
        self.fused = FusedAttention(self.stack, self.log, lambda: operations_watched(cast(Session, this())))
        # Eager attention functions of Hugging Face that are not recorded as a whole, and pairs of such a function and
        # a class of modules whose output was compared with the product of weights and values.
        self.followed_functions: set[Any] = set()
        self.checked_functions: set[tuple[Any, type[nn.Module]]] = set()
        # The pictures that were encoded outside of a forward pass.
        self.encoded_pictures: list[EncodedPictures] = []

    # ---- modules

    @property
    def is_in_forward_pass(self) -> bool:
        """Whether the model's forward pass runs now, in the thread that captures it."""
        return self.stack.is_in_forward_pass

    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """Put a module on the stack of running modules when its call begins.

        The call of an outermost module begins a new step. A call in another thread is only noted.
        """
        if not self.stack.is_in_its_thread:
            self.stack.note_other_thread()
            return
        if transform_on_top() is not None:
            refuse_transforms(*args, *kwargs.values())
        collector, scores = self.collector, self.handwritten.scores
        if not self.stack.modules:
            collector.begin_step()
            self.log.folds.clear()
            self.handwritten.weights.choices.clear()
        counts = (len(collector.new_calls), scores.products, collector.calls)
        counts += (self.handwritten.exponentials, self.log.noticed)
        self.stack.modules.append(RunningModule(module, self.names[module], args, kwargs, *counts))

    def leave(self, module: nn.Module, result: object, *, failed: bool) -> None:
        """Note that a module returned, or raised an error."""
        running = self.stack.pop(module) if self.stack.is_in_its_thread else None
        if running is None:
            return
        collector = self.collector
        collector.patches = patch_grids_after(module, result, collector.patches)
        if not failed:
            self.handwritten.check_unseen(running)
            self.log.key_blocks.module_ended(running, self.handwritten.exponentials)
        attended = len(collector.new_calls) > running.first
        self.handwritten.module_ended(running, result, attended)
        if attended:
            self._note_token_ids(running)
        if not self.stack.modules:
            self.handwritten.forget()
            self.log.key_blocks.clear()
            collector.new_calls.clear()

    def _note_token_ids(self, running: RunningModule) -> None:
        """Note the token ids that a module was given, for the calls that were made inside it."""
        ids = ids_in(running.name, running.arguments) if may_hold_ids(running.args, running.kwargs) else []
        if not ids and self._is_in_attention(running):
            return
        self.collector.token_ids.extend(ids)
        worded = bool(ids) or not without_words(running.module, running.arguments)
        pictures = None
        if ids:
            pictures = picture_inputs(running.module, running.arguments, ids, self.encoded_pictures)
        for kept in self.collector.new_calls[running.first :]:
            if kept.worded:
                kept.inputs.extend(ids)
                kept.worded = worded
                kept.pictures = kept.pictures or pictures

    def _is_in_attention(self, running: RunningModule) -> bool:
        """Whether a module or its caller is an attention, whose tensors of heads with four axes are no picture."""
        if is_attention(running.module, running.name):
            return True
        outer = self.stack.modules[-1:]
        return bool(outer) and is_attention(outer[0].module, outer[0].name)

    def attends_now(self, module: nn.Module) -> bool:
        """Whether a module is the innermost running module and computes attention."""
        if self.fused.is_inside_regard or self.fused.is_running or not self.stack.is_in_forward_pass:
            return False
        return self.stack.innermost.module is module and self.stack.attends(self.stack.innermost)

    def record(self, call: AttentionCall) -> None:
        """Record a call of the innermost module."""
        self.log.record(call)

    # ---- functions and operations

    def call_sdpa(self, func: Any, args: tuple, kwargs: dict[str, Any], *, in_order: bool = False) -> Any:
        """Call ``F.scaled_dot_product_attention`` and record the call."""
        return self.fused.call_sdpa(func, args, kwargs, in_order=in_order)

    def own_call(self, call: Call) -> AbstractContextManager[None]:
        """Record a call of :func:`regard.attention`."""
        return self.fused.regard_call(call)

    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Pass an operation that torch has done to the part of the capture that it concerns."""
        fused = self.fused
        if fused.is_inside_regard:
            fused.kernel_in_regard(func, result)
            return
        role = OPERATOR_ROLES.get(id(func))
        if role is not None and args[0].is_meta:
            self.log.unseen.numberless = "a model on the meta device"
        elif role == "fused":
            fused.kernel(func, args, kwargs, result)
        elif not fused.is_running and self.stack.modules:
            if role is None:
                self.handwritten.operation(func, args, kwargs, result)
            else:
                weights = result.exp() if role == "log softmax" else result
                self.handwritten.softmax(args, result, weights, is_attention=fused.runs_on_wrappers)

    def fake_operation(self, func: Any) -> None:
        """Note an operation on fake tensors, which a model has or a DTensor uses to compute a shape."""
        if id(func) in OPERATOR_ROLES and self.is_in_forward_pass:
            self.log.unseen.numberless = "a model of fake tensors"

    def whole_graph(self, func: Any) -> None:
        """Reject ``flex_attention``, a single operation whose score is a function of the user."""
        if "flex_attention" in func.name() and self.is_in_forward_pass:
            raise CaptureError(
                f"{self.stack.innermost.name}: flex_attention cannot be recorded, since its score is a function of "
                "the user: use F.scaled_dot_product_attention (attn_implementation='sdpa')"
            )

    # ---- pictures, rejected tokens and the end

    def note_pictures(self, module: nn.Module, arguments: dict[str, Any], result: Any) -> None:
        """Note pictures that a module has encoded outside of a forward pass, as ``generate()`` does."""
        if self.stack.modules or module not in self.names or not self.stack.is_in_its_thread:
            return
        encoded = encoded_pictures(module, arguments, result)
        if encoded is not None:
            alive = [x for x in self.encoded_pictures if x.result() is not None]
            self.encoded_pictures = [*alive, encoded]

    def rejected(self, cache: Any, count: int) -> None:
        """Remove draft tokens that the model rejected, the last ones of a cache, from the records."""
        if count and self.stack.is_in_its_thread:
            self.collector.reject(cache, count)

    def finish(self) -> None:
        """Release the model's modules, masks and inputs."""
        self.stack.modules.clear()
        self.collector.finish()
        self.handwritten.forget()
