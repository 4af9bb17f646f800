"""Maps are right: which axis is which, which mask was meant, and which weights multiply the values."""

import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.capture import Recording

B, H, N, D = 2, 3, 5, 7  # sequences, heads, tokens, width of a head
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(0))
LOW = torch.finfo(torch.float32).min


class Attention(nn.Module):
    """Attention in the words of a function; it says how many heads it has, unless that is None."""

    def __init__(self, words, heads=H):
        super().__init__()
        self.words = words
        if heads is not None:
            self.num_heads = heads

    def forward(self, x):
        return self.words(x)


def seen_of(model, *inputs, **options):
    """What is recorded of a model; any warning is an error."""
    with torch.no_grad():
        plain = model(*inputs)
        with regard.capture(model, **options) as seen:
            out = model(*inputs)
    assert torch.equal(out, plain)
    return seen


def told_of(model, *inputs, **options):
    """What is recorded of a model, and what was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = seen_of(model, *inputs, **options)
    return seen, [str(one.message) for one in told]


def assert_weights(record, expected):
    assert tuple(record.map.shape) == tuple(expected.shape)
    assert torch.allclose(record.map.weights().double(), expected.double(), atol=1e-5)


def split(x, heads=H):
    """Model width split into heads, (b,h,n,d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x):
    """(b,h,n,d) as (b,n,m)."""
    return x.transpose(1, 2).flatten(2)


Q64 = split(X).double()
EXPECTED = (Q64 @ Q64.mT).softmax(-1)  # (b,h,q,k)


# ---- masks


def left_padded():
    """Which keys each query sees, (b,1,q,k): causal, and two tokens of the second sequence are padding."""
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :2] = False
    return torch.ones(N, N, dtype=torch.bool).tril() & real[:, None, None, :]


def test_a_bias_is_not_taken_from_another_sequence():
    bias = torch.randn(1, H, 1, N, generator=torch.Generator().manual_seed(1))
    keep = left_padded()

    def words(x):
        q = split(x)
        scores = (q @ q.mT + bias).masked_fill(~keep, LOW)
        return joined(scores.softmax(-1) @ q)

    expected = (Q64 @ Q64.mT + bias.double()).masked_fill(~keep, LOW).softmax(-1)  # padded rows are uniform
    assert_weights(seen_of(Attention(words), X)[0], expected)


def test_a_mask_that_changes_behind_the_version_counter_is_read_again():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = torch.zeros(N, N)

        def forward(self, x):
            self.mask.data.zero_()
            for n in range(3):
                self.mask.data[:, n] = float("-inf")
                x = torch.nn.functional.scaled_dot_product_attention(x, x, x, self.mask)
            return x

    model, x, expected = Layers(), X.double(), []
    for n in range(3):
        weights = (x @ x.mT / (H * D) ** 0.5)[..., n + 1 :].softmax(-1)
        expected.append(torch.nn.functional.pad(weights, (n + 1, 0)))
        x = expected[-1] @ x
    for record, weights in zip(seen_of(model, X), expected, strict=True):
        assert_weights(record, weights[:, None])


# ---- axes


def folded_first(x):
    q = torch.cat(x.chunk(H, -1))  # (h*b,n,d)
    return torch.cat(((q @ q.mT).softmax(-1) @ q).chunk(H), -1)


def folded_first_by_axes(x):
    q = x.unflatten(-1, (H, D)).permute(2, 0, 1, 3).reshape(-1, N, D)  # (h*b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def folded_last(x):
    q = split(x).reshape(-1, N, D)  # (b*h,n,d)
    return (q @ q.mT).softmax(-1) @ q


def heads_first(x):
    q = split(x).transpose(0, 1)  # (h,b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def heads_third(x):
    q = x.unflatten(-1, (H, D))  # (b,n,h,d), as DeepSeek has them
    scores = torch.einsum("bshd,bthd->bsht", q, q)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)


def heads_third_masked(x):
    q = x.unflatten(-1, (H, D))
    scores = torch.einsum("bshd,bthd->bsht", q, q * 0.5) * 2 + torch.zeros(N, 1, N)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1, dtype=torch.float32).type_as(q), q)


def heads_last(x):
    q = x.unflatten(-1, (H, D))
    weights = torch.einsum("bihd,bjhd->bijh", q, q).softmax(-2)
    return torch.einsum("bijh,bjhd->bihd", weights, q)


def keys_first(x):
    q = split(x)
    return joined((q @ q.mT).mT.softmax(-2).mT @ q)


