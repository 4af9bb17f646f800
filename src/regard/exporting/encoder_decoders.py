"""The two graphs of an encoder–decoder, one that reads the source and one that writes the next token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.copying import CopyStates
from regard.errors import ArgumentError
from regard.exporting.graphs import Graph
from regard.models import Memory, Transformer
from regard.models.config import TransformerConfig

__all__ = ["EXPORTED", "graphs_of"]

# The fix of errors about predictors that cannot be exported.
EXPORTED = (
    "export a translator or summarizer with the architecture transformer, a writer, a classifier of texts or "
    "pictures, an encoder, or a reader"
)

BATCH, SOURCE, TARGET = 2, 7, 5


def graphs_of(model: nn.Module) -> dict[str, Graph]:
    """Return the graphs "encoder" and "step" of a Transformer, with example inputs.

    The step reads all tokens so far, so it needs no cache. Another model raises ArgumentError.
    """
    if type(model) is not Transformer:
        problem = f"a {type(model).__name__} cannot be exported as an encoder and a step"
        raise ArgumentError("model", problem, EXPORTED)
    config: TransformerConfig = model.config
    chance = torch.Generator().manual_seed(0)
    source = torch.randint(config.source_size, (BATCH, SOURCE), generator=chance)  # (b,s)
    target = torch.randint(config.target_size, (BATCH, TARGET), generator=chance)  # (b,t)
    lengths = torch.tensor([SOURCE, SOURCE - 2])
    encoder, step = _EncoderPart(model), _StepPart(model)
    with torch.no_grad():
        memory = encoder(source, lengths)
    read = ("states", "copy_keys") if config.copy else ("states",)
    inputs: dict[str, Any] = {"target": target, "lengths": lengths, "states": memory[0]}
    if config.copy:
        inputs |= {"copy_keys": memory[1], "source": source}
    sizes = dict.fromkeys(("source", "states", "copy_keys"), ("batch", "source"))
    sizes |= {"target": ("batch", "target"), "lengths": ("batch",)}
    return {
        "encoder": Graph(encoder.eval(), {"source": source, "lengths": lengths}, read, sizes),
        "step": Graph(step.eval(), inputs, ("log_probabilities",), sizes),
    }


class _EncoderPart(nn.Module):
    """The encoder states of a source, and the keys of the copy attention if the model copies."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Return the states ``(b,s,m)`` of ``source (b,s)``, which is padding from ``lengths (b,)`` on."""
        memory = self.model.encode(source, lengths)
        return (memory.states,) if memory.keys is None else (memory.states, memory.keys)


class _StepPart(nn.Module):
    """The log-probabilities of the token after those that were written so far."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(
        self,
        target: Tensor,
        lengths: Tensor,
        states: Tensor,
        copy_keys: Tensor | None = None,
        source: Tensor | None = None,
    ) -> Tensor:
        """Return the log-probabilities ``(b,vocabulary)`` after ``target (b,t)``, which begins with the start token."""
        memory = Memory(states, lengths, keys=copy_keys, tokens=source)
        logits = self.model.output(_last(self.model.decode(memory, target)))[:, 0]  # (b,v)
        return logits.log_softmax(dim=-1)


def _last(hidden: Tensor | CopyStates) -> Tensor | CopyStates:
    """Return the states of the last token, ``(b,1,m)``."""
    if isinstance(hidden, Tensor):
        return hidden[:, -1:]
    return CopyStates(hidden.hidden[:, -1:], hidden.gate[:, -1:], hidden.weights[:, -1:], hidden.source)
