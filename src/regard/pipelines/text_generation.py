"""``pipeline("text-generation")``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from regard.decoding import DecodingOptions, decode, stream_tokens
from regard.errors import ArgumentError, DtypeError
from regard.pipelines.base import Pipeline, Result, checked_text, warn_caller
from regard.pipelines.generation_options import GENERATION_OPTIONS, decoding_options, flag
from regard.pipelines.networks import truncation_of, without_spaces
from regard.pipelines.prompts import Prompt, chat_prompt, is_chat
from regard.pipelines.tokenizer import Tokenizer
from regard.shapes import whole_number
from regard.tasks.write import Writing
from regard.text import PretrainedVocabulary

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.write import Writer

__all__ = ["DEFAULTS", "TextGenerationPipeline"]

# The settings of a call without options, as in Transformers 4.
DEFAULTS = {"max_new_tokens": 256, "do_sample": True, "temperature": 0.7}


@dataclass(frozen=True)
class _Generated:
    """The tokens that a model read and wrote. ``end`` is the token that ended the text, if one did."""

    read: list[int]
    written: list[int]
    end: int | None

    @property
    def all(self) -> list[int]:
        return [*self.read, *self.written, *([] if self.end is None else [self.end])]


class TextGenerationPipeline(Pipeline):
    """A pipeline that writes on after prompts, or answers conversations.

    A prompt is a text. A conversation is a list of messages, dictionaries with ``role`` and ``content``. Lists of
    either, iterators and datasets are read as well. ``settings`` are those of a call without options.
    """

    task: ClassVar[str] = "text-generation"
    options: ClassVar[tuple[str, ...]] = (
        "return_full_text",
        "return_tensors",
        "return_text",
        "clean_up_tokenization_spaces",
        "skip_special_tokens",
        "add_special_tokens",
        "prefix",
        "handle_long_generation",
        "continue_final_message",
        "stop_sequence",
        "eos_token_id",
        "pad_token_id",
        "truncation",
        *GENERATION_OPTIONS,
        "batch_size",
    )

    def __init__(self, writer: Writer, settings: dict[str, Any], **defaults: Any):
        super().__init__(writer.model, Tokenizer.of(writer.vocabulary, longest=writer.context), **defaults)
        self.writer = writer
        self.settings = dict(settings)
        self.prefix = self.settings.pop("prefix", None) or ""
        self._check(self.defaults)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Return a list of dictionaries for one prompt or conversation, or a list of such lists for several."""
        merged = self._merged(options)
        self._check(merged)
        if isinstance(inputs, str) or is_chat(inputs):
            return self.run([inputs], merged)[0]
        return self.many(inputs, merged)

    def _check(self, options: dict[str, Any]) -> None:
        """Raise an error for an option with an unknown value, or for options that exclude each other."""
        for name in ("return_full_text", "return_tensors", "return_text", "clean_up_tokenization_spaces"):
            flag(options, name)
        for name in ("skip_special_tokens", "add_special_tokens", "continue_final_message"):
            flag(options, name)
        asked = [n for n in ("return_full_text", "return_text", "return_tensors") if n in options]
        if len(asked) > 1:
            raise ArgumentError(asked[0], f"cannot be given together with {asked[1]}", "leave one out")
        if options.get("return_text") is False:
            raise ArgumentError("return_text", "there would be no result", "use return_tensors=True for ids")
        if options.get("handle_long_generation") not in (None, "hole"):
            problem = f"expected None or 'hole', got {options['handle_long_generation']!r}"
            raise ArgumentError("handle_long_generation", problem)
        truncation_of({"truncation": options.get("truncation")})
        if "batch_size" in options:
            whole_number("batch_size", options["batch_size"], least=1)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the list of results for each prompt or conversation."""
        prompts = [self._prompt(one, options) for one in inputs]
        searches = [self._search(prompt, options) for prompt in prompts]
        return [
            self._results(prompt, self._generate(prompt, search, options), options)
            for prompt, search in zip(prompts, searches, strict=True)
        ]

    # Prompts

    def _prompt(self, source: Any, options: dict[str, Any]) -> Prompt:
        """Return the tokens of a text or of a conversation."""
        if is_chat(source):
            text, continued = chat_prompt(self.writer.chat, source, options.get("continue_final_message"))
            return Prompt(source, self._read(self.writer.vocabulary.encode(text), options), continued)
        if not isinstance(source, str):
            problem = f"expected a text or a list of messages with 'role' and 'content', got {source!r}"
            raise DtypeError("inputs", problem)
        prefix = checked_text("prefix", options.get("prefix", self.prefix))
        ids = self.writer.vocabulary.encode(prefix + source)
        start = self.writer.started if flag(options, "add_special_tokens", True) else ()
        return Prompt(source, self._read([*start, *ids], options))

    def _read(self, ids: list[int], options: dict[str, Any]) -> list[int]:
        """Return the tokens of a prompt that the model reads, which are at least one and fit its context."""
        longest = self.writer.context
        if not ids:
            if not self._has_start():
                raise ArgumentError("inputs", "a prompt is empty, and the model has no token to start from")
            ids = [self.writer.vocabulary.bos]
        if truncation_of({"truncation": options.get("truncation")}):
            most = whole_number("max_length", options.get("max_length", longest), least=1)
            ids = ids[: min(most, longest)]
        elif options.get("handle_long_generation") == "hole":
            ids = self._with_hole(ids, options)
        if len(ids) > longest:
            problem = f"a prompt has {len(ids):,} tokens, and the model reads {longest:,}"
            fix = (
                "use handle_long_generation='hole' to read its end, or truncation=True to read its beginning"
            )
            raise ArgumentError("inputs", problem, fix)
        return ids

    def _has_start(self) -> bool:
        vocabulary = self.writer.vocabulary
        if not isinstance(vocabulary, PretrainedVocabulary):
            return self.writer.start is not None
        return "bos" in vocabulary.names

    def _with_hole(self, ids: list[int], options: dict[str, Any]) -> list[int]:
        """Return the end of a prompt that leaves room for the new tokens in the context of the model."""
        most = decoding_options(options, self.settings, before=len(ids)).max_length or 0
        kept = self.writer.context - most
        if kept < 1:
            problem = (
                f"{most:,} new tokens leave no room for a prompt in a context of {self.writer.context:,}"
            )
            raise ArgumentError("max_new_tokens", problem, "make it smaller")
        return ids[-kept:]

    # Search

    def _ends(self, options: dict[str, Any]) -> tuple[int, ...]:
        """Return the tokens that end a text."""
        if options.get("stop_sequence") is not None:
            ids = self.writer.vocabulary.encode(checked_text("stop_sequence", options["stop_sequence"]))
            if len(ids) != 1:
                problem = f"expected the text of one token, got {len(ids)} tokens"
                raise ArgumentError("stop_sequence", problem, "cut the result at the text instead")
            return tuple(ids)
        given = options.get("eos_token_id")
        if given is None:
            return self.writer.ends
        numbers = given if isinstance(given, list | tuple) else [given]
        for number in numbers:
            self._checked_id("eos_token_id", number)
        return tuple(numbers)

    def _checked_id(self, name: str, number: Any) -> int:
        size = len(self.writer.vocabulary)
        if whole_number(name, number, least=0) >= size:
            raise ArgumentError(name, f"expected the id of one of {size:,} tokens, got {number}")
        return number

    def _search(self, prompt: Prompt, options: dict[str, Any]) -> DecodingOptions:
        before = len(prompt.ids)
        search = decoding_options(
            options, self.settings, before=before, room=self.writer.context - before + 1
        )
        if search.beams > 1 and len(self._ends(options)) > 1:
            problem = (
                f"a beam search has one token that ends a text, and this model has {self._ends(options)}"
            )
            raise ArgumentError("num_beams", problem, "choose one with eos_token_id, or use num_beams=1")
        return search

    def _generate(self, prompt: Prompt, search: DecodingOptions, options: dict[str, Any]) -> list[_Generated]:
        """Return the texts that the model writes after a prompt."""
        writer, ends = self.writer, self._ends(options)
        writer.model.eval()
        if search.beams == 1:
            return [self._sampled(prompt.ids, search, ends, number) for number in range(search.n_best)]
        end = ends[0] if ends else -1
        (found,) = decode(
            writer.model,
            None,
            [len(prompt.ids)],
            search,
            bos=prompt.ids[0],
            eos=end,
            banned=writer.banned,
            prompts=[prompt.ids],
            token_bytes=writer.vocabulary.token_bytes,
        )
        return [_Generated(prompt.ids, one.tokens, end if one.ended else None) for one in found]

    def _sampled(
        self, ids: list[int], search: DecodingOptions, ends: tuple[int, ...], number: int
    ) -> _Generated:
        """Return one text that is written token by token, by sampling or with the most likely tokens."""
        writer = self.writer
        start = len(writer.started) if tuple(ids[:1]) == writer.started else 0
        if start == len(ids):
            start = 0
        one = replace(search, n_best=1)
        rules: dict[str, Any] = {
            "start": ids[:start],
            "ends": ends,
            "banned": writer.banned,
            "context": writer.context,
        }
        rules["token_bytes"] = writer.vocabulary.token_bytes
        tokens = list(stream_tokens(writer.model, ids[start:], one, **rules, number=number))
        if any(token.slid for token in tokens):
            warn_caller(
                f"the context of {writer.context:,} tokens was full, and the model forgot the oldest ones"
            )
        written = [token.token for token in tokens]
        ended = bool(written) and written[-1] in ends
        return _Generated(ids, written[:-1] if ended else written, written[-1] if ended else None)

    # Results

    def _results(self, prompt: Prompt, several: list[_Generated], options: dict[str, Any]) -> list[Result]:
        if "return_tensors" in options:
            rows = self._padded(several, options)
            return [
                Result({"generated_token_ids": row}, prompt.source, one)
                for row, one in zip(rows, several, strict=True)
            ]
        whole = flag(options, "return_full_text", True)
        results = []
        for one in several:
            text = self._text(one.all, options)[len(self._text(one.read, options)) :]
            values = {"generated_text": prompt.with_answer(text) if whole else text}
            results.append(Result(values, prompt.source, one))
        return results

    def _padded(self, several: list[_Generated], options: dict[str, Any]) -> Iterator[list[int]]:
        """Yield the ids of each text, all of one length."""
        pad = self._checked_id("pad_token_id", options.get("pad_token_id", self.writer.vocabulary.pad))
        longest = max(len(one.all) for one in several)
        for one in several:
            yield one.all + [pad] * (longest - len(one.all))

    def _text(self, ids: list[int], options: dict[str, Any]) -> str:
        vocabulary, skipped = self.writer.vocabulary, flag(options, "skip_special_tokens", True)
        if isinstance(vocabulary, PretrainedVocabulary):
            read = vocabulary.decode_without_specials if skipped else vocabulary.decode_with_specials
            text = read(ids)
            return without_spaces(text) if flag(options, "clean_up_tokenization_spaces", True) else text
        if not skipped:
            raise ArgumentError("skip_special_tokens", "a model of Regard writes none", "leave it out")
        text = vocabulary.decode(ids)
        return without_spaces(text) if flag(options, "clean_up_tokenization_spaces") else text

    def recording(self, model_input: _Generated) -> Recording:
        """Return the attention of the model while it reads a prompt and the text that it wrote."""
        ids = model_input
        return self.writer.attention(Writing("", "", ids.read, ids.written, 0.0, "length", whole=False))
