"""Tests of attention by hand in many spellings, and of warnings about attention that is not recorded."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils.flop_counter import FlopCounterMode

import regard
from regard.errors import CaptureError

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
EXPECTED = (X @ X.mT).softmax(-1)  # (b,q,k)


class Beside(nn.Module):
    """A module, and an attention of torch's beside it, which is always found."""

    def __init__(self, part):
        super().__init__()
        self.part, self.other = part, nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, *more):
        self.part(x, *more)
        return self.other(x, x, x, need_weights=False)[0]


class OwnAttention(nn.Module):
    """Attention in the words of a function."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def forward(self, x):
        return self.words(x)


def found(model, *inputs, **options):
    """Return the records of the part and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with regard.capture(model, **options) as seen:
            model(*inputs)
    return [r for r in seen if r.name != "other"], [str(one.message) for one in told]


# ---- in how many words


def summed(x):
    return torch.stack([torch.addmm(torch.zeros(3, 3), one, one.T).softmax(-1) @ one for one in x])


FOLLOWED = {
    "product out=": lambda x: torch.bmm(x, x.mT, out=torch.empty(2, 3, 3)).softmax(-1) @ x,
    "softmax out=": lambda x: torch.softmax(x @ x.mT, -1, out=torch.empty(2, 3, 3)) @ x,
    "log_softmax": lambda x: (x @ x.mT).log_softmax(-1).exp() @ x,
    "baddbmm_": lambda x: torch.zeros(2, 3, 3).baddbmm_(x, x.mT).softmax(-1) @ x,
}


@pytest.mark.parametrize("way", FOLLOWED)
def test_every_spelling_of_attention_is_found(way):
    with torch.no_grad():
        records, told = found(Beside(OwnAttention(FOLLOWED[way])), X)
    assert not told
    assert torch.allclose(records[0].map.weights()[:, 0], EXPECTED, atol=1e-6)


def test_products_by_addmm_are_recorded():
    with torch.no_grad():
        records, _ = found(Beside(OwnAttention(summed)), X)
    for record, expected in zip(records, EXPECTED, strict=True):
        assert torch.allclose(record.map.weights()[0, 0], expected, atol=1e-6)


PASSED_BY = {
    "of no product": lambda x: x.softmax(-1) * x,
    "of a part": lambda x: (x @ x.mT)[..., :2].softmax(-1) @ x[:, :2],
}


@pytest.mark.parametrize("way", PASSED_BY)
def test_a_softmax_that_is_not_recorded_is_warned_of(way):
    model = Beside(OwnAttention(PASSED_BY[way]))
    records, told = found(model, X)
    assert not records
    assert "not recorded: a softmax in 'part'" in told[0]
    assert "modules=['part']" in told[0]
    records, told = found(model, X, modules=["part"])  # as it advises
    assert len(records) == 1
    assert not any("not recorded" in message for message in told)


def test_a_product_is_remembered_while_another_attention_runs():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner_attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            scores = x @ x.mT
            self.inner_attention(x, x, x)
            return scores.softmax(-1) @ x

    records, _ = found(nn.ModuleDict({"attention": Outer()})["attention"], X, modules=[Outer])
    assert [record.name for record in records] == ["inner_attention", "Outer"]
    assert "recomputed" in repr(records[1].map)  # its product was not forgotten
    assert torch.allclose(records[1].map.weights()[:, 0], EXPECTED, atol=1e-6)


