"""The fourth stop, one prediction of each installed task with the places that the model attended to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import MissingExtraError
from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words
from regard.terminal import draw_grids, draw_text, draw_weights

__all__ = ["stop"]

REVIEW = "The first half is slow, but the ending is wonderful."
QUESTION = "Who built the lighthouse?"
CONTEXT = (
    "The lighthouse on Fair Island was built by Anna Berg in 1874. Eleven ships had been lost there before. Today "
    "there is a museum in the house of the keeper."
)
ABSTRACT = (
    "We present a method for aligning the words of parallel sentences with the attention weights of a neural "
    "translation model. The method needs no annotated data. On three language pairs, it lowers the alignment error "
    "rate of a statistical baseline by a quarter. We also show that the last decoder layer gives the best alignments."
)

TITLE = Words("One prediction of each model, and where it looked", "每个模型做一次预测，看看它在看哪里")
CLASSIFY = Words("A sentence classified: {label} ({share:.0%}).", "给一个句子分类：{label}（{share:.0%}）。")
ANSWER = Words("A question about a text: {question}", "就一段文字提问：{question}")
FOUND = Words("The answer: {answer} ({share:.0%}).", "答案：{answer}（{share:.0%}）。")
SUMMARY = Words("A title for a text: {text}", "为一段文字起的标题：{text}")
CAPTION = Words("A picture described: {text}", "描述一张图片：{text}")
PICTURE = Words("A picture classified: {label} ({share:.0%}).", "给一张图片分类：{label}（{share:.0%}）。")
NO_CAPTION = Words(
    "No model that describes pictures is installed. `regard train caption --out my-captioner` trains one.",
    "没有安装描述图片的模型。用 `regard train caption --out my-captioner` 可以训练一个。",
)
LARGEST = Words("largest weights: {words}", "权重最大的词：{words}")
# The names of the maps of a picture in Chinese.
MAPS = {
    "pooling": "池化",
    "class token": "分类词元",
    "last layer": "最后一层",
    r"pooling, head (\d+)": r"池化，头 \1",
    r"stage (\d+)": r"第 \1 阶段",
    "rollout": "逐层相乘",
}
LEFT_OUT = Words("(left out: {problem})", "（略过：{problem}）")


def stop(presenter: Presenter) -> None:
    """Show one prediction of each task that has an installed model."""
    from regard.tasks import installed_models

    installed = {model.task: model for model in reversed(installed_models())}
    for task, show in SHOWN.items():
        if task in installed:
            _shown(presenter, installed[task], show)
        elif task == "caption":
            presenter.note(presenter.words(NO_CAPTION))


def _shown(presenter: Presenter, model: Any, show: Callable[..., None]) -> None:
    """Show a prediction of a model. One that reads pictures gets a picture that comes with it."""
    pictures = sorted((model.folder / "examples").glob("*.png"))
    if model.task in PICTURED and not pictures:
        return
    try:
        show(presenter, _loaded(model), *(pictures[:2][-1:] if model.task in PICTURED else ()))
    except MissingExtraError as error:
        presenter.note(presenter.words(LEFT_OUT, problem=str(error)))


def _loaded(model: Any) -> Any:
    from regard.tasks import find_task

    return find_task(model.task).load(model.folder, None)


def _classify(presenter: Presenter, classifier: Any) -> None:
    (found,) = classifier([REVIEW])
    presenter.say(CLASSIFY, label=found.label, share=found.probabilities[found.label])
    _draw(presenter, classifier, found, REVIEW)


def _answer(presenter: Presenter, reader: Any) -> None:
    found = reader.ask(QUESTION, CONTEXT)
    presenter.say(ANSWER, question=QUESTION)
    presenter.say(FOUND, answer=found.text or "–", share=found.confidence)
    _draw(presenter, reader, found, QUESTION)


def _summarize(presenter: Presenter, summarizer: Any) -> None:
    (found,) = summarizer([ABSTRACT])
    presenter.say(SUMMARY, text=found.text)
    _draw(presenter, summarizer, found, found.text)


def _caption(presenter: Presenter, captioner: Any, picture: Path) -> None:
    (found,) = captioner([picture])
    presenter.say(CAPTION, text=found.text)
    _draw(presenter, captioner, found, found.text, images=captioner.pictures(found))


def _classify_picture(presenter: Presenter, classifier: Any, picture: Path) -> None:
    (found,) = classifier([picture])
    presenter.say(PICTURE, label=found.label, share=found.probabilities[found.label])
    _draw(presenter, classifier, found, found.label, images=classifier.pictures(found))


SHOWN: dict[str, Callable[..., None]] = {
    "classify": _classify,
    "answer": _answer,
    "summarize": _summarize,
    "caption": _caption,
    "images": _classify_picture,
}
PICTURED = ("caption", "images")


def _draw(presenter: Presenter, predictor: Any, prediction: Any, title: str, images: object = None) -> None:
    """Draw the attention of a prediction in the terminal, and show all of it on the page."""
    if not predictor.attends:
        return
    for words in predictor.word_weights(prediction):
        presenter.drawn(lambda console, words=words: _draw_words(presenter, console, words))
    presenter.view(predictor.attention(prediction), title, images=images)


def _draw_words(presenter: Presenter, console: Any, words: Any) -> None:
    """Draw weights over a picture, over a running text or between words, as ``--attention`` does."""
    if getattr(words, "picture", None) is not None:
        names = [_map_name(name, presenter.language) for name in words.row_words]
        draw_grids(words.weights, names, words.grid, console=console)
        return
    if getattr(words, "spans", ()):
        weights, last = words.weights.mean(axis=0), LARGEST.say(presenter.language)
        draw_text(words.text, words.spans, weights, unread=words.unread, last_line=last, console=console)
        words = getattr(words, "table", None)
    if words is not None:
        draw_weights(words.weights, words.row_words, words.column_words, console=console)


def _map_name(name: str, language: str) -> str:
    """Return the name of a map of a picture in a language, or a word of a caption as it is.

    >>> _map_name("pooling, head 2", "zh"), _map_name("circle", "zh")
    ('池化，头 2', 'circle')
    """
    if language == "zh":
        for english, chinese in MAPS.items():
            if match := re.fullmatch(english, name):
                return match.expand(chinese)
    return name
