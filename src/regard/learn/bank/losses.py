"""The exercises on the loss of a language model and on label smoothing."""

from __future__ import annotations

import numpy as np

from regard.learn.bank.shared_steps import POSITION, choice, fixed, mistake, numbers, same, softmax, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["LABEL_SMOOTHING", "NEXT_TOKEN_LOSS"]

Array = np.ndarray
TOKEN = Words("token", "词元")


def _logits(rng: np.random.Generator, name: str, *sizes: tuple[int, int]) -> list[Case]:
    """Return cases of logits (n,tokens) and token ids (n,)."""
    return [
        Case({**numbers(rng, logits=(n, size)).arguments, name: rng.integers(0, size, n)})
        for n, size in sizes
    ]


def _chosen(rows: Array, tokens: Array) -> Array:
    return rows[np.arange(len(tokens)), tokens]


_PROBABILITIES = (
    choice("axis", fixed(-1)),
    choice("probabilities", lambda V: softmax(V.logits, V.axis)),
    choice("logarithm", fixed(np.log)),
)
_NO_SOFTMAX = mistake(
    "no_softmax",
    "The logits are taken for log-probabilities. They have to go through log_softmax first.",
    "把 logits 当成了对数概率。应先经过 log_softmax。",
    axis=fixed(None),
    probabilities=lambda V: V.logits,
    logarithm=fixed(same),
)
_OVER_ALL = mistake(
    "over_all",
    "The softmax runs over the whole array. Each row has its own: axis=-1, keepdims=True.",
    "softmax 对整个数组做了。每一行应有自己的：axis=-1, keepdims=True。",
    axis=fixed(None),
)


# ---- the loss of a language model

