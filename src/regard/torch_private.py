"""The private names of torch and transformers that Regard uses, with what happens in a version without one of them.

torch has no public name for these. A version may rename or remove them. Regard then uses a public name that is slower,
or raises an error that names what is missing, at the first use and not when it is imported.
"""

from __future__ import annotations

import contextlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, nn

from regard.errors import RegardError

# The private names in use, with their purpose.
NAMES: dict[str, str] = {}


def missing_name(path: str, purpose: str) -> RegardError:
    """Return the error for a private name that this version does not have."""
    package = path.partition(".")[0]
    version = __import__(package).__version__
    return RegardError(
        f"{package} {version} has no {path}, which Regard needs {purpose}: use a version that was tested, "
        "see docs/en/versions.md"
    )


def private(path: str, purpose: str, instead: Any = None) -> Any:
    """Return the object of a private name, or ``instead`` if this version does not have it.

    Without ``instead``, the result is then a class that raises an error when it is called or made.

    >>> private("torch._C._no_such_name", "to watch operations")()
    Traceback (most recent call last):
        ...
    regard.errors.RegardError: torch ... has no torch._C._no_such_name, which Regard needs to watch operations: use ...
    """
    NAMES[path] = purpose
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        if instead is not None:
            return instead

    class Missing:
        def __init__(self, *_: Any, **__: Any):
            raise missing_name(path, purpose)

    return Missing


def _no_attribute(path: str, purpose: str) -> str:
    """Register an attribute that is read by its name, and return the name."""
    NAMES[path] = purpose
    return path.rpartition(".")[2]


# ---- modes, autocast and tracing. Names that are looked up in torch._C at each use would take longer than the calls.

any_autocast: Callable[[], bool] = private(
    "torch._C._is_any_autocast_enabled", "to skip a slower test of each device", instead=lambda: True
)
count_dispatch_modes: Callable[[], int] = private(
    "torch._C._len_torch_dispatch_stack", "to see whether a mode watches operations"
)
count_function_modes: Callable[[], int] = private(
    "torch._C._len_torch_function_stack", "to see whether a mode watches functions"
)
function_mode_at: Callable[[int], Any] = private(
    "torch._C._get_function_stack_at", "to find the modes of ended captures"
)
pop_function_mode: Callable[[], Any] = private(
    "torch._C._pop_torch_function_stack", "to remove the modes of ended captures"
)
push_function_mode: Callable[[Any], None] = private(
    "torch._C._push_on_torch_function_stack", "to keep the order of other modes"
)
all_function_modes_off: Callable[[], bool] = private(
    "torch._C._is_torch_function_all_disabled", "to see whether functions are watched"
)
FunctionModesOff: Any = private("torch._C.DisableTorchFunction", "to compute without being watched")
DispatchOff: Any = private(
    "torch._C._DisableTorchDispatch", "to copy tensors without being watched", instead=contextlib.nullcontext
)
InferenceMode: Any = private(
    "torch._C._InferenceMode", "to leave inference mode in a sixth of the time", instead=torch.inference_mode
)
set_grad_enabled: Any = private(
    "torch._C._set_grad_enabled", "to switch gradients off faster", instead=torch.set_grad_enabled
)
BelowAutograd: Any = private("torch._C._AutoDispatchBelowAutograd", "to define operators with a gradient")
DispatchMode: Any = private("torch.utils._python_dispatch.TorchDispatchMode", "to watch operations")
HigherOrderOperator: Any = private("torch._ops.HigherOrderOperator", "to tell operators with a graph")
_dispatch_mode: Any = private("torch._C._get_dispatch_mode", "to see whether operations are traced")
_mode_keys: Any = private("torch._C._TorchDispatchModeKey", "to see whether operations are traced")
_task_id: Callable[[], int] = private(
    "torch._C._current_graph_task_id", "to see whether the backward pass repeats a forward pass"
)
_level = _no_attribute(
    "torch.autograd.forward_ad._current_level", "to see whether forward-mode derivatives are computed"
)


def is_traced_by_mode() -> bool:
    """Return whether a mode of torch traces operations to run them on other values."""
    if not count_dispatch_modes():
        return False
    return any(
        _dispatch_mode(getattr(_mode_keys, name)) is not None for name in ("FAKE", "PROXY", "FUNCTIONAL")
    )


def repeats_for_gradient() -> bool:
    """Return whether a forward pass runs again inside the backward pass, as with gradient checkpointing."""
    return _task_id() != -1


def in_forward_mode() -> bool:
    """Return whether forward-mode derivatives are computed."""
    level = getattr(forward_ad, _level, None)
    if level is None:
        raise missing_name(
            "torch.autograd.forward_ad._current_level", "to see whether derivatives are computed"
        )
    return level >= 0


# ---- transforms of torch.func

transform_on_top: Callable[[], Any] = private(
    "torch._C._functorch.peek_interpreter_stack", "to see whether a transform of torch.func is active"
)
transforms: Callable[[], Any] = private(
    "torch._C._functorch.get_interpreter_stack", "to count the transforms of torch.func"
)
TransformType: Any = private("torch._C._functorch.TransformType", "to tell the transforms of torch.func")
is_in_transform: Callable[[Tensor], bool] = private(
    "torch._C._functorch.is_functorch_wrapped_tensor", "to refuse tensors of torch.func"
)
without_transform: Callable[[Tensor], Tensor] = private(
    "torch._C._functorch.get_unwrapped", "to read tensors of torch.func"
)

