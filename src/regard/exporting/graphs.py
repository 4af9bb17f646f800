"""One module as a graph in a file, written atomically and compared with the module."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, DtypeError, MissingExtraError, RegardError
from regard.exporting.comparison import ExportError, Run, flat_tensors, largest_difference, quiet, runner
from regard.files import write_atomically
from regard.masks import Mask
from regard.modes import exporting

__all__ = ["FORMATS", "ExportError", "ExportedFile", "Graph", "format_of", "write_graph"]

# The formats by the suffix of their files.
FORMATS = {".onnx": "onnx", ".pt2": "torch.export"}
# By how much the sizes of the second comparison are larger than those of the example. They differ from each other.
_LARGER = (2, 3, 5, 7, 11)


@dataclass(frozen=True)
class ExportedFile:
    """A written file, with the shapes of its inputs and outputs.

    A size that may differ from call to call is a name, and a fixed one a number. ``difference`` is the largest
    difference between the results of the file and of the model, over the inputs of the export and of other sizes. For a
    number x of the model it is relative to ``1 + |x|``, and it is at most 1e-5.
    """

    path: Path
    inputs: dict[str, tuple[str | int, ...]]
    outputs: dict[str, tuple[str | int, ...]]
    difference: float

    def __str__(self) -> str:
        sides = (
            ", ".join(f"{name} ({','.join(map(str, shape))})" for name, shape in side.items())
            for side in (self.inputs, self.outputs)
        )
        return f"{self.path}: {' -> '.join(sides)}, difference {self.difference:.1e} * (1 + |x|)"


@dataclass(frozen=True)
class Graph:
    """A module with example arguments by name, and the names of its outputs.

    Tensors among the arguments become inputs of the graph. Other arguments, such as a mask that is a rule, are fixed.
    ``sizes`` names the first axes of inputs, such as ``{"x": ("batch", "length")}``. Their further axes are fixed.
    """

    module: nn.Module
    arguments: Mapping[str, Any]
    outputs: Sequence[str] = ()
    sizes: Mapping[str, Sequence[str]] | None = None

    def check(self) -> None:
        """Raise an error that names the argument if an argument cannot be a part of a graph."""
        for name, value in self.arguments.items():
            if isinstance(value, Mask) and not value.symbolic:
                problem = "a mask that holds a tensor would be fixed in the graph"
                raise ArgumentError(name, problem, "give the tensor itself, such as booleans (b,1,k)")
            if isinstance(value, Tensor) and value.device.type != "cpu":
                raise DtypeError(name, f"on {value.device}", "export on the CPU, with inputs.cpu()")
        if not self.tensors:
            raise ArgumentError("inputs", "expected at least one tensor, got none")

    def free_axes(self, name: str) -> list[int]:
        """Return the axes of an input whose size may differ from call to call.

        A size of 1 is read as an axis that is repeated, which stays 1. If the axes have names, the others are fixed.
        """
        shape, named = self.tensors[name].shape, (self.sizes or {}).get(name)
        return [axis for axis, size in enumerate(shape) if size > 1 and (named is None or axis < len(named))]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The arguments that are tensors, which become the inputs."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, Tensor)}


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix, or raise ArgumentError.

    >>> format_of(Path("layer.onnx"))
    'onnx'
    """
    if path.suffix.lower() not in FORMATS:
        known = " or ".join(f"{suffix} ({name})" for suffix, name in FORMATS.items())
        raise ArgumentError("path", f"expected a name that ends in {known}, got {path.name!r}")
    return FORMATS[path.suffix.lower()]


def write_graph(graph: Graph, path: str | os.PathLike) -> ExportedFile:
    """Trace a module, write the graph to a file, and compare the results of the file with those of the module.

    The file is put in place only if no number x of the results differs by more than ``1e-5 * (1 + |x|)``, for the
    example arguments and for other sizes.
    """
    path = Path(path)
    kind = format_of(path)
    if kind == "onnx":
        _check_onnx_packages()
    graph.check()
    callable_form = _Callable(graph, flat=kind == "onnx").eval()
    results = _results(callable_form, graph)
    names = list(graph.outputs) or [f"output_{n}" if n else "output" for n in range(len(results))]
    if len(names) != len(results):
        raise ArgumentError("outputs", f"{len(names)} names for {len(results)} results")
    traced = _traced(callable_form, graph)
    sizes = _SizeNames(graph, traced)
    sizes.fix(callable_form, graph.tensors)
    difference = 0.0

    def write(part: Path) -> None:
        nonlocal difference
        if kind == "onnx":
            _write_onnx(traced, part, list(graph.tensors), names, sizes)
        else:
            _write_program(traced, part)
        difference = _compared(callable_form, graph, sizes, runner(kind, part))

    write_atomically(path, write)
    shapes = [tuple(sizes.shown(shape)) for shape in sizes.inputs]
    outputs = [tuple(sizes.shown(value.meta["val"].shape)) for value in _output_nodes(traced)]
    return ExportedFile(
        path,
        dict(zip(graph.tensors, shapes, strict=True)),
        dict(zip(names, outputs, strict=True)),
        difference,
    )


