"""Models as folders of weights and settings."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.files import read_json
from regard.models.packed_weights import BITS, SHAPE, packed, packed_shapes, unpacked
from regard.models.sizes import check_settings, check_shapes, without_memory
from regard.models.weight_files import CONFIG, WEIGHTS, check_hash, reading, write_model
from regard.positions import sinusoidal

__all__ = [
    "CONFIG",
    "WEIGHTS",
    "Pretrained",
    "fill",
    "load_model",
    "load_weights",
    "read_config",
    "read_shapes",
]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# The end of the name of a table that the settings determine. It is computed and not stored.
RECOMPUTED = "positions.pe"

Value = TypeVar("Value")


class Pretrained:
    """The methods ``save_pretrained`` and ``from_pretrained`` of a model with a ``config``.

    A tensor that two modules share has one name in the state dict, so that files hold it once. Loading a state dict
    needs neither its other names nor the tables that the settings determine.

    ``old_names`` maps the beginnings of names in state dicts of earlier versions to those of today. State dicts and
    files with old names load as those with new names.
    """

    # A ModelConfig, of a subclass that each model determines.
    config: Any
    old_names: ClassVar[dict[str, str]] = {}
    # Maps the other names of each shared tensor to its first name, while a state dict is loaded.
    shared_names: dict[str, str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self, nn.Module)  # the other base of every model
        self.register_state_dict_post_hook(_drop_shared_names)
        self.register_load_state_dict_pre_hook(_complete)
        self.register_load_state_dict_post_hook(_tie)

    @classmethod
    def with_new_names(cls, values: dict[str, Value], prefix: str = "") -> dict[str, Value]:
        """Return a dict by names of tensors with old names replaced by those of today.

        Old names are looked for after ``prefix``, which is kept.

        >>> from regard.models import Transformer
        >>> Transformer.with_new_names({"source_embedding.weight": 1, "output.bias": 2})
        {'encoder.embedding.tokens.weight': 1, 'output.bias': 2}
        """
        return {_new_name(name, prefix, cls.old_names): value for name, value in values.items()}

    def save_pretrained(
        self, folder: str | os.PathLike, *, dtype: str = "float32", extra: dict[str, Any] | None = None
    ) -> None:
        """Write the weights and ``config.json`` into ``folder``, which is made if it does not exist.

        ``dtype`` is the type of the numbers in the file, "float32", "float16", "bfloat16", or "int8", "int6", "int5" or
        "int4" for packed matrices. ``extra`` are further values for ``config.json``. Its key "model" is ignored.

        >>> import tempfile
        >>> from regard.models import Seq2Seq, Seq2SeqConfig, load_model
        >>> model = Seq2Seq(Seq2SeqConfig(source_size=7, target_size=7, width=4))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_pretrained(folder)
        ...     type(load_model(folder)).__name__
        'Seq2Seq'
        """
        tensors = check_storable(self, dtype)  # type: ignore[arg-type]
        folder = _made(Path(folder))
        settings = {"model": None, **(extra or {})} | {"model": self.config.to_json()}
        write_model(folder, tensors, settings)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike) -> Self:
        """Load the model that :meth:`save_pretrained` wrote, in float32 and in evaluation mode.

        A folder with a model of another class raises ArgumentError.
        """
        model = load_model(folder)
        if not isinstance(model, cls):
            raise ArgumentError(
                "folder",
                f"{folder} holds a {type(model).__name__}, not a {cls.__name__}",
                f"use {type(model).__name__}.from_pretrained(...)",
            )
        return model


def check_storable(model: nn.Module, dtype: str) -> dict[str, torch.Tensor]:
    """Return the tensors to write, in the dtype of this name, such as "float16" or "int8".

    Raises an error if the name is unknown or a number is too large for the dtype.
    """
    if dtype in BITS:
        return packed(stored_tensors(model, torch.float32), BITS[dtype])
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, [*DTYPES, *BITS])
    return stored_tensors(model, DTYPES[dtype])


def stored_tensors(model: nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return the tensors to write, each under its first name, without those that the settings determine.

    Floating-point tensors are converted to ``dtype``. A number that becomes infinite raises ArgumentError.
    """
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name.endswith(RECOMPUTED):
            continue
        stored[name] = tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
        if not torch.equal(stored[name].isfinite(), tensor.detach().cpu().isfinite()):
            fix = "use bfloat16 or float32"
            raise ArgumentError("dtype", f"{name} has numbers too large for {str(dtype)[6:]}", fix)
    return stored


