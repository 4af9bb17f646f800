"""Tests of each mask cell by cell, of combined masks, and of blocks, which never leave out a kept pair."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import Mask, blocks, causal, global_tokens, padding, window
from regard.masks import as_mask, split_additive
from regard.masks.specs import mask_from_spec, mask_spec
from regard.masks.tiling import ALL, NONE, SOME, Blocking
from regard.shapes import Grid
from support.attention_cases import examples

GRID = Grid(2, 3, 5, 7)


def by_hand(rule, grid=GRID):
    """The mask (b,h,q,k) that a rule on indices says."""
    cells = itertools.product(*(range(n) for n in grid))
    return torch.tensor([rule(*cell) for cell in cells]).reshape(tuple(grid)).bool()


def full(mask, grid=GRID):
    return mask.dense(grid).expand(tuple(grid))


LAYOUT = [[1, 0, 1], [0, 1, 0]]
RULES = {
    "causal": (causal(), lambda b, h, i, j: j <= i + 2),
    "causal offset": (causal(offset=1), lambda b, h, i, j: j <= i + 1),
    "causal offsets": (causal(offset=torch.tensor([0, 3])), lambda b, h, i, j: j <= i + [0, 3][b]),
    "window": (window(1, 2), lambda b, h, i, j: i + 2 - 1 <= j <= i + 2 + 2),
    "window open": (window(None, 1), lambda b, h, i, j: j <= i + 2 + 1),
    "lengths": (padding([7, 4]), lambda b, h, i, j: j < [7, 4][b]),
    "booleans": (padding(torch.tensor([[1, 0, 1, 1, 1, 0, 1]] * 2)), lambda b, h, i, j: j not in (1, 5)),
    "global": (global_tokens([3]), lambda b, h, i, j: i + 2 == 3 or j == 3),
    "global first": (global_tokens(2), lambda b, h, i, j: i + 2 < 2 or j < 2),
    "blocks": (blocks(LAYOUT, size=3), lambda b, h, i, j: LAYOUT[i // 3][j // 3]),
    "blocks of two sides": (blocks([[1, 0], [0, 1]], size=(4, 4)), lambda b, h, i, j: i // 4 == j // 4),
    "blocks a head": (
        blocks(torch.tensor([LAYOUT, [[1] * 3] * 2, [[0] * 3] * 2]), size=3),
        lambda b, h, i, j: [LAYOUT[i // 3][j // 3], 1, 0][h],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_mask_keeps_the_pairs_of_its_rule(name):
    mask, rule = RULES[name]
    assert torch.equal(full(mask), by_hand(rule))


@pytest.mark.parametrize("pair", list(itertools.combinations(RULES, 2)), ids="+".join)
def test_masks_combine_cell_by_cell(pair):
    (left, left_rule), (right, right_rule) = RULES[pair[0]], RULES[pair[1]]
    assert torch.equal(full(left & right), by_hand(lambda *c: left_rule(*c) and right_rule(*c)))
    assert torch.equal(full(left | right), by_hand(lambda *c: left_rule(*c) or right_rule(*c)))
    assert torch.equal(full(~left & right), by_hand(lambda *c: not left_rule(*c) and right_rule(*c)))


def test_masks_combine_with_tensors_from_both_sides():
    keep = torch.rand(5, 7) < 0.5
    expected = keep & full(causal())
    assert torch.equal(full(causal() & keep), expected)
    assert torch.equal(full(keep & causal()), expected)
    assert torch.equal(full(keep | ~causal()), keep | ~full(causal()))


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (2, 1, 7), (2, 3, 5, 7), (1, 1), (2, 1, 1, 7)])
def test_a_tensor_means_what_its_shape_says(shape):
    keep = torch.rand(shape) < 0.5
    four = keep[None, None] if len(shape) == 2 else keep[:, None] if len(shape) == 3 else keep
    for given_mask in (
        keep,
        keep.int(),
        keep.to(torch.uint8),
        torch.zeros(shape).masked_fill(~keep, float("-inf")),
    ):
        assert torch.equal(full(as_mask(given_mask)), four.expand(tuple(GRID)))


TOKENS = torch.tensor([[1, 1, 0], [1, 1, 1]])
INTEGERS = {
    "added": (1 - TOKENS) * -10000,
    "inverted bits": ~TOKENS,
    "inverted bytes": ~TOKENS.to(torch.uint8),
    "counts": TOKENS * 2,
    "unsigned": (TOKENS * 7).to(torch.uint16),
}
X = torch.randn(2, 3, 4)
TAKES_A_MASK = {
    "attention": lambda mask: regard.attention(X, X, X, mask=mask),
    "attention_weights": lambda mask: regard.attention_weights(X, X, mask=mask),
    "multi-head": lambda mask: regard.MultiHeadAttention(4, 2)(X, X, X, mask),
    "multi-head, one sequence": lambda mask: regard.MultiHeadAttention(4, 2)(X[0], mask=mask[:1]),
    "basic": lambda mask: regard.BasicAttention(4)(X, X, X, mask),
    "self": lambda mask: regard.SelfAttention(4)(X, mask),
    "simple": lambda mask: regard.SimpleAttention(4)(X, X, X, mask),
    "encoder-decoder": lambda mask: regard.EncoderDecoderAttention(4)(X, X, mask=mask),
    "additive": lambda mask: regard.AdditiveAttention(4)(X, X, mask=mask),
    "combined": lambda mask: causal() & mask,
    "combined, right": lambda mask: mask | causal(),
    "padding": lambda mask: padding(mask[:, 0]),
    "blocks": lambda mask: blocks(mask, 2),
}


@pytest.mark.parametrize("integers", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize("call", TAKES_A_MASK.values(), ids=TAKES_A_MASK)
def test_integers_other_than_0_and_1_are_refused_with_the_three_kinds_of_masks(call, integers):
    with pytest.raises(
        regard.errors.MaskError, match=r"integer .*0 and 1 that keep.*0 and -inf.*from_key_padding_mask"
    ):
        call(integers[:, None])  # (b,1,k)


def test_integers_of_a_trace_are_not_read():
    made = torch.fx.experimental.proxy_tensor.make_fx(lambda x, m: regard.attention(x, x, x, mask=m))(
        X, TOKENS[:, None]
    )
    expected = regard.attention(X, X, X, mask=TOKENS[:, None] == 1)
    torch.testing.assert_close(made(X, TOKENS[:, None]), expected)


def test_finite_numbers_in_a_float_mask_are_a_bias():
    mask = torch.tensor([[0.5, float("-inf"), 0.0]])
    keep, bias = split_additive(mask)
    assert full(keep, Grid(1, 1, 1, 3)).tolist() == [[[[True, False, True]]]]
    assert bias.tolist() == [[0.5, 0.0, 0.0]]
    q, k, v = torch.randn(1, 4), torch.randn(3, 4), torch.randn(3, 2)
    expected = torch.softmax(q @ k.T / 2 + mask, dim=-1) @ v
    assert torch.allclose(regard.attention(q, k, v, mask=mask), expected, atol=1e-6)


def test_torchs_inverted_padding_mask_has_its_own_constructor():
    ignored = torch.tensor([[False, False, True], [False, True, True]])
    expected = padding([2, 1]).dense(Grid(2, 1, 1, 3))
    assert torch.equal(Mask.from_key_padding_mask(ignored).dense(Grid(2, 1, 1, 3)), expected)
    numbers = torch.zeros(2, 3).masked_fill(ignored, float("-inf"))
    assert torch.equal(Mask.from_key_padding_mask(numbers).dense(Grid(2, 1, 1, 3)), expected)


@pytest.mark.parametrize("name", RULES)
def test_seen_keys_are_those_of_some_query(name):
    for mask in (
        RULES[name][0],
        RULES[name][0] & padding([5, 7]),
        RULES[name][0] & ~window(1, 1),
        ~RULES[name][0],
    ):
        expected = full(mask).any(dim=2)
        seen = mask.seen_keys(GRID)
        found = torch.ones(2, 3, 7, dtype=torch.bool) if seen is None else seen.expand(2, 3, 7)
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", RULES)
def test_a_mask_survives_its_description(name):
    mask = (RULES[name][0] | global_tokens([1])) & ~padding([1, 2])
    tensors = {}
    spec = mask_spec(mask, tensors)
    assert torch.equal(full(mask_from_spec(spec, tensors)), full(mask))


def test_a_copy_of_a_mask_does_not_change_with_the_original():
    lengths = torch.tensor([7, 4])
    mask = padding(lengths) & causal()
    copy = mask.map_tensors(torch.clone)
    before = full(copy)
    lengths[0] = 1
    assert torch.equal(full(copy), before)
    assert not torch.equal(full(mask), before)


LEAVES = st.one_of(
    st.builds(causal, st.one_of(st.none(), st.integers(-9, 9))),
    st.builds(window, st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.integers(0, 9))),
    st.builds(global_tokens, st.lists(st.integers(0, 11), max_size=3)),
    st.builds(
        lambda seed, size: blocks(
            torch.rand(14, 14, generator=torch.Generator().manual_seed(seed)) < 0.4, size
        ),
        st.integers(0, 99),
        st.integers(3, 5),
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=5,
)


@examples(300, 2000)
@given(
    mask=TREES, q=st.integers(1, 29), k=st.integers(12, 29), size=st.integers(1, 7), seed=st.integers(0, 99)
)
def test_block_arithmetic_is_sound_in_any_order(mask, q, k, size, seed):
    grid = Grid(1, 1, q, k)
    random = np.random.default_rng(seed)
    rows, cols = Blocking(random.permutation(q), size), Blocking(random.permutation(k), size)
    found = mask.classify(rows, cols, grid)
    dense = mask.dense(grid).expand(tuple(grid))[0, 0].numpy()
    for i, j in itertools.product(range(len(rows)), range(len(cols))):
        cells = dense[np.ix_(rows.index[i][rows.real[i]], cols.index[j][cols.real[j]])]
        if found[i, j] == NONE:
            assert not cells.any()
        elif found[i, j] == ALL:
            assert cells.all()
        else:
            assert found[i, j] == SOME


PER_KEY = st.builds(lambda n: padding([n]), st.integers(0, 12))


@examples(300, 2000)
@given(mask=TREES, keys=PER_KEY, left=st.booleans(), q=st.integers(1, 29), k=st.integers(12, 29))
def test_the_covering_rows_see_every_key_that_a_row_sees(mask, keys, left, q, k):
    grid = Grid(1, 1, q, k)
    for combined in (mask, keys & mask if left else mask & keys, mask | keys, keys & ~keys):
        dense = combined.dense(grid).expand(tuple(grid))
        assert torch.equal(dense[:, :, combined.covering_rows(grid)].any(dim=2), dense.any(dim=2))


def test_the_covering_rows_of_common_masks_are_few():
    grid = Grid(1, 1, 1000, 1000)
    for mask in (
        causal(),
        causal() & padding([5]),
        window(None, 3),
        padding([5]) & causal() & window(None, 0),
    ):
        assert mask.covering_rows(grid) == slice(999, 1000)
    assert window(99, 0).covering_rows(grid) == slice(99, 1000, 100)


def test_block_arithmetic_is_exact_for_a_window():
    rows = cols = Blocking(np.arange(256), 64)
    expected = [[1, 0, 0, 0], [2, 1, 0, 0], [1, 2, 1, 0], [1, 1, 2, 1]]  # SOME is 1, ALL is 2
    assert window(130, 0).classify(rows, cols, Grid(1, 1, 256, 256)).tolist() == expected


def test_a_key_that_either_mask_shows_is_seen():
    for name in RULES:
        mask = RULES[name][0] | window(0, 0)
        seen = mask.seen_keys(GRID)
        found = torch.ones(2, 3, 7, dtype=torch.bool) if seen is None else seen.expand(2, 3, 7)
        assert torch.equal(found, full(mask).any(dim=2)), name


def test_a_simplified_mask_hides_the_same_pairs():
    grid = Grid(1, 1, 3, 4)
    leaves = [causal(), *(causal(offset=n) for n in range(-1, 6)), window(1, 0), padding([2])]
    for left, right in itertools.product(leaves, leaves):
        for mask in (left, left & right, left | right, ~left & right):
            simple = mask.simplified(grid)
            found = torch.ones(tuple(grid), dtype=torch.bool) if simple is None else full(simple, grid)
            assert torch.equal(found, full(mask, grid))
