"""Tests of warnings and errors about attention that cannot be recorded."""

import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import regard
from regard.analysis import word_spans
from regard.errors import CaptureError, DtypeError, RegardError, UnknownNameError
from support.capture_cases import B, D, H, M, Plain, Q, qkv, seen_of

X = torch.randn(B, Q, M, generator=torch.Generator().manual_seed(0))


class Beside(nn.Module):
    """A part, beside an attention that is always seen."""

    def __init__(self, part):
        super().__init__()
        self.part, self.other = part, nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x):
        self.part(x)
        return self.other(x, x, x, need_weights=False)[0]


class SomeAttention(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = words

    def forward(self, x):
        return self.words(x)


class Mixer(SomeAttention):
    """The same by a name that says nothing."""


def by_hand(x):
    scores = x @ x.mT
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True) @ x


def elementwise(x):
    weights = (x[:, :, None] * x[:, None]).sum(-1).exp()  # no product of matrices
    return (weights / weights.sum(-1, keepdim=True))[..., None] * x[:, None]


def online(x):
    """Softmax block by block, as flash attention has it."""
    top = torch.full((B, Q, 1), -torch.inf)
    total, out = torch.zeros(B, Q, 1), torch.zeros_like(x)
    for keys in x.split(2, dim=1):
        scores = x @ keys.mT  # (b,q,block)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, shrink = (scores - new).exp(), (top - new).exp()
        total, out = total * shrink + weights.sum(-1, keepdim=True), out * shrink + weights @ keys
        top = new
    return out / total


