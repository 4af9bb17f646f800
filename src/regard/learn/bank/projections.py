"""The exercises on self-attention and cross-attention, with their projections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from regard import reference
from regard.learn.bank.attention import (
    CAUSAL,
    ROOT_OF_QUERIES,
    ROOT_OF_VALUES,
    SCALE_MISTAKES,
    SCORE_MISTAKES,
    VALUE_MISTAKES,
    attention_steps,
)
from regard.learn.bank.shared_steps import (
    FEATURE,
    POSITION,
    choice,
    fixed,
    mistake,
    numbers,
    pick,
    same,
    step,
)
from regard.learn.bank.softmaxes import NO_KEEPDIMS, SOFTMAX_MISTAKES
from regard.learn.exercise import Case, Exercise, Step
from regard.learn.words import Words

__all__ = ["CROSS_ATTENTION", "SELF_ATTENTION", "not_projected", "projection", "projection_choices"]


def projection_choices(**sources: str) -> tuple[Step, ...]:
    """Return the choices of the sequence, the matrix and the use of the matrix, for q, k and v."""
    choices: list[Step] = []
    for name, source in sources.items():
        choices += [
            choice(f"{name}_source", lambda V, source=source: getattr(V, source)),
            choice(f"{name}_matrix", lambda V, name=name: getattr(V, f"W_{name}")),
            choice(f"{name}_turn", fixed(np.transpose)),
            choice(f"{name}_applied", fixed(np.matmul)),
        ]
    return tuple(choices)


def projection(name: str) -> Callable[[Any], np.ndarray]:
    """Return the computation of q, k or v from its choices."""

    def compute(V: Any) -> np.ndarray:
        parts = ("source", "matrix", "turn", "applied")
        source, matrix, turn, applied = (getattr(V, f"{name}_{part}") for part in parts)
        return applied(source, turn(matrix))  # (n,d)

    return compute


def not_projected(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return x itself, in place of its product with a matrix."""
    return x


# ---- self-attention


def _self_cases(rng: np.random.Generator) -> list[Case]:
    sizes = ((4, 4, 4, 4), (3, 2, 5, 7), (5, 3, 4, 2))
    return [numbers(rng, x=(n, m), W_q=(d, m), W_k=(d, m), W_v=(dv, m)) for n, m, d, dv in sizes]


