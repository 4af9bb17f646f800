"""Tests that captures undo their changes in any order, from other threads, and with patches of other libraries."""

import itertools
import threading
from types import FunctionType

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import regard
from regard import core
from regard.errors import CaptureError
from support.capture_cases import (
    B,
    Chain,
    Checkpointed,
    D,
    M,
    ManualAttention,
    Plain,
    Q,
    qkv,
    seen_of,
)


def switches():
    """The patches and settings that a capture changes for the whole process."""
    parts = (nn.Module._call_impl, nn.Module.__call__, torch._C.ScriptFunction.__call__)
    return (*parts, torch.backends.mha.get_fastpath_enabled(), list(core.OBSERVERS))


# ---- captures that overlap


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_captures_may_end_in_any_order(order):
    before, model, qkv_ = switches(), Plain(), qkv()
    captures = [regard.capture(model) for _ in range(3)]
    seen = [each.__enter__() for each in captures]
    for n in order:
        model(*qkv_)
        captures[n].__exit__(None, None, None)
    assert [len(seen[n]) for n in order] == [1, 2, 3]
    assert switches() == before
    assert not _get_current_function_mode_stack()


class Counting(TorchFunctionMode):
    """Another mode, which counts the calls that it sees."""

    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += func is F.scaled_dot_product_attention
        return func(*args, **(kwargs or {}))


def test_a_mode_entered_later_stays_active():
    capture, model, counting = regard.capture(Plain()), Plain(), Counting()
    seen = capture.__enter__()
    with counting:
        capture.model(*qkv())
        capture.__exit__(None, None, None)
        assert _get_current_function_mode_stack() == [counting]
        model(*qkv())
    assert (len(seen), counting.calls) == (1, 2)


# ---- another thread


def in_a_thread(run):
    """Run a function in another thread and return its exception, if any."""
    raised = []

    def guarded():
        try:
            run()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_a_capture_that_ends_in_another_thread():
    before, model = switches(), Plain()
    capture = regard.capture(model)
    seen = capture.__enter__()
    out = model(*qkv())
    error = in_a_thread(lambda: capture.__exit__(None, None, None))
    assert isinstance(error, CaptureError)
    assert "ended in another thread" in str(error)
    assert switches() == before
    # The mode of this thread has no effect any more, and the next capture takes it from the stack.
    assert torch.equal(model(*qkv()), out)
    assert len(seen) == 1
    with regard.capture(model) as again:
        model(*qkv())
    assert len(again) == 1
    assert not _get_current_function_mode_stack()


def test_the_end_of_a_with_block_whose_capture_ended_in_another_thread():
    capture = regard.capture(Plain())
    capture.__enter__()
    capture.model(*qkv())
    assert in_a_thread(lambda: capture.__exit__(None, None, None)) is not None
    with pytest.raises(CaptureError, match="not active, or ended in another thread"):
        capture.__exit__(None, None, None)
    assert not _get_current_function_mode_stack()


def test_an_exception_in_the_with_block_is_not_replaced():
    capture = regard.capture(Plain())
    capture.__enter__()
    in_a_thread(lambda: capture.__exit__(None, None, None))
    assert capture.__exit__(KeyError, KeyError(), None) is None
    with pytest.raises(CaptureError, match="not active"):
        capture.__exit__(None, None, None)


# ---- patches of other people


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def patched_over(owner, name):
    """Patch a method as another library would, and return a function that removes the patch."""
    before, calls = getattr(owner, name), []

    def patch(self, *args, **kwargs):
        calls.append(type(self))
        return before(self, *args, **kwargs)

    setattr(owner, name, patch)
    return calls, patch, lambda: setattr(owner, name, before)


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize(
    ("owner", "name"), [(nn.Module, "_call_impl"), (torch._C.ScriptFunction, "__call__")]
)
def test_a_patch_made_inside_the_capture_is_kept(owner, name):
    original, model = getattr(owner, name), Plain()
    scripted = torch.jit.script(add_one) if owner is not nn.Module else Plain()
    args = (torch.ones(2),) if owner is not nn.Module else qkv()
    try:
        with regard.capture(model) as seen:
            calls, patch, take_off = patched_over(owner, name)
            model(*qkv())
        assert getattr(owner, name) is patch
        calls.clear()
        scripted(*args)
        assert len(calls) == 1
        # The replacement of the first capture is called too.
        with regard.capture(model) as again:
            model(*qkv())
        assert (len(seen), len(again)) == (1, 1)
        # Restores the replacement of the first capture, which passes calls on.
        take_off()
        scripted(*args)
        seen, _ = seen_of(model, *qkv())
        assert len(seen) == 1
    finally:
        setattr(owner, name, original)


