"""The three questions of tutorial 003, each answered with a measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from regard import reference
from regard.learn.words import Words

__all__ = [
    "HeadAverage",
    "ScaleRow",
    "ShuffleRow",
    "answer_questions",
    "measure_heads",
    "measure_scaling",
    "measure_shuffling",
]

Array = np.ndarray

# ---- why scores are divided by the root of the width


class ScaleRow(NamedTuple):
    """Averages for one width, without and with the division by its root.

    ``largest`` is the largest weight of a query. ``slope`` is the sum of the derivatives of its weights by their own
    scores, 1 - Σ w², which is 0 for a one-hot row.
    """

    width: int
    deviation: float
    largest: float
    slope: float
    largest_scaled: float
    slope_scaled: float


def measure_scaling(
    widths: Sequence[int] = (4, 16, 64, 256, 1024), keys: int = 16, queries: int = 500
) -> list[ScaleRow]:
    """Measure how the softmax of dot products changes with the width of random vectors.

    >>> row = measure_scaling([64])[0]
    >>> round(row.deviation), row.largest > 2 * row.largest_scaled
    (8, True)
    """
    rng = np.random.default_rng(3)
    rows = []
    for width in widths:
        q, k = rng.standard_normal((queries, width)), rng.standard_normal((keys, width))
        numbers = []
        for scores in (reference.dot_scores(q, k), reference.scaled_dot_scores(q, k)):
            weights = reference.softmax(scores)  # (q,k)
            numbers += [weights.max(-1).mean(), (1 - (weights**2).sum(-1)).mean()]
        rows.append(ScaleRow(width, reference.dot_scores(q, k).std(), *map(float, numbers)))
    return rows


# ---- self-attention and cross-attention


class ShuffleRow(NamedTuple):
    """How much the outputs of self-attention of a source and of cross-attention from a target to it change.

    ``change`` says what was changed. The other fields are the largest difference of a number in the outputs.
    """

    change: str
    self_attention: float
    cross_attention: float


def measure_shuffling(words: int = 7, targets: int = 5, width: int = 16) -> list[ShuffleRow]:
    """Measure which outputs change if the source is shuffled, if one of its words changes, and if the target changes.

    >>> [round(row.self_attention, 6) > 0 for row in measure_shuffling()]
    [True, False, True, False]
    """
    rng = np.random.default_rng(4)
    source, target = rng.standard_normal((words, width)), rng.standard_normal((targets, width))
    order = rng.permutation(words)
    other = source.copy()
    other[-1] = rng.standard_normal(width)

    def attend(queries: Array, keys: Array) -> Array:
        return reference.scaled_dot_product_attention(queries, keys, keys)[0]

    def difference(one: Array, two: Array) -> float:
        return float(np.abs(one - two).max())

    inside, across = attend(source, source), attend(target, source)
    shuffled = source[order]
    return [
        ShuffleRow(
            "shuffled",
            difference(inside, attend(shuffled, shuffled)),
            difference(across, attend(target, shuffled)),
        ),
        ShuffleRow(
            "shuffled back",
            difference(inside[order], attend(shuffled, shuffled)),
            difference(across, attend(target, shuffled)),
        ),
        ShuffleRow(
            "one word", difference(inside, attend(other, other)), difference(across, attend(target, other))
        ),
        ShuffleRow(
            "target",
            difference(inside, attend(source, source)),
            difference(across, attend(rng.standard_normal(target.shape), source)),
        ),
    ]


# ---- what the heads learn


class HeadAverage(NamedTuple):
    """The mean weights of one head of an encoder, by where the key is.

    ``end`` is the end-of-sentence token, and ``elsewhere`` the rest. All are means over the tokens before the end.
    """

    layer: int
    head: int
    before: float
    itself: float
    after: float
    end: float
    elsewhere: float


def measure_heads(sentences: int = 24) -> tuple[HeadAverage, list[HeadAverage]]:
    """Measure where the heads of the encoder of the shipped translator to French look, in generated sentences.

    Returns the averages of equal weights, whose layer and head are -1, and those of each head.
    """
    from regard.corpus import generate
    from regard.tasks import find_model, load

    translator = load(find_model("translate", languages=("en", "fr")))
    sums: dict[tuple[int, int], Array] = {}

    def add(layer: int, head: int, weights: Array) -> None:
        sums[layer, head] = sums.get((layer, head), 0) + _parts(weights)

    for one in generate(sentences, split="test"):
        (translation,) = translator([one.english.text], beams=1)
        encoder = [record for record in translator.attention(translation) if "encoder" in record.name]
        for layer, record in enumerate(encoder):
            heads = np.asarray(record.map.weights())[0]  # (h,q,k)
            for head, weights in enumerate(heads):
                add(layer, head, weights)
            if layer == 0:
                add(-1, -1, np.full_like(heads[0], 1 / heads.shape[-1]))
    equal, *found = [HeadAverage(*key, *map(float, sums[key][:5] / sums[key][5])) for key in sorted(sums)]
    return equal, found


def _parts(weights: Array) -> Array:
    """Return the sums of the weights before, at and after each token, on the end and elsewhere, and the number of rows.

    ``weights`` is (n,n), and its last token is the end of the sentence. The first token has none before it, and the
    last word has the end after it, which counts as the end.
    """
    size = len(weights) - 1
    rows = weights[:size]
    before, itself = np.trace(rows, offset=-1), np.trace(rows)
    after = np.trace(rows[:, :size], offset=1)
    end = rows[:, -1].sum()
    return np.array([before, itself, after, end, size - before - itself - after - end, size])


# ---- the answers in words

_SCALING = Words(
    """1. Why are the scores divided by √d?

