"""Reference implementation of attention in plain NumPy, forward and backward.

The code follows the order of the formulas and can be checked by hand. Every faster path of Regard is tested
against it in float64. It imports only NumPy, not even the rest of Regard.

* `q`, `k`, `v` are (...,n,d) with any leading axes, for example (n,d), (b,n,d) or (b,h,n,d).
* Weight matrices are (out,in), as in W x and in `nn.Linear`. Only the bilinear W is (d of q, d of k).
* In a bool or integer mask, True or non-zero means "may be attended". A float mask is added to the scores
  (0 / -inf, or a finite bias). Mask shapes are (q,k), (b,q,k), (b,1,k) and (b,h,q,k). A 2-D mask is always (q,k).
* A query whose keys are all masked has zero weights, a zero output and zero gradients. The contents of a masked
  key or value never reach an output or a gradient, even if they are NaN or inf.
* float32 stays float32, float64 stays float64, integers become float64.

>>> import numpy as np
>>> output, weights = dot_attention([[np.log(3.0)]], [[1.0], [0.0]], [[4.0], [8.0]])
>>> weights.round(4).tolist(), output.round(4).tolist()
([[0.75, 0.25]], [[5.0]])
"""

from ._attention import (
    AdditiveAttentionGrads,
    AttendGrads,
    AttentionGrads,
    BilinearAttentionGrads,
    additive_attention,
    additive_attention_grad,
    attend,
    attend_grad,
    bilinear_attention,
    bilinear_attention_grad,
    dot_attention,
    dot_attention_grad,
    scaled_dot_product_attention,
    scaled_dot_product_attention_grad,
)
from ._basics import softmax, softmax_grad
from ._explain import Explanation, explain
from ._masks import apply_mask, causal_mask, create_causal_mask, create_padding_mask
from ._multihead import (
    MultiHeadAttention,
    MultiHeadGrads,
    multi_head_attention,
    multi_head_attention_grad,
)
from ._positions import sinusoidal_positions
from ._scores import (
    AdditiveScoresGrads,
    BilinearScoresGrads,
    DotScoresGrads,
    additive_scores,
    additive_scores_grad,
    bilinear_scores,
    bilinear_scores_grad,
    dot_scores,
    dot_scores_grad,
    scaled_dot_scores,
    scaled_dot_scores_grad,
)

__all__ = [
    "AdditiveAttentionGrads",
    "AdditiveScoresGrads",
    "AttendGrads",
    "AttentionGrads",
    "BilinearAttentionGrads",
    "BilinearScoresGrads",
    "DotScoresGrads",
    "Explanation",
    "MultiHeadAttention",
    "MultiHeadGrads",
    "additive_attention",
    "additive_attention_grad",
    "additive_scores",
    "additive_scores_grad",
    "apply_mask",
    "attend",
    "attend_grad",
    "bilinear_attention",
    "bilinear_attention_grad",
    "bilinear_scores",
    "bilinear_scores_grad",
    "causal_mask",
    "create_causal_mask",
    "create_padding_mask",
    "dot_attention",
    "dot_attention_grad",
    "dot_scores",
    "dot_scores_grad",
    "explain",
    "multi_head_attention",
    "multi_head_attention_grad",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_grad",
    "scaled_dot_scores",
    "scaled_dot_scores_grad",
    "sinusoidal_positions",
    "softmax",
    "softmax_grad",
]
