"""The exercises on the mask of a sliding window and on attention with a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.attention import (
    SCALE_MISTAKES,
    SCORE_MISTAKES,
    VALUE_MISTAKES,
    score_steps,
    value_steps,
)
from regard.learn.bank.shared_steps import (
    FEATURE,
    KEY,
    QUERY,
    choice,
    fixed,
    mistake,
    numbers,
    pick,
    step,
)
from regard.learn.bank.softmaxes import HARDMAX_AT_TIES, SOFTMAX_MISTAKES, softened, softmax_steps
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["MASKED_ATTENTION", "WINDOW_MASK"]

Array = np.ndarray


# ---- sliding window


def _back(V: Any) -> Array:
    """Return how far key j is behind query i, i - j."""
    return np.arange(V.size)[:, None] - np.arange(V.size)[None, :]


def _same_block(V: Any) -> Array:
    block = np.arange(V.size) // V.window
    return block[:, None] == block[None, :]


def _from_slices(V: Any) -> Array:
    mask = np.zeros((V.size, V.size), dtype=bool)
    for i in range(V.size):
        mask[i, i - V.longest : V.size if V.shortest is None else i + 1 - V.shortest] = True
    return mask


def _past(V: Any) -> Array:
    """Return which distances are long enough. Without a shortest one, all are."""
    return V.distance == V.distance if V.shortest is None else V.distance >= V.shortest


WINDOW_MASK = Exercise(
    name="window_mask",
    title=Words("The sliding window of long texts", "长文本的滑动窗口"),
    task=Words(
        "Write window_mask(size, window): a mask of bool with the shape (size, size). Query i may see key j if "
        "j is i or one\n"
        "of the window - 1 positions before it. So each row has at most `window` times True.",
        "编写 window_mask(size, window)：形状为 (size, size) 的布尔掩码。如果 j 是 i 或它之前的 window - 1 个位"
        "置之一，\n"
        "查询 i 就可以看到键 j。所以每一行最多有 window 个 True。",
    ),
    hint=Words(
        "With i = np.arange(size)[:, None] and j = np.arange(size)[None, :], look at the distance i - j.",
        "令 i = np.arange(size)[:, None]，j = np.arange(size)[None, :]，看距离 i - j。",
    ),
    done=Words(
        "With a window the cost grows with size × window in place of size².",
        "有了窗口，计算量按 size × window 增长，而不是 size²。",
    ),
    function="window_mask",
    arguments=("size", "window"),
    steps=(
        choice("back", _back),
        step("distance", "the distance i - j", "距离 i - j", lambda V: V.back, QUERY, KEY),
        choice("longest", lambda V: V.window - 1),
        choice("in_reach", lambda V: V.distance <= V.longest),
        step(
            "near",
            "distances smaller than the window",
            "小于 window 的距离",
            lambda V: V.in_reach,
            QUERY,
            KEY,
        ),
        choice("shortest", fixed(0)),
        step("past", "distances of 0 and more", "不小于 0 的距离", _past, QUERY, KEY),
        choice("both", lambda V: V.near & V.past),
        choice("shown", lambda V: V.both),
        step("mask", "both conditions together", "两个条件同时成立", lambda V: V.shown, QUERY, KEY),
    ),
    mistakes=(
        mistake(
            "forward",
            "The window looks forward: i and j are swapped in the distance i - j.",
            "窗口朝向未来：距离 i - j 中 i 和 j 交换了。",
            back=lambda V: -_back(V),
        ),
        mistake(
            "both_sides",
            "The window looks into the future too. Only keys up to the query are seen: i - j >= 0, without "
            "the absolute value.",
            "窗口也看到了未来。只能看到查询及之前的键：i - j >= 0，不取绝对值。",
            distance=lambda V: np.abs(V.back),
        ),
        mistake(
            "around_the_end",
            "The window goes around the end: the first queries see the last keys. A distance is "
            "i - j, not its remainder.",
            "窗口绕过了末尾：最前面的查询看到了最后的键。距离是 i - j，不取余数。",
            distance=lambda V: V.back % V.size,
        ),
        mistake(
            "one_too_many",
            "The window is one position too long. It includes the query itself, so distances go up to "
            "window - 1.",
            "窗口长了一个位置。窗口包括查询自己，所以距离最大为 window - 1。",
            longest=lambda V: V.window,
        ),
        mistake(
            "one_too_few",
            "The window is one position too short: distances go up to window - 1.",
            "窗口短了一个位置：距离最大为 window - 1。",
            longest=lambda V: V.window - 2,
        ),
        mistake(
            "no_start",
            "All earlier keys are seen. Keys further back than window - 1 are hidden.",
            "所有更早的键都能看到。距离超过 window - 1 的键应隐藏。",
            in_reach=lambda V: V.distance == V.distance,
        ),
        mistake(
            "blocks",
            "These are blocks, not a window. A window slides with each query.",
            "这是分块，不是窗口。窗口随每个查询滑动。",
            in_reach=_same_block,
        ),
        mistake(
            "every_nth",
            "Every window-th key is seen. The window is without gaps.",
            "每隔 window 个键才看到一个。窗口中间没有空缺。",
            in_reach=lambda V: V.distance % V.window == 0,
        ),
        mistake(
            "centred",
            "The window is centred at the query: keys within window // 2 on both sides are seen. It ends at "
            "the query: the query and the window - 1 positions before it.",
            "窗口以查询为中心：两侧 window // 2 以内的键都能看到。窗口应在查询处结束："
            "查询自己和它之前的 window - 1 个位置。",
            in_reach=lambda V: np.abs(V.distance) <= V.window // 2,
            shortest=fixed(None),
        ),
        mistake(
            "without_itself",
            "The query does not see itself. The window starts at distance 0.",
            "查询看不到自己。窗口从距离 0 开始。",
            shortest=fixed(1),
        ),
        mistake(
            "no_end",
            "Keys of the future are seen, all of them. Add i - j >= 0.",
            "未来的键全都能看到。还要加上 i - j >= 0。",
            shortest=fixed(None),
        ),
        mistake(
            "inverted",
            "The mask is inverted: True means that the key may be seen.",
            "掩码反了：True 表示可以看到。",
            shown=lambda V: ~V.both,
        ),
        mistake(
            "negative_start",
            "The first rows are wrong. There the slice starts at i - window + 1, which is negative, and Python counts "
            "a negative start from the end. Start at max(0, i - window + 1).",
            "最前面几行不对。那里切片的起点 i - window + 1 是负数，而 Python 把负的起点从末尾数起。起点应为 "
            "max(0, i - window + 1)。",
            back=_back,
            distance=lambda V: V.back,
            in_reach=lambda V: V.distance <= V.longest,
            both=_from_slices,
        ),
        mistake(
            "additive",
            "This is an additive mask of 0 and -inf. The exercise asks for a mask of bool, with True where a key may "
            "be seen.",
            "这是由 0 和 -inf 组成的加性掩码。本题要的是布尔掩码，可以看到的键为 True。",
            mask=lambda V: np.where(V.shown, 0.0, -np.inf),
        ),
        mistake(
            "either",
            "One of the two conditions is enough here. Both have to hold: & in place of |.",
            "这里两个条件满足一个就行了。两个都要满足：用 &，不是 |。",
            both=lambda V: V.near | V.past,
        ),
        mistake(
            "nothing_visible",
            "No key is visible: the mask is False everywhere. Every query sees at least itself. np.triu(..., window) "
            "starts window positions after the diagonal, np.triu(..., 1 - window) window - 1 positions before it.",
            "没有可见的键：掩码处处为 False。每个查询至少能看到自己。np.triu(..., window) 从对角线之后 window 个位置"
            "开始，np.triu(..., 1 - window) 从对角线之前 window - 1 个位置开始。",
            both=lambda V: V.near & False,
        ),
    ),
    make_cases=lambda rng: [
        Case({"size": n, "window": w}) for n, w in ((6, 3), (5, 2), (7, 1), (3, 4), (11, 5))
    ],
    returns=("mask",),
)


# ---- masked attention


def _masked_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for q, k, d, dv in ((4, 4, 4, 4), (3, 5, 2, 7), (2, 3, 5, 4)):
        case = dict(numbers(rng, q=(q, d), k=(k, d), v=(k, dv)).arguments)
        mask = rng.random((q, k)) < 0.6
        mask[:, 1] = [True] * (q - 1) + [False]
        mask[0, 0], mask[0, 2] = False, True
        # The last query of the last case may attend to no key.
        mask[-1, -1] = True
        if d == 5:
            mask[-1] = False
        cases.append(Case({**case, "mask": mask}))
    return [*cases, _far_apart(rng)]


def _far_apart(rng: np.random.Generator) -> Case:
    """Return a case whose hidden keys have scores that are more than 10 above those of the visible keys."""
    case = dict(numbers(rng, q=(3, 2), k=(5, 2), v=(5, 3)).arguments)
    case["k"][:, 0] = [0.5, -0.25, 6.0, 5.5, 0.25]
    case["q"][:, 0] = [3.0, 3.5, 4.0]
    mask = np.array([[True, True, False, False, True]] * 3)
    return Case({**case, "mask": mask})


MASKED_ATTENTION = Exercise(
    name="masked_attention",
    title=Words("Attention with a mask", "带掩码的注意力"),
    task=Words(
        "Write masked_attention(q, k, v, mask). mask is an array of bool with the shape (queries, keys). True "
        "means that the\n"
        "query may attend to the key. Hidden keys get the weight 0, and the others share the weight 1.\n"
        "A query that may attend to no key has an output of zeros, not NaN.",
        "编写 masked_attention(q, k, v, mask)。mask 是布尔数组，形状为（查询数，键数），True 表示查询可以注意这个键。\n"
        "隐藏的键权重为 0，其余的键分享总和为 1 的权重。\n"
        "如果一个查询不能注意任何键，它的输出是零，而不是 NaN。",
    ),
    hint=Words(
        "np.where(mask, scaled, -np.inf) before the softmax. A row of only -inf has no maximum to subtract and "
        "a sum of 0: "
        "treat it on its own.",
        "在 softmax 之前用 np.where(mask, scaled, -np.inf)。全为 -inf 的行没有可减的最大值，和为 0：要单独处理。",
    ),
    done=Words(
        "The mask acts before the softmax, so the visible keys share the whole weight.",
        "掩码作用在 softmax 之前，所以可见的键分享全部权重。",
    ),
    function="masked_attention",
    arguments=("q", "k", "v", "mask"),
    steps=(
        *score_steps(),
        choice("turned_mask", lambda V: V.mask),
        choice("visible", lambda V: V.turned_mask),
        choice("masking", fixed(lambda scaled, visible: np.where(visible, scaled, -np.inf))),
        step(
            "masked",
            "the scores with -inf for hidden keys",
            "隐藏处为 -inf 的分数",
            lambda V: V.masking(V.scaled, V.visible),
            QUERY,
            KEY,
        ),
        *softmax_steps("masked", QUERY, KEY),
        *value_steps("output", "the output weights @ v", "输出 weights @ v", QUERY, FEATURE),
    ),
    mistakes=(
        mistake(
            "mask_ignored",
            "The mask is not used.",
            "没有使用掩码。",
            masking=fixed(lambda scaled, visible: scaled),
        ),
        mistake(
            "mask_inverted",
            "The mask is inverted: True means that the query may attend to the key.",
            "掩码反了：True 表示查询可以注意这个键。",
            visible=lambda V: ~V.turned_mask,
        ),
        mistake(
            "mask_after_softmax",
            "The mask comes after the softmax. The hidden keys have taken their share by then, and "
            "the rest no longer sums to 1. Set the scores to -inf before the softmax.",
            "掩码放在了 softmax 之后。隐藏的键已经分走了权重，剩下的和不再是 1。应在 softmax 之前把分数设为 -inf。",
            masking=fixed(lambda scaled, visible: scaled),
            softened=lambda V: softened(V, V.masked) * V.visible,
        ),
        mistake(
            "zero_scores",
            "Hidden scores are set to 0. A score of 0 still gets weight, since exp(0) is 1. Use -inf.",
            "隐藏处的分数设为了 0。分数 0 仍有权重，因为 exp(0) 是 1。应使用 -inf。",
            masking=fixed(lambda scaled, visible: scaled * visible),
        ),
        mistake(
            "mask_added",
            "The mask is added as 0 and 1. Add -inf where it is False, and 0 where it is True.",
            "掩码作为 0 和 1 加到了分数上。应在 False 处加 -inf，在 True 处加 0。",
            masking=fixed(lambda scaled, visible: scaled + visible),
        ),
        mistake(
            "minus_ten",
            "Hidden scores are lowered by about 10, so that hidden keys keep a small weight. Use -inf.",
            "隐藏处的分数只降低了 10 左右，隐藏的键仍有很小的权重。应使用 -inf。",
            masking=fixed(lambda scaled, visible: scaled - 10.0 * ~visible),
        ),
        mistake(
            "large_number_added",
            "A large negative number, such as -1e9, is added to the hidden scores. In a row without a visible key "
            "it is added to every score, so the query attends as if nothing were masked. Its weights have to be 0.",
            "隐藏处的分数加上了一个很大的负数，例如 -1e9。在没有可见键的行里，每个分数都加上了它，查询就像没有掩码一样"
            "注意所有的键。它的权重应为 0。",
            masking=fixed(lambda scaled, visible: scaled - 1e9 * ~visible),
        ),
        mistake(
            "zero_times_infinity",
            "A product of -inf gives NaN at visible keys, because 0 * -inf is NaN. Choose with "
            "np.where(mask, scaled, -np.inf) in place of a product.",
            "与 -inf 相乘使可见的键变成 NaN，因为 0 * -inf 是 NaN。不要用乘法，用 np.where(mask, scaled, -np.inf) "
            "来选择。",
            masking=fixed(lambda scaled, visible: scaled + ~visible * -np.inf),
            empty_rows_zero=fixed(False),
        ),
        mistake(
            "mask_transposed",
            "The mask is transposed. Its rows are queries and its columns are keys.",
            "掩码被转置了。它的行是查询，列是键。",
            turned_mask=lambda V: V.mask.T,
        ),
        mistake(
            "empty_rows_nan",
            "A query without any visible key gives NaN: the softmax divides 0 by 0. Its weights have to "
            "be 0.",
            "没有可见键的查询得到了 NaN：softmax 中出现了 0 除以 0。它的权重应为 0。",
            empty_rows_zero=fixed(False),
        ),
        mistake(
            "empty_rows_uniform",
            "A query without any visible key gets equal weights for all hidden keys. This happens if hidden "
            "scores are replaced by one number, such as -1e9. Its weights have to be 0.",
            "没有可见键的查询给所有隐藏的键分了相等的权重。把隐藏处的分数都换成同一个数（例如 -1e9）"
            "就会这样。它的权重应为 0。",
            masking=fixed(lambda scaled, visible: np.where(visible, scaled, -1e9)),
        ),
        *pick(SCORE_MISTAKES, "swapped_q_k"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "multiplied"),
        *pick(SOFTMAX_MISTAKES, "over_queries", "softmax_twice", "hardmax"),
        *pick(HARDMAX_AT_TIES, "hardmax_all", "hardmax_of_visible"),
        *pick(VALUE_MISTAKES, "weights_transposed", "mean_of_values"),
    ),
    make_cases=_masked_cases,
    returns=("output",),
    oracle=lambda q, k, v, mask: reference.scaled_dot_product_attention(q, k, v, mask)[0],
)