The dot product of two random vectors has the standard deviation √d. Without the division, the softmax of wide vectors
is nearly one-hot, and its slope, by which gradients are multiplied, goes to 0. With the division, the largest weight
and the slope stay nearly the same at every width. (500 random queries, 16 keys)
""",
    """1. 为什么要除以 √d 进行缩放？

两个随机向量的点积的标准差是 √d。不缩放时，宽向量的 softmax 接近 one-hot，它的斜率（梯度要乘以它）趋于 0。
缩放之后，最大权重和斜率在任何宽度下几乎不变。（500 个随机查询，16 个键）
""",
)
_SCALING_HEAD = (
    Words("d", "d"),
    Words("deviation", "标准差"),
    Words("largest weight", "最大权重"),
    Words("slope", "斜率"),
    Words("divided by √d: largest weight", "除以 √d 之后：最大权重"),
    Words("slope", "斜率"),
)
_SHUFFLING = Words(
    """2. What is the difference between self-attention and cross-attention?

Self-attention compares a text with itself: one output for each of its words. Cross-attention compares a target with a
source: one output for each target word. The largest change of an output:
""",
    """2. 自注意力和交叉注意力有什么区别？

自注意力让一个文本与自己比较：它的每个词有一个输出。交叉注意力让目标与源比较：每个目标词有一个输出。
输出的最大变化：
""",
)
_SHUFFLING_HEAD = (Words("", ""), Words("self", "自注意力"), Words("cross", "交叉注意力"))
_CHANGES = {
    "shuffled": Words("the source words are shuffled", "打乱源词的顺序"),
    "shuffled back": Words("the same, outputs put back in order", "同上，输出按原顺序放回"),
    "one word": Words("the last source word is another one", "换掉最后一个源词"),
    "target": Words("the target is another text", "换成另一个目标文本"),
}
_SHUFFLING_END = Words(
    "Neither sees the order of the source, which is why positions are added. Only cross-attention sees the target.",
    "两者都看不到源词的顺序，所以要加入位置编码。只有交叉注意力看到目标。",
)
_HEADS = Words(
    """3. What does each head learn?

Mean weights of the heads in the encoder of the shipped translator to French, in 24 generated sentences: on the token
before, on itself, on the token after, on the end of the sentence, on all other tokens together. A star marks a weight
of at least three times that of equal weights, which are the first line.
""",
    """3. 多头注意力中，每个头学到的是什么？

随附的英法翻译模型的编码器中，各个头在 24 个生成的句子上的平均权重：前一个词元、自身、后一个词元、句末、其余词元合计。
第一行是均匀权重，星号表示至少是均匀权重的三倍。
""",
)
_HEADS_HEAD = (
    Words("layer", "层"),
    Words("head", "头"),
    Words("before", "前一个"),
    Words("itself", "自身"),
    Words("after", "后一个"),
    Words("end", "句末"),
    Words("other", "其余"),
)
_EQUAL = Words("equal", "均匀")
_HEADS_END = Words(
    "{before} heads look at the token before, {itself} at the token itself and {after} at the token after, where a "
    "head may do two of these. The others spread their weight. This comes from training alone.",
    "{before} 个头看前一个词元，{itself} 个看自身，{after} 个看后一个词元，一个头可以同时看两处；其余的头权重较分散。"
    "没有人告诉它们该看什么。",
)
# A weight this many times larger than that of equal weights is marked.
CLEAR = 3.0


def answer_questions(language: str, say: Callable[[str], Any]) -> None:
    """Measure and print the three answers. The third one needs the shipped translator."""
    say(_SCALING.say(language))
    rows = [
        [str(row.width), f"{row.deviation:.2f}", *(f"{number:.3f}" for number in row[2:])]
        for row in measure_scaling()
    ]
    say(_table(_SCALING_HEAD, rows, language))
    say("\n" + _SHUFFLING.say(language))
    changes = [
        [_CHANGES[row.change].say(language), f"{row.self_attention:.3f}", f"{row.cross_attention:.3f}"]
        for row in measure_shuffling()
    ]
    say(_table(_SHUFFLING_HEAD, changes, language))
    say("\n" + _SHUFFLING_END.say(language))
    say("\n" + _HEADS.say(language))
    equal, heads = measure_heads()
    say(_table(_HEADS_HEAD, [_cells(one, equal, language) for one in (equal, *heads)], language))
    counts = {
        place: sum(is_clear(one, equal, place) for one in heads) for place in ("before", "itself", "after")
    }
    say("\n" + _HEADS_END.say(language, **counts))


def _table(head: Sequence[Words], rows: Sequence[Sequence[str]], language: str) -> str:
    """Return a table whose columns end at the same place, also in Chinese, whose characters are two columns wide."""
    lines = [[words.say(language) for words in head], *rows]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            " " * (width - cell_len(cell)) + cell for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _cells(one: HeadAverage, equal: HeadAverage, language: str) -> list[str]:
    """Return the cells of a head in the table, with a star at each place at which it looks clearly."""
    name = ["", _EQUAL.say(language)] if one is equal else [str(one.layer), str(one.head)]
    places = HeadAverage._fields[2:]
    return name + [f"{getattr(one, at):.2f}{'*' if is_clear(one, equal, at) else ' '}" for at in places]


def is_clear(one: HeadAverage, equal: HeadAverage, place: str) -> bool:
    """Return whether a head looks at a place much more than equal weights would."""
    return getattr(one, place) >= CLEAR * getattr(equal, place)
