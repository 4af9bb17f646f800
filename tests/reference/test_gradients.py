"""Every hand-written gradient against central differences in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.reference as ref

B, H, Q, K, D = 2, 3, 5, 7, 11
# The width inside the tanh, and a key width unlike the query's.
A, E = 4, 3
M, HEADS = 6, 3
INF = np.inf
STEP = 1e-5


def numerical(loss, array):
    """The slope of the loss in every number of an array, each changed in place and put back."""
    grad = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + STEP
        above = loss()
        array[index] = kept - STEP
        below = loss()
        array[index] = kept
        grad[index] = (above - below) / (2 * STEP)
    return grad


def check(forward, backward, inputs, seed=0):
    """Compare `backward(upstream)` with differences of sum(forward() * upstream), for every named input."""
    upstream = np.random.default_rng(seed).normal(size=forward().shape)
    grads = backward(upstream)
    for name, array in inputs.items():
        found = getattr(grads, name)
        assert found.shape == array.shape, name
        expected = numerical(lambda: (forward() * upstream).sum(), array)
        np.testing.assert_allclose(found, expected, atol=2e-8, rtol=2e-6, err_msg=name)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def normal(rng, **shapes):
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_grad_equals_central_differences(axis, rng):
    x, upstream = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 5, 2))
    expected = numerical(lambda: (ref.softmax(x, axis) * upstream).sum(), x)
    np.testing.assert_allclose(ref.softmax_grad(upstream, x, axis), expected, atol=1e-9)


# --- scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (B,), (B, H)])
def test_dot_scores_grad_equals_central_differences(leading, rng):
    a = normal(rng, q=(*leading, Q, E), k=(*leading, K, E))
    check(lambda: ref.dot_scores(**a), lambda g: ref.dot_scores_grad(g, **a), a)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_scaled_dot_scores_grad_equals_central_differences(scale, rng):
    a = normal(rng, q=(B, Q, E), k=(B, K, E))
    check(
        lambda: ref.scaled_dot_scores(**a, scale=scale),
        lambda g: ref.scaled_dot_scores_grad(g, **a, scale=scale),
        a,
    )


def test_a_key_shared_by_the_batch_receives_the_sum(rng):
    a = normal(rng, q=(B, H, Q, E), k=(1, K, E))
    check(lambda: ref.dot_scores(**a), lambda g: ref.dot_scores_grad(g, **a), a)


@pytest.mark.parametrize("lead", [(), (H,)])
def test_additive_scores_grad_equals_central_differences(lead, rng):
    a = normal(rng, q=(B, *lead, Q, D), k=(B, *lead, K, E))
    a |= normal(rng, W_q=(*lead, A, D), W_k=(*lead, A, E), v=(*lead, A), b=(*lead, A))
    check(lambda: ref.additive_scores(**a), lambda g: ref.additive_scores_grad(g, **a), a)


def test_additive_scores_grad_of_an_unprojected_query_without_bias(rng):
    a = normal(rng, q=(B, Q, A), k=(B, K, E), W_k=(A, E), v=(A,))
    check(lambda: ref.additive_scores(W_q=None, **a), lambda g: ref.additive_scores_grad(g, W_q=None, **a), a)
    grads = ref.additive_scores_grad(np.ones((B, Q, K)), W_q=None, **a)
    assert grads.W_q is None
    assert grads.b is None


@pytest.mark.parametrize("lead", [(), (H,)])
def test_bilinear_scores_grad_equals_central_differences(lead, rng):
    a = normal(rng, q=(B, *lead, Q, 4), k=(B, *lead, K, E), W=(*lead, 4, E))
    check(lambda: ref.bilinear_scores(**a), lambda g: ref.bilinear_scores_grad(g, **a), a)


# --- attention -------------------------------------------------------------------------------------------


def masks(rng):
    """A mask of each kind for (b,q,k), with a row that may attend to nothing."""
    keep = rng.random((B, Q, K)) < 0.6
    keep[:, 2] = False
    keep[:, 0] = True
    bias = np.where(keep, rng.normal(size=(B, Q, K)), -INF)
    return {"none": None, "bool": keep, "causal": ref.causal_mask(Q, K), "bias": bias}


def attentions(rng, query=(B, Q, 4), key=(B, K, 4)):
    """Each attention, its gradient and its inputs by name."""
    inputs = normal(rng, query=query, key=key, value=(B, K, 2))
    W = normal(rng, W=(4, 4))
    additive = normal(rng, W_q=(E, 4), W_k=(E, 4), v=(E,), b=(E,))
    return {
        "dot": (ref.dot_attention, ref.dot_attention_grad, inputs),
        "additive": (ref.additive_attention, ref.additive_attention_grad, inputs | additive),
        "bilinear": (ref.bilinear_attention, ref.bilinear_attention_grad, inputs | W),
        "scaled_dot": (
            lambda query, key, value, mask: ref.scaled_dot_product_attention(query, key, value, mask),
            lambda g, query, key, value, mask, **more: ref.scaled_dot_product_attention_grad(
                g, query, key, value, mask, **more),
            inputs,
        ),
    }  # fmt: skip


NAMES = ["dot", "scaled_dot", "additive", "bilinear"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["none", "bool", "causal", "bias"])
def test_attention_gradients_equal_central_differences(name, kind, rng):
    forward, backward, inputs = attentions(rng)[name]
    mask = masks(rng)[kind]
    check(lambda: forward(**inputs, mask=mask)[0], lambda g: backward(g, **inputs, mask=mask), inputs)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_through_the_weights_equal_central_differences(name, rng):
    forward, backward, inputs = attentions(rng)[name]
    mask = masks(rng)["bool"]
    nothing = np.zeros((B, Q, 2))
    check(
        lambda: forward(**inputs, mask=mask)[1],
        lambda g: backward(nothing, **inputs, mask=mask, grad_weights=g),
        inputs,
    )


@pytest.mark.parametrize("shape", [(Q, K), (B, Q, K), (B, 1, K), (B, 1, Q, K), (1, H, 1, K)])
def test_a_bias_has_a_gradient_in_its_own_shape(shape, rng):
    a = normal(rng, Q=(B, H, Q, 2), K=(B, H, K, 2), V=(B, H, K, 2), mask=shape)
    check(
        lambda: ref.scaled_dot_product_attention(**a)[0],
        lambda g: ref.scaled_dot_product_attention_grad(g, **a),
        {"mask": a["mask"]},
    )


def test_a_keep_mask_has_no_gradient(rng):
    a = normal(rng, query=(Q, 2), key=(K, 2), value=(K, 2))
    assert ref.dot_attention_grad(np.ones((Q, 2)), **a, mask=np.ones((Q, K), bool)).mask is None


def test_scaled_dot_product_attention_grad_takes_its_scale(rng):
    a = normal(rng, Q=(Q, 2), K=(K, 2), V=(K, 2))
    grads = ref.scaled_dot_product_attention_grad(np.ones((Q, 2)), **a, scale=0.7)
    expected = numerical(lambda: ref.scaled_dot_product_attention(**a, scale=0.7)[0].sum(), a["Q"])
    np.testing.assert_allclose(grads.query, expected, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_fully_masked_row_gives_and_takes_no_gradient(name, rng):
    _, backward, inputs = attentions(rng)[name]
    inputs["query"][:, 2] = np.nan  # not even this may leak
    upstream = rng.normal(size=(B, Q, 2))
    upstream[:, 2] = np.nan
    grads = backward(upstream, **inputs, mask=masks(rng)["bool"])
    assert not grads.query[:, 2].any()
    for field, grad in grads._asdict().items():
        assert grad is None or np.isfinite(grad).all(), field
    quiet = np.zeros((B, Q, K), bool)
    for field, grad in backward(np.ones((B, Q, 2)), **inputs, mask=quiet)._asdict().items():
        assert grad is None or not grad.any(), field


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, INF])
def test_masked_keys_and_values_never_reach_a_gradient(name, bad, rng):
    _, backward, inputs = attentions(rng)[name]
    keep = np.ones((B, 1, K), bool)
    keep[:, :, 4] = False
    upstream = rng.normal(size=(B, Q, 2))
    clean = backward(upstream, **inputs, mask=keep)
    inputs["key"][:, 4], inputs["value"][:, 4] = bad, bad
    dirty = backward(upstream, **inputs, mask=keep)
    for field in clean._fields:
        if getattr(clean, field) is not None:
            np.testing.assert_allclose(
                getattr(dirty, field), getattr(clean, field), atol=1e-14, err_msg=field
            )
    assert not dirty.key[:, 4].any()
    assert not dirty.value[:, 4].any()


def test_attend_grad_with_scores_shared_by_the_values(rng):
    a = normal(rng, scores=(Q, K), value=(B, K, 2))
    check(lambda: ref.attend(**a)[0], lambda g: ref.attend_grad(g, **a), a)
    extra = rng.normal(size=(Q, K))
    grads = ref.attend_grad(np.zeros((B, Q, 2)), **a, grad_weights=extra)
    np.testing.assert_allclose(grads.scores, ref.softmax_grad(extra, a["scores"]), atol=1e-14)


# --- heads -----------------------------------------------------------------------------------------------


def multi_head_inputs(rng, lead=(B,)):
    """All widths differ, with keys of 4, values of 5, heads of 2 for q and k and of 1 for v, and outputs of 7."""
    return normal(
        rng, query=(*lead, Q, M), key=(*lead, K, 4), value=(*lead, K, 5),
        W_q=(2 * HEADS, M), W_k=(2 * HEADS, 4), W_v=(HEADS, 5), W_o=(7, HEADS),
        b_q=(2 * HEADS,), b_k=(2 * HEADS,), b_v=(HEADS,), b_o=(7,),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "bool", "bias"])
def test_multi_head_attention_grad_equals_central_differences(kind, rng):
    a, mask = multi_head_inputs(rng), masks(rng)[kind]
    check(
        lambda: ref.multi_head_attention(**a, num_heads=HEADS, mask=mask)[0],
        lambda g: ref.multi_head_attention_grad(g, **a, num_heads=HEADS, mask=mask),
        a,
    )


def test_multi_head_attention_grad_without_batch_and_through_the_weights(rng):
    a = multi_head_inputs(rng, lead=())
    check(
        lambda: ref.multi_head_attention(**a, num_heads=HEADS)[0],
        lambda g: ref.multi_head_attention_grad(g, **a, num_heads=HEADS),
        a,
    )
    check(
        lambda: ref.multi_head_attention(**a, num_heads=HEADS)[1],
        lambda g: ref.multi_head_attention_grad(np.zeros((Q, 7)), **a, num_heads=HEADS, grad_weights=g),
        a,
    )


def test_multi_head_gradient_of_the_key_bias_is_zero(rng):
    """q·b_k is the same for every key of a row, and the softmax forgets it."""
    a = multi_head_inputs(rng)
    grads = ref.multi_head_attention_grad(rng.normal(size=(B, Q, 7)), **a, num_heads=HEADS)
    np.testing.assert_allclose(grads.b_k, 0, atol=1e-13)
    assert np.abs(grads.b_q).max() > 1e-3


def test_multi_head_absent_biases_have_no_gradient_and_masked_nan_does_not_leak(rng):
    a = multi_head_inputs(rng)
    a = {name: array for name, array in a.items() if not name.startswith("b_")}
    keep = np.ones((B, 1, K), bool)
    keep[:, :, 4] = False
    upstream = rng.normal(size=(B, Q, 7))
    clean = ref.multi_head_attention_grad(upstream, **a, num_heads=HEADS, mask=keep)
    a["key"][:, 4], a["value"][:, 4] = np.nan, INF
    dirty = ref.multi_head_attention_grad(upstream, **a, num_heads=HEADS, mask=keep)
    assert dirty.b_q is dirty.b_k is dirty.b_v is dirty.b_o is dirty.mask is None
    for field in ("query", "key", "value", "W_q", "W_k", "W_v", "W_o"):
        np.testing.assert_allclose(getattr(dirty, field), getattr(clean, field), atol=1e-13, err_msg=field)


def test_gradients_keep_the_float_type(rng):
    a = {name: array.astype(np.float32) for name, array in multi_head_inputs(rng).items()}
    grads = ref.multi_head_attention_grad(np.ones((B, Q, 7), np.float32), **a, num_heads=HEADS)
    assert {grad.dtype for grad in grads if grad is not None} == {np.dtype(np.float32)}


# --- any shape -------------------------------------------------------------------------------------------

sizes = st.integers(1, 3)


@settings(max_examples=25, deadline=None)
@given(st.lists(sizes, max_size=2), sizes, sizes, sizes, sizes, st.integers(0, 2**32 - 1))
def test_scaled_dot_gradients_of_any_shape_equal_central_differences(leading, q_len, k_len, d, d_v, seed):
    rng = np.random.default_rng(seed)
    query, key, value = (rng.normal(size=(*leading, n, w)) for n, w in [(q_len, d), (k_len, d), (k_len, d_v)])
    mask = rng.random((q_len, k_len)) < 0.7
    check(
        lambda: ref.scaled_dot_product_attention(query, key, value, mask)[0],
        lambda g: ref.scaled_dot_product_attention_grad(g, query, key, value, mask),
        {"query": query, "key": key, "value": value},
        seed,
    )
