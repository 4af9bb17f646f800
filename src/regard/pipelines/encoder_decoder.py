"""Encoder–decoders of Hugging Face folders, such as Marian, BART and T5, which Transformers runs."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import ArgumentError, DtypeError, UnknownNameError
from regard.files import read_json
from regard.pipelines.base import warn_caller
from regard.pipelines.generation_options import check_lengths, least_new_tokens, most_new_tokens
from regard.pipelines.networks import too_long
from regard.shapes import as_device
from regard.tasks.hf_reader import load_with_transformers, most_positions
from regard.torch_private import translation_inputs

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["EncodedText", "EncoderDecoder"]

# The settings of these pipelines in Transformers 4.57, which come before those of the folder.
BEAMS, NEW_TOKENS = 4, 256
# The largest length that Transformers gives to a folder without one.
_NO_MAX_LENGTH = (None, 20)


@dataclass(frozen=True)
class EncodedText:
    """The tokens of a text, and the options of generation that its languages ask for."""

    ids: list[int]
    options: dict[str, Any] = field(default_factory=dict)


class EncoderDecoder:
    """The model and the tokenizer of a Hugging Face folder of an encoder–decoder.

    ``task`` is the full name of a task, such as "translation_en_to_fr", by which ``config.json`` may have settings of
    generation and a ``prefix`` for the texts. ``longest`` is the number of tokens that the model can read, or None.
    """

    def __init__(self, folder: Path, tokenizer: Path, task: str, device: str | None):
        given = {"use_safetensors": True, "dtype": torch.float32}
        self.tokenizer, model = load_with_transformers(folder, True, tokenizer, **given)
        place = as_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = model.to(place).eval()
        self.device = place
        self.longest = most_positions(model)
        settings = read_json(folder / "config.json")
        special = _task_settings(settings, task)
        self.prefix: str = special.pop("prefix", None) or settings.get("prefix") or ""
        self.settings = self._folder_settings(special)

    def _folder_settings(self, special: dict[str, Any]) -> Any:
        """Return the settings of generation for calls without options, as Transformers 4 put them together."""
        settings = copy.deepcopy(self.model.generation_config)
        settings.num_beams = BEAMS
        settings.max_new_tokens = NEW_TOKENS if settings.max_length in _NO_MAX_LENGTH else None
        # Transformers 5 would put it before the max_length of a call.
        self.model.generation_config.max_new_tokens = None
        settings.update(**special)
        if settings.pad_token_id is None:
            settings.pad_token_id = self.tokenizer.pad_token_id
        return settings

    # Reading

    @property
    def has_languages(self) -> bool:
        """Whether the model translates several languages, which have to be named."""
        return translation_inputs(self.tokenizer) is not None

    def check_language(self, argument: str, language: Any) -> None:
        """Raise an error if the model does not have a language."""
        if language is None:
            problem = "this model translates several languages"
            raise ArgumentError(argument, problem, "name that of the texts and that of the translation")
        if not isinstance(language, str):
            raise DtypeError(argument, f"expected the name of a language, got {language!r}")
        named = [getattr(self.tokenizer, name, None) for name in ("lang_code_to_token", "lang_code_to_id")]
        known = next((list(one) for one in named if one), [])
        if known and language not in known:
            raise UnknownNameError(argument, language, known)

    def encode(self, text: str, *, truncation: bool, languages: tuple[str, str] | None = None) -> EncodedText:
        """Return the tokens of a text, which fit the model."""
        most = min(int(self.tokenizer.model_max_length), self.longest or int(1e30))
        options: dict[str, Any] = {"truncation": True, "max_length": most} if truncation else {}
        if languages is None:
            read = self.tokenizer(self.prefix + text, verbose=False, **options)
        else:
            source, target = languages
            encode = translation_inputs(self.tokenizer)
            assert encode is not None
            read = encode(text, return_tensors=None, src_lang=source, tgt_lang=target, **options)
        ids = list(read["input_ids"])
        if not ids:
            raise ArgumentError("inputs", "a text has no tokens", "give a text with words")
        if self.longest is not None and len(ids) > self.longest:
            raise too_long(len(ids), self.longest)
        forced = "forced_bos_token_id"
        return EncodedText(ids, {forced: read[forced]} if forced in read else {})

    # Writing

    def search(self, given: dict[str, Any]) -> Any:
        """Return the settings of generation with the options of a call, or raise an error for an option.

        A largest length of the call comes before that of the folder. ``max_length`` counts the token that starts the
        decoder.
        """
        settings = copy.deepcopy(self.settings)
        lengths = {name: getattr(settings, name) for name in ("max_new_tokens", "max_length")}
        most = most_new_tokens({**lengths, **given}, given, before=1)
        check_lengths(least_new_tokens(given, before=1), most, given)
        others = {name: value for name, value in given.items() if name not in lengths}
        with _named_errors(given):
            settings.update(**others, max_new_tokens=None, max_length=1 + self._that_fit(most, given))
        return settings

    def _that_fit(self, most: int | None, given: dict[str, Any]) -> int:
        """Return the largest number of new tokens for which the decoder has positions."""
        most = NEW_TOKENS if most is None else most
        if self.longest is None or most <= self.longest:
            return most
        if {"max_length", "max_new_tokens"} & given.keys():
            warn_caller(
                f"the decoder of the model has room for {self.longest:,} tokens, so that many are written"
            )
        return self.longest

    @torch.no_grad()
    def generate(self, texts: list[EncodedText], search: Any) -> list[list[Tensor]]:
        """Return the tokens of the texts that are written for each text, from the token that starts the decoder on."""
        settings = copy.deepcopy(search)
        settings.update(**texts[0].options)
        inputs = self._inputs(texts)
        with _named_errors({}):
            ids = self.model.generate(**inputs, generation_config=settings)  # (b·n, t)
        return list(ids.cpu().reshape(len(texts), -1, ids.shape[-1]))  # b × (n, t)

    def _inputs(self, texts: list[EncodedText]) -> dict[str, Tensor]:
        rows = {"input_ids": [one.ids for one in texts]}
        if len(texts) > 1 and self.tokenizer.pad_token_id is None:
            raise ArgumentError("batch_size", "the tokenizer has no token for padding", "use batch_size=1")
        padded = self.tokenizer.pad(rows, padding=len(texts) > 1, return_tensors="pt", verbose=False)
        return {name: padded[name].to(self.device) for name in ("input_ids", "attention_mask")}  # (b,k)

    def text_of(self, ids: Tensor) -> str:
        """Return the text of tokens, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    @torch.no_grad()
    def recording(self, text: EncodedText, written: Tensor) -> Recording:
        """Return the attention of the model while it reads a text and writes another one."""
        from regard.capture import capture

        # The decoder does not read the last token that it writes.
        read = self._without_padding(written.tolist())[:-1]
        decoder = torch.tensor([read], device=self.device)  # (1,q)
        with capture(self.model, tokenizer=self.tokenizer) as seen:
            self.model(**self._inputs([text]), decoder_input_ids=decoder, use_cache=False)
        return seen

    def _without_padding(self, ids: list[int]) -> list[int]:
        """Return the tokens of a text without the padding after its end."""
        last = len(ids)
        ends = self.settings.eos_token_id
        while last > 2 and ids[last - 1] == self.settings.pad_token_id and ids[last - 1] != ends:
            last -= 1
        return ids[:last]


def _task_settings(settings: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the settings of config.json for a task, and warn if it has them only for other languages."""
    every = settings.get("task_specific_params") or {}
    if task not in every and (others := [name for name in every if name.startswith(task.split("_")[0])]):
        warn_caller(f"task: config.json has settings for {', '.join(others)}, and none for {task}")
    return dict(every.get(task) or {})


@contextlib.contextmanager
def _named_errors(given: dict[str, Any]) -> Iterator[None]:
    """Return a context manager that raises errors of Transformers as ArgumentError, named after an option given."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        words = " ".join(str(error).split())
        named = sorted((name for name in given if name in words), key=words.index)
        raise ArgumentError(named[0] if named else "options", words) from error
