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
    choice,
    fixed,
    mistake,
    numbers,
    same,
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


def _pairs(query: Array, key: Array) -> tuple[Array, Array]:
    return query[:, None, :], key[None, :, :]  # (q,1,m) (1,k,m)


def _sum(V: Any) -> Array:
    """Return the sum of both parts for each pair, with the choices of its axes and its operation."""
    query, key = V.paired(V.of_parts(V.from_query), V.of_parts(V.from_key))
    return V.combined(query, key)  # (q,k,m)


def _only_keys(query: Array, key: Array) -> Array:
    return 0 * query + key if query.ndim == 3 else key


def _only_queries(query: Array, key: Array) -> Array:
    return query + 0 * key if key.ndim == 3 else query


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
        choice("query_matrix", lambda V: V.W_q),
        choice("query_turn", fixed(np.transpose)),
        step("from_query", "W_q q", "W_q q", lambda V: V.q @ V.query_turn(V.query_matrix), QUERY, FEATURE),
        choice("key_matrix", lambda V: V.W_k),
        choice("key_turn", fixed(np.transpose)),
        step("from_key", "W_k k", "W_k k", lambda V: V.k @ V.key_turn(V.key_matrix), KEY, FEATURE),
        choice("nonlinearity", fixed(np.tanh)),
        # The nonlinearity is applied to the sum, to its parts, to the score, or nowhere.
        choice("applied_to", fixed("sum")),
        choice("of_parts", lambda V: V.nonlinearity if V.applied_to == "parts" else same),
        choice("of_sum", lambda V: V.nonlinearity if V.applied_to == "sum" else same),
        choice("of_score", lambda V: V.nonlinearity if V.applied_to == "score" else same),
        choice("paired", fixed(_pairs)),
        choice("combined", fixed(np.add)),
        step("summed", "W_q q + W_k k for each pair", "每一对的 W_q q + W_k k", _sum, QUERY, KEY, FEATURE),
        step(
            "hidden",
            "tanh(W_q q + W_k k)",
            "tanh(W_q q + W_k k)",
            lambda V: V.of_sum(V.summed),
            QUERY,
            KEY,
            FEATURE,
        ),
        choice("weighted", lambda V: V.hidden @ V.v),
        choice("divisor", fixed(1.0)),
        step(
            "scores",
            "the scores v · tanh(W_q q + W_k k)",
            "分数 v · tanh(W_q q + W_k k)",
            lambda V: V.of_score(V.weighted / V.divisor),
            QUERY,
            KEY,
        ),
    ),
    mistakes=(
        mistake(
            "query_matrix_transposed",
            "W_q is not transposed: q @ W_q multiplies its columns. W_q q is q @ W_q.T.",
            "W_q 没有转置：q @ W_q 用的是它的列。W_q q 应写成 q @ W_q.T。",
            query_turn=fixed(same),
        ),
        mistake(
            "key_matrix_transposed",
            "W_k is not transposed: W_k k is k @ W_k.T.",
            "W_k 没有转置：W_k k 应写成 k @ W_k.T。",
            key_turn=fixed(same),
        ),
        mistake(
            "matrices_transposed",
            "W_q and W_k are not transposed: q @ W_q and k @ W_k multiply their columns. W q is q @ W.T.",
            "W_q 和 W_k 都没有转置：q @ W_q 和 k @ W_k 用的是它们的列。W q 应写成 q @ W.T。",
            query_turn=fixed(same),
            key_turn=fixed(same),
        ),
        mistake(
            "matrices_swapped",
            "W_q multiplies the keys and W_k the queries.",
            "W_q 乘了键，W_k 乘了查询。",
            query_matrix=lambda V: V.W_k,
            key_matrix=lambda V: V.W_q,
        ),
        mistake(
            "query_forgotten",
            "The query is missing, so all queries have the same scores. Some formulas print only "
            "v · tanh(W h). The score compares a query with a key.",
            "缺少查询，所以所有查询的分数都一样。有的公式只写 v · tanh(W h)，但分数比较的是查询与键。",
            combined=fixed(_only_keys),
        ),
        mistake(
            "key_forgotten",
            "The keys are missing, so all keys have the same score.",
            "缺少键，所以所有键的分数都一样。",
            combined=fixed(_only_queries),
        ),
        mistake(
            "only_same_places",
            "Query i is added to key i only, so there is one score for each place. Every query meets every key: add an "
            "axis to each part, [:, None, :] and [None, :, :].",
            "第 i 个查询只与第 i 个键相加，每个位置只有一个分数。每个查询都要与每个键相加：给两部分各加一个轴，"
            "[:, None, :] 和 [None, :, :]。",
            paired=fixed(lambda query, key: (query, key)),
        ),
        mistake(
            "multiplied",
            "The two parts are multiplied. The score is additive: W_q q + W_k k.",
            "两部分相乘了。这是加性分数：W_q q + W_k k。",
            combined=fixed(np.multiply),
        ),
        mistake(
            "subtracted",
            "The two parts are subtracted. The formula has a plus.",
            "两部分相减了。公式中是加号。",
            combined=fixed(np.subtract),
        ),
        mistake(
            "no_tanh",
            "The tanh is missing. Without it the score is a sum of a number of the query and a number of the "
            "key, and the softmax ignores the query.",
            "缺少 tanh。没有它，分数就是查询的一个数与键的一个数之和，softmax 会忽略查询。",
            applied_to=fixed("nothing"),
            nonlinearity=fixed(same),
        ),
        mistake(
            "sigmoid",
            "The nonlinearity is a sigmoid. This score has tanh.",
            "非线性函数用了 sigmoid。这里是 tanh。",
            nonlinearity=fixed(lambda x: 1 / (1 + np.exp(-x))),
        ),
        mistake(
            "relu",
            "The nonlinearity is a ReLU. This score has tanh.",
            "非线性函数用了 ReLU。这里是 tanh。",
            nonlinearity=fixed(lambda x: np.maximum(x, 0)),
        ),
        mistake(
            "tanh_of_parts",
            "The tanh is taken of each part before the sum. Add first: tanh(W_q q + W_k k).",
            "在求和之前对两部分分别取了 tanh。应先相加：tanh(W_q q + W_k k)。",
            applied_to=fixed("parts"),
        ),
        mistake(
            "tanh_outside",
            "The tanh is taken of the score. It belongs inside: v · tanh(...).",
            "对分数取了 tanh。它应在里面：v · tanh(...)。",
            applied_to=fixed("score"),
        ),
        mistake(
            "v_forgotten",
            "The vector v is missing: the features are only added up.",
            "缺少向量 v：只是把特征相加了。",
            weighted=lambda V: V.hidden.sum(-1),
        ),
        mistake(
            "scaled_by_root",
            "The score is divided by the root of its width. The additive score has no scaling, since "
            "tanh keeps its terms small.",
            "分数除以了宽度的平方根。加性分数没有缩放，因为 tanh 使各项保持很小。",
            divisor=lambda V: math.sqrt(len(V.v)),
        ),
        mistake(
            "not_summed",
            "The features are multiplied by v, but not added up. A score is one number: the sum over the features.",
            "各个特征乘了 v，但没有相加。分数是一个数：沿特征求和。",
            weighted=lambda V: V.hidden * V.v,
        ),
        mistake(
            "softmax_too",
            "These are the weights. The exercise asks for the scores before the softmax.",
            "这些是权重。本题要的是 softmax 之前的分数。",
            of_score=lambda V: softmax,
        ),
        mistake(
            "scores_transposed",
            "The scores are transposed: rows are queries and columns are keys.",
            "分数被转置了：行是查询，列是键。",
            scores=lambda V: V.of_score(V.weighted / V.divisor).T,
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
        choice("left", lambda V: V.q),
        choice("right", lambda V: V.k),
        choice("turned", lambda V: V.W),
        choice("reduced", lambda V: V.turned),
        choice("matrix", lambda V: V.reduced),
        choice("applied", fixed(np.matmul)),
        step(
            "projected",
            "the queries times W",
            "查询乘以 W",
            lambda V: V.applied(V.left, V.matrix),
            QUERY,
            FEATURE,
        ),
        choice("turned_keys", lambda V: V.right.T),
        choice("multiplied", lambda V: V.projected @ V.turned_keys),
        step(
            "product",
            "the dot products of q @ W with the keys",
            "q @ W 与键的点积",
            lambda V: V.multiplied,
            QUERY,
            KEY,
        ),
        choice("scaled", lambda V: V.product),
        choice("squashed", lambda V: V.scaled),
        step("scores", "the scores", "分数", lambda V: V.squashed, QUERY, KEY),
    ),
    mistakes=(
        mistake(
            "matrix_transposed",
            "W is transposed. Its rows belong to the query and its columns to the key: q @ W.",
            "W 被转置了。它的行属于查询，列属于键：q @ W。",
            turned=lambda V: V.W.T,
        ),
        mistake(
            "only_diagonal",
            "Only the diagonal of W is used.",
            "只用到了 W 的对角线。",
            reduced=lambda V: V.turned * np.eye(*V.turned.shape),
        ),
        mistake(
            "symmetric",
            "W is made symmetric. It may treat queries and keys differently.",
            "W 被对称化了。它可以对查询和键做不同的处理。",
            reduced=lambda V: (V.turned + V.turned.T) / 2,
        ),
        mistake(
            "matrix_twice", "W is applied twice.", "W 用了两次。", matrix=lambda V: V.reduced @ V.reduced
        ),
        mistake(
            "elementwise",
            "The query is multiplied with W number by number and the rows are not summed over W. Use the "
            "matrix product q @ W.",
            "查询与 W 逐元素相乘了。应使用矩阵乘积 q @ W。",
            applied=fixed(np.multiply),
        ),
        mistake(
            "matrix_forgotten",
            "W is not used: this is the dot product of queries and keys.",
            "没有使用 W：这是查询与键的点积。",
            applied=fixed(lambda q, W: q),
        ),
        mistake(
            "bias_like",
            "W is added to the queries. It multiplies them.",
            "W 加到了查询上。应是相乘。",
            applied=fixed(np.add),
        ),
        mistake(
            "swapped_q_k",
            "Queries and keys are swapped: row i of the scores belongs to query i.",
            "查询和键交换了：分数的第 i 行属于第 i 个查询。",
            left=lambda V: V.k,
            right=lambda V: V.q,
        ),
        mistake(
            "not_transposed",
            "The keys are not transposed in the last product.",
            "最后的乘积中键没有转置。",
            turned_keys=lambda V: V.right,
        ),
        mistake(
            "both_projected",
            "W is applied to the queries and to the keys. The score is q W kᵀ, with W once.",
            "W 既乘了查询，也乘了键。分数是 q W kᵀ，W 只用一次。",
            turned_keys=lambda V: V.applied(V.right, V.matrix).T,
        ),
        mistake(
            "scores_transposed",
            "The scores are transposed: rows are queries and columns are keys.",
            "分数被转置了：行是查询，列是键。",
            product=lambda V: V.multiplied.T,
        ),
        mistake(
            "scaled_by_root",
            "The scores are divided by √d. This score has no scaling, since W can learn it.",
            "分数除以了 √d。这个分数没有缩放，W 可以学到它。",
            scaled=lambda V: V.product / math.sqrt(V.q.shape[-1]),
        ),
        mistake(
            "scaled_by_key_width",
            "The scores are divided by the root of the width of the keys. This score has no scaling, since W "
            "can learn it.",
            "分数除以了键的宽度的平方根。这个分数没有缩放，W 可以学到它。",
            scaled=lambda V: V.product / math.sqrt(V.k.shape[-1]),
        ),
        mistake(
            "tanh_too",
            "The scores go through a tanh. The bilinear score has none.",
            "分数经过了 tanh。双线性分数没有它。",
            squashed=lambda V: np.tanh(V.scaled),
        ),
        mistake(
            "softmax_too",
            "These are the weights. The exercise asks for the scores before the softmax.",
            "这些是权重。本题要的是 softmax 之前的分数。",
            scores=lambda V: softmax(V.squashed),
        ),
    ),
    make_cases=_bilinear_cases,
    returns=("scores",),
    oracle=reference.bilinear_scores,
)
