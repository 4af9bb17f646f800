"""capture() records the weights that multiply the values, or says that it does not see them."""

import dataclasses
import warnings

import pytest
import torch
from torch import nn

from regard.errors import CaptureError
from support.capture_cases import B, D, H, Q, seen_of
from support.own_attention import CHANGED, OwnAttention, inputs, softmax

GATES = torch.tensor([0.3, 0.5, 0.8], dtype=torch.float64)[:, None, None]  # (h,1,1)
SOME = torch.tensor([0, 2, 4])


def chosen(v, keys):
    """The values ``(b,h,q,n,d)`` of keys ``(b,h,q,n)``."""
    values = v[:, :, None].expand(-1, -1, keys.shape[2], -1, -1)  # (b,h,q,k,d)
    return values.gather(3, keys[..., None].expand(*keys.shape, v.shape[-1]))


def behind(weights, n):
    """Weights with so many keys of weight 0 in front."""
    return nn.functional.pad(weights, (n, 0))


def only(weights, keys):
    """Weights that are 0 but at some keys ``(b,h,q,n)``."""
    return torch.zeros_like(weights).scatter(-1, keys, weights.gather(-1, keys))


def rescaled(weights):
    return weights / weights.sum(-1, keepdim=True)


# ---- a softmax that another module changes


@dataclasses.dataclass
class Output:
    weights: torch.Tensor
    name: str = "weights"


class Slotted:
    __slots__ = ("weights",)

    def __init__(self, weights):
        self.weights = weights


class Weighing(nn.Module):
    def __init__(self, hand_over):
        super().__init__()
        self.hand_over = hand_over

    def forward(self, q, k):
        return self.hand_over(self, softmax(q, k))


class ParentAttention(nn.Module):
    num_heads = H

    def __init__(self, hand_over, take, change):
        super().__init__()
        self.child, self.take, self.change = Weighing(hand_over), take, change

    def forward(self, q, k, v):
        weights = self.change(self.take(self.child, self.child(q, k)))
        return weights @ v, weights