@torch.library.custom_op("regard_tests::attend", mutates_args=())
def custom_kernel(q: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(q, q, q)


def graph(x):
    """Attention over the edges of a graph, whose softmax is a sum over the edges of each node."""
    to, source = torch.arange(Q).repeat(2), torch.cat([torch.arange(Q), (torch.arange(Q) + 1) % Q])
    weights = (x[:, to] * x[:, source]).sum(-1).sigmoid()  # (b,edges)
    sums = torch.zeros(B, Q).index_add(1, to, weights)
    return torch.zeros_like(x).index_add(1, to, (weights / sums[:, to])[..., None] * x[:, source])


WITHOUT_SOFTMAX = {
    "custom operator": custom_kernel,
    "graph": graph,
    "scatter": lambda x: torch.zeros_like(x).scatter_add(1, torch.zeros_like(x, dtype=torch.long), x),
    "into a given tensor": lambda x: [OUTPUT.copy_(custom_kernel(x)), None][1],
    "mean": lambda x: x.mean(1, keepdim=True),
    "sigmoid": lambda x: torch.sigmoid(x @ x.mT) @ x,
    "relu": lambda x: torch.relu(x @ x.mT).square() @ x,
    "exp and sum": by_hand,
    "exp of no product": elementwise,
    "online": online,
    "linear": lambda x: x.relu() @ (x.mT @ x),
}


OUTPUT = torch.zeros_like(X)


@pytest.mark.parametrize("way", WITHOUT_SOFTMAX)
def test_attention_without_a_softmax_is_warned_of(way):
    model = Beside(SomeAttention(WITHOUT_SOFTMAX[way]))
    plain = model(X)
    with pytest.warns(
        UserWarning, match="not recorded: 'part', which is called attention but takes no softmax"
    ):
        seen, out = seen_of(model, X)
    assert torch.equal(out, plain)
    assert [record.name for record in seen] == ["other"]
    assert seen.unseen == ["part"]


@pytest.mark.parametrize("way", ["exp and sum", "custom operator", "graph", "mean"])
def test_attention_without_a_softmax_alone_is_an_error(way):
    with pytest.raises(
        CaptureError, match="there is 'SomeAttention', which is called attention but takes no"
    ):
        seen_of(SomeAttention(WITHOUT_SOFTMAX[way]), X)


class Squeeze(nn.Module):
    """A module called attention that weights channels by a gate, without attention between tokens."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(M, 2), nn.Linear(2, M)

    def forward(self, x):
        return x * torch.sigmoid(self.up(self.down(x.mean(dim=1, keepdim=True)).relu()))


class ScoresAttention(nn.Module):
    """A module that computes only the scores, while another computes the softmax."""

    def forward(self, x):
        return x @ x.mT


class OuterAttention(nn.Module):
    """An attention with a record, in parts that are called attention."""

    def __init__(self):
        super().__init__()
        self.scores_attn, self.attn_shift = ScoresAttention(), SomeAttention(lambda x: x + 1)
        self.attn_norm, self.attn_drop = nn.LayerNorm(M), SomeAttention(lambda x: x)

    def forward(self, x):
        x = self.attn_drop(self.attn_norm(x))
        return self.attn_shift(self.scores_attn(x).softmax(-1) @ x)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(M))

    def forward(self, x):
        return x * self.factor


class Layer(nn.Module):
    """A layer with a norm and a scale that have the word in their names, and are not parts of the attention."""

    def __init__(self):
        super().__init__()
        self.attn, self.ls_attn, self.attn_norm1 = OuterAttention(), Scale(), nn.Sequential(nn.LayerNorm(M))
        self.attn_sconv = nn.Sequential(nn.Conv1d(Q, Q, 1))

    def forward(self, x):
        return self.ls_attn(self.attn_sconv(self.attn(self.attn_norm1(x))))


class FailingAttention(nn.Module):
    def forward(self, x):
        scores = x @ x.mT
        raise RuntimeError(f"no more than {scores.shape}")


class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = FailingAttention()

    def forward(self, x):
        try:
            return self.attn(x)
        except RuntimeError:
            return x


@pytest.mark.parametrize("make", [OuterAttention, Layer, Careful, lambda: Mixer(by_hand)])
def test_modules_without_weights_to_read_are_not_warned_of(make):
    seen, _ = seen_of(Beside(make()), X)  # a warning would be an error
    assert seen.unseen == []


def test_a_gate_that_is_called_attention_is_warned_of():
    part = nn.ModuleDict({"channel_attn": Squeeze()})
    part.forward = lambda x: part["channel_attn"](x)
    with pytest.warns(UserWarning, match=r"not recorded: 'part\.channel_attn', which is called attention"):
        seen_of(Beside(part), X)


def test_a_call_without_a_record_is_warned_of_although_an_earlier_call_has_one():
    """As a model that computes its prompt with torch's function and its steps with a kernel of its own."""
    ways = iter([lambda x: nn.functional.scaled_dot_product_attention(x, x, x), custom_kernel])
    model = Beside(SomeAttention(lambda x: next(ways)(x)))
    with pytest.warns(UserWarning, match=r"not recorded: '0\.part'"):
        seen, _ = seen_of(nn.Sequential(model, model), X)
    assert seen.unseen == ["0.part"]


def test_a_recomputed_forward_pass_gives_no_warning():
    class Repeated(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Plain()
            self.attn_by_hand = SomeAttention(lambda x: (x @ x.mT).softmax(-1) @ x)

        def forward(self, x):
            return checkpoint(lambda y: self.attn_by_hand(self.attn(y, y, y)), x, use_reentrant=False)

    model = Repeated()
    with regard.capture(model) as seen:
        model(X.clone().requires_grad_()).sum().backward()
    assert (len(seen), seen.unseen) == (2, [])


# ---- traced and scripted parts


class Traced(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.q, self.fused = nn.Linear(M, M), fused

    def forward(self, x):
        if self.fused:
            q = self.q(x).unflatten(-1, (H, D)).transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(q, q, q)
        return (self.q(x) @ x.transpose(-2, -1)).softmax(-1) @ x


class TracedAttention(Traced):
    pass


@pytest.fixture
def traced():
    def make(part):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls its own compiler old
            return torch.jit.trace(part.eval(), X)

    return make


@pytest.mark.parametrize("part", [Traced(True), TracedAttention(True), TracedAttention(False)])
def test_a_jit_traced_submodule_is_recorded(traced, part):
    model = Beside(traced(part)).eval()
    with torch.no_grad():
        model(X)
        # Torch optimises what it has traced after some calls.
        model(X)
        plain = model(X)
        seen, out = seen_of(model, X)
        q = part.q(X)
    assert torch.equal(out, plain)
    assert [record.name for record in seen] == ["part", "other"]
    if part.fused:
        q = q.unflatten(-1, (H, D)).transpose(1, 2).double()  # (b,h,n,d)
        expected = (q @ q.mT / D**0.5).softmax(-1)
    else:
        expected = (q.double() @ X.double().mT).softmax(-1)[:, None]
    assert torch.allclose(seen["part"].map.weights().double(), expected, atol=1e-5)


def test_a_jit_traced_submodule_that_may_be_attention_is_named(traced):
    with pytest.warns(UserWarning, match="a softmax in 'part'"):
        seen, _ = seen_of(Beside(traced(Traced(False))).eval(), X)
    assert seen.unseen == ["part"]


# ---- messages


def test_the_error_names_every_softmax():
    model = nn.Sequential(*(Mixer(lambda x: (x @ x.mT).softmax(-1) @ x) for _ in range(3)))
    with pytest.raises(CaptureError) as caught:
        seen_of(model, X)
    assert "a softmax in '0' (2,5,5), '1' (2,5,5), '2' (2,5,5)" in str(caught.value)
    assert "use capture(model, modules=['0', '1', '2'])" in str(caught.value)
    assert len(seen_of(model, X, options={"modules": ["0", "1", "2"]})[0]) == 3


def test_the_error_says_first_that_the_model_has_no_attention():
    with pytest.raises(CaptureError, match=r"^no attention was found in Linear: the model may have none\."):
        seen_of(nn.Linear(M, M), X)


def test_the_error_for_an_unknown_module_is_short():
    layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 8) for _ in range(40))
    model = nn.ModuleDict({"model": nn.ModuleDict({"layers": layers})})
    for name, meant in (
        ("self_attn", "model.layers.0.self_attn"),
        ("model.layers.3.self_atn", "model.layers.3.self_attn"),
    ):
        with pytest.raises(UnknownNameError) as caught:
            regard.capture(model, modules=name)
        told = str(caught.value)
        assert f"did you mean {meant!r}?" in told
        assert "model.layers.1.self_attn, " in told  # an example that is an attention
        assert " more" in told
        assert len(told) < 400


def test_calling_or_indexing_a_capture_is_refused_with_the_fix():
    model = nn.MultiheadAttention(M, H, batch_first=True)
    for wrong in (
        lambda: regard.capture(model)(X, X, X),
        lambda: regard.capture(model)[0],
        lambda: list(regard.capture(model)),
    ):
        with pytest.raises(RegardError, match=r"use `with regard.capture\(model\) as seen: model\(...\)`"):
            wrong()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(["a b", "c"], r"got list: use \[word_spans"), (None, "got NoneType"), (b"a", "got bytes")],
)
def test_word_spans_refuse_what_is_no_text(wrong, told):
    with pytest.raises(DtypeError, match=f"text: expected one text, {told}"):
        word_spans(wrong)


