"""Tests of the masks of the oracle, with every dtype and shape, and of errors that name the axis."""

import numpy as np
import pytest

import regard.reference as ref

B, H, Q, K, D = 2, 3, 5, 7, 11
INF = np.inf


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_create_causal_mask_is_zero_on_and_below_the_diagonal():
    np.testing.assert_array_equal(ref.create_causal_mask(3), [[0, -INF, -INF], [0, 0, -INF], [0, 0, 0]])


def test_causal_mask_is_aligned_to_the_end_of_the_keys():
    np.testing.assert_array_equal(ref.causal_mask(2, 4), [[0, 0, 0, -INF], [0, 0, 0, 0]])
    np.testing.assert_array_equal(ref.causal_mask(3, 1), [[-INF], [-INF], [0]])


def test_create_padding_mask_hides_the_padding_token():
    mask = ref.create_padding_mask([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]])
    assert mask.shape == (2, 1, 5)
    np.testing.assert_array_equal(mask[:, 0] == 0, [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(ref.create_padding_mask([[9, 0]], pad_token=9), [[[-INF, 0]]])


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8])
def test_bool_and_integer_masks_keep(dtype):
    _, weights = ref.dot_attention([[0.0]], [[0.0]] * 3, [[1.0]] * 3, np.array([[1, 0, 1]], dtype))
    np.testing.assert_array_equal(weights, [[0.5, 0, 0.5]])


@pytest.mark.parametrize(
    "mask", [[[0, -10000]], ~np.array([[1, 0]]), ~np.array([[1, 0]], np.uint8), [[2, 0]]]
)
def test_integers_other_than_0_and_1_are_refused_with_the_kinds_of_masks(mask):
    for call in (
        lambda: ref.dot_attention([[0.0]], [[0.0]] * 2, [[1.0]] * 2, mask),
        lambda: ref.explain([[0.0]], [[0.0]] * 2, [[1.0]] * 2, mask=mask),
        lambda: ref.MultiHeadAttention(2, 1).forward([[0.0, 1.0]], [[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2, mask),
    ):
        with pytest.raises(ValueError, match=r"^mask: found the integer .*0 and 1 that keep.*0 and -inf"):
            call()


def test_a_finite_float_mask_is_a_bias():
    _, weights = ref.dot_attention([[0.0]], [[0.0]] * 2, [[1.0]] * 2, [[np.log(3), 0.0]])
    np.testing.assert_allclose(weights, [[0.75, 0.25]])


def test_a_float_mask_of_zeros_and_ones_is_refused_with_the_fix():
    for mask in ([[1.0, 0.0]], [[1.0, 1.0]]):
        with pytest.raises(ValueError, match=r"^mask: .*only zeros and ones: write mask.astype\(bool\)"):
            ref.dot_attention([[0.0]], [[0.0]] * 2, [[1.0]] * 2, mask)
    _, weights = ref.dot_attention([[0.0]], [[0.0]] * 2, [[1.0]] * 2, [[0.0, 0.0]])  # nothing is forbidden
    np.testing.assert_array_equal(weights, [[0.5, 0.5]])


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_a_float_mask_with_nan_or_plus_infinity_is_refused(bad):
    with pytest.raises(ValueError, match=r"^mask: .*holds NaN or \+inf"):
        ref.apply_mask([[0.0, 0.0]], [[0.0, bad]])


@pytest.mark.parametrize(
    ("shape", "spread"),
    [
        ((Q, K), lambda m: m[None, None]),
        ((B, Q, K), lambda m: m[:, None]),
        ((B, 1, K), lambda m: m[:, None]),
        ((B, H, Q, K), lambda m: m),
        ((1, 1, Q, K), lambda m: m),
    ],
)
def test_a_mask_means_what_its_shape_says(shape, spread, rng):
    mask = rng.random(shape) < 0.6
    q, k, v = (rng.normal(size=(B, H, n, D)) for n in (Q, K, K))
    expected = np.broadcast_to(spread(mask), (B, H, Q, K))
    _, weights = ref.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_array_equal(weights > 0, expected)


def test_a_batch_mask_is_not_taken_for_a_head_mask(rng):
    """With as many heads as batches, plain broadcasting would mask the wrong axis without an error."""
    mask = np.ones((2, Q, K), bool)
    mask[0, :, 3] = False
    q, k, v = (rng.normal(size=(2, 2, n, D)) for n in (Q, K, K))
    _, weights = ref.scaled_dot_product_attention(q, k, v, mask)
    assert not weights[0, :, :, 3].any()
    assert weights[1, :, :, 3].all()


def test_a_two_dimensional_mask_is_query_by_key_even_when_the_batch_has_the_same_size(rng):
    mask = np.ones((3, 3), bool)
    mask[0, 2] = False
    x = rng.normal(size=(3, 3, D))
    _, weights = ref.dot_attention(x, x, x, mask)
    np.testing.assert_array_equal(weights[:, 0, 2], 0)
    assert weights[0, 1:, 2].all()


@pytest.mark.parametrize(
    ("mask", "scores", "message"),
    [
        (
            (2, 5, 6),
            (2, 8, 5, 7),
            "mask: cannot broadcast (2,5,6) to (b,h,q,k) = (2,8,5,7): 6 keys given, 7 in k",
        ),
        ((2, 7), (2, 5, 7), "mask: cannot broadcast (2,7) to (b,q,k) = (2,5,7): 2 queries given, 5 in q"),
        ((3, 4, 7), (2, 5, 7), "(b,q,k) = (2,5,7): 3 batches given, 2 in b, 4 queries given, 5 in q"),
        ((2, 3, 5, 7), (2, 8, 5, 7), "(b,h,q,k) = (2,8,5,7): 3 heads given, 8 in h"),
        ((7,), (5, 7), "a 1-D mask is ambiguous for 2-D scores, give it all 2 axes"),
        ((2, 8, 5, 7), (2, 5, 7), "a 4-D mask is ambiguous for 3-D scores, give it all 3 axes"),
        ((2, 5, 7), (4, 2, 8, 5, 7), "a 3-D mask is ambiguous for 5-D scores, give it all 5 axes"),
    ],
)
def test_a_mask_that_does_not_fit_says_which_axis(mask, scores, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared below, whole
        ref.apply_mask(np.zeros(scores), np.ones(mask, bool))
    assert message in str(caught.value)


def test_leading_ones_of_a_mask_are_dropped_where_there_is_no_batch():
    masked = ref.apply_mask(np.zeros((2, 3)), ref.create_padding_mask([[5, 0, 5]]))
    np.testing.assert_array_equal(masked, [[0, -INF, 0]] * 2)
