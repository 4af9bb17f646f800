"""The exercises on the learning rate with warm-up and on the gradient of the softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import (
    KEY,
    POSITION,
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

__all__ = ["SOFTMAX_GRADIENT", "WARMUP"]

Array = np.ndarray

# ---- warm-up


def _rate_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case({"step": np.arange(0, total + 4), "warmup": warmup, "total": total, "peak": peak})
        for warmup, total, peak in ((4, 10, 2.0), (3, 14, 0.5), (5, 7, 3.0))
    ]


def _fall(V: Any) -> Array:
    """Return the factor after the warm-up, a function of the share of the steps that are done."""
    progress = (V.fall_counted - V.fall_start) / (V.total - V.fall_start)
    return np.maximum(V.fall_shape(V, progress), V.lowest)


def _cosine(V: Any, progress: Array) -> Array:
    # Without a lowest rate, the cosine goes on after the last step.
    last = 1.0 if V.lowest == 0 else None
    return (1 + np.cos(np.pi * np.clip(progress, 0, last))) / 2


WARMUP = Exercise(
    name="warmup",
    title=Words("The learning rate with warm-up", "带预热的学习率"),
    task=Words(
        "Write learning_rate(step, warmup, total, peak). The rate rises linearly from 0 at step 0 to peak at "
        "step warmup, then\n"
        "falls linearly to 0 at step total, and stays 0 after it. step is an array of whole numbers. "
        "The result is an array of the same shape.",
        "编写 learning_rate(step, warmup, total, peak)。学习率从第 0 步的 0 线性上升，到第 warmup 步达到 peak，\n"
        "再线性下降，到第 total 步为 0，之后一直是 0。step 是整数数组，结果是形状相同的数组。",
    ),
    hint=Words(
        "step / warmup rises and (total - step) / (total - warmup) falls. The smaller of the two counts, but "
        "not less than 0.",
        "step / warmup 上升，(total - step) / (total - warmup) 下降。取两者中较小的，但不小于 0。",
    ),
    done=Words(
        "At the start the gradients are large and differ from step to step. Small steps keep the training stable.",
        "开始时梯度大而且每步不同，小步可以使训练稳定。",
    ),
    function="learning_rate",
    arguments=("step", "warmup", "total", "peak"),
    steps=(
        choice("counted", lambda V: V.step),
        choice("rise_length", lambda V: V.warmup),
        choice("rise_shape", fixed(same)),
        step(
            "rise",
            "the rise step / warmup",
            "上升 step / warmup",
            lambda V: V.rise_shape(V.counted / V.rise_length),
            POSITION,
        ),
        choice("fall_counted", lambda V: V.step),
        choice("fall_start", lambda V: V.warmup),
        choice("lowest", fixed(0.0)),
        choice("fall_shape", fixed(lambda V, progress: 1 - progress)),
        step(
            "fall",
            "the fall (total - step) / (total - warmup), at least 0",
            "下降 (total - step) / (total - warmup)，不小于 0",
            _fall,
            POSITION,
        ),
        step(
            "factor",
            "the smaller of rise and fall",
            "上升和下降中较小的",
            lambda V: np.minimum(V.rise, V.fall),
            POSITION,
        ),
        step("rate", "the rate, times peak", "学习率，即乘以 peak", lambda V: V.peak * V.factor, POSITION),
    ),
    mistakes=(
        mistake(
            "from_one",
            "Step 0 counts as step 1: the rise is (step + 1) / warmup. The rate at step 0 is 0.",
            "第 0 步当成了第 1 步：上升是 (step + 1) / warmup。第 0 步的学习率是 0。",
            counted=lambda V: V.step + 1,
        ),
        mistake(
            "from_one_everywhere",
            "Step 0 counts as step 1 in the rise and in the fall. The rate at step 0 is 0, and it is peak at "
            "step warmup.",
            "上升和下降中都把第 0 步当成了第 1 步。第 0 步的学习率是 0，第 warmup 步的是 peak。",
            counted=lambda V: V.step + 1,
            fall_counted=lambda V: V.step + 1,
        ),
        mistake(
            "rise_in_whole_numbers",
            "The rise is 0 until warmup, because step // warmup is a whole number. Divide with /.",
            "在 warmup 之前上升一直是 0，因为 step // warmup 是整数。应使用 /。",
            rise_shape=fixed(np.floor),
        ),
        mistake(
            "all_in_whole_numbers",
            "Rise and fall are whole numbers, because // drops the fraction. Divide with /.",
            "上升和下降都成了整数，因为 // 去掉了小数部分。应使用 /。",
            rise_shape=fixed(np.floor),
            fall_shape=fixed(lambda V, progress: np.floor(1 - progress)),
            # In another style, the mistake would look like another one.
            factor=lambda V: np.minimum(V.rise, V.fall),
        ),
        mistake(
            "rise_over_all_steps",
            "The rise is divided by total. It ends at warmup.",
            "上升除以了 total。它应在 warmup 处结束。",
            rise_length=lambda V: V.total,
        ),
        mistake(
            "no_warmup",
            "There is no rise: the rate starts high.",
            "没有上升：学习率一开始就很高。",
            rise_shape=fixed(np.ones_like),
        ),
        mistake(
            "quadratic",
            "The rise is quadratic. It is linear.",
            "上升是二次的。应为线性。",
            rise_shape=fixed(np.square),
        ),
        mistake(
            "no_fall",
            "The rate stays at peak after the warm-up. It falls to 0 at total.",
            "预热之后学习率保持在 peak。它应在 total 处降到 0。",
            fall_shape=fixed(lambda V, progress: np.ones(len(progress))),
        ),
        mistake(
            "fall_from_start",
            "The fall is counted from step 0: (total - step) / total. It starts at warmup, where it is 1.",
            "下降从第 0 步算起：(total - step) / total。它应从 warmup 开始，在那里为 1。",
            fall_start=fixed(0),
        ),
        mistake(
            "cosine",
            "The fall follows a cosine. Here it is linear.",
            "下降按余弦变化。这里是线性的。",
            fall_shape=fixed(_cosine),
        ),
        mistake(
            "inverse_root",
            "The fall follows 1 / √step, as in the first Transformer. Here it is linear.",
            "下降按 1 / √step 变化，像最初的 Transformer。这里是线性的。",
            fall_shape=fixed(lambda V, progress: np.sqrt(V.warmup / np.maximum(V.step, 1))),
        ),
        mistake(
            "negative",
            "The rate is negative after total. It stays 0.",
            "total 之后学习率成了负数。应保持为 0。",
            lowest=fixed(-np.inf),
        ),
        mistake(
            "product",
            "Rise and fall are multiplied. The smaller of both counts.",
            "上升和下降相乘了。应取较小的。",
            factor=lambda V: V.rise * V.fall,
        ),
        mistake(
            "larger",
            "The larger of rise and fall is taken. The smaller counts.",
            "取了上升和下降中较大的。应取较小的。",
            factor=lambda V: np.maximum(V.rise, V.fall),
        ),
        mistake(
            "no_peak", "The factor is not multiplied by peak.", "没有乘以 peak。", rate=lambda V: V.factor
        ),
        mistake(
            "divided_by_peak",
            "The factor is divided by peak. Multiply.",
            "除以了 peak。应相乘。",
            rate=lambda V: V.factor / V.peak,
        ),
    ),
    make_cases=_rate_cases,
    # The steps before and after the end of the warm-up, each on its own, in place of the smaller number.
    styles=(
        {"factor": lambda V: np.where(V.step < V.warmup, V.rise, V.fall)},
        {"factor": lambda V: np.where(V.step <= V.warmup, V.rise, V.fall)},
    ),
    returns=("rate",),
)


# ---- the gradient of the softmax


def _gradient_cases(rng: np.random.Generator) -> list[Case]:
    cases = [numbers(rng, weights=shape, grad=shape) for shape in ((3, 3), (2, 5), (4, 7))]
    return [Case({"weights": softmax(c.arguments["weights"]), "grad": c.arguments["grad"]}) for c in cases]


SOFTMAX_GRADIENT = Exercise(
    name="softmax_gradient",
    title=Words("The gradient of the softmax", "softmax 的梯度"),
    task=Words(
        "Write softmax_gradient(weights, grad). weights (queries, keys) are the result of a softmax over the "
        "keys, and grad is the\n"
        "gradient of the loss with respect to them. Return the gradient with respect to the scores, the input "
        "of the softmax.\n\n"
        "The derivative of weight i by score j is w_i (1 - w_j) if i = j, and -w_i w_j otherwise.",
        "编写 softmax_gradient(weights, grad)。weights（查询，键）是沿键做 softmax 的结果，grad 是损失对它的梯度。\n"
        "返回损失对分数（即 softmax 的输入）的梯度。\n\n"
        "权重 i 对分数 j 的导数：i = j 时为 w_i (1 - w_j)，否则为 -w_i w_j。",
    ),
    hint=Words(
        "Summed over i this is w_j (g_j - Σ_i w_i g_i), with one sum for each row.",
        "对 i 求和得到 w_j (g_j - Σ_i w_i g_i)，每一行有一个和。",
    ),
    done=Words(
        "Each row of the gradient sums to 0. Where a weight is near 0 or 1 the gradient vanishes, which is why "
        "scores are scaled.",
        "梯度的每一行之和为 0。权重接近 0 或 1 时梯度消失，这就是要缩放分数的原因。",
    ),
    function="softmax_gradient",
    arguments=("weights", "grad"),
    steps=(
        step("product", "weights times grad", "权重乘以梯度", lambda V: V.weights * V.grad, QUERY, KEY),
        choice("reduced", fixed(np.sum)),
        choice("axis", fixed(-1)),
        choice("keepdims", fixed(True)),
        step(
            "total",
            "the sum of weights times grad over the keys",
            "权重乘以梯度沿键的和",
            lambda V: V.reduced(V.product, axis=V.axis, keepdims=V.keepdims),
            QUERY,
        ),
        choice("subtracted", lambda V: V.total),
        choice("own", lambda V: V.grad),
        choice("minus", fixed(-1)),
        step(
            "centred",
            "grad minus the sum",
            "梯度减去这个和",
            lambda V: V.own + V.minus * V.subtracted,
            QUERY,
            KEY,
        ),
        choice("weighted", lambda V: V.weights * V.centred),
        step(
            "output",
            "the weights times (grad - sum)",
            "权重乘以（梯度 - 和）",
            lambda V: V.weighted,
            QUERY,
            KEY,
        ),
    ),
    mistakes=(
        mistake(
            "unweighted_sum",
            "The sum is that of grad alone. Each number is weighted: Σ w_i g_i.",
            "求和的只是 grad。每个数都要乘权重：Σ w_i g_i。",
            product=lambda V: V.grad,
        ),
        mistake(
            "squared_weights",
            "The weights are squared in the sum.",
            "求和时权重被平方了。",
            product=lambda V: V.weights**2 * V.grad,
        ),
        mistake(
            "sum_of_weights_only",
            "grad is missing in the sum: the weights alone sum to 1.",
            "求和时缺少 grad：只有权重，和总是 1。",
            product=lambda V: V.weights,
        ),
        mistake(
            "over_queries",
            "The sum runs over the queries. Each row has its own: axis=-1.",
            "求和沿着查询。每一行应有自己的和：axis=-1。",
            axis=fixed(0),
        ),
        mistake(
            "over_all",
            "The sum runs over the whole array. Each row has its own: axis=-1, keepdims=True.",
            "求和针对整个数组。每一行应有自己的和：axis=-1, keepdims=True。",
            axis=fixed(None),
        ),
        mistake(
            "mean", "The mean is taken in place of the sum.", "用平均代替了求和。", reduced=fixed(np.mean)
        ),
        mistake(
            "no_keepdims",
            "The sum has lost its axis, so column j gets the sum of row j. Keep the axis with keepdims=True: "
            "each row has its own sum.",
            "求和去掉了轴，于是第 j 列用了第 j 行的和。用 keepdims=True 保留这个轴，让每一行用自己的和。",
            keepdims=fixed(False),
        ),
        mistake(
            "grad_forgotten",
            "grad is missing: this is w (1 - w), the derivative of each weight by its own score. Multiply by "
            "grad, and subtract the sum Σ w_i g_i.",
            "缺少 grad：这是 w (1 - w)，即每个权重对自己的分数的导数。应乘以 grad，并减去和 Σ w_i g_i。",
            total=lambda V: V.weights,
            own=lambda V: np.ones_like(V.grad),
        ),
        mistake(
            "diagonal_forgotten",
            "Only -w_i w_j is used. If i = j, the derivative is w_i (1 - w_i), so grad itself is missing: grad - sum.",
            "只用了 -w_i w_j。i = j 时导数是 w_i (1 - w_i)，所以缺少 grad 本身：应为 grad - 和。",
            own=lambda V: np.zeros_like(V.grad),
        ),
        mistake(
            "no_total",
            "The sum is missing: this takes only w_i for the derivative. Raising one score lowers all other "
            "weights.",
            "缺少求和项：只把导数当成了 w_i。一个分数升高，其他权重都会降低。",
            subtracted=fixed(0.0),
        ),
        mistake(
            "only_diagonal",
            "Only the diagonal w_i (1 - w_i) is used. Each score also changes the other weights.",
            "只用了对角线 w_i (1 - w_i)。每个分数还会改变其他权重。",
            subtracted=lambda V: V.grad * V.weights,
        ),
        mistake("plus", "The sum is added. It is subtracted.", "和被加上了。应相减。", minus=fixed(1)),
        mistake(
            "not_weighted",
            "The last product with the weights is missing.",
            "缺少最后与权重的乘积。",
            weighted=lambda V: V.centred,
        ),
        mistake(
            "sum_not_weighted",
            "The sum is not multiplied by the weights: w (g - sum), not w g - sum.",
            "和没有乘以权重：是 w (g - 和)，不是 w g - 和。",
            weighted=lambda V: V.weights * V.grad + V.minus * V.subtracted,
        ),
        mistake("sign", "The sign is wrong.", "符号反了。", output=lambda V: -V.weighted),
        mistake(
            "log_softmax",
            "This is the gradient of the log-softmax, g - w Σ g.",
            "这是 log-softmax 的梯度 g - w Σ g。",
            product=lambda V: V.grad,
            weighted=lambda V: V.grad + V.minus * V.weights * V.subtracted,
        ),
    ),
    make_cases=_gradient_cases,
    returns=("output",),
    oracle=lambda weights, grad: reference.softmax_grad(grad, np.log(weights)),
)
