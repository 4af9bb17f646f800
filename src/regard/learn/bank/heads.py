"""The exercises on splitting the width into heads and on joining the heads again."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.learn.bank.shared_steps import BATCH, FEATURE, HEAD, POSITION, choice, mistake, numbers, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["MERGE_HEADS", "SPLIT_HEADS"]

Array = np.ndarray


# ---- splitting


def _split_cases(rng: np.random.Generator) -> list[Case]:
    # The first case has as many sequences, positions, heads and features.
    sizes = ((2, 2, 2, 2), (2, 3, 5, 7), (3, 4, 2, 3))
    return [Case({**numbers(rng, x=(b, n, h * d)).arguments, "num_heads": h}) for b, n, h, d in sizes]


def _sizes(V: Any) -> tuple[int, int, int, int]:
    """Return the sizes b, n, h, d of an input (b,n,h*d)."""
    b, n, m = V.x.shape
    return b, n, V.num_heads, m // V.num_heads


def _parts(V: Any) -> Array:
    return V.x.reshape(_sizes(V))  # (b,n,h,d)


def _reshaped(V: Any) -> Array:
    b, n, h, d = _sizes(V)
    return V.x.reshape(b, h, n, d).swapaxes(1, 2)


def _interleaved(V: Any) -> Array:
    b, n, h, d = _sizes(V)
    return V.x.reshape(b, n, d, h).swapaxes(-1, -2)


def _confused(V: Any) -> Array:
    b, n, h, d = _sizes(V)
    return V.x.reshape(b, n, d, h)


SPLIT_HEADS = Exercise(
    name="split_heads",
    title=Words("Splitting into heads", "拆分成多个头"),
    task=Words(
        "Write split_heads(x, num_heads): (batch, n, m) -> (batch, heads, n, d) with d = m / heads.\n"
        "Head 0 gets the first d features of every position, head 1 the next d, and so on.",
        "编写 split_heads(x, num_heads)：(批, n, m) -> (批, 头, n, d)，其中 d = m / 头数。\n"
        "头 0 得到每个位置的前 d 个特征，头 1 得到接下来的 d 个，依此类推。",
    ),
    hint=Words(
        "First x.reshape(b, n, num_heads, d), which cuts each row into parts. Then move the axis of the heads forward.",
        "先用 x.reshape(b, n, num_heads, d) 把每一行切成几段，再把头的轴移到前面。",
    ),
    done=Words(
        "A reshape keeps the order of the numbers and only cuts them into other axes. Moving an axis changes their "
        "order. So the two cannot replace each other.",
        "reshape 不改变数的次序，只是换一种方式切分成轴；移动轴则会改变次序。所以二者不能互相替代。",
    ),
    function="split_heads",
    arguments=("x", "num_heads"),
    steps=(
        choice("cut", _parts),
        choice("ordered", lambda V: V.cut),
        step(
            "parts",
            "each row cut into heads, (batch, n, heads, d)",
            "每一行切成各个头，(批, n, 头, d)",
            lambda V: V.ordered,
            BATCH,
            POSITION,
            HEAD,
            FEATURE,
        ),
        choice("moved", lambda V: V.parts.swapaxes(1, 2)),
        step(
            "heads",
            "the axis of the heads moved forward",
            "把头的轴移到前面",
            lambda V: V.moved,
            BATCH,
            HEAD,
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "interleaved",
            "The features go to the heads in turn: feature 0 to head 0, feature 1 to head 1. Each head gets "
            "d features that are next to each other: reshape(b, n, num_heads, d).",
            "特征轮流分给了各个头：特征 0 给头 0，特征 1 给头 1。每个头应得到相邻的 d 个特征：reshape(b, n, "
            "num_heads, d)。",
            cut=_interleaved,
        ),
        mistake(
            "heads_and_width_confused",
            "The number of heads and their width are confused: reshape(b, n, num_heads, d), with "
            "the heads before their features.",
            "头的个数与宽度混淆了：应为 reshape(b, n, num_heads, d)，头在特征之前。",
            cut=_confused,
        ),
        mistake(
            "heads_reversed",
            "The heads are in reverse order: head 0 gets the first features.",
            "头的顺序反了：头 0 应得到最前面的特征。",
            ordered=lambda V: V.cut[:, :, ::-1],
        ),
        mistake(
            "first_head_repeated",
            "All heads get the features of the first one.",
            "所有头都得到了第一个头的特征。",
            parts=lambda V: np.repeat(V.ordered[:, :, :1], V.num_heads, axis=2),
        ),
        mistake(
            "whole_width",
            "Every head gets the whole width. The width is divided among the heads.",
            "每个头都得到了整个宽度。宽度应分给各个头。",
            cut=lambda V: np.repeat(V.x[:, :, None, :], V.num_heads, axis=2),
        ),
        mistake(
            "reshaped_to_heads",
            "x is reshaped to (batch, heads, n, d) directly. That cuts the rows of different positions "
            "together, so a head sees only a part of the sequence. Reshape to (batch, n, heads, d), then swap axes.",
            "直接 reshape 成了 (批, 头, n, d)。这样会把不同位置的行切到一起，一个头只看到序列的一部分。"
            "应先 reshape 成 (批, n, 头, d)，再交换轴。",
            cut=_reshaped,
        ),
        mistake(
            "axes_not_swapped",
            "The heads stay behind the positions, (batch, n, heads, d). Attention runs over the last two "
            "axes, so positions and features have to be there.",
            "头的轴留在了位置之后，(批, n, 头, d)。注意力作用在最后两个轴上，它们应是位置和特征。",
            moved=lambda V: V.parts,
        ),
        mistake(
            "heads_first",
            "The heads come before the batch. The order is (batch, heads, n, d).",
            "头的轴在批之前了。顺序是 (批, 头, n, d)。",
            moved=lambda V: V.parts.transpose(2, 0, 1, 3),
        ),
        mistake(
            "heads_last",
            "The heads are the last axis. The order is (batch, heads, n, d).",
            "头成了最后一个轴。顺序是 (批, 头, n, d)。",
            moved=lambda V: V.parts.transpose(0, 1, 3, 2),
        ),
        mistake(
            "positions_last",
            "Positions and features are swapped: (batch, heads, d, n).",
            "位置与特征交换了：(批, 头, d, n)。",
            moved=lambda V: V.parts.transpose(0, 2, 3, 1),
        ),
        mistake(
            "batch_and_heads_merged",
            "Batch and heads are merged into one axis. Keep both.",
            "批与头合并成了一个轴。应保留两个轴。",
            heads=lambda V: V.moved.reshape(-1, *V.moved.shape[2:]),
        ),
    ),
    make_cases=_split_cases,
    returns=("heads",),
    oracle=lambda x, num_heads: np.stack(np.split(x, num_heads, axis=-1), axis=1),
)


# ---- joining


def _join(parts: Array) -> Array:
    return parts.reshape(*parts.shape[:2], -1)


MERGE_HEADS = Exercise(
    name="merge_heads",
    title=Words("Joining the heads", "合并各个头"),
    task=Words(
        "Write merge_heads(x): (batch, heads, n, d) -> (batch, n, heads * d), the inverse of split_heads.\n"
        "Each position gets the features of head 0, then those of head 1, and so on.",
        "编写 merge_heads(x)：(批, 头, n, d) -> (批, n, 头 * d)，它是 split_heads 的逆运算。\n"
        "每个位置先是头 0 的特征，然后是头 1 的特征，依此类推。",
    ),
    hint=Words(
        "First swap the axes of heads and positions, then reshape the last two into one.",
        "先交换头与位置的轴，再把最后两个轴 reshape 成一个。",
    ),
    done=Words(
        "After this, one matrix W_o mixes what the heads found.",
        "之后用一个矩阵 W_o 混合各个头找到的内容。",
    ),
    function="merge_heads",
    arguments=("x",),
    steps=(
        choice("ordered", lambda V: V.x),
        step(
            "parts",
            "the heads behind the positions, (batch, n, heads, d)",
            "头在位置之后，(批, n, 头, d)",
            lambda V: V.ordered.swapaxes(1, 2),
            BATCH,
            POSITION,
            HEAD,
            FEATURE,
        ),
        choice("together", lambda V: _join(V.parts)),
        choice("turned", lambda V: V.together),
        step(
            "joined",
            "the heads joined, (batch, n, heads * d)",
            "各个头拼接，(批, n, 头 * d)",
            lambda V: V.turned,
            BATCH,
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "axes_not_swapped",
            "x is reshaped without swapping axes first. The rows of the result then mix different "
            "positions. Bring the heads next to the features, x.swapaxes(1, 2), then reshape.",
            "没有先交换轴就 reshape 了，结果的行混合了不同的位置。应先用 x.swapaxes(1, 2) 把头放到特征旁边，再 "
            "reshape。",
            parts=lambda V: V.ordered.reshape(V.x.shape[0], V.x.shape[2], V.x.shape[1], V.x.shape[3]),
        ),
        mistake(
            "features_before_heads",
            "The features come before the heads, so the result is interleaved. Swap only heads and "
            "positions.",
            "特征在头之前，结果成了交错排列。只交换头和位置的轴。",
            parts=lambda V: V.ordered.transpose(0, 2, 3, 1),
        ),
        mistake(
            "heads_reversed",
            "The heads are joined in reverse order.",
            "各个头按相反的顺序拼接了。",
            ordered=lambda V: V.x[:, ::-1],
        ),
        mistake(
            "mean_of_heads",
            "The heads are averaged. They are put side by side, so that nothing is lost.",
            "各个头取了平均。应并排拼接，不丢失信息。",
            together=lambda V: V.parts.mean(2),
        ),
        mistake(
            "sum_of_heads",
            "The heads are added. They are put side by side, so that nothing is lost.",
            "各个头相加了。应并排拼接，不丢失信息。",
            together=lambda V: V.parts.sum(2),
        ),
        mistake(
            "largest_of_heads",
            "The largest number of the heads is taken. They are put side by side.",
            "取了各个头中的最大值。应并排拼接。",
            together=lambda V: V.parts.max(2),
        ),
        mistake(
            "first_head",
            "Only the first head is returned.",
            "只返回了第一个头。",
            together=lambda V: V.parts[:, :, 0],
        ),
        mistake(
            "last_head",
            "Only the last head is returned.",
            "只返回了最后一个头。",
            together=lambda V: V.parts[:, :, -1],
        ),
        mistake(
            "along_positions",
            "The heads are joined along the positions. They are joined along the features.",
            "沿位置拼接了各个头。应沿特征拼接。",
            together=lambda V: V.parts.swapaxes(1, 2).reshape(len(V.x), -1, V.x.shape[-1]),
        ),
        mistake(
            "not_joined",
            "The last two axes are not joined: (batch, n, heads, d).",
            "最后两个轴没有合并：(批, n, 头, d)。",
            together=lambda V: V.parts,
        ),
        mistake(
            "positions_last",
            "Positions and features are swapped in the result.",
            "结果中位置与特征交换了。",
            turned=lambda V: V.together.swapaxes(1, 2),
        ),
        mistake(
            "batch_merged",
            "The batch is merged with the positions. Keep the batch axis.",
            "批与位置合并了。应保留批的轴。",
            joined=lambda V: V.turned.reshape(-1, V.turned.shape[-1]),
        ),
    ),
    make_cases=lambda rng: [
        numbers(rng, x=(b, h, n, d)) for b, h, n, d in ((2, 2, 2, 2), (2, 3, 5, 7), (3, 2, 4, 3))
    ],
    returns=("joined",),
    oracle=lambda x: np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1),
)