WORDS = {f.__name__: f for f in (folded_first, folded_first_by_axes, folded_last, heads_first, heads_third,
                                 heads_third_masked, heads_last, keys_first)}  # fmt: skip


@pytest.mark.parametrize("way", WORDS)
def test_axes_are_told_by_the_number_of_heads(way):
    record = seen_of(Attention(WORDS[way]), X)[0]
    assert_weights(record, EXPECTED)
    assert "recomputed" in repr(record.map)


@pytest.mark.parametrize("way", ["folded_first", "folded_first_by_axes", "folded_last"])
def test_as_many_sequences_as_heads(way):
    x = torch.randn(H, N, H * D, generator=torch.Generator().manual_seed(2))
    q = split(x).double()
    assert_weights(seen_of(Attention(WORDS[way]), x)[0], (q @ q.mT).softmax(-1))


def test_a_mask_on_heads_that_stand_third():
    keep = left_padded() | torch.eye(N, dtype=torch.bool)

    def words(x):
        q = x.unflatten(-1, (H, D))
        scores = torch.einsum("bshd,bthd->bsht", q, q).masked_fill(~keep.transpose(1, 2), float("-inf"))
        return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)

    record = seen_of(Attention(words), X)[0]
    assert_weights(record, (Q64 @ Q64.mT).masked_fill(~keep, float("-inf")).softmax(-1))
    assert record.kind == "causal"


def without_a_product(x):
    """Scores that are no product of matrices, with heads on the third axis."""
    q = x.unflatten(-1, (H, D))
    scores = (q[:, :, None] * q[:, None]).sum(-1).transpose(2, 3)  # (b,q,h,k)
    return torch.einsum("bsht,bthd->bshd", scores.softmax(-1), q)


def test_axes_of_scores_that_come_from_no_matrix_product():
    assert_weights(seen_of(Attention(without_a_product), X, modules=[Attention])[0], EXPECTED)


def test_guessed_axes_are_warned_of_and_can_be_given():
    model = Attention(without_a_product, heads=None)
    _, told = told_of(model, X, modules=[model])
    assert "the axes of the scores of 'Attention' (2,5,3,5) are a guess" in told[0]
    assert "modules={'Attention': 'bhqk'}" in told[0]
    for key in ("Attention", Attention, model):
        assert_weights(seen_of(model, X, modules={key: "bqhk"})[0], EXPECTED)


def folded_out_of_sight(x):
    q = torch.stack([x[b, :, D * h : D * h + D] for h in range(H) for b in range(B)])  # (h*b,n,d)
    return (q @ q.mT).softmax(-1) @ q


def test_heads_folded_by_stacking_are_guessed_and_can_be_given():
    model = Attention(folded_out_of_sight)
    _, told = told_of(model, X)
    assert "'Attention' (6,5,5) are a guess" in told[0]
    assert_weights(seen_of(model, X, modules={"Attention": "(hb)qk"})[0], EXPECTED)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("bhq", "cannot be read"),
        ("bhqkk", "cannot be read"),
        ("bxqk", "cannot be read"),
        ("(hq)bk", "cannot be read"),
        (3, "expected the axes as letters"),
    ],
)
def test_wrong_axes_are_refused(axes, message):
    model = Attention(without_a_product)
    with pytest.raises(regard.errors.RegardError, match=message):
        regard.capture(model, modules={"Attention": axes})


def test_axes_that_do_not_fit_the_weights_are_refused():
    for axes, message in (("bqk", "a letter for each axis"), ("(hb)qk", "a letter for each axis")):
        with pytest.raises(regard.errors.CaptureError, match=message):
            seen_of(Attention(without_a_product), X, modules={Attention: axes})
    with pytest.raises(regard.errors.CaptureError, match="does not say how many heads"):
        seen_of(Attention(folded_first, heads=None), X, modules={Attention: "(hb)qk"})


class Windows(nn.Module):
    """Torch's attention on five axes, as Hiera and NesT in timm: (b,h,windows,n,d)."""

    def __init__(self, heads, mask=None):
        super().__init__()
        self.heads, self.mask = heads, mask

    def forward(self, x):
        x = x.reshape(B, 2, N, H, D).permute(0, 3, 1, 2, 4)  # (b,h,w,n,d)
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, self.mask)


