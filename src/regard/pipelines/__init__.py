"""One-line pipelines with the calls and the results of those of Transformers 4.

The names are imported on first use, so importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.pipelines.base import Pipeline, Result, ResultList
    from regard.pipelines.factory import PIPELINES, pipeline

__all__ = ["PIPELINES", "Pipeline", "Result", "ResultList", "pipeline"]

__getattr__ = lazily(
    __name__, {"base": ["Pipeline", "Result", "ResultList"], "factory": ["PIPELINES", "pipeline"]}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
