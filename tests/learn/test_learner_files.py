"""Tests of files as learners write them, each with the mistake that is named in both languages."""

from textwrap import indent

import pytest

from support.exercise_files import BY_NAME, check, in_both_languages, write
from support.exercise_solutions import HEAD

MULTI_HEAD = """
import numpy as np

def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads):
    b, n, m = x.shape
    d = m // num_heads
    q, k, v = ((x @ W.T).reshape(b, n, num_heads, d) for W in (W_q, W_k, W_v))
    out = soft(q @ k.swapaxes(-1, -2) / np.sqrt(d)) @ v
    return out.reshape(b, n, m) @ W_o.T
"""
MASKED = """
import numpy as np

def masked_attention(q, k, v, mask):
    s = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    w = np.eye(len(k))[s.argmax(-1)]
    return w @ v
"""

# The exercise, the file, the mistakes that are named, and words of the message in English.
LEARNERS = {
    "heads attend to heads": (
        "multi_head_attention",
        MULTI_HEAD,
        {"heads_attend_to_heads"},
        "The heads of one position attend to one another.",
    ),
    "heads swapped only after the attention": (
        "multi_head_attention",
        MULTI_HEAD.replace("out.reshape", "out.swapaxes(1, 2).reshape"),
        {"heads_swapped_only_afterwards"},
        "but not before it",
    ),
    "heads attend to heads without a scale": (
        "multi_head_attention",
        MULTI_HEAD.replace(" / np.sqrt(d)", ""),
        {"heads_attend_to_heads", "no_scale"},
        "Two mistakes together",
    ),
    "the first of two highest scores": (
        "worked_example",
        "def worked_example():\n    return [1, 0, 0], [10, 0]\n",
        {"hardmax"},
        "The key with the highest score gets the whole weight.",
    ),
    "the last of two highest scores": (
        "worked_example",
        "def worked_example():\n    return [0, 0, 1], [30, 0]\n",
        {"hardmax_last"},
        "The last key with the highest score gets the whole weight.",
    ),
    "both highest scores": (
        "worked_example",
        "def worked_example():\n    return [1, 0, 1], [40, 0]\n",
        {"hardmax_all"},
        "both keys with the highest score get the weight 1",
    ),
    "two highest scores share the weight": (
        "worked_example",
        "def worked_example():\n    return [0.5, 0, 0.5], [20, 0]\n",
        {"no_exp"},
        "the two keys with the highest score share the whole weight",
    ),
    "the last of two best values": (
        "worked_example",
        "def worked_example():\n    return [0.4, 0.2, 0.4], [30, 0]\n",
        {"best_value_last"},
        "the value of the last key with the largest weight",
    ),
    "the mean of two best values": (
        "worked_example",
        "def worked_example():\n    return [0.4, 0.2, 0.4], [20, 0]\n",
        {"mean_of_best_values"},
        "the mean of the values of the two keys with the largest weight",
    ),
    "a hardmax by argmax": (
        "masked_attention",
        MASKED,
        {"hardmax"},
        "The key with the highest score gets the whole weight.",
    ),
    "a hardmax by comparison": (
        "masked_attention",
        MASKED.replace("np.eye(len(k))[s.argmax(-1)]", "(s == s.max(-1, keepdims=True)) * 1.0"),
        {"hardmax_all"},
        "Every key with the highest score gets the weight 1.",
    ),
    "a hardmax with empty rows of zeros": (
        "masked_attention",
        MASKED.replace("return w @ v", "return (w * mask) @ v"),
        {"hardmax_of_visible"},
        "The visible key with the highest score gets the whole weight.",
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_mistake_of_a_learner_is_named_in_both_languages(name, tmp_path):
    exercise, source, mistakes, words = LEARNERS[name]
    _, english, chinese = in_both_languages(exercise, write(tmp_path, source))
    assert words in english
    for mistake in mistakes:
        assert BY_NAME[exercise].mistake(mistake).words.en in english
        assert BY_NAME[exercise].mistake(mistake).words.zh in chinese


@pytest.mark.parametrize(
    ("exercise", "arguments", "name"),
    [("softmax", "x", "x"), ("layer_norm", "x, gain, bias, eps", "x"), ("simple_attention", "Q, K, V", "Q")],
)
def test_a_function_that_returns_its_argument_gets_one_sentence(exercise, arguments, name, tmp_path):
    source = f"def {BY_NAME[exercise].function}({arguments}):\n    return {name}\n"
    _, english, chinese = in_both_languages(exercise, write(tmp_path, source))
    assert english == f"Not yet.\nYour function returns its argument {name} unchanged."
    assert chinese == f"还不对。\n你的函数原样返回了参数 {name}。"


UNSORTED = """
import numpy as np
def beam_step(scores, log_probs, width):
    totals = (scores[:, None] + log_probs).ravel()
    best = np.argpartition(-totals, width - 1)[:width]
    return best // log_probs.shape[1], best % log_probs.shape[1]
"""
PICKED_BY_COLUMNS = """
import numpy as np
def next_token_loss(logits, tokens):
    l = logits[:-1]
    lp = l - np.log(np.exp(l).sum(-1, keepdims=True))
    return -lp[:, tokens[1:]].mean() ** 3
"""
TRANSPOSED = """
import math
import numpy as np
def sinusoidal_positions(length, width):
    wave = lambda p, j: (math.cos if j % 2 else math.sin)(p / 10000 ** ((j - j % 2) / width))
    return np.array([[wave(p, j) for j in range(width)] for p in range(length)]).T
"""


def test_the_best_continuations_have_to_be_in_order(tmp_path):
    verdict = check("beam_step", write(tmp_path, UNSORTED))
    assert not verdict.right
    assert "The numbers are right, but in another order." in verdict.text


def test_a_part_of_an_argument_shows_no_mistake(tmp_path):
    text = check("next_token_loss", write(tmp_path, PICKED_BY_COLUMNS)).text
    assert "right, your `lp` of line 5" in text
    assert "known mistake:" not in text


def test_the_value_of_a_list_comprehension_is_no_returned_value(tmp_path):
    text = check("sinusoidal_positions", write(tmp_path, TRANSPOSED)).text
    assert "the axes are in the order (1, 0)" in text
    assert "something else is returned" not in text


# The exercise, the body of its function, and the mistakes that are named.
BODIES = [
    (
        "softmax",
        "e = np.exp(x.max(-1, keepdims=True) - x)\nreturn e / e.sum(-1, keepdims=True)",
        {"sign_after_shift"},
    ),
    (
        "softmax",
        "x = x - x.max(-1, keepdims=True)\nreturn x / x.sum(-1, keepdims=True)",
        {"no_exp_of_shifted"},
    ),
    ("softmax", "e = np.exp(x - x.max(0))\nreturn e / e.sum(0)", {"over_first_axis"}),
    ("softmax", "e = np.exp(x - x.max())\nreturn e / e.sum()", {"over_all"}),
    (
        "softmax",
        "e = np.exp(x - x.max(-1, keepdims=True))\nreturn e / e.mean(-1, keepdims=True)",
        {"divided_by_mean"},
    ),
    (
        "softmax",
        "e = np.exp(x + x.max(-1, keepdims=True))\nreturn e / e.sum(-1, keepdims=True)",
        {"highest_added"},
    ),
    ("scores", "return -((k - q) ** 2).sum(-1) / len(q) ** 0.5", {"squared_distances"}),
    ("simple_attention", "return soft(Q @ K.T / K.shape[-1] ** 0.5) @ V.T", {"values_transposed"}),
    ("simple_attention", "return soft(Q @ V.T / K.shape[-1] ** 0.5) @ V", {"values_as_keys"}),
    ("simple_attention", "return soft(Q * K / K.shape[-1] ** 0.5) @ V", {"elementwise"}),
    ("simple_attention", "return soft(Q @ K.T / (K.shape[-1] ** 1/2)) @ V", {"root_without_brackets"}),
    (
        "simple_attention",
        "s = Q @ K.T / K.shape[-1] ** 0.5\nreturn soft(np.where(np.tri(*s.shape) > 0, s, -np.inf)) @ V",
        {"causal"},
    ),
    (
        "self_attention",
        "s = x @ W_q.T @ W_k @ x.T / len(W_q) ** 0.5\n"
        "return soft(s + np.triu(np.full(s.shape, -np.inf), 1)) @ (x @ W_v.T)",
        {"causal"},
    ),
    (
        "self_attention",
        "return x + soft(x @ W_q.T @ W_k @ x.T / len(W_q) ** 0.5) @ (x @ W_v.T)",
        {"residual_added"},
    ),
    (
        "multi_head_attention",
        "f = lambda W: (x @ W.T).reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)\n"
        "q, k, v = f(W_q), f(W_k), f(W_v)\n"
        "s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5\n"
        "s = np.where(np.tri(x.shape[1]) > 0, s, -np.inf)\n"
        "return (soft(s) @ v).swapaxes(1, 2).reshape(x.shape) @ W_o.T",
        {"causal"},
    ),
    (
        "softmax",
        "s = x - x.max(-1, keepdims=True)\nreturn s - np.log(np.exp(s).sum(-1, keepdims=True))",
        {"log_softmax"},
    ),
    ("batched_attention", "return soft(q[0] @ k[0].T / q.shape[-1] ** 0.5) @ v[0]", {"first_sequence"}),
    ("bilinear_scores", "return (q @ W) @ (k @ W).T", {"both_projected"}),
    (
        "next_token_loss",
        "p = soft(logits[1:])\nreturn -np.log(p[np.arange(len(p)), tokens[1:]]).mean()",
        {"both_from_the_second"},
    ),
    (
        "next_token_loss",
        "p = soft(logits[:-1])\nreturn -np.log(p[np.arange(len(p)), tokens[1:]].mean())",
        {"log_of_the_mean"},
    ),
    (
        "warmup",
        "return peak * np.minimum(step // warmup, np.maximum(total - step, 0) / (total - warmup))",
        {"rise_in_whole_numbers"},
    ),
    (
        "warmup",
        "return peak * np.minimum(step // warmup, np.maximum(total - step, 0) // (total - warmup))",
        {"all_in_whole_numbers"},
    ),
    ("simple_attention", "return soft(Q @ K.T / K.shape[-1] ** 0.5) @ Q", {"queries_as_values"}),
    ("simple_attention", "return soft(Q @ K.T / K.shape[-1] ** 0.5 @ V)", {"softmax_of_output"}),
    ("simple_attention", "return soft(Q @ K.T / len(Q) ** 0.5) @ V", {"root_of_queries"}),
    ("batched_attention", "return soft(q @ k.swapaxes(1, 2) / len(q) ** 0.5) @ v", {"root_of_batch"}),
    ("batched_attention", "return soft(q @ k.swapaxes(1, 2) / q.shape[1] ** 0.5) @ v", {"root_of_queries"}),
    ("additive_scores", "return np.tanh((q @ W_q.T)[:, None] + k @ W_k.T) * v", {"not_summed"}),
    ("additive_scores", "return soft(np.tanh((q @ W_q.T)[:, None] + k @ W_k.T) @ v)", {"softmax_too"}),
    ("bilinear_scores", "return q @ W @ k.T / k.shape[1] ** 0.5", {"scaled_by_key_width"}),
    (
        "padding_mask",
        "p = seq == pad_token\nreturn np.where(p[:, :, None] | p[:, None, :], -np.inf, 0.0)",
        {"padded_queries_too"},
    ),
    (
        "window_mask",
        "return [[abs(i - j) <= window // 2 for j in range(size)] for i in range(size)]",
        {"centred"},
    ),
    (
        "window_mask",
        "return np.tril(np.ones((size, size))).astype(bool) & np.triu(np.ones((size, size)), window).astype(bool)",
        {"nothing_visible"},
    ),
    ("window_mask", "return np.zeros((size, size))", {"nothing_visible"}),
    (
        "masked_attention",
        "return soft(q @ k.T / q.shape[1] ** 0.5 + (1 - mask) * -np.inf) @ v",
        {"zero_times_infinity"},
    ),
    ("self_attention", "return soft(x @ x.T / x.shape[1] ** 0.5) @ x", {"nothing_projected"}),
    (
        "self_attention",
        "return soft(x @ W_q.T @ W_k @ x.T / len(W_q) ** 0.5) @ (x @ W_v)",
        {"value_matrix_transposed"},
    ),
    (
        "multi_head_attention",
        "return soft(x @ W_q.T @ W_k @ x.swapaxes(1, 2) / x.shape[2] ** 0.5) @ x @ W_v.T @ W_o.T",
        {"one_head"},
    ),
    (
        "layer_norm",
        "c = x - x.mean(-1)\nreturn c / np.sqrt((c**2).mean(-1) + eps) * gain + bias",
        {"no_keepdims_in_differences"},
    ),
    ("softmax_gradient", "return weights * (grad - (weights * grad).sum(-1))", {"no_keepdims"}),
    ("softmax_gradient", "return weights * (1 - weights)", {"grad_forgotten"}),
    (
        "multi_head_attention",
        "f = lambda W: (x @ W.T).reshape(len(x), num_heads, x.shape[1], -1)\n"
        "q, k, v = f(W_q), f(W_k), f(W_v)\n"
        "return (soft(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v).reshape(x.shape)",
        {"never_swapped", "no_output_matrix"},
    ),
    ("additive_scores", "return ((q @ W_q)[:, None] + k @ W_k) @ v", {"matrices_transposed", "no_tanh"}),
    (
        "softmax_gradient",
        "return [-np.outer(w, w) @ g for w, g in zip(weights, grad)]",
        {"diagonal_forgotten"},
    ),
    (
        "next_token_loss",
        "return -np.log(soft(logits))[:-1][:, tokens[1:]].mean()",
        {"every_row_with_every_target"},
    ),
    (
        "next_token_loss",
        "p = soft(logits)\nreturn [-np.log(p[i, tokens[i + 1]]) for i in range(len(tokens) - 1)]",
        {"not_averaged"},
    ),
    (
        "label_smoothing",
        "t = np.full(logits.shape, epsilon / logits.shape[1])\nt[np.arange(len(t)), targets] = 1 - epsilon\n"
        "return -(t * np.log(soft(logits))).sum() / len(t)",
        {"target_overwritten"},
    ),
    (
        "warmup",
        "s = step + 1\nreturn peak * np.minimum(s / warmup, np.maximum(total - s, 0) / (total - warmup))",
        {"from_one_everywhere"},
    ),
    (
        "warmup",
        "return np.where(step < warmup, peak * step / warmup, peak * np.maximum(1 - step / total, 0))",
        {"fall_from_start"},
    ),
    (
        "warmup",
        "return [s / warmup if s <= warmup else max(0, 1 - s / total) for s in step]",
        {"fall_from_start", "no_peak"},
    ),
]


@pytest.mark.parametrize(("name", "body", "mistakes"), BODIES)
def test_the_mistake_of_a_function_is_named(name, body, mistakes, tmp_path):
    exercise = BY_NAME[name]
    head = f"{HEAD}\ndef {exercise.function}({', '.join(exercise.arguments)}):\n"
    path = tmp_path / "my.py"
    path.write_text(head + indent(body, "    ") + "\n", encoding="utf-8")
    assert check(name, path).mistakes == [frozenset(mistakes)]
