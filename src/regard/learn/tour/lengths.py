"""The third stop, two translators trained side by side and their quality by sentence length."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from regard.learn.tour.presenter import Presenter
from regard.learn.tour.training import TrainingRun, train_side_by_side
from regard.learn.words import Words

__all__ = ["length_chart", "stop"]

# Minutes of updates of each model. Both train at the same time.
MINUTES = 1.5
# The sentences of the test part that both models translate.
SENTENCES = 600
LIMITS = (5, 10, 15, 20)
FLAGS = (
    *("--architecture", "seq2seq", "--width", "128", "--encoder-layers", "1", "--decoder-layers", "1"),
    # Without input feeding, all words of a sentence are computed at once.
    *("--no-input-feeding", "--embedded", "40000", "--vocabulary-size", "3000", "--batch-tokens", "800"),
    *("--learning-rate", "0.004", "--warmup", "100", "--average", "0.99"),
    *("--validate-sentences", "50", "--save-every", "100000"),
)
# BLEU of the model with attention on the shortest sentences, below which the two models are not compared.
LEAST_BLEU = 20.0
# The characters of a bar in the terminal at 100 BLEU.
BAR = 40

TITLE = Words("Why attention: long sentences", "为什么需要注意力：长句子")
BEFORE = Words(
    """
    Two encoder–decoders learn English to French from the same generated sentences, at the same time and for the same
    {minutes:g} minutes. Both read the sentence with a GRU and write the translation with another one. The first has to
    put the whole sentence into one vector of fixed size. The second looks back at all words of the source with additive
    attention before each word that it writes. In 2014, Bahdanau, Cho and Bengio compared them by the length of the
    sentences. These are the two commands:
    """,
    """
    两个编码器–解码器用同样的生成句子学习英译法，同时训练，时间都是 {minutes:g} 分钟。两者都用一个 GRU 读句子，
    用另一个 GRU 写译文。第一个必须把整句话压进一个固定大小的向量；第二个每写一个词之前，用加性注意力回看原文的所有词。
    2014 年 Bahdanau、Cho 和 Bengio 就是按句子长度比较这两种模型的。训练命令如下：
    """,
)
MEASURED = Words(
    """
    BLEU of {sentences} sentences that neither has seen, by the number of words of the source ({fixed_steps} and
    {attention_steps} steps of training):
    """,
    """
    在两个模型都没见过的 {sentences} 个句子上的 BLEU，按原文词数分组
    （分别训练了 {fixed_steps} 步和 {attention_steps} 步）：
    """,
)
AFTER = Words(
    """
    From the shortest to the longest sentences, the model with one vector goes from {fixed_short:.0f} to
    {fixed_long:.0f} BLEU, and the one with attention from {attention_short:.0f} to {attention_long:.0f}. One vector
    cannot hold a long sentence. Attention removes this bottleneck, because the decoder reads the words themselves.
    Both models are in {folder}.
    """,
    """
    从最短的一组到最长的一组，只有一个向量的模型的 BLEU 从 {fixed_short:.0f} 变到 {fixed_long:.0f}，
    带注意力的模型从 {attention_short:.0f} 变到 {attention_long:.0f}。一个向量装不下一个长句子；有了注意力，
    解码器直接读每个词，这个瓶颈就不存在了。两个模型都保存在 {folder}。
    """,
)
TOO_EARLY = Words(
    """
    On this machine, neither model has learned enough in this time to compare them: the one with attention has
    {attention_short:.0f} BLEU on the shortest sentences. Run the two commands with more --minutes, and compare the
    models with `regard evaluate translate --model A --compare B`. Both models of this tour are in {folder}.
    """,
    """
    在这台机器上，这点时间还不够两个模型学到可以比较的程度：
    带注意力的模型在最短的句子上 BLEU 只有 {attention_short:.0f}。
    请把上面两条命令的 --minutes 调大，再用 `regard evaluate translate --model A --compare B` 比较。
    这次导览的两个模型保存在 {folder}。
    """,
)
NAMES = (Words("one fixed vector", "一个固定向量"), Words("attention", "注意力"))
CHART = Words("Quality by sentence length", "不同句长的翻译质量")
AXES = (Words("Words of the source", "原文词数"), Words("BLEU", "BLEU"))


def stop(
    presenter: Presenter,
    *,
    minutes: float = MINUTES,
    sentences: int = SENTENCES,
    flags: Sequence[str] = FLAGS,
) -> None:
    """Train both models, measure them on unseen sentences, and draw BLEU by sentence length."""
    from regard.metrics import bleu

    # Raises MissingExtraError before the training if sacrebleu is not installed.
    bleu(["a"], [["a"]])
    names = [presenter.words(name) for name in NAMES]
    presenter.say(BEFORE, minutes=minutes)
    with tempfile.TemporaryDirectory(prefix="regard-tour-") as place:
        runs = [
            TrainingRun(name, [*flags, "--score", score], Path(place) / score)
            for name, score in zip(names, ("none", "additive"), strict=True)
        ]
        presenter.verbatim("\n".join(f"{run.command} --minutes {minutes:g}" for run in runs))
        train_side_by_side(runs, minutes, presenter.console.print)
        steps = [run.steps for run in runs]
        found = _measured(runs, sentences, presenter.folder)
    facts = {"fixed_steps": f"{steps[0]:,}", "attention_steps": f"{steps[1]:,}"}
    presenter.say(MEASURED, sentences=sentences, **facts)
    _show(presenter, dict(zip(names, found, strict=True)))


def _measured(
    runs: Sequence[TrainingRun], sentences: int, folder: Path
) -> list[list[tuple[str, int, float]]]:
    """Return BLEU by length of each model on test sentences, and keep the models in ``folder``."""
    from regard.corpus import generate
    from regard.metrics import by_length
    from regard.tasks import load
    from regard.text import count_words

    pairs = [(one.english.text, one.french.text) for one in generate(sentences, split="test")]
    lengths = [count_words(source) for source, _ in pairs]
    references = [[target for _, target in pairs]]
    rows = []
    for run in runs:
        translator = load(run.model)
        outputs = [one.text for one in translator((source for source, _ in pairs), beams=1)]
        rows.append(by_length(outputs, references, lengths, LIMITS, language="fr"))
        translator.save(folder / f"model-{run.folder.name}")
    return rows


def _show(presenter: Presenter, rows: Mapping[str, Sequence[tuple[str, int, float]]]) -> None:
    """Draw the chart in the terminal and as a picture, and say what it shows."""
    from regard.plots import plot_by_length

    presenter.verbatim(length_chart(rows), on_page=False)
    title = presenter.words(CHART)
    axes = (presenter.words(AXES[0]), presenter.words(AXES[1]))
    presenter.picture(
        "3-quality-by-length.png", lambda path: plot_by_length(rows, title=title, axes=axes, path=path), title
    )
    fixed, attention = rows.values()
    facts: dict[str, Any] = {"fixed_short": fixed[0][2], "fixed_long": fixed[-1][2]}
    facts |= {"attention_short": attention[0][2], "attention_long": attention[-1][2]}
    learned = attention[0][2] >= LEAST_BLEU
    presenter.say(AFTER if learned else TOO_EARLY, **facts, folder=os.fspath(presenter.folder))


def length_chart(rows: Mapping[str, Sequence[tuple[str, int, float]]]) -> str:
    """Return the scores of each model by range of lengths as bars of text.

    >>> print(length_chart({"one vector": [("1-5", 9, 50.0)], "attention": [("1-5", 9, 100.0)]}))
    1-5 (9)  one vector  ####################                       50.0
             attention   ########################################  100.0
    """
    wide = max(cell_len(name) for name in rows)
    first = next(iter(rows.values()))
    heads = [f"{words} ({count})" for words, count, _ in first]
    margin = max(map(len, heads))
    lines = []
    for place, head in enumerate(heads):
        for number, (name, values) in enumerate(rows.items()):
            score = values[place][2]
            left = head if number == 0 else ""
            bar = "#" * round(score / 100 * BAR)
            lines.append(
                f"{left:<{margin}}  {name}{' ' * (wide - cell_len(name))}  {bar:<{BAR}} {score:6.1f}"
            )
    return "\n".join(lines)
