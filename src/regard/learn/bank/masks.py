"""The exercises on additive masks, which hide keys from queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import (
    BATCH,
    KEY,
    QUERY,
    choice,
    fixed,
    mistake,
    step,
)
from regard.learn.exercise import Case, Exercise, Mistake
from regard.learn.words import Words

__all__ = ["CAUSAL_MASK", "PADDING_MASK"]

Array = np.ndarray


# ---- 0 and -inf

# A number that people take in place of -inf.
LARGE = -1e9

# The name, the words and the numbers of each wrong additive mask, made of an array that is True at hidden keys.
_WRONG_NUMBERS: tuple[tuple[str, str, str, Callable[[Array], Array]], ...] = (
    (
        "one_keeps",
        "The mask has 1 where a key may be seen and 0 where not. An additive mask is added to the scores: 0 changes "
        "nothing, and -inf hides a key.",
        "掩码在可见处是 1，不可见处是 0。加性掩码要加到分数上：0 表示不变，-inf 表示隐藏。",
        lambda hidden: 1.0 - hidden,
    ),
    (
        "one_hides",
        "The mask has 1 where a key is hidden. Added to the scores, 1 would make the key more important. Use -inf.",
        "掩码在要隐藏处是 1。加到分数上，1 反而会让这个键更重要。应使用 -inf。",
        lambda hidden: 1.0 * hidden,
    ),
    (
        "minus_one",
        "The mask has -1 where a key is hidden. The key then keeps a weight that is only e times smaller. Use -inf.",
        "掩码在要隐藏处是 -1。这个键的权重只会缩小到 1/e。应使用 -inf。",
        lambda hidden: -1.0 * hidden,
    ),
    (
        "one_and_infinity",
        "The mask has 1 where a key may be seen. The mask is added to the scores, and 0 leaves them as they are.",
        "掩码在可见处是 1。掩码要加到分数上，0 才表示不变。",
        lambda hidden: np.where(hidden, -np.inf, 1.0),
    ),
    (
        "finite_number",
        "The mask has a large negative number such as -1e9 where a key is hidden. It is no -inf: added to a row whose "
        "keys are all hidden, it gives them equal weights, and -1e9 overflows in float16. Use -inf.",
        "掩码在要隐藏处是一个很大的负数，例如 -1e9。它不等于 -inf：如果一行的键全部要隐藏，它们会得到相等的权重；而且 "
        "-1e9 在 float16 中会溢出。应使用 -inf。",
        lambda hidden: np.where(hidden, LARGE, 0.0),
    ),
    (
        "plus_infinity",
        "The mask has +inf where a key is hidden. exp(+inf) takes all the weight. The sign is minus.",
        "掩码在要隐藏处是 +inf。exp(+inf) 会拿走全部权重。符号应为负。",
        lambda hidden: np.where(hidden, np.inf, 0.0),
    ),
    (
        "zero_times_infinity",
        "The mask has NaN, because 0 * -inf is NaN. Choose with np.where(hidden, -np.inf, 0.0) in place of a product.",
        "掩码中有 NaN，因为 0 * -inf 是 NaN。不要用乘法，用 np.where(hidden, -np.inf, 0.0) 来选择。",
        lambda hidden: hidden * -np.inf,
    ),
)


def one_large_number(mask: Array) -> Array:
    """Return a mask in which all large negative numbers are the same one.

    Learners choose many, such as -1e4, -1e9, -1e20 or the smallest number of a type, with one thought behind them.

    >>> one_large_number(np.array([0.0, -1.0, -65504.0, -np.inf]))
    array([ 0.e+00, -1.e+00, -1.e+09,   -inf])
    """
    mask = np.asarray(mask, dtype=float)
    return np.where(np.isfinite(mask) & (mask <= -30), LARGE, mask)


def _number_mistakes(stage: str) -> tuple[Mistake, ...]:
    """Return the wrong additive masks, made in one stage from the stage ``hidden``."""

    def replace(compute: Callable[[Array], Array]) -> dict[str, Callable[[Any], Array]]:
        return {stage: lambda V: compute(V.hidden)}

    return tuple(mistake(name, en, zh, **replace(compute)) for name, en, zh, compute in _WRONG_NUMBERS)


# ---- padding


def _padding_cases(rng: np.random.Generator) -> list[Case]:
    sequences = (
        [[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]],
        [[9, 9, 9, 4], [9, 5, 0, 2]],
        [[7, 7, 3], [0, 7, 1], [2, 2, 2]],
    )
    return [
        Case({"seq": np.array(seq), "pad_token": pad}) for seq, pad in zip(sequences, (0, 9, 7), strict=True)
    ]


def _by_length(V: Any) -> Array:
    lengths = (~V.padding).sum(-1)
    return np.arange(V.seq.shape[-1]) >= lengths[:, None]


PADDING_MASK = Exercise(
    name="padding_mask",
    title=Words("The padding mask", "填充掩码"),
    task=Words(
        "Write create_padding_mask(seq, pad_token). seq has token ids of the shape (batch, keys). Return an "
        "additive mask of\n"
        "the shape (batch, 1, keys): -inf where the token is pad_token, 0 elsewhere.\n"
        "The padding may stand anywhere in a sequence.",
        "编写 create_padding_mask(seq, pad_token)。seq 是词元编号，形状为（批，键数）。返回形状为（批，1，键数）"
        "的加性掩码：\n"
        "词元等于 pad_token 处为 -inf，其余为 0。填充可以出现在序列的任何位置。",
    ),
    hint=Words(
        "np.where(seq == pad_token, -np.inf, 0.0) has the numbers. [:, None, :] adds the axis of the queries.",
        "np.where(seq == pad_token, -np.inf, 0.0) 给出数值。[:, None, :] 加上查询的轴。",
    ),
    done=Words(
        "The axis of size 1 is that of the queries: all queries of a sequence skip the same keys.",
        "大小为 1 的轴是查询的轴：同一序列的所有查询跳过相同的键。",
    ),
    function="create_padding_mask",
    arguments=("seq", "pad_token"),
    steps=(
        choice("padding_id", lambda V: V.pad_token),
        choice("padding", lambda V: V.seq == V.padding_id),
        choice("found", lambda V: V.padding),
        step(
            "hidden",
            "where the token is pad_token",
            "词元等于 pad_token 的位置",
            lambda V: V.found,
            BATCH,
            KEY,
        ),
        step(
            "additive",
            "-inf at the padding and 0 elsewhere",
            "填充处为 -inf，其余为 0",
            lambda V: np.where(V.hidden, -np.inf, 0.0),
            BATCH,
            KEY,
        ),
        choice("rows", lambda V: V.additive),
        choice("paired", lambda V: V.rows[:, None, :]),
        step(
            "mask",
            "the mask with an axis for the queries",
            "加上查询轴的掩码",
            lambda V: V.paired,
            BATCH,
            QUERY,
            KEY,
        ),
    ),
    mistakes=(
        mistake(
            "inverted",
            "The mask is inverted: it hides the words and shows the padding.",
            "掩码反了：它隐藏了词，露出了填充。",
            hidden=lambda V: ~V.found,
        ),
        mistake(
            "pad_is_zero",
            "The padding is taken for 0. Its id is the argument pad_token.",
            "把填充当成了 0。它的编号是参数 pad_token。",
            padding_id=fixed(0),
        ),
        mistake(
            "from_first_pad_on",
            "Everything after the first padding is hidden. Padding may also stand at the start.",
            "第一个填充之后的内容都被隐藏了。填充也可能在开头。",
            found=lambda V: np.cumsum(V.padding, -1) > 0,
        ),
        mistake(
            "by_length",
            "The last keys are hidden, as many as there is padding. Padding may also stand at the start: "
            "compare each token with pad_token.",
            "按填充的个数隐藏了末尾的键。填充也可能在开头：应逐个比较词元与 pad_token。",
            found=_by_length,
        ),
        mistake(
            "smaller_too",
            "Tokens with a smaller id than pad_token are hidden too. Compare with ==.",
            "编号小于 pad_token 的词元也被隐藏了。应使用 == 比较。",
            padding=lambda V: V.seq <= V.padding_id,
        ),
        *_number_mistakes("additive"),
        mistake(
            "no_query_axis",
            "The axis of the queries is missing. Without it, (batch, keys) is read as (queries, keys).",
            "缺少查询的轴。没有它，（批，键）会被当成（查询，键）。",
            paired=lambda V: V.rows,
        ),
        mistake(
            "hides_queries",
            "The new axis is the last one, so the mask hides queries. The keys are the last axis of "
            "the scores: (batch, 1, keys).",
            "新的轴加在了最后，隐藏的成了查询。键是分数的最后一个轴：（批，1，键）。",
            paired=lambda V: V.rows[:, :, None],
        ),
        mistake(
            "head_axis_too",
            "There is one axis too many: (batch, 1, 1, keys) has an axis for heads as well.",
            "多了一个轴：（批，1，1，键）还包含头的轴。",
            mask=lambda V: V.paired[:, None],
        ),
        mistake(
            "every_pair",
            "The mask is repeated for each query. One row is enough, and broadcasting repeats it.",
            "掩码对每个查询都重复了一遍。一行就够了，广播会自动重复。",
            paired=lambda V: np.repeat(V.rows[:, None, :], V.seq.shape[-1], axis=1),
        ),
        mistake(
            "padded_queries_too",
            "The mask hides the padding from all queries, and all keys from the queries that are padding. The "
            "outputs of padding are not used, so one row for all queries is enough: (batch, 1, keys).",
            "掩码对所有查询隐藏了填充，又对是填充的查询隐藏了所有的键。填充位置的输出不会被使用，"
            "所以所有查询共用一行就够了：（批，1，键）。",
            paired=lambda V: np.minimum(V.rows[:, :, None], V.rows[:, None, :]),
        ),
        mistake(
            "first_sequence",
            "All sequences get the mask of the first one.",
            "所有序列都用了第一个序列的掩码。",
            rows=lambda V: np.repeat(V.additive[:1], len(V.seq), axis=0),
        ),
    ),
    make_cases=_padding_cases,
    returns=("mask",),
    alike=one_large_number,
    oracle=reference.create_padding_mask,
)


# ---- causal


def _sizes(name: str, *sizes: int) -> Callable[[np.random.Generator], list[Case]]:
    return lambda rng: [Case({name: size}) for size in sizes]


def _ahead(V: Any) -> Array:
    """Return how far key j is ahead of query i, j - i."""
    return np.arange(V.size)[None, :] - np.arange(V.size)[:, None]


CAUSAL_MASK = Exercise(
    name="causal_mask",
    title=Words("The causal mask", "因果掩码"),
    task=Words(
        "Write create_causal_mask(size): an additive mask of the shape (size, size) for a text that is written "
        "from left to\n"
        "right. Position i may see the positions 0 to i, itself too. The mask is 0 there and -inf elsewhere.",
        "编写 create_causal_mask(size)：用于从左到右书写的文本，形状为 (size, size) 的加性掩码。\n"
        "位置 i 可以看到位置 0 到 i，包括自己。这些位置为 0，其余为 -inf。",
    ),
    hint=Words(
        "np.triu(np.ones((size, size)), k=1) is 1 above the diagonal. Those are the pairs to hide.",
        "np.triu(np.ones((size, size)), k=1) 在对角线以上为 1。要隐藏的正是这些。",
    ),
    done=Words(
        "With this mask a model cannot see the word that it has to predict. All positions can be trained at once.",
        "有了这个掩码，模型看不到它要预测的词，所有位置可以同时训练。",
    ),
    function="create_causal_mask",
    arguments=("size",),
    steps=(
        choice("ahead", _ahead),
        choice("later", lambda V: V.ahead > 0),
        step("hidden", "the keys after the query", "查询之后的键", lambda V: V.later, QUERY, KEY),
        step(
            "mask",
            "-inf at later keys and 0 elsewhere",
            "之后的键为 -inf，其余为 0",
            lambda V: np.where(V.hidden, -np.inf, 0.0),
            QUERY,
            KEY,
        ),
    ),
    mistakes=(
        mistake(
            "hides_itself",
            "Each position is hidden from itself, and the first position sees nothing. The diagonal "
            "is visible: np.triu(..., k=1).",
            "每个位置都看不到自己，第一个位置什么也看不到。对角线应可见：np.triu(..., k=1)。",
            later=lambda V: V.ahead >= 0,
        ),
        mistake(
            "past_hidden",
            "The mask hides the past and shows the future. Rows are queries and columns are keys, so "
            "the upper triangle is hidden.",
            "掩码隐藏了过去，露出了未来。行是查询，列是键，所以隐藏的是上三角。",
            later=lambda V: V.ahead < 0,
        ),
        mistake(
            "past_and_itself_hidden",
            "The mask hides the past and the position itself. The upper triangle without "
            "the diagonal is hidden.",
            "掩码隐藏了过去和自己。应隐藏不含对角线的上三角。",
            later=lambda V: V.ahead <= 0,
        ),
        mistake(
            "one_ahead",
            "Each position sees one position of the future, the very word to predict. Hide from the "
            "first diagonal above the main one: k=1.",
            "每个位置能看到一个未来的位置，正是要预测的词。应从主对角线上方的第一条开始隐藏：k=1。",
            later=lambda V: V.ahead > 1,
        ),
        mistake(
            "only_itself",
            "Each position sees only itself. It may see all positions before it too.",
            "每个位置只能看到自己。它之前的所有位置也应可见。",
            later=lambda V: V.ahead != 0,
        ),
        mistake(
            "other_diagonal",
            "The triangle is cut along the other diagonal. Compare key and query: j > i.",
            "三角形沿另一条对角线切开了。应比较键与查询的位置：j > i。",
            ahead=lambda V: _ahead(V)[:, ::-1],
        ),
        mistake(
            "one_row_late",
            "The rows are shifted by one: row i has the mask of row i + 1.",
            "各行错开了一位：第 i 行用的是第 i+1 行的掩码。",
            hidden=lambda V: np.roll(V.later, -1, axis=0),
        ),
        mistake("nothing_hidden", "Nothing is hidden.", "什么都没有隐藏。", later=lambda V: V.ahead > V.size),
        *_number_mistakes("mask"),
    ),
    make_cases=_sizes("size", 4, 1, 7),
    returns=("mask",),
    alike=one_large_number,
    oracle=reference.create_causal_mask,
)
