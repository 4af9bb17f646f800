"""Attention that a model writes out as a product, arithmetic, a softmax and a product with the values."""

from __future__ import annotations

import weakref
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.capture.reading.attention_calls import refuse_transforms, without_transforms
from regard.capture.reading.axes_of_calls import context_of_softmax
from regard.capture.reading.kinds import is_attention, may_be_whole_attention
from regard.capture.reading.running_modules import RunningModule, heads_of
from regard.capture.watching.call_log import CallLog
from regard.capture.watching.followed_softmax import FollowedSoftmax
from regard.capture.watching.module_outputs import attributes_of, storages_in
from regard.capture.watching.module_stack import ModuleStack
from regard.capture.watching.operators import EXPONENTIALS, has_storage
from regard.capture.watching.score_tracing import ScoreTracer
from regard.capture.watching.shortcuts import is_plain, tensors_in
from regard.capture.watching.softmax_calls import product_behind_softmax, read_softmax
from regard.capture.watching.weight_tracing import WeightTracer
from regard.torch_private import FunctionModesOff, repeats_for_gradient, transform_on_top

__all__ = ["HandwrittenAttention"]

_RESHAPING = {Tensor.view, Tensor.reshape}
_NUMBERS = {int, float, bool}
_MULTIPLYING = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm)


