"""Steps and mistakes that several exercises share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.learn.exercise import Case, Mistake, Step
from regard.learn.words import Words

__all__ = [
    "BATCH",
    "BEST_VALUE",
    "FEATURE",
    "HEAD",
    "KEY",
    "NO_KEEPDIMS",
    "POSITION",
    "QUERY",
    "ROOT_OF_VALUES",
    "SCALE_MISTAKES",
    "SCORE_MISTAKES",
    "VALUE_MISTAKES",
    "attention_steps",
    "mistake",
    "numbers",
    "pick",
    "scaled_scores",
    "softmax",
    "softmax_mistakes",
    "step",
    "transpose",
    "without",
]

Array = np.ndarray
BATCH, HEAD = Words("sequence", "序列"), Words("head", "头")
QUERY, KEY = Words("query", "查询"), Words("key", "键")
FEATURE, POSITION = Words("feature", "特征"), Words("position", "位置")


def mistake(name: str, en: str, zh: str, **replaces: Callable[[Any], Any]) -> Mistake:
    """Return a mistake. The keyword arguments are the wrong computations of steps."""
    return Mistake(name, Words(en, zh), replaces)


def step(name: str, en: str, zh: str, compute: Callable[[Any], Any], *axes: Words) -> Step:
    """Return a step with the names of the axes of its stage."""
    return Step(name, Words(en, zh), compute, axes)


def numbers(rng: np.random.Generator, **shapes: tuple[int, ...]) -> Case:
    """Return a case of arrays with random numbers of two digits after the point."""
    return Case({name: (1.3 * rng.standard_normal(shape)).round(2) for name, shape in shapes.items()})


def pick(mistakes: Sequence[Mistake], *names: str) -> tuple[Mistake, ...]:
    """Return the mistakes of some names."""
    by_name = {one.name: one for one in mistakes}
    return tuple(by_name[name] for name in names)


def without(mistakes: Sequence[Mistake], *names: str) -> tuple[Mistake, ...]:
    """Return the mistakes of other names than these."""
    kept = tuple(one for one in mistakes if one.name not in names)
    assert len(kept) + len(names) == len(tuple(mistakes))
    return kept


def transpose(x: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(x, -1, -2)


def softmax(x: Array, axis: int | tuple[int, ...] | None = -1) -> Array:
    """Return the softmax over an axis. A row of only -inf gives zeros."""
    highest = np.max(x, axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isfinite(highest), highest, 0.0))
    total = powers.sum(axis=axis, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total != 0)


# ---- scores


def _cosine(V: Any) -> Array:
    lengths = np.linalg.norm(V.q, axis=-1)[..., :, None] * np.linalg.norm(V.k, axis=-1)[..., None, :]
    return V.q @ transpose(V.k) / lengths  # (...,q,k)


def _distances(V: Any) -> Array:
    return -np.linalg.norm(V.q[..., :, None, :] - V.k[..., None, :, :], axis=-1)  # (...,q,k)


# The mistakes in scores = q @ k.T.
SCORE_MISTAKES = (
    mistake(
        "swapped_q_k",
        "Queries and keys are swapped in the scores. Row i of the scores belongs to query i, so the queries stand "
        "on the left: q @ k.T, not k @ q.T.",
        "分数中查询和键交换了位置。分数的第 i 行属于第 i 个查询，所以查询在左边：是 q @ k.T，不是 k @ q.T。",
        scores=lambda V: V.k @ transpose(V.q),
    ),
    mistake(
        "keys_with_keys",
        "The scores compare the keys with the keys. A score compares a query with a key: q @ k.T.",
        "分数是键与键的比较。分数应比较查询与键：q @ k.T。",
        scores=lambda V: V.k @ transpose(V.k),
    ),
    mistake(
        "queries_with_queries",
        "The scores compare the queries with the queries. A score compares a query with a key: q @ k.T.",
        "分数是查询与查询的比较。分数应比较查询与键：q @ k.T。",
        scores=lambda V: V.q @ transpose(V.q),
    ),
    mistake(
        "not_transposed",
        "The keys are not transposed. q @ k pairs the features of a query with different keys. A score is the dot "
        "product of a row of q and a row of k, which is q @ k.T.",
        "键没有转置。q @ k 把一个查询的各个特征与不同的键配在一起。分数是 q 的一行与 k 的一行的点积，即 q @ k.T。",
        scores=lambda V: V.q @ V.k,
    ),
    mistake(
        "keys_reshaped",
        "The keys are brought into the shape of the transpose by reshape. A reshape keeps the order of the numbers, so "
        "the numbers of a key are spread over several columns. Swap the axes instead: k.T, or np.swapaxes(k, -1, -2).",
        "键用 reshape 变成了转置的形状。reshape 不改变数的次序，一个键的数会散到好几列里。应交换轴：k.T，或 "
        "np.swapaxes(k, -1, -2)。",
        scores=lambda V: V.q @ V.k.reshape(*V.k.shape[:-2], V.k.shape[-1], V.k.shape[-2]),
    ),
    mistake(
        "cosine",
        "The scores are cosines: queries and keys were divided by their lengths. Here the length of a vector "
        "counts, so use the plain dot product.",
        "分数是余弦：查询和键被除以了各自的长度。这里向量的长度也起作用，应使用普通的点积。",
        scores=_cosine,
    ),
    mistake(
        "distances",
        "The scores are distances between queries and keys. This score is the dot product.",
        "分数是查询与键之间的距离。这里的分数是点积。",
        scores=_distances,
    ),
)


# ---- scaling


def _masked(V: Any, scores: Array) -> Array:
    """Return scores with the mask of the exercise, if it has one."""
    mask = getattr(V, "mask", None)
    return scores if mask is None else np.where(mask, scores, -np.inf)


# The mistakes in scaled = scores / sqrt(d).
SCALE_MISTAKES = (
    mistake(
        "no_scale",
        "The scaling is missing. A dot product is a sum of d products, so it grows with d, and the softmax becomes "
        "nearly one-hot. Divide the scores by √d before the softmax.",
        "缺少缩放。点积是 d 个乘积之和，会随 d 增大，使 softmax 接近 one-hot。在 softmax 之前把分数除以 √d。",
        scaled=lambda V: V.scores,
    ),
    mistake(
        "divided_by_d",
        "The scores are divided by d, or twice by √d. The standard deviation of a sum of d products is √d, so one "
        "division by √d is enough.",
        "分数除以了 d，或者除以了两次 √d。d 个乘积之和的标准差是 √d，除以一次 √d 就够了。",
        scaled=lambda V: V.scores / V.q.shape[-1],
    ),
    mistake(
        "multiplied",
        "The scores are multiplied by √d. The scaling has to make them smaller: divide.",
        "分数乘以了 √d。缩放要让分数变小：应当相除。",
        scaled=lambda V: V.scores * math.sqrt(V.q.shape[-1]),
    ),
    mistake(
        "root_of_keys",
        "The scores are divided by the root of the number of keys. The scale is that of one dot product, whose "
        "number of products is the width d = k.shape[-1], not k.shape[-2].",
        "分数除以了键的个数的平方根。缩放针对单个点积，它的乘积个数是宽度 d = k.shape[-1]，不是 k.shape[-2]。",
        scaled=lambda V: V.scores / math.sqrt(V.k.shape[-2]),
    ),
    mistake(
        "scale_after_softmax",
        "The scaling comes after the softmax, so the weights no longer sum to 1. Divide the scores by √d before "
        "the softmax.",
        "缩放放在了 softmax 之后，权重之和不再是 1。应在 softmax 之前把分数除以 √d。",
        scaled=lambda V: V.scores,
        weights=lambda V: softmax(_masked(V, V.scores)) / math.sqrt(V.q.shape[-1]),
    ),
)


# It needs values that are wider or narrower than the queries.
ROOT_OF_VALUES = mistake(
    "root_of_value_width",
    "The scores are divided by the root of the width of the values. The scale is that of a dot product of a query and "
    "a key, whose number of products is the width d = q.shape[-1].",
    "分数除以了值的宽度的平方根。缩放针对查询与键的点积，它的乘积个数是查询的宽度 d = q.shape[-1]。",
    scaled=lambda V: V.scores / math.sqrt(V.v.shape[-1]),
)


# ---- softmax


def _no_keepdims(shift: Callable[[Array], Array | float]) -> Callable[[Array], Array]:
    """Return a softmax whose sum has lost its axis, after a way to shift the scores."""

    def wrong(x: Array) -> Array:
        powers = np.exp(x - shift(x))
        return powers / powers.sum(-1)

    return wrong


# The name, the words and the computation of each wrong softmax.
_WRONG_SOFTMAX: tuple[tuple[str, str, str, Callable[[Array], Array]], ...] = (
    (
        "over_queries",
        "The softmax runs over the queries, so each key shares out its weight. Each query shares out a weight of 1 "
        "among the keys: the softmax runs over the last axis.",
        "softmax 沿查询的方向做了，变成每个键分配权重。应当由每个查询把总和为 1 的权重分给各个键："
        "沿最后一个轴做 softmax。",
        lambda x: softmax(x, -2),
    ),
    (
        "over_all",
        "The softmax runs over all numbers at once, so all weights together sum to 1. Each row has to sum to 1: "
        "give the softmax the last axis, and keep the dimension of the sum.",
        "softmax 对全部数字一起做了，所有权重之和才是 1。应当每一行的和是 1：指定最后一个轴，求和时保留维度。",
        lambda x: softmax(x, None),
    ),
    (
        "no_keepdims",
        "The sum has lost its axis, so the exponentials of key j are divided by the sum of query j. Keep the axis with "
        "keepdims=True: each row is divided by its own sum.",
        "求和去掉了轴，于是第 j 个键的指数除以了第 j 个查询的和。用 keepdims=True 保留这个轴，让每一行除以自己的和。",
        _no_keepdims(lambda x: 0.0),
    ),
    (
        "no_keepdims_in_sum",
        "The maximum keeps its axis, but the sum has lost it, so the exponentials of key j are divided by the sum of "
        "query j. Use keepdims=True in the sum too.",
        "最大值保留了轴，求和却去掉了轴，于是第 j 个键的指数除以了第 j 个查询的和。求和也要用 keepdims=True。",
        _no_keepdims(lambda x: np.max(x, axis=-1, keepdims=True)),
    ),
    (
        "no_keepdims_at_all",
        "The maximum and the sum have lost their axis, so column j gets those of row j. Use keepdims=True in both: "
        "each row has its own maximum and its own sum.",
        "最大值和求和都去掉了轴，于是第 j 列用了第 j 行的最大值与和。两处都要用 keepdims=True，让每一行用自己的。",
        _no_keepdims(lambda x: np.max(x, axis=-1)),
    ),
    (
        "no_exp",
        "The scores are divided by their sum, without the exponential. Softmax first takes exp of each score: a "
        "score of 0 becomes 1, not 0, and no weight is negative.",
        "分数直接除以了它们的和，没有取指数。softmax 要先对每个分数取 exp：分数 0 变成 1 而不是 0，"
        "权重也不会为负。",
        lambda x: x / x.sum(-1, keepdims=True),
    ),
    (
        "no_division",
        "The exponentials are not divided by their sum, so the weights of a query do not sum to 1.",
        "指数没有除以它们的和，所以一个查询的权重之和不是 1。",
        np.exp,
    ),
    (
        "base_two",
        "The powers have base 2. The base of the softmax is e: use np.exp.",
        "幂的底是 2。softmax 的底是 e：使用 np.exp。",
        lambda x: softmax(x * math.log(2)),
    ),
    (
        "softmax_twice",
        "The softmax is applied twice. The second one sees numbers between 0 and 1: its weights are nearly equal.",
        "softmax 做了两次。第二次的输入都在 0 和 1 之间，权重会变得几乎相等。",
        lambda x: softmax(softmax(x)),
    ),
    (
        "sign",
        "The sign is wrong: the softmax is taken of the negative scores, so the least similar key gets the largest "
        "weight.",
        "符号反了：对负的分数做了 softmax，最不相似的键反而得到最大的权重。",
        lambda x: softmax(np.where(np.isfinite(x), -x, x)),
    ),
    (
        "sigmoid",
        "Each score goes through a sigmoid on its own. In a softmax the keys compete: the exponentials are divided "
        "by their common sum.",
        "每个分数单独经过了 sigmoid。softmax 中各个键相互竞争：指数要除以共同的和。",
        lambda x: 1 / (1 + np.exp(-x)),
    ),
    (
        "hardmax",
        "The key with the highest score gets the whole weight. Attention is soft: every key gets a part, by the "
        "softmax.",
        "分数最高的键得到了全部权重。注意力是“软”的：每个键按 softmax 得到一部分。",
        lambda x: np.eye(x.shape[-1])[x.argmax(-1)],
    ),
    (
        "no_softmax",
        "The softmax is missing: the scores are used as weights. The weights are the softmax of the scores.",
        "缺少 softmax：直接把分数当作权重了。一个查询的权重应为其分数的 softmax。",
        lambda x: x,
    ),
    (
        "log_weights",
        "The weights are log-probabilities: log_softmax in place of softmax.",
        "权重是对数概率：用了 log_softmax，应为 softmax。",
        lambda x: np.log(softmax(x)),
    ),
)


# The names of the wrong softmaxes that need at least two rows.
NO_KEEPDIMS = ("no_keepdims", "no_keepdims_in_sum", "no_keepdims_at_all")


def softmax_mistakes(source: str = "scaled", stage: str = "weights") -> tuple[Mistake, ...]:
    """Return the mistakes in stage = softmax(source), where both are names of stages."""

    def replace(compute: Callable[[Array], Array]) -> dict[str, Callable[[Any], Array]]:
        return {stage: lambda V: compute(np.asarray(getattr(V, source), dtype=float))}

    return tuple(mistake(name, en, zh, **replace(compute)) for name, en, zh, compute in _WRONG_SOFTMAX)


# ---- the weighted sum


# The mistakes in output = weights @ v.
VALUE_MISTAKES = (
    mistake(
        "keys_as_values",
        "The weights multiply the keys. The keys are only for finding. What is taken along is the values: "
        "weights @ v.",
        "权重乘的是键。键只用来查找，取出的内容是值：weights @ v。",
        output=lambda V: V.weights @ V.k,
    ),
    mistake(
        "weights_transposed",
        "The weights are transposed in the weighted sum. Row i of the weights belongs to query i and meets the "
        "values of all keys: weights @ v, not weights.T @ v.",
        "加权求和时权重被转置了。权重的第 i 行属于第 i 个查询，与所有键的值相乘："
        "是 weights @ v，不是 weights.T @ v。",
        output=lambda V: transpose(V.weights) @ V.v,
    ),
    mistake(
        "mean_of_values",
        "The output is the plain mean of the values, the same for every query. The weights are not used: "
        "weights @ v.",
        "输出是值的简单平均，对每个查询都一样，没有用到权重：weights @ v。",
        output=lambda V: np.ones_like(V.weights) @ V.v / V.v.shape[-2],
    ),
    mistake(
        "sum_of_values",
        "The values are added up without their weights: weights @ v.",
        "各个值没有乘权重就相加了：weights @ v。",
        output=lambda V: np.ones_like(V.weights) @ V.v,
    ),
    mistake(
        "divided_by_keys",
        "The weighted sum is divided by the number of keys. The weights sum to 1, so the sum is already a mean.",
        "加权和又除以了键的个数。权重之和为 1，加权和本身就是平均。",
        output=lambda V: V.weights @ V.v / V.v.shape[-2],
    ),
)


# It gives the output of a hardmax, so it is told apart only if the weights are returned too.
BEST_VALUE = mistake(
    "best_value",
    "The output is the value of the key with the largest weight. The output is the sum of all values, each "
    "times its weight.",
    "输出是权重最大的键的值。输出应为所有值乘以各自权重之和。",
    output=lambda V: np.eye(V.v.shape[-2])[V.weights.argmax(-1)] @ V.v,
)


def attention_steps(*leading: Words) -> tuple[Step, ...]:
    """Return the steps of scaled dot-product attention on q, k and v, with the names of the leading axes."""
    pairs, rows = (*leading, QUERY, KEY), (*leading, QUERY, FEATURE)
    return (
        step("scores", "the scores q @ k.T", "分数 q @ k.T", lambda V: V.q @ transpose(V.k), *pairs),
        step("scaled", "the scores divided by √d", "除以 √d 的分数", scaled_scores, *pairs),
        step("weights", "the weights", "权重", lambda V: softmax(V.scaled), *pairs),
        step("output", "the output weights @ v", "输出 weights @ v", lambda V: V.weights @ V.v, *rows),
    )


def scaled_scores(V: Any) -> Array:
    """Return the scores divided by the root of the width of a query."""
    return V.scores / math.sqrt(V.q.shape[-1])