# ---- operators and instructions of the processor

flash: Any = private(
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
    "to compute fused attention with sums",
)
flash_backward: Any = private(
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default", "to compute its gradients"
)
int8_product: Any = private(
    "torch._weight_int8pack_mm", "to multiply by weights of 8 bits faster", instead=False
)
has_amx: Callable[[], bool] = private(
    "torch.cpu._is_amx_tile_supported", "to choose the faster precision", instead=lambda: False
)
has_avx512_bf16: Callable[[], bool] = private(
    "torch.cpu._is_avx512_bf16_supported", "to choose the faster precision", instead=lambda: False
)


def private_operators(*names: str) -> tuple[Any, ...]:
    """Return the overloads of torch's operators of these names, as ``_softmax.out``, that this version has."""
    found = []
    for name in names:
        packet, _, overload = name.partition(".")
        NAMES[f"torch.ops.aten.{packet}"] = "to see what a model computes"
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        found += [] if operator is None else [operator]
    return tuple(found)


_SCHEMA = _no_attribute("torch.ops.OpOverload._schema", "to read the arguments of operators")


def schema_of(operator: Any) -> Any:
    """Return the schema of an operator."""
    schema = getattr(operator, _SCHEMA, None)
    if schema is None:
        raise missing_name("torch.ops.OpOverload._schema", NAMES["torch.ops.OpOverload._schema"])
    return schema


_VALUES = _no_attribute("torch.Tensor._values", "to find the storage of a sparse tensor")


def sparse_values(x: Tensor) -> Tensor:
    """Return the values of a sparse tensor, which may be listed twice."""
    read = getattr(x, _VALUES, None)
    return x.coalesce().values() if read is None else read()


# ---- modules

MODULE_CALL = _no_attribute("torch.nn.Module._call_impl", "to see the calls of modules")
COMPILED_CALL = _no_attribute("torch.nn.Module._compiled_call_impl", "to see the calls of compiled modules")
_HOOKS = _no_attribute("torch.nn.Module._forward_hooks", "to see whether a module has hooks")
_PRE_HOOKS = _no_attribute("torch.nn.Module._forward_pre_hooks", "to see whether a module has hooks")
_ORIGINAL = _no_attribute("torch.nn.Module._orig_mod", "to find the model inside torch.compile(model)")
_PARTS = _no_attribute("torch.nn.Module._modules", "to list the parts of a module fast")
_PARAMETERS = _no_attribute("torch.nn.Module._parameters", "to list the parameters of a module fast")
_GLOBAL_HOOKS: Any = private(
    "torch.nn.modules.module._global_forward_hooks", "to see whether all modules have hooks", instead=(True,)
)
_GLOBAL_PRE_HOOKS: Any = private(
    "torch.nn.modules.module._global_forward_pre_hooks",
    "to see whether all modules have hooks",
    instead=(True,),
)


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has hooks of its own. A version that does not tell gives True."""
    own = module.__dict__
    return bool(own.get(_HOOKS, True) or own.get(_PRE_HOOKS, True))


def all_modules_have_hooks() -> bool:
    """Return whether there are hooks of all modules. A version that does not tell gives True."""
    return bool(_GLOBAL_HOOKS or _GLOBAL_PRE_HOOKS)


def parts_of(module: nn.Module) -> Mapping[str, nn.Module | None]:
    """Return the parts of a module by name."""
    parts = module.__dict__.get(_PARTS)
    return dict(module.named_children()) if parts is None else parts


def parameters_of(module: nn.Module) -> Mapping[str, nn.Parameter | None]:
    """Return the parameters of a module without those of its parts, by name."""
    parameters = module.__dict__.get(_PARAMETERS)
    return dict(module.named_parameters(recurse=False)) if parameters is None else parameters


def without_compiler(model: nn.Module) -> nn.Module:
    """Return the model inside ``torch.compile(model)``."""
    return getattr(model, _ORIGINAL, model)


# ---- transformers

_IMPLEMENTATION = _no_attribute(
    "transformers.PretrainedConfig._attn_implementation", "to name it in an error"
)
_SUPPORTS = _no_attribute("transformers.PreTrainedModel._supports_sdpa", "to see who makes the masks")
_LANGUAGES = _no_attribute(
    "transformers.PreTrainedTokenizer._build_translation_inputs", "to translate from and to many languages"
)


def attention_implementation(model: object) -> str | None:
    """Return the name of the attention implementation of a Hugging Face model, if it has one."""
    return getattr(getattr(model, "config", None), _IMPLEMENTATION, None)


def supports_sdpa(model: object) -> bool:
    """Return whether a Hugging Face model supports torch's fused attention, or False where that is unknown."""
    return bool(getattr(model, _SUPPORTS, False))


def translation_inputs(tokenizer: object) -> Callable[..., Any] | None:
    """Return the function by which a tokenizer of many languages encodes a text, or None if it has one language."""
    return getattr(tokenizer, _LANGUAGES, None)
