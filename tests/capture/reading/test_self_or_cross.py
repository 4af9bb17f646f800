"""Tests of how self-attention and cross-attention are told apart."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.capture.reading.kinds import is_cross
from support.capture_cases import B, H, K, M, Q, seen_of


class Wrapped(nn.Module):
    """A module whose attribute is called multihead_attn, as in torch's own example."""

    def __init__(self):
        super().__init__()
        self.multihead_attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y):
        return self.multihead_attn(x, y, y, need_weights=False)[0]


class CrossFormerAttention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Conditioned(nn.Module):
    def forward(self, x, context):
        return nn.functional.scaled_dot_product_attention(x, x, x) * context.mean()


def test_self_or_cross_is_decided_by_the_arguments_before_the_name():
    x, y = torch.randn(B, Q, M), torch.randn(B, Q, M)
    assert seen_of(Wrapped(), x, x)[0][0].kind == "self"
    assert seen_of(Wrapped(), x, y)[0][0].kind == "cross"
    assert seen_of(CrossFormerAttention(), x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, torch.randn(B, M))[0][0].kind == "self"  # a vector is no sequence
    attend = nn.Identity()
    assert is_cross(attend, "attn", {"context": x}) is None
    assert is_cross(attend, "attn", {"x": x, "context": y})
    assert is_cross(attend, "cross_attn", {"hidden_states": x})  # its keys come from an earlier call
    assert is_cross(attend, "self_attn", {"query": x + 1, "key": x}) is False  # positions on the queries only


class Latents(nn.Module):
    """A part with learned queries, which returns another sequence than it is given."""

    def __init__(self, factor):
        super().__init__()
        self.latents = nn.Parameter(factor * torch.randn(1, 2, M))

    def forward(self, x):
        return self.latents + x.mean(1, keepdim=True)


class Block(nn.Module):
    """A layer whose attention has no telling name, and gets other tensors than the layer."""

    def __init__(self, make, attend=None, queries=None):
        super().__init__()
        self.make, self.queries = make, queries
        self.mix = attend or nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y=None):
        return self.mix(*self.make(self, x, y))[0]


@pytest.mark.parametrize("factor", [1.0, 1e-6, 0.0])
@pytest.mark.parametrize(
    ("make", "queries", "given", "kind"),
    [
        (lambda self, x, y: (x + 1, x + 2, x), None, 1, "self"),  # positions on both
        (lambda self, x, y: (F.avg_pool1d(x.mT, 2, 2).mT, x, x), None, 1, "self"),  # as in Funnel
        (lambda self, x, y: (F.avg_pool1d(y.mT, 2, 2).mT, x, x), None, 2, "cross"),
        (lambda self, x, y: (x[:, :1], x, x), None, 1, "self"),  # the class token of CaiT
        (lambda self, x, y: (x[:, :2], x[:, 2:], x[:, 2:]), None, 2, "cross"),  # two sequences in one tensor
        (lambda self, x, y: (x + 1, x + 2, x), None, 2, "self"),  # the sizes of x only
        (lambda self, x, y: (x + 1, y + 1, y), None, 2, "cross"),
        (lambda self, x, y: (self.queries.expand(B, -1, -1), x, x), nn.Parameter, 1, "cross"),
        (lambda self, x, y: (self.queries.weight.expand(B, -1, -1), x, x), nn.Embedding, 1, "cross"),
        (lambda self, x, y: (x[:, :2] + 1, self.queries(x), x[:, :2]), Latents, 1, "cross"),  # as in Flamingo
    ],
)
def test_the_kind_does_not_depend_on_the_numbers(make, queries, given, kind, factor):
    """Queries near zero, and zeros, lie between the numbers of any sequence of keys."""
    x, y = factor * torch.randn(B, Q, M), factor * torch.randn(B, Q + 1, M)
    if queries is nn.Parameter:
        queries = nn.Parameter(factor * torch.randn(1, 2, M))
    elif queries is nn.Embedding:
        queries = nn.Embedding.from_pretrained(factor * torch.randn(2, M))
    elif queries is Latents:
        queries = Latents(factor)
    model = Block(make, queries=queries)
    assert seen_of(model, *(x, y)[:given])[0][0].kind == kind
    assert [record.kind for record in seen_of(model, *(x, y)[:given])[0].by(kind=kind)] == [kind]


@pytest.mark.parametrize("targets", [K, K + 1])
def test_targets_of_zeros_leave_the_kinds_of_a_decoder(targets):
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(M, H, batch_first=True), 1).eval()
    seen, _ = seen_of(decoder, torch.zeros(B, targets, M), torch.randn(B, K, M))
    assert [record.kind for record in seen] == ["self", "cross"]
    attend = nn.MultiheadAttention(M, H, batch_first=True)
    seen, _ = seen_of(attend, torch.zeros(B, K, M), torch.zeros(B, K, M), torch.ones(B, K, M))
    assert seen[0].kind == "cross"


@pytest.mark.parametrize("scale", [1.0, 1e-6, 0.0])
def test_learned_queries_of_hugging_face_are_cross_attention(scale):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 3}
    config = transformers.SiglipVisionConfig(**sizes, image_size=20, patch_size=4)
    model = transformers.SiglipVisionModel(config).eval()
    with torch.no_grad():
        model.head.probe.normal_().mul_(scale)
    seen, _ = seen_of(model, torch.randn(2, 3, 20, 20))
    assert [record.kind for record in seen] == ["self", "cross"]
