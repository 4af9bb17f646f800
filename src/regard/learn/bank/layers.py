"""The exercises on layer normalisation and on a block with a residual connection."""

from __future__ import annotations

import math

import numpy as np

from regard.learn.bank.shared_steps import FEATURE, POSITION, choice, fixed, mistake, numbers, same, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["LAYER_NORM", "PRE_NORM_BLOCK"]

Array = np.ndarray


# ---- layer norm


def _norm_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((3, 3, 0.1), (2, 5, 0.5), (4, 2, 0.01))
    return [
        Case({**numbers(rng, x=(n, m), gain=(m,), bias=(m,)).arguments, "eps": eps}) for n, m, eps in sizes
    ]


def _sample_variance(squares: Array, axis: int | None, keepdims: bool) -> Array:
    """Return the sum of squares divided by their number minus 1."""
    count = squares.size if axis is None else squares.shape[axis]
    return squares.sum(axis, keepdims=keepdims) / (count - 1)


def _centred(x: Array, axis: int | None = -1) -> Array:
    return x - x.mean(axis, keepdims=True)


LAYER_NORM = Exercise(
    name="layer_norm",
    title=Words("Layer normalisation", "层归一化"),
    task=Words(
        "Write layer_norm(x, gain, bias, eps). Each row of x gets the mean 0 and the variance 1, then it is "
        "scaled and shifted:\n\n"
        "    output = (x - mean) / sqrt(variance + eps) * gain + bias\n\n"
        "x (n, m), gain (m,), bias (m,), eps a number -> (n, m). The variance is the mean of the squared differences.",
        "编写 layer_norm(x, gain, bias, eps)。x 的每一行变成均值 0、方差 1，再缩放和平移：\n\n"
        "    output = (x - mean) / sqrt(variance + eps) * gain + bias\n\n"
        "x (n, m)，gain (m,)，bias (m,)，eps 是一个数 -> (n, m)。方差是差的平方的平均。",
    ),
    hint=Words(
        "x.mean(-1, keepdims=True) and x.var(-1, keepdims=True). np.var divides by m, as it has to be here.",
        "x.mean(-1, keepdims=True) 和 x.var(-1, keepdims=True)。np.var 除以 m，这里正需要这样。",
    ),
    done=Words(
        "Each position is normalised on its own, so other words and other sentences of the batch have no influence.",
        "每个位置单独归一化，不受其他词和批中其他句子的影响。",
    ),
    function="layer_norm",
    arguments=("x", "gain", "bias", "eps"),
    steps=(
        choice("axis", fixed(-1)),
        choice("keepdims", fixed(True)),
        choice("mean", lambda V: V.x.mean(V.axis, keepdims=V.keepdims)),
        step(
            "centred",
            "x minus the mean of its row",
            "x 减去所在行的均值",
            lambda V: V.x - V.mean,
            POSITION,
            FEATURE,
        ),
        choice("squared", lambda V: _centred(V.x, V.axis) ** 2),
        choice("averaged", fixed(np.mean)),
        step(
            "variance",
            "the variance of each row",
            "每一行的方差",
            lambda V: V.averaged(V.squared, axis=V.axis, keepdims=V.keepdims),
            POSITION,
            FEATURE,
        ),
        choice("root", fixed(np.sqrt)),
        choice("deviation", lambda V: V.root(V.variance + V.eps)),
        step(
            "normed",
            "(x - mean) / sqrt(variance + eps)",
            "(x - mean) / sqrt(variance + eps)",
            lambda V: V.centred / V.deviation,
            POSITION,
            FEATURE,
        ),
        choice("parameters", lambda V: (V.gain, V.bias)),
        choice("factor", lambda V: V.parameters[0]),
        choice("offset", lambda V: V.parameters[1]),
        step(
            "output",
            "the output, with gain and bias",
            "输出，即乘 gain 加 bias",
            lambda V: V.normed * V.factor + V.offset,
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "over_positions",
            "Mean and variance run over the positions (axis 0), as in batch normalisation. Layer "
            "normalisation takes each row on its own: axis=-1.",
            "均值和方差沿位置（第 0 轴）计算，像批归一化那样。层归一化对每一行单独计算：axis=-1。",
            axis=fixed(0),
        ),
        mistake(
            "over_all",
            "Mean and variance run over the whole array. Each row has its own: axis=-1, keepdims=True.",
            "均值和方差对整个数组计算。每一行应有自己的：axis=-1, keepdims=True。",
            axis=fixed(None),
        ),
        mistake(
            "no_keepdims",
            "Mean and variance have lost their axis, so column j gets those of row j. Keep the axis with "
            "keepdims=True, so that each row gets its own.",
            "均值和方差去掉了轴，于是第 j 列用了第 j 行的均值和方差。用 keepdims=True 保留这个轴，让每一行用自己的。",
            keepdims=fixed(False),
        ),
        mistake(
            "no_keepdims_in_differences",
            "The mean has lost its axis, so column j gets the mean of row j, and the variance is computed from "
            "these differences. Keep the axis with keepdims=True in both.",
            "均值去掉了轴，于是第 j 列用了第 j 行的均值，方差又由这些差算出。两处都要用 keepdims=True 保留这个轴。",
            keepdims=fixed(False),
            squared=lambda V: (V.x - V.mean) ** 2,
        ),
        mistake(
            "mean_not_subtracted",
            "The mean is not subtracted. x - mean is divided, not x.",
            "没有减去均值。被除的应是 x - mean，不是 x。",
            centred=lambda V: V.x,
        ),
        mistake(
            "root_mean_square",
            "This is RMSNorm: no mean is subtracted, and the mean of the squares takes the place of "
            "the variance.",
            "这是 RMSNorm：没有减去均值，并用平方的平均代替了方差。",
            centred=lambda V: V.x,
            squared=lambda V: V.x**2,
        ),
        mistake(
            "sample_variance",
            "The variance divides by m - 1 (ddof=1, the default of torch.var). Here it divides by m.",
            "方差除以了 m - 1（ddof=1，即 torch.var 的默认值）。这里应除以 m。",
            averaged=fixed(_sample_variance),
        ),
        mistake(
            "sum_of_squares",
            "The squared differences are added up, not averaged.",
            "差的平方是相加的，没有取平均。",
            averaged=fixed(np.sum),
        ),
        mistake(
            "no_root",
            "The root is missing: the row is divided by the variance.",
            "缺少开方：除以的是方差。",
            root=fixed(same),
        ),
        mistake(
            "eps_outside",
            "eps is added after the root. It belongs inside: sqrt(variance + eps).",
            "eps 加在了开方之后。它应在根号里面：sqrt(variance + eps)。",
            deviation=lambda V: V.root(V.variance) + V.eps,
        ),
        mistake(
            "no_eps",
            "eps is missing. Without it, a row of equal numbers divides by 0.",
            "缺少 eps。没有它，全部相等的一行会除以 0。",
            deviation=lambda V: V.root(V.variance),
        ),
        mistake(
            "multiplied",
            "The row is multiplied by the standard deviation. Divide.",
            "乘以了标准差。应相除。",
            normed=lambda V: V.centred * V.deviation,
        ),
        mistake("no_gain", "The gain is missing.", "缺少 gain。", factor=fixed(1.0)),
        mistake(
            "one_plus_gain",
            "The row is multiplied by 1 + gain. The formula has gain alone.",
            "乘的是 1 + gain。公式中只有 gain。",
            factor=lambda V: 1 + V.parameters[0],
        ),
        mistake("no_bias", "The bias is missing.", "缺少 bias。", offset=fixed(0.0)),
        mistake(
            "swapped_gain_bias",
            "Gain and bias are swapped.",
            "gain 和 bias 交换了。",
            parameters=lambda V: (V.bias, V.gain),
        ),
        mistake(
            "bias_first",
            "The bias is added before the gain multiplies. First the gain, then the bias.",
            "先加了 bias 再乘 gain。应先乘 gain，再加 bias。",
            output=lambda V: (V.normed + V.offset) * V.factor,
        ),
    ),
    make_cases=_norm_cases,
    returns=("output",),
)