def test_a_patch_over_compiled_calls_is_kept():
    original, model = nn.Module.__call__, Plain()
    model._compiled_call_impl = model._call_impl
    try:
        with regard.capture(model) as seen:
            calls, patch, take_off = patched_over(nn.Module, "__call__")
            model(*qkv())
        assert nn.Module.__call__ is patch
        with regard.capture(model) as again:
            model(*qkv())
        take_off()
        model(*qkv())
        assert (len(seen), len(again)) == (1, 1)
        # The second capture calls the compiled form itself.
        assert len(calls) == 1
    finally:
        nn.Module.__call__ = original


@pytest.mark.parametrize("changed", ["nothing", "attention", "name"])
def test_multi_head_attention_of_torch_is_recorded_under_patches_and_in_nested_captures(changed, monkeypatch):
    model, x = nn.MultiheadAttention(6, 2, batch_first=True), torch.randn(B, Q, 6)
    expected, weights = model(x, x, x, average_attn_weights=False)
    fused, forward, calls = F.scaled_dot_product_attention, F.multi_head_attention_forward, []

    def patch(*args, **kwargs):
        calls.append(args)
        return fused(*args, **kwargs)

    if changed == "attention":
        monkeypatch.setattr(F, "scaled_dot_product_attention", patch)
    elif changed == "name":
        # Another version of torch might call its attention by another name.
        names = (
            "other" if name == "scaled_dot_product_attention" else name for name in forward.__code__.co_names
        )
        others = {**forward.__globals__, "other": patch}
        other = FunctionType(
            forward.__code__.replace(co_names=tuple(names)), others, forward.__name__, forward.__defaults__
        )
        others["multi_head_attention_forward"] = other
        monkeypatch.setattr(F, "multi_head_attention_forward", other)
    with regard.capture(model) as alone:
        output, _ = model(x, x, x, need_weights=False)
    with regard.capture(model) as outer, regard.capture(model) as inner:
        model(x, x, x, need_weights=False)
    assert len(calls) == (0 if changed == "nothing" else 2)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=0)
    for seen in (alone, outer, inner):
        torch.testing.assert_close(seen[0].map[:], weights, atol=1e-6, rtol=0)


def test_nested_captures_each_record_their_own_layers():
    model = Chain(*(ManualAttention(fused) for fused in (True, False, True, False)))
    x = torch.randn(2, 3, 4)
    with regard.capture(model) as outer:
        model.layers[0](x)
        with regard.capture(model, layers=[1, 3]) as inner:
            model(x)
        model.layers[3](x)
    assert [record.layer for record in inner] == [1, 3]
    assert [record.layer for record in outer] == [0, 0, 1, 2, 3, 3]
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_no_dispatch_mode_is_left_after_a_model_raises():
    class Failing(ManualAttention):
        def forward(self, x):
            raise RuntimeError("on purpose")

    model = Chain(ManualAttention(True), Failing(True))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="on purpose"), regard.capture(model):
            model(torch.randn(2, 3, 4))
        assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_the_fast_path_stays_off_while_captures_overlap_in_two_threads():
    model, x = nn.TransformerEncoderLayer(2 * D, 2, 13, batch_first=True).eval(), torch.randn(B, Q, 2 * D)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen, fast = {}, []

    def first():
        with regard.capture(model) as seen["first"]:
            first_is_in.set()
            second_is_in.wait(30)
            model(x)
        first_is_out.set()

    def second():
        first_is_in.wait(30)
        with regard.capture(model) as seen["second"]:
            second_is_in.set()
            first_is_out.wait(30)
            fast.append(torch.backends.mha.get_fastpath_enabled())
            model(x)

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # The end of the first capture did not switch it on.
    assert fast == [False]
    assert torch.backends.mha.get_fastpath_enabled()
    assert [len(seen[name]) for name in ("first", "second")] == [1, 1]


def test_a_backward_pass_in_another_thread_adds_no_record():
    model = Checkpointed()
    with regard.capture(model) as seen:
        loss = model(torch.randn(B, Q, M)).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert len(seen) == 1