class _Callable(nn.Module):
    """A module as a function of tensors by position.

    It returns a tuple of tensors with ``flat``, and otherwise the results of the module as they are, in plain tuples,
    lists and dicts.
    """

    def __init__(self, graph: Graph, *, flat: bool):
        super().__init__()
        self.module = graph.module
        self._flat = flat
        self._names = list(graph.tensors)
        self._fixed = {name: value for name, value in graph.arguments.items() if name not in graph.tensors}

    def forward(self, *tensors: Tensor) -> Any:
        """Call the module, and return its results."""
        results = self.module(**dict(zip(self._names, tensors, strict=True)), **self._fixed)
        return tuple(flat_tensors(results)) if self._flat else _plain(results)


def _results(module: nn.Module, graph: Graph) -> list[Tensor]:
    """Return the tensors of the results for the example, or raise ArgumentError if the module fails on it."""
    try:
        with torch.no_grad():
            return list(flat_tensors(module(*graph.tensors.values())))
    except RegardError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in graph.tensors.items())
        reason = " ".join(str(error).split()) or type(error).__name__
        problem = f"forward() of {type(graph.module).__name__} fails on {shapes}: {reason}"
        raise ArgumentError("inputs", problem) from error


def _plain(value: Any) -> Any:
    """Return results in plain tuples, lists and dicts, which a program can return without the classes of the model."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(map(_plain, value))
    return value


def _traced(module: nn.Module, graph: Graph) -> Any:
    """Return the program of a module, in which every size may differ from call to call unless the module fixes it."""
    free = tuple(dict.fromkeys(graph.free_axes(name), torch.export.Dim.AUTO) for name in graph.tensors)
    try:
        with quiet(), exporting(), torch.no_grad():
            return torch.export.export(
                module, tuple(graph.tensors.values()), dynamic_shapes=(free,), strict=False
            )
    except RegardError:
        raise
    except Exception as error:
        raise _not_exportable(graph.module, error) from error


def _not_exportable(module: nn.Module, error: Exception) -> ExportError:
    """Return an error with the first line of the reason that torch gives."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = lines[0] if lines else type(error).__name__
    return ExportError(
        f"{type(module).__name__} cannot be exported: {why}: a graph cannot branch on the values of tensors, call "
        f"code outside torch, or change its shape from call to call"
    )


class _SizeNames:
    """The names of the sizes of a program that may differ from call to call."""

    def __init__(self, graph: Graph, traced: Any):
        placed = {node.name: node for node in traced.graph.nodes if node.op == "placeholder"}
        self.inputs = [placed[name].meta["val"].shape for name in traced.graph_signature.user_inputs]
        self.names: dict[str, str] = {}
        self.hints: dict[str, int] = {}
        self.fixed: dict[str, int] = {}
        for name, shape, tensor in zip(graph.tensors, self.inputs, graph.tensors.values(), strict=True):
            given = (graph.sizes or {}).get(name, ())
            for axis, size in enumerate(shape):
                symbol = str(size)
                if isinstance(size, int) or symbol in self.names:
                    continue
                usual = "batch" if axis == 0 and len(shape) > 1 else f"size_{len(self.names)}"
                chosen = given[axis] if axis < len(given) and given[axis] else usual
                taken = set(self.names.values())
                self.names[symbol] = chosen if chosen not in taken else f"{chosen}_{len(taken)}"
                self.hints[symbol] = tensor.shape[axis]

    def fix(self, module: nn.Module, example: Mapping[str, Tensor]) -> None:
        """Find the sizes that the module fixes although the program does not, such as the width of a layer.

        The module accepts neither a smaller nor a larger one.
        """
        for symbol, hint in list(self.hints.items()):
            others = [{**self.hints, symbol: other} for other in (hint - 1, hint + 1) if other > 0]
            if not any(_accepts(module, _resized(example, self, sizes)) for sizes in others):
                self.fixed[symbol] = hint

    def shown(self, shape: Sequence[Any]) -> list[str | int]:
        """Return a shape with names for the sizes that may differ."""
        named = {**self.names, **self.fixed}
        return [size if isinstance(size, int) else named.get(str(size), str(size)) for size in shape]

    def larger(self) -> dict[str, int]:
        """Return another size for each name that is not fixed, larger than in the example."""
        return {
            symbol: hint if symbol in self.fixed else hint + _LARGER[place % len(_LARGER)]
            for place, (symbol, hint) in enumerate(self.hints.items())
        }

    def described(self, symbol: str) -> str:
        """Return a size of the example with its name, such as "batch size 2" or "size length = 5"."""
        name, hint = self.names[symbol], self.hints[symbol]
        return f"batch size {hint}" if name == "batch" else f"size {name} = {hint}"