HANDED = {
    "tensor": (lambda module, w: w, lambda module, result: result),
    "dictionary": (lambda module, w: {"weights": w}, lambda module, result: result["weights"]),
    "nested": (lambda module, w: (1, [None, (w,)]), lambda module, result: result[1][1][0]),
    "dataclass": (lambda module, w: Output(w), lambda module, result: result.weights),
    "slots": (lambda module, w: [Slotted(w)], lambda module, result: result[0].weights),
    "attribute": (lambda module, w: setattr(module, "kept", w), lambda module, result: module.kept),
    "list": (lambda module, w: setattr(module, "kept", [w]), lambda module, result: module.kept[0]),
    "view": (lambda module, w: (w[:, 1:], w[:, :1]), lambda module, result: torch.cat(result[::-1], 1)),
}
CHANGES = {
    "renormalised": lambda w: rescaled(w.tril()),
    "gated": lambda w: w * GATES,
    "mixed heads": lambda w: torch.einsum("bhqk,hg->bgqk", w, torch.eye(H, dtype=w.dtype) + GATES[:, 0]),
    "as it is": lambda w: w,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", HANDED)
def test_weights_changed_by_the_parent_module_are_recorded(way, change):
    model = ParentAttention(*HANDED[way], CHANGES[change])
    with torch.no_grad():
        seen, (_, weights) = seen_of(model, *inputs())
    assert len(seen) == 1
    assert torch.allclose(seen[0].map.weights(), weights, atol=1e-6)
    assert seen[0].note == (None if change == "as it is" else CHANGED)


def test_weights_changed_after_a_hugging_face_output_are_recorded():
    outputs = pytest.importorskip("transformers.modeling_outputs", reason="needs  pip install 'regard[hf]'")
    hand_over = (lambda module, w: outputs.BaseModelOutput(attentions=(w,)), lambda m, out: out.attentions[0])
    seen, (_, weights) = seen_of(ParentAttention(*hand_over, CHANGES["gated"]), *inputs())
    assert torch.allclose(seen[0].map.weights(), weights.detach(), atol=1e-6)


# ---- weights that are multiplied in pieces


def keys_sliced(q, k, v):
    return (softmax(q, k)[..., 1:] * 2) @ v[:, :, 1:]


def keys_sliced_and_rescaled(q, k, v):
    return rescaled(softmax(q, k)[..., 2:]) @ v[:, :, 2:]


def keys_written(q, k, v):
    weights = softmax(q, k)
    weights[..., 1:] *= 2
    return weights @ v


def queries_sliced(q, k, v):
    return (softmax(q, k)[:, :, 1:] * GATES) @ v


def heads_sliced(q, k, v):
    return (softmax(q, k)[:, 1:] * 2) @ v[:, 1:]


def head_by_head(q, k, v):
    weights = softmax(q, k)
    return torch.stack([(weights[:, n] * (n + 1)) @ v[:, n] for n in range(H)], 1)


def first_head_as_it_is(q, k, v):
    weights = softmax(q, k)
    rest = [(weights[:, n] * 2) @ v[:, n] for n in range(1, H)]
    return torch.stack([weights[:, 0] @ v[:, 0], *rest], 1)


def last_keys_changed(q, k, v):
    weights = softmax(q, k)
    return weights[..., :3] @ v[:, :, :3] + (weights[..., 3:] * 2) @ v[:, :, 3:]


def written_into_a_buffer(q, k, v):
    weights, buffer = softmax(q, k), torch.zeros(B, H, Q, Q, dtype=q.dtype)
    for n in range(H):
        buffer[:, n] = weights[:, n] * GATES[n]
    return buffer @ v


def keys_by_index(q, k, v):
    return softmax(q, k)[..., SOME] @ v[:, :, SOME]


def keys_selected_and_rescaled(q, k, v):
    return rescaled(softmax(q, k).index_select(-1, SOME)) @ v[:, :, SOME]


def keys_by_mask(q, k, v):
    keep = torch.zeros(Q, dtype=torch.bool).index_fill(0, SOME, True)
    return softmax(q, k)[..., keep] @ v[:, :, keep]


def largest_weights(q, k, v):
    weights, keys = softmax(q, k).topk(3, -1)
    return (weights[..., None, :] @ chosen(v, keys)).squeeze(-2)


def largest_weights_rescaled(q, k, v):
    weights, keys = softmax(q, k).topk(3, -1)
    return (rescaled(weights)[..., None] * chosen(v, keys)).sum(-2)


def sorted_weights(q, k, v):
    weights, keys = (softmax(q, k) * GATES).sort(-1)
    return torch.einsum("bhqn,bhqnd->bhqd", weights, chosen(v, keys))


def largest_scores(q, k, v):
    scores, keys = (q @ k.mT * D**-0.5).topk(3, -1)
    return (scores.softmax(-1)[..., None, :] @ chosen(v, keys)).squeeze(-2)


def largest_scores_scaled_later(q, k, v):
    scores, keys = (q @ k.mT).topk(3, dim=-1)
    weights = (scores * D**-0.5).softmax(-1)
    return (weights[..., None] * chosen(v, keys)).sum(-2)


def largest_scores_gated(q, k, v):
    scores, keys = (q @ k.mT * D**-0.5).topk(3, -1)
    return ((scores.softmax(-1) * GATES)[..., None, :] @ chosen(v, keys)).squeeze(-2)


def elementwise(q, k, v):
    return (softmax(q, k).unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)


def elementwise_gated(q, k, v):
    return ((softmax(q, k) * GATES).unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)


def elementwise_from_the_left(q, k, v):
    return (v[:, :, None] * softmax(q, k).square()[..., None]).sum(dim=3)


def key_by_key(q, k, v):
    weights, out = softmax(q, k) * GATES, 0
    for n in range(Q):
        out = out + weights[..., n : n + 1] * v[:, :, n : n + 1]
    return out


def largest(w, count=3):
    return only(w, w.topk(count, -1).indices)


PIECES = {
    keys_sliced: lambda w: behind(w[..., 1:] * 2, 1),
    keys_sliced_and_rescaled: lambda w: behind(rescaled(w[..., 2:]), 2),
    keys_written: lambda w: torch.cat([w[..., :1], w[..., 1:] * 2], -1),
    queries_sliced: lambda w: torch.cat([w[:, :, :1] * 0, w[:, :, 1:] * GATES], 2),
    heads_sliced: lambda w: torch.cat([w[:, :1] * 0, w[:, 1:] * 2], 1),
    head_by_head: lambda w: w * torch.arange(1, H + 1)[:, None, None],
    first_head_as_it_is: lambda w: torch.cat([w[:, :1], w[:, 1:] * 2], 1),
    last_keys_changed: lambda w: torch.cat([w[..., :3], w[..., 3:] * 2], -1),
    written_into_a_buffer: lambda w: w * GATES,
    keys_by_index: lambda w: only(w, SOME.expand(B, H, Q, -1)),
    keys_selected_and_rescaled: lambda w: rescaled(only(w, SOME.expand(B, H, Q, -1))),
    keys_by_mask: lambda w: only(w, SOME.expand(B, H, Q, -1)),
    largest_weights: largest,
    largest_weights_rescaled: lambda w: rescaled(largest(w)),
    sorted_weights: lambda w: w * GATES,
    elementwise_gated: lambda w: w * GATES,
    elementwise_from_the_left: lambda w: w.square(),
    key_by_key: lambda w: w * GATES,
    largest_scores_gated: lambda w: rescaled(largest(w)) * GATES,
}
AS_THEY_ARE = {
    largest_scores: lambda w: rescaled(largest(w)),
    largest_scores_scaled_later: lambda w: rescaled(largest(w)),
    elementwise: lambda w: w,
}


@pytest.mark.parametrize("grad", [False, True], ids=["no gradients", "gradients"])
@pytest.mark.parametrize("attend", PIECES | AS_THEY_ARE, ids=lambda attend: attend.__name__)
def test_weights_that_are_multiplied_in_pieces_are_recorded_as_used(attend, grad):
    q, k, v = (x.requires_grad_(grad) for x in inputs())
    with torch.set_grad_enabled(grad):
        seen, out = seen_of(OwnAttention(attend), q, k, v)
        plain = attend(q, k, v)
    expected = (PIECES | AS_THEY_ARE)[attend](softmax(q, k)).detach()
    weights = seen[0].map.weights().double()
    assert torch.equal(out, plain)
    assert weights.shape == expected.shape
    assert torch.allclose(weights, expected, atol=1e-6)
    assert seen[0].note == (CHANGED if attend in PIECES else None)


def test_unchanged_pieces_are_recorded_as_the_softmax():
    def in_pieces(q, k, v):
        weights = softmax(q, k)
        return torch.cat([weights[:, :, n][:, :, None] @ v for n in range(Q)], 2)

    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(in_pieces), q, k, v)
    assert seen[0].note is None
    assert torch.allclose(seen[0].map.weights(), softmax(q, k), atol=1e-6)