SELF_ATTENTION = Exercise(
    name="self_attention",
    title=Words("Self-attention with projections", "带投影的自注意力"),
    task=Words(
        "Write self_attention(x, W_q, W_k, W_v). The queries, keys and values are projections of the same sequence:\n\n"
        "    q = W_q x,  k = W_k x,  v = W_v x,  output = softmax(q kᵀ / √d) v\n\n"
        "x (n, m), W_q and W_k (d, m), W_v (width, m) -> (n, width). A matrix has the shape (out, in), as in "
        "nn.Linear.",
        "编写 self_attention(x, W_q, W_k, W_v)。查询、键、值是同一个序列的投影：\n\n"
        "    q = W_q x,  k = W_k x,  v = W_v x,  output = softmax(q kᵀ / √d) v\n\n"
        "x (n, m)，W_q 和 W_k (d, m)，W_v (宽度, m) -> (n, 宽度)。矩阵的形状是 (输出, 输入)，与 nn.Linear 相同。",
    ),
    hint=Words(
        "The rows of x are vectors, so W x for all of them is x @ W.T. d is the width after the projection.",
        "x 的行是向量，所以对全部向量，W x 写成 x @ W.T。d 是投影后的宽度。",
    ),
    done=Words(
        "The projections let a word look for something else than what it is itself.",
        "有了投影，一个词可以寻找与自身不同的东西。",
    ),
    function="self_attention",
    arguments=("x", "W_q", "W_k", "W_v"),
    steps=(
        *projection_choices(q="x", k="x", v="x"),
        step("q", "the queries x @ W_q.T", "查询 x @ W_q.T", projection("q"), POSITION, FEATURE),
        step("k", "the keys x @ W_k.T", "键 x @ W_k.T", projection("k"), POSITION, FEATURE),
        step("v", "the values x @ W_v.T", "值 x @ W_v.T", projection("v"), POSITION, FEATURE),
        *attention_steps(),
    ),
    mistakes=(
        mistake(
            "matrices_transposed",
            "The matrices are not transposed: x @ W multiplies with their columns. A matrix of the "
            "shape (out, in) is applied to rows as x @ W.T.",
            "矩阵没有转置：x @ W 用的是矩阵的列。形状为 (输出, 输入) 的矩阵作用于行时写成 x @ W.T。",
            **{f"{name}_turn": fixed(same) for name in "qkv"},
        ),
        mistake(
            "value_matrix_transposed",
            "W_v is not transposed: x @ W_v multiplies with its columns. The values are x @ W_v.T.",
            "W_v 没有转置：x @ W_v 用的是它的列。值是 x @ W_v.T。",
            v_turn=fixed(same),
        ),
        mistake(
            "nothing_projected",
            "Queries, keys and values are x itself, without their matrices.",
            "查询、键、值都直接用了 x，没有乘各自的矩阵。",
            **{f"{name}_applied": fixed(not_projected) for name in "qkv"},
        ),
        mistake(
            "queries_not_projected",
            "The queries are x itself, without W_q.",
            "查询直接用了 x，没有乘 W_q。",
            q_applied=fixed(not_projected),
        ),
        mistake(
            "keys_not_projected",
            "The keys are x itself, without W_k.",
            "键直接用了 x，没有乘 W_k。",
            k_applied=fixed(not_projected),
        ),
        mistake(
            "values_not_projected",
            "The values are x itself, without W_v.",
            "值直接用了 x，没有乘 W_v。",
            v_applied=fixed(not_projected),
        ),
        mistake(
            "same_matrix_for_keys",
            "The keys are made with W_q, like the queries. Then the scores are symmetric. Use W_k.",
            "键也用 W_q 投影，与查询相同，分数就成了对称的。应使用 W_k。",
            k_matrix=lambda V: V.W_q,
        ),
        mistake(
            "keys_and_queries_swapped",
            "Queries and keys are swapped: W_q makes the queries, and they stand on the left of the scores.",
            "查询和键交换了：W_q 产生查询，查询在分数的左边。",
            q_matrix=lambda V: V.W_k,
            k_matrix=lambda V: V.W_q,
        ),
        mistake(
            "values_by_key_matrix",
            "The values are made with W_k. Use W_v.",
            "值用 W_k 投影了。应使用 W_v。",
            v_matrix=lambda V: V.W_k,
        ),
        mistake(
            "values_by_query_matrix",
            "The values are made with W_q. Use W_v.",
            "值用 W_q 投影了。应使用 W_v。",
            v_matrix=lambda V: V.W_q,
        ),
        mistake(
            "root_of_model_width",
            "The scores are divided by the root of the width of x. Divide by that of the projected queries.",
            "分数除以了 x 的宽度的平方根。应除以投影后查询的宽度的平方根。",
            scale=lambda V: 1 / math.sqrt(V.x.shape[-1]),
        ),
        ROOT_OF_VALUES,
        *pick(SCORE_MISTAKES, "not_transposed", "keys_reshaped", "cosine"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "multiplied", "root_of_keys"),
        *pick(
            SOFTMAX_MISTAKES,
            "over_queries",
            "over_all",
            "softmax_twice",
            "no_softmax",
            "hardmax",
            *NO_KEEPDIMS,
        ),
        *pick(VALUE_MISTAKES, "weights_transposed", "mean_of_values"),
        CAUSAL,
        mistake(
            "residual_added",
            "x is added to the output. The residual connection is outside of the attention.",
            "输出加上了 x。残差连接在注意力之外。",
            output=lambda V: V.normalised + V.x,
        ),
    ),
    make_cases=_self_cases,
    returns=("output",),
    oracle=lambda x, W_q, W_k, W_v: reference.scaled_dot_product_attention(x @ W_q.T, x @ W_k.T, x @ W_v.T)[
        0
    ],
)


# ---- cross-attention


def _cross_cases(rng: np.random.Generator) -> list[Case]:
    # With as many words on both sides, mixing them up gives numbers instead of an error.
    sizes = ((4, 4, 4, 4), (3, 3, 5, 2), (2, 5, 3, 7))
    return [
        numbers(rng, decoder=(t, m), encoder=(s, m), W_q=(d, m), W_k=(d, m), W_v=(d, m))
        for t, s, m, d in sizes
    ]


