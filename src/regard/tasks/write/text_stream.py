"""A text that a language model writes, in pieces as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.decoding import DecodingOptions, stream_tokens
from regard.errors import ArgumentError, option
from regard.tasks.write.pieces_of_text import StopTexts, TokenTexts
from regard.tasks.write.writing import Writing

if TYPE_CHECKING:
    from regard.tasks.write.writer import Writer

__all__ = ["TextStream"]


class TextStream:
    """An iterator over the pieces of a text while it is written, which :meth:`Writer.stream` returns.

    ``token_ids`` are the tokens of the prompt. After the last piece, :attr:`result` is the whole text with its numbers.
    """

    def __init__(
        self,
        writer: Writer,
        prompt: str,
        options: DecodingOptions,
        stops: list[str],
        when_full: str,
        number: int,
    ):
        self.writer, self.prompt, self.options, self.number = writer, prompt, options, number
        self.stops, self.when_full = stops, when_full
        self.start, self.whole = writer.started, True
        self.token_ids = writer.vocabulary.encode(prompt)
        self.result: Writing | None = None
        self._pieces: Iterator[str] | None = None

    @property
    def cut_off(self) -> bool:
        """Whether the prompt is longer than the context, so that its beginning is not read."""
        return len(self.start) + len(self.token_ids) > self.writer.context

    def __iter__(self) -> Iterator[str]:
        if self._pieces is None:
            self._pieces = self._written()
        return self._pieces

    def finish(self) -> Writing:
        """Write to the end, and return the result."""
        for _ in self:
            pass
        assert self.result is not None
        return self.result

    def _written(self) -> Iterator[str]:
        writer, stop = self.writer, StopTexts(self.stops)
        self.check_prompt()
        texts = TokenTexts(writer.vocabulary, self.token_ids)
        ids, shown, total, ended, slid = [], [], 0.0, "length", False
        writer.model.eval()
        for one in stream_tokens(
            writer.model,
            self.token_ids,
            self.options,
            start=self.start,
            ends=writer.ends,
            banned=writer.banned,
            context=writer.context,
            number=self.number,
            token_bytes=writer.vocabulary.token_bytes,
        ):
            if self.when_full == "stop" and one.slid:
                ended = "full"
                break
            slid, total = slid or one.slid, total + one.log_probability
            if one.token in writer.ends:
                ended = "end"
                break
            ids.append(one.token)
            shown.append(stop.add(texts.add(one.token)))
            if shown[-1]:
                yield shown[-1]
            if stop.found:
                ended = "stop"
                break
        shown.append(stop.rest())
        if shown[-1]:
            yield shown[-1]
        text = "".join(shown)
        self.result = Writing(
            self.prompt, text, self.token_ids, ids, total, ended, self.cut_off, slid, self.whole
        )

    def check_prompt(self) -> None:
        """Raise ArgumentError if the prompt does not fit and must not be cut, or if there is nothing to start from."""
        if not self.start and not self.token_ids:
            raise ArgumentError(
                "prompt", "is empty, and this model has no token to start from", "give a prompt"
            )
        if self.cut_off and self.when_full == "stop":
            count, most = len(self.start) + len(self.token_ids), self.writer.context
            fix = f"shorten it, or say {option('when_full', 'slide')}"
            raise ArgumentError("prompt", f"has {count} tokens, but the model reads {most}", fix)
