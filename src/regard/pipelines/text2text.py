"""``pipeline("translation_en_to_fr")`` and ``pipeline("summarization")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from regard.errors import ArgumentError, DtypeError
from regard.pipelines.base import Pipeline, Result, checked_text, warn_caller
from regard.pipelines.generation_options import GENERATION_OPTIONS, decoding_options, flag
from regard.pipelines.networks import too_long, truncation_of, without_spaces
from regard.pipelines.tokenizer import Tokenizer
from regard.shapes import whole_number
from regard.tasks.text_encoder import without_line_breaks

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.decoding import DecodingOptions
    from regard.tasks.summarize import Summarizer, Summary
    from regard.tasks.translate import Translation, Translator

__all__ = ["SummarizationPipeline", "Text2TextPipeline", "TranslationPipeline"]

OPTIONS = (
    "return_tensors",
    "return_text",
    "clean_up_tokenization_spaces",
    "truncation",
    *GENERATION_OPTIONS,
    "batch_size",
)
BEAMS = 5  # as in `regard translate` and `regard summarize`
SAMPLED = {"num_beams": 1, "top_k": 50}


class Text2TextPipeline(Pipeline):
    """The base class of the pipelines that write a text for a text.

    A subclass names the start of the keys of its results, ``result_name``, and defines ``run`` and ``check_search``.
    """

    result_name: ClassVar[str]

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return a list of dictionaries for a text.

        A list of texts gives a list with one dictionary for each, or one list for each if ``num_return_sequences`` asks
        for several.
        """
        merged = self._merged(options)
        self._check(merged)
        if isinstance(inputs, str):
            return self.run([inputs], merged)[0]
        results = self.many(inputs, merged)
        if isinstance(results, list) and all(len(one) == 1 for one in results):
            return [one[0] for one in results]
        return results

    def _check(self, options: dict[str, Any]) -> None:
        """Raise an error for an option with a value that cannot be used."""
        for name in ("return_tensors", "return_text", "clean_up_tokenization_spaces"):
            flag(options, name)
        if options.get("return_text") is False and not options.get("return_tensors"):
            raise ArgumentError("return_text", "there would be no result", "use return_tensors=True for ids")
        truncation_of({"truncation": options.get("truncation")})
        if "batch_size" in options:
            whole_number("batch_size", options["batch_size"], least=1)
        self.check_search(options)

    def check_search(self, options: dict[str, Any]) -> None:
        """Raise an error for options of generation that the model cannot use."""
        raise NotImplementedError