def test_heads_can_be_selected_from_weights_in_pieces():
    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(head_by_head), q, k, v, options={"heads": [2]})
    assert torch.allclose(seen[0].map.weights(), softmax(q, k)[:, 2:] * 3, atol=1e-6)


# ---- weights that are not seen to multiply the values


def through_numpy(q, k, v):
    return torch.from_numpy(softmax(q, k).numpy().copy()) @ v


def mean_of_heads(q, k, v):
    return softmax(q, k).mean(1, keepdim=True) @ v


def through_a_sparse_tensor(q, k, v):
    return torch.stack([torch.sparse.mm(softmax(q, k)[0, n].to_sparse(), v[0, n]) for n in range(H)])


def by_addcmul(q, k, v):
    weights = softmax(q, k)
    out = torch.addcmul(torch.zeros(B, H, Q, Q, D, dtype=q.dtype), weights[..., None], v[:, :, None])
    return out.sum(3), weights


@pytest.mark.parametrize(
    "attend", [through_numpy, mean_of_heads, through_a_sparse_tensor, by_addcmul], ids=lambda f: f.__name__
)
def test_weights_that_cannot_be_traced_are_warned_of(attend):
    q, k, v = inputs()
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match="'OwnAttention' .* not seen to multiply the values"),
    ):
        seen, _ = seen_of(OwnAttention(attend), q, k, v)
    assert "not seen to multiply the values" in str(seen[0].note)
    assert torch.allclose(seen[0].map.weights()[0], softmax(q, k)[0], atol=1e-6)


