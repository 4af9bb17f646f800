"""The exercise on attention for a batch of sequences."""

from __future__ import annotations

import math

import numpy as np

from regard import reference
from regard.learn.bank.attention import (
    ROOT_OF_QUERIES,
    ROOT_OF_VALUES,
    SCALE_MISTAKES,
    SCORE_MISTAKES,
    VALUE_MISTAKES,
    attention_steps,
    dot_products,
)
from regard.learn.bank.shared_steps import BATCH, fixed, mistake, numbers, pick, transpose
from regard.learn.bank.softmaxes import NO_KEEPDIMS, SOFTMAX_MISTAKES
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["BATCHED_ATTENTION"]


def _batch_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((3, 3, 3, 3, 3), (2, 3, 5, 7, 4), (3, 1, 4, 2, 5))
    return [numbers(rng, q=(b, q, d), k=(b, k, d), v=(b, k, dv)) for b, q, k, d, dv in sizes]


BATCHED_ATTENTION = Exercise(
    name="batched_attention",
    title=Words("Attention for a batch", "一批序列的注意力"),
    task=Words(
        "Write batched_attention(q, k, v) for several sequences at once:\n\n"
        "    q (batch, queries, d), k (batch, keys, d), v (batch, keys, width) -> (batch, queries, width)\n\n"
        "Each sequence attends only to its own keys.",
        "编写 batched_attention(q, k, v)，一次处理多个序列：\n\n"
        "    q (批, 查询, d), k (批, 键, d), v (批, 键, 宽度) -> (批, 查询, 宽度)\n\n"
        "每个序列只注意自己的键。",
    ),
    hint=Words(
        "@ multiplies the last two axes and keeps the batch. k.T turns all three axes around: use np.swapaxes(k,"
        " -1, -2).",
        "@ 对最后两个轴做乘法，并保留批的轴。k.T 会把三个轴全部颠倒：用 np.swapaxes(k, -1, -2)。",
    ),
    done=Words(
        "With negative axes the same code works for (n, d), (b, n, d) and (b, heads, n, d).",
        "使用负的轴编号，同样的代码适用于 (n, d)、(b, n, d) 和 (b, heads, n, d)。",
    ),
    function="batched_attention",
    arguments=("q", "k", "v"),
    steps=attention_steps(BATCH),
    mistakes=(
        mistake(
            "all_axes_reversed",
            "k.T reverses all three axes, so the batch becomes the last one. Swap only the last two: "
            "np.swapaxes(k, -1, -2).",
            "k.T 把三个轴全部颠倒了，批变成了最后一个轴。只交换最后两个：np.swapaxes(k, -1, -2)。",
            turn=fixed(np.transpose),
        ),
        mistake(
            "keys_of_the_first",
            "All sequences attend to the keys of the first one.",
            "所有序列都在注意第一个序列的键。",
            compared=lambda V: V.right[0],
        ),
        mistake(
            "batch_mixed_in",
            "The sequences are mixed: each query attends to the keys of all sequences. The batch axis "
            "must not be merged with that of the keys.",
            "序列混在了一起：每个查询注意到了所有序列的键。批的轴不能与键的轴合并。",
            compared=lambda V: V.right.reshape(-1, V.right.shape[-1]),
            taken=lambda V: V.content.reshape(-1, V.content.shape[-1]),
        ),
        mistake(
            "scores_summed_over_batch",
            "The scores are summed over the batch, for example by einsum without b in the "
            "result. Keep it: 'bqd,bkd->bqk'.",
            "分数沿批求和了，例如 einsum 的结果里漏了 b。应保留：'bqd,bkd->bqk'。",
            scores=lambda V: dot_products(V).sum(0, keepdims=True),
        ),
        mistake(
            "over_batch",
            "The softmax runs over the batch (axis 0). It runs over the keys, the last axis.",
            "softmax 沿批（第 0 轴）做了。应沿键，即最后一个轴。",
            axis=fixed(0),
        ),
        mistake(
            "over_sequence_matrix",
            "The weights of a whole sequence sum to 1. The weights of each query have to.",
            "整个序列的权重之和是 1。应当每个查询的权重之和是 1。",
            axis=fixed((-2, -1)),
        ),
        mistake(
            "values_of_the_first",
            "All sequences get the values of the first one.",
            "所有序列都用了第一个序列的值。",
            taken=lambda V: V.content[0],
        ),
        mistake(
            "output_summed_over_batch",
            "The outputs are summed over the batch.",
            "输出沿批求和了。",
            summed=lambda V: (V.mixing @ V.taken).sum(0),
        ),
        mistake(
            "first_sequence",
            "Only the first sequence of the batch is computed, such as q[0] @ k[0].T. @ computes all of them at once.",
            "只计算了批中的第一个序列，例如 q[0] @ k[0].T。@ 可以一次计算全部序列。",
            output=lambda V: V.normalised[0],
        ),
        mistake(
            "output_transposed",
            "The last two axes of the output are swapped.",
            "输出的最后两个轴交换了。",
            output=lambda V: transpose(V.normalised),
        ),
        *pick(SCORE_MISTAKES, "swapped_q_k", "not_transposed", "keys_reshaped", "cosine"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "multiplied", "root_of_keys"),
        ROOT_OF_VALUES,
        ROOT_OF_QUERIES,
        mistake(
            "root_of_batch",
            "The scores are divided by the root of the number of sequences, which is len(q). Divide by √d, "
            "with d = q.shape[-1].",
            "分数除以了序列个数的平方根，即 len(q)。应除以 √d，d = q.shape[-1]。",
            scale=lambda V: 1 / math.sqrt(len(V.q)),
        ),
        *pick(
            SOFTMAX_MISTAKES,
            "over_queries",
            "over_all",
            *NO_KEEPDIMS,
            "no_exp",
            "no_division",
            "no_softmax",
            "softmax_twice",
        ),
        *pick(VALUE_MISTAKES, "keys_as_values", "weights_transposed", "mean_of_values"),
    ),
    make_cases=_batch_cases,
    returns=("output",),
    oracle=lambda q, k, v: reference.scaled_dot_product_attention(q, k, v)[0],
)
