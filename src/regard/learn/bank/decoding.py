"""The exercise on one step of a beam search."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.learn.bank.shared_steps import POSITION, choice, fixed, mistake, numbers, softmax, step
from regard.learn.exercise import Case, Exercise
from regard.learn.words import Words

__all__ = ["BEAM_STEP"]

Array = np.ndarray


def _cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    # The first step of a search has one beam, and a search that gets narrower has more beams than its width.
    sizes = ((3, 3, 3), (2, 5, 2), (4, 7, 4), (3, 4, 3), (7, 11, 7), (1, 7, 4), (5, 7, 2))
    for beams, size, width in sizes:
        logits = numbers(rng, logits=(beams, size)).arguments["logits"]
        scores = -np.sort(rng.uniform(0.5, 2.5, beams)).round(2)
        order = rng.permutation(beams)
        cases.append(Case({"scores": scores[order], "log_probs": np.log(softmax(logits)), "width": width}))
    return [*cases, _wide_case(rng)]


def _wide_case(rng: np.random.Generator) -> Case:
    """Return a case with so many continuations that np.argpartition does not put the best ones into order.

    All totals are at least 0.0025 apart, so that their order is the same in float32.
    """
    logits = 0.01 * np.stack([rng.permutation(700), 0.25 + rng.permutation(700)])  # (2,700)
    log_probs = logits - np.log(np.exp(logits[0]).sum())
    return Case({"scores": np.array([-1.0, -1.505]), "log_probs": log_probs, "width": 600})


# The functions below return the places of continuations in the flat array, the best first.


def _all_places(V: Any, totals: Array) -> Array:
    return np.argsort(-totals.ravel(), kind="stable")


def _best_of_each(V: Any, totals: Array) -> Array:
    flat = np.arange(len(totals)) * totals.shape[1] + totals.argmax(-1)
    return flat[np.argsort(-totals.ravel()[flat], kind="stable")]


def _of_best_beam(V: Any, totals: Array) -> Array:
    beam = int(np.argmax(V.scores))
    return beam * totals.shape[1] + np.argsort(-totals[beam], kind="stable")


def _each_token_once(V: Any, totals: Array) -> Array:
    order = _all_places(V, totals)
    tokens = order % totals.shape[1]
    first = [i for i, token in enumerate(tokens) if token not in tokens[:i]]
    return order[first]


BEAM_STEP = Exercise(
    name="beam_step",
    title=Words("One step of a beam search", "束搜索的一步"),
    task=Words(
        "Write beam_step(scores, log_probs, width). scores (beams,) are the log-probabilities of the texts so "
        "far, and\n"
        "log_probs (beams, vocabulary) those of each next token. Of all continuations of all texts, keep the "
        "`width` best ones by\n"
        "their total log-probability. Return two arrays (width,), best first: the beam and the token of each.",
        "编写 beam_step(scores, log_probs, width)。scores (束,) 是已有文本的对数概率，log_probs (束, 词表) 是每"
        "个下一词元的\n"
        "对数概率。在所有文本的所有续写中，按总对数概率保留最好的 width 个。\n"
        "返回两个形状为 (width,) 的数组，最好的在前：每个续写的束和词元。",
    ),
    hint=Words(
        "Totals are scores[:, None] + log_probs. Sort all of them at once: the place in the flat array is "
        "beam * vocabulary + token.",
        "总分是 scores[:, None] + log_probs。把它们全部一起排序：展平后的位置等于 束 * 词表大小 + 词元。",
    ),
    done=Words(
        "With width 1 this is greedy decoding. A good text may drop out of the beam, so the search is not exact.",
        "width 为 1 时就是贪心解码。好的文本也可能掉出束外，所以搜索并不精确。",
    ),
    function="beam_step",
    arguments=("scores", "log_probs", "width"),
    steps=(
        choice("columns", lambda V: V.scores[:, None]),
        choice("gained", lambda V: V.log_probs),
        choice("operation", fixed(np.add)),
        step(
            "totals",
            "the totals scores[:, None] + log_probs",
            "总分 scores[:, None] + log_probs",
            lambda V: V.operation(V.columns, V.gained),
            POSITION,
            POSITION,
        ),
        choice("ranked", lambda V: V.totals),
        choice("candidates", fixed(_all_places)),
        choice("number", lambda V: V.width),
        choice("kept", lambda V: V.candidates(V, V.ranked)[: V.number]),
        step(
            "places",
            "the places of the best in the flat array",
            "最好的在展平数组中的位置",
            lambda V: V.kept,
            POSITION,
        ),
        choice("quotient", lambda V: V.places // V.log_probs.shape[1]),
        choice("remainder", lambda V: V.places % V.log_probs.shape[1]),
        step(
            "beam",
            "the beam, place // vocabulary",
            "束，即 位置 // 词表大小",
            lambda V: V.quotient,
            POSITION,
        ),
        step(
            "token",
            "the token, place % vocabulary",
            "词元，即 位置 % 词表大小",
            lambda V: V.remainder,
            POSITION,
        ),
    ),
    mistakes=(
        mistake(
            "scores_ignored",
            "The scores of the texts so far are not used. A likely token after an unlikely text is an "
            "unlikely text.",
            "没有使用已有文本的分数。不可能的文本后接一个很可能的词元，仍是不可能的文本。",
            operation=fixed(lambda scores, gained: gained),
        ),
        mistake(
            "multiplied",
            "Log-probabilities are multiplied. Probabilities multiply, so their logarithms add.",
            "对数概率相乘了。概率相乘，对数应相加。",
            operation=fixed(np.multiply),
        ),
        mistake(
            "subtracted",
            "The scores are subtracted. Logarithms of a product add.",
            "分数被减去了。乘积的对数是相加。",
            operation=fixed(lambda scores, gained: gained - scores),
        ),
        mistake(
            "probabilities_added",
            "A log-probability and a probability are added: log_probs went through exp.",
            "对数概率与概率相加了：log_probs 经过了 exp。",
            gained=lambda V: np.exp(V.log_probs),
        ),
        mistake(
            "scores_of_tokens",
            "The scores are added along the vocabulary. Each beam has one: scores[:, None].",
            "分数沿词表加上了。每个束有一个分数：scores[:, None]。",
            columns=lambda V: V.scores[None, :],
        ),
        mistake(
            "worst",
            "The worst continuations are kept: argsort sorts upwards.",
            "保留了最差的续写：argsort 是升序。",
            ranked=lambda V: -V.totals,
        ),
        mistake(
            "best_last",
            "The right continuations are kept, but the best one is the last.",
            "保留的续写是对的，但最好的排在了最后。",
            places=lambda V: V.kept[::-1],
        ),
        mistake(
            "width_ignored",
            "As many continuations are kept as there are beams. Keep `width` of them: the first step has one beam, "
            "and width may be 4.",
            "保留的续写个数等于束的个数。应保留 width 个：第一步只有一个束，而 width 可以是 4。",
            number=lambda V: len(V.scores),
        ),
        mistake(
            "best_of_each_beam",
            "Each beam keeps its best continuation. The best ones of all beams together may come from "
            "one beam.",
            "每个束保留了自己最好的续写。所有束一起比较时，最好的几个可能来自同一个束。",
            candidates=fixed(_best_of_each),
        ),
        mistake(
            "best_beam_only",
            "Only the best text is continued. All beams are.",
            "只续写了最好的文本。所有束都应续写。",
            candidates=fixed(_of_best_beam),
        ),
        mistake(
            "each_token_once",
            "A token is kept at most once. Two texts may continue with the same token.",
            "一个词元最多保留一次。两个文本可以用同一个词元续写。",
            candidates=fixed(_each_token_once),
        ),
        mistake(
            "divided_by_beams",
            "The place is divided by the number of beams. A row of the totals has one number for each token: "
            "place // vocabulary.",
            "位置除以了束的个数。总分的一行中每个词元一个数：位置 // 词表大小。",
            quotient=lambda V: V.places // len(V.scores),
        ),
        mistake(
            "remainder_of_beams",
            "The token is the remainder by the number of beams. It is place % vocabulary.",
            "词元取了对束数的余数。应为 位置 % 词表大小。",
            remainder=lambda V: V.places % len(V.scores),
        ),
        mistake(
            "swapped",
            "Beam and token are swapped: place // vocabulary is the beam, place % vocabulary is the token.",
            "束和词元交换了：位置 // 词表大小 是束，位置 % 词表大小 是词元。",
            beam=lambda V: V.remainder,
            token=lambda V: V.quotient,
        ),
    ),
    make_cases=_cases,
    returns=("beam", "token"),
)