CROSS_ATTENTION = Exercise(
    name="cross_attention",
    title=Words("Cross-attention from decoder to encoder", "解码器对编码器的交叉注意力"),
    task=Words(
        "Write cross_attention(decoder, encoder, W_q, W_k, W_v). Each target word looks for its source words: "
        "the queries come\n"
        "from the decoder, the keys and values from the encoder.\n\n"
        "decoder (targets, m), encoder (sources, m), matrices (d, m) -> (targets, d)",
        "编写 cross_attention(decoder, encoder, W_q, W_k, W_v)。每个目标词寻找对应的源词：查询来自解码器，键和值"
        "来自编码器。\n\n"
        "decoder (目标, m)，encoder (源, m)，矩阵 (d, m) -> (目标, d)",
    ),
    hint=Words(
        "q = decoder @ W_q.T, k = encoder @ W_k.T, v = encoder @ W_v.T, and then attention as before.",
        "q = decoder @ W_q.T，k = encoder @ W_k.T，v = encoder @ W_v.T，然后与之前的注意力相同。",
    ),
    done=Words(
        "The weights are the alignment of a translation: one row for each target word, over the source words.",
        "权重就是翻译的对齐：每个目标词一行，分布在源词上。",
    ),
    function="cross_attention",
    arguments=("decoder", "encoder", "W_q", "W_k", "W_v"),
    steps=(
        *projection_choices(q="decoder", k="encoder", v="encoder"),
        step(
            "q",
            "the queries decoder @ W_q.T",
            "查询 decoder @ W_q.T",
            projection("q"),
            POSITION,
            FEATURE,
        ),
        step(
            "k",
            "the keys encoder @ W_k.T",
            "键 encoder @ W_k.T",
            projection("k"),
            POSITION,
            FEATURE,
        ),
        step(
            "v",
            "the values encoder @ W_v.T",
            "值 encoder @ W_v.T",
            projection("v"),
            POSITION,
            FEATURE,
        ),
        *attention_steps(),
    ),
    mistakes=(
        mistake(
            "queries_from_encoder",
            "The queries come from the encoder, so this is self-attention of the source. The "
            "decoder asks: q = decoder @ W_q.T.",
            "查询来自编码器，成了源句的自注意力。提问的是解码器：q = decoder @ W_q.T。",
            q_source=lambda V: V.encoder,
        ),
        mistake(
            "keys_from_decoder",
            "The keys come from the decoder. The words that are looked up are those of the encoder.",
            "键来自解码器。被查找的是编码器的词。",
            k_source=lambda V: V.decoder,
        ),
        mistake(
            "values_from_decoder",
            "The values come from the decoder. What is taken along are the source words.",
            "值来自解码器。取出的内容应是源词。",
            v_source=lambda V: V.decoder,
        ),
        mistake(
            "all_from_decoder",
            "Queries, keys and values come from the decoder: this is self-attention of the target.",
            "查询、键、值都来自解码器：这是目标句的自注意力。",
            k_source=lambda V: V.decoder,
            v_source=lambda V: V.decoder,
        ),
        mistake(
            "sides_swapped",
            "Encoder and decoder are swapped: the source asks the target. There is one output for each "
            "target word.",
            "编码器与解码器交换了：成了源句向目标句提问。每个目标词应有一个输出。",
            q_source=lambda V: V.encoder,
            k_source=lambda V: V.decoder,
            v_source=lambda V: V.decoder,
        ),
        mistake(
            "matrices_transposed",
            "The matrices are not transposed: a matrix (out, in) is applied to rows as x @ W.T.",
            "矩阵没有转置：形状为 (输出, 输入) 的矩阵作用于行时写成 x @ W.T。",
            **{f"{name}_turn": fixed(same) for name in "qkv"},
        ),
        mistake(
            "value_matrix_transposed",
            "W_v is not transposed: encoder @ W_v multiplies with its columns. The values are encoder @ W_v.T.",
            "W_v 没有转置：encoder @ W_v 用的是它的列。值是 encoder @ W_v.T。",
            v_turn=fixed(same),
        ),
        mistake(
            "query_and_key_matrix_swapped",
            "W_q and W_k are swapped.",
            "W_q 和 W_k 交换了。",
            q_matrix=lambda V: V.W_k,
            k_matrix=lambda V: V.W_q,
        ),
        mistake(
            "same_matrix_for_values",
            "The values are the projected keys. They have a matrix of their own, W_v.",
            "值用了投影后的键。值有自己的矩阵 W_v。",
            v_matrix=lambda V: V.W_k,
        ),
        mistake(
            "values_not_projected",
            "The values are the encoder states without W_v.",
            "值直接用了编码器状态，没有乘 W_v。",
            v_applied=fixed(not_projected),
        ),
        mistake(
            "root_of_model_width",
            "The scores are divided by the root of m. Divide by √d of the projected queries.",
            "分数除以了 √m。应除以投影后查询的 √d。",
            scale=lambda V: 1 / math.sqrt(V.decoder.shape[-1]),
        ),
        ROOT_OF_QUERIES,
        *pick(SCORE_MISTAKES, "not_transposed", "keys_reshaped"),
        *pick(SCALE_MISTAKES, "no_scale", "divided_by_d", "multiplied", "root_of_keys"),
        *pick(
            SOFTMAX_MISTAKES,
            "over_queries",
            "over_all",
            "softmax_twice",
            "no_softmax",
            "hardmax",
            *NO_KEEPDIMS,
        ),
        *pick(VALUE_MISTAKES, "weights_transposed", "mean_of_values"),
    ),
    make_cases=_cross_cases,
    returns=("output",),
    oracle=lambda decoder, encoder, W_q, W_k, W_v: reference.scaled_dot_product_attention(
        decoder @ W_q.T, encoder @ W_k.T, encoder @ W_v.T
    )[0],
)
