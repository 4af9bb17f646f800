"""The blocks of code of a page, the program that they make together, and the live pictures that it writes.

The Python blocks of a page run one after the other in one program. A block ``{attention}`` is Python too. Its last line
is an expression whose records the viewer shows, written to a page of its own.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The kind of a block is the word after the three signs, or the name of a directive in braces.
FENCE = re.compile(r"^```(\{[\w-]+\}|[\w-]*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTIONS = re.compile(r"\A(?::[\w-]+:[^\n]*\n)+")
# Printed after each block, to tell the output of the blocks apart.
END_OF_BLOCK = "\x1e"
PICTURE = "{attention}"

SAVE = """
def _save_picture(shown, pages):
    from regard import AttentionMap, Record
    from regard.viewer import html
    from regard.viewer.page import in_language

    if isinstance(shown, AttentionMap):
        shown = [Record(name="attention", layer=0, kind="self", map=shown)]
    if isinstance(shown, Record):
        shown = [shown]
    for language, (path, title) in pages.items():
        if isinstance(shown, str):
            page = in_language(shown, language, title=title)
        else:
            page = html(shown, title=title, language=language)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
"""


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    kind: str
    argument: str
    code: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page, without the options of directives.

    >>> blocks("```python\\nx = 1\\n```\\n")
    [Block(kind='python', argument='', code='x = 1\\n')]
    >>> blocks("```{attention} Two words\\n:height: 400\\nseen\\n```\\n")
    [Block(kind='{attention}', argument='Two words', code='seen\\n')]
    """
    return [
        Block(kind, rest.strip(), OPTIONS.sub("", code) if kind.startswith("{") else code)
        for kind, rest, code in FENCE.findall(text)
    ]


def pictures_in(text: str) -> int:
    """Return the number of live pictures of a page."""
    return sum(block.kind == PICTURE for block in blocks(text))


def picture_name(page: str, number: int, language: str = "en") -> str:
    """Return the file of a live picture.

    >>> picture_name("tutorial/04-masks", 2), picture_name("index", 1, "zh")
    ('tutorial-04-masks-2.html', 'index-1.zh.html')
    """
    return f"{page.replace('/', '-')}-{number}{'' if language == 'en' else '.' + language}.html"


def title_of(caption: str) -> str | None:
    """Return the title of a picture, which is the first sentence of its caption.

    >>> title_of("Two words. A row is a query."), title_of("哪个词？行是查询。"), title_of("两个词。")
    ('Two words', '哪个词？', '两个词')
    """
    return re.split(r"(?<=[.?!])\s|(?<=[。？！])", caption)[0].rstrip(".。") or None


def saving(block: Block, pages: dict[str, tuple[str, str | None]]) -> str:
    """Return the code of a picture, in which the last expression is saved to the path of each language.

    >>> print(saving(Block("{attention}", "Words", "seen = 1\\nseen\\n"), {"en": ("p.html", "Words")}))
    seen = 1
    _save_picture(seen, {'en': ('p.html', 'Words')})
    """
    *first, last = ast.parse(block.code).body
    if not isinstance(last, ast.Expr):
        raise ValueError(f"the last line of {{attention}} has to be an expression, got: {ast.unparse(last)}")
    call = f"_save_picture({ast.unparse(last)}, {pages!r})"
    return "\n".join([*map(ast.unparse, first), call])


def program(text: str, page: str, folder: Path, *, translations: dict[str, str] | None = None) -> str:
    """Return the program of a page, which writes its pictures into ``folder``.

    ``translations`` are the texts of the page in other languages, which have the same code. Each language has its own
    picture, with the title of its caption.
    """
    captions = {
        language: [block.argument for block in blocks(each) if block.kind == PICTURE]
        for language, each in {"en": text, **(translations or {})}.items()
    }
    parts, pictures = [SAVE] if pictures_in(text) else [], 0
    for block in blocks(text):
        if block.kind == PICTURE:
            pictures += 1
            pages = {
                language: (str(folder / picture_name(page, pictures, language)), title_of(said[pictures - 1]))
                for language, said in captions.items()
            }
            parts.append(saving(block, pages))
        elif block.kind == "python":
            parts.append(f"{block.code}\nprint({END_OF_BLOCK!r})")
    return "\n".join(parts)


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, in ``folder``, with warnings as errors."""
    script = folder / "snippets.py"
    script.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


def write_pictures(text: str, page: str, folder: Path, translations: dict[str, str]) -> None:
    """Run a page and write its live pictures in all languages into ``folder``."""
    with tempfile.TemporaryDirectory() as empty:
        done = run(program(text, page, folder.resolve(), translations=translations), Path(empty))
    if done.returncode:
        raise RuntimeError(f"the code of {page} failed:\n{done.stderr}")


def wrong_outputs(text: str, printed: str) -> list[tuple[str, str]]:
    """Return the lines that a page says its code prints, with what the code printed instead.

    A comment after ``print(...)`` says one line. A block ``output`` says all that the Python block before it prints.

    >>> page = "```python\\nprint(1 + 1)  # 3\\n```\\n\\n```output\\n2\\n```\\n"
    >>> wrong_outputs(page, "2\\n" + END_OF_BLOCK)
    [('3', '2')]
    """
    outputs = iter(part.strip("\n") for part in printed.split(END_OF_BLOCK))
    wrong, output = [], ""
    for block in blocks(text):
        if block.kind == "python":
            output = next(outputs)
            said = re.findall(r"print\(.*\)\s*# (.*)$", block.code, flags=re.MULTILINE)
            wrong += [(line.strip(), output) for line in said if line.strip() not in output.splitlines()]
        elif block.kind == "output" and _lines(block.code) != _lines(output):
            wrong.append((block.code, output))
    return wrong


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
