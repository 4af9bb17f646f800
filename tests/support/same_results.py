"""Comparison of the results of pipelines."""

from __future__ import annotations

from typing import Any

import pytest


def assert_same(ours: Any, theirs: Any) -> None:
    """Compare nested lists and dictionaries, numbers to 1e-5."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert list(ours) == list(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name])
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=1e-5)
    else:
        assert ours == theirs