def test_nested_tensors_are_refused():
    q = torch.nested.nested_tensor([torch.randn(3, H, D), torch.randn(5, H, D)], layout=torch.jagged)
    q = q.transpose(1, 2)
    with pytest.raises(CaptureError, match="nested tensors cannot be recorded"):
        seen_of(Plain(), q, q, q)


def test_vmap_is_refused():
    model = Plain()
    with pytest.raises(CaptureError, match=r"torch\.vmap"), regard.capture(model):
        torch.vmap(model)(*qkv())


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_is_refused():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flexible(nn.Module):
        def forward(self, q, k, v):
            return flex.flex_attention(q, k, v)

    q = torch.randn(1, 2, 16, 16)
    with torch.no_grad(), pytest.raises(CaptureError, match="flex_attention cannot be recorded"):
        seen_of(Flexible(), q, q, q)


def test_a_softmax_that_was_not_recorded_is_named():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first_attn, self.mixer = Plain(), Mixing()

        def forward(self, q, k, v):
            self.first_attn(q, k, v)
            return self.mixer(q, k)

    class Mixing(nn.Module):
        def forward(self, q, k):
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1)

    with pytest.warns(UserWarning, match=r"not recorded: a softmax in 'mixer'"):
        seen, _ = seen_of(Both(), *qkv())
    assert (len(seen), seen.unseen) == (1, ["mixer"])
    assert seen_of(Both(), *qkv(), options={"modules": "mixer"})[0].unseen == []


