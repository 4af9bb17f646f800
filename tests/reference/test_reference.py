"""Tests of the forward pass of the oracle, with known answers, masks, dtypes, shapes and errors."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.reference as ref

B, H, Q, K, D = 2, 3, 5, 7, 11
INF = np.inf


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def by_hand(scores, value):
    """Compute attention in loops, as the exponentials of each row over their sum, times the values."""
    output = np.zeros((*scores.shape[:-1], value.shape[-1]))
    for index in np.ndindex(scores.shape[:-1]):
        row = np.exp(scores[index])
        for j, e in enumerate(row):
            output[index] += e / row.sum() * value[(*index[:-1], j)]
    return output


# --- softmax ---------------------------------------------------------------------------------------------


def test_softmax_of_log_3_and_0_is_three_quarters_and_one():
    np.testing.assert_allclose(ref.softmax([np.log(3), 0.0]), [0.75, 0.25])


def test_softmax_takes_its_axis():
    x = np.log([[3.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(ref.softmax(x, axis=0), [[0.75, 0.5], [0.25, 0.5]])


def test_softmax_does_not_overflow():
    np.testing.assert_allclose(ref.softmax([1e4, 1e4 - np.log(3)]), [0.75, 0.25])


def test_softmax_of_a_row_of_minus_infinity_is_zero():
    np.testing.assert_array_equal(ref.softmax([[-INF, -INF], [0.0, -INF]]), [[0, 0], [1, 0]])


def test_softmax_of_nothing_is_nothing():
    assert ref.softmax(np.zeros((5, 0))).shape == (5, 0)


# --- scores ----------------------------------------------------------------------------------------------


def test_scaled_scores_are_the_dot_scores_over_sqrt_d(rng):
    q, k = rng.normal(size=(B, H, Q, D)), rng.normal(size=(B, H, K, D))
    scores = ref.dot_scores(q, k)
    assert scores.shape == (B, H, Q, K)
    assert scores[1, 2, 3, 5] == pytest.approx(sum(q[1, 2, 3] * k[1, 2, 5]))
    np.testing.assert_allclose(ref.scaled_dot_scores(q, k), scores / np.sqrt(D))
    np.testing.assert_allclose(ref.scaled_dot_scores(q, k, scale=2.0), scores * 2)


def test_additive_scores_follow_bahdanau(rng):
    inner, width = 13, 17  # a, and a key width unlike the query's
    q, k = rng.normal(size=(B, Q, D)), rng.normal(size=(B, K, width))
    W_q, W_k = rng.normal(size=(inner, D)), rng.normal(size=(inner, width))
    v, b = rng.normal(size=inner), rng.normal(size=inner)
    scores = ref.additive_scores(q, k, W_q, W_k, v, b)
    assert scores.shape == (B, Q, K)
    assert scores[1, 3, 5] == pytest.approx(v @ np.tanh(W_q @ q[1, 3] + W_k @ k[1, 5] + b))


def test_additive_scores_let_an_unprojected_query_in(rng):
    q, k, W_k, v = (rng.normal(size=s) for s in [(Q, D), (K, 13), (D, 13), (D,)])
    np.testing.assert_allclose(
        ref.additive_scores(q, k, None, W_k, v), ref.additive_scores(q, k, np.eye(D), W_k, v)
    )


def test_bilinear_scores_are_q_w_k(rng):
    q, k, W = rng.normal(size=(B, Q, D)), rng.normal(size=(B, K, 13)), rng.normal(size=(D, 13))
    assert ref.bilinear_scores(q, k, W)[1, 3, 5] == pytest.approx(q[1, 3] @ W @ k[1, 5])


def test_parameters_of_each_head_broadcast_over_the_batch(rng):
    q, k, W = rng.normal(size=(B, H, Q, D)), rng.normal(size=(B, H, K, D)), rng.normal(size=(H, D, D))
    assert ref.bilinear_scores(q, k, W)[1, 2, 3, 5] == pytest.approx(q[1, 2, 3] @ W[2] @ k[1, 2, 5])
    v = rng.normal(size=(H, D))
    scores = ref.additive_scores(q, k, W, W, v, v)
    expected = v[2] @ np.tanh(W[2] @ q[1, 2, 3] + W[2] @ k[1, 2, 5] + v[2])
    assert scores[1, 2, 3, 5] == pytest.approx(expected)


# --- attention -------------------------------------------------------------------------------------------


def mechanisms(rng, width=D):
    """Each attention with its score, ready to be called with (q, k, v, mask)."""
    W, vector, bias = rng.normal(size=(width, width)), rng.normal(size=width), rng.normal(size=width)
    return {
        "dot": (ref.dot_attention, ref.dot_scores),
        "scaled_dot": (ref.scaled_dot_product_attention, ref.scaled_dot_scores),
        "additive": (
            lambda q, k, v, mask=None: ref.additive_attention(q, k, v, W, W.T, vector, bias, mask),
            lambda q, k: ref.additive_scores(q, k, W, W.T, vector, bias),
        ),
        "bilinear": (
            lambda q, k, v, mask=None: ref.bilinear_attention(q, k, v, W, mask),
            lambda q, k: ref.bilinear_scores(q, k, W),
        ),
    }


NAMES = ["dot", "scaled_dot", "additive", "bilinear"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leading", [(), (B,), (B, H), (2, B, H)])
def test_attention_is_the_weighted_sum(name, leading, rng):
    attention, scores = mechanisms(rng)[name]
    q, k, v = (rng.normal(size=(*leading, n, w)) for n, w in [(Q, D), (K, D), (K, 13)])
    output, weights = attention(q, k, v)
    assert weights.shape == (*leading, Q, K)
    np.testing.assert_allclose(weights.sum(-1), 1)
    np.testing.assert_allclose(output, by_hand(scores(q, k), v))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
def test_masked_keys_and_values_never_reach_the_output(name, bad, rng):
    attention, _ = mechanisms(rng)[name]
    q, k, v = (rng.normal(size=(B, n, D)) for n in (Q, K, K))
    mask = rng.random((B, Q, K)) < 0.6
    mask[..., 0], mask[..., 4] = True, False
    clean = attention(q, k, v, mask)
    k[:, 4], v[:, 4] = bad, bad
    for additive in (mask, np.where(mask, 0.0, -INF)):
        dirty = attention(q, k, v, additive)
        np.testing.assert_allclose(dirty[0], clean[0])
        np.testing.assert_allclose(dirty[1], clean[1])


def test_a_value_masked_for_one_query_only_reaches_the_others():
    v = np.array([[1.0], [np.nan]])
    output, _ = ref.dot_attention(np.ones((2, 1)), np.ones((2, 1)), v, ref.create_causal_mask(2))
    assert output[0, 0] == 1
    assert np.isnan(output[1, 0])


@pytest.mark.parametrize("name", NAMES)
def test_a_fully_masked_row_is_zero(name, rng):
    attention, _ = mechanisms(rng)[name]
    q, k, v = (rng.normal(size=(B, n, D)) for n in (Q, K, K))
    q[:, 2] = np.nan  # NaN in a query without keys gives zeros
    mask = np.ones((Q, K), bool)
    mask[2] = False
    output, weights = attention(q, k, v, mask)
    assert not output[:, 2].any()
    assert not weights[:, 2].any()
    np.testing.assert_allclose(np.delete(weights, 2, axis=1).sum(-1), 1)


def test_no_keys_at_all_give_zeros():
    output, weights = ref.dot_attention(np.ones((Q, D)), np.ones((0, D)), np.ones((0, 13)))
    assert weights.shape == (Q, 0)
    np.testing.assert_array_equal(output, np.zeros((Q, 13)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_float_type_stays_what_it_is(dtype, rng):
    q, k, v = (rng.normal(size=(B, n, 4)).astype(dtype) for n in (Q, K, K))
    for mask in (
        None,
        ref.causal_mask(Q, K),
        np.ones((Q, K), bool),
    ):  # the float64 mask does not widen float32
        for attention in (ref.dot_attention, ref.scaled_dot_product_attention):
            assert [x.dtype for x in attention(q, k, v, mask)] == [dtype] * 2
    W = np.eye(4, dtype=dtype)
    assert [x.dtype for x in ref.bilinear_attention(q, k, v, W)] == [dtype] * 2
    assert [x.dtype for x in ref.additive_attention(q, k, v, W, W, W[0])] == [dtype] * 2
    assert [x.dtype for x in ref.multi_head_attention(q, k, v, W, W, W, W, 2)] == [dtype] * 2


def test_integers_become_float64_and_complex_numbers_are_refused():
    output, weights = ref.dot_attention([[0]], [[1], [2]], [[1], [2]])
    assert (output.dtype, weights.dtype) == (np.float64, np.float64)
    assert output[0, 0] == 1.5
    with pytest.raises(ValueError, match=r"q: expected real numbers, got an array of complex128"):
        ref.dot_scores([[1j]], [[1.0]])


def test_inputs_are_not_changed(rng):
    arrays = [rng.normal(size=(B, n, D)) for n in (Q, K, K)]
    before = [a.copy() for a in arrays]
    ref.scaled_dot_product_attention(*arrays, ref.causal_mask(Q, K))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- errors of shape -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ref.dot_scores(np.ones(3), np.ones((2, 3))), "q: expected (...,q,d), got (3,)"),
        (lambda: ref.dot_scores(np.ones((2, 3)), np.ones((2, 5))), "k: width 5 given, 3 in q"),
        (lambda: ref.dot_scores(np.ones((2, 1, 3)), np.ones((3, 1, 3))), "k: leading axes (3,) do not"),
        (lambda: ref.attend(np.ones((5, 7)), np.ones((6, 3))), "value: 6 values given, 7 in k"),
        (lambda: ref.bilinear_scores(np.ones((2, 3)), np.ones((2, 5)), np.ones((5, 3))), "W: expected"),
        (lambda: ref.additive_scores(np.ones((2, 3)), np.ones((2, 5)), None, np.ones((7, 5)), np.ones(7)),
         "q: width 3 given, 7 in W_k k: an unprojected query"),
        (lambda: ref.additive_scores(np.ones((2, 7)), np.ones((2, 5)), None, np.ones((7, 5)), np.ones(6)),
         "v: expected (7,), got (6,)"),
        (lambda: ref.MultiHeadAttention(128, 7), "num_heads: 7 heads do not divide d_model = 128: choose"),
        (lambda: ref.MultiHeadAttention(128, 0), "num_heads: expected a whole number of 1 or more, got 0"),
        (lambda: ref.MultiHeadAttention(6, 2).forward(*[np.ones((1, 2, 5))] * 3), "W_q: expected (out,5)"),
        (lambda: ref.create_causal_mask(-1), "size: expected a whole number of 0 or more, got -1"),
        (lambda: ref.sinusoidal_positions(3, -1), "width: expected 0 or more, got -1"),
        (lambda: ref.dot_scores_grad(np.ones((2, 2)), np.ones((2, 3)), np.ones((5, 3))),
         "grad_scores: expected (2,5), got (2,2)"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared below
        call()
    assert str(caught.value).startswith(message)


# --- heads -----------------------------------------------------------------------------------------------


def weights_and_biases(rng, m=6, out=6):
    return [rng.normal(size=(out, m)) for _ in range(3)] + [rng.normal(size=(m, out))]


def test_multi_head_attention_is_each_head_on_its_own_slice(rng):
    heads, width = 3, 2
    query, key, value = (rng.normal(size=(B, n, 6)) for n in (Q, K, K))
    W_q, W_k, W_v, W_o = weights_and_biases(rng)
    b_q, b_k, b_v, b_o = (rng.normal(size=6) for _ in range(4))
    output, weights = ref.multi_head_attention(
        query, key, value, W_q, W_k, W_v, W_o, heads, b_q=b_q, b_k=b_k, b_v=b_v, b_o=b_o
    )
    assert weights.shape == (B, heads, Q, K)
    found = np.zeros((B, Q, 6)) + b_o
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)
        q, k, v = (
            x @ W[rows].T + b[rows] for x, W, b in [(query, W_q, b_q), (key, W_k, b_k), (value, W_v, b_v)]
        )
        head, head_weights = ref.scaled_dot_product_attention(q, k, v)
        np.testing.assert_allclose(weights[:, h], head_weights)
        found += head @ W_o[:, rows].T
    np.testing.assert_allclose(output, found)


@pytest.mark.parametrize("shape", [(Q, K), (B, Q, K), (B, 1, K), (B, 3, Q, K)])
def test_multi_head_masks_mean_what_they_say(shape, rng):
    mask = rng.random(shape) < 0.6
    layer = ref.MultiHeadAttention(6, 3, seed=0)
    weights = layer.attention_weights(rng.normal(size=(B, Q, 6)), rng.normal(size=(B, K, 6)), mask)
    expected = mask[:, None] if mask.ndim == 3 else mask
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(expected, (B, 3, Q, K)))


def test_multi_head_attention_works_without_a_batch(rng):
    layer = ref.MultiHeadAttention(6, 3, seed=0)
    q, k = rng.normal(size=(Q, 6)), rng.normal(size=(K, 6))
    np.testing.assert_allclose(layer.forward(q, k, k), layer.forward(q[None], k[None], k[None])[0])
    assert layer.attention_weights(q, k).shape == (3, Q, K)
    with pytest.raises(ValueError, match="3 batches given, 1 in b"):  # a 3-D mask is (b,q,k), never (h,q,k)
        layer.forward(q, k, k, np.ones((3, Q, K), bool))


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_masked_keys_do_not_change_multi_head_attention(bad, rng):
    layer = ref.MultiHeadAttention(6, 3, seed=0)
    q, k, v = (rng.normal(size=(B, n, 6)) for n in (Q, K, K))
    mask = np.ones((B, 1, K), bool)
    mask[:, :, 4] = False
    clean = layer.forward(q, k, v, mask)
    k[:, 4], v[:, 4] = bad, bad
    np.testing.assert_allclose(layer.forward(q, k, v, mask), clean)


def test_the_layer_is_the_function_and_a_seed_repeats_it(rng):
    layer, again = ref.MultiHeadAttention(6, 2, seed=3), ref.MultiHeadAttention(6, 2, seed=3)
    x = rng.normal(size=(B, Q, 6))
    output, weights = ref.multi_head_attention(x, x, x, layer.W_q, layer.W_k, layer.W_v, layer.W_o, 2)
    np.testing.assert_array_equal(layer.forward(x, x, x), output)
    np.testing.assert_allclose(layer.attention_weights(x, x), weights)
    np.testing.assert_array_equal(again.forward(x, x, x), output)
    assert not np.array_equal(layer.W_q, layer.W_k)
    assert (ref.MultiHeadAttention().d_model, ref.MultiHeadAttention().num_heads) == (128, 8)


# --- positions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_sinusoidal_positions_are_sines_and_cosines_of_the_formula(width):
    table = ref.sinusoidal_positions(7, width)
    assert table.shape == (7, width)
    for column in range(width):
        angle = 3 / 10000 ** ((column - column % 2) / width)
        assert table[3, column] == pytest.approx(np.cos(angle) if column % 2 else np.sin(angle))


# --- properties ------------------------------------------------------------------------------------------

sizes = st.integers(1, 5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(sizes, max_size=3), sizes, sizes, sizes, sizes, st.integers(0, 2**32 - 1), st.sampled_from(NAMES)
)
def test_any_shape_any_mask_rows_sum_to_one_or_zero(leading, q_len, k_len, d, d_v, seed, name):
    rng = np.random.default_rng(seed)
    attention, _ = mechanisms(rng, d)[name]
    q, k, v = (rng.normal(size=(*leading, n, w)) for n, w in [(q_len, d), (k_len, d), (k_len, d_v)])
    mask = rng.random((q_len, k_len)) < 0.5
    output, weights = attention(q, k, v, mask)
    assert output.shape == (*leading, q_len, d_v)
    np.testing.assert_allclose(weights.sum(-1), np.broadcast_to(mask.any(-1), weights.shape[:-1]))
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(mask, weights.shape))
    assert np.isfinite(output).all()


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.integers(0, 2**32 - 1), st.floats(-50, 50))
def test_softmax_ignores_an_added_constant_and_permutes_with_its_input(rows, columns, seed, constant):
    rng = np.random.default_rng(seed)
    x, order = rng.normal(size=(rows, columns)), rng.permutation(columns)
    np.testing.assert_allclose(ref.softmax(x + constant), ref.softmax(x), atol=1e-12)
    np.testing.assert_allclose(ref.softmax(x[:, order]), ref.softmax(x)[:, order])


# --- imports of the oracle -------------------------------------------------------------------------------


def test_the_oracle_imports_only_numpy_and_the_standard_library():
    for path in Path(ref.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= 1, f"{path.name} imports from outside the oracle"
                names = [node.module] if node.level == 0 else []
            for name in names:
                root = name.split(".")[0]
                assert root == "numpy" or root in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_importing_the_oracle_loads_no_torch():
    source = Path(ref.__file__).parents[2]
    code = "import sys, regard.reference, deep_learning.attention; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=source
    )
    assert done.stdout.strip() == "False"


def test_every_public_name_exists():
    assert len(set(ref.__all__)) == len(ref.__all__)
    for name in ref.__all__:
        assert getattr(ref, name).__doc__
