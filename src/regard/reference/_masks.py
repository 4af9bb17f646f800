"""Masks. The dtype decides what a mask says, never its shape or its numbers.

* bool and integer: keep. True (non-zero) may be attended.
* float: additive. 0 changes nothing, -inf forbids, any other finite number is a bias on the score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._basics import Array, as_floats, quiet, shape_text

_AXES = {2: "(q,k)", 3: "(b,q,k)", 4: "(b,h,q,k)"}
_COUNTED = {"b": "batches", "h": "heads", "q": "queries", "k": "keys"}


def causal_mask(q_len: int, k_len: int) -> Array:
    """Additive causal mask (q,k), aligned to the END of the keys: the last query sees every key.

    >>> causal_mask(2, 4)
    array([[  0.,   0.,   0., -inf],
           [  0.,   0.,   0.,   0.]])
    """
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if length < 0:
            raise ValueError(f"{name}: expected a length of 0 or more, got {length}")
    last_seen = np.arange(q_len)[:, None] + (k_len - q_len)  # (q,1)
    return np.where(np.arange(k_len)[None, :] <= last_seen, 0.0, -np.inf)


def create_causal_mask(size: int) -> Array:
    """Additive causal mask (size,size): 0 on and below the diagonal, -inf above.

    >>> print(create_causal_mask(3))
    [[  0. -inf -inf]
     [  0.   0. -inf]
     [  0.   0.   0.]]
    """
    if size < 0:
        raise ValueError(f"size: expected a length of 0 or more, got {size}")
    return causal_mask(size, size)


def create_padding_mask(seq: ArrayLike, pad_token: int = 0) -> Array:
    """Additive padding mask: tokens (b,k) -> (b,1,k), -inf where the token is `pad_token`.

    >>> create_padding_mask([[7, 8, 0]]).tolist()
    [[[0.0, 0.0, -inf]]]
    """
    seq = np.asarray(seq)
    if seq.ndim == 0:
        raise ValueError("seq: expected tokens (b,k), got a single number")
    return np.where(seq == pad_token, -np.inf, 0.0)[..., None, :]  # (b,1,k)


def _mismatch(mask: Array, given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Which axes do not fit, in words: `6 keys given, 7 in k`."""
    letters = _AXES.get(len(shape), "").strip("()").split(",")
    if len(given) != len(shape) or len(letters) != len(shape):
        return f"a {mask.ndim}-D mask is ambiguous for {len(shape)}-D scores, give it all {len(shape)} axes"
    return ", ".join(
        f"{have} {_COUNTED[letter]} given, {want} in {letter}"
        for letter, have, want in zip(letters, given, shape, strict=True)
        if have not in (1, want)
    )


def align_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """Give a mask the axes of the scores: 2-D is always (q,k), and 3-D beside heads is (b,q,k)."""
    extra = max(mask.ndim - len(shape), 0)
    if all(size == 1 for size in mask.shape[:extra]):  # (1,1,k) beside scores (q,k)
        aligned = mask.reshape(mask.shape[extra:])
        if aligned.ndim == 2:
            aligned = aligned.reshape((1,) * (len(shape) - 2) + aligned.shape)
        elif aligned.ndim == 3 and len(shape) == 4:
            aligned = aligned[:, None]  # (b,q,k) -> (b,1,q,k)
    else:
        aligned = mask
    fits = aligned.ndim == len(shape) and all(
        have in (1, want) for have, want in zip(aligned.shape, shape, strict=True)
    )
    if not fits:
        axes = _AXES.get(len(shape), "(...,q,k)")
        raise ValueError(
            f"mask: cannot broadcast {shape_text(mask.shape)} to {axes} = {shape_text(shape)}: "
            + _mismatch(mask, aligned.shape, shape)
        )
    return aligned


def read_mask(mask: ArrayLike) -> tuple[Array, Array | None]:
    """Split a mask by its dtype into keep (bool) and, for a float mask, the bias to add."""
    mask = np.asarray(mask)
    if mask.dtype.kind in "biu":
        return mask != 0, None
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
    """Scores with the mask's bias added and -inf wherever it forbids, even where the score is NaN.

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
