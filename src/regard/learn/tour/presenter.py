"""The output of the tour, in the terminal and on the page at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Line

from regard.errors import MissingExtraError
from regard.learn.words import Words
from regard.viewer.articles import Block, Picture, Text, View

__all__ = ["Presenter"]

# The number of words in a line of the terminal is limited, so that paragraphs are easy to read in wide windows.
WIDEST = 110
# What stays on one line: a Chinese character or a word, with the punctuation that belongs to it.
_CHINESE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_UNIT = re.compile(rf"[（“《]*(?:[{_CHINESE}]|[^\s{_CHINESE}（“《]+)[，。、：；！？）”》…]*|\s+|.")
_NO_PICTURE = Words("(no picture: {problem})", "（没有图片：{problem}）")
_PICTURE = Words("Picture: {path}", "图片：{path}")


class Presenter:
    """Prints paragraphs, tables and pictures, and keeps them as the blocks of the page.

    ``folder`` is where pictures are written, and ``language`` is "en" or "zh".
    """

    def __init__(self, folder: Path, language: str, console: Console | None = None):
        self.folder, self.language = folder, language
        self.console = console or Console(highlight=False)
        if self.console.width > WIDEST:
            self.console.width = WIDEST
        self.blocks: list[Block] = []

    def words(self, text: Words, /, **values: object) -> str:
        """Return a text in the language of the tour, on one line."""
        lines = [line.strip() for line in text.say(self.language, **values).strip().splitlines()]
        return ("" if self.language == "zh" else " ").join(lines)

    def title(self, text: Words, number: int) -> None:
        """Print the title of a stop, with its number."""
        shown = f"{number}. {self.words(text)}"
        self.blocks.append(Text("heading", shown))
        self.console.print(Line(shown, style="bold"))
        self.console.print()

    def say(self, text: Words, /, **values: object) -> None:
        """Print a paragraph, wrapped at the width of the terminal."""
        shown = self.words(text, **values)
        self.blocks.append(Text("paragraph", shown))
        self.console.print(Line("\n".join(wrapped(shown, self.console.width))), soft_wrap=True)
        self.console.print()

    def note(self, text: str) -> None:
        """Print a remark, such as the command that installs a missing package."""
        self.blocks.append(Text("note", text))
        self.console.print(Line(text), soft_wrap=True)
        self.console.print()

    def verbatim(self, text: str, *, on_page: bool = True) -> None:
        """Print lines without wrapping them, so that tables stay aligned and a path can be copied."""
        if on_page:
            self.blocks.append(Text("verbatim", text))
        self.console.print(Line(text), soft_wrap=True)
        self.console.print()

    def drawn(self, draw: Callable[[Console], object]) -> None:
        """Draw something in the terminal that the page shows in a viewer."""
        draw(self.console)
        self.console.print()

    def picture(self, name: str, draw: Callable[[Path], object], description: str) -> None:
        """Write a PNG file and print its path, or print how to install matplotlib."""
        path = self.folder / name
        try:
            draw(path)
        except MissingExtraError as error:
            self.note(self.words(_NO_PICTURE, problem=str(error)))
            return
        self.blocks.append(Picture(path.read_bytes(), description, _width_on_page(path)))
        self.verbatim(self.words(_PICTURE, path=path), on_page=False)

    def view(self, records: Sequence[Any], title: str, *, images: object = None, height: int = 600) -> None:
        """Show records in a viewer of the page."""
        self.blocks.append(View(records, title, images, height))


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text that fit into a number of columns.

    A line may break between any two Chinese characters, but not before a closing or after an opening punctuation mark.

    >>> wrapped("用 Regard 训练一个模型，翻译句子。", 13)
    ['用 Regard 训', '练一个模型，', '翻译句子。']
    """
    lines = [""]
    for unit in _UNIT.findall(text):
        if lines[-1] and cell_len((lines[-1] + unit).rstrip()) > width:
            lines.append("")
        lines[-1] += unit if lines[-1] else unit.lstrip()
    return [line.rstrip() for line in lines]


def _width_on_page(path: Path) -> int:
    """Return half of the width of a PNG file in pixels, for sharp pictures on screens of a high resolution."""
    return int.from_bytes(path.read_bytes()[16:20], "big") // 2
