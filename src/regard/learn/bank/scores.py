"""The exercises on the additive and bilinear scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import (
    FEATURE,
    KEY,
    QUERY,
    mistake,
    numbers,
    softmax,
    step,
)
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["ADDITIVE_SCORES", "BILINEAR_SCORES"]

Array = np.ndarray


# ---- the additive score


def _additive_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((3, 3, 3, 3, 3), (2, 3, 5, 4, 7), (4, 2, 3, 5, 2))
    return [numbers(rng, q=(q, dq), k=(k, dk), W_q=(m, dq), W_k=(m, dk), v=(m,)) for q, k, dq, dk, m in sizes]


def _sum(V: Any) -> Array:
    return V.from_query[:, None, :] + V.from_key[None, :, :]  # (q,k,m)


ADDITIVE_SCORES = Exercise(
    name="additive_scores",
    title=Words("The additive score", "加性分数"),
    task=Words(
        "Write additive_scores(q, k, W_q, W_k, v), the score of Bahdanau:\n\n"
        "    score[i, j] = v · tanh(W_q q[i] + W_k k[j])\n\n"
        "q (queries, dq), k (keys, dk), W_q (m, dq), W_k (m, dk), v (m,) -> (queries, keys)",
        "编写 additive_scores(q, k, W_q, W_k, v)，即 Bahdanau 的分数：\n\n"
        "    score[i, j] = v · tanh(W_q q[i] + W_k k[j])\n\n"
        "q (查询, dq), k (键, dk), W_q (m, dq), W_k (m, dk), v (m,) -> (查询, 键)",
    ),
    hint=Words(
        "q @ W_q.T is (queries, m) and k @ W_k.T is (keys, m). With [:, None, :] and [None, :, :] their sum is "
        "(queries, keys, m).",
        "q @ W_q.T 是（查询，m），k @ W_k.T 是（键，m）。用 [:, None, :] 和 [None, :, :]，它们的和是（查询，键，m）。",
    ),
    done=Words(
        "Queries and keys may have different widths here. The price is an array of queries × keys × m.",
        "这里查询和键的宽度可以不同，代价是一个 查询 × 键 × m 的数组。",
    ),
    function="additive_scores",
    arguments=("q", "k", "W_q", "W_k", "v"),
    steps=(
        step("from_query", "W_q q", "W_q q", lambda V: V.q @ V.W_q.T, QUERY, FEATURE),
        step("from_key", "W_k k", "W_k k", lambda V: V.k @ V.W_k.T, KEY, FEATURE),
        step("summed", "W_q q + W_k k for each pair", "每一对的 W_q q + W_k k", _sum, QUERY, KEY, FEATURE),
        step(
            "hidden",
            "tanh(W_q q + W_k k)",
            "tanh(W_q q + W_k k)",
            lambda V: np.tanh(V.summed),
            QUERY,
            KEY,
            FEATURE,
        ),
        step(
            "scores",
            "the scores v · tanh(W_q q + W_k k)",
            "分数 v · tanh(W_q q + W_k k)",
            lambda V: V.hidden @ V.v,
            QUERY,
            KEY,
        ),
    ),
    mistakes=(
        mistake(
            "query_matrix_transposed",
            "W_q is not transposed: q @ W_q multiplies its columns. W_q q is q @ W_q.T.",
            "W_q 没有转置：q @ W_q 用的是它的列。W_q q 应写成 q @ W_q.T。",
            from_query=lambda V: V.q @ V.W_q,
        ),
        mistake(
            "key_matrix_transposed",
            "W_k is not transposed: W_k k is k @ W_k.T.",
            "W_k 没有转置：W_k k 应写成 k @ W_k.T。",
            from_key=lambda V: V.k @ V.W_k,
        ),
        mistake(
            "matrices_swapped",
            "W_q multiplies the keys and W_k the queries.",
            "W_q 乘了键，W_k 乘了查询。",
            from_query=lambda V: V.q @ V.W_k.T,
            from_key=lambda V: V.k @ V.W_q.T,
        ),
        mistake(
            "query_forgotten",
            "The query is missing, so all queries have the same scores. Some formulas print only "
            "v · tanh(W h). The score compares a query with a key.",
            "缺少查询，所以所有查询的分数都一样。有的公式只写 v · tanh(W h)，但分数比较的是查询与键。",
            summed=lambda V: 0 * _sum(V) + V.from_key[None],
        ),
        mistake(
            "key_forgotten",
            "The keys are missing, so all keys have the same score.",
            "缺少键，所以所有键的分数都一样。",
            summed=lambda V: 0 * _sum(V) + V.from_query[:, None],
        ),
        mistake(
            "only_same_places",
            "Query i is added to key i only, so there is one score for each place. Every query meets every key: add an "
            "axis to each part, [:, None, :] and [None, :, :].",
            "第 i 个查询只与第 i 个键相加，每个位置只有一个分数。每个查询都要与每个键相加：给两部分各加一个轴，"
            "[:, None, :] 和 [None, :, :]。",
            summed=lambda V: V.from_query + V.from_key,
        ),
        mistake(
            "multiplied",
            "The two parts are multiplied. The score is additive: W_q q + W_k k.",
            "两部分相乘了。这是加性分数：W_q q + W_k k。",
            summed=lambda V: V.from_query[:, None] * V.from_key[None],
        ),
        mistake(
            "subtracted",
            "The two parts are subtracted. The formula has a plus.",
            "两部分相减了。公式中是加号。",
            summed=lambda V: V.from_query[:, None] - V.from_key[None],
        ),
        mistake(
            "no_tanh",
            "The tanh is missing. Without it the score is a sum of a number of the query and a number of the "
            "key, and the softmax ignores the query.",
            "缺少 tanh。没有它，分数就是查询的一个数与键的一个数之和，softmax 会忽略查询。",
            hidden=lambda V: V.summed,
        ),
        mistake(
            "sigmoid",
            "The nonlinearity is a sigmoid. This score has tanh.",
            "非线性函数用了 sigmoid。这里是 tanh。",
            hidden=lambda V: 1 / (1 + np.exp(-V.summed)),
        ),
        mistake(
            "relu",
            "The nonlinearity is a ReLU. This score has tanh.",
            "非线性函数用了 ReLU。这里是 tanh。",
            hidden=lambda V: np.maximum(V.summed, 0),
        ),
        mistake(
            "tanh_of_parts",
            "The tanh is taken of each part before the sum. Add first: tanh(W_q q + W_k k).",
            "在求和之前对两部分分别取了 tanh。应先相加：tanh(W_q q + W_k k)。",
            hidden=lambda V: np.tanh(V.from_query)[:, None] + np.tanh(V.from_key)[None],
        ),
        mistake(
            "tanh_outside",
            "The tanh is taken of the score. It belongs inside: v · tanh(...).",
            "对分数取了 tanh。它应在里面：v · tanh(...)。",
            hidden=lambda V: V.summed,
            scores=lambda V: np.tanh(V.hidden @ V.v),
        ),
        mistake(
            "v_forgotten",
            "The vector v is missing: the features are only added up.",
            "缺少向量 v：只是把特征相加了。",
            scores=lambda V: V.hidden.sum(-1),
        ),
        mistake(
            "scaled_by_root",
            "The score is divided by the root of its width. The additive score has no scaling, since "
            "tanh keeps its terms small.",
            "分数除以了宽度的平方根。加性分数没有缩放，因为 tanh 使各项保持很小。",
            scores=lambda V: V.hidden @ V.v / math.sqrt(len(V.v)),
        ),
        mistake(
            "scores_transposed",
            "The scores are transposed: rows are queries and columns are keys.",
            "分数被转置了：行是查询，列是键。",
            scores=lambda V: (V.hidden @ V.v).T,
        ),
    ),
    make_cases=_additive_cases,
    returns=("scores",),
    oracle=lambda q, k, W_q, W_k, v: reference.additive_scores(q, k, W_q, W_k, v),
)


# ---- the bilinear score


def _bilinear_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((3, 3, 3, 3), (2, 3, 5, 4), (4, 2, 3, 7))
    return [numbers(rng, q=(q, dq), k=(k, dk), W=(dq, dk)) for q, k, dq, dk in sizes]


BILINEAR_SCORES = Exercise(
    name="bilinear_scores",
    title=Words("The bilinear score", "双线性分数"),
    task=Words(
        "Write bilinear_scores(q, k, W):\n\n"
        "    score[i, j] = q[i] · W k[j]\n\n"
        "q (queries, dq), k (keys, dk), W (dq, dk) -> (queries, keys). There is no scaling.",
        "编写 bilinear_scores(q, k, W)：\n\n"
        "    score[i, j] = q[i] · W k[j]\n\n"
        "q (查询, dq), k (键, dk), W (dq, dk) -> (查询, 键)。没有缩放。",
    ),
    hint=Words(
        "q @ W is (queries, dk). It meets the keys in a dot product.", "q @ W 是（查询，dk），再与键做点积。"
    ),
    done=Words(
        "With W = W_qᵀ W_k this is the dot product of projected queries and keys, as in a Transformer.",
        "当 W = W_qᵀ W_k 时，它就是投影后的查询与键的点积，与 Transformer 中一样。",
    ),
    function="bilinear_scores",
    arguments=("q", "k", "W"),
    steps=(
        step("matrix", "W", "W", lambda V: V.W),
        step("projected", "the queries times W", "查询乘以 W", lambda V: V.q @ V.matrix, QUERY, FEATURE),
        step(
            "product",
            "the dot products of q @ W with the keys",
            "q @ W 与键的点积",
            lambda V: V.projected @ V.k.T,
            QUERY,
            KEY,
        ),
        step("scores", "the scores", "分数", lambda V: V.product, QUERY, KEY),
    ),
    mistakes=(
        mistake(
            "matrix_transposed",
            "W is transposed. Its rows belong to the query and its columns to the key: q @ W.",
            "W 被转置了。它的行属于查询，列属于键：q @ W。",
            matrix=lambda V: V.W.T,
        ),
        mistake(
            "only_diagonal",
            "Only the diagonal of W is used.",
            "只用到了 W 的对角线。",
            matrix=lambda V: V.W * np.eye(*V.W.shape),
        ),
        mistake(
            "symmetric",
            "W is made symmetric. It may treat queries and keys differently.",
            "W 被对称化了。它可以对查询和键做不同的处理。",
            matrix=lambda V: (V.W + V.W.T) / 2,
        ),
        mistake("matrix_twice", "W is applied twice.", "W 用了两次。", matrix=lambda V: V.W @ V.W),
        mistake(
            "elementwise",
            "The query is multiplied with W number by number and the rows are not summed over W. Use the "
            "matrix product q @ W.",
            "查询与 W 逐元素相乘了。应使用矩阵乘积 q @ W。",
            projected=lambda V: V.q * V.matrix,
        ),
        mistake(
            "matrix_forgotten",
            "W is not used: this is the dot product of queries and keys.",
            "没有使用 W：这是查询与键的点积。",
            projected=lambda V: V.q,
        ),
        mistake(
            "bias_like",
            "W is added to the queries. It multiplies them.",
            "W 加到了查询上。应是相乘。",
            projected=lambda V: V.q + V.matrix,
        ),
        mistake(
            "swapped_q_k",
            "Queries and keys are swapped: row i of the scores belongs to query i.",
            "查询和键交换了：分数的第 i 行属于第 i 个查询。",
            projected=lambda V: V.k @ V.matrix,
            product=lambda V: V.projected @ V.q.T,
        ),
        mistake(
            "not_transposed",
            "The keys are not transposed in the last product.",
            "最后的乘积中键没有转置。",
            product=lambda V: V.projected @ V.k,
        ),
        mistake(
            "scores_transposed",
            "The scores are transposed: rows are queries and columns are keys.",
            "分数被转置了：行是查询，列是键。",
            product=lambda V: (V.projected @ V.k.T).T,
        ),
        mistake(
            "scaled_by_root",
            "The scores are divided by √d. This score has no scaling, since W can learn it.",
            "分数除以了 √d。这个分数没有缩放，W 可以学到它。",
            scores=lambda V: V.product / math.sqrt(V.q.shape[-1]),
        ),
        mistake(
            "tanh_too",
            "The scores go through a tanh. The bilinear score has none.",
            "分数经过了 tanh。双线性分数没有它。",
            scores=lambda V: np.tanh(V.product),
        ),
        mistake(
            "softmax_too",
            "These are the weights. The exercise asks for the scores before the softmax.",
            "这些是权重。本题要的是 softmax 之前的分数。",
            scores=lambda V: softmax(V.product),
        ),
    ),
    make_cases=_bilinear_cases,
    returns=("scores",),
    oracle=reference.bilinear_scores,
)