def _output_nodes(traced: Any) -> list[Any]:
    (last,) = [node for node in traced.graph.nodes if node.op == "output"]
    return [node for node in last.args[0] if node is not None]


# ---- files


def _write_onnx(
    traced: Any, path: Path, inputs: Sequence[str], outputs: Sequence[str], sizes: _SizeNames
) -> None:
    import onnx

    try:
        with quiet():
            program = torch.onnx.export(
                traced, (), input_names=list(inputs), output_names=list(outputs), dynamo=True, verbose=False
            )
            model = program.model_proto  # type: ignore[union-attr]
    except Exception as error:
        reason = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
        raise ExportError(f"ONNX has no form of a part of this model: {reason[0]}") from error
    _rename_sizes(model.graph, sizes.names)
    if model.ByteSize() >= 2**31:
        raise ExportError("an ONNX file holds at most 2 GB: export parts of the model")
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(onnx.load_model_from_string(path.read_bytes()))


def _rename_sizes(graph: Any, names: Mapping[str, str]) -> None:
    """Rename the sizes in the shapes of an ONNX graph."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param in names:
                size.dim_param = names[size.dim_param]


def _write_program(traced: Any, path: Path) -> None:
    # A path without the suffix .pt2, such as that of a temporary file, makes torch warn.
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(traced, buffer)
    path.write_bytes(buffer.getvalue())


def _check_onnx_packages() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtraError(package, "export", "exporting to ONNX") from None


# ---- comparison


def _compared(module: nn.Module, graph: Graph, sizes: _SizeNames, run: Run) -> float:
    """Return the largest relative difference of a file and its module, or raise ExportError if it is above 1e-5.

    Compared are the results for the example, for larger sizes, and for each size 1. Sizes that the module refuses, such
    as more positions than it has learned, are left out. Where a sequence has become shorter than the lengths of the
    example say, the lengths are 1.
    """
    largest = largest_difference(module, graph.tensors, run)
    for other in (sizes.larger(), *({**sizes.hints, symbol: 1} for symbol in sizes.hints)):
        inputs = _resized(graph.tensors, sizes, other)
        short = {name: x.clamp(max=1) if name.endswith("lengths") else x for name, x in inputs.items()}
        accepted = next((some for some in (inputs, short) if _accepts(module, some)), None)
        if accepted is not None:
            try:
                largest = max(largest, largest_difference(module, accepted, run))
            except ExportError as error:
                if fixed := _fixed_size(module, graph, sizes, run):
                    raise ExportError(f"the graph has fixed the {fixed} of the example") from error
                raise
    return largest


def _fixed_size(module: nn.Module, graph: Graph, sizes: _SizeNames, run: Run) -> str | None:
    """Return the size of the example that the graph has fixed although the module has not, if there is one."""
    for symbol, hint in sizes.hints.items():
        inputs = _resized(graph.tensors, sizes, {**sizes.hints, symbol: hint + 1})
        if _accepts(module, inputs):
            try:
                largest_difference(module, inputs, run)
            except ExportError:
                return sizes.described(symbol)
    return None


def _accepts(module: nn.Module, inputs: Mapping[str, Tensor]) -> bool:
    try:
        with torch.no_grad():
            module(*inputs.values())
    except (RegardError, RuntimeError, IndexError):
        return False
    return True


def _resized(example: Mapping[str, Tensor], sizes: _SizeNames, other: Mapping[str, int]) -> dict[str, Tensor]:
    """Return inputs of ``other`` sizes, whose values are drawn from those of the example."""
    chance = torch.Generator().manual_seed(0)
    found = {}
    for (name, tensor), shape in zip(example.items(), sizes.inputs, strict=True):
        wanted = [size if isinstance(size, int) else other[str(size)] for size in shape]
        places = torch.randint(tensor.numel(), wanted, generator=chance)
        found[name] = tensor.flatten()[places]
    return found
