"""The fourth stop, one prediction of each installed task with the places that the model attended to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
LEFT_OUT = Words("(left out: {problem})", "（略过：{problem}）")


def stop(presenter: Presenter) -> None:
    """Show one prediction of each task that has an installed model."""
    from regard.tasks import installed_models

    installed = {model.task: model for model in reversed(installed_models())}
    for task, show in SHOWN.items():
        if task not in installed:
            if task == "caption":
                presenter.note(presenter.words(NO_CAPTION))
            continue
        try:
            show(presenter, _loaded(installed[task]))
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


def _caption(presenter: Presenter, captioner: Any) -> None:
    from regard.images.scene_captions import USUAL_WORDS
    from regard.images.scene_objects import ObjectPictures
    from regard.images.scenes import Scenes
    from regard.tasks import find_model

    # Pictures that come with the model are like those of its training.
    examples = sorted((find_model("caption") / "examples").glob("*.png"))
    if examples:
        (found,) = captioner([examples[min(1, len(examples) - 1)]])
        presenter.say(CAPTION, text=found.text)
        _draw(presenter, captioner, found, found.text, images=captioner.pictures(found))
        return
    words = [word for word in captioner.extra.get("words") or USUAL_WORDS if word in USUAL_WORDS]
    scenes = Scenes(ObjectPictures.read(split="test", words=words), size=captioner.model.config.image_height)
    (found,) = captioner([scenes.pixels(scenes[1])])
    presenter.say(CAPTION, text=found.text)
    _draw(presenter, captioner, found, found.text, images=captioner.pictures(found))


def _classify_picture(presenter: Presenter, classifier: Any) -> None:
    picture = _picture_for(classifier)
    if picture is None:
        return
    (found,) = classifier([picture])
    presenter.say(PICTURE, label=found.label, share=found.probabilities[found.label])
    _draw(presenter, classifier, found, found.label, images=classifier.pictures(found))


SHOWN: dict[str, Callable[[Presenter, Any], None]] = {
    "classify": _classify,
    "answer": _answer,
    "summarize": _summarize,
    "caption": _caption,
    "images": _classify_picture,
}


def _picture_for(classifier: Any) -> np.ndarray | None:
    """Return a picture ``(h,w)`` of a class of the model, or None if none comes with Regard.

    Models of digits get one of scikit-learn's handwritten digits. Models of garments get drawn trousers.
    """
    names = {name.lower() for name in classifier.labels.names}
    if "7" in names:
        from regard.images.digits import read_digits

        digits = read_digits("test")
        return digits.images[digits.labels == 7][0][..., 0]
    return _trousers() if names & {"trouser", "trousers"} else None


def _trousers() -> np.ndarray:
    """Return a drawing of trousers, ``(28,28)`` bytes.

    >>> _trousers().shape
    (28, 28)
    """
    picture = np.zeros((28, 28), dtype=np.uint8)
    picture[1:6, 9:19] = 200
    for row in range(6, 27):
        spread = (row - 6) // 8
        picture[row, 9 - spread : 13 - spread // 2] = 180
        picture[row, 15 + spread // 2 : 19 + spread] = 180
    return picture


def _draw(presenter: Presenter, predictor: Any, prediction: Any, title: str, images: object = None) -> None:
    """Draw the attention of a prediction in the terminal, and show all of it on the page."""
    if not predictor.attends:
        return
    for words in predictor.word_weights(prediction):
        presenter.drawn(lambda console, words=words: _draw_words(console, words))
    presenter.view(predictor.attention(prediction), title, images=images)


def _draw_words(console: Any, words: Any) -> None:
    """Draw weights over a picture, over a running text or between words, as ``--attention`` does."""
    if getattr(words, "picture", None) is not None:
        draw_grids(words.weights, words.row_words, words.grid, console=console)
        return
    if getattr(words, "spans", ()):
        draw_text(words.text, words.spans, words.weights.mean(axis=0), unread=words.unread, console=console)
        words = getattr(words, "table", None)
    if words is not None:
        draw_weights(words.weights, words.row_words, words.column_words, console=console)
