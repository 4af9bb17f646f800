"""The modules of a model that are worth watching, and their names."""

from __future__ import annotations

import functools

from torch import nn

__all__ = ["is_simple", "may_attend", "named_modules"]

_FEED_FORWARD = ("Intermediate", "MLP", "Output")  # ends of the names of classes
_SIMPLE = {nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.Dropout}
_SIMPLE |= {nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Identity}


@functools.lru_cache(maxsize=8192)
def is_simple(kind: type[nn.Module]) -> bool:
    """Whether modules of a class are known to do nothing but a layer, a norm, an activation or dropout.

    >>> is_simple(nn.Linear), is_simple(nn.MultiheadAttention)
    (True, False)
    """
    if kind in _SIMPLE:
        return True
    home, name = kind.__module__, kind.__name__
    if home == "transformers.pytorch_utils":
        return name == "Conv1D"
    return home == "transformers.activations" or (
        home.startswith("transformers.models.") and name.endswith("RMSNorm")
    )


def _is_feed_forward(kind: type[nn.Module]) -> bool:
    return kind.__module__.startswith("transformers.models.") and kind.__name__.endswith(_FEED_FORWARD)


def may_attend(module: nn.Module) -> bool:
    """Whether a module is worth watching.

    A layer of torch that has no others inside is not, and neither is a feed-forward part of a Hugging Face model. What
    happens in a module that is not watched counts as done by the module around it.
    """
    if is_simple(type(module)) or _is_feed_forward(type(module)):
        return False
    own = not type(module).__module__.startswith("torch.nn.modules")
    return own or bool(module._modules) or isinstance(module, nn.Conv2d | nn.MultiheadAttention)


def named_modules(model: nn.Module) -> dict[nn.Module, str]:
    """The modules of a model and their names. The name of the model itself is that of its class."""
    found: dict[nn.Module, str] = {}
    waiting = [("", model)]
    # In the order of model.named_modules(), whose generators inside one another take five times as long.
    while waiting:
        name, module = waiting.pop()
        if module not in found:
            found[module] = name or type(model).__name__
            parts = [
                (f"{name}.{at}" if name else at, x) for at, x in module._modules.items() if x is not None
            ]
            waiting += reversed(parts)
    return found