# ---- softmaxes beside the attention


class Gated(nn.Module):
    """A gated sum of two softmaxes, one of them of positions, as in ConViT."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(Q, Q))

    def forward(self, x, content=None):
        content = torch.zeros(()) if content is None else content
        gate, places = torch.sigmoid(content), self.positions.expand(len(x), -1, -1).softmax(-1)
        return ((1 - gate) * (x @ x.mT).softmax(-1) + gate * places) @ x


class GatedAttention(Gated):
    pass


@pytest.mark.parametrize("layers", [None, [0]])
def test_a_gated_sum_of_two_softmaxes_is_recorded_without_a_warning(layers):
    model = nn.Sequential(GatedAttention(), GatedAttention())
    seen, _ = seen_of(model, X, options={"layers": layers})  # a warning would be an error
    expected = 0.5 * (X @ X.mT).softmax(-1) + 0.5 * model[0].positions.softmax(-1)
    assert torch.allclose(seen[0].map.weights()[:, 0], expected, atol=1e-5)
    assert seen.unseen == []


class RoutedAttention(nn.Module):
    """Attention whose module takes another softmax, which multiplies no values."""

    def __init__(self, beside):
        super().__init__()
        self.beside, self.router = beside, nn.Linear(M, 4)

    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x + self.beside(self.router(x)).sum(-1, keepdim=True)


BESIDE = {
    "router": lambda logits: logits.softmax(-1).topk(2).values * 3,
    "classifier": lambda logits: logits.mean(1, keepdim=True).softmax(-1),
    "gumbel": lambda logits: nn.functional.gumbel_softmax(logits, hard=True),
}


@pytest.mark.parametrize("way", BESIDE)
def test_softmaxes_of_other_kinds_are_named_once_by_their_class(way):
    model = nn.Sequential(*(RoutedAttention(BESIDE[way]) for _ in range(5)))
    words = r"^not recorded: softmaxes that multiply no values, .* in 5 of RoutedAttention \('0'\)$"
    with pytest.warns(UserWarning, match=words) as caught:
        seen, _ = seen_of(model, X)
    assert (len(caught), len(seen), seen.unseen) == (1, 5, [])


def test_a_second_attention_in_a_module_is_not_taken_for_a_router():
    """Its softmax has the size of the keys, or multiplies values."""

    class AdditiveAttention(RoutedAttention):
        def forward(self, x):
            additive = (x[:, :, None] + x[:, None]).tanh().sum(-1).softmax(-1)
            return super().forward(x) + additive @ x

    class PooledAttention(RoutedAttention):
        def forward(self, x):
            return super().forward(x) + self.router(x).mT.softmax(-2).mT @ x[:, :4]

    for model in (AdditiveAttention(torch.sin), PooledAttention(torch.sin)):
        with pytest.warns(UserWarning, match=f"not recorded: a softmax in {type(model).__name__!r}; if that"):
            seen, _ = seen_of(model, X)
        assert seen.unseen == [type(model).__name__]
