"""Search for fonts with characters that the default font lacks, such as Chinese.

Only ``plots`` and ``regard doctor`` use this module. It needs matplotlib.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from regard.errors import install_command

__all__ = ["families_for", "how_to_install_chinese", "missing_from"]

# Tried before the others, because they look right beside Latin text and cover all of everyday Chinese.
_FAVOURITES = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "SimHei",
    "Droid Sans Fallback",
    "Noto Sans CJK JP",
    "Arial Unicode MS",
)


def how_to_install_chinese() -> str:
    """Return the ways to get a font for Chinese, for messages."""
    packages = "the Debian package fonts-noto-cjk or fonts-wqy-microhei"
    return f"{install_command('chinese')}, or {packages}"


def families_for(texts: Iterable[str]) -> list[str] | None:
    """Return font families that together have all characters of the texts, or None if the default font has them.

    The default families come first, then others in order of preference. If no installed font has some characters, one
    warning names the package to install.
    """
    needed = {ord(c) for text in texts for c in text if not c.isspace()}
    missing = needed - _default_glyphs()
    if not missing:
        return None
    families, missing = missing_from(frozenset(missing))
    if missing:
        _warn(missing)
    return [*_default_families(), *families]


@functools.lru_cache(maxsize=64)
def missing_from(codes: frozenset[int]) -> tuple[list[str], frozenset[int]]:
    """Return font families for these code points in order of preference, and the code points that no font has.

    Font files that matplotlib does not know yet are searched and added to its list, if they are needed.
    """
    families, missing = _cover(codes, _known_fonts())
    # Searching the machine takes longest, so it comes last.
    for search in (_packaged_fonts, font_manager.findSystemFonts):
        if missing and _add_fonts(search()):
            families, missing = _cover(codes, _known_fonts())
    return families, missing


def _cover(codes: frozenset[int], fonts: list[tuple[str, str]]) -> tuple[list[str], frozenset[int]]:
    families: list[str] = []
    for name, path in sorted(fonts, key=_rank):
        found = codes & _glyphs(path)
        if found and name not in families:
            families.append(name)
            codes = codes - found
        if not codes:
            break
    return families, codes


def _rank(font: tuple[str, str]) -> tuple[int, str, str]:
    """Return a sort key of a (family, path) pair, which puts favourites first, then sorts by family and path."""
    name, path = font
    return (_FAVOURITES.index(name) if name in _FAVOURITES else len(_FAVOURITES), name, path)


def _known_fonts() -> list[tuple[str, str]]:
    return [(font.name, font.fname) for font in font_manager.fontManager.ttflist]


def _packaged_fonts() -> list[str]:
    """Return the path of the font of the extra ``chinese`` in a list, which is empty if it is not installed.

    Its package is not imported, because that would change rcParams.
    """
    package = importlib.util.find_spec("zhplot")
    folders = [] if package is None else list(package.submodule_search_locations or [])
    paths = [Path(folder) / "fonts" / "NotoSansSC-Regular.ttf" for folder in folders]
    return [str(path) for path in paths if path.is_file()]


def _add_fonts(paths: Iterable[str]) -> bool:
    """Add font files to matplotlib's list, and return whether there was any that it did not know yet."""
    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    new = [path for path in paths if path not in known]
    for path in new:
        try:
            manager.addfont(path)
        except Exception:  # a broken font file is skipped
            continue
    return bool(new)


@functools.lru_cache(maxsize=512)
def _glyphs(path: str) -> frozenset[int]:
    if "LastResort" in path:  # a font of matplotlib that draws a box for every character
        return frozenset()
    try:
        return frozenset(FT2Font(path).get_charmap())
    except Exception:  # unreadable fonts have no characters
        return frozenset()


def _default_families() -> list[str]:
    from matplotlib import rcParams

    return list(rcParams["font.family"])


def _default_glyphs() -> frozenset[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib itself reports a missing default font
        return _glyphs(str(font_manager.findfont(font_manager.FontProperties())))


def _warn(missing: frozenset[int]) -> None:
    shown = "".join(chr(c) for c in sorted(missing)[:8])
    warnings.warn(
        f"no installed font has {len(missing)} of the characters to draw ({shown}), which become boxes; "
        f"for Chinese: {how_to_install_chinese()}",
        UserWarning,
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """Return the stack level of the code that called Regard, for the position of the warning."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("regard."):
        level, frame = level + 1, frame.f_back
    return level
