"""The worked example and the two exercises of the NumPy tutorial 003."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.attention import (
    BEST_VALUE,
    CAUSAL,
    ROOT_OF_QUERIES,
    ROOT_OF_VALUES,
    SCALE_MISTAKES,
    SCORE_MISTAKES,
    VALUE_MISTAKES,
    WRONG_VALUES,
    attention_steps,
)
from regard.learn.bank.shared_steps import fixed, mistake, numbers, pick, step, without
from regard.learn.bank.softmaxes import HARDMAX_AT_TIES, NO_KEEPDIMS, SOFTMAX_MISTAKES, all_highest, no_power
from regard.learn.exercise import Case, Exercise, Step
from regard.learn.words import Words

__all__ = ["EXERCISE_1", "EXERCISE_2", "WORKED_EXAMPLE"]

Rows = Sequence[Sequence[float]]


# ---- by hand

_WORKED = ([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [[10.0, 0.0], [0.0, 20.0], [30.0, 0.0]])
_FIRST = ([[1.0]], [[1.0], [2.0], [0.5]], [[10.0], [20.0], [5.0]])
_START = "    weights = []\n    output = []\n    return weights, output\n"
# One query has one row of weights, so mistakes about the axis are left out.
_OF_ONE_ROW = (
    *without(SOFTMAX_MISTAKES, "over_queries", "over_all", *NO_KEEPDIMS),
    *(one for one in VALUE_MISTAKES if one.name != "weights_transposed"),
    BEST_VALUE,
)
# With d = 1, a division by d or its root changes nothing.
_SEEN_WITH_D_1 = tuple(one for one in SCALE_MISTAKES if one.name == "root_of_keys")


def _steps_on(q: Rows, k: Rows, v: Rows) -> tuple[Step, ...]:
    """Return the steps of attention on given numbers, for exercises without arguments."""
    given = {"q": np.array(q), "k": np.array(k), "v": np.array(v)}
    inputs = (step(name, name, name, lambda V, x=x: x) for name, x in given.items())
    return (*inputs, *attention_steps())


def _best(V: Any) -> np.ndarray:
    return (V.weights == V.weights.max(-1, keepdims=True)) * 1.0


def _weights_and_output(q: Rows, k: Rows, v: Rows) -> tuple[np.ndarray, np.ndarray]:
    output, weights = reference.scaled_dot_product_attention(np.array(q), np.array(k), np.array(v))
    return weights, output


# Two keys of the worked example have the highest score.
_AT_TIES = (
    mistake(
        "no_exp",
        "The scores are divided by their sum, without the exponential, or the two keys with the highest score share "
        "the whole weight. Softmax first takes exp of each score: exp(0) is 1, so the second key gets a part too.",
        "分数直接除以了它们的和，没有取指数；或者分数最高的两个键平分了全部权重。softmax 要先对每个分数取 exp：分数 0 "
        "变成 1，所以第二个键也得到一部分。",
        power=fixed(no_power),
    ),
    *pick(HARDMAX_AT_TIES, "hardmax_last"),
    mistake(
        "hardmax_all",
        "The weights are the scores without scaling and softmax, or both keys with the highest score get the weight 1. "
        "The weights are the softmax of the scaled scores, and they sum to 1.",
        "权重是没有缩放、也没有做 softmax 的分数，或者分数最高的两个键都得到了权重 1。权重应为缩放后的分数的 softmax，"
        "它们的和为 1。",
        function=fixed(all_highest),
    ),
    mistake(
        "best_value_last",
        "The output is the value of the last key with the largest weight. The output is the sum of all values, each "
        "times its weight.",
        "输出是权重最大的键中最后一个的值。输出应为所有值乘以各自权重之和。",
        mixing=lambda V: (np.arange(3) == 2 - V.weights[:, ::-1].argmax(-1)[:, None]) * 1.0,
    ),
    mistake(
        "mean_of_best_values",
        "The output is the mean of the values of the two keys with the largest weight. The output is the sum of all "
        "values, each times its weight.",
        "输出是权重最大的两个键的值的平均。输出应为所有值乘以各自权重之和。",
        mixing=lambda V: _best(V) / _best(V).sum(-1, keepdims=True),
    ),
    mistake(
        "sum_of_best_values",
        "The output is the sum of the values of the two keys with the largest weight. The output is the sum of all "
        "values, each times its weight.",
        "输出是权重最大的两个键的值之和。输出应为所有值乘以各自权重之和。",
        mixing=lambda V: _best(V),
    ),
)


WORKED_EXAMPLE = Exercise(
    name="worked_example",
    title=Words("Attention by hand", "手工计算注意力"),
    task=Words(
        "Work out softmax(q @ k.T / √d) @ v with a pocket calculator, for\n\n"
        "    q = [1, 0]\n"
        "    k = [1, 0], [0, 1], [1, 0]\n"
        "    v = [10, 0], [0, 20], [30, 0]\n\n"
        "Fill in the three weights and the two numbers of the output, to two digits after the point or more.",
        "用计算器算出 softmax(q @ k.T / √d) @ v，其中\n\n"
        "    q = [1, 0]\n"
        "    k = [1, 0], [0, 1], [1, 0]\n"
        "    v = [10, 0], [0, 20], [30, 0]\n\n"
        "填写三个权重和输出的两个数，至少精确到小数点后两位。",
    ),
    hint=Words(
        "The scores are 1, 0, 1 and d is 2. The exponential of 0 is 1, so no weight is 0.",
        "分数是 1、0、1，d 是 2。0 的指数是 1，所以没有一个权重是 0。",
    ),
    done=Words(
        "The weights are 0.4011, 0.1978, 0.4011 and the output is 16.0445, 3.9555. Tutorial 003 prints "
        "0.5, 0, 0.5 and 20, 0. Those are not the softmax.",
        "权重是 0.4011、0.1978、0.4011，输出是 16.0445、3.9555。教程 003 印的是 0.5、0、0.5 和 20、0，那不"
        "是 softmax。",
    ),
    function="worked_example",
    arguments=(),
    steps=_steps_on(*_WORKED),
    # On these numbers, powers of 2 nearly equal a division by d.
    mistakes=(*SCALE_MISTAKES, *without(_OF_ONE_ROW, "base_two", "no_exp"), *_AT_TIES),
    make_cases=lambda rng: [Case({})],
    returns=("weights", "output"),
    oracle=lambda: _weights_and_output(*_WORKED),
    # Weights of two digits, and an output computed from them. The output is compared relative to its largest number.
    tolerances=(6e-3, 5e-3),
    any_shape=True,
    start=_START,
)

EXERCISE_1 = Exercise(
    name="weights_by_hand",
    title=Words("Tutorial 003, exercise 1: three weights", "教程 003 练习 1：三个权重"),
    task=Words(
        "Work out attention by hand, for\n\n"
        "    Q = [[1.0]]\n"
        "    K = [[1.0], [2.0], [0.5]]\n"
        "    V = [[10.0], [20.0], [5.0]]\n\n"
        "Fill in the three weights and the output, to two digits after the point or more.",
        "手工计算注意力，其中\n\n"
        "    Q = [[1.0]]\n"
        "    K = [[1.0], [2.0], [0.5]]\n"
        "    V = [[10.0], [20.0], [5.0]]\n\n"
        "填写三个权重和输出，至少精确到小数点后两位。",
    ),
    hint=Words(
        "d is 1, so the scaling changes nothing. The exponentials are 2.718, 7.389 and 1.649.",
        "d 是 1，缩放不起作用。三个指数是 2.718、7.389 和 1.649。",
    ),
    done=Words(
        "The output is 15.584. The tutorial prints 15.57, because it cuts the weights off after three digits.",
        "输出是 15.584。教程印的是 15.57，因为它把权重截断到三位小数再相乘。",
    ),
    function="weights_by_hand",
    arguments=(),
    steps=_steps_on(*_FIRST),
    mistakes=(*_SEEN_WITH_D_1, *_OF_ONE_ROW),
    make_cases=lambda rng: [Case({})],
    returns=("weights", "output"),
    oracle=lambda: _weights_and_output(*_FIRST),
    tolerances=(6e-3, 3e-3),
    any_shape=True,
    start=_START,
)


# ---- as a function


def _attention_cases(rng: np.random.Generator) -> list[Case]:
    # With as many queries as keys and features, a wrong order of axes gives numbers instead of an error.
    sizes = ((4, 4, 4, 4), (2, 3, 5, 7), (5, 2, 3, 4), (1, 3, 2, 2))
    return [numbers(rng, Q=(q, d), K=(k, d), V=(k, dv)) for q, k, d, dv in sizes]


_SLIPS_IN_ONE_LINE = (
    mistake(
        "values_as_keys",
        "The scores compare the queries with the values. A score compares a query with a key: Q @ K.T.",
        "分数是查询与值的比较。分数应比较查询与键：Q @ K.T。",
        right=lambda V: V.v,
    ),
    mistake(
        "elementwise",
        "Queries and keys are multiplied number by number. A score is a sum over the features: Q @ K.T, not Q * K.",
        "查询与键逐元素相乘了。分数是沿特征的求和：是 Q @ K.T，不是 Q * K。",
        comparison=fixed(lambda left, right, turn: left * right),
    ),
    mistake(
        "root_without_brackets",
        "The scores are divided by d / 2, since ** comes before /: d ** 1/2 is (d ** 1) / 2. Write d ** 0.5 or "
        "np.sqrt(d).",
        "分数除以了 d / 2，因为 ** 先于 /：d ** 1/2 是 (d ** 1) / 2。应写 d ** 0.5 或 np.sqrt(d)。",
        scale=lambda V: 2 / V.q.shape[-1],
    ),
)


EXERCISE_2 = Exercise(
    name="simple_attention",
    title=Words("Tutorial 003, exercise 2: attention", "教程 003 练习 2：注意力"),
    task=Words(
        "Write simple_attention(Q, K, V):\n\n"
        "    output = softmax(Q Kᵀ / √d) V\n\n"
        "Q is (queries, d), K is (keys, d), V is (keys, width), and the result is (queries, width).",
        "编写 simple_attention(Q, K, V)：\n\n"
        "    output = softmax(Q Kᵀ / √d) V\n\n"
        "Q 是（查询数，d），K 是（键数，d），V 是（键数，宽度），结果是（查询数，宽度）。",
    ),
    hint=Words(
        "Four lines: the scores Q @ K.T, the division by √d with d = K.shape[-1], the softmax over the last axis,"
        " and the "
        "product with V. You may copy your softmax of exercise 1.",
        "四行：分数 Q @ K.T；除以 √d，d = K.shape[-1]；沿最后一个轴做 softmax；再与 V 相乘。可以用第 1 题写的 "
        "softmax。",
    ),
    done=Words(
        "This is the attention of every Transformer. All that follows are masks, projections and heads around it.",
        "这就是每个 Transformer 里的注意力。后面的内容都是围绕它的掩码、投影和多头。",
    ),
    function="simple_attention",
    arguments=("Q", "K", "V"),
    steps=(
        step("q", "Q", "Q", lambda V: V.Q),
        step("k", "K", "K", lambda V: V.K),
        step("v", "V", "V", lambda V: V.V),
        *attention_steps(),
    ),
    mistakes=(
        *SCORE_MISTAKES,
        *SCALE_MISTAKES,
        ROOT_OF_VALUES,
        ROOT_OF_QUERIES,
        *SOFTMAX_MISTAKES,
        *VALUE_MISTAKES,
        *WRONG_VALUES,
        *_SLIPS_IN_ONE_LINE,
        CAUSAL,
    ),
    make_cases=_attention_cases,
    returns=("output",),
    oracle=lambda Q, K, V: reference.scaled_dot_product_attention(Q, K, V)[0],
)
