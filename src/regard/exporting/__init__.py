"""Export of layers, models and predictors to files that run without Regard, as ONNX or as programs of torch.export.

:func:`export` writes one file, or a folder for a predictor such as a translator. Each file is run after it is
written, and its results are compared with those of the model.
"""

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.exporting.comparison import ExportError
    from regard.exporting.export_function import export
    from regard.exporting.graphs import ExportedFile

__all__ = ["ExportError", "ExportedFile", "export"]

__getattr__ = lazily(
    "regard.exporting",
    {"comparison": ["ExportError"], "export_function": ["export"], "graphs": ["ExportedFile"]},
)