@pytest.mark.parametrize("heads", [H, None])
def test_windows_are_not_taken_for_heads(heads):
    x = torch.randn(B, 2, N, H, D, generator=torch.Generator().manual_seed(3))
    mask = torch.rand(B, 1, 2, N, N, generator=torch.Generator().manual_seed(4)) < 0.7
    mask |= torch.eye(N, dtype=torch.bool)
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()  # (b*w,h,n,d)
    scores = (q @ q.mT / D**0.5).masked_fill(~mask.transpose(1, 2).flatten(0, 1), float("-inf"))
    options = {} if heads else {"modules": {Windows: "bhbqk"}}
    assert_weights(seen_of(Windows(heads, mask), x, **options)[0], scores.softmax(-1))


def test_as_many_windows_as_heads():
    class Square(nn.Module):
        num_heads = 2

        def forward(self, x):
            q = x.reshape(B, 2, N, 2, D).permute(0, 3, 1, 2, 4)  # (b,h,w,n,d)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    x = torch.randn(B, 2, N, 2, D, generator=torch.Generator().manual_seed(3))
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()
    assert_weights(seen_of(Square(), x)[0], (q @ q.mT / D**0.5).softmax(-1))


# ---- what multiplies the values


def renormalised(x):
    q = split(x)
    weights = (q @ q.mT).softmax(-1).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    return joined(weights @ q)


def renormalised_in_place(x):
    q = split(x)
    weights = (q @ q.mT).softmax(-1)
    weights *= torch.ones(N, N).tril()
    weights /= weights.sum(-1, keepdim=True)
    return joined(weights @ q)


LOWER = EXPECTED.tril() / EXPECTED.tril().sum(-1, keepdim=True)


@pytest.mark.parametrize("words", [renormalised, renormalised_in_place])
def test_weights_that_change_after_the_softmax(words):
    record = seen_of(Attention(words), X)[0]
    assert_weights(record, LOWER)
    assert record.kind == "causal"
    assert record.note == "changed after the softmax: these weights multiply the values"


class MixedAttention(nn.Module):
    """Heads that are mixed after the softmax, and before it if asked: DeepViT, talking heads."""

    def __init__(self, way, dropout=0.0, before=False):
        super().__init__()
        self.way, self.num_heads, self.before = way, H, before
        self.mix = nn.Parameter(torch.randn(H, H, generator=torch.Generator().manual_seed(6)))
        self.linear, self.conv = nn.Linear(H, H, bias=False), nn.Conv2d(H, H, 1, bias=False)
        with torch.no_grad():
            self.linear.weight.copy_(self.mix.T)
            self.conv.weight.copy_(self.mix.T[:, :, None, None])
        self.dropout = nn.Dropout(dropout)

    def mixed(self, x):  # (b,h,q,k)
        if self.way == "einsum":
            return torch.einsum("bhij,hg->bgij", x, self.mix)
        if self.way == "linear":
            return self.linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.conv(x)

    def forward(self, x):
        q = split(x)
        scores = q @ q.mT
        weights = (self.mixed(scores) if self.before else scores).softmax(-1)
        return joined(self.dropout(self.mixed(weights)) @ q)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("way", ["einsum", "linear", "convolution"])
def test_heads_that_are_mixed_after_the_softmax(way, dropout, before):
    model = MixedAttention(way, dropout, before).train()
    with torch.no_grad(), regard.capture(model) as seen:
        model(X)
    mix = lambda x: torch.einsum("bhij,hg->bgij", x, model.mix.detach().double())  # noqa: E731
    scores = Q64 @ Q64.mT
    assert_weights(seen[0], mix((mix(scores) if before else scores).softmax(-1)))
    assert "changed after the softmax" in repr(seen)


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_is_not_a_change_of_the_weights(inplace):
    def words(x):
        q = split(x)
        weights = torch.nn.functional.dropout((q @ q.mT).softmax(-1), 0.5, True, inplace)
        return joined(weights.to(torch.float64).to(torch.float32) @ q)

    with torch.no_grad(), regard.capture(model := Attention(words)) as seen:
        model(X)
    assert_weights(seen[0], EXPECTED)
    assert seen[0].note is None


@pytest.mark.parametrize("after", ["zeros where there are zeros", "one", "copies"])
def test_operations_that_keep_the_weights_are_no_change(after):
    keep = torch.ones(N, N, dtype=torch.bool).tril()

    def words(x):
        q = split(x)
        weights = (q @ q.mT).masked_fill(~keep, float("-inf")).softmax(-1)
        if after == "one":
            weights = weights * torch.ones(H, 1, 1)
        elif after == "copies":
            weights = weights.nan_to_num().flatten(0, 1).clone().view(B, H, N, N)
        else:
            weights = weights.masked_fill(~keep, 0.0)
        return joined(weights @ q)

    record = seen_of(Attention(words), X)[0]
    assert_weights(record, (Q64 @ Q64.mT).masked_fill(~keep, float("-inf")).softmax(-1))
    assert record.note is None
    assert "recomputed" in repr(record.map)


