"""A model as a folder: weights, settings, vocabulary and a card that says what it is."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.files import write_atomically
from regard.models.sizes import check_sizes

__all__ = ["CONFIG", "WEIGHTS", "Pretrained", "load_model", "read_json"]

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
RECOMPUTED = ("positions.pe",)  # tables that the settings determine


class Pretrained:
    """``save_pretrained`` and ``from_pretrained`` for a model with a ``config``.

    A tensor that two modules share has one name in the state dict, so that files hold it once. Loading a state dict
    needs neither its other names nor the tables that the settings determine.
    """

    config: Any  # a ModelConfig; which one, the model says
    shared_names: dict[str, str]  # while a state dict is loaded: other names of a tensor, and its first

    def __init__(self) -> None:
        super().__init__()
        assert isinstance(self, nn.Module)  # it is the other base of every model
        self.register_state_dict_post_hook(_drop_shared_names)
        self.register_load_state_dict_pre_hook(_complete)
        self.register_load_state_dict_post_hook(_tie)

    def save_pretrained(
        self, folder: str | os.PathLike, *, dtype: str = "float32", extra: dict[str, Any] | None = None
    ) -> None:
        """Write the weights and ``config.json`` into ``folder``; ``extra`` goes into the latter.

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
        text = json.dumps(settings, ensure_ascii=False, indent=2) + "\n"
        write_atomically(folder / WEIGHTS, lambda path: save_file(tensors, path))
        write_atomically(folder / CONFIG, lambda path: path.write_text(text, encoding="utf-8"))

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike) -> Self:
        """The model that :meth:`save_pretrained` wrote, in float32, ready to use (not to train)."""
        model = load_model(folder)
        if not isinstance(model, cls):
            raise ArgumentError(
                "folder",
                f"{folder} holds a {type(model).__name__}, not a {cls.__name__}",
                f"use {type(model).__name__}.from_pretrained(...)",
            )
        return model


def check_storable(model: nn.Module, dtype: str) -> dict[str, torch.Tensor]:
    """The tensors to write in a dtype by its name; one that is not known, or too narrow, is refused."""
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    return stored_tensors(model, DTYPES[dtype])


def stored_tensors(model: nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors to write: each once, though two modules may share it, and none that settings determine."""
    found: dict[str, torch.Tensor] = {}
    shared = _shared_names(model)
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name in RECOMPUTED or name in shared:
            continue
        found[name] = tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
        if not torch.equal(found[name].isfinite(), tensor.detach().cpu().isfinite()):
            fix = "use bfloat16 or float32"
            raise ArgumentError("dtype", f"{name} has numbers too large for {str(dtype)[6:]}", fix)
    return found


def load_model(folder: str | os.PathLike) -> Any:
    """The model in a folder, whichever of ours it is."""
    from regard.models import KINDS  # the models import this module

    folder = Path(folder)
    settings = read_json(folder / CONFIG).get("model")
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(settings, dict) or kind not in list(KINDS):
        raise FileError(f"{folder / CONFIG}: not the settings of a model of Regard (kind is {kind!r})")
    config_class, model_class = KINDS[kind]
    try:
        config = config_class.from_json(settings)
    except ArgumentError as error:
        raise FileError(f"{folder / CONFIG}: {error}") from None
    shapes = _read_shapes(folder / WEIGHTS)
    check_sizes(config, shapes, str(folder / CONFIG))
    # Not on the meta device: its random numbers load the compiler, which takes longer than making these.
    with torch.random.fork_rng(devices=[]):
        model = model_class(config)
    fill(model, _read_weights(folder / WEIGHTS), str(folder / WEIGHTS))
    return model.eval()


def fill(model: nn.Module, tensors: dict[str, torch.Tensor], where: str) -> None:
    """Put tensors in the place of a model's own."""
    tensors = {
        name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    tensors |= _recomputed(model)
    expected = model.state_dict()
    for name, tensor in expected.items():
        if name not in tensors:
            raise FileError(f"{where}: {name} is missing: the file belongs to another model")
        if tensors[name].shape != tensor.shape:
            raise FileError(
                f"{where}: {name} is {tuple(tensors[name].shape)}, the settings say {tuple(tensor.shape)}"
            )
        if tensors[name].dtype != tensor.dtype:
            raise FileError(
                f"{where}: {name} is of {tensors[name].dtype}, expected numbers of {tensor.dtype}"
            )
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise FileError(f"{where}: {unknown[0]} is not a part of this model: the file belongs to another one")
    model.load_state_dict(tensors, assign=True)


def _drop_shared_names(model: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Keep the first name of each tensor in a state dict."""
    for name in _shared_names(model):
        state.pop(prefix + name, None)


def _complete(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add to a state dict what it need not hold: other names of a tensor, and tables that settings determine."""
    model.shared_names = _shared_names(model)  # type: ignore[assignment]
    for name, first in model.shared_names.items():
        if prefix + first in state:
            state.setdefault(prefix + name, state[prefix + first])
    for name, table in _recomputed(model).items():
        state.setdefault(prefix + name, table)


def _tie(model: nn.Module, _incompatible: Any) -> None:
    """Make names that shared one tensor share it again, since loading with ``assign`` gave each its own parameter."""
    for name, first in model.shared_names.items():  # type: ignore[union-attr]  # as they were before loading
        owner, _, attribute = name.rpartition(".")
        source, _, source_attribute = first.rpartition(".")
        setattr(model.get_submodule(owner), attribute, getattr(model.get_submodule(source), source_attribute))


def _shared_names(model: nn.Module) -> dict[str, str]:
    """Names of tensors that are stored under an earlier name."""
    first: dict[int, str] = {}
    again: dict[str, str] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        if id(tensor) in first:
            again[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
    return again


def _recomputed(model: nn.Module) -> dict[str, torch.Tensor]:
    from regard.positions import sinusoidal

    buffers = dict(model.named_buffers())
    found = {}
    for name in RECOMPUTED:
        if name in buffers:
            _, length, width = buffers[name].shape
            found[name] = sinusoidal(length, width)[None]
    return found


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shape of each tensor of a file, but not its numbers."""
    with _reading(path), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    with _reading(path):
        return load_file(path)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors of a file of weights in our words."""
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        yield
    except SafetensorError as error:
        raise FileError(f"{path}: cut short or not a safetensors file ({error})") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def _made(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error.strerror}") from None
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or an error that names the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path}: no such file: is this the folder of a model?") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not JSON, or cut short ({error})") from None
    if not isinstance(value, dict):
        raise FileError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value
