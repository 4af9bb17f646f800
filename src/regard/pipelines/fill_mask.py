"""``pipeline("fill-mask")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from regard.errors import ArgumentError
from regard.pipelines.base import Pipeline, Result, checked_text, warn_caller
from regard.pipelines.networks import TextNetwork, tokenizer_options
from regard.shapes import whole_number

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.text import Framed

__all__ = ["FillMaskPipeline"]

# Words for each mask, if top_k is not given.
BEST = 5


class FillMaskPipeline(Pipeline):
    """A pipeline that finds words for the masked positions of a text.

    ``top_k`` is the number of words for each mask. ``targets`` are the only words to choose from.
    """

    task: ClassVar[str] = "fill-mask"
    options: ClassVar[tuple[str, ...]] = ("top_k", "targets", "tokenizer_kwargs", "batch_size")

    def __init__(self, network: TextNetwork, **defaults: Any):
        super().__init__(network.model, network.tokenizer, **defaults)
        self.network = network
        if network.vocabulary.mask is None:
            raise ArgumentError("model", "its tokenizer has no mask token")
        self.mask_name = network.mask_name

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return a list of dictionaries for one mask, or a list of such lists for several masks or texts."""
        merged = self._merged(options)
        if isinstance(inputs, str):
            return self.run([inputs], merged)[0]
        results = self.many(inputs, merged)
        return results[0] if isinstance(results, list) and len(results) == 1 else results

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the words for the masks of each text."""
        framing = tokenizer_options("tokenizer_kwargs", options)
        framed = [self._framed(checked_text("inputs", text), framing) for text in inputs]
        targets = self._targets(options["targets"]) if options.get("targets") is not None else None
        most = whole_number("top_k", options.get("top_k", BEST), least=1)
        rows = self.network.outputs(framed, options.get("batch_size"))  # (n,vocabulary) for each text
        return [
            self._filled(text, one, logits.float(), targets, most)
            for text, one, logits in zip(inputs, framed, rows, strict=True)
        ]

    def _framed(self, text: str, options: dict[str, Any]) -> Framed:
        """Return the ids of a text between special tokens, or raise ArgumentError if it has no mask."""
        framed = self.network.frame(text, options=options)
        if self.network.vocabulary.mask not in framed.ids:
            problem = f"no {self.mask_name} in {text!r}" + (" after truncation" if framed.cut else "")
            raise ArgumentError("inputs", problem, f"write {self.mask_name} in place of a word")
        return framed

    def _targets(self, given: Any) -> list[int]:
        """Return the ids of the target words, for a word outside the vocabulary that of its first piece."""
        vocabulary = self.network.vocabulary
        words = [given] if isinstance(given, str) else list(given)
        ids = []
        for word in words:
            number = self.network.id_of(checked_text("targets", word))
            if number is None:
                first = vocabulary.encode(word)[:1]
                if not first:
                    warn_caller(f"targets: {word!r} is empty and left out")
                    continue
                (number,) = first
                problem = (
                    f"targets: {word!r} is not in the vocabulary, {vocabulary.pieces([number])[0]!r} is used"
                )
                warn_caller(problem)
            ids.append(number)
        if not ids:
            raise ArgumentError("targets", "expected one word or more, got none")
        return sorted(set(ids))

    def _filled(self, text: str, framed: Framed, logits: Tensor, targets: list[int] | None, most: int) -> Any:
        vocabulary = self.network.vocabulary
        places = [place for place, number in enumerate(framed.ids) if number == vocabulary.mask]
        shares = logits[places].softmax(dim=-1)  # (masks,vocabulary)
        chosen = shares if targets is None else shares[:, targets]  # (masks,candidates)
        values, numbers = chosen.topk(min(most, chosen.shape[-1]))  # (masks,best)
        results = []
        for place, scores, row in zip(places, values.tolist(), numbers.tolist(), strict=True):
            ids = row if targets is None else [targets[number] for number in row]
            results.append(
                [self._result(text, framed, place, *pair) for pair in zip(scores, ids, strict=True)]
            )
        return results[0] if len(results) == 1 else results

    def _result(self, text: str, framed: Framed, place: int, score: float, number: int) -> Result:
        vocabulary, ids = self.network.vocabulary, list(framed.ids)
        alone = ids.count(vocabulary.mask or 0) == 1
        ids[place] = number
        shown = [one for one in ids if one != vocabulary.pad]
        values = {
            "score": score,
            "token": number,
            "token_str": self.network.text_of([number]),
            # The other masks would be dropped with the special tokens.
            "sequence": self.network.text_of(shown, specials=not alone),
        }
        return Result(values, text, framed)

    def recording(self, model_input: Framed) -> Recording:
        """Return the attention of the model for a framed text with masks."""
        return self.network.recording(model_input)