NEXT_TOKEN_LOSS = Exercise(
    name="next_token_loss",
    title=Words("The loss of a language model", "语言模型的损失"),
    task=Words(
        "Write next_token_loss(logits, tokens). Position i of a text predicts the token at position i + 1. The "
        "loss is the mean\n"
        "of -log softmax(logits[i])[tokens[i + 1]] over all positions that have a next token.\n\n"
        "logits (n, vocabulary), tokens (n,) of token ids -> one number. Logarithms are natural.",
        "编写 next_token_loss(logits, tokens)。文本的位置 i 预测位置 i + 1 的词元。损失是所有有下一个词元的位置上\n"
        "-log softmax(logits[i])[tokens[i + 1]] 的平均。\n\n"
        "logits (n, 词表)，tokens (n,) 是词元编号 -> 一个数。对数为自然对数。",
    ),
    hint=Words(
        "The last row of the logits predicts nothing, and the first token is predicted by nothing: logits[:-1] "
        "and tokens[1:].",
        "最后一行 logits 没有要预测的词元，第一个词元没有行来预测：logits[:-1] 和 tokens[1:]。",
    ),
    done=Words(
        "exp of this loss is the perplexity of the model.",
        "这个损失的 exp 就是模型的困惑度。",
    ),
    function="next_token_loss",
    arguments=("logits", "tokens"),
    steps=(
        *_PROBABILITIES,
        step(
            "log_probs",
            "the log-probabilities",
            "对数概率",
            lambda V: V.logarithm(V.probabilities),
            POSITION,
            TOKEN,
        ),
        choice("first_rows", lambda V: V.log_probs[:-1]),
        choice("next_tokens", lambda V: V.tokens[1:]),
        step(
            "rows",
            "the log-probabilities of all positions but the last",
            "除最后一个位置外的对数概率",
            lambda V: V.first_rows,
            POSITION,
            TOKEN,
        ),
        step(
            "targets", "the tokens from the second on", "从第二个起的词元", lambda V: V.next_tokens, POSITION
        ),
        step(
            "picked",
            "the log-probability of each target",
            "每个目标的对数概率",
            lambda V: _chosen(V.rows, V.targets),
            POSITION,
        ),
        choice("averaged", lambda V: V.picked.mean()),
        choice("negated", lambda V: -V.averaged),
        step("loss", "the loss, minus the mean", "损失，即平均取负", lambda V: V.negated),
    ),
    mistakes=(
        mistake(
            "no_log",
            "The probabilities are averaged without their logarithm.",
            "平均的是概率，没有取对数。",
            logarithm=fixed(same),
        ),
        _NO_SOFTMAX,
        mistake(
            "over_positions",
            "The softmax runs over the positions. It runs over the vocabulary, the last axis.",
            "softmax 沿位置做了。应沿词表，即最后一个轴。",
            axis=fixed(0),
        ),
        _OVER_ALL,
        mistake(
            "base_two",
            "The logarithm has base 2 (bits). Natural logarithms are asked for.",
            "对数的底是 2（比特）。这里要自然对数。",
            logarithm=fixed(np.log2),
        ),
        mistake(
            "base_ten",
            "The logarithm has base 10. Natural logarithms are asked for: np.log.",
            "对数的底是 10。这里要自然对数：np.log。",
            logarithm=fixed(np.log10),
        ),
        mistake(
            "not_shifted",
            "Position i is compared with its own token, which it has already seen. It predicts token i + 1.",
            "位置 i 与它自己的词元比较了，而这个词元它已经看到。它预测的是第 i + 1 个词元。",
            first_rows=lambda V: V.log_probs,
            next_tokens=lambda V: V.tokens,
        ),
        mistake(
            "both_from_the_second",
            "logits[1:] are compared with tokens[1:], so each position with its own token. It predicts the next one: "
            "logits[:-1] with tokens[1:].",
            "logits[1:] 与 tokens[1:] 比较，于是每个位置与它自己的词元比较了。它预测的是下一个：logits[:-1] 与 "
            "tokens[1:]。",
            first_rows=lambda V: V.log_probs[1:],
        ),
        mistake(
            "shifted_backwards",
            "Position i is compared with the token before it. It predicts the token after it.",
            "位置 i 与前一个词元比较了。它预测的是后一个词元。",
            first_rows=lambda V: V.log_probs[1:],
            next_tokens=lambda V: V.tokens[:-1],
        ),
        mistake(
            "last_token_wraps",
            "The last position is compared with the first token (np.roll). It has no next token: leave it "
            "out.",
            "最后一个位置与第一个词元比较了（np.roll）。它没有下一个词元：应去掉。",
            first_rows=lambda V: V.log_probs,
            next_tokens=lambda V: np.roll(V.tokens, -1),
        ),
        mistake(
            "last_pair_lost",
            "The last pair is lost. Only one position is left out, the last.",
            "最后一对丢失了。只应去掉最后一个位置。",
            first_rows=lambda V: V.log_probs[:-2],
            next_tokens=lambda V: V.tokens[1:-1],
        ),
        mistake(
            "best_token",
            "The log-probability of the most likely token is taken. That of the true next token counts.",
            "取的是最可能的词元的对数概率。应取真正的下一个词元的。",
            picked=lambda V: V.rows.max(-1),
        ),
        mistake(
            "every_row_with_every_target",
            "Each row is indexed by all targets: rows[:, targets] has n × n numbers. Pick one number of each "
            "row: rows[np.arange(n), targets].",
            "每一行都用全部目标做了索引：rows[:, targets] 有 n × n 个数。应在每一行取一个数："
            "rows[np.arange(n), targets]。",
            picked=lambda V: V.rows[:, V.targets],
        ),
        mistake(
            "whole_rows",
            "All log-probabilities are averaged. Only that of the true next token counts.",
            "对全部对数概率取了平均。只有真正的下一个词元的才算。",
            picked=lambda V: V.rows,
        ),
        mistake(
            "summed",
            "The losses are added up. The mean is asked for, so that long texts do not count more.",
            "损失相加了。要的是平均，这样长文本才不会占更大比重。",
            averaged=lambda V: V.picked.sum(),
        ),
        mistake(
            "log_of_the_mean",
            "The probabilities are averaged before the logarithm. Average the log-probabilities.",
            "先平均概率再取对数了。应平均对数概率。",
            averaged=lambda V: np.log(np.exp(V.picked).mean()),
        ),
        mistake(
            "not_averaged",
            "These are the losses of the single positions. The exercise asks for one number, their mean.",
            "这些是各个位置的损失。本题要一个数，即它们的平均。",
            averaged=lambda V: V.picked,
        ),
        mistake(
            "divided_by_length",
            "The sum is divided by n. There are only n - 1 predictions.",
            "总和除以了 n。只有 n - 1 个预测。",
            averaged=lambda V: V.picked.sum() / len(V.tokens),
        ),
        mistake(
            "sign",
            "The sign is missing: a log-probability is negative, and a loss is its negative.",
            "缺少负号：对数概率是负数，损失是它的相反数。",
            negated=lambda V: V.averaged,
        ),
        mistake(
            "perplexity",
            "This is the perplexity, exp of the loss.",
            "这是困惑度，即损失的 exp。",
            loss=lambda V: np.exp(V.negated),
        ),
    ),
    make_cases=lambda rng: _logits(rng, "tokens", (5, 5), (4, 7), (7, 3)),
    returns=("loss",),
)


