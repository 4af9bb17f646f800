"""Tests of the private names of torch and transformers that the package uses."""

import ast
import contextlib
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import regard
from regard import torch_private
from regard.errors import RegardError

PACKAGE = Path(regard.__file__).parent
MODULE = Path(torch_private.__file__)
# The attributes of objects of torch and transformers that a module of Regard might read.
FOREIGN = {
    name
    for kind in (
        nn.Module(),
        torch.Tensor,
        torch.ops.aten.exp.default,
        transformers.PreTrainedModel,
        transformers.PretrainedConfig(),
        transformers.PreTrainedTokenizerFast,
        transformers.Cache,
    )
    for name in dir(kind)
} | {"_orig_mod", "_attn_implementation", "_build_translation_inputs"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def private_names(source: str) -> set[str]:
    """Return the private names of torch and transformers that a source reads, imports, or names in a look-up."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            paths = [f"{module}{alias.name}" for alias in node.names]
            found |= {path for path in paths if path.split(".")[0] in ("torch", "transformers")}
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            path = ast.unparse(node)
            own = path in (f"self.{node.attr}", f"cls.{node.attr}")
            of_torch = path.startswith(("torch.", "nn.", "F.", "aten.", "Tensor."))
            found |= {path} if of_torch or (node.attr in FOREIGN and not own) else set()
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            found |= looked_up(node.args[1])
        elif isinstance(node, ast.Subscript):
            found |= looked_up(node.slice)
    return {path for path in found if any(is_private(part) for part in path.split("."))}


def looked_up(node: ast.expr) -> set[str]:
    return {str(node.value)} & FOREIGN if isinstance(node, ast.Constant) else set()


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import torch\ntorch._C._len_torch_dispatch_stack()", 2),
        ("from torch._C import _functorch", 1),
        ("def f(module): return module._modules", 1),
        ("getattr(config, '_attn_implementation')", 1),
        ("vars(module)['_parameters']", 1),
        ("class A:\n  def f(self): return self._modules", 0),
        ("import torch\ntorch.nn.functional.softmax(x)", 0),
    ],
)
def test_private_names_are_counted(source, count):
    assert len(private_names(source)) == count


def test_private_names_of_torch_and_transformers_are_in_one_module():
    files = [path for path in PACKAGE.rglob("*.py") if path != MODULE]
    found = {str(path.relative_to(PACKAGE)): private_names(path.read_text("utf-8")) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_number_of_private_names_does_not_grow():
    import regard.capture.watching.session  # noqa: F401  # registers the operators that a capture tells apart

    assert len(torch_private.NAMES) <= 52
    assert all(purpose.startswith("to ") for purpose in torch_private.NAMES.values())


def test_a_name_that_is_gone_is_an_error_at_its_first_use_or_has_a_substitute():
    gone = torch_private.private("torch._C._gone", "to watch operations")
    with pytest.raises(
        RegardError, match=r"^torch 2.* has no torch\._C\._gone, which Regard needs to watch operat"
    ):
        gone(2)

    class Mode(gone):
        pass

    with pytest.raises(RegardError, match="has no torch"):
        Mode()
    assert not isinstance(2, gone)
    assert (
        torch_private.private("torch._C._gone", "to copy", instead=contextlib.nullcontext)
        is contextlib.nullcontext
    )
    del torch_private.NAMES["torch._C._gone"]


def test_attributes_that_are_gone_are_read_by_public_names(monkeypatch):
    module = nn.Sequential(nn.Linear(2, 3))
    sparse = torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,), check_invariants=True)
    for name in ("_PARTS", "_PARAMETERS", "_VALUES", "_HOOKS"):
        monkeypatch.setattr(torch_private, name, "_gone")
    assert list(torch_private.parts_of(module)) == ["0"]
    assert list(torch_private.parameters_of(module[0])) == ["weight", "bias"]
    assert torch_private.sparse_values(sparse).tolist() == [5.0]
    assert torch_private.has_hooks(module)
    for name, read in (
        ("_SCHEMA", lambda: torch_private.schema_of(torch.ops.aten.exp.default)),
        ("_level", torch_private.in_forward_mode),
    ):
        monkeypatch.setattr(torch_private, name, "_gone")
        with pytest.raises(RegardError, match="use a version that was tested"):
            read()
    assert torch_private.private_operators("_softmax", "_gone.out") == (torch.ops.aten._softmax.default,)
    del torch_private.NAMES["torch.ops.aten._gone"]
