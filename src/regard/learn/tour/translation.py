"""The second stop, a sentence translated to French and to Chinese by the shipped models."""

from __future__ import annotations

from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words
from regard.terminal import draw_weights

__all__ = ["SENTENCE", "stop"]

SENTENCE = "The cat sits on the mat."

TITLE = Words("Translation: each word looks back at its source", "翻译：每个词都回看原文")
BEFORE = Words(
    """
    Two small translators come with Regard. Before each word that it writes, a translator computes attention over the
    words of the source. A row is a word of the translation, and the columns are the words of the source. In the tables
    of the terminal, the rest of a row is attention to the end of the sentence, which is not shown.
    """,
    """
    Regard 自带两个小型翻译模型。模型每写一个词之前，都会对原文的各个词计算注意力。每一行是译文的一个词，
    每一列是原文的一个词；在终端的表格里，每行其余的权重落在句末标记上，没有画出来。
    """,
)
AFTER = Words(
    """
    The sentence is in none of the training data. The models learned from pairs of sentences alone, without aligned
    words. The alignment comes from learning to translate. The tables of the terminal show the mean of the heads
    in the layer that aligns words best. The page has every layer and head.
    """,
    """
    训练数据里没有这句话。模型只见过成对的句子，没有见过词与词的对应关系，对齐是学习翻译时自然形成的。
    终端的表格是对齐效果最好的那一层各个头的平均，每一层、每个头都在页面里。
    """,
)
ARROW = Words("{source} → {text}", "{source} → {text}")


def stop(presenter: Presenter) -> None:
    """Translate the sentence, and draw the alignment of both translations."""
    from regard.tasks import find_model, load

    presenter.say(BEFORE)
    for target in ("fr", "zh"):
        translator = load(find_model("translate", languages=("en", target)))
        (translation,) = translator([SENTENCE])
        shown = presenter.words(ARROW, source=SENTENCE, text=translation.text)
        presenter.verbatim(shown)
        for words in translator.word_weights(translation):
            presenter.drawn(
                lambda console, words=words: draw_weights(
                    words.weights, words.row_words, words.column_words, marks=words.marks, console=console
                )
            )
        presenter.view(translator.attention(translation).by(kind="cross"), shown)
    presenter.say(AFTER)
