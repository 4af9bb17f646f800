"""Constraints on the next token that depend on the tokens of a hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.options import DecodingOptions
from regard.decoding.utf8 import COMPLETE, Utf8Table, utf8_table
from regard.errors import ArgumentError

__all__ = ["Constraint", "NoRepeats", "ValidText", "make_constraints", "valid_text"]


class Constraint(Protocol):
    """A rule that forbids tokens, for w hypotheses of each of n sentences."""

    def block(self, scores: Tensor, tokens: Tensor, room: Tensor) -> None:
        """Set the scores ``(n,w,v)`` of forbidden next tokens to -inf, in place.

        ``tokens (n,w,1+t)`` are those of the hypotheses, of which the first is not generated. ``room (n,)`` is the
        number of tokens that may follow the next one.
        """
        ...

    def follow(self, rows: Tensor | None, tokens: Tensor) -> None:
        """Continue hypotheses with ``tokens (n,w)``.

        ``rows (n,w)`` are indices of the old hypotheses of all sentences. With None each continues itself.
        """
        ...

    def keep(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices."""
        ...

    def shortened(self, tokens: list[int], sentence: int) -> list[int]:
        """Return the tokens of a hypothesis that was cut off, without those at its end that may not be there.

        ``sentence`` is the index of its sentence among those that are kept.
        """
        ...


class ValidText:
    """The rule that the text of a byte-level vocabulary is valid UTF-8, also at its end.

    ``states (n,w)`` are those of the table at the start.
    """

    def __init__(self, table: Utf8Table, states: Tensor):
        device = states.device
        self.table, self.states = table, states
        self.starts_whole = bool((states == COMPLETE).all())
        self.following, self.blocked = table.following.to(device), table.blocked.to(device)
        self.never_first = table.never_first.to(device)

    def block(self, scores: Tensor, tokens: Tensor, room: Tensor) -> None:
        """Forbid bytes that do not continue or begin a character, and characters that do not fit into the room."""
        if scores.shape[-1] != self.blocked.shape[-1]:
            problem = f"the bytes of {self.blocked.shape[-1]} tokens, but the model has {scores.shape[-1]}"
            raise ArgumentError("token_bytes", problem)
        states = self.states.expand(scores.shape[:2])  # (n,w), from one hypothesis in the first step
        most = len(self.blocked) - 1
        room = room.clamp(0, most)[:, None].expand(states.shape)  # (n,w)
        # Most hypotheses end with a whole character. A few columns are set in all, and the others are done one by one.
        special = (states != COMPLETE) | (room < most)  # (n,w)
        own = scores[special].masked_fill_(self.blocked[room[special], states[special]], -torch.inf)
        scores[..., self.never_first] = -torch.inf
        scores[special] = own

    def follow(self, rows: Tensor | None, tokens: Tensor) -> None:
        """Update the states of the hypotheses."""
        states = self.states.expand(tokens.shape) if rows is None else self.states.flatten()[rows]
        self.states = self.following[states, tokens]  # (n,w)

    def keep(self, sentences: Tensor) -> None:
        """Keep the states of some sentences."""
        self.states = self.states[sentences]

    def shortened(self, tokens: list[int], sentence: int) -> list[int]:
        """Return the tokens up to the last whole character, or all if a prompt ends inside a character."""
        return self.table.complete(tokens) if self.starts_whole else tokens


class NoRepeats:
    """The rule that no sequence of ``size`` tokens is generated too often.

    ``most (n,)`` is the number of times that any sequence may occur in the hypotheses of each sentence. Sequences of
    ``prompt (n,p)`` count as well.
    """

    def __init__(self, size: int, most: Tensor, prompt: Tensor | None = None):
        self.size, self.most = size, most
        self.prompt = most.new_zeros(len(most), 0) if prompt is None else prompt

    def block(self, scores: Tensor, tokens: Tensor, room: Tensor) -> None:
        """Forbid tokens that would repeat a sequence once more than allowed."""
        prompt = self.prompt[:, None].expand(*tokens.shape[:2], -1)  # (n,w,p)
        written = torch.cat([prompt, tokens[..., 1:]], dim=-1)  # (n,w,t) with the prompt
        if written.shape[-1] < self.size:
            return
        sequences = written.unfold(-1, self.size, 1)  # (n,w,t-size+1,size)
        last = written[..., written.shape[-1] - self.size + 1 :]  # (n,w,size-1)
        same = (sequences[..., :-1] == last[..., None, :]).all(dim=-1)  # (n,w,t-size+1)
        most = self.most.tolist()
        for n, w in same.any(dim=-1).nonzero().tolist():
            counts = Counter(sequences[n, w, same[n, w], -1].tolist())
            scores[n, w, [token for token, count in counts.items() if count >= most[n]]] = -torch.inf

    def follow(self, rows: Tensor | None, tokens: Tensor) -> None:
        """Do nothing, because the tokens are given."""

    def keep(self, sentences: Tensor) -> None:
        """Keep the limits and the prompts of some sentences."""
        self.most, self.prompt = self.most[sentences], self.prompt[sentences]

    def shortened(self, tokens: list[int], sentence: int) -> list[int]:
        """Return the tokens unchanged."""
        return tokens


def valid_text(
    first: Tensor, token_bytes: Sequence[bytes] | None, *, ends: Sequence[int], banned: Sequence[int]
) -> ValidText | None:
    """Return the rule for texts that start with the tokens ``first (n,p)``, or None if tokens are not bytes.

    ``ends`` are the tokens that end a text, and ``banned`` those that are never generated.
    """
    if token_bytes is None:
        return None
    table = utf8_table(tuple(token_bytes), ends=tuple(ends), banned=tuple(banned))
    return ValidText(table, table.after(first)[:, None])


def make_constraints(
    options: DecodingOptions,
    first: Tensor,  # (n,p), the prompts, or the token before the first
    *,
    eos: int,
    banned: tuple[int, ...],
    token_bytes: Sequence[bytes] | None,
    sources: Sequence[Sequence[int]] | None,
    prompted: bool = False,
) -> list[Constraint]:
    """Return the constraints for n sentences, given the bytes of each token and the tokens of the sources, if known.

    ``prompted`` says that the first tokens are prompts. The repetition penalty is not among the constraints.
    """
    valid = valid_text(first, token_bytes, ends=(eos,), banned=banned)
    constraints: list[Constraint] = [] if valid is None else [valid]
    size = options.repeat_size(has_sources=sources is not None)
    if sources is not None and len(sources) != len(first):
        raise ArgumentError("sources", f"expected one for each of {len(first)} sentences, got {len(sources)}")
    if size:
        most = [1] * len(first) if sources is None else [_most_repeats(source, size) for source in sources]
        prompt = first if prompted else None
        constraints.append(NoRepeats(size, torch.tensor(most, device=first.device), prompt))
    return constraints


def _most_repeats(tokens: Sequence[int], size: int) -> int:
    """Return how often the most frequent sequence of ``size`` tokens occurs, and at least 1.

    >>> _most_repeats([5, 6, 5, 6, 5, 6], 2), _most_repeats([5, 6], 3)
    (3, 1)
    """
    counts = Counter(zip(*(tokens[start:] for start in range(size)), strict=False))
    return max(counts.values(), default=1)
