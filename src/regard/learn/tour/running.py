"""The order of the stops, the page of all of them, and the end of the tour."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text as Line

from regard.errors import FileError, RegardError
from regard.learn.tour import captured, lengths, predictions, translation, worked
from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words, choose_language
from regard.viewer.articles import Text, save_article

__all__ = ["PAGE", "run"]

PAGE = "index.html"

TITLE = Words("A tour of attention", "注意力导览")
SKIPPED = Words("(this stop is left out: {problem})", "（略过这一站：{problem}）")
NOT_TRAINED = Words(
    "(--quick leaves out the training, which takes about two minutes: run `regard tour` to see it)",
    "（--quick 略过了约两分钟的训练；运行 `regard tour` 可以看到它）",
)
ON_PAGE = Words(
    "All of this is on one page, with every layer and head to look at:",
    "以上内容都在一个页面里，每一层、每个头都可以查看：",
)
NEXT = Words(
    """\
What to try next:
  regard translate "I lost my keys yesterday." --attention      a sentence of your own
  regard look "A sentence that a model reads."                  all layers and heads of a model, in the browser
  regard train classify --data reviews.tsv --out reviews        a model of your own data, text TAB label
  regard learn                                                  exercises that say what went wrong
  regard --help                                                 everything else""",
    """\
接下来可以试试：
  regard translate "I lost my keys yesterday." --to zh --attention    换一句自己的话
  regard look "A sentence that a model reads."                        在浏览器里看一个模型的所有层和头
  regard train classify --data reviews.tsv --out reviews              用自己的数据训练，每行是 文本 TAB 标签
  regard learn                                                        会指出错在哪里的练习
  regard --help                                                       其余命令""",
)

NO_COMMAND = Words(
    "This shell does not find the command `regard` yet. The following line changes that:",
    "当前终端还找不到命令 `regard`。运行下面这一行就可以了：",
)


class Stop(NamedTuple):
    """A stop of the tour, with its title."""

    title: Words
    show: Callable[[Presenter], None]


STOPS = (
    Stop(worked.TITLE, worked.stop),
    Stop(translation.TITLE, translation.stop),
    Stop(lengths.TITLE, lengths.stop),
    Stop(predictions.TITLE, predictions.stop),
    Stop(captured.TITLE, captured.stop),
)


def run(
    out: str | os.PathLike[str] = "regard-tour",
    *,
    quick: bool = False,
    language: str | None = None,
    console: Console | None = None,
) -> Path:
    """Print the tour, write its pictures and its page into the folder ``out``, and return the path of the page.

    ``quick`` leaves out the training. ``language`` is "en" or "zh", by default that of the locale.
    """
    presenter = Presenter(_made(Path(out)), choose_language(language), console)
    presenter.blocks.append(Text("title", presenter.words(TITLE)))
    for number, stop in enumerate(STOPS, start=1):
        presenter.title(stop.title, number)
        if quick and stop.show is lengths.stop:
            presenter.note(presenter.words(NOT_TRAINED))
            continue
        try:
            stop.show(presenter)
        except RegardError as error:  # such as a missing extra: the other stops are still worth seeing
            presenter.note(presenter.words(SKIPPED, problem=str(error)))
    return _end(presenter)


def _made(folder: Path) -> Path:
    """Make the folder of the tour, or raise FileError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out: cannot make the folder '{folder}': {error.strerror or error}") from error
    return folder


def _end(presenter: Presenter) -> Path:
    """Write the page, print its path, and say what to try next."""
    path = presenter.folder / PAGE
    following = NEXT.say(presenter.language)
    blocks = [*presenter.blocks, Text("verbatim", following)]
    language = {"zh": "zh-CN"}.get(presenter.language, presenter.language)
    save_article(path, f"{presenter.words(TITLE)} · Regard", blocks, language=language)
    presenter.console.print(Line(presenter.words(ON_PAGE)))
    presenter.verbatim(f"  {path}", on_page=False)
    presenter.console.print(Line(following), soft_wrap=True)
    _tell_activation(presenter)
    return path


def _tell_activation(presenter: Presenter) -> None:
    """Print how to put the command on the path, if the shell does not find it and the environment has such a script."""
    activate = Path(sys.prefix, "bin", "activate")
    if shutil.which("regard") is None and activate.is_file():
        here = Path.cwd()
        shown = activate.relative_to(here) if activate.is_relative_to(here) else activate
        presenter.console.print(Line(presenter.words(NO_COMMAND)), soft_wrap=True)
        presenter.verbatim(f"  . {shlex.quote(str(shown))}", on_page=False)