def test_returned_weights_are_not_warned_of():
    q, k, v = inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen, weights = seen_of(OwnAttention(lambda q, k, v: {"weights": softmax(q, k)}), q, k, v)
    assert seen[0].note is None
    assert torch.allclose(seen[0].map.weights(), weights["weights"], atol=1e-6)


def matrix_by_matrix(q, k, v):
    return softmax(q, k) @ softmax(k, q) @ v


def inside_vmap(q, k, v):
    return torch.vmap(lambda weights, v: (2 * weights) @ v)(softmax(q, k), v)


@pytest.mark.parametrize("attend", [matrix_by_matrix, inside_vmap], ids=lambda f: f.__name__)
def test_weights_that_reach_the_values_through_other_products_are_warned_of(attend):
    with torch.no_grad(), pytest.warns(UserWarning, match="not seen to multiply the values"):
        seen, _ = seen_of(OwnAttention(attend), *inputs())
    assert all("not seen to multiply the values" in str(record.note) for record in seen)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of torch.func.jvp
@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: torch.vmap(lambda q, k, v: softmax(q, k) @ v)(q, k, v),
        lambda q, k, v: torch.func.jvp(lambda q: softmax(q, k) @ v, (q,), (q,))[0],
        lambda q, k, v: torch.vmap(nn.functional.scaled_dot_product_attention)(q, k, v),
    ],
    ids=["vmap", "jvp", "sdpa"],
)
def test_a_transform_inside_a_module_is_refused(attend):
    with pytest.raises(CaptureError, match=r"torch.vmap or torch.func cannot be recorded"):
        seen_of(OwnAttention(attend), *inputs())


def test_a_transform_that_makes_a_mask_is_not_attention():
    def masked(q, k, v):
        scores = q @ k.mT * D**-0.5
        past = torch.vmap(lambda n: torch.arange(Q) <= n)(torch.arange(Q))
        weights = scores.masked_fill(~past, float("-inf")).softmax(-1)
        return weights @ v, weights

    seen, (_, weights) = seen_of(OwnAttention(masked), *inputs())
    assert torch.allclose(seen[0].map.weights(), weights, atol=1e-6)


# ---- heads that are combined with each other


def in_pairs(w):
    return w.unflatten(1, (-1, 2))  # (b,h,2,q,k)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: in_pairs(w)[:, :, 0] - 0.3 * in_pairs(w)[:, :, 1],
        lambda w: in_pairs(w)[:, :, 0] - in_pairs(w)[:, :, 1],
        lambda w: in_pairs(w)[:, :, 1] * 0.3 + in_pairs(w)[:, :, 0] * 0.7,
        lambda w: rescaled(w[:, ::2] + w[:, 1::2]),
    ],
    ids=["differential", "difference", "sum", "mean"],
)
@pytest.mark.parametrize("sequences", [1, 2, 3])
def test_combined_heads_are_recorded_once(sequences, change):
    """The module names two heads and its softmax has four, also for as many sequences."""
    torch.manual_seed(5)
    q, k = (torch.randn(sequences, Q, 4 * D, dtype=torch.float64) for _ in range(2))

    class PairAttention(nn.Module):
        num_heads = 2

        def weights(self, q, k):
            q, k = (x.unflatten(-1, (4, D)).transpose(1, 2) for x in (q, k))  # (b,4,n,d)
            return change(softmax(q, k))

        def forward(self, q, k):
            return self.weights(q, k) @ k.unflatten(-1, (2, -1)).transpose(1, 2)

    seen, _ = seen_of(PairAttention(), q, k)
    expected = PairAttention().weights(q, k)  # (b,2,q,k)
    assert tuple(seen[0].map.shape) == tuple(expected.shape)
    assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)
    assert seen[0].note == CHANGED


# ---- weights in another order than the values


