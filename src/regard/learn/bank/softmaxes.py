"""Steps and mistakes of the softmax that turns scores into weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.learn.bank.shared_steps import choice, fixed, mistake, step
from regard.learn.exercise import Step
from regard.learn.words import Words

__all__ = [
    "HARDMAX_AT_TIES",
    "NO_KEEPDIMS",
    "SOFTMAX_MISTAKES",
    "all_highest",
    "no_power",
    "softened",
    "softmax_steps",
]

Array = np.ndarray
Axis = int | tuple[int, ...] | None


# ---- the computation


def _powers(V: Any, x: Array) -> Array:
    """Return the exponentials. Right ones are shifted by the highest number, which changes no quotient."""
    if V.shift is not None:
        return V.power(x - V.shift(x))
    if V.power is no_power or not V.divided:
        return V.power(x)
    highest = np.max(x, axis=V.axis, keepdims=True)
    return V.power(x - np.where(np.isfinite(highest), highest, 0.0))


def no_power(x: Array) -> Array:
    """Return the scores themselves in place of their exponentials."""
    return x


def _softmax(V: Any, x: Array) -> Array:
    """Return the softmax with the choices of its axis, its powers and its sum."""
    powers = _powers(V, x)
    if not V.divided:
        return powers
    if V.shift is not None:
        return powers / powers.sum(V.axis)
    total = powers.sum(axis=V.axis, keepdims=True)
    return powers / np.where((total == 0) & V.empty_rows_zero, 1.0, total)


def _hardmax(V: Any, x: Array) -> Array:
    """Return 1 for the first of the highest numbers along the axis, and 0 elsewhere."""
    places = np.indices(x.shape)
    if V.axis is None or isinstance(V.axis, tuple):
        # The highest of a whole array, or of each matrix.
        return (x == np.max(x, axis=V.axis, keepdims=True)) * 1.0
    return (places[V.axis] == np.expand_dims(x.argmax(V.axis), V.axis)) * 1.0


def all_highest(V: Any, x: Array) -> Array:
    """Return 1 for each of the highest numbers along the axis, and 0 elsewhere."""
    return (x == np.max(x, axis=V.axis, keepdims=True)) * 1.0


def _last_highest(V: Any, x: Array) -> Array:
    return _hardmax(V, x[..., ::-1])[..., ::-1]


def _highest_or_none(V: Any, x: Array) -> Array:
    return _hardmax(V, x) * np.isfinite(x)


def softened(V: Any, scores: Array) -> Array:
    """Return the weights of scores with all choices of the softmax."""
    x = np.asarray(scores, dtype=float)
    x = np.where(np.isfinite(x), V.sign * x, x)
    for _ in range(V.times):
        x = V.function(V, x)
    return x


def softmax_steps(source: str, *axes: Words) -> tuple[Step, ...]:
    """Return the steps of weights = softmax(source), where the source is the name of a stage."""

    return (
        choice("sign", fixed(1)),
        choice("power", fixed(np.exp)),
        choice("shift", fixed(None)),
        choice("axis", fixed(-1)),
        choice("divided", fixed(True)),
        choice("empty_rows_zero", fixed(True)),
        choice("function", fixed(_softmax)),
        choice("times", fixed(1)),
        choice("softened", lambda V: softened(V, getattr(V, source))),
        step("weights", "the weights", "权重", lambda V: V.softened, *axes),
    )


# ---- mistakes

# The mistakes in weights = softmax(scores).
SOFTMAX_MISTAKES = (
    mistake(
        "over_queries",
        "The softmax runs over the queries, so each key shares out its weight. Each query shares out a weight of 1 "
        "among the keys: the softmax runs over the last axis.",
        "softmax 沿查询的方向做了，变成每个键分配权重。应当由每个查询把总和为 1 的权重分给各个键："
        "沿最后一个轴做 softmax。",
        axis=fixed(-2),
    ),
    mistake(
        "over_all",
        "The softmax runs over all numbers at once, so all weights together sum to 1. Each row has to sum to 1: "
        "give the softmax the last axis, and keep the dimension of the sum.",
        "softmax 对全部数字一起做了，所有权重之和才是 1。应当每一行的和是 1：指定最后一个轴，求和时保留维度。",
        axis=fixed(None),
    ),
    mistake(
        "no_keepdims",
        "The sum has lost its axis, so the exponentials of key j are divided by the sum of query j. Keep the axis with "
        "keepdims=True: each row is divided by its own sum.",
        "求和去掉了轴，于是第 j 个键的指数除以了第 j 个查询的和。用 keepdims=True 保留这个轴，让每一行除以自己的和。",
        shift=fixed(lambda x: 0.0),
    ),
    mistake(
        "no_keepdims_in_sum",
        "The maximum keeps its axis, but the sum has lost it, so the exponentials of key j are divided by the sum of "
        "query j. Use keepdims=True in the sum too.",
        "最大值保留了轴，求和却去掉了轴，于是第 j 个键的指数除以了第 j 个查询的和。求和也要用 keepdims=True。",
        shift=fixed(lambda x: np.max(x, axis=-1, keepdims=True)),
    ),
    mistake(
        "no_keepdims_at_all",
        "The maximum and the sum have lost their axis, so column j gets those of row j. Use keepdims=True in both: "
        "each row has its own maximum and its own sum.",
        "最大值和求和都去掉了轴，于是第 j 列用了第 j 行的最大值与和。两处都要用 keepdims=True，让每一行用自己的。",
        shift=fixed(lambda x: np.max(x, axis=-1)),
    ),
    mistake(
        "no_exp",
        "The scores are divided by their sum, without the exponential. Softmax first takes exp of each score: a "
        "score of 0 becomes 1, not 0, and no weight is negative.",
        "分数直接除以了它们的和，没有取指数。softmax 要先对每个分数取 exp：分数 0 变成 1 而不是 0，"
        "权重也不会为负。",
        power=fixed(no_power),
    ),
    mistake(
        "no_division",
        "The exponentials are not divided by their sum, so the weights of a query do not sum to 1.",
        "指数没有除以它们的和，所以一个查询的权重之和不是 1。",
        divided=fixed(False),
    ),
    mistake(
        "base_two",
        "The powers have base 2. The base of the softmax is e: use np.exp.",
        "幂的底是 2。softmax 的底是 e：使用 np.exp。",
        power=fixed(np.exp2),
    ),
    mistake(
        "softmax_twice",
        "The softmax is applied twice. The second one sees numbers between 0 and 1: its weights are nearly equal.",
        "softmax 做了两次。第二次的输入都在 0 和 1 之间，权重会变得几乎相等。",
        times=fixed(2),
    ),
    mistake(
        "sign",
        "The sign is wrong: the softmax is taken of the negative scores, so the least similar key gets the largest "
        "weight.",
        "符号反了：对负的分数做了 softmax，最不相似的键反而得到最大的权重。",
        sign=fixed(-1),
    ),
    mistake(
        "sigmoid",
        "Each score goes through a sigmoid on its own. In a softmax the keys compete: the exponentials are divided "
        "by their common sum.",
        "每个分数单独经过了 sigmoid。softmax 中各个键相互竞争：指数要除以共同的和。",
        function=fixed(lambda V, x: 1 / (1 + np.exp(-x))),
    ),
    mistake(
        "hardmax",
        "The key with the highest score gets the whole weight. Attention is soft: every key gets a part, by the "
        "softmax.",
        "分数最高的键得到了全部权重。注意力是“软”的：每个键按 softmax 得到一部分。",
        function=fixed(_hardmax),
    ),
    mistake(
        "no_softmax",
        "The softmax is missing: the scores are used as weights. The weights are the softmax of the scores.",
        "缺少 softmax：直接把分数当作权重了。一个查询的权重应为其分数的 softmax。",
        function=fixed(lambda V, x: x),
    ),
    mistake(
        "log_weights",
        "The weights are log-probabilities: log_softmax in place of softmax.",
        "权重是对数概率：用了 log_softmax，应为 softmax。",
        function=fixed(lambda V, x: np.log(_softmax(V, x))),
    ),
)


# The names of the wrong softmaxes that need at least two rows.
NO_KEEPDIMS = ("no_keepdims", "no_keepdims_in_sum", "no_keepdims_at_all")


# A hardmax is told apart from these only in exercises whose rows have several highest scores.
HARDMAX_AT_TIES = (
    mistake(
        "hardmax_last",
        "The last key with the highest score gets the whole weight. Attention is soft: every key gets a part, by the "
        "softmax.",
        "分数最高的键中，最后一个得到了全部权重。注意力是“软”的：每个键按 softmax 得到一部分。",
        function=fixed(_last_highest),
    ),
    mistake(
        "hardmax_all",
        "Every key with the highest score gets the weight 1. Attention is soft: every key gets a part, by the softmax, "
        "and the weights of a query sum to 1.",
        "每个分数最高的键都得到了权重 1。注意力是“软”的：每个键按 softmax 得到一部分，一个查询的权重之和为 1。",
        function=fixed(all_highest),
    ),
    mistake(
        "hardmax_of_visible",
        "The visible key with the highest score gets the whole weight. Attention is soft: every visible key gets a "
        "part, by the softmax.",
        "分数最高的可见键得到了全部权重。注意力是“软”的：每个可见的键按 softmax 得到一部分。",
        function=fixed(_highest_or_none),
    ),
)
