"""Functions that make masks and apply them to scores.

The dtype alone decides the meaning of a mask, never the shape or the numbers.

* In a bool or integer mask, True (1) means "may be attended". Integers other than 0 and 1 are an error.
* A float mask is added to the scores. 0 changes nothing, -inf masks the key, a finite number is a bias.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._basics import Array, as_array, as_floats, length, quiet, shape_text

_AXES = {2: "(q,k)", 3: "(b,q,k)", 4: "(b,h,q,k)"}
_COUNTED = {"b": "batches", "h": "heads", "q": "queries", "k": "keys"}


def causal_mask(q_len: int, k_len: int) -> Array:
    """Return an additive causal mask (q,k), aligned to the end of the keys.

    The last query sees every key, also when there are more keys than queries. If there are more queries than keys, the
    first queries see no key.

    >>> causal_mask(2, 4)
    array([[  0.,   0.,   0., -inf],
           [  0.,   0.,   0.,   0.]])
    """
    q_len, k_len = length("q_len", q_len), length("k_len", k_len)
    last_seen = np.arange(q_len)[:, None] + (k_len - q_len)  # (q,1)
    return np.where(np.arange(k_len)[None, :] <= last_seen, 0.0, -np.inf)


def create_causal_mask(size: int) -> Array:
    """Return an additive causal mask (size,size), 0 on and below the diagonal and -inf above.

    >>> print(create_causal_mask(3))
    [[  0. -inf -inf]
     [  0.   0. -inf]
     [  0.   0.   0.]]
    """
    size = length("size", size)
    return causal_mask(size, size)


def create_padding_mask(seq: ArrayLike, pad_token: int = 0) -> Array:
    """Return an additive padding mask (b,1,k) for tokens (b,k), -inf where the token is `pad_token`.

    >>> create_padding_mask([[7, 8, 0]]).tolist()
    [[[0.0, 0.0, -inf]]]
    """
    seq = as_array("seq", seq)
    if seq.ndim == 0:
        raise ValueError("seq: expected tokens (b,k), got a single number")
    return np.where(seq == pad_token, -np.inf, 0.0)[..., None, :]  # (b,1,k)


def _mismatch(mask: Array, aligned: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Describe the axes that do not fit, for example `6 keys given, 7 in k`."""
    letters = _AXES.get(len(shape), "").strip("()").split(",")
    if len(aligned) != len(shape) or len(letters) != len(shape):
        return f"a {mask.ndim}-D mask is ambiguous for {len(shape)}-D scores, give it all {len(shape)} axes"
    return ", ".join(
        f"{size} {_COUNTED[letter]} given, {expected} in {letter}"
        for letter, size, expected in zip(letters, aligned, shape, strict=True)
        if size not in (1, expected)
    )


def align_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """Reshape a mask so that it broadcasts against scores of the given shape.

    A 2-D mask is read as (q,k). A 3-D mask for 4-D scores is read as (b,q,k). Raises ValueError if the mask
    does not fit.
    """
    extra = max(mask.ndim - len(shape), 0)
    # Extra leading axes of size 1 are dropped, for example (1,1,k) with scores (q,k).
    if all(size == 1 for size in mask.shape[:extra]):
        aligned = mask.reshape(mask.shape[extra:])
        if aligned.ndim == 2:
            aligned = aligned.reshape((1,) * (len(shape) - 2) + aligned.shape)
        elif aligned.ndim == 3 and len(shape) == 4:
            aligned = aligned[:, None]  # (b,q,k) -> (b,1,q,k)
    else:
        aligned = mask
    fits = aligned.ndim == len(shape) and all(
        size in (1, expected) for size, expected in zip(aligned.shape, shape, strict=True)
    )
    if not fits:
        axes = _AXES.get(len(shape), "(...,q,k)")
        raise ValueError(
            f"mask: cannot broadcast {shape_text(mask.shape)} to {axes} = {shape_text(shape)}: "
            + _mismatch(mask, aligned.shape, shape)
        )
    return aligned


def read_mask(mask: ArrayLike) -> tuple[Array, Array | None]:
    """Split a mask into a boolean mask (True where a key may be attended) and an additive bias.

    The bias is None for a bool or integer mask. A float mask is its own bias and masks keys where it is -inf.
    Raises ValueError for integers other than 0 and 1, NaN, +inf, other dtypes, and float masks of only zeros and ones.
    """
    mask = as_array("mask", mask)
    if mask.dtype.kind in "biu":
        keep = mask != 0
        if not (mask == keep).all():
            raise ValueError(
                f"mask: found the integer {mask[mask != keep][0]}, and integers must be 1 (may be attended) or "
                "0 (masked): a mask is booleans or 0 and 1 that keep, or floats of 0 and -inf that are added to "
                "the scores"
            )
        return keep, None
    if mask.dtype.kind != "f":
        raise ValueError(
            f"mask: expected an array of bool or integer (keep) or float (additive), got {mask.dtype}: "
            "here masks are plain arrays, as create_causal_mask(n) makes them"
        )
    if np.isnan(mask).any() or (mask == np.inf).any():
        raise ValueError(
            "mask: a float mask is added to the scores and may hold finite numbers and -inf, "
            "but this one holds NaN or +inf"
        )
    if (mask == 1).any() and ((mask == 0) | (mask == 1)).all():
        raise ValueError(
            "mask: a float mask is added to the scores (0 / -inf), but this one holds only zeros and "
            "ones: write mask.astype(bool) if 1 means may be attended"
        )
    return mask != -np.inf, mask


@quiet
def apply_mask(scores: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """Add the bias of a mask to the scores and set masked scores to -inf.

    A masked score becomes -inf even if it was NaN.

    >>> apply_mask([[1.0, 2.0]], mask=[[True, False]]).tolist()
    [[1.0, -inf]]
    >>> apply_mask([[np.nan, 2.0]], mask=[[-np.inf, 0.5]]).tolist()
    [[-inf, 2.5]]
    """
    (scores,) = as_floats(scores=scores)
    if mask is None:
        return scores
    keep, bias = read_mask(mask)
    biased = scores if bias is None else scores + align_mask(bias, scores.shape)
    return np.where(align_mask(keep, scores.shape), biased, -np.inf).astype(scores.dtype)
