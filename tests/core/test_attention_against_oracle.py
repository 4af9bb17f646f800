"""attention() against the float64 oracle, on shapes, masks, dtypes and layouts that Hypothesis makes up."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels import native
from support.attention_cases import (
    KERNELS,
    LARGE,
    SCORES,
    SMALL,
    Tensors,
    cases,
    examples,
    forced,
    magnitudes,
    oracle,
    ours,
    ours_with_weights,
    plain,
    rms,
)

HALF_AND_SINGLE = [torch.float32, torch.bfloat16, torch.float16]
# "a few ulp" of what the numbers would be if nothing cancelled.
ULPS = 2


def _mechanisms():
    """Return every score with the default kernel, and each forced kernel with the scores that it computes."""
    found = [("default", score) for score in SCORES]
    found += [(kernel, "additive") for kernel in KERNELS if kernel.startswith("additive")]
    found += [
        (kernel, score)
        for kernel in KERNELS
        if kernel.startswith("block-sparse")
        for score in ("scaled_dot", "bilinear")
    ]
    return found


def _lengths(kernel: str) -> list[int]:
    return LARGE if kernel.startswith("block-sparse") else SMALL


def _skip_without_compiler(kernel: str) -> None:
    if kernel.endswith("in C") and native.library().handle is None:
        pytest.skip(f"no compiled kernels here: {native.library().why}")


@pytest.mark.parametrize(("kernel", "score"), _mechanisms())
def test_error_is_at_most_twice_that_of_the_plain_expression(kernel, score):
    _skip_without_compiler(kernel)

    @examples(200, 2000)
    @given(data=st.data())
    def check(data):
        t = Tensors(data.draw(cases(score, HALF_AND_SINGLE, _lengths(kernel))))
        with forced(kernel):
            _compare(t, ours(t))

    check()


@pytest.mark.parametrize("score", SCORES)
def test_weights_as_tensors_have_the_same_error(score):
    @examples(100, 1000)
    @given(case=cases(score, HALF_AND_SINGLE, SMALL))
    def check(case):
        t = Tensors(case)
        _compare(t, ours_with_weights(t))

    check()


def _compare(t: Tensors, found) -> None:
    out, grads = found
    expected, expected_grads = oracle(t)
    plain_out, plain_grads = plain(t)
    floor = ULPS * torch.finfo(t.case.dtype).eps
    size = magnitudes(t)
    assert out.dtype == t.case.dtype
    assert out.shape == expected.shape
    assert torch.isfinite(out).all()
    error, theirs = rms(out.double().numpy() - expected), rms(plain_out.double().numpy() - expected)
    assert error <= 2 * theirs + floor * size["out"], (error, theirs, size["out"])
    for name, grad in grads.items():
        assert torch.isfinite(grad).all(), name
        exact = expected_grads[name]
        error = rms(grad.double().numpy() - exact)
        theirs = rms(plain_grads[name].double().numpy() - exact)
        assert error <= 3 * theirs + floor * size[name], (name, error, theirs, size[name])


@pytest.mark.parametrize(("kernel", "score"), _mechanisms())
def test_float64_equals_the_oracle(kernel, score):
    _skip_without_compiler(kernel)

    @examples(60, 500)
    @given(data=st.data())
    def check(data):
        t = Tensors(data.draw(cases(score, [torch.float64], _lengths(kernel))))
        with forced(kernel):
            out, grads = ours(t)
        expected, expected_grads = oracle(t)
        np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=1e-12)
        for name, grad in grads.items():
            scale = max(1.0, float(np.abs(expected_grads[name]).max(initial=0)))
            np.testing.assert_allclose(
                grad.numpy(), expected_grads[name], rtol=0, atol=1e-12 * scale, err_msg=name
            )

    check()
