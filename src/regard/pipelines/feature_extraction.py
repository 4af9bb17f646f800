"""``pipeline("feature-extraction")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from regard.pipelines.base import Pipeline, ResultList, checked_text
from regard.pipelines.networks import FRAMING_OPTIONS, TextNetwork, tokenizer_options

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["FeatureExtractionPipeline"]


class FeatureExtractionPipeline(Pipeline):
    """A pipeline that returns the last states of an encoder, one vector for each token, special tokens included.

    The states of a text are a nested list ``[1][n][m]``, or with ``return_tensors=True`` a tensor ``(1,n,m)``.
    """

    task: ClassVar[str] = "feature-extraction"
    options: ClassVar[tuple[str, ...]] = ("return_tensors", "tokenize_kwargs", *FRAMING_OPTIONS)

    def __init__(self, network: TextNetwork, **defaults: Any):
        super().__init__(**defaults)
        self.network = network

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return the states of a text, or of each text of a list or an iterator."""
        merged = self._merged(options)
        return self.run([inputs], merged)[0] if isinstance(inputs, str) else self.many(inputs, merged)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the states of each text."""
        texts = [checked_text("inputs", text) for text in inputs]
        framing = {**options, **tokenizer_options("tokenize_kwargs", options)}
        framed = [self.network.frame(text, options=framing) for text in texts]
        states = self.network.outputs(framed, options.get("batch_size"))  # (n,m) for each text
        if options.get("return_tensors"):
            return [one[None] for one in states]  # (1,n,m)
        return [ResultList([one.tolist()], text) for one, text in zip(states, texts, strict=True)]

    def recording(self, source: str) -> Recording:
        """Return the attention of the model for a text."""
        return self.network.recording(self.network.frame(source, options={"truncation": True}))
