"""The decoding options of a translation, with its defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

from regard.decoding import DecodingOptions
from regard.errors import UnknownArgumentError, did_you_mean

__all__ = ["options_with"]


def options_with(options: DecodingOptions | None, settings: dict[str, Any]) -> DecodingOptions:
    """Return the options with some settings replaced.

    Without options there are 5 beams, or as many as translations are asked for.

    >>> options_with(None, {"n_best": 7}).beams, options_with(DecodingOptions(beams=3), {"n_best": 2}).beams
    (7, 3)
    """
    known = [field.name for field in dataclasses.fields(DecodingOptions)]
    for name in settings:
        if name not in known:
            fix = f"{did_you_mean(name, known)}known are {', '.join(known)}"
            raise UnknownArgumentError(name, "not a setting of translate()", fix)
    if options is not None:
        return dataclasses.replace(options, **settings)
    wanted = settings.get("n_best", 1)
    return DecodingOptions(**{"beams": max(5, wanted) if isinstance(wanted, int) else 5, **settings})