SHUFFLED = torch.tensor([3, 1, 4, 0, 2])
REPEATED = torch.tensor([0, 0, 1, 1, 2])
REORDERED = {
    "keys by index": lambda w: w[..., SHUFFLED],
    "keys by a list": lambda w: w[..., SHUFFLED.tolist()],
    "keys selected": lambda w: w.index_select(-1, SHUFFLED),
    "keys gathered": lambda w: w.gather(-1, SHUFFLED.expand(w.shape)),
    "keys sorted": lambda w: w.sort(-1).values,
    "the largest first": lambda w: w.topk(Q, -1).values,
    "queries": lambda w: w[:, :, SHUFFLED],
    "heads": lambda w: w[:, [2, 0, 1]],
    "sequences": lambda w: w[[1, 0]],
    "one key for all": lambda w: w[..., torch.zeros(Q, dtype=torch.long)],
    "keys repeated": lambda w: w[..., REPEATED],
    "one head for all": lambda w: w[:, [1] * H],
    "keys by index, gated": lambda w: w[..., SHUFFLED] * GATES,
}


@pytest.mark.parametrize("change", REORDERED)
def test_weights_reordered_without_their_values_are_recorded_as_reordered(change):
    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(lambda q, k, v: REORDERED[change](softmax(q, k)) @ v), q, k, v)
    assert torch.allclose(seen[0].map.weights(), REORDERED[change](softmax(q, k)), atol=1e-6)
    assert seen[0].note == CHANGED


WITH_VALUES = {
    "keys by index": lambda w, v: w[..., SHUFFLED] @ v[:, :, SHUFFLED],
    "keys by a list": lambda w, v: w[..., [3, 1, 4, 0, 2]] @ v[:, :, [3, 1, 4, 0, 2]],
    "keys selected": lambda w, v: w.index_select(-1, SHUFFLED) @ v.index_select(2, SHUFFLED),
    "values first": lambda w, v: (v[:, :, SHUFFLED].mT @ w[..., SHUFFLED].mT).mT,
    "heads": lambda w, v: w[:, [2, 0, 1]] @ v[:, [2, 0, 1]],
    "sequences": lambda w, v: w[[1, 0]] @ v[[1, 0]],
}


@pytest.mark.parametrize("multiply", WITH_VALUES)
def test_weights_reordered_with_their_values_are_recorded_in_the_order_of_the_keys(multiply):
    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(lambda q, k, v: WITH_VALUES[multiply](softmax(q, k), v)), q, k, v)
    assert torch.allclose(seen[0].map.weights(), softmax(q, k), atol=1e-6)


@pytest.mark.parametrize(
    "multiply",
    [
        lambda w, v: w.topk(3, -1).values @ v[:, :, :3],
        lambda w, v: w[..., REPEATED] @ v[:, :, REPEATED],
        lambda w, v: w[..., [0, 0, 1]] @ v[:, :, :3],
    ],
    ids=["the largest", "repeated with their values", "some repeated"],
)
def test_chosen_weights_of_unknown_keys_are_warned_of(multiply):
    with pytest.warns(UserWarning, match="not seen to multiply the values"):
        seen, _ = seen_of(OwnAttention(lambda q, k, v: multiply(softmax(q, k), v)), *inputs())
    assert seen[0].note.startswith("not seen to multiply the values")


# ---- dropout before a change


def gated_behind_dropout(weights, v):
    return (GATES * weights) @ v


def gated_in_place(weights, v):
    weights *= GATES
    return weights @ v


def a_slice_gated_in_place(weights, v):
    weights[:, 1:] *= GATES[1:]
    weights[:, :1].mul_(GATES[0])
    return weights @ v


def gated_head_by_head(weights, v):
    return torch.stack([(weights[:, n] * GATES[n]) @ v[:, n] for n in range(H)], 1)


def gated_by_index(weights, v):
    order = torch.arange(Q).flip(0)
    return (weights.index_select(-1, order) * GATES) @ v[:, :, order]


