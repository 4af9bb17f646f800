"""The pages of the reference, one for each public module, written from the names in its ``__all__``.

Sphinx fills them with the docstrings. The pages are in ``docs/*/api``, which git ignores.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import shutil
import types
from pathlib import Path

WORDS = {
    "en": {
        "title": "The reference",
        "top": "Names of `regard`",
        "top text": "These names are imported from `regard` itself. Each links to the module that it is in.",
        "rooms": "Modules",
        "rooms text": "Each page has the public names of a module, with examples that the tests run.",
    },
    "zh": {
        "title": "参考手册",
        "top": "`regard` 的名称",
        "top text": "这些名称可以直接从 `regard` 导入，链接指向它们所在的模块。",
        "rooms": "模块",
        "rooms text": "每页列出一个模块的公开名称，其中的例子都由测试运行。文档字符串为英文。",
    },
}


def public_modules() -> list[str]:
    """Return the names of the public modules, each task after the package of tasks."""
    import regard

    found = []
    for room in regard._SUBMODULES:
        found.append(f"regard.{room}")
        if room == "tasks":
            parts = pkgutil.iter_modules(importlib.import_module("regard.tasks").__path__)
            found += [f"regard.tasks.{part.name}" for part in parts if part.ispkg]
        if room == "integrations":
            found.append("regard.integrations.huggingface")
    return [*found, "deep_learning.attention", "deep_learning.activations"]


def public_names(module: str) -> list[str]:
    """Return the names in ``__all__`` of a module, without modules and without names of dunder form."""
    found = importlib.import_module(module)
    return [
        name
        for name in getattr(found, "__all__", [])
        if not isinstance(getattr(found, name), types.ModuleType) and not name.startswith("__")
    ]


def directive(module: str, name: str) -> str:
    """Return the directive of Sphinx that shows the docstring of a name."""
    value = getattr(importlib.import_module(module), name)
    # The names of deep_learning are those of regard.reference.
    twice = "   :no-index:\n" if module.startswith("deep_learning") else ""
    if isinstance(value, type):
        bases = "" if value.__bases__ == (object,) else "   :show-inheritance:\n"
        return f".. autoclass:: {module}.{name}\n   :members:\n{bases}{twice}"
    if inspect.isroutine(value):
        return f".. autofunction:: {module}.{name}\n{twice}"
    return f".. py:data:: {module}.{name}\n   :type: {type(value).__name__}\n"


def first_line(value: object) -> str:
    """Return the first sentence of a docstring on one line."""
    text = (inspect.getdoc(value) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


def module_page(module: str) -> str:
    """Return the page of a module."""
    parts = [f"# {module}\n", "```{eval-rst}", f".. automodule:: {module}\n"]
    parts += [directive(module, name) for name in public_names(module)]
    return "\n".join([*parts, "```\n"])


def index_page(language: str, modules: list[str]) -> str:
    """Return the first page of the reference."""
    import regard

    words = WORDS[language]
    parts = [f"# {words['title']}\n", f"## {words['top']}\n", words["top text"] + "\n", "| | |", "|---|---|"]
    for home, names in sorted(regard._HOMES.items()):
        parts += [
            f"| [`{name}`](#{home}.{name}) | {first_line(getattr(regard, name))} |" for name in sorted(names)
        ]
    parts += [f"\n## {words['rooms']}\n", words["rooms text"] + "\n", "| | |", "|---|---|"]
    parts += [
        f"| [`{module}`]({module}.md) | {first_line(importlib.import_module(module))} |" for module in modules
    ]
    return "\n".join([*parts, "\n```{toctree}\n:hidden:", *modules, "```\n"])


def write(docs: Path) -> None:
    """Write the pages of both languages."""
    modules = public_modules()
    for language in WORDS:
        folder = docs / language / "api"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "index.md").write_text(index_page(language, modules), encoding="utf-8")
        for module in modules:
            (folder / f"{module}.md").write_text(module_page(module), encoding="utf-8")
