"""The exercise on the scores of one query."""

from __future__ import annotations

import math

import numpy as np

from regard import reference
from regard.learn.bank.attention import SCALE_MISTAKES
from regard.learn.bank.shared_steps import KEY, choice, fixed, mistake, numbers, same, softmax, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["SCORES"]

Array = np.ndarray


def _unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _score_cases(rng: np.random.Generator) -> list[Case]:
    return [numbers(rng, q=(d,), k=(n, d)) for n, d in ((3, 3), (2, 5), (4, 7))]


SCORES = Exercise(
    name="scores",
    title=Words("The scores of one query", "一个查询的分数"),
    task=Words(
        "Write scores(q, k): the scaled dot products of one query with all keys,\n\n"
        "    scores[j] = (q · k[j]) / √d\n\n"
        "q has the shape (d,), k the shape (n, d), and the result the shape (n,).",
        "编写 scores(q, k)：一个查询与所有键的缩放点积，\n\n"
        "    scores[j] = (q · k[j]) / √d\n\n"
        "q 的形状是 (d,)，k 的形状是 (n, d)，结果的形状是 (n,)。",
    ),
    hint=Words(
        "k @ q has one dot product for each row of k. d is q.shape[-1].",
        "k @ q 给出 k 的每一行的点积。d 是 q.shape[-1]。",
    ),
    done=Words(
        "A score says how well a key answers a query. Dividing by √d keeps it near 1 for vectors of any width.",
        "分数表示一个键与查询有多匹配。除以 √d 使它对任意宽度的向量都在 1 附近。",
    ),
    function="scores",
    arguments=("q", "k"),
    steps=(
        choice("lengths", fixed(same)),
        choice("combined", fixed(lambda q, k: k @ q)),
        step(
            "scores",
            "the dot products k @ q",
            "点积 k @ q",
            lambda V: V.combined(V.lengths(V.q), V.lengths(V.k)),
            KEY,
        ),
        choice("scale", lambda V: 1 / math.sqrt(V.q.shape[-1])),
        step(
            "scaled",
            "the dot products divided by √d",
            "除以 √d 的点积",
            lambda V: V.scores * V.scale,
            KEY,
        ),
    ),
    mistakes=(
        *(one for one in SCALE_MISTAKES if one.name != "scale_after_softmax"),
        mistake(
            "cosine",
            "The result is a cosine: the vectors are divided by their lengths. Here the length of a vector counts.",
            "结果是余弦：向量除以了各自的长度。这里向量的长度也起作用。",
            lengths=fixed(_unit),
        ),
        mistake(
            "distances",
            "The result is a distance between the query and each key. The score is their dot product.",
            "结果是查询与每个键的距离。分数是它们的点积。",
            combined=fixed(lambda q, k: np.linalg.norm(k - q, axis=-1)),
        ),
        mistake(
            "negative_distances",
            "The result is the negative distance between the query and each key. The score is their dot product.",
            "结果是查询与每个键的距离的相反数。分数是它们的点积。",
            combined=fixed(lambda q, k: -np.linalg.norm(k - q, axis=-1)),
        ),
        mistake(
            "squared_distances",
            "The result is the negative squared distance between the query and each key. The score is their "
            "dot product.",
            "结果是查询与每个键的距离的平方的相反数。分数是它们的点积。",
            combined=fixed(lambda q, k: -((k - q) ** 2).sum(-1)),
        ),
        mistake(
            "absolute",
            "The sign of the scores is lost. A key that points away from the query has a negative score.",
            "分数的符号丢失了。与查询方向相反的键，分数为负。",
            scores=lambda V: np.abs(V.combined(V.lengths(V.q), V.lengths(V.k))),
        ),
        mistake(
            "sum_of_features_first",
            "The features are added up before they are multiplied. A dot product multiplies feature by feature, then "
            "adds.",
            "先把特征相加再相乘了。点积是逐个特征相乘，然后相加。",
            combined=fixed(lambda q, k: k.sum(-1) * q.sum()),
        ),
        mistake(
            "sum_over_keys",
            "The products are added up over the keys. Add over the features, so that each key has its own score.",
            "乘积是沿键相加的。应沿特征相加，让每个键有自己的分数。",
            combined=fixed(lambda q, k: (k * q).sum(0)),
        ),
        mistake(
            "not_summed",
            "The products are not added up. A score is one number for each key: the sum over the features.",
            "乘积没有相加。每个键的分数是一个数：沿特征求和。",
            combined=fixed(lambda q, k: k * q),
        ),
        mistake(
            "largest_product",
            "Only the largest product of each key counts. A dot product is the sum of all of them.",
            "每个键只取了最大的乘积。点积是所有乘积之和。",
            combined=fixed(lambda q, k: (k * q).max(-1)),
        ),
        mistake(
            "not_transposed",
            "The product is q @ k, which sums over the keys. k @ q, or q @ k.T, sums over the features.",
            "乘积写成了 q @ k，它沿键求和。k @ q 或 q @ k.T 才是沿特征求和。",
            combined=fixed(lambda q, k: q @ k),
        ),
        mistake(
            "softmax_too",
            "These are the weights: the softmax of the scores. The exercise asks for the scores before the softmax.",
            "这些是权重，即分数的 softmax。本题要的是 softmax 之前的分数。",
            scaled=lambda V: softmax(V.scores * V.scale),
        ),
    ),
    make_cases=_score_cases,
    returns=("scaled",),
    oracle=lambda q, k: reference.scaled_dot_scores(q[None], k)[0],
)