class HandwrittenAttention:
    """Follows scores from their product to the softmax, and weights from the softmax to the values."""

    def __init__(self, names: dict[nn.Module, str], stack: ModuleStack, log: CallLog):
        self.scores = scores = ScoreTracer(names, log.folds)
        # Without a reference to self, so that the records are freed as soon as nobody holds them.
        self.weights = WeightTracer(lambda: scores.parameters, log.collector)
        # Whether F.multi_head_attention_forward runs, which folds heads as (b*h).
        self.in_multi_head_forward = False
        # How many were taken of tensors with more than two axes.
        self.exponentials = 0
        self._stack, self._log = stack, log
        # Whether a function other than a matrix product is watched.
        self._in_function = False
        this = weakref.ref(self)
        scores.may_have_learned_keys = lambda: cast(HandwrittenAttention, this())._may_have_learned_keys()

    # ---- functions

    @property
    def follows(self) -> bool:
        """Whether any scores or weights are followed."""
        return self.scores.follows or self.weights.follows

    @property
    def parameters(self) -> set[int]:
        """The storages of the model's parameters."""
        return self.scores.parameters

    def concerns(self, *values: Any) -> bool:
        """Whether some values hold a tensor of followed scores or weights, or a tensor that cannot be read."""
        for value in values:
            if value is None or type(value) in _NUMBERS:
                continue
            for x in (value,) if isinstance(value, Tensor) else tensors_in((value,)):
                if not is_plain(x):
                    return True
                storage = x.untyped_storage().data_ptr()
                if self.weights.is_in_storage(storage) or self.scores.is_in_storage(storage):
                    return True
        return False

    def forget_results(self, result: Any) -> None:
        """Note that the tensors that a function returned hold no scores, though scores may have had their addresses."""
        for x in (result,) if isinstance(result, Tensor) else tensors_in((result,)):
            if is_plain(x):
                self.scores.forget_tensor(x)

    def note_fold(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Note a function that may fold the axis of heads into the batch."""
        if not self._stack.modules or type(result) is not Tensor or result.ndim < 3:
            return
        # A copy that was not needed.
        if args and result is args[0]:
            return
        # Most models split and join heads behind the axis of tokens, which folds no heads.
        if func in _RESHAPING and args[0].ndim < 5 and args[0].shape[:2] == result.shape[:2]:
            return
        # The tensors of a transform of torch.func have no address.
        if transform_on_top() is not None:
            return
        self.scores.folds.saw(func, args, kwargs, result)

    def note_choice(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Note a function that chose parts of a tensor by an index. Values may be chosen by the same as weights."""
        in_model = self._stack.modules and transform_on_top() is None
        if not in_model or not args or not is_plain(args[0]):
            return
        if not self.weights.is_in_storage(args[0].untyped_storage().data_ptr()):
            self.weights.choices.note(args, kwargs)

    def function_begins(self, func: Any, args: tuple) -> None:
        """Note the beginning of a function whose operations are watched one by one.

        It records whether the function is ``F.multi_head_attention_forward``, and whether it is ``torch.einsum`` in
        which all followed weights have the axes of their softmax.
        """
        self.in_multi_head_forward = func is F.multi_head_attention_forward
        # Functions from outside torch may have no hash.
        self._in_function = not any(func is product for product in _MULTIPLYING)
        if func is torch.einsum and self.weights.follows:
            with FunctionModesOff():
                self.weights.names_axes = self.weights.has_own_axes(tensors_in(args))

    def function_ends(self) -> None:
        """Note the end of a function that was watched operation by operation."""
        self.in_multi_head_forward = self.weights.names_axes = self._in_function = False

    def _may_have_learned_keys(self) -> bool:
        """Whether a matrix product with a parameter may be attention to learned keys."""
        if self._in_function or not self._stack.modules:
            return False
        return self._stack.has_chosen_module() or self._stack.attends(self._stack.innermost)

    def note_shared_memory(self, x: Any) -> None:
        """Note a tensor whose numbers may change unseen from now on, since NumPy or other code has its memory."""
        if is_plain(x):
            storage = x.untyped_storage().data_ptr()
            self.scores.mark_inexact({storage})
            self.weights.mark_changed_at(storage)

    def inside_transform(self, func: Any, args: tuple) -> None:
        """Note a function inside a transform of torch.func, whose tensors cannot be read. A softmax is an error."""
        if not self._stack.is_in_forward_pass:
            return
        if "softmax" in getattr(func, "__name__", ""):
            refuse_transforms(*args)
        for x in map(without_transforms, tensors_in(args)):
            if is_plain(x):
                self.weights.mark_lost_at(x.untyped_storage().data_ptr())

    # ---- operations

    def operation(self, func: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Follow an operation other than a softmax or a fused kernel."""
        traced = self.weights.follows or self.weights.used.tensors
        softmax = self.weights.note_operation(func, args, kwargs, result) if traced else None
        self.exponentials += id(func) in EXPONENTIALS and args[0].ndim > 2
        if softmax is None:
            self.scores.note_operation(func, args, kwargs, result)
        else:
            self.scores.finish_product(softmax.product)

    def softmax(self, args: tuple, result: Tensor, weights: Tensor, *, is_attention: bool) -> None:
        """Record a softmax and follow its result, if it is known to be attention or looks like it."""
        modules = self._stack.modules
        heads = heads_of(modules[-1], modules)
        product = product_behind_softmax(self.scores, args[0], args[1], heads) if args[0].ndim > 1 else None
        self.scores.forget_tensor(result)
        if not self._stack.is_in_forward_pass or args[0].ndim < 2:
            return
        running = self._stack.innermost
        if product is not None:
            self._log.unseen.softmax_follows(product.number)
        if product is not None and not self._stack.is_chosen(running):
            # The innermost module that computed both the product and the softmax, itself or in modules inside it.
            running = next(x for x in reversed(modules) if x.products < product.number)
        shape = tuple(args[0].shape)
        of_product = product is not None and not product.of_parameter
        learned = product is not None and product.of_parameter and self._stack.attends(running)
        if not is_attention and not learned and not self._is_recorded(running, of_product):
            if of_product or self._stack.attends(running):
                noted = self._log.note_softmax(running, shape, args[1])
                if has_storage(result):
                    self.weights.beside.begin(noted, result, self._stack.innermost)
                else:
                    self._log.list_softmaxes([noted])
            return
        context = context_of_softmax(running, modules, self._stack.choices, self.in_multi_head_forward)
        call = read_softmax(self.scores, args, weights, context)
        if call.guessed and args[0].numel():
            self._log.note_guess(running, shape)
        recorded = self._log.record(call, running)
        if recorded is not None:
            number = 0 if product is None else product.number
            followed = FollowedSoftmax(recorded, call, number, learned_keys=learned)
            self.weights.begin(followed, result, args[1])

    def _is_recorded(self, running: RunningModule, of_product: bool) -> bool:
        """Whether a softmax is recorded."""
        return self._stack.has_chosen_module() or (of_product and self._stack.attends(running))

    # ---- the ends of modules

    def module_ended(self, running: RunningModule, result: object, attended: bool) -> None:
        """Go on following only the scores and weights that a module returned or keeps in its attributes."""
        if not (not self.scores.is_empty or self.weights.follows):
            if self.weights.used.tensors:
                self.weights.used.forget(running.calls + 1)
            return
        kept = storages_in(result)
        if self.weights.follows:
            kept |= storages_in(attributes_of(running.module))
        if self.weights.beside:
            around = self._stack.modules[-1] if self._stack.modules else None
            self._log.module_ended(running, self.weights.beside.softmaxes)
            self._log.list_softmaxes(self.weights.beside.end(running, kept, around))
        self.scores.forget(running.products + 1, () if attended else kept)
        self.weights.forget(running.calls + 1, kept)

    def check_unseen(self, running: RunningModule) -> None:
        """Note a module that is called attention and in which no attention was noticed, whatever it computed."""
        if self._log.noticed != running.noticed:
            if self._log.unseen.without_softmax:
                self._log.forget_parts(running)
            return
        module, name = running.module, running.name
        if is_attention(module, name) and may_be_whole_attention(module, name) and not repeats_for_gradient():
            products = range(running.products + 1, self.scores.products + 1)
            self._log.note_attention_without_softmax(running, products)

    def forget(self) -> None:
        """Release all scores and weights."""
        self._log.list_softmaxes(self.weights.beside.clear())
        self.scores.forget()
        self.weights.forget()
