"""``pipeline("feature-extraction")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.errors import ArgumentError
from regard.pipelines.base import Pipeline, ResultList, checked_text
from regard.pipelines.networks import FRAMING_OPTIONS, TextNetwork, tokenizer_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regard.capture import Recording
    from regard.text import Framed

__all__ = ["FeatureExtractionPipeline"]


class FeatureExtractionPipeline(Pipeline):
    """A pipeline that returns the last states of an encoder, one vector for each token, special tokens included.

    The states of a text are a nested list ``[1][n][m]``, or with ``return_tensors=True`` a tensor ``(1,n,m)``.
    """

    task: ClassVar[str] = "feature-extraction"
    options: ClassVar[tuple[str, ...]] = ("return_tensors", "tokenize_kwargs", *FRAMING_OPTIONS)

    def __init__(self, network: TextNetwork, **defaults: Any):
        super().__init__(network.model, network.tokenizer, **defaults)
        self.network = network
        # A tensor of states has no attributes for its origin, which is held as long as the tensor.
        self._of_tensors = WeakTensorKeyDictionary()

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the states of a text, or of each text of a list or an iterator."""
        merged = self._merged(options)
        return self.run([inputs], merged)[0] if isinstance(inputs, str) else self.many(inputs, merged)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the states of each text."""
        texts = [checked_text("inputs", text) for text in inputs]
        framing = {**options, **tokenizer_options("tokenize_kwargs", options)}
        if framing.get("padding") == "max_length":
            raise ArgumentError("padding", "there are no states of padding, got 'max_length'", "leave it out")
        framed = [self.network.frame(text, options=framing) for text in texts]
        states = self.network.outputs(framed, options.get("batch_size"))  # (n,m) for each text
        rows = zip(states, texts, framed, strict=True)
        if options.get("return_tensors"):
            return [self._tensor(row, text, read) for row, text, read in rows]
        return [ResultList([row.tolist()], text, read) for row, text, read in rows]

    def _tensor(self, states: Tensor, text: str, framed: Framed) -> Tensor:
        """Return the states (n,m) of a text as (1,n,m), and remember the text as long as the tensor is held."""
        tensor = states[None]  # (1,n,m)
        self._of_tensors[tensor] = (text, framed)
        return tensor

    def _origins(self, result: Any) -> Iterator[tuple[Any, Any]]:
        if isinstance(result, Tensor):
            if result in self._of_tensors:
                yield self._of_tensors[result]
        else:
            yield from super()._origins(result)

    def recording(self, model_input: Framed) -> Recording:
        """Return the attention of the model for a framed text."""
        return self.network.recording(model_input)
