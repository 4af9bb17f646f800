"""A writer, which is a language model with its vocabulary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import torch

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, DtypeError, UnknownNameError, option
from regard.maps import Record
from regard.models import LanguageModel
from regard.models.int8 import Int8Linear, quantize_int8
from regard.shapes import as_device, whole_number
from regard.tasks.bundle import Bundle, BundledPredictor, checked_texts
from regard.tasks.write.pieces_of_text import special_tokens, texts_of_tokens
from regard.tasks.write.pretrained import is_pretrained, load_parts, template_from_json, template_to_json
from regard.tasks.write.scoring import nats_of_tokens
from regard.tasks.write.text_stream import TextStream
from regard.tasks.write.words import word_attention
from regard.tasks.write.writing import TextScore, WordAttention, Writing
from regard.text import PretrainedVocabulary, Vocabulary

if TYPE_CHECKING:
    from regard.capture import Recording

__all__ = ["ChatTemplate", "Writer"]

# Tokens to write, where the caller does not say how many.
MAX_TOKENS = 200
WHEN_FULL = ("slide", "stop")
DTYPES = ("float32", "bfloat16", "int8")


class ChatTemplate(Protocol):
    """Makes the prompt of a conversation."""

    def render(self, messages: Sequence[Mapping[str, str]], *, answer: bool = True) -> str:
        """Return the text of a conversation, up to the place where the answer of the model begins.

        A message has a ``role`` ("system", "user" or "assistant") and a ``content``. With ``answer=False`` the text
        ends after the last message.
        """
        ...


class Writer(BundledPredictor):
    """A language model with its vocabulary, which writes on after a prompt.

    ``Writer.load("shakespeare")`` loads a trained model, ``write(prompts)`` returns the texts in order, and
    ``stream(prompt)`` yields a text in pieces as they are written.

    - ``context`` is the largest number of tokens that the model reads at once, by default the ``max_length`` of its
      config.
    - ``start`` is the token that the model reads before every prompt, or None.
    - ``ends`` are the tokens that end a text.
    - ``chat`` makes prompts of conversations, for :meth:`reply`.
    - ``extra`` are further settings, which are saved with the model.

    >>> from regard.models import LanguageModelConfig
    >>> from regard.text import ByteVocabulary
    >>> vocabulary = ByteVocabulary()
    >>> model = LanguageModel(LanguageModelConfig(vocabulary_size=len(vocabulary), width=8, heads=2))
    >>> (written,) = Writer(model, vocabulary, context=32, start=vocabulary.bos).write(["hi"], max_tokens=5)
    >>> len(written.written_ids), written.ended
    (5, 'length')
    """

    task: ClassVar[str] = "write"

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        *,
        context: int | None = None,
        start: int | None = None,
        ends: Sequence[int] = (),
        chat: ChatTemplate | None = None,
        extra: dict[str, Any] | None = None,
    ):
        self.model, self.vocabulary, self.chat = model, vocabulary, chat
        self.context = whole_number("context", model.config.max_length if context is None else context, 4)
        self.start, self.ends, self.extra = start, tuple(ends), extra or {}

    def write(self, prompts: Iterable[str], *, samples: int = 1, **options: Any) -> list[Writing]:
        """Write on after each prompt, and return ``samples`` texts for each prompt, in order.

        The options are those of :meth:`stream`. The texts depend on the seed, on the prompt and on its place among the
        prompts.
        """
        whole_number("samples", samples, least=1)
        repeated = [prompt for prompt in checked_texts(prompts) for _ in range(samples)]
        streams = [self.stream(prompt, number=place, **options) for place, prompt in enumerate(repeated)]
        return [stream.finish() for stream in streams]

    __call__ = write

    def stream(
        self,
        prompt: str,
        *,
        max_tokens: int = MAX_TOKENS,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] | str = (),
        when_full: str = "slide",
        number: int = 0,
    ) -> TextStream:
        """Return an iterator over the text that the model writes after a prompt, in pieces as they are written.

        - ``max_tokens`` is the largest number of tokens to write.
        - ``temperature`` divides the logits. At 0 the most likely token is taken, and the next four are refused.
        - ``top_k``, ``top_p`` and ``min_p`` leave out unlikely tokens, as in :class:`regard.decoding.DecodingOptions`.
          ``repetition_penalty`` above 1 makes tokens that were read or written less likely.
        - ``seed`` makes the text reproducible, and ``number`` tells texts of one seed apart.
        - ``stop`` is a text, or several, at which writing ends. It is not part of the result.
        - ``when_full`` is "slide" or "stop". When as many tokens as the model reads at once are there, "slide" goes on
          with the newer half of them, and "stop" ends. A prompt that is longer loses its beginning, or raises
          ArgumentError with "stop".
        """
        if not isinstance(prompt, str):
            raise DtypeError("prompt", f"expected a text, got {type(prompt).__name__}")
        if when_full not in WHEN_FULL:
            raise UnknownNameError("when_full", when_full, WHEN_FULL)
        sampled = not (isinstance(temperature, int | float) and temperature == 0)
        if not sampled:
            _check_nothing_is_drawn(top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
        decoding = DecodingOptions(
            beams=1,
            sample=sampled,
            temperature=temperature if sampled else 1.0,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
            max_length=whole_number("max_tokens", max_tokens, least=1),
        )
        stops = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(one, str) and one for one in stops):
            raise ArgumentError("stop", f"expected texts that are not empty, got {stop!r}")
        return TextStream(self, prompt, decoding, stops, when_full, number)

    def reply(self, messages: Sequence[Mapping[str, str]], **options: Any) -> TextStream:
        """Return an iterator over the answer to a conversation, which the chat template turns into a prompt.

        The options are those of :meth:`stream`.
        """
        if self.chat is None:
            raise ArgumentError("chat", "this model has no chat template", "leave it out, and give a prompt")
        stream = self.stream(self.chat.render(messages), **options)
        stream.start, stream.whole = (), False  # the template has the first token
        return stream

    @property
    def started(self) -> tuple[int, ...]:
        """The tokens that the model reads before a prompt."""
        return () if self.start is None else (self.start,)

    @property
    def banned(self) -> list[int]:
        """The tokens that are never written, which are the special ones that do not end a text."""
        if isinstance(self.vocabulary, PretrainedVocabulary):
            return []
        return [token for token in range(len(self.vocabulary.specials)) if token not in self.ends]

    def unknown(self, prompt: str) -> list[str]:
        """Return the parts of a prompt that the vocabulary does not have, each once.

        >>> from regard.text import CharacterVocabulary
        >>> vocabulary = CharacterVocabulary.train(["abc"], 10)
        >>> from regard.models import LanguageModelConfig
        >>> model = LanguageModel(LanguageModelConfig(vocabulary_size=len(vocabulary), width=8, heads=2))
        >>> Writer(model, vocabulary).unknown("a∂b∂")
        ['∂']
        """
        if self.vocabulary.unk is None:
            return []
        tokens, spans = self.vocabulary.encode(prompt), self.vocabulary.spans(prompt)
        found = [
            prompt[a:b] for token, (a, b) in zip(tokens, spans, strict=False) if token == self.vocabulary.unk
        ]
        return list(dict.fromkeys(found))

    def score(self, text: str, *, before: str = "") -> TextScore:
        """Return the loss of the model on a text, in which every token is predicted once.

        ``before`` is text that the model reads first and that is not scored. Without it and without a token to start
        from, the first token is not scored.
        """
        first = self.vocabulary.encode(before)
        tokens = np.array([*first, *self.vocabulary.encode(text)], dtype=np.int64)  # (n,)
        return self.score_tokens(tokens, before=len(first), characters=len(text))

    def score_tokens(self, ids: np.ndarray, *, before: int, characters: int) -> TextScore:
        """Return the loss of the model on the tokens ``ids (n,)`` from place ``before`` on.

        ``characters`` is the number of characters of their text.
        """
        self.model.eval()
        nats = nats_of_tokens(self.model, ids, context=self.context, start=self.started, before=before)
        scored = len(ids) - (before if self.started else max(1, before))
        unknown = 0 if self.vocabulary.unk is None else int((ids[before:] == self.vocabulary.unk).sum())
        return TextScore(nats, max(0, scored), characters, unknown)

    @property
    def attends(self) -> bool:
        """Whether the model has attention to show."""
        return True

    @torch.no_grad()
    def attention(self, prediction: Writing) -> Recording:
        """Return all attention of the model while it reads a prompt and the text that it wrote.

        If they are longer than the context, the end of them is read.
        """
        from regard.capture import Recording

        ids = self._read_ids(prediction)
        records: list[Record] = []
        self.model.eval()
        self.model(torch.tensor([ids], device=self.device), records=records)
        labels = [self._labels(ids)]
        return Recording([replace(one, query_tokens=labels, key_tokens=labels) for one in records])

    def word_weights(self, prediction: Writing) -> list[WordAttention]:
        """Return the attention with which the last words were written, in the last layer, averaged over its heads."""
        if not prediction.written_ids:
            return []
        ids = self._read_ids(prediction)
        weights = self.attention(prediction)[-1].map.weights()[0].double().mean(dim=0).cpu().numpy()  # (n,n)
        skipped = len(self._first(prediction))
        texts, pieces = texts_of_tokens(self.vocabulary, ids[skipped:]), self.vocabulary.pieces(ids)
        special = special_tokens(self.vocabulary)
        places = [place for place, token in enumerate(ids[skipped:]) if token in special]
        for place in places:
            texts[place] = pieces[skipped + place]
        written = len(prediction.written_ids)
        return word_attention(weights, texts, pieces[:skipped], written=written, specials=places)

    def _first(self, prediction: Writing) -> tuple[int, ...]:
        return self.started if prediction.whole else ()

    def _read_ids(self, prediction: Writing) -> list[int]:
        """Return the tokens that the model reads to show its attention, which are at least one."""
        first = self._first(prediction)
        ids = [*prediction.token_ids, *prediction.written_ids][-(self.context - len(first)) :]
        if not first and not ids:
            raise ArgumentError("prediction", "there is no token to read")
        return [*first, *ids]

    def _labels(self, ids: list[int]) -> list[str]:
        """Return the text of each token, or its name if it has none."""
        texts, names = texts_of_tokens(self.vocabulary, ids), self.vocabulary.pieces(ids)
        return [text or name for text, name in zip(texts, names, strict=True)]

    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabulary to save."""
        return {"tokenizer": self.vocabulary}

    def saved_settings(self) -> dict[str, Any]:
        """Return the context, the special tokens and the further settings of the model."""
        settings = {**self.extra, "context": self.context, "start": self.start, "ends": list(self.ends)}
        chat = template_to_json(self.chat)
        return settings if chat is None else settings | {"chat_template": chat}

    @classmethod
    def load(
        cls, model: str | os.PathLike, *, device: str | None = None, tokenizer: Path | None = None
    ) -> Self:
        """Load a model by its installed name, from the folder of a model or of a run, or from other programs' files.

        Those are GGUF files, flat files of llama2.c with ``tokenizer.bin`` beside them, and Hugging Face folders of
        Llama, Mistral, Qwen2 and GPT-2. ``device`` is by default a GPU where there is one. ``tokenizer`` is another
        folder with the tokenizer of a Hugging Face folder.
        """
        if not is_pretrained(model):
            return super().load(model, device=device)
        parts = load_parts(model, tokenizer)
        start = parts.vocabulary.framing.start
        writer = cls(parts.model, parts.vocabulary, start=start, ends=parts.ends, chat=parts.chat)
        writer.model.to(as_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        return writer

    def round_weights(self, dtype: str) -> Self:
        """Round the weights of the model to a dtype, in place, so that it writes faster, and return the writer.

        ``dtype`` is "bfloat16", "int8" (with a scale for each row of a matrix) or "float32", which changes nothing. A
        writer in int8 can be neither trained nor saved.
        """
        if dtype not in DTYPES:
            raise UnknownNameError("dtype", dtype, DTYPES)
        if dtype == "bfloat16":
            self.model.to(torch.bfloat16)
        elif dtype == "int8":
            quantize_int8(self.model)
        return self

    def save(
        self, folder: str | os.PathLike, *, dtype: str = "float32", results: dict[str, Any] | None = None
    ) -> None:
        """Write model, vocabulary and settings into ``folder``."""
        if isinstance(self.model.output, Int8Linear):
            fix = "load the model again, and save it with dtype='int8'"
            raise ArgumentError("dtype", "a writer with weights in int8 cannot be saved", fix)
        super().save(folder, dtype=dtype, results=results)

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Make a writer from a saved model, or raise FileError if its settings do not fit together."""
        settings, network, vocabulary = bundle.settings, bundle.model(), bundle.vocabulary("tokenizer")
        if not isinstance(network, LanguageModel):
            raise bundle.reject(f"the model is a {type(network).__name__}, not a language model")
        if network.config.vocabulary_size != len(vocabulary):
            raise bundle.reject(f"vocabulary_size is not {len(vocabulary)}, as the vocabulary beside it says")
        start, ends = settings.get("start"), settings.get("ends", [])
        known = range(len(vocabulary))
        if (
            not (start is None or start in known)
            or not isinstance(ends, list)
            or any(e not in known for e in ends)
        ):
            raise bundle.reject(f"start {start!r} and ends {ends!r} are not tokens of the vocabulary")
        try:
            context = settings.get("context")
            chat = template_from_json(settings.get("chat_template"), str(bundle.folder))
            return cls(
                network, vocabulary, context=context, start=start, ends=ends, chat=chat, extra=settings
            )
        except ArgumentError as error:
            raise bundle.reject(str(error)) from None


def _check_nothing_is_drawn(**options: float) -> None:
    """Reject options of drawing tokens, which have no effect at temperature 0."""
    for name, value in options.items():
        if value != (1 if name == "top_p" else 0):
            problem = f"of no use with {option('temperature', 0)}, which takes the likeliest token"
            raise ArgumentError(name, problem, "leave out one of them")
