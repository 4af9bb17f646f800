"""capture() switches everything off again: in any order, from another thread, under other people's patches."""

import itertools
import threading

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import regard
from regard import core
from regard.errors import ArgumentError, CaptureError, DtypeError, UnknownNameError
from support.capture_cases import B, D, H, K, M, Plain, Q, qkv, seen_of


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
        self.calls += func is torch.nn.functional.scaled_dot_product_attention
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
    """Patch a method as another library would; return the function that takes the patch off again."""
    before, calls = getattr(owner, name), []

    def patch(self, *args, **kwargs):
        calls.append(type(self))
        return before(self, *args, **kwargs)

    setattr(owner, name, patch)
    return calls, patch, lambda: setattr(owner, name, before)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
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
        with regard.capture(model) as again:  # the replacement of the first capture is called too
            model(*qkv())
        assert (len(seen), len(again)) == (1, 1)
        take_off()  # puts the replacement of the first capture back, which passes its calls on
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
        assert len(calls) == 1  # the second capture calls the compiled form itself
    finally:
        nn.Module.__call__ = original


# ---- options that choose nothing


ENCODER = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(M, H, 7, batch_first=True), 2, enable_nested_tensor=False
)


@pytest.mark.parametrize(
    ("layers", "kind", "words"),
    [
        (slice(0, 5, 0), ArgumentError, r"slice\(0, 5, 0\) holds no layer: its step is 0"),
        (slice(3, 1), ArgumentError, "it ends where it starts, or before"),
        (slice(2, 2), ArgumentError, "it ends where it starts, or before"),
        (slice(-2, None), ArgumentError, "needs the number of layers"),
        (slice(0.5, 2), DtypeError, "expected a whole number, got 0.5"),
        (slice(True, 2), DtypeError, "expected a whole number, got True"),
        (slice("a"), DtypeError, "expected a whole number, got 'a'"),
        ([True], DtypeError, "expected a whole number, got True"),
        (1.0, DtypeError, "expected a whole number, got 1.0"),
        ("12", DtypeError, "expected a whole number, got '1'"),
    ],
)
def test_wrong_layers_are_refused(layers, kind, words):
    with pytest.raises(kind, match=f"layers: .*{words}"):
        regard.capture(ENCODER, layers=layers)


@pytest.mark.parametrize("layers", [2, -3, slice(2, None), [0, 7]])
def test_layers_out_of_range_are_refused(layers):
    with pytest.raises((ArgumentError, CaptureError), match=r"seen were \[0, 1\]"):
        seen_of(ENCODER, torch.randn(B, Q, M), options={"layers": layers})


@pytest.mark.parametrize("layers", [slice(1, None), slice(1, 10**30), slice(1, 8, 3)])
def test_layers_can_be_a_slice(layers):
    seen, _ = seen_of(ENCODER, torch.randn(B, Q, M), options={"layers": layers})
    assert [record.layer for record in seen] == [1]


def test_modules_of_none_are_the_default():
    model = Plain()
    with regard.capture(model, modules=None) as seen:
        model(*qkv())
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("modules", "kind", "words"),
    [
        ("layers.0.self_atn", UnknownNameError, "did you mean 'layers.0.self_attn'"),
        (nn.Linear(2, 3), ArgumentError, "this Linear is not a module of the model"),
        ([nn.LSTM], ArgumentError, "no module of the class LSTM: give a name, such as 'layers.0.self_attn'"),
        ({nn.LSTM: "bhqk"}, ArgumentError, "no module of the class LSTM"),
        (nn.Transformer, ArgumentError, "did you mean 'TransformerEncoder'"),
        (object, DtypeError, "expected a class of modules, got object"),
        (3, DtypeError, "expected names, modules or classes, got 3"),
        ([3], DtypeError, "expected names, modules or classes, got int"),
    ],
    ids=repr,
)
def test_modules_missing_from_the_model_are_refused(modules, kind, words):
    with pytest.raises(kind, match=words) as raised:
        regard.capture(ENCODER, modules=modules)
    assert len(str(raised.value)) < 600


class Weighs(nn.Module):
    """Takes its softmax in a module of torch's."""

    def __init__(self):
        super().__init__()
        self.soft = nn.Softmax(dim=-1)

    def forward(self, q, k, v):
        return self.soft(q @ k.mT * D**-0.5) @ v


def test_a_softmax_module_may_be_named():
    q, k, v = qkv()
    seen, out = seen_of(Weighs(), q, k, v, options={"modules": "soft"})
    assert [record.name for record in seen] == ["soft"]
    assert seen[0].map.shape == (B, H, Q, K)
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)