def load_model(folder: str | os.PathLike) -> Any:
    """Load the model in a folder, of any class of :mod:`regard.models`, in float32 and in evaluation mode.

    The settings are compared with the file of weights before memory is allocated for the model. Raises FileError if
    they do not fit, or if a file is missing, damaged or altered since it was saved.
    """
    from regard.models import KINDS  # the models import this module

    settings_file, weights_file = Path(folder) / CONFIG, Path(folder) / WEIGHTS
    values = read_config(folder)
    settings = values.get("model")
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(settings, dict) or kind not in list(KINDS):
        raise FileError(f"{settings_file}: not the settings of a model of Regard (kind is {kind!r})")
    config_class, model_class = KINDS[kind]
    try:
        config = config_class.from_json(settings)
    except ArgumentError as error:
        raise FileError(f"{settings_file}: {error}") from None
    shapes = model_class.with_new_names(read_shapes(weights_file))
    check_settings(config, shapes, str(settings_file))
    with without_memory(str(settings_file)):
        model = model_class(config)
    expected = {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if not name.endswith(RECOMPUTED)
    }
    check_shapes(config, expected, shapes, str(settings_file), str(weights_file))
    check_hash(Path(folder), values)
    fill(model, model_class.with_new_names(_read_weights(weights_file)), str(weights_file))
    return model.eval()


def read_config(folder: str | os.PathLike) -> dict[str, Any]:
    """Read the ``config.json`` in the folder of a model."""
    return read_json(Path(folder) / CONFIG, "is this the folder of a model?")


def load_weights(model: nn.Module, path: Path) -> None:
    """Load the weights in a file into a model, or raise FileError if it has other tensors or shapes than the file."""
    tensors = _read_weights(path)
    try:
        fill(model, tensors, str(path))
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise FileError(f"{path}: the weights belong to another model: {problem}") from None


def fill(model: nn.Module, tensors: dict[str, torch.Tensor], where: str) -> None:
    """Replace all tensors of a model by ``tensors``, converted to float32, so that it may be built without memory.

    Raises FileError, which names the file ``where``, if a dtype is not that of the model's tensor. Names or shapes that
    do not fit raise RuntimeError.
    """
    tensors = {
        name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    for name, tensor in model.state_dict().items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            raise FileError(
                f"{where}: {name} is of {tensors[name].dtype}, expected numbers of {tensor.dtype}"
            )
    model.load_state_dict(tensors, assign=True)


def _new_name(name: str, prefix: str, old_names: dict[str, str]) -> str:
    for old, new in old_names.items():
        if name.startswith(prefix + old):
            return prefix + new + name.removeprefix(prefix + old)
    return name


def _drop_shared_names(model: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Remove all names of a tensor but the first from a state dict, in place (a hook of torch)."""
    for name in _shared_names(model):
        state.pop(prefix + name, None)


def _complete(model: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace old names in a state dict and add missing entries, in place, before it is loaded (a hook of torch).

    The entries added are the other names of shared tensors, and the tables that the settings determine.
    """
    if model.old_names:
        values = model.with_new_names(state, prefix)
        state.clear()
        state.update(values)
    model.shared_names = _shared_names(model)
    for name, table in _recomputed(model).items():
        state.setdefault(prefix + name, table)
    for name, first in model.shared_names.items():
        if prefix + first in state:
            state.setdefault(prefix + name, state[prefix + first])


def _tie(model: nn.Module, _incompatible: Any) -> None:
    """Let the names of a shared tensor share it again after loading (a hook of torch).

    Loading with ``assign`` makes a parameter for each name.
    """
    for name, first in model.shared_names.items():  # type: ignore[union-attr]
        owner, _, attribute = name.rpartition(".")
        source, _, source_attribute = first.rpartition(".")
        setattr(model.get_submodule(owner), attribute, getattr(model.get_submodule(source), source_attribute))


def _shared_names(model: nn.Module) -> dict[str, str]:
    """Return a dict from each further name of a tensor that has several to the first name of this tensor."""
    first: dict[int, str] = {}
    further: dict[str, str] = {}
    named = [model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)]
    for name, tensor in itertools.chain(*named):
        if id(tensor) in first:
            further[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
    return further


def _recomputed(model: nn.Module) -> dict[str, torch.Tensor]:
    """Compute the tables that the settings determine, and return them by name."""
    tables = {}
    for name, buffer in model.named_buffers():
        if name.endswith(RECOMPUTED):
            _, length, width = buffer.shape
            tables[name] = sinusoidal(length, width)[None]
    return tables


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shape of each tensor of a file, but not its numbers.

    Packed matrices have the shapes of the matrices.
    """
    with reading(path), safe_open(path, framework="pt") as file:
        names = list(file.keys())
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        small = [name for name in names if name.endswith(SHAPE) and shapes[name] < (16,)]
        return packed_shapes(shapes, {name: file.get_tensor(name) for name in small})


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    with reading(path):
        return unpacked(load_file(path), str(path))


def _made(folder: Path) -> Path:
    """Make a folder if it does not exist, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error.strerror}") from None
    return folder