@pytest.mark.parametrize(
    "change",
    [gated_behind_dropout, gated_in_place, a_slice_gated_in_place, gated_head_by_head, gated_by_index],
    ids=lambda f: f.__name__,
)
def test_changed_weights_are_recorded_without_their_dropout(change):
    q, k, v = inputs()
    attend = OwnAttention(lambda q, k, v: change(nn.functional.dropout(softmax(q, k), 0.4, True), v))
    with torch.no_grad():
        seen, _ = seen_of(attend, q, k, v)
    assert torch.allclose(seen[0].map.weights(), softmax(q, k) * GATES, atol=1e-6)
    assert seen[0].note == CHANGED


# ---- axes


def test_scores_without_a_query_axis_are_recorded_as_one_query():
    def one_query(q, k, v):
        weights = (torch.einsum("bhd,bhkd->bhk", q[:, :, 0], k) * D**-0.5).softmax(-1)
        return torch.einsum("bhk,bhkd->bhd", weights, v)

    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(one_query), q, k, v)
    assert torch.allclose(seen[0].map.weights(), softmax(q[:, :, :1], k), atol=1e-6)


def test_heads_mixed_before_the_softmax_are_recorded():
    mix = torch.randn(H, H, dtype=torch.float64)

    def mixed(q, k):
        return torch.einsum("bhqk,hg->bgqk", q @ k.mT * D**-0.5, mix).softmax(-1)

    q, k, v = inputs()
    seen, _ = seen_of(OwnAttention(lambda q, k, v: mixed(q, k) @ v), q, k, v)
    assert torch.allclose(seen[0].map.weights(), mixed(q, k), atol=1e-6)


# ---- as many sequences as heads


N = 3  # sequences, and heads


class Folded(nn.Module):
    """An attention with heads folded into the batch, as many as there are sequences."""

    num_heads = N

    def __init__(self, fold, fused):
        super().__init__()
        self.fold, self.fused = fold, fused

    def forward(self, q, k, v):  # (b,n,h,d)
        q, k, v = (self.fold(x) for x in (q, k, v))
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v)
        return softmax(q, k) @ v


class FoldedAttention(Folded):
    pass


FOLDS = {
    "heads first, a copy": lambda x: x.permute(2, 0, 1, 3).contiguous().view(N * N, Q, D),
    "heads first, a clone": lambda x: (
        x.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format).flatten(0, 1)
    ),
    "heads first, reshaped": lambda x: x.permute(2, 0, 1, 3).reshape(N * N, Q, D),
    "heads first, put together": lambda x: torch.cat(x.unbind(2)),
    "sequences first, a copy": lambda x: x.transpose(1, 2).contiguous().view(N * N, Q, D),
    "sequences first, reshaped": lambda x: x.transpose(1, 2).reshape(N * N, Q, D),
    "queries first": lambda x: x.transpose(0, 1).contiguous().view(Q, N * N, D).transpose(0, 1),
}


@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "sdpa"])
@pytest.mark.parametrize("fold", FOLDS)
def test_folded_heads_are_told_from_as_many_sequences_by_their_order(fold, fused):
    q, k, v = (torch.randn(N, Q, N, D) for _ in range(3))
    with torch.no_grad():
        seen, _ = seen_of(FoldedAttention(FOLDS[fold], fused), q, k, v)
    expected = softmax(q.transpose(1, 2), k.transpose(1, 2))
    assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)


@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "sdpa"])
@pytest.mark.parametrize("letters", ["(hb)qk", "(bh)qk"])
def test_folded_heads_that_cannot_be_told_from_sequences_are_warned_of(fused, letters):
    q, k, v = (torch.randn(N, Q, N, D) for _ in range(3))
    order = (2, 0, 1, 3) if letters == "(hb)qk" else (0, 2, 1, 3)
    model = FoldedAttention(lambda x: (x.permute(order).contiguous() * 1).view(N * N, Q, D), fused)
    with torch.no_grad():
        with pytest.warns(
            UserWarning, match=r"guess.*modules=\{'FoldedAttention': '\(bh\)qk'\}\), or '\(hb\)qk'"
        ):
            seen_of(model, q, k, v)
        seen, _ = seen_of(model, q, k, v, options={"modules": {"FoldedAttention": letters}})
    expected = softmax(q.transpose(1, 2), k.transpose(1, 2))
    assert torch.allclose(seen[0].map.weights(), expected, atol=1e-6)
