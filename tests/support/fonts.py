"""Drawing with matplotlib's own fonts alone, as on a machine that has no others."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["STARTUP", "chinese_labels", "forget_fonts", "keep_matplotlibs_fonts"]

# On PYTHONPATH, it does the same in processes of their own.
STARTUP = Path(__file__).parent / "startup"


def keep_matplotlibs_fonts(replace: Callable[[Any, str, Any], None]) -> None:
    """Leave only the fonts of matplotlib, set with ``replace``, which is ``setattr`` or a form that can be undone."""
    import matplotlib
    from matplotlib import font_manager

    from regard import _fonts

    own = matplotlib.get_data_path() + os.sep
    manager = font_manager.fontManager
    replace(manager, "ttflist", [font for font in manager.ttflist if font.fname.startswith(own)])
    replace(font_manager, "findSystemFonts", lambda *_, **__: [])
    replace(_fonts, "_packaged_fonts", list)
    forget_fonts()


def forget_fonts() -> None:
    """Clear the caches of fonts."""
    from matplotlib import font_manager

    from regard import _fonts

    _fonts.missing_from.cache_clear()
    font_manager.fontManager._findfont_cached.cache_clear()


@contextlib.contextmanager
def chinese_labels() -> Iterator[None]:
    """Expect no warning about Chinese text if a font has the characters, and exactly one warning otherwise."""
    from regard import _fonts

    has_font = not _fonts.missing_from(frozenset(map(ord, "猫注意力")))[1]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in seen]
    assert len(messages) == (0 if has_font else 1), messages
    assert all(message.startswith("no installed font has") for message in messages), messages
