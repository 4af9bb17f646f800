"""The viewer's JavaScript and style sheet, joined into one module without a build step."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

__all__ = [
    "MODULES",
    "article_script",
    "article_style",
    "page_script",
    "security_policy",
    "sha256_source",
    "style",
    "widget_script",
]

STATIC = Path(__file__).parent / "static"

# Each module stands after the modules it imports. types.js holds comments only.
MODULES = (
    "english", "chinese", "language", "arrays", "color", "themes", "patches", "text", "tokens", "scales", "weights",
    "work", "sources", "remote", "state", "paint", "cells", "heat", "links", "flow", "text_view", "grid", "steps",
    "pictures", "picture_words", "image", "save", "panel", "controls", "pointers", "toolbar", "app",
)  # fmt: skip

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) )", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?:// @ts-check\n|/\*\*(?:(?!\*/).)*\*/\n)", re.MULTILINE | re.DOTALL)


def page_script() -> str:
    """Return the JavaScript module of a page."""
    return _joined((*MODULES, "page"))


def widget_script() -> str:
    """Return the JavaScript module of a notebook widget, whose default export is the widget."""
    return _joined((*MODULES, "widget"))


def article_script() -> str:
    """Return the JavaScript module of a page with several viewers."""
    return _joined((*MODULES, "article"))


@functools.cache
def style() -> str:
    """Return the style sheet."""
    return _read("viewer.css")


@functools.cache
def article_style() -> str:
    """Return the style sheet of a page with several viewers."""
    return _read("article.css") + _read("viewer.css")


@functools.cache
def _joined(modules: tuple[str, ...]) -> str:
    """Join modules into one scope, without their imports and exports.

    Comments on lines of their own are left out, since every saved page contains this text.
    """
    parts = []
    for name in modules:
        source = _read(f"{name}.js")
        for imported in _IMPORT.findall(source):
            assert imported in modules[: modules.index(name)], f"{name}.js comes before {imported}.js"
        plain = _EXPORT.sub("", _IMPORT.sub("", source))
        parts.append(f"// {name}.js\n{_COMMENT.sub('', plain).strip()}\n")
    return "\n".join(parts)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def sha256_source(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style.

    >>> sha256_source("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def security_policy(script: str, *, connect: str = "'none'", css: str | None = None) -> str:
    """Return the content security policy, which allows only this script, one style sheet and embedded pictures.

    ``connect`` is the source that the page may fetch from, in the notation of the policy. ``css`` is the style sheet,
    by default that of the viewer.
    """
    sheet = style() if css is None else css
    return (
        f"default-src 'none'; script-src {sha256_source(script)}; style-src {sha256_source(sheet)}; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