# ---- a block


def _normed(x: Array, axis: int = -1) -> Array:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


def _normed_by_sample(x: Array, axis: int = -1) -> Array:
    return _centred(x, axis) / np.sqrt(x.var(axis, ddof=1, keepdims=True) + 1e-5)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _gelu_angle(x: Array) -> Array:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


PRE_NORM_BLOCK = Exercise(
    name="pre_norm_block",
    title=Words("A feed-forward block with a residual", "带残差的前馈块"),
    task=Words(
        "Write feed_forward_block(x, W_1, W_2), the second half of a Transformer layer with pre-norm:\n\n"
        "    output = x + W_2 relu(W_1 norm(x))\n\n"
        "norm is layer normalisation of each row without gain and bias, with eps = 1e-5.\n"
        "x (n, m), W_1 (width, m), W_2 (m, width) -> (n, m)",
        "编写 feed_forward_block(x, W_1, W_2)，即 pre-norm 的 Transformer 层的后半部分：\n\n"
        "    output = x + W_2 relu(W_1 norm(x))\n\n"
        "norm 是对每一行的层归一化，没有 gain 和 bias，eps = 1e-5。\n"
        "x (n, m)，W_1 (宽度, m)，W_2 (m, 宽度) -> (n, m)",
    ),
    hint=Words(
        "Keep x for the end. The way through the matrices starts with norm(x), and x itself is added to its result.",
        "把 x 留到最后。经过矩阵的一路从 norm(x) 开始，最后加上 x 本身。",
    ),
    done=Words(
        "The residual path is never normalised, so a part of the gradient reaches the first layer unchanged.",
        "残差这条路从不归一化，所以梯度中有一部分可以原样到达第一层。",
    ),
    function="feed_forward_block",
    arguments=("x", "W_1", "W_2"),
    steps=(
        choice("norm_axis", fixed(-1)),
        choice("norm", fixed(_normed)),
        step("normed", "norm(x)", "norm(x)", lambda V: V.norm(V.x, V.norm_axis), POSITION, FEATURE),
        step("hidden", "W_1 norm(x)", "W_1 norm(x)", lambda V: V.normed @ V.W_1.T, POSITION, FEATURE),
        step(
            "active", "relu(W_1 norm(x))", "relu(W_1 norm(x))", lambda V: _relu(V.hidden), POSITION, FEATURE
        ),
        choice("returned", lambda V: V.active @ V.W_2.T),
        step(
            "fed",
            "W_2 relu(W_1 norm(x))",
            "W_2 relu(W_1 norm(x))",
            lambda V: V.returned,
            POSITION,
            FEATURE,
        ),
        choice("residual", lambda V: V.x),
        choice("branch", lambda V: V.fed),
        choice("halved", fixed(1.0)),
        choice("added", lambda V: (V.residual + V.branch) * V.halved),
        step("output", "the output, with x added", "输出，即加上 x", lambda V: V.added, POSITION, FEATURE),
    ),
    mistakes=(
        mistake("not_normed", "The norm is missing.", "缺少归一化。", normed=lambda V: V.x),
        mistake(
            "norm_over_positions",
            "The norm runs over the positions. Each row is normalised on its own: axis=-1.",
            "归一化沿位置进行了。应对每一行单独归一化：axis=-1。",
            norm_axis=fixed(0),
        ),
        mistake(
            "only_centred",
            "The norm only subtracts the mean. It also divides by the standard deviation.",
            "归一化只减去了均值，还应除以标准差。",
            norm=fixed(_centred),
        ),
        mistake(
            "sample_variance",
            "The variance of the norm divides by m - 1 (ddof=1, the default of torch.var). Here it divides by m.",
            "归一化中的方差除以了 m - 1（ddof=1，即 torch.var 的默认值）。这里应除以 m。",
            norm=fixed(_normed_by_sample),
        ),
        mistake(
            "first_matrix_transposed",
            "W_1 is not transposed: a matrix (out, in) is applied as x @ W_1.T.",
            "W_1 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W_1.T。",
            hidden=lambda V: V.normed @ V.W_1,
        ),
        mistake(
            "no_relu",
            "The relu is missing. Without it, the two matrices are one matrix.",
            "缺少 relu。没有它，两个矩阵等于一个矩阵。",
            active=lambda V: V.hidden,
        ),
        mistake(
            "tanh",
            "The nonlinearity is tanh. This block has relu.",
            "非线性函数用了 tanh。这里是 relu。",
            active=lambda V: np.tanh(V.hidden),
        ),
        mistake(
            "sigmoid",
            "The nonlinearity is a sigmoid. This block has relu.",
            "非线性函数用了 sigmoid。这里是 relu。",
            active=lambda V: 1 / (1 + np.exp(-V.hidden)),
        ),
        mistake(
            "silu",
            "The nonlinearity is SiLU (swish), as in Llama. This block has relu.",
            "非线性函数用了 SiLU（swish），与 Llama 相同。这里是 relu。",
            active=lambda V: V.hidden / (1 + np.exp(-V.hidden)),
        ),
        mistake(
            "gelu",
            "The nonlinearity is GELU, as in BERT. This block has relu.",
            "非线性函数用了 GELU，与 BERT 相同。这里是 relu。",
            active=lambda V: V.hidden * (1 + np.vectorize(math.erf)(V.hidden / math.sqrt(2))) / 2,
        ),
        mistake(
            "gelu_by_tanh",
            "The nonlinearity is GELU in its form with tanh, as in GPT-2. This block has relu.",
            "非线性函数用了 tanh 形式的 GELU，与 GPT-2 相同。这里是 relu。",
            active=lambda V: V.hidden * (1 + np.tanh(_gelu_angle(V.hidden))) / 2,
        ),
        mistake(
            "absolute",
            "The nonlinearity is the absolute value. relu sets negative numbers to 0.",
            "非线性函数用了绝对值。relu 把负数变成 0。",
            active=lambda V: np.abs(V.hidden),
        ),
        mistake(
            "second_matrix_transposed",
            "W_2 is not transposed: a matrix (out, in) is applied as x @ W_2.T.",
            "W_2 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W_2.T。",
            returned=lambda V: V.active @ V.W_2,
        ),
        mistake(
            "relu_after_second",
            "The result of W_2 goes through a relu too. Only the hidden numbers do.",
            "W_2 的结果也经过了 relu。只有中间的数要经过。",
            fed=lambda V: _relu(V.returned),
        ),
        mistake(
            "result_normed",
            "The result of W_2 is normalised before x is added. Pre-norm normalises only the input of the matrices.",
            "W_2 的结果在加上 x 之前做了归一化。pre-norm 只归一化矩阵的输入。",
            branch=lambda V: V.norm(V.fed, V.norm_axis),
        ),
        mistake(
            "no_residual",
            "The residual is missing: x is added to the result.",
            "缺少残差：结果要加上 x。",
            residual=fixed(0.0),
        ),
        mistake(
            "residual_of_normed",
            "norm(x) is added in place of x. The residual path stays unnormalised.",
            "加上的是 norm(x) 而不是 x。残差这条路不做归一化。",
            residual=lambda V: V.norm(V.x, V.norm_axis),
        ),
        mistake(
            "post_norm",
            "The result is normalised after the sum, as in post-norm. Pre-norm normalises only the input of "
            "the matrices.",
            "求和之后对结果做了归一化，这是 post-norm。pre-norm 只归一化矩阵的输入。",
            output=lambda V: V.norm(V.added, V.norm_axis),
        ),
        mistake(
            "residual_subtracted",
            "x is subtracted. It is added.",
            "x 被减去了。应相加。",
            residual=lambda V: -V.x,
        ),
        mistake(
            "averaged",
            "The sum is halved. It is a plain sum.",
            "和被除以了 2。应是普通的和。",
            halved=fixed(0.5),
        ),
    ),
    make_cases=lambda rng: [
        numbers(rng, x=(n, m), W_1=(w, m), W_2=(m, w)) for n, m, w in ((3, 3, 3), (2, 5, 7), (4, 3, 2))
    ],
    returns=("output",),
)
