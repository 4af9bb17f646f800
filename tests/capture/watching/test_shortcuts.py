"""Tests that functions which are not traced operation by operation give the same records."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.capture.reading import attention_calls as calls
from regard.capture.watching import modes
from regard.capture.watching.function_kinds import FunctionKind, kind_of_function

B, H, N, D = 2, 3, 7, 5


class Attention(nn.Module):
    """Attention by hand, in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.way, self.num_heads = way, H
        self.qkv = nn.Linear(H * D, 3 * H * D)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, H, D).permute(2, 0, 3, 1, 4)
        return self.way(q, k, v).transpose(1, 2).reshape(x.shape)


def scaled(q, k, v):
    return F.dropout((q @ k.mT * D**-0.5).softmax(-1), 0.5, training=False) @ v


def divided_in_place(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores /= 2.0
    scores += torch.full((N, N), float("-inf")).triu(1)
    return torch.softmax(scores, dim=-1).to(v.dtype).contiguous() @ v


def filled(q, k, v):
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    return F.softmax((q @ k.mT).masked_fill(hidden, -1e9), dim=-1, dtype=torch.float32) @ v


def chosen(q, k, v):
    past = torch.ones(N, N, dtype=torch.bool).tril()
    return torch.where(past, q @ k.mT, torch.tensor(-1e9)).softmax(-1) @ v


def chosen_by_the_method(q, k, v):
    scores = q @ k.mT
    assert scores.type() == "torch.FloatTensor"
    return scores.where(torch.ones(N, N, dtype=torch.bool).tril(), torch.tensor(-1e9)).softmax(-1) @ v


def written_later(q, k, v):
    q = q.clone()
    scores = q @ k.mT
    q.mul_(0)  # the scores are those of before
    return scores.softmax(-1) @ v


def written_by_a_flag(q, k, v):
    scores = q @ k.mT
    F.relu(scores, inplace=True)
    return scores.softmax(-1) @ v


def dropped(q, k, v):
    torch.manual_seed(0)
    return F.dropout((q @ k.mT).softmax(-1), 0.5, training=True) @ v


def renormalised(q, k, v):
    weights = (q @ k.mT).softmax(-1).tril()
    return weights / weights.sum(-1, keepdim=True) @ v


def cast(q, k, v):
    return (q @ k.mT).softmax(-1, dtype=torch.float64).to(v.dtype) @ v


def gathered(q, k, v):
    keys = torch.arange(N).flip(0).expand(B, H, N, N)
    return (q @ k.mT).gather(-1, keys).softmax(-1) @ v.flip(-2)


def gathered_by_keywords(q, k, v):
    keys = torch.arange(N).flip(0).expand(B, H, N, N)
    return torch.gather(q @ k.mT, dim=-1, index=keys).softmax(-1) @ v.flip(-2)


WAYS = (
    gathered,
    gathered_by_keywords,
    scaled,
    divided_in_place,
    filled,
    chosen,
    chosen_by_the_method,
    written_later,
    written_by_a_flag,
    dropped,
    renormalised,
    cast,
)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_shortcuts_record_the_same_as_full_tracing(way, inference, monkeypatch):
    torch.manual_seed(0)
    model, x = Attention(way), torch.randn(B, N, H * D)
    with torch.inference_mode(inference):
        plain = model(x)
        with regard.capture(model) as short:
            out = model(x)
        monkeypatch.setattr(modes, "predict", lambda *_: None)
        with regard.capture(model) as seen:
            model(x)
    assert torch.equal(out, plain)
    assert (short[0].kind, str(short[0].map)) == (seen[0].kind, str(seen[0].map))
    torch.testing.assert_close(short[0].map[:], seen[0].map[:], atol=1e-6, rtol=0)


def test_the_usual_score_arithmetic_is_not_traced(monkeypatch):
    shown = []
    real = modes.OperationMode.__torch_dispatch__

    def counted(self, func, *rest, **options):
        shown.append(func)
        return real(self, func, *rest, **options)

    monkeypatch.setattr(modes.OperationMode, "__torch_dispatch__", counted)
    for way in (scaled, divided_in_place, filled, chosen, gathered, gathered_by_keywords):
        with regard.capture(Attention(way)) as seen:
            seen._capture.model(torch.randn(B, N, H * D))
        assert len(seen) == 1
    assert shown == []


def test_gradients_are_unchanged_and_no_graph_is_kept():
    model, x = Attention(divided_in_place), torch.randn(B, N, H * D)
    model(x).sum().backward()
    expected = model.qkv.weight.grad.clone()
    model.zero_grad()
    with regard.capture(model) as seen:
        model(x).sum().backward()
    torch.testing.assert_close(model.qkv.weight.grad, expected, atol=0, rtol=0)
    assert not seen[0].map[:].requires_grad


def test_two_captures_do_not_trace_each_other():
    model, x = Attention(scaled), torch.randn(B, N, H * D)
    with regard.capture(model) as outer, regard.capture(model) as inner:
        model(x)
    assert (len(outer), len(inner)) == (1, 1)
    torch.testing.assert_close(outer[0].map[:], inner[0].map[:], atol=0, rtol=0)


def test_a_product_with_a_weight_of_another_model_is_seen():
    class Pooled(nn.Module):
        def forward(self, x, queries):
            return (queries @ x.mT).softmax(-1) @ x

    queries = nn.Parameter(torch.randn(1, 3, 4))  # no weight of the model's own
    model = Pooled()
    with torch.no_grad(), regard.capture(model, modules=["Pooled"]) as seen:
        model(torch.randn(1, 5, 4), queries)
    assert tuple(seen[0].map.shape[2:]) == (3, 5)


@pytest.mark.parametrize(
    ("func", "duty"),
    [
        (torch.Tensor.size, FunctionKind.READS_ATTRIBUTE),
        (torch.Tensor.shape.__get__, FunctionKind.READS_ATTRIBUTE),
        (torch.Tensor.mT.__get__, FunctionKind.VIEW),
        (torch.Tensor.copy_, FunctionKind.IN_PLACE),
        (torch.Tensor.__setitem__, FunctionKind.IN_PLACE),
        (torch.Tensor.__ior__, FunctionKind.IN_PLACE),
        (torch.Tensor.__invert__, FunctionKind.UNRELATED),
        (F.layer_norm, FunctionKind.UNRELATED),
        (torch.ops.aten.size.int, FunctionKind.READS_ATTRIBUTE),
        (torch.ops.aten.resize_.default, FunctionKind.UNKNOWN),
        (torch.ops.aten.gather.default, FunctionKind.UNKNOWN),
        (torch.einsum, FunctionKind.UNKNOWN),
        (F.multi_head_attention_forward, FunctionKind.UNKNOWN),
        (F.softmax, FunctionKind.SOFTMAX),
        (print, FunctionKind.UNRELATED),
    ],
)
def test_functions_are_classified_by_their_role(func, duty):
    assert kind_of_function(func) is duty


def test_a_long_prompt_keeps_the_log_sum_exp_of_its_kernel(monkeypatch):
    monkeypatch.setattr(calls, "SMALL_WORK", B * H * 3 * 10)  # the prompt is large, the steps are small

    class Cached(nn.Module):
        is_causal = True

        def forward(self, hidden_states, keys):
            x = hidden_states.unflatten(-1, (H, D)).transpose(1, 2)
            k = torch.cat([keys, x], dim=2)
            return F.scaled_dot_product_attention(x, k, k, is_causal=x.shape[2] > 1), k

    model, keys = Cached(), torch.zeros(B, H, 0, D)
    torch.manual_seed(0)
    with regard.capture(model) as seen:
        for n in (N, 1, 1):
            _, keys = model(torch.randn(B, n, H * D), keys)
    source = seen[0].map._source
    assert source._lse is not None
    scores = (keys @ keys.mT * D**-0.5).masked_fill(
        torch.ones(N + 2, N + 2, dtype=torch.bool).triu(1), -torch.inf
    )
    torch.testing.assert_close(seen[0].map[:], scores.softmax(-1), atol=1e-6, rtol=0)


def shown_functions(monkeypatch, model, *inputs):
    """Names of the functions that were shown to a capture of a model, and the records."""
    shown, show = [], modes.FunctionMode.__torch_function__

    def noting(self, func, types, args=(), kwargs=None):
        shown.append(func.__name__)
        return show(self, func, types, args, kwargs)

    monkeypatch.setattr(modes.FunctionMode, "__torch_function__", noting)
    with regard.capture(model) as seen:
        model(*inputs)
    return shown, seen


def test_functions_of_a_simple_layer_are_not_traced(monkeypatch):
    model = nn.Sequential(nn.LayerNorm(H * D), Attention(scaled), nn.GELU())
    shown, seen = shown_functions(monkeypatch, model, torch.randn(B, N, H * D))
    assert not {"layer_norm", "linear", "gelu"} & set(shown)
    assert seen[0].map.shape == (B, H, N, N)


class SomeOutput(nn.Module):
    """A feed-forward part, as in the models of Hugging Face."""

    def __init__(self):
        super().__init__()
        self.dense, self.norm = nn.Linear(H * D, H * D), nn.LayerNorm(H * D)

    def forward(self, x):
        return self.norm(x + self.dense(x))


SomeOutput.__module__ = "transformers.models.some"


def test_functions_of_a_feed_forward_part_are_not_traced(monkeypatch):
    model = nn.Sequential(SomeOutput(), Attention(scaled), SomeOutput())
    shown, seen = shown_functions(monkeypatch, model, torch.randn(B, N, H * D))
    assert not {"layer_norm", "linear", "add"} & set(shown)
    assert seen[0].map.shape == (B, H, N, N)


@pytest.mark.parametrize("part", [False, True], ids=["layer", "layer of a part"])
@pytest.mark.parametrize("put", ["hook", "hook before", "forward"])
def test_attention_added_to_a_simple_layer_is_recorded(put, part):
    around = SomeOutput()
    layer = around.dense if part else nn.Linear(H * D, H * D)

    def attend(x):
        x = x.unflatten(-1, (H, D)).transpose(1, 2)
        return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(2)

    if put == "hook":
        layer.register_forward_hook(lambda _, args, result: attend(result))
    elif put == "hook before":
        layer.register_forward_pre_hook(lambda _, args: attend(*args))
    else:
        layer.forward = attend
    model = nn.Sequential(around if part else layer)
    with regard.capture(model) as seen:
        model(torch.randn(B, N, H * D))
    assert seen[0].map.shape == (B, H, N, N)


def test_a_user_defined_mode_still_sees_simple_layers():
    seen_by_it = []

    class Noting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen_by_it.append(func.__name__)
            return func(*args, **(kwargs or {}))

    model, x = Attention(scaled), torch.randn(B, N, H * D)
    with Noting(), regard.capture(model):
        model(x)
    assert "linear" in seen_by_it


def test_only_compiled_modules_have_their_call_patched():
    call = nn.Module.__call__
    model, x = Attention(scaled), torch.randn(B, N, H * D)
    with regard.capture(model):
        assert nn.Module.__call__ is call
        model(x)
    model.compile(backend="eager")
    with regard.capture(model) as one, regard.capture(model) as other:
        assert nn.Module.__call__ is not call
        model(x)
    assert nn.Module.__call__ is call
    assert len(one) == len(other) == 1


def test_symbolic_tracing_inside_a_capture():
    model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    with regard.capture(model) as seen:
        layer = nn.Linear(2, 3)
        traced = torch.fx.symbolic_trace(layer)
        model(torch.randn(1, 3, 8))
    x = torch.randn(5, 2)
    assert torch.equal(traced(x), layer(x))
    assert len(seen) == 1
