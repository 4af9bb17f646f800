"""The function that exports a layer, a model or a predictor."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import ArgumentError, DtypeError
from regard.exporting.encoder_decoders import EXPORTED, graphs_of
from regard.exporting.example_inputs import graph_of, shown_inputs
from regard.exporting.graphs import FORMATS, ExportedFile, Graph, write_graph
from regard.files import make_folder, write_atomically
from regard.tasks.bundle import BundledPredictor
from regard.tasks.text_generation import TextGenerator

__all__ = ["export"]

DESCRIPTION = "export.json"
# The tasks whose networks write a caption or read glimpses step by step.
_NOT_EXPORTED = ("caption", "glimpse")


def export(
    model: Any,
    path: str | os.PathLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = (),
    format: str | None = None,
) -> list[ExportedFile]:
    """Write a model to files that run without Regard, and return what was written.

    ``model`` is a layer or model of Regard, any ``nn.Module`` with example ``inputs``, or a predictor such as a
    translator. It is exported in evaluation mode. The weights have to be on the CPU.

    path
        A file that ends in ``.onnx``, for onnxruntime and others, or in ``.pt2``, for ``torch.export.load``. For a
        predictor it is a folder. It gets the graphs, the vocabularies, and ``export.json``, which lists the inputs and
        outputs of each graph.
    inputs
        Arguments of ``forward()`` by name. Tensors become inputs of the graph. Their sizes may differ at run time,
        except sizes of 1 and those that the model fixes. Other values, such as ``regard.causal()``, are fixed.
        The layers and models of Regard need no inputs.
    outputs
        Names of the results, by default those of Regard's own layers and models.
    format
        "onnx" (the default) or "torch.export", for a predictor. For a module, the name of the file says its format.

    Every file is run after it is written. It is kept only if no number x of the model's results differs by more than
    ``1e-5 * (1 + |x|)`` in the file, for the example inputs, for larger ones, and for a batch or length of 1.

    >>> import tempfile, torch, regard
    >>> layer = regard.SelfAttention(8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (file,) = export(layer, f"{folder}/layer.pt2", {"x": torch.randn(2, 5, 8), "mask": regard.causal()})
    >>> file.inputs["x"]
    ('batch', 'size_1', 8)
    """
    path = Path(path)
    if isinstance(model, BundledPredictor):
        for name, given in (("inputs", inputs), ("outputs", outputs)):
            if given:
                problem = f"of no use for a predictor, whose {name} are known"
                raise ArgumentError(name, problem, "leave it out")
        return _predictor(model, path, format or "onnx")
    if not isinstance(model, nn.Module):
        expected = "expected a layer, a model or a predictor"
        raise DtypeError(
            "model", f"{expected}, got {type(model).__name__}", "load a folder with regard.tasks.load"
        )
    if format is not None:
        problem = "of no use for a module, whose format is that of the file's name"
        raise ArgumentError("format", problem, f"leave it out, and name a file in {' or '.join(FORMATS)}")
    if inputs is None:
        graph = graph_of(model)
        if outputs:
            graph = Graph(graph.module, graph.arguments, outputs, graph.sizes)
    elif not isinstance(inputs, Mapping):
        problem = f"expected arguments of forward() by name, got {type(inputs).__name__}"
        raise DtypeError("inputs", problem, f"give {shown_inputs(model)}")
    else:
        _check_names(model, inputs)
        graph = Graph(model, inputs, outputs)
    return [_written(graph, path)]


def _written(graph: Graph, path: Path) -> ExportedFile:
    """Write a graph of a module, whose mode (training or evaluation) is afterwards as before."""
    modes = [(module, module.training) for module in graph.module.modules()]
    try:
        return write_graph(graph, path)
    finally:
        for module, training in modes:
            module.training = training


def _predictor(predictor: Any, path: Path, format: str) -> list[ExportedFile]:
    """Write the graphs of a predictor, its vocabularies and their description into a folder."""
    suffixes = {name: suffix for suffix, name in FORMATS.items()}
    if format not in suffixes:
        raise ArgumentError("format", f"expected {' or '.join(suffixes)}, got {format!r}")
    if path.suffix.lower() in FORMATS:
        problem = f"{type(predictor).__name__.lower()}s are exported into a folder, got {path.name!r}"
        raise ArgumentError("path", problem, f"name a folder, such as {path.stem}")
    if predictor.task in _NOT_EXPORTED:
        problem = f"models of the task {predictor.task} cannot be exported"
        raise ArgumentError("model", problem, EXPORTED)
    if isinstance(predictor, TextGenerator):
        graphs = graphs_of(predictor.model)
    else:
        graphs = {"model": _known_graph(predictor)}
    make_folder(path)
    files = {name: _written(graph, path / f"{name}{suffixes[format]}") for name, graph in graphs.items()}
    for name, vocabulary in predictor.vocabularies().items():
        vocabulary.save(path / f"{name}.json")
    text = json.dumps(_description(predictor, graphs, files), indent=2, ensure_ascii=False) + "\n"
    write_atomically(path / DESCRIPTION, lambda part: part.write_text(text, encoding="utf-8"))
    return list(files.values())


def _known_graph(predictor: Any) -> Graph:
    """Return the graph of a predictor's network, or raise if its inputs are not known."""
    try:
        return graph_of(predictor.model)
    except ArgumentError:
        name = type(predictor.model).__name__
        fix = "export its network with example inputs: regard.export(predictor.model, path, inputs)"
        raise ArgumentError("model", f"the inputs of its network, a {name}, are not known", fix) from None


def _check_names(model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Raise ArgumentError if ``forward()`` has no argument of the name of an input."""
    known = inspect.signature(model.forward).parameters
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return
    for name in inputs:
        if name not in known:
            problem = f"forward() of {type(model).__name__} has no argument {name!r}"
            raise ArgumentError("inputs", problem, f"its arguments are {', '.join(known)}")


def _description(
    predictor: Any, graphs: Mapping[str, Graph], files: Mapping[str, ExportedFile]
) -> dict[str, Any]:
    """Return what a program has to know to run the graphs."""
    described: dict[str, Any] = {"format": "regard.export/1", "task": predictor.task}
    for name, file in files.items():
        dtypes = {key: str(x.dtype).removeprefix("torch.") for key, x in graphs[name].tensors.items()}
        described[name] = {
            "file": file.path.name,
            "inputs": {key: {"dtype": dtypes[key], "shape": shape} for key, shape in file.inputs.items()},
            "outputs": {key: {"shape": shape} for key, shape in file.outputs.items()},
        }
    described["vocabularies"] = {
        name: {
            "file": f"{name}.json",
            "tokens": {part: getattr(one, part, None) for part in ("pad", "bos", "eos", "unk")},
        }
        for name, one in predictor.vocabularies().items()
    }
    described["settings"] = {
        name: value for name, value in predictor.saved_settings().items() if _is_plain(value)
    }
    return described


def _is_plain(value: Any) -> bool:
    """Return whether a setting is a number, a text or a list of texts, such as labels."""
    whole = isinstance(value, str | int | float)
    return whole or (isinstance(value, list) and all(isinstance(one, str) for one in value))