# ---- label smoothing


LABEL_SMOOTHING = Exercise(
    name="label_smoothing",
    title=Words("Label smoothing", "标签平滑"),
    task=Words(
        "Write smoothed_loss(logits, targets, epsilon). With log p = log softmax(logits), the loss of one row is\n\n"
        "    -(1 - epsilon) * log p[target] - epsilon * mean of log p over the whole vocabulary\n\n"
        "Return the mean over the rows. logits (n, vocabulary), targets (n,) of token ids, epsilon a number.",
        "编写 smoothed_loss(logits, targets, epsilon)。设 log p = log softmax(logits)，一行的损失是\n\n"
        "    -(1 - epsilon) * log p[target] - epsilon * 整个词表上 log p 的平均\n\n"
        "返回各行的平均。logits (n, 词表)，targets (n,) 是词元编号，epsilon 是一个数。",
    ),
    hint=Words(
        "Two parts: log_probs[np.arange(n), targets] and log_probs.mean(-1).",
        "两个部分：log_probs[np.arange(n), targets] 和 log_probs.mean(-1)。",
    ),
    done=Words(
        "The target gets the probability 1 - ε + ε / vocabulary, so the model is not pushed to be certain.",
        "目标的概率是 1 - ε + ε / 词表大小，模型不会被逼得过于自信。",
    ),
    function="smoothed_loss",
    arguments=("logits", "targets", "epsilon"),
    steps=(
        *_PROBABILITIES,
        step(
            "log_probs",
            "the log-probabilities",
            "对数概率",
            lambda V: V.logarithm(V.probabilities),
            POSITION,
            TOKEN,
        ),
        step(
            "gold",
            "the log-probabilities of the targets",
            "目标的对数概率",
            lambda V: _chosen(V.log_probs, V.targets),
            POSITION,
        ),
        choice("summed", lambda V: V.log_probs.sum(-1)),
        choice("number", lambda V: V.logits.shape[-1]),
        choice("divisor", lambda V: V.number),
        step(
            "uniform",
            "the mean log-probability over the vocabulary",
            "词表上对数概率的平均",
            lambda V: V.summed / V.divisor,
            POSITION,
        ),
        choice("shares", lambda V: (1 - V.epsilon, V.epsilon)),
        choice("sign", fixed(1)),
        step(
            "mixed",
            "the mixture of both parts",
            "两部分的混合",
            lambda V: V.shares[0] * V.gold + V.sign * V.shares[1] * V.uniform,
            POSITION,
        ),
        choice("averaged", lambda V: V.mixed.mean()),
        step(
            "loss",
            "the loss, minus the mean over the rows",
            "损失，即各行平均取负",
            lambda V: -V.averaged,
        ),
    ),
    mistakes=(
        mistake(
            "no_log",
            "The probabilities are mixed without their logarithm.",
            "混合的是概率，没有取对数。",
            logarithm=fixed(same),
        ),
        _NO_SOFTMAX,
        mistake(
            "over_rows",
            "The softmax runs over the rows. It runs over the vocabulary, the last axis.",
            "softmax 沿行的方向做了。应沿词表，即最后一个轴。",
            axis=fixed(0),
        ),
        _OVER_ALL,
        mistake(
            "best_token",
            "The most likely token is taken for the target.",
            "把最可能的词元当成了目标。",
            gold=lambda V: V.log_probs.max(-1),
        ),
        mistake(
            "sum_over_vocabulary",
            "The log-probabilities of the vocabulary are added up. Their mean is asked for: ε is shared "
            "by all tokens.",
            "词表的对数概率相加了。要的是平均：ε 由所有词元分享。",
            divisor=fixed(1),
        ),
        mistake(
            "others_only",
            "ε is shared by the other tokens, without the target. Here it is shared by the whole vocabulary.",
            "ε 只分给了目标以外的词元。这里由整个词表分享。",
            summed=lambda V: V.log_probs.sum(-1) - V.gold,
            number=lambda V: V.logits.shape[-1] - 1,
        ),
        mistake(
            "target_overwritten",
            "The target gets 1 - ε and the other tokens get ε / vocabulary each. The target gets its share of "
            "ε as well: 1 - ε + ε / vocabulary.",
            "目标得到 1 - ε，其他词元各得到 ε / 词表大小。目标也应分到一份 ε：1 - ε + ε / 词表大小。",
            summed=lambda V: V.log_probs.sum(-1) - V.gold,
        ),
        mistake("not_smoothed", "ε is not used.", "没有使用 ε。", shares=fixed((1.0, 0.0))),
        mistake(
            "epsilon_swapped",
            "ε and 1 - ε are swapped: the target has the large part.",
            "ε 和 1 - ε 交换了：大的部分属于目标。",
            shares=lambda V: (V.epsilon, 1 - V.epsilon),
        ),
        mistake(
            "target_keeps_all",
            "The target keeps its whole weight 1, and ε is added. The weights have to sum to 1.",
            "目标保留了全部权重 1，又加上了 ε。权重之和应为 1。",
            shares=lambda V: (1.0, V.epsilon),
        ),
        mistake(
            "uniform_subtracted",
            "The uniform part is subtracted. Both parts are added.",
            "均匀部分被减去了。两部分应相加。",
            sign=fixed(-1),
        ),
        mistake(
            "mean_of_all_numbers",
            "The mean runs over rows and vocabulary, so the loss is divided by the size of the vocabulary too. "
            "Add up over the vocabulary, then take the mean over the rows.",
            "平均同时沿行和词表进行，损失又除以了词表大小。应先沿词表求和，再对各行取平均。",
            averaged=lambda V: V.mixed.mean() / V.logits.shape[-1],
        ),
        mistake(
            "summed",
            "The losses of the rows are added up. The mean is asked for.",
            "各行的损失相加了。要的是平均。",
            averaged=lambda V: V.mixed.sum(),
        ),
        mistake(
            "sign",
            "The sign is missing: a loss is the negative log-probability.",
            "缺少负号：损失是对数概率的相反数。",
            loss=lambda V: V.averaged,
        ),
    ),
    make_cases=lambda rng: [
        Case({**case.arguments, "epsilon": epsilon})
        for case, epsilon in zip(
            _logits(rng, "targets", (3, 3), (5, 7), (4, 2)), (0.1, 0.2, 0.3), strict=True
        )
    ],
    returns=("loss",),
)