def test_slot_attention_is_normalised_over_the_slots():
    slots = torch.randn(B, 3, D, generator=torch.Generator().manual_seed(7))
    x = X[..., :D]

    def words(x):
        weights = torch.einsum("bid,bjd->bij", slots, x).softmax(1)  # over the slots
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.einsum("bij,bjd->bid", weights, x)

    weights = (slots.double() @ x.double().mT).softmax(1)
    record = seen_of(Attention(words, heads=None), x)[0]
    assert_weights(record, (weights / weights.sum(-1, keepdim=True))[:, None])
    assert record.note is not None


def test_changed_weights_are_selected_by_head_and_saved(tmp_path):
    seen = seen_of(Attention(renormalised), X, heads=[2, 0])
    assert_weights(seen[0], LOWER[:, [2, 0]])
    seen.save(tmp_path / "seen.safetensors")
    loaded = Recording.load(tmp_path / "seen.safetensors")
    assert loaded[0].note == seen[0].note


def test_changed_weights_in_the_steps_of_generation():
    class CachedAttention(Attention):
        keys = None

        def forward(self, x):
            q = split(x)
            self.keys = q if self.keys is None else torch.cat([self.keys, q], dim=2)
            weights = (q @ self.keys.mT).softmax(-1) ** 2
            return joined(weights @ self.keys)

    model = CachedAttention(None)
    with torch.no_grad(), regard.capture(model) as seen:
        for part in (X[:, :3], X[:, 3:4], X[:, 4:]):
            model(part)
    expected = [(Q64[:, :, a:b] @ Q64[:, :, :b].mT).softmax(-1) ** 2 for a, b in ((0, 3), (3, 4), (4, 5))]
    rows = [torch.nn.functional.pad(part, (0, N - part.shape[-1])) for part in expected]
    assert len(seen) == 1
    assert_weights(seen[0], torch.cat(rows, dim=2))
    assert seen[0].note is not None


def test_two_softmaxes_share_one_product_with_the_values():
    def words(x):
        q = split(x)
        weights = (q @ q.mT).softmax(-1) - 0.3 * (q @ q.mT * 0.5).softmax(-1)
        return joined(weights @ q)

    seen = seen_of(Attention(words), X)
    assert len(seen) == 1
    assert_weights(seen[0], EXPECTED - 0.3 * (Q64 @ Q64.mT * 0.5).softmax(-1))
    assert seen[0].note is not None


def test_fused_attention_on_folded_heads():
    def words(x):
        qkv = torch.cat([x] * 3, -1).reshape(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, B * H, N, D).unbind(0)  # as SAM in timm
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)

    assert_weights(seen_of(Attention(words), X)[0], EXPECTED)


def test_as_many_windows_as_heads_by_hand():
    class SquareAttention(nn.Module):
        num_heads = 2

        def forward(self, x):
            q = x.permute(0, 1, 3, 2, 4)  # (b,w,h,n,d), as Twins has them
            return (q @ q.mT).softmax(-1) @ q

    x = torch.randn(B, 2, N, 2, D, generator=torch.Generator().manual_seed(3))
    q = x.permute(0, 1, 3, 2, 4).flatten(0, 1).double()
    assert_weights(seen_of(SquareAttention(), x)[0], (q @ q.mT).softmax(-1))


def test_nothing_that_is_made_of_a_product_is_kept_in_memory():
    class Chain(nn.Module):
        def forward(self, x):
            made, alive = x @ x.mT, []
            for n in range(4):
                made = torch.nn.functional.pad(made, (0, 1, 0, 1)) * (n + 2.0)
                alive.append(weakref.ref(made))
                made = made.clone()
            self.alive = [found for one in alive[:-1] if (found := one()) is not None]
            return made

    model = nn.ModuleDict({"chain": Chain(), "attention": nn.MultiheadAttention(H * D, H, batch_first=True)})
    with torch.no_grad(), regard.capture(model):
        model["chain"](X)
        model["attention"](X, X, X)
    assert not model["chain"].alive