class RegardText2TextPipeline(Text2TextPipeline):
    """The base class of the pipelines that write a text for a text with a model of Regard.

    A subclass defines ``predictions``.
    """

    def __init__(self, predictor: Translator | Summarizer, *, longest: int, **defaults: Any):
        super().__init__(predictor.model, Tokenizer.of(predictor.source, longest=longest), **defaults)
        self.predictor = predictor
        self._check(self.defaults)

    def predictions(self, texts: list[str], search: DecodingOptions, options: dict[str, Any]) -> list[Any]:
        """Return the translation or the summary of each text."""
        raise NotImplementedError

    def target_ids(self, prediction: Any) -> list[int]:
        """Return the tokens of a prediction between the start and the end."""
        return self._framed(prediction.target_ids)

    def check_search(self, options: dict[str, Any]) -> None:
        """Raise an error for options of generation that the model cannot use."""
        if options.get("return_tensors") and options.get("num_return_sequences", 1) != 1:
            problem = "a model of Regard gives the token ids of its best text only"
            raise ArgumentError("return_tensors", problem, "leave out num_return_sequences")
        self._search(options)

    def _search(self, options: dict[str, Any]) -> DecodingOptions:
        """Return the settings of the search. The decoder starts with one token, which max_length counts."""
        wanted = options.get("num_return_sequences", 1)
        beams = max(BEAMS, wanted) if isinstance(wanted, int) else BEAMS
        defaults = SAMPLED if options.get("do_sample") is True else {"num_beams": beams}
        return decoding_options(options, defaults, before=1)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the list of results for each text."""
        texts = [checked_text("inputs", one) for one in inputs]
        found = self.predictions(texts, self._search(options), options)
        return [self._results(one, options) for one in found]

    def _results(self, prediction: Any, options: dict[str, Any]) -> list[Result]:
        name, source = self.result_name, prediction.source
        if options.get("return_tensors"):
            ids = torch.tensor(self.target_ids(prediction))  # (t,)
            return [Result({f"{name}_token_ids": ids}, source, (prediction, 0))]
        texts = [prediction.text, *(text for text, _ in prediction.alternatives)]
        if flag(options, "clean_up_tokenization_spaces"):
            texts = [without_spaces(text) for text in texts]
        return [Result({f"{name}_text": text}, source, (prediction, rank)) for rank, text in enumerate(texts)]

    def _framed(self, ids: list[int]) -> list[int]:
        target = self.predictor.target
        return [target.bos, *ids, target.eos]

    def recording(self, model_input: tuple[Any, int]) -> Recording:
        """Return the attention of the model for the best text of an input."""
        prediction, rank = model_input
        if rank:
            problem = f"number {rank + 1} of several texts, and only the tokens of the best one are held"
            raise ArgumentError("result", problem, "give the first result")
        return self.predictor.attention(prediction)


class TranslationPipeline(RegardText2TextPipeline):
    """A pipeline that translates texts, whose sentences are translated one by one."""

    task: ClassVar[str] = "translation"
    result_name: ClassVar[str] = "translation"
    options: ClassVar[tuple[str, ...]] = ("src_lang", "tgt_lang", *OPTIONS)
    predictor: Translator

    def __init__(self, translator: Translator, **defaults: Any):
        super().__init__(translator, longest=translator.longest, **defaults)

    def check_search(self, options: dict[str, Any]) -> None:
        """Raise an error for options of generation or languages that the model does not have."""
        super().check_search(options)
        of_model = (self.predictor.source_language, self.predictor.target_language)
        for name, language in zip(("src_lang", "tgt_lang"), of_model, strict=True):
            wanted = options.get(name, language)
            if not isinstance(wanted, str):
                raise DtypeError(name, f"expected the name of a language, got {wanted!r}")
            if wanted.lower() != language.lower():
                problem = f"the model translates {of_model[0]} to {of_model[1]}, got {wanted!r}"
                raise ArgumentError(name, problem, "make another pipeline, or leave it out")

    def predictions(
        self, texts: list[str], search: DecodingOptions, options: dict[str, Any]
    ) -> list[Translation]:
        """Return the translation of each text."""
        return self.predictor.translate(texts, search, batch_size=options.get("batch_size"))

    def target_ids(self, prediction: Translation) -> list[int]:
        """Return the tokens of all sentences, each between the start and the end."""
        return [number for part in prediction.written_parts for number in self._framed(part.target_ids)]


class SummarizationPipeline(RegardText2TextPipeline):
    """A pipeline that summarises texts."""

    task: ClassVar[str] = "summarization"
    result_name: ClassVar[str] = "summary"
    options: ClassVar[tuple[str, ...]] = OPTIONS
    predictor: Summarizer

    def __init__(self, summarizer: Summarizer, **defaults: Any):
        super().__init__(summarizer, longest=summarizer.encoder.most, **defaults)

    def predictions(
        self, texts: list[str], search: DecodingOptions, options: dict[str, Any]
    ) -> list[Summary]:
        """Return the summary of each text, of which the model reads as many tokens as it was trained on."""
        found = self.predictor.summarize(texts, search, batch_size=options.get("batch_size"))
        cut = [one.source for one in found if one.cut_off]
        truncation, most = (
            truncation_of({"truncation": options.get("truncation")}),
            self.predictor.encoder.most,
        )
        if cut and truncation is False:
            raise too_long(len(self.predictor.source.encode(without_line_breaks(cut[0]))), most)
        if cut and truncation is None:
            problem = (
                f"{len(cut)} of {len(found)} texts have more than the {most:,} tokens that the model reads"
            )
            warn_caller(f"inputs: {problem}, and the rest is left out: use truncation=True to allow this")
        return found
