"""``pipeline("translation_en_to_fr", folder)`` and ``pipeline("summarization", folder)`` on Hugging Face folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import ArgumentError
from regard.pipelines.base import Result, checked_text
from regard.pipelines.generation_options import flag, warn_of_idle_options
from regard.pipelines.networks import truncation_of, without_spaces
from regard.pipelines.text2text import OPTIONS, Text2TextPipeline
from regard.shapes import whole_number

if TYPE_CHECKING:
    from torch import Tensor

    from regard.capture import Recording
    from regard.pipelines.encoder_decoder import EncodedText, EncoderDecoder

__all__ = ["HuggingFaceSummarization", "HuggingFaceTranslation"]

# Options of generate in Transformers that the searches of Regard do not have.
MORE_OPTIONS = (
    "encoder_repetition_penalty",
    "encoder_no_repeat_ngram_size",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "bad_words_ids",
    "sequence_bias",
    "suppress_tokens",
    "begin_suppress_tokens",
    "exponential_decay_length_penalty",
    "renormalize_logits",
    "remove_invalid_values",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "pad_token_id",
    "max_time",
    "use_cache",
)
# Options that are not passed on to generate.
OF_PIPELINE = (
    "return_tensors",
    "return_text",
    "clean_up_tokenization_spaces",
    "truncation",
    "batch_size",
    "stop_sequence",
    "src_lang",
    "tgt_lang",
)


class HuggingFaceText2Text(Text2TextPipeline):
    """The base class of the pipelines that write a text for a text with a Hugging Face folder."""

    options: ClassVar[tuple[str, ...]] = (*OPTIONS, *MORE_OPTIONS, "stop_sequence")

    def __init__(self, network: EncoderDecoder, **defaults: Any):
        super().__init__(network.model, network.tokenizer, **defaults)
        self.network = network
        self._check(self.defaults)

    def check_search(self, options: dict[str, Any]) -> None:
        """Raise an error for options of generation that the model cannot use."""
        self._search(options)

    def _search(self, options: dict[str, Any]) -> Any:
        """Return the settings of generate for the options of a call."""
        given = {name: value for name, value in options.items() if name not in OF_PIPELINE}
        for name in ("num_beams", "num_return_sequences"):
            if name in given:
                whole_number(name, given[name], least=1)
        if options.get("stop_sequence") is not None:
            given["eos_token_id"] = self._stop(options["stop_sequence"])
        settings = self.network.search(given)
        flag({"do_sample": bool(settings.do_sample), **given}, "do_sample")
        return settings

    def _stop(self, text: Any) -> int:
        ids = self.network.tokenizer.encode(checked_text("stop_sequence", text), add_special_tokens=False)
        if len(ids) != 1:
            problem = f"expected the text of one token, got {len(ids)} tokens"
            raise ArgumentError("stop_sequence", problem, "cut the result at the text instead")
        return ids[0]

    def languages(self, options: dict[str, Any]) -> tuple[str, str] | None:
        """Return the languages of a call, or None if the model has no names for them."""
        return None

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the list of results for each text."""
        texts = [checked_text("inputs", one) for one in inputs]
        search, languages = self._search(options), self.languages(options)
        warn_of_idle_options(options, bool(search.do_sample))
        cut = bool(truncation_of({"truncation": options.get("truncation")}))
        encoded = [self.network.encode(one, truncation=cut, languages=languages) for one in texts]
        size, found = options.get("batch_size", 1), []
        for start in range(0, len(encoded), size):
            found += self.network.generate(encoded[start : start + size], search)
        return [
            [self._result(text, one, ids, options) for ids in several]
            for text, one, several in zip(texts, encoded, found, strict=True)
        ]

    def _result(self, source: str, encoded: EncodedText, ids: Tensor, options: dict[str, Any]) -> Result:
        if options.get("return_tensors"):
            return Result({f"{self.result_name}_token_ids": ids}, source, (encoded, ids))
        text = self.network.text_of(ids)
        if flag(options, "clean_up_tokenization_spaces"):
            text = without_spaces(text)
        return Result({f"{self.result_name}_text": text}, source, (encoded, ids))

    def recording(self, model_input: tuple[EncodedText, Tensor]) -> Recording:
        """Return the attention of the model while it reads a text and writes another one."""
        return self.network.recording(*model_input)


class HuggingFaceTranslation(HuggingFaceText2Text):
    """A pipeline that translates texts with a Marian, mBART, T5 or another encoder–decoder of Transformers."""

    task: ClassVar[str] = "translation"
    result_name: ClassVar[str] = "translation"
    options: ClassVar[tuple[str, ...]] = ("src_lang", "tgt_lang", *HuggingFaceText2Text.options)

    def __init__(self, network: EncoderDecoder, of_task: tuple[str, str] | None = None, **defaults: Any):
        self.of_task = of_task
        super().__init__(network, **defaults)

    def check_search(self, options: dict[str, Any]) -> None:
        """Raise an error for options of generation that the model cannot use, or for languages without effect."""
        super().check_search(options)
        for name in ("src_lang", "tgt_lang"):
            if name in options and not self.network.has_languages:
                problem = f"this model has no names of languages, got {options[name]!r}"
                raise ArgumentError(name, problem, "leave it out")

    def languages(self, options: dict[str, Any]) -> tuple[str, str] | None:
        """Return the languages in the options of a call, or else in the task."""
        if not self.network.has_languages:
            return None
        source, target = options.get("src_lang"), options.get("tgt_lang")
        if source is None and target is None and self.of_task is not None:
            source, target = self.of_task
        self.network.check_language("src_lang", source)
        self.network.check_language("tgt_lang", target)
        return str(source), str(target)


class HuggingFaceSummarization(HuggingFaceText2Text):
    """A pipeline that summarises texts with a BART, T5 or another encoder–decoder of Transformers."""

    task: ClassVar[str] = "summarization"
    result_name: ClassVar[str] = "summary"