def test_a_softmax_module_is_recorded_under_the_attention_that_calls_it():
    class Mine(nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.softmax = Mine()

        def forward(self, x):
            return self.softmax(x @ x.mT) @ x

    records, told = found(Beside(Attention()), X)
    assert [record.name for record in records] == ["part"]
    assert not told
    records, _ = found(Beside(Attention()), X, modules=["part.softmax"])
    assert [record.name for record in records] == ["part.softmax"]  # as it was asked for


def test_a_subclass_of_multihead_attention_is_recorded():
    class Mixer(nn.MultiheadAttention):
        pass

    model = nn.Sequential()
    model.add_module("mixer", Mixer(8, 2, batch_first=True))
    with regard.capture(model) as seen:
        _, weights = model.mixer(X, X, X, average_attn_weights=False)
    assert torch.allclose(seen[0].map.weights(), weights, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_scripted_function_is_recorded():
    @torch.jit.script
    def scripted(x):
        return torch.softmax(torch.matmul(x, x.transpose(-1, -2)), -1)

    call = torch._C.ScriptFunction.__call__
    records, _ = found(Beside(OwnAttention(scripted)), X)
    assert torch.allclose(records[0].map.weights()[:, 0], EXPECTED, atol=1e-6)
    assert torch._C.ScriptFunction.__call__ is call


class Unhashable:
    """A function of a user that cannot be hashed, and that passes itself to the function modes."""

    __hash__ = None  # type: ignore[assignment]
    __module__ = None  # type: ignore[assignment]

    def __call__(self, x):
        if has_torch_function_unary(x):
            return handle_torch_function(self, (x,), x)
        return (x @ x.mT).softmax(-1) @ x


def test_overridden_functions_from_outside_torch_are_recorded():
    nowhere = lambda x: handle_torch_function(inside, (x,), x) if has_torch_function_unary(x) else inside(x)  # noqa: E731

    def inside(x):
        return (x @ x.mT).softmax(-1) @ x

    setattr(inside, "__module__", None)  # noqa: B010
    for words in (Unhashable(), nowhere):
        records, _ = found(Beside(OwnAttention(words)), X)
        assert torch.allclose(records[0].map.weights()[:, 0], EXPECTED, atol=1e-6)


# ---- under inference mode operators come whole


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_is_recorded_under_inference_mode(need_weights):
    model = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    with torch.inference_mode():
        plain, weights = model(X, X, X, average_attn_weights=False)
        with regard.capture(model) as seen:
            out, _ = model(X, X, X, need_weights=need_weights)
    assert torch.allclose(out, plain, atol=2e-6)
    assert torch.allclose(seen[0].map.weights(), weights, atol=1e-6)


def test_attention_by_hand_is_recorded_under_inference_mode():
    model = Beside(OwnAttention(lambda x: (x @ x.mT).softmax(-1) @ x))
    with torch.inference_mode():
        records, told = found(model, X)
    assert not told
    assert torch.allclose(records[0].map.weights()[:, 0], EXPECTED, atol=1e-6)


# ---- other people's modes and copies


class Blocks(nn.Module):
    """Two attention blocks, whose operations are counted by another dispatch mode."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, x):
        self.product = x @ x.mT  # of which no softmax is taken
        self.counts = []
        for block in self.blocks:
            with FlopCounterMode(display=False) as counter:
                x = block(x, x, x, need_weights=False)[0]
                self.product = x @ x.mT
            self.counts.append(counter.get_total_flops())
        return x


def test_the_order_of_other_modes_is_kept():
    model = Blocks()
    model(X)
    plain = model.counts
    with regard.capture(model) as seen:
        model(X)
    assert model.counts == plain
    assert len(seen) == 2
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_copy_made_inside_a_capture_is_a_plain_model(tmp_path):
    model = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    with regard.capture(model) as seen:
        out = model(X)
        twin = copy.deepcopy(model)
        twin(X)
        torch.save(model, tmp_path / "whole.pt")
    assert len(seen) == 1
    assert b"regard" not in (tmp_path / "whole.pt").read_bytes(), "nothing of a capture is written"
    assert torch.allclose(twin(X), out, atol=2e-6)
    for module in twin.modules():
        held = [value for name, value in vars(module).items() if name.endswith("_hooks")]
        assert not any(held)
        assert "forward" not in vars(module)


def test_a_model_that_compiles_itself_is_recorded():
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    model.compile(backend="eager")
    with regard.capture(model) as seen:
        model(X, X, X)
    assert [record.name for record in seen] == ["MultiheadAttention"]


def test_products_outside_attention_are_not_kept_in_memory():
    class Bilinear(nn.Module):
        def forward(self, x):
            return (x @ x.mT) @ x

    model = nn.Sequential(Bilinear(), nn.Identity(), Bilinear(), Beside(nn.Identity()))
    held = []
    model[1].register_forward_hook(lambda *_: held.append(len(seen._session.handwritten.scores._known)))
    with regard.capture(model) as seen:
        model(X)
    # The result, which may still get a softmax.
    assert held == [1]


# ---- sizes, steps and numbers


def test_heads_computed_in_a_loop_are_separate_records():
    class LoopAttention(nn.Module):
        num_heads = 2

        def forward(self, x):
            return torch.cat([(part @ part.mT).softmax(-1) @ part for part in x.chunk(2, -1)], -1)

    records, _ = found(Beside(LoopAttention()), X)
    assert [tuple(record.map.shape) for record in records] == [(2, 1, 3, 3)] * 2


def test_axes_of_groups_and_heads_are_joined_to_one_axis_of_heads():
    class GroupedAttention(nn.Module):
        num_heads = 4

        def forward(self, x):
            q = x.unflatten(-1, (2, 2, 2)).permute(0, 2, 3, 1, 4)  # (b,g,r,n,d)
            k = x[..., :4].unflatten(-1, (2, 1, 2)).permute(0, 2, 3, 1, 4)
            self.weights = (q @ k.mT).softmax(-1)
            return self.weights

    model = Beside(GroupedAttention())
    records, _ = found(model, X)
    assert torch.allclose(records[0].map.weights(), model.part.weights.flatten(1, 2), atol=1e-6)


class Fused(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, k, k, **self.options)


def test_grouped_heads_without_a_batch_are_recorded():
    q, k = torch.randn(4, 4, 8), torch.randn(2, 5, 8)
    model = Fused(enable_gqa=True)
    with regard.capture(model) as seen:
        model(q, k)
    expected = (q @ k.repeat_interleave(2, 0).mT / 8**0.5).softmax(-1)
    assert torch.allclose(seen[0].map.weights()[0], expected, atol=1e-6)


def test_a_mask_that_lacks_the_first_batch_axis_is_broadcast():
    q, k = torch.randn(2, 3, 2, 4, 8), torch.randn(2, 3, 2, 5, 8)
    mask = torch.rand(3, 2, 4, 5) < 0.7
    mask[..., 0] = True
    model = Fused(attn_mask=mask)
    with regard.capture(model) as seen:
        model(q, k)
    scores = (q @ k.mT / 8**0.5).masked_fill(~mask, float("-inf"))
    assert torch.allclose(seen[0].map.weights(), scores.softmax(-1).flatten(0, 1), atol=1e-6)


def test_repeated_cross_attention_is_not_a_growing_cache():
    model, memory = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.zeros(1, 6, 8)
    with regard.capture(model) as seen:
        for _ in range(3):
            model(torch.randn(1, 2, 8), memory, memory)
    assert [tuple(record.map.shape) for record in seen] == [(1, 2, 2, 6)] * 3


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = [nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(3)]
        self.feed = [nn.Sequential(nn.Linear(8, 8)) for _ in range(3)]
        pairs = zip(self.attend, self.feed, strict=True)
        self.layers = nn.ModuleList(nn.ModuleList(pair) for pair in pairs)

    def forward(self, x):
        for attend, feed in zip(self.attend, self.feed, strict=True):
            x = feed(attend(x, x, x)[0])
        return x


def test_layers_in_lists_of_lists_are_numbered_by_the_outer_list():
    model = Lists()
    with regard.capture(model) as seen:
        model(X)
    assert [record.layer for record in seen] == [0, 1, 2]
    with regard.capture(model, layers=-1) as seen:
        model(X)
    assert [record.name for record in seen] == ["layers.2.0"]


# ---- words


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, idx, targets=None):
        x = self.table(idx)
        return self.attention(x, x, x, is_causal=True, attn_mask=torch.ones(4, 4).tril() == 0)


def test_prediction_targets_are_not_taken_for_token_ids():
    model = Language()
    with regard.capture(model) as seen:
        model(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[2, 3, 4, 5]]))
    assert seen[0].query_tokens == [["1", "2", "3", "4"]]


def test_an_encoder_does_not_take_the_labels_of_the_decoder():
    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, src, tgt_ids):
            return self.encoder(src, src, src)

    model = Speech()
    with regard.capture(model) as seen:
        model(X[:1], torch.tensor([[1, 2, 3]]))
    assert seen[0].query_tokens is None


def test_nan_weights_give_nan_in_the_head_table():
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    with regard.capture(model) as seen:
        model(torch.full((1, 3, 8), float("nan")), X[:1], X[:1])
    table = seen.head_table()
    entropy = table["entropy"] if not isinstance(table, list) else [row["entropy"] for row in table]
    assert all(value != value for value in entropy)


def test_weights_without_later_keys_are_causal():
    past = torch.ones(3, 3).tril()
    model = OwnAttention(lambda x: ((x @ x.mT) * past - 1e9 * (1 - past)).softmax(-1) @ x)
    records, _ = found(model, X, modules=[model])
    assert [record.kind for record in records] == ["causal"]


def test_a_model_on_the_meta_device_is_refused():
    model = Fused().to("meta")
    q = torch.randn(1, 2, 3, 4, device="meta")
    with pytest.raises(CaptureError, match="meta device has no numbers"), regard.capture(model):
        model(q, q)


def test_the_error_of_an_empty_capture_names_the_softmax():
    model = OwnAttention(PASSED_BY["of no product"])
    with pytest.raises(CaptureError, match="there is a softmax in 'OwnAttention'"), regard.capture(model):
        model(X)
