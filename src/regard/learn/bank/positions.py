"""The exercises on sinusoidal and rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.shared_steps import FEATURE, POSITION, choice, fixed, mistake, numbers, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["ROTARY_POSITIONS", "SINUSOIDAL_POSITIONS"]

Array = np.ndarray
PAIR = Words("pair", "对")


# ---- sinusoidal


def _waves(V: Any) -> tuple[Array, Array]:
    """Return the numbers of the even and of the odd columns. The angles have a column for each pair or for each."""
    each = len(V.exponents) > (V.width + 1) // 2
    first, second = (V.angle[:, 0::2], V.angle[:, 1::2]) if each else (V.angle, V.angle[:, : V.width // 2])
    return V.even(first), V.odd(second)


def _in_turn(V: Any) -> Array:
    """Put the sines into the even columns and the cosines into the odd columns."""
    table = np.zeros((V.length, V.width))
    table[:, 0::2], table[:, 1::2] = _waves(V)
    return table


SINUSOIDAL_POSITIONS = Exercise(
    name="sinusoidal_positions",
    title=Words("Sinusoidal positions", "正弦位置编码"),
    task=Words(
        "Write sinusoidal_positions(length, width), a table with one row for each position 0, 1, 2, ...:\n\n"
        "    table[p, 2i]     = sin(p / 10000^(2i / width))\n"
        "    table[p, 2i + 1] = cos(p / 10000^(2i / width))\n\n"
        "The width may be odd. Then the last column is a sine.",
        "编写 sinusoidal_positions(length, width)，位置 0、1、2、…… 各占一行的表：\n\n"
        "    table[p, 2i]     = sin(p / 10000^(2i / width))\n"
        "    table[p, 2i + 1] = cos(p / 10000^(2i / width))\n\n"
        "宽度可以是奇数，这时最后一列是正弦。",
    ),
    hint=Words(
        "np.arange(0, width, 2) is 2i. Fill table[:, 0::2] and table[:, 1::2]. With an odd width there is one "
        "cosine less.",
        "np.arange(0, width, 2) 就是 2i。填写 table[:, 0::2] 和 table[:, 1::2]。宽度为奇数时，余弦少一列。",
    ),
    done=Words(
        "Attention alone does not see the order of words. This table, added to the word vectors, shows it.",
        "注意力本身看不到词的顺序。把这个表加到词向量上，顺序就体现出来了。",
    ),
    function="sinusoidal_positions",
    arguments=("length", "width"),
    steps=(
        choice("counted", lambda V: np.arange(V.length)),
        choice("directed", lambda V: V.counted),
        step(
            "position",
            "the positions 0, 1, 2, ...",
            "位置 0、1、2、……",
            lambda V: V.directed[:, None],
        ),
        choice("base", fixed(10000.0)),
        choice("exponents", lambda V: np.arange(0, V.width, 2)),
        choice("factor", fixed(1.0)),
        step(
            "rate",
            "10000^(2i / width)",
            "10000^(2i / width)",
            lambda V: V.base ** (V.factor * V.exponents / V.width),
            PAIR,
        ),
        choice("quotient", lambda V: V.position / V.rate),
        step(
            "angle",
            "the angles p / 10000^(2i / width)",
            "角度 p / 10000^(2i / width)",
            lambda V: V.quotient,
            POSITION,
            PAIR,
        ),
        choice("even", fixed(np.sin)),
        choice("odd", fixed(np.cos)),
        step(
            "table",
            "sines in even and cosines in odd columns",
            "偶数列为正弦，奇数列为余弦",
            _in_turn,
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "from_one",
            "The positions start at 1. The first position is 0, so the first row is 0, 1, 0, 1, ...",
            "位置从 1 开始了。第一个位置是 0，所以第一行是 0、1、0、1，依此类推。",
            counted=lambda V: np.arange(1, V.length + 1),
        ),
        mistake(
            "share_of_length",
            "The positions are divided by the length. A position has the same row in every text.",
            "位置除以了长度。同一个位置在任何文本中应有相同的行。",
            position=lambda V: V.directed[:, None] / V.length,
        ),
        mistake(
            "backwards",
            "The positions run backwards.",
            "位置是倒着数的。",
            directed=lambda V: V.counted[::-1],
        ),
        mistake(
            "half_exponent",
            "The exponent is i / width, half of 2i / width.",
            "指数是 i / width，只有 2i / width 的一半。",
            factor=fixed(0.5),
        ),
        mistake(
            "double_exponent",
            "The exponent is twice as large as 2i / width.",
            "指数是 2i / width 的两倍。",
            factor=fixed(2.0),
        ),
        mistake("base_1000", "The base is 1000, not 10000.", "底数是 1000，应为 10000。", base=fixed(1000.0)),
        mistake(
            "rates_to_the_end",
            "The exponent is i / (width / 2 - 1), which is 1 in the last pair, as in some programs. Here it is "
            "2i / width.",
            "指数是 i / (width / 2 - 1)，在最后一对处等于 1，有些程序这样做。这里是 2i / width。",
            exponents=lambda V: np.arange((V.width + 1) // 2) * V.width / max(V.width // 2 - 1, 1),
        ),
        mistake(
            "one_rate",
            "All columns have the same frequency. The exponent 2i / width makes them slower from pair to pair.",
            "所有列的频率相同。指数 2i / width 应使它们一对比一对慢。",
            factor=fixed(0.0),
        ),
        mistake(
            "multiplied",
            "The positions are multiplied by 10000^(2i / width). Divide, so that later columns change slowly.",
            "位置乘以了 10000^(2i / width)。应相除，使后面的列变化缓慢。",
            quotient=lambda V: V.position * V.rate,
        ),
        mistake(
            "degrees",
            "The angles are taken for degrees. np.sin takes radians, without a conversion.",
            "角度被当成了度数。np.sin 接受弧度，不需要换算。",
            angle=lambda V: np.deg2rad(V.quotient),
        ),
        mistake(
            "swapped",
            "Sine and cosine are swapped. Even columns are sines.",
            "正弦和余弦交换了。偶数列是正弦。",
            even=fixed(np.cos),
            odd=fixed(np.sin),
        ),
        mistake(
            "only_sines",
            "All columns are sines. Odd columns are cosines.",
            "所有列都是正弦。奇数列应是余弦。",
            odd=fixed(np.sin),
        ),
        mistake(
            "halves",
            "All sines come first and then all cosines. They take turns: even columns are sines, odd columns "
            "cosines.",
            "先是全部正弦，再是全部余弦。它们应交替：偶数列是正弦，奇数列是余弦。",
            table=lambda V: np.concatenate(_waves(V), axis=-1),
        ),
        mistake(
            "own_rate_for_each_column",
            "The exponent is the number of the column. Sine and cosine of a pair share the "
            "exponent 2i / width.",
            "指数用的是列号。同一对的正弦和余弦应共用指数 2i / width。",
            exponents=lambda V: np.arange(V.width),
        ),
        mistake(
            "column_numbers_doubled",
            "The exponent is 2j / width for each column j. In the formula i counts pairs of columns: the "
            "columns 2i and "
            "2i + 1 share the exponent 2i / width.",
            "第 j 列的指数是 2j / width。公式中的 i 数的是列对：第 2i 列和第 2i + 1 列共用指数 2i / width。",
            exponents=lambda V: 2 * np.arange(V.width),
        ),
    ),
    make_cases=lambda rng: [Case({"length": n, "width": m}) for n, m in ((4, 6), (5, 7), (3, 1), (2, 4))],
    returns=("table",),
    oracle=reference.sinusoidal_positions,
)


# ---- rotary


def _angles(V: Any) -> Array:
    rates = V.base ** (V.factor * np.arange(V.x.shape[-1] // 2) / V.x.shape[-1])  # (d/2,)
    return V.direction * V.applied(V.places[:, None], rates)  # (n,d/2)


def _zip(first: Array, second: Array) -> Array:
    """Put two arrays (n,d/2) into the even and the odd columns of one array (n,d)."""
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


def _rotated(V: Any, along: Array, across: Array) -> Array:
    """Return one column of a pair times the cosine plus the other one times the sine."""
    sine, cosine = V.sine_and_cosine
    return along * cosine + V.crossed * across * sine


def _halves_of(V: Any) -> tuple[Array, Array]:
    half = V.x.shape[-1] // 2
    return V.x[:, :half], V.x[:, half:]


ROTARY_POSITIONS = Exercise(
    name="rotary_positions",
    title=Words("Rotary positions", "旋转位置编码"),
    task=Words(
        "Write rotary(x) for x (n, d) with an even d. At position p, the pair of columns a = x[p, 2i] and b = "
        "x[p, 2i + 1] is\n"
        "rotated by the angle t = p / 10000^(2i / d):\n\n"
        "    a' = a cos t - b sin t\n"
        "    b' = a sin t + b cos t",
        "编写 rotary(x)，x 的形状为 (n, d)，d 为偶数。在位置 p，列 a = x[p, 2i] 与 b = x[p, 2i + 1] 组成的一对\n"
        "旋转角度 t = p / 10000^(2i / d)：\n\n"
        "    a' = a cos t - b sin t\n"
        "    b' = a sin t + b cos t",
    ),
    hint=Words(
        "a = x[:, 0::2] and b = x[:, 1::2] have the shape (n, d / 2), like the angles. Fill the columns of a "
        "new array.",
        "a = x[:, 0::2] 和 b = x[:, 1::2] 的形状是 (n, d / 2)，与角度相同。再填入一个新数组的各列。",
    ),
    done=Words(
        "The dot product of two rotated vectors depends only on the distance of their positions.",
        "两个旋转后的向量的点积只取决于它们位置的距离。",
    ),
    function="rotary",
    arguments=("x",),
    steps=(
        choice("places", lambda V: np.arange(len(V.x))),
        choice("base", fixed(10000.0)),
        choice("factor", fixed(2.0)),
        choice("applied", fixed(np.divide)),
        choice("direction", fixed(1)),
        step(
            "angle",
            "the angles p / 10000^(2i / d)",
            "角度 p / 10000^(2i / d)",
            _angles,
            POSITION,
            PAIR,
        ),
        step("a", "a, the even columns", "a，即偶数列", lambda V: V.x[:, 0::2], POSITION, PAIR),
        step("b", "b, the odd columns", "b，即奇数列", lambda V: V.x[:, 1::2], POSITION, PAIR),
        choice("sine_and_cosine", lambda V: (np.sin(V.angle), np.cos(V.angle))),
        choice("crossed", fixed(1)),
        choice("minus", fixed(-1)),
        step(
            "first",
            "a cos t - b sin t",
            "a cos t - b sin t",
            lambda V: _rotated(V, V.a, V.minus * V.b),
            POSITION,
            PAIR,
        ),
        choice("plus", fixed(1)),
        choice("old", lambda V: V.a),
        step(
            "second",
            "a sin t + b cos t",
            "a sin t + b cos t",
            lambda V: _rotated(V, V.plus * V.b, V.old),
            POSITION,
            PAIR,
        ),
        step(
            "output",
            "a' and b' in the columns 2i and 2i + 1",
            "a' 和 b' 放回第 2i 列和第 2i + 1 列",
            lambda V: _zip(V.first, V.second),
            POSITION,
            FEATURE,
        ),
    ),
    mistakes=(
        mistake(
            "from_one",
            "The positions start at 1. Position 0 is not rotated.",
            "位置从 1 开始了。位置 0 不旋转。",
            places=lambda V: np.arange(len(V.x)) + 1,
        ),
        mistake(
            "backwards", "The rotation goes backwards, by -t.", "旋转方向反了，转了 -t。", direction=fixed(-1)
        ),
        mistake(
            "one_angle",
            "All pairs are rotated by the same angle. The exponent 2i / d makes later pairs slower.",
            "所有的对都旋转了相同的角度。指数 2i / d 应使后面的对转得更慢。",
            factor=fixed(0.0),
        ),
        mistake(
            "half_exponent",
            "The exponent is i / d, half of 2i / d.",
            "指数是 i / d，只有 2i / d 的一半。",
            factor=fixed(1.0),
        ),
        mistake("base_1000", "The base is 1000, not 10000.", "底数是 1000，应为 10000。", base=fixed(1000.0)),
        mistake(
            "multiplied",
            "The position is multiplied by 10000^(2i / d). Divide, so that later pairs are slower.",
            "位置乘以了 10000^(2i / d)。应相除，使后面的对转得更慢。",
            applied=fixed(np.multiply),
        ),
        mistake(
            "same_at_all_positions",
            "All positions are rotated by the same angle. The angle grows with the position.",
            "所有位置都旋转了相同的角度。角度应随位置增大。",
            places=lambda V: np.ones(len(V.x)),
        ),
        mistake(
            "halves_paired",
            "Column i is paired with column i + d / 2, and the halves stay together. Llama does so. Here "
            "the columns 2i and 2i + 1 are a pair.",
            "第 i 列与第 i + d / 2 列配成一对，两半各自保持在一起。Llama 是这样做的。这里是第 2i 列与第 2i + 1 "
            "列配对。",
            a=lambda V: _halves_of(V)[0],
            b=lambda V: _halves_of(V)[1],
            output=lambda V: np.concatenate([V.first, V.second], -1),
        ),
        mistake(
            "first_with_plus",
            "a' has a plus. A rotation has one minus: a cos t - b sin t.",
            "a' 用了加号。旋转有一个减号：a cos t - b sin t。",
            minus=fixed(1),
        ),
        mistake(
            "second_with_minus",
            "b' has a minus. Only a' has it: a sin t + b cos t.",
            "b' 用了减号。只有 a' 有减号：a sin t + b cos t。",
            plus=fixed(-1),
        ),
        mistake(
            "sine_and_cosine_swapped",
            "Sine and cosine are swapped, so that position 0 changes too.",
            "正弦和余弦交换了，连位置 0 也变了。",
            sine_and_cosine=lambda V: (np.cos(V.angle), np.sin(V.angle)),
        ),
        mistake(
            "overwritten",
            "b' is computed with the new a. Both need the old a: keep it until both are done.",
            "计算 b' 时用了新的 a。两者都需要旧的 a：在两个都算完之前要保留它。",
            old=lambda V: V.first,
        ),
        mistake(
            "not_put_back",
            "The first halves of all pairs come first, then the second ones. Put a' and b' back into the "
            "columns 2i and 2i + 1.",
            "先是所有的 a'，再是所有的 b'。应把 a' 和 b' 放回第 2i 列和第 2i + 1 列。",
            output=lambda V: np.concatenate([V.first, V.second], -1),
        ),
        mistake(
            "only_cosine",
            "The columns are only multiplied by the cosine. A rotation mixes both columns of a pair.",
            "各列只乘了余弦。旋转会混合一对中的两列。",
            crossed=fixed(0),
        ),
    ),
    make_cases=lambda rng: [numbers(rng, x=shape) for shape in ((3, 4), (5, 6), (4, 2), (2, 8))],
    returns=("output",),
)
