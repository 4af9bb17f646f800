"""Plain searches to compare with, by enumeration and by beam search on lists, and a model that is a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from regard.decoding import DecodingOptions, Hypothesis

PAD, BOS, EOS = 0, 1, 2
BANNED = (PAD, BOS)
KEYS = {"bos": BOS, "eos": EOS, "banned": BANNED}


@dataclass
class ToyState:
    """All that was read, for each hypothesis, and which sentence it belongs to."""

    histories: list[list[int]]
    sentences: list[int]
    kept: int = 0
    reordered: int = 0

    def reorder(self, rows):
        self.histories = [list(self.histories[row]) for row in rows.tolist()]
        self.sentences = [self.sentences[row] for row in rows.tolist()]
        self.reordered += 1

    def keep(self, sentences, hypotheses):
        rows = [s * hypotheses + w for s in sentences.tolist() for w in range(hypotheses)]
        self.reorder(torch.tensor(rows, dtype=torch.int64))
        self.kept += 1


class Toy:
    """The next token's scores depend on the sentence and on everything written so far, through a table."""

    def __init__(
        self, size: int = 5, seed: int = 0, never: float = 0.0, sentences: int = 1, sharp: float = 2.0
    ):
        torch.manual_seed(seed)
        self.table = torch.randn(997, size, dtype=torch.float64) * sharp
        self.table[torch.rand(997, size) < never] = -torch.inf
        self.table[:, 0] = 0.0  # so that no row is all minus infinity
        self.count, self.states = sentences, []

    def scores(self, sentence: int, history: list[int]) -> torch.Tensor:
        place = sentence * 31
        for token in history:
            place = place * 7 + token + 1
        return self.table[place % 997]

    def start(self, memory):
        names = list(range(self.count)) if memory is None else memory.names
        self.states.append(ToyState([[] for _ in names], list(names)))
        return self.states[-1]

    def step(self, tokens, state, *, records=None):
        flat = tokens.flatten().tolist()
        if len(flat) != len(state.histories):
            state.reorder(torch.arange(len(tokens)).repeat_interleave(tokens.shape[1]))
        for history, token in zip(state.histories, flat, strict=True):
            history.append(token)
        rows = [self.scores(*both) for both in zip(state.sentences, state.histories, strict=True)]
        return torch.stack(rows).view(*tokens.shape, -1)

    def output(self, hidden):
        return hidden


def of_toy(toy: Toy, sentence: int = 0, prompt: tuple[int, ...] = (BOS,)):
    """Return a function that gives the log-probabilities of the next token after some tokens."""
    return lambda written: toy.scores(sentence, [*prompt, *written]).log_softmax(-1).tolist()


def of_model(model, memory, prompt: tuple[int, ...] = (BOS,)):
    """The same from the whole pass of a model, without caches."""

    def following(written):
        tokens = torch.tensor([[*prompt, *written]])
        hidden = model.hidden(tokens) if memory is None else model.decode(memory, tokens)
        return model.output(hidden)[0, -1].log_softmax(-1).tolist()

    return following


def allowed(scores: list[float], written: int, options: DecodingOptions) -> dict[int, float]:
    never = {*BANNED, *([EOS] if written < options.min_length else [])}
    return {token: s for token, s in enumerate(scores) if token not in never and s > -math.inf}


def judged(tokens, score: float, length: int, options: DecodingOptions, ended: bool) -> Hypothesis:
    return Hypothesis(list(tokens), score, score / max(1, length) ** options.length_penalty, ended)


def is_likely(one: Hypothesis, best_open: float) -> bool:
    return one.ended and one.log_probability >= best_open - math.log(1000)


def ranked(found: list[Hypothesis], count: int, best_open: float = -math.inf) -> list[Hypothesis]:
    return sorted(found, key=lambda one: (not is_likely(one, best_open), -one.score))[:count]


def exhaustive(following, limit: int, options: DecodingOptions) -> list[Hypothesis]:
    """Return the best of all possible outputs, where likely ones that ended rank before those that were cut off."""
    found, open_ = [], [((), 0.0)]
    for length in range(1, limit + 1):
        longer = []
        for tokens, score in open_:
            for token, more in allowed(following(tokens), len(tokens), options).items():
                if token == EOS:
                    found.append(judged(tokens, score + more, length, options, True))
                else:
                    longer.append(((*tokens, token), score + more))
        open_ = longer
    found += [judged(tokens, score, limit, options, False) for tokens, score in open_]
    return ranked(found, options.n_best, max((score for _, score in open_), default=-math.inf))


def plain_beam_search(following, limit: int, options: DecodingOptions) -> list[Hypothesis]:
    """One sentence, on lists, as the module's first lines say."""
    w, found, open_ = options.beams, [], [((), 0.0)]
    for length in range(1, limit + 1):
        nexts = [
            (score + more, tokens, token)
            for tokens, score in open_
            for token, more in allowed(following(tokens), len(tokens), options).items()
        ]
        nexts = sorted(nexts, key=lambda one: -one[0])[: 2 * w]
        found += [judged(tokens, s, length, options, True) for s, tokens, token in nexts[:w] if token == EOS]
        before, open_ = open_, [((*tokens, token), s) for s, tokens, token in nexts if token != EOS][:w]
        if not open_ and not found:
            found += [judged(tokens, s, length - 1, options, False) for tokens, s in before[: options.n_best]]
        if len(found) >= w or not open_:
            return ranked(found, options.n_best)
    best_open = open_[0][1]
    missing = options.n_best - sum(is_likely(one, best_open) for one in found)
    found += [judged(tokens, s, limit, options, False) for tokens, s in open_][: max(0, missing)]
    return ranked(found, options.n_best, best_open)


def same(found: list[Hypothesis], expected: list[Hypothesis], rel: float = 1e-9) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.ended for one in found] == [one.ended for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, rel=rel, abs=rel)
        assert one.score == pytest.approx(other.score, rel=rel, abs=rel)


MODELS = {
    "transformer": {"norm": "post", "positions": "alibi"},
    "gru": {"cell": "gru", "attention": "additive"},
    "lstm": {"cell": "lstm", "attention": None},
}
