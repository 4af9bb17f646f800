"""The exercise on multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.attention import CAUSAL, SCALE_MISTAKES, SCORE_MISTAKES, score_steps, value_steps
from regard.learn.bank.projections import not_projected, projection, projection_choices
from regard.learn.bank.shared_steps import (
    BATCH,
    FEATURE,
    HEAD,
    KEY,
    POSITION,
    QUERY,
    choice,
    fixed,
    mistake,
    numbers,
    pick,
    same,
    step,
)
from regard.learn.bank.softmaxes import SOFTMAX_MISTAKES, softened, softmax_steps
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


def _not_swapped(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1)  # (b,n,h,d)


def _split_projection(name: str) -> Callable[[Any], Array]:
    """Return the computation of q, k or v of each head from its choices."""
    project = projection(name)
    return lambda V: V.split(project(V), V.num_heads)


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
        *projection_choices(q="x", k="x", v="x"),
        choice("split", fixed(_split)),
        *(
            step(
                name,
                f"{name} of each head",
                f"每个头的 {name}",
                _split_projection(name),
                BATCH,
                HEAD,
                POSITION,
                FEATURE,
            )
            for name in "qkv"
        ),
        *score_steps(BATCH, HEAD),
        *softmax_steps("scaled", BATCH, HEAD, QUERY, KEY),
        *value_steps("heads", "the outputs of the heads", "各个头的输出", BATCH, HEAD, POSITION, FEATURE),
        choice("ordered", lambda V: V.heads.swapaxes(1, 2)),
        step(
            "joined",
            "the joined heads",
            "合并后的头",
            lambda V: V.ordered.reshape(V.x.shape),
            BATCH,
            POSITION,
            FEATURE,
        ),
        choice("mixed", lambda V: V.joined @ V.W_o.T),
        step(
            "output",
            "the joined heads times W_o",
            "合并后的头乘以 W_o",
            lambda V: V.mixed,
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
            split=fixed(_interleaved),
        ),
        mistake(
            "reshaped_to_heads",
            "The projections are reshaped to (batch, heads, n, d) directly, which mixes positions. "
            "Reshape to (batch, n, heads, d), then swap axes.",
            "投影直接 reshape 成了 (批, 头, n, d)，混合了不同的位置。应先 reshape 成 (批, n, 头, d)，再交换轴。",
            split=fixed(_reshaped),
        ),
        mistake(
            "never_swapped",
            "The axes are never swapped: the projections are reshaped to (batch, heads, n, d), and the heads "
            "back to (batch, n, m). Both mix positions. Reshape to (batch, n, heads, d), swap axes, and swap "
            "them back before joining.",
            "轴从未交换：投影直接 reshape 成了 (批, 头, n, d)，各个头又直接 reshape 回 (批, n, m)，"
            "两次都混合了不同的位置。应先 reshape 成 (批, n, 头, d)，再交换轴，合并之前再换回来。",
            split=fixed(_reshaped),
            ordered=lambda V: V.heads,
        ),
        mistake(
            "heads_attend_to_heads",
            "The heads of one position attend to one another. The axes are (batch, n, heads, d), and attention runs "
            "over the last two. Swap heads and positions after the reshape, so that positions attend to positions.",
            "同一个位置的各个头在互相注意。轴的顺序是 (批, n, 头, d)，而注意力作用在最后两个轴上。reshape 之后要交换"
            "头与位置的轴，让位置注意位置。",
            split=fixed(_not_swapped),
            ordered=lambda V: V.heads,
        ),
        mistake(
            "heads_swapped_only_afterwards",
            "Heads and positions are swapped after the attention, but not before it. So the heads of one position "
            "attend to one another, and joining them mixes positions. Swap them after the reshape too.",
            "头与位置的轴只在注意力之后交换了，之前没有交换。于是同一个位置的各个头在互相注意，合并时又混合了不同的位置。"
            "reshape 之后也要交换。",
            split=fixed(_not_swapped),
        ),
        mistake(
            "matrices_transposed",
            "W_q, W_k and W_v are not transposed: a matrix (out, in) is applied as x @ W.T.",
            "W_q、W_k、W_v 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W.T。",
            **{f"{name}_turn": fixed(same) for name in "qkv"},
        ),
        mistake(
            "split_before_projection",
            "The queries, keys and values are parts of x, without their matrices.",
            "查询、键、值是 x 的一部分，没有经过矩阵投影。",
            **{f"{name}_applied": fixed(not_projected) for name in "qkv"},
        ),
        mistake(
            "values_not_projected",
            "The values are parts of x, without W_v.",
            "值是 x 的一部分，没有乘 W_v。",
            v_applied=fixed(not_projected),
        ),
        mistake(
            "one_head",
            "The width is not split into heads: this is attention with one head of width m. Split the "
            "projections into num_heads heads.",
            "没有拆分成多个头：这是宽度为 m 的单头注意力。应把投影拆分成 num_heads 个头。",
            split=fixed(lambda x, heads: x[:, None]),
        ),
        mistake(
            "root_of_model_width",
            "The scores are divided by √m. A head has only d = m / heads features: divide by √d.",
            "分数除以了 √m。一个头只有 d = m / 头数 个特征：应除以 √d。",
            scale=lambda V: 1 / math.sqrt(V.x.shape[-1]),
        ),
        mistake(
            "root_of_heads",
            "The scores are divided by the root of the number of heads. Divide by that of their width.",
            "分数除以了头数的平方根。应除以头的宽度的平方根。",
            scale=lambda V: 1 / math.sqrt(V.num_heads),
        ),
        mistake(
            "over_heads",
            "The softmax runs over the heads, so that the heads compete. It runs over the keys, the last axis.",
            "softmax 沿头做了，成了各个头之间的竞争。应沿键，即最后一个轴。",
            axis=fixed(1),
        ),
        mistake(
            "same_weights_in_all_heads",
            "All heads use the weights of the first one.",
            "所有头都用了第一个头的权重。",
            softened=lambda V: np.repeat(softened(V, V.scaled)[:, :1], V.num_heads, axis=1),
        ),
        mistake(
            "heads_not_swapped_back",
            "The heads are joined without swapping the axes back, which mixes positions.",
            "合并时没有把轴换回来，混合了不同的位置。",
            ordered=lambda V: V.heads,
        ),
        mistake(
            "joined_interleaved",
            "The heads are joined in turn, feature by feature. Put whole heads side by side.",
            "合并时各个头的特征交错了。应把整个头并排放置。",
            ordered=lambda V: V.heads.transpose(0, 2, 3, 1),
        ),
        mistake(
            "no_output_matrix",
            "W_o is missing. It mixes what the heads found.",
            "缺少 W_o。它混合各个头找到的内容。",
            mixed=lambda V: V.joined,
        ),
        mistake(
            "output_matrix_transposed",
            "W_o is not transposed: a matrix (out, in) is applied as x @ W_o.T.",
            "W_o 没有转置：形状为 (输出, 输入) 的矩阵写成 x @ W_o.T。",
            mixed=lambda V: V.joined @ V.W_o,
        ),
        mistake(
            "input_added",
            "The input is added to the result. The residual connection is outside of the attention.",
            "结果加上了输入。残差连接在注意力之外。",
            output=lambda V: V.mixed + V.x,
        ),
        *pick(SCORE_MISTAKES, "swapped_q_k"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "root_of_keys"),
        CAUSAL,
        *pick(SOFTMAX_MISTAKES, "over_queries", "softmax_twice", "no_softmax"),
    ),
    make_cases=_multi_head_cases,
    returns=("output",),
    oracle=lambda x, W_q, W_k, W_v, W_o, num_heads: reference.multi_head_attention(
        x, x, x, W_q, W_k, W_v, W_o, num_heads
    )[0],
)
