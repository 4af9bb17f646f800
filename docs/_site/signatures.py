"""Texts in the signatures of the reference that are not Python code, replaced by names.

Sphinx shortens the names of types and links them only in a signature that is Python code. With a default such as
``<built-in function print>``, the whole signature is shown as it is, with the modules of all types.
"""

from __future__ import annotations

import re
from typing import Any

# The text of a function, of a class, or of the default factory of a dataclass.
DEFAULT = re.compile(r"<(?:built-in function |function |class ')?([\w.]+)(?: at 0x[0-9a-f]+)?'?>")

# The text of an alias of ``autodoc_type_aliases`` inside a union.
ALIAS = re.compile(r"(?:[\w~.]*\.|~)?TypeAliasForwardRef\('(\w+)'\)")


def readable(signature: str) -> str:
    """Return a signature with names for functions, classes and aliases, and ``...`` for a default factory.

    >>> readable("(say: ~collections.abc.Callable[[str], None] = <built-in function print>)")
    '(say: ~collections.abc.Callable[[str], None] = print)'
    >>> readable("(notes: list[str] = <factory>, kind: type = <class 'regard.models.encoder.Encoder'>)")
    '(notes: list[str] = ..., kind: type = Encoder)'
    >>> readable("(mask: ~sphinx.ext.autodoc.TypeAliasForwardRef('ArrayLike') | None = None)")
    '(mask: ArrayLike | None = None)'
    """
    named = ALIAS.sub(r"\1", signature)
    return DEFAULT.sub(lambda found: "..." if found[1] == "factory" else found[1].split(".")[-1], named)


def process_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Answer the event of autodoc with the readable signature."""
    return None if signature is None else (readable(signature), readable(returned) if returned else returned)


def setup(app: Any) -> dict[str, bool]:
    """Register the change of signatures with Sphinx."""
    app.connect("autodoc-process-signature", process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
