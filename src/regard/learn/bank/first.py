"""The exercise on the softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import POSITION, choice, fixed, mistake, numbers, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["SOFTMAX"]

Array = np.ndarray


def _shifted(V: Any, x: Array) -> Array:
    amount = V.statistic(x, axis=V.shift_axis, keepdims=V.kept_in_shift)
    return V.shifting(x, amount)


def _first(x: Array, axis: int | None, keepdims: bool) -> Array:
    """Return the first number along an axis, or of the whole array, in place of the highest."""
    if axis is None:
        return x.ravel()[0]
    first = x.take([0], axis)
    return first if keepdims else first.squeeze(axis)


def _weights(V: Any, x: Array) -> Array:
    """Return the softmax of an array with all its choices."""
    powers = V.power(x, _shifted(V, x))
    if not V.divided:
        return powers
    total = V.reduced(V.denominator(x, powers), axis=V.sum_axis, keepdims=V.kept_in_sum)
    return powers / total


def _log_softmax(V: Any, x: Array) -> Array:
    """Return the logarithm of the softmax, computed without the weights, so that no weight of 0 gives -inf."""
    shifted = _shifted(V, x)
    powers = V.power(x, shifted)
    total = V.reduced(V.denominator(x, powers), axis=V.sum_axis, keepdims=V.kept_in_sum)
    return shifted - np.log(total) if V.divided else shifted


def _repeated(V: Any) -> Array:
    x = V.signed
    for _ in range(V.times):
        x = V.function(V, x)
    return x


def _hardmax(V: Any, x: Array) -> Array:
    return np.eye(x.shape[-1])[x.argmax(-1)]


def _softmax_cases(rng: np.random.Generator) -> list[Case]:
    rows = [[0.5, -1.0, 2.0], [1.0, 0.0, 0.25]]
    large = [[1000.0, 1001.0, 999.5], [0.0, 1.0, -2.0]]
    spread = [[0.0, 0.0, 1500.0], [3.0, 1.0, 2.0]]
    # A number far below the others: minus the smallest number both rows overflow, minus the first number the second.
    low = [[0.0, -800.0, 0.5], [-800.0, 0.0, 0.5]]
    # With as many rows as numbers in a row, a sum that has lost its axis gives numbers instead of an error.
    shapes = [(4,), (2, 3, 5), (3, 3)]
    plain = [numbers(rng, x=shape) for shape in shapes]
    return [*(Case({"x": np.array(x)}) for x in (rows, large, spread, low)), *plain]


SOFTMAX = Exercise(
    name="softmax",
    title=Words("Softmax that does not overflow", "不会溢出的 softmax"),
    task=Words(
        "Write softmax(x) over the last axis of an array:\n\n"
        "    weights = exp(x) / sum(exp(x))\n\n"
        "x has one or more axes, and the result has the same shape. Numbers such as 1000 must not overflow.\n"
        "softmax of [0, log 3] is [0.25, 0.75].",
        "编写 softmax(x)，沿数组的最后一个轴计算：\n\n"
        "    weights = exp(x) / sum(exp(x))\n\n"
        "x 有一个或多个轴，结果的形状与 x 相同。遇到 1000 这样的数也不能溢出。\n"
        "[0, log 3] 的 softmax 是 [0.25, 0.75]。",
    ),
    hint=Words(
        "Subtracting the same number from a whole row does not change its softmax. Subtract the largest number of the "
        "row, then no exponential is larger than 1. keepdims=True keeps the shapes compatible.",
        "一行的所有数减去同一个数，softmax 不变。减去这一行的最大值，指数就不会大于 1。keepdims=True 可以让形状"
        "保持兼容。",
    ),
    done=Words(
        "All attention weights come from this function. Every row sums to 1 and every weight is positive, "
        "but exp of a very negative number underflows to 0.",
        "所有的注意力权重都来自这个函数。每一行的和是 1，每个权重都是正数，但绝对值很大的负数取指数会下溢为 0。",
    ),
    function="softmax",
    arguments=("x",),
    steps=(
        choice("signed", lambda V: V.x),
        choice("statistic", fixed(np.max)),
        choice("shift_axis", fixed(-1)),
        choice("kept_in_shift", fixed(True)),
        choice("shifting", fixed(np.subtract)),
        step(
            "shifted",
            "x minus the largest number of its row",
            "x 减去所在行的最大值",
            lambda V: _shifted(V, V.signed),
            POSITION,
        ),
        choice("power", fixed(lambda x, shifted: np.exp(shifted))),
        step("powers", "the exponentials", "指数", lambda V: V.power(V.signed, V.shifted), POSITION),
        choice("sum_axis", fixed(-1)),
        choice("kept_in_sum", fixed(True)),
        choice("denominator", fixed(lambda x, powers: powers)),
        choice("reduced", fixed(np.sum)),
        choice("divided", fixed(True)),
        choice("function", fixed(_weights)),
        choice("times", fixed(1)),
        step(
            "weights",
            "the exponentials divided by their sum",
            "指数除以它们的和",
            _repeated,
            POSITION,
        ),
    ),
    mistakes=(
        mistake(
            "no_shift",
            "exp overflows: exp(1000) is inf, and inf / inf is NaN. Subtract the largest number of each row first. The "
            "result stays the same, because the factor exp(-max) cancels.",
            "exp 溢出了：exp(1000) 是 inf，inf / inf 是 NaN。先减去每一行的最大值。结果不变，因为因子 exp(-max) "
            "会约掉。",
            statistic=fixed(lambda x, axis, keepdims: 0.0),
            shifting=fixed(np.subtract),
        ),
        mistake(
            "shift_by_highest_of_all",
            "The largest number of the whole array is subtracted. A row whose numbers are all far smaller then "
            "has only "
            "zeros as exponentials, and 0 / 0 is NaN. Subtract the largest number of each row.",
            "减去的是整个数组的最大值。某一行的数如果都小得多，指数就全是 0，而 0 / 0 是 NaN。应减去每一行各自的"
            "最大值。",
            shift_axis=fixed(None),
        ),
        mistake(
            "shift_by_mean",
            "The mean is subtracted. If one number is far above the mean, its exponential still overflows. "
            "Subtract the "
            "maximum.",
            "减去的是平均值。如果有一个数远大于平均值，它的指数仍会溢出。应减去最大值。",
            statistic=fixed(np.mean),
        ),
        mistake(
            "shift_by_lowest",
            "The smallest number of each row is subtracted, so the exponential of the largest one still overflows. "
            "Subtract the maximum.",
            "减去的是每一行的最小值，最大的数的指数仍会溢出。应减去最大值。",
            statistic=fixed(np.min),
        ),
        mistake(
            "shift_by_first",
            "The first number of each row is subtracted. If another number is far above it, its exponential still "
            "overflows. Subtract the maximum.",
            "减去的是每一行的第一个数。如果有别的数比它大得多，指数仍会溢出。应减去最大值。",
            statistic=fixed(_first),
        ),
        mistake(
            "shift_over_first_axis",
            "The maximum is taken over the first axis, so the numbers of one row are shifted by different amounts. A "
            "softmax is unchanged only if its whole row is shifted by one number: use axis=-1.",
            "最大值是沿第一个轴取的，同一行的数减去了不同的量。只有整行减去同一个数，softmax 才不变：使用 axis=-1。",
            shift_axis=fixed(0),
        ),
        mistake(
            "highest_without_keepdims",
            "The maximum has lost its axis, so column j is shifted by the maximum of row j. Each row is shifted by its "
            "own maximum: keep the axis with keepdims=True.",
            "最大值去掉了轴，于是第 j 列减去了第 j 行的最大值。每一行应减去自己的最大值：用 keepdims=True 保留这个轴。",
            kept_in_shift=fixed(False),
        ),
        mistake(
            "divided_by_highest",
            "The row is divided by its maximum. Only a difference leaves the softmax unchanged: subtract the maximum.",
            "整行除以了最大值。只有相减才不改变 softmax：应减去最大值。",
            shifting=fixed(np.divide),
        ),
        mistake(
            "highest_added",
            "The largest number of each row is added. Subtract it, so that no exponential is larger than 1.",
            "加上了每一行的最大值。应减去它，这样指数就不会大于 1。",
            shifting=fixed(np.add),
        ),
        mistake(
            "over_first_axis",
            "The softmax runs over the first axis, so columns sum to 1. Each row has to sum to 1: use axis=-1.",
            "softmax 沿第一个轴做了，于是每一列的和是 1。应当每一行的和是 1：使用 axis=-1。",
            shift_axis=fixed(0),
            sum_axis=fixed(0),
        ),
        mistake(
            "over_all",
            "The softmax runs over the whole array, so all weights together sum to 1. Each row has to sum to "
            "1: use axis=-1 and keepdims=True.",
            "softmax 对整个数组做了，所有权重加起来才是 1。应当每一行的和是 1：使用 axis=-1 和 keepdims=True。",
            shift_axis=fixed(None),
            sum_axis=fixed(None),
        ),
        mistake(
            "no_exp_of_shifted",
            "The exponential is missing: the shifted numbers, which are 0 or negative, are divided by their "
            "sum. Take np.exp of them first.",
            "缺少指数：把减去最大值之后的数（0 或负数）直接除以了它们的和。应先对它们取 np.exp。",
            power=fixed(lambda x, shifted: shifted),
        ),
        mistake(
            "sign_after_shift",
            "The sign is wrong: exp is taken of maximum - x, so the smallest number gets the largest weight, "
            "and exp can overflow. Take exp of x - maximum.",
            "符号反了：对 最大值 - x 取了 exp，最小的数得到最大的权重，而且 exp 可能溢出。应对 x - 最大值 取 exp。",
            power=fixed(lambda x, shifted: np.exp(-shifted)),
        ),
        mistake(
            "divided_by_mean",
            "The exponentials are divided by their mean. Divide by their sum, so that each row sums to 1.",
            "指数除以了它们的平均。应除以它们的和，这样每一行的和才是 1。",
            reduced=fixed(np.mean),
        ),
        mistake(
            "divided_by_length",
            "The exponentials are divided by the length of their vector, the root of the sum of squares. "
            "Divide by their sum.",
            "指数除以了向量的长度，即平方和的平方根。应除以它们的和。",
            reduced=fixed(np.linalg.norm),
        ),
        mistake(
            "no_exp",
            "The numbers are divided by their sum, without the exponential. Then negative numbers give negative "
            "weights, "
            "and 0 gives 0. Take np.exp first.",
            "各数直接除以了它们的和，没有取指数。这样负数得到负的权重，0 得到 0。应先取 np.exp。",
            power=fixed(lambda x, shifted: x),
        ),
        mistake(
            "base_two",
            "The powers have base 2. The base of the softmax is e: use np.exp.",
            "幂的底是 2。softmax 的底是 e：使用 np.exp。",
            power=fixed(lambda x, shifted: np.exp2(shifted)),
        ),
        mistake(
            "sign",
            "The sign is wrong: the smallest number gets the largest weight.",
            "符号反了：最小的数得到了最大的权重。",
            signed=lambda V: -V.x,
        ),
        mistake(
            "sum_over_first_axis",
            "The sum runs over the first axis, so columns sum to 1. Each row has to sum to 1: use axis=-1.",
            "求和沿着第一个轴，于是每一列的和是 1。应当每一行的和是 1：使用 axis=-1。",
            sum_axis=fixed(0),
        ),
        mistake(
            "sum_over_all",
            "The sum has no axis, so all weights together sum to 1. Each row has to sum to 1: use axis=-1 and "
            "keepdims=True.",
            "求和没有指定轴，所有权重加起来才是 1。应当每一行的和是 1：使用 axis=-1 和 keepdims=True。",
            sum_axis=fixed(None),
        ),
        mistake(
            "sum_without_keepdims",
            "The sum has lost its axis, so column j is divided by the sum of row j. Keep the axis with keepdims=True: "
            "each row is divided by its own sum.",
            "求和去掉了轴，于是第 j 列除以了第 j 行的和。每一行应除以自己的和：用 keepdims=True 保留这个轴。",
            kept_in_sum=fixed(False),
        ),
        mistake(
            "sum_not_shifted",
            "The sum is that of exp(x), but the maximum is subtracted above the line only. Divide by the sum of the "
            "shifted exponentials.",
            "分母是 exp(x) 的和，而只有分子减去了最大值。应除以减去最大值之后的指数的和。",
            denominator=fixed(lambda x, powers: np.exp(x)),
        ),
        mistake(
            "no_division",
            "The exponentials are not divided by their sum.",
            "指数没有除以它们的和。",
            divided=fixed(False),
        ),
        mistake(
            "hardmax",
            "The largest number gets the weight 1 and the others 0. Softmax gives every number a part.",
            "最大的数得到权重 1，其余为 0。softmax 会给每个数一部分。",
            function=fixed(_hardmax),
        ),
        mistake(
            "log_weights",
            "This is the logarithm of the softmax.",
            "这是 softmax 的对数。",
            function=fixed(lambda V, x: np.log(_weights(V, x))),
        ),
        mistake(
            "log_softmax",
            "This is the log-softmax, x minus the logarithm of the sum of exponentials. Take exp of it.",
            "这是 log-softmax，即 x 减去指数之和的对数。应再取 exp。",
            function=fixed(_log_softmax),
            # Without exponentials it is NaN, as are many other results.
            power=fixed(lambda x, shifted: np.exp(shifted)),
        ),
        mistake(
            "softmax_twice",
            "The softmax is applied twice, so the weights are nearly equal.",
            "softmax 做了两次，所以权重几乎相等。",
            times=fixed(2),
        ),
    ),
    make_cases=_softmax_cases,
    returns=("weights",),
    oracle=reference.softmax,
)
