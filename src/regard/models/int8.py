"""Linear layers with weights of one byte each, for faster decoding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.decoding import can_compile, project_vector
from regard.torch_private import int8_product

__all__ = ["Int8Linear", "quantize_int8"]

# Rows of the largest number of states that are multiplied at once by torch's kernel.
_MOST_STATES = 32


class Int8Linear(nn.Module):
    """A linear layer without gradients, with a weight in int8 and a scale for each of its rows.

    The largest number of a row becomes 127. Sums are computed in float32.

    >>> layer = nn.Linear(8, 3)
    >>> quantised = Int8Linear.of(layer)
    >>> x = torch.ones(2, 8)
    >>> bool((quantised(x) - layer(x)).abs().max() < 0.05)
    True
    """

    weight: Tensor  # (rows,n) int8
    scales: Tensor  # (rows,)
    bias: Tensor | None  # (rows,)

    def __init__(self, weight: Tensor, scales: Tensor, bias: Tensor | None):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    @classmethod
    def of(cls, layer: nn.Linear) -> Int8Linear:
        """Return the quantised form of a linear layer."""
        weight = layer.weight.detach().float()
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127  # (rows,)
        whole = (weight / scales[:, None]).round().to(torch.int8)
        bias = None if layer.bias is None else layer.bias.detach().float()
        return cls(whole, scales, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs ``(...,rows)`` of the states ``x (...,n)`` in float32."""
        states = x.reshape(-1, self.in_features).float()
        if len(states) == 1 and can_compile(x):
            out = project_vector(states[0], self.weight, self.bias, self.scales)
            return out.reshape(*x.shape[:-1], -1)
        if int8_product and x.device.type == "cpu" and len(states) <= _MOST_STATES:
            out = int8_product(states, self.weight, self.scales)
        else:
            out = states @ self.weight.float().mT * self.scales
        out = out if self.bias is None else out + self.bias
        return out.reshape(*x.shape[:-1], -1)

    def extra_repr(self) -> str:
        """Return the sizes as text, for ``print(model)``."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


def quantize_int8(model: nn.Module) -> nn.Module:
    """Replace all linear layers of a model by :class:`Int8Linear`, in place, and return the model.

    An output layer that is tied to the embedding gets a quantised copy, and the embedding stays as it is. The model
    cannot be trained any more.
    """
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Linear):
                setattr(module, name, Int8Linear.of(part))
    return model.requires_grad_(False)