def test_torchs_own_function_folds_heads_behind_sequences():
    inside = nn.MultiheadAttention(H * D, H, batch_first=True)

    class GatedAttention(nn.Module):  # as in WavLM, whose bias for each head is an argument
        num_heads = H

        def forward(self, x, position_bias):
            x = x.transpose(0, 1)
            return torch.nn.functional.multi_head_attention_forward(
                x, x, x, H * D, H, inside.in_proj_weight, inside.in_proj_bias, None, None, False, 0.0,
                inside.out_proj.weight, inside.out_proj.bias, attn_mask=position_bias, need_weights=True,
            )[0]  # fmt: skip

    bias = torch.randn(B * H, N, N, generator=torch.Generator().manual_seed(8))
    with torch.no_grad():
        expected = inside(X, X, X, attn_mask=bias, average_attn_weights=False)[1]
    assert_weights(seen_of(GatedAttention(), X, bias)[0], expected)


MEMORY = bytearray(4 * B * H * N * N)


def at_one_address():
    """A tensor (b*h,n,n) of its own storage, which stands where the last one stood."""
    return torch.frombuffer(MEMORY, dtype=torch.float32).view(B * H, N, N)


def test_scores_in_chunks_are_followed_after_their_product_is_freed():
    def words(x):
        q, k, v = (split(x * n).flatten(0, 1) for n in (1, 2, 3))
        parts = F.pad(torch.bmm(q, k.mT, out=at_one_address()), (0, 0, 0, 1))
        zeros = torch.zeros(B * H, N, N)
        other = torch.add(zeros, zeros, out=at_one_address())
        whole = parts.new_zeros(B * H, N, N)
        whole[:, :2], whole[:, 2:] = parts[:, :2], parts[:, 2:N]
        return joined((torch.softmax(whole, -1) @ v + other.sum()).unflatten(0, (B, H)))

    (record,) = seen_of(Attention(words), X)
    assert_weights(record, torch.softmax(split(X) @ split(X * 2).mT, -1))


def test_a_gate_that_reuses_the_memory_of_freed_scores_is_not_attention():
    def words(x):
        q, k, v = (split(x * n).flatten(0, 1) for n in (1, 2, 3))
        out = torch.softmax(torch.bmm(q, k.mT, out=at_one_address()), -1) @ v
        gate = torch.softmax(at_one_address().fill_(1), -1)
        return joined((gate @ out).unflatten(0, (B, H)))

    seen, told = told_of(Attention(words), X)
    (record,) = seen
    assert_weights(record, torch.softmax(split(X) @ split(X * 2).mT, -1))
    assert len(told) == 1
    assert told[0].startswith("not recorded: a softmax in 'Attention'")


HIDDEN = torch.tensor([[0] * N, [0] * 3 + [1] * 2], dtype=torch.bool)[:, None, :, None]  # (b,1,q,1)


def in_padded_chunks(weights, v):
    return torch.cat(
        [F.pad(part, (0, 2)) @ F.pad(v, (0, 0, 0, 2)) for part in weights.split((2, 3), dim=2)], 2
    )


def in_padded_rows(weights, v):
    return (F.pad(weights, (0, 0, 0, 2)) @ v)[:, :, :N]


def by_heads(weights, v):
    return torch.stack([weights[:, h] @ v[:, h] for h in range(H)], dim=1)


def by_keys(weights, v):
    return weights[..., :2].clone() @ v[:, :, :2] + weights[..., 2:].clone() @ v[:, :, 2:]


def filled(weights):
    return weights.masked_fill(HIDDEN, 0.0)


def filled_in_place(weights):
    return weights.masked_fill_(HIDDEN, 0.0)


@pytest.mark.parametrize("change", [filled, filled_in_place])
@pytest.mark.parametrize("multiply", [in_padded_chunks, in_padded_rows, by_heads, by_keys])
def test_weights_changed_after_the_softmax_and_multiplied_in_pieces(change, multiply):
    def words(x):
        q = split(x)
        weights = change(torch.softmax(q @ q.mT, -1))
        out = joined(multiply(weights, q))
        weights[:, :, 0] = 0  # after they were used
        return out

    (record,) = seen_of(Attention(words), X)
    assert_weights(record, EXPECTED.masked_fill(HIDDEN, 0.0))
    assert record.note is not None


@pytest.mark.parametrize("multiply", [in_padded_chunks, in_padded_rows, by_heads, by_keys])
def test_sliced_weights_are_those_of_the_softmax(multiply):
    def words(x):
        q = split(x)
        weights = torch.softmax(q @ q.mT, -1)
        spread = (weights * weights.log()).sum()  # of the same shape, and no weights
        return joined(multiply(weights, q)) + 0 * spread

    (record,) = seen_of(Attention(words), X)
    assert_weights(record, EXPECTED)
    assert record.note is None
