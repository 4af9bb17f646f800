"""The exercise on multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import (
    BATCH,
    FEATURE,
    HEAD,
    POSITION,
    SCALE_MISTAKES,
    SCORE_MISTAKES,
    attention_steps,
    mistake,
    numbers,
    pick,
    softmax,
    softmax_mistakes,
    step,
)
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["MULTI_HEAD_ATTENTION"]

Array = np.ndarray


def _multi_head_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((2, 4, 2, 2), (2, 3, 2, 5), (3, 5, 4, 2))
    cases = []
    for b, n, h, d in sizes:
        m = h * d
        case = numbers(rng, x=(b, n, m), W_q=(m, m), W_k=(m, m), W_v=(m, m), W_o=(m, m))
        cases.append(
            Case({**{k: v / (1 if k == "x" else 2) for k, v in case.arguments.items()}, "num_heads": h})
        )
    return cases


def _split(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)  # (b,h,n,d)


def _interleaved(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], -1, heads).transpose(0, 3, 1, 2)


def _reshaped(x: Array, heads: int) -> Array:
    return x.reshape(len(x), heads, x.shape[1], -1)


def _each(split: Callable[[Array, int], Array]) -> dict[str, Callable[[Any], Array]]:
    """Return the steps of q, k and v with a way of splitting into heads."""
    return {
        "q": lambda V: split(V.x @ V.W_q.T, V.num_heads),
        "k": lambda V: split(V.x @ V.W_k.T, V.num_heads),
        "v": lambda V: split(V.x @ V.W_v.T, V.num_heads),
    }


def _merge(heads: Array) -> Array:
    b, h, n, d = heads.shape
    return heads.swapaxes(1, 2).reshape(b, n, h * d)


MULTI_HEAD_ATTENTION = Exercise(
    name="multi_head_attention",
    title=Words("Multi-head attention", "多头注意力"),
    task=Words(
        "Write multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads), the self-attention of a Transformer:\n\n"
        "    project x, split into heads, attend in each head, join the heads, apply W_o\n\n"
        "x (batch, n, m), matrices (m, m) in the shape (out, in) -> (batch, n, m). There are no biases and no mask.",
        "编写 multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads)，即 Transformer 的自注意力：\n\n"
        "    投影 x，拆分成多个头，每个头各自做注意力，合并各个头，再乘 W_o\n\n"
        "x (批, n, m)，矩阵 (m, m)，形状为 (输出, 输入) -> (批, n, m)。没有偏置，也没有掩码。",
    ),
    hint=Words(
        "Use your split_heads and merge_heads. The scores of a head are divided by the root of the width of a head.",
        "使用前面写的 split_heads 和 merge_heads。每个头的分数除以一个头的宽度的平方根。",
    ),
    done=Words(
        "Each head has weights of its own and can look elsewhere. Together they cost as much as one wide head.",
        "每个头有自己的权重，可以看不同的地方。它们合起来的计算量与一个宽的头相同。",
    ),
    function="multi_head_attention",
    arguments=("x", "W_q", "W_k", "W_v", "W_o", "num_heads"),
    steps=(
        *(
            step(name, f"{name} of each head", f"每个头的 {name}", compute, BATCH, HEAD, POSITION, FEATURE)
            for name, compute in _each(_split).items()
        ),
        *attention_steps(BATCH, HEAD)[:3],
        step(
            "heads",
            "the outputs of the heads",
            "各个头的输出",
            lambda V: V.weights @ V.v,
            BATCH,
            HEAD,
            POSITION,
            FEATURE,
        ),
        step("joined", "the joined heads", "合并后的头", lambda V: _merge(V.heads), BATCH, POSITION, FEATURE),
        step(
            "output",
            "the joined heads times W_o",
            "合并后的头乘以 W_o",
            lambda V: V.joined @ V.W_o.T,
            BATCH,
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "heads_interleaved",
            "The features are dealt to the heads in turn. Each head gets d features next to each "
            "other: reshape(b, n, num_heads, d).",
            "特征轮流分给了各个头。每个头应得到相邻的 d 个特征：reshape(b, n, num_heads, d)。",
            **_each(_interleaved),
        ),
        mistake(
            "reshaped_to_heads",
            "The projections are reshaped to (batch, heads, n, d) directly, which mixes positions. "
            "Reshape to (batch, n, heads, d), then swap axes.",
            "投影直接 reshape 成了 (批, 头, n, d)，混合了不同的位置。应先 reshape 成 (批, n, 头, d)，再交换轴。",
            **_each(_reshaped),
        ),
        mistake(
            "matrices_transposed",
            "W_q, W_k and W_v are not transposed: a matrix (out, in) is applied as x @ W.T.",
            "W_q、W_k、W_v 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W.T。",
            q=lambda V: _split(V.x @ V.W_q, V.num_heads),
            k=lambda V: _split(V.x @ V.W_k, V.num_heads),
            v=lambda V: _split(V.x @ V.W_v, V.num_heads),
        ),
        mistake(
            "split_before_projection",
            "The queries, keys and values are parts of x, without their matrices.",
            "查询、键、值是 x 的一部分，没有经过矩阵投影。",
            **{name: lambda V: _split(V.x, V.num_heads) for name in ("q", "k", "v")},
        ),
        mistake(
            "values_not_projected",
            "The values are parts of x, without W_v.",
            "值是 x 的一部分，没有乘 W_v。",
            v=lambda V: _split(V.x, V.num_heads),
        ),
        mistake(
            "root_of_model_width",
            "The scores are divided by √m. A head has only d = m / heads features: divide by √d.",
            "分数除以了 √m。一个头只有 d = m / 头数 个特征：应除以 √d。",
            scaled=lambda V: V.scores / math.sqrt(V.x.shape[-1]),
        ),
        mistake(
            "root_of_heads",
            "The scores are divided by the root of the number of heads. Divide by that of their width.",
            "分数除以了头数的平方根。应除以头的宽度的平方根。",
            scaled=lambda V: V.scores / math.sqrt(V.num_heads),
        ),
        mistake(
            "over_heads",
            "The softmax runs over the heads, so that the heads compete. It runs over the keys, the last axis.",
            "softmax 沿头做了，成了各个头之间的竞争。应沿键，即最后一个轴。",
            weights=lambda V: softmax(V.scaled, 1),
        ),
        mistake(
            "same_weights_in_all_heads",
            "All heads use the weights of the first one.",
            "所有头都用了第一个头的权重。",
            weights=lambda V: np.repeat(softmax(V.scaled)[:, :1], V.num_heads, axis=1),
        ),
        mistake(
            "heads_not_swapped_back",
            "The heads are joined without swapping the axes back, which mixes positions.",
            "合并时没有把轴换回来，混合了不同的位置。",
            joined=lambda V: V.heads.reshape(V.x.shape),
        ),
        mistake(
            "joined_interleaved",
            "The heads are joined in turn, feature by feature. Put whole heads side by side.",
            "合并时各个头的特征交错了。应把整个头并排放置。",
            joined=lambda V: V.heads.transpose(0, 2, 3, 1).reshape(V.x.shape),
        ),
        mistake(
            "no_output_matrix",
            "W_o is missing. It mixes what the heads found.",
            "缺少 W_o。它混合各个头找到的内容。",
            output=lambda V: V.joined,
        ),
        mistake(
            "output_matrix_transposed",
            "W_o is not transposed: a matrix (out, in) is applied as x @ W_o.T.",
            "W_o 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W_o.T。",
            output=lambda V: V.joined @ V.W_o,
        ),
        mistake(
            "input_added",
            "The input is added to the result. The residual connection is outside of the attention.",
            "结果加上了输入。残差连接在注意力之外。",
            output=lambda V: V.joined @ V.W_o.T + V.x,
        ),
        *pick(SCORE_MISTAKES, "swapped_q_k"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "root_of_keys"),
        *pick(softmax_mistakes(), "over_queries", "softmax_twice", "no_softmax"),
    ),
    make_cases=_multi_head_cases,
    returns=("output",),
    oracle=lambda x, W_q, W_k, W_v, W_o, num_heads: reference.multi_head_attention(
        x, x, x, W_q, W_k, W_v, W_o, num_heads
    )[0],
)
