"""Writing of one sequence, token by token, by sampling or by taking the most likely token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from regard.decoding.constraints import NoRepeats, valid_text
from regard.decoding.continuations import Allowed
from regard.decoding.options import DecodingOptions
from regard.decoding.prompts import begin
from regard.decoding.protocol import Decodable
from regard.decoding.repetition import penalised
from regard.decoding.sampling import RandomNumbers, draw
from regard.errors import ArgumentError
from regard.shapes import whole_number

__all__ = ["WrittenToken", "stream_tokens"]


class WrittenToken(NamedTuple):
    """A token with its log-probability at temperature 1.

    ``slid`` says that the model forgot the oldest tokens before this one, because its context was full.
    """

    token: int
    log_probability: float
    slid: bool = False


@torch.no_grad()
def stream_tokens(
    model: Decodable,
    prompt: Sequence[int],
    options: DecodingOptions,
    *,
    start: Sequence[int] = (),
    ends: Sequence[int] = (),
    banned: Sequence[int] = (),
    context: int | None = None,
    number: int = 0,
    token_bytes: Sequence[bytes] | None = None,
) -> Iterator[WrittenToken]:
    """Yield the tokens that a model without a source writes after ``prompt``, each as soon as it is chosen.

    ``start`` are tokens before the prompt, which the model always reads. Writing ends after a token of ``ends``, which
    is yielded too, or after ``options.max_length`` tokens. The first ``options.min_length`` tokens are not of ``ends``.
    Tokens of ``banned`` are never written.

    The model reads at most ``context`` tokens, by default any number. When they are full, it reads ``start`` and the
    newest tokens again, together half of ``context``. A prompt that does not fit loses its oldest tokens.

    ``number`` is the number of the sequence among those of one seed. ``token_bytes`` are those of
    :func:`regard.decoding.decode`, which keep the text valid. The model should be in evaluation mode.
    """
    start, read = list(start), _fitting(list(prompt), len(start), options, context)
    state, given = begin(model, None, 1, -1, [[*start, *read]])
    last, all_tokens = given[:, -1:], given[:, None]  # (1,1), and (1,1,p+t)
    size = options.repeat_size(has_sources=False)
    repeats = NoRepeats(size, torch.ones(1, dtype=torch.int64, device=last.device)) if size else None
    valid = valid_text(given, token_bytes, ends=ends, banned=banned)
    chance = RandomNumbers(replace(options, n_best=1), [number], last.device)
    allowed, slid = Allowed(-1, tuple(banned)), False
    before_end, most = Allowed(-1, (*banned, *ends)), options.limit(len(read))
    for written in range(most):
        if context is not None and len(start) + len(read) > context:
            read, slid = read[-max(1, context // 2 - len(start)) :], True
            state, _ = begin(model, None, 1, -1, [[*start, *read]])
        rule = before_end if written < options.min_length else allowed
        scores = model.output(model.step(last, state))  # (1,1,v)
        if options.repetition_penalty != 1:
            scores = penalised(scores, all_tokens, options.repetition_penalty)
        scores = rule.log_probabilities(scores, 0)
        room = torch.tensor([most - written - 1], device=last.device)
        if repeats is not None:
            # The rule skips the first token.
            repeats.block(scores, torch.cat([last[..., None], all_tokens], dim=-1), room)
        if valid is not None:
            valid.block(scores, last[..., None], room)
        last = draw(scores, options, chance.next()) if options.sample else scores.argmax(dim=-1)  # (1,1)
        token = int(last)
        log_probability = float(scores[0, 0, token])
        if log_probability == -torch.inf:
            return  # every token is banned
        if valid is not None:
            valid.follow(None, last)
        yield WrittenToken(token, log_probability, slid)
        if token in ends:
            return
        all_tokens = torch.cat([all_tokens, last[..., None]], dim=-1)
        read.append(token)
        slid = False


def _fitting(prompt: list[int], start: int, options: DecodingOptions, context: int | None) -> list[int]:
    """Return the end of a prompt that fits into the context after ``start`` tokens.

    Raises ArgumentError if there is nothing to start from, or if the options are those of a search.
    """
    if not options.sample and options.beams != 1:
        raise ArgumentError("beams", f"expected 1 to write token by token, got {options.beams}")
    if not start and not prompt:
        raise ArgumentError("prompt", "there is no token to start from", "give a prompt")
    if context is None:
        return prompt
    whole_number("context", context, least=start + 2)
    return prompt[-(context - start) :]
