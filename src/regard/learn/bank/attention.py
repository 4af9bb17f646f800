"""Steps and mistakes of attention on queries, keys and values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.learn.bank.shared_steps import (
    FEATURE,
    KEY,
    QUERY,
    choice,
    fixed,
    mistake,
    same,
    softmax,
    step,
    transpose,
)
from regard.learn.bank.softmaxes import softmax_steps
from regard.learn.exercise import Step
from regard.learn.words import Words

__all__ = [
    "BEST_VALUE",
    "CAUSAL",
    "ROOT_OF_QUERIES",
    "ROOT_OF_VALUES",
    "SCALE_MISTAKES",
    "SCORE_MISTAKES",
    "VALUE_MISTAKES",
    "WRONG_VALUES",
    "attention_steps",
    "dot_products",
    "score_steps",
    "value_steps",
]

Array = np.ndarray


# ---- scores


def _product(left: Array, right: Array, turn: Any) -> Array:
    return left @ turn(right)  # (...,q,k)


def _negative_distances(left: Array, right: Array, turn: Any) -> Array:
    return -np.linalg.norm(left[..., :, None, :] - right[..., None, :, :], axis=-1)  # (...,q,k)


def _unit_rows(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _reshaped(x: Array) -> Array:
    return x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2])


def dot_products(V: Any) -> Array:
    """Return the scores q @ k.T, with the choices of both sides, their lengths and the transposition."""
    return V.comparison(V.lengths(V.left), V.lengths(V.compared), V.turn)


def score_steps(*leading: Words) -> tuple[Step, ...]:
    """Return the steps of the scaled dot products of q and k, with the names of the leading axes."""
    pairs = (*leading, QUERY, KEY)
    return (
        choice("left", lambda V: V.q),
        choice("right", lambda V: V.k),
        choice("compared", lambda V: V.right),
        choice("lengths", fixed(same)),
        choice("turn", fixed(transpose)),
        choice("comparison", fixed(_product)),
        step("scores", "the scores q @ k.T", "分数 q @ k.T", dot_products, *pairs),
        choice("scale", lambda V: 1 / math.sqrt(V.q.shape[-1])),
        step("scaled", "the scores divided by √d", "除以 √d 的分数", lambda V: V.scores * V.scale, *pairs),
    )


# The mistakes in scores = q @ k.T.
SCORE_MISTAKES = (
    mistake(
        "swapped_q_k",
        "Queries and keys are swapped in the scores. Row i of the scores belongs to query i, so the queries stand "
        "on the left: q @ k.T, not k @ q.T.",
        "分数中查询和键交换了位置。分数的第 i 行属于第 i 个查询，所以查询在左边：是 q @ k.T，不是 k @ q.T。",
        left=lambda V: V.k,
        right=lambda V: V.q,
    ),
    mistake(
        "keys_with_keys",
        "The scores compare the keys with the keys. A score compares a query with a key: q @ k.T.",
        "分数是键与键的比较。分数应比较查询与键：q @ k.T。",
        left=lambda V: V.k,
        right=lambda V: V.k,
    ),
    mistake(
        "queries_with_queries",
        "The scores compare the queries with the queries. A score compares a query with a key: q @ k.T.",
        "分数是查询与查询的比较。分数应比较查询与键：q @ k.T。",
        left=lambda V: V.q,
        right=lambda V: V.q,
    ),
    mistake(
        "not_transposed",
        "The keys are not transposed. q @ k pairs the features of a query with different keys. A score is the dot "
        "product of a row of q and a row of k, which is q @ k.T.",
        "键没有转置。q @ k 把一个查询的各个特征与不同的键配在一起。分数是 q 的一行与 k 的一行的点积，即 q @ k.T。",
        turn=fixed(same),
    ),
    mistake(
        "keys_reshaped",
        "The keys are brought into the shape of the transpose by reshape. A reshape keeps the order of the numbers, so "
        "the numbers of a key are spread over several columns. Swap the axes instead: k.T, or np.swapaxes(k, -1, -2).",
        "键用 reshape 变成了转置的形状。reshape 不改变数的次序，一个键的数会散到好几列里。应交换轴：k.T，或 "
        "np.swapaxes(k, -1, -2)。",
        turn=fixed(_reshaped),
    ),
    mistake(
        "cosine",
        "The scores are cosines: queries and keys were divided by their lengths. Here the length of a vector "
        "counts, so use the plain dot product.",
        "分数是余弦：查询和键被除以了各自的长度。这里向量的长度也起作用，应使用普通的点积。",
        lengths=fixed(_unit_rows),
    ),
    mistake(
        "distances",
        "The scores are distances between queries and keys. This score is the dot product.",
        "分数是查询与键之间的距离。这里的分数是点积。",
        comparison=fixed(_negative_distances),
        turn=fixed(same),
    ),
)


# ---- scaling


# The mistakes in scaled = scores / sqrt(d).
SCALE_MISTAKES = (
    mistake(
        "no_scale",
        "The scaling is missing. A dot product is a sum of d products, so it grows with d, and the softmax becomes "
        "nearly one-hot. Divide the scores by √d before the softmax.",
        "缺少缩放。点积是 d 个乘积之和，会随 d 增大，使 softmax 接近 one-hot。在 softmax 之前把分数除以 √d。",
        scale=fixed(1.0),
    ),
    mistake(
        "divided_by_d",
        "The scores are divided by d, or twice by √d. The standard deviation of a sum of d products is √d, so one "
        "division by √d is enough.",
        "分数除以了 d，或者除以了两次 √d。d 个乘积之和的标准差是 √d，除以一次 √d 就够了。",
        scale=lambda V: 1 / V.q.shape[-1],
    ),
    mistake(
        "multiplied",
        "The scores are multiplied by √d. The scaling has to make them smaller: divide.",
        "分数乘以了 √d。缩放要让分数变小：应当相除。",
        scale=lambda V: math.sqrt(V.q.shape[-1]),
    ),
    mistake(
        "root_of_keys",
        "The scores are divided by the root of the number of keys. The scale is that of one dot product, whose "
        "number of products is the width d = k.shape[-1], not k.shape[-2].",
        "分数除以了键的个数的平方根。缩放针对单个点积，它的乘积个数是宽度 d = k.shape[-1]，不是 k.shape[-2]。",
        scale=lambda V: 1 / math.sqrt(V.k.shape[-2]),
    ),
    mistake(
        "scale_after_softmax",
        "The scaling comes after the softmax, so the weights no longer sum to 1. Divide the scores by √d before "
        "the softmax.",
        "缩放放在了 softmax 之后，权重之和不再是 1。应在 softmax 之前把分数除以 √d。",
        scaled=lambda V: V.scores,
        weights=lambda V: V.softened * V.scale,
    ),
)


CAUSAL = mistake(
    "causal",
    "There is a causal mask: a query does not see the keys after it. Here every query attends to all keys.",
    "这里多了因果掩码：查询看不到它之后的键。本题中每个查询都注意所有的键。",
    scaled=lambda V: np.where(np.tril(np.ones(V.scores.shape)) > 0, V.scores * V.scale, -np.inf),
)


# It needs values that are wider or narrower than the queries.
ROOT_OF_VALUES = mistake(
    "root_of_value_width",
    "The scores are divided by the root of the width of the values. The scale is that of a dot product of a query and "
    "a key, whose number of products is the width d = q.shape[-1].",
    "分数除以了值的宽度的平方根。缩放针对查询与键的点积，它的乘积个数是查询的宽度 d = q.shape[-1]。",
    scale=lambda V: 1 / math.sqrt(V.v.shape[-1]),
)


# ---- the weighted sum


def value_steps(name: str, en: str, zh: str, *axes: Words) -> tuple[Step, ...]:
    """Return the steps of the stage weights @ v, which has a name and words."""
    return (
        choice("content", lambda V: V.v),
        choice("taken", lambda V: V.content),
        choice("mixing", lambda V: V.weights),
        choice("summed", lambda V: V.mixing @ V.taken),
        choice("divided_sum", lambda V: V.summed),
        choice("normalised", lambda V: V.divided_sum),
        step(name, en, zh, lambda V: V.normalised, *axes),
    )


def attention_steps(*leading: Words) -> tuple[Step, ...]:
    """Return the steps of scaled dot-product attention on q, k and v, with the names of the leading axes."""
    return (
        *score_steps(*leading),
        *softmax_steps("scaled", *leading, QUERY, KEY),
        *value_steps("output", "the output weights @ v", "输出 weights @ v", *leading, QUERY, FEATURE),
    )


# The mistakes in output = weights @ v.
VALUE_MISTAKES = (
    mistake(
        "keys_as_values",
        "The weights multiply the keys. The keys are only for finding. What is taken along is the values: "
        "weights @ v.",
        "权重乘的是键。键只用来查找，取出的内容是值：weights @ v。",
        content=lambda V: V.k,
    ),
    mistake(
        "weights_transposed",
        "The weights are transposed in the weighted sum. Row i of the weights belongs to query i and meets the "
        "values of all keys: weights @ v, not weights.T @ v.",
        "加权求和时权重被转置了。权重的第 i 行属于第 i 个查询，与所有键的值相乘："
        "是 weights @ v，不是 weights.T @ v。",
        mixing=lambda V: transpose(V.weights),
    ),
    mistake(
        "mean_of_values",
        "The output is the plain mean of the values, the same for every query. The weights are not used: "
        "weights @ v.",
        "输出是值的简单平均，对每个查询都一样，没有用到权重：weights @ v。",
        mixing=lambda V: np.ones_like(V.weights) / V.v.shape[-2],
    ),
    mistake(
        "sum_of_values",
        "The values are added up without their weights: weights @ v.",
        "各个值没有乘权重就相加了：weights @ v。",
        mixing=lambda V: np.ones_like(V.weights),
    ),
    mistake(
        "not_summed",
        "The values are multiplied by their weights, but not added up. The output of a query is the sum over "
        "the keys: weights @ v.",
        "各个值乘了权重，但没有相加。一个查询的输出要沿键求和：weights @ v。",
        summed=lambda V: V.mixing[..., None] * V.taken[..., None, :, :],
    ),
    mistake(
        "divided_by_keys",
        "The weighted sum is divided by the number of keys. The weights sum to 1, so the sum is already a mean.",
        "加权和又除以了键的个数。权重之和为 1，加权和本身就是平均。",
        divided_sum=lambda V: V.summed / V.v.shape[-2],
    ),
)


# They need queries of the width of the values, or as many keys as features, in one of the cases.
WRONG_VALUES = (
    mistake(
        "queries_as_values",
        "The weights multiply the queries. What is taken along is the values: weights @ v.",
        "权重乘的是查询。取出的内容是值：weights @ v。",
        content=lambda V: V.q,
    ),
    mistake(
        "values_transposed",
        "The values are transposed in the weighted sum: weights @ v, not weights @ v.T.",
        "加权求和时值被转置了：是 weights @ v，不是 weights @ v.T。",
        taken=lambda V: transpose(V.content),
    ),
    mistake(
        "softmax_of_output",
        "The softmax is taken of the output, and the scores are used as weights. Take the softmax of the "
        "scores, then multiply by v.",
        "对输出做了 softmax，而分数被直接当作权重。应先对分数做 softmax，再乘以 v。",
        function=fixed(lambda V, x: x),
        normalised=lambda V: softmax(V.divided_sum),
    ),
    mistake(
        "queries_added",
        "The queries are added to the output. The residual connection is outside of the attention.",
        "输出加上了查询。残差连接在注意力之外。",
        output=lambda V: V.normalised + V.q,
    ),
)
ROOT_OF_QUERIES = mistake(
    "root_of_queries",
    "The scores are divided by the root of the number of queries. The scale is that of one dot product, whose number "
    "of products is the width d = q.shape[-1], not q.shape[-2].",
    "分数除以了查询的个数的平方根。缩放针对单个点积，它的乘积个数是宽度 d = q.shape[-1]，不是 q.shape[-2]。",
    scale=lambda V: 1 / math.sqrt(V.q.shape[-2]),
)


# It gives the output of a hardmax, so it is told apart only if the weights are returned too.
BEST_VALUE = mistake(
    "best_value",
    "The output is the value of the key with the largest weight. The output is the sum of all values, each "
    "times its weight.",
    "输出是权重最大的键的值。输出应为所有值乘以各自权重之和。",
    mixing=lambda V: np.eye(V.v.shape[-2])[V.weights.argmax(-1)],
)
