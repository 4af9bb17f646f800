"""Questions about generated English sentences, with the words that answer them.

>>> passage = next(passages(1, seed=3))
>>> passage.question, passage.answer
('What does Lucy use?', 'the television that Jack will not use')
>>> passage.context[passage.start :].startswith(passage.answer)
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from regard.corpus.english import Word, english, phrase_words, place_words, time_words
from regard.corpus.lexicon.function_words import PRONOUNS
from regard.corpus.meaning import Clause, Person, Statement, Thing
from regard.corpus.sentences import Sentence, write_english
from regard.corpus.statements import StatementMaker
from regard.errors import UnknownNameError

__all__ = ["Passage", "is_plain", "passages", "questions_about"]

# The least and the most sentences of a context.
SENTENCES = (3, 6)
# Of ten sentences, the numbers that are asked about in each split.
_SHARES = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}


class Passage(NamedTuple):
    """A context of some sentences, a question about one of them, and the words of the context that answer it."""

    context: str
    question: str
    answer: str
    # The first character of the answer in the context.
    start: int


def passages(count: int, *, split: str = "train", seed: int = 0) -> Iterator[Passage]:
    """Yield ``count`` questions about contexts of three to six generated sentences.

    The sentences of a context have different verbs, so that one of them answers the question. A sentence that is asked
    about in one split ("train", "valid" or "test") is not asked about in another. The same ``split`` and ``seed`` give
    the same passages. An unknown split raises UnknownNameError.
    """
    if split not in _SHARES:
        raise UnknownNameError("split", split, _SHARES)
    return _stream(count, split, seed)


def _stream(count: int, split: str, seed: int) -> Iterator[Passage]:
    chance = Random(f"questions {split} {seed}")
    maker = StatementMaker(Random(f"sentences {split} {seed}"))
    made = 0
    while made < count:
        chosen: dict[str, tuple[Sentence, Clause]] = {}
        size = chance.randint(*SENTENCES)
        while len(chosen) < size:
            statement = maker.statement()
            if is_plain(statement):
                assert isinstance(statement.body, Clause)
                sentence = write_english(english(statement))
                chosen.setdefault(statement.body.verb.en, (sentence, statement.body))
        context = " ".join(sentence.text for sentence, _ in chosen.values())
        asked = [
            (question, sentence.text)
            for sentence, clause in chosen.values()
            if _share_of(sentence.text) in _SHARES[split]
            for question in questions_about(sentence, clause)
        ]
        if asked:
            (question, start, end), text = chance.choice(asked)
            yield Passage(context, question, text[start:end], context.index(text) + start)
            made += 1


def _share_of(text: str) -> int:
    return blake2b(text.encode(), digest_size=8).digest()[0] % 10


def questions_about(sentence: Sentence, clause: Clause) -> list[tuple[str, int, int]]:
    """Return questions about a sentence and its clause, each as (question, start, end).

    ``text[start:end]`` of the sentence is the answer. The questions are those with who, what, where and when that one
    part of the clause answers, if its words stand together once in the sentence.
    """
    clause = replace(clause, short=False)
    if clause.time is not None:
        clause.time = replace(clause.time, front=False)
    asked: list[tuple[Clause, list[Word]]] = []
    subject, thing, place = clause.subject, clause.object, clause.goal or clause.place
    if isinstance(subject, Thing) and subject.noun.human:
        who = Person(PRONOUNS["who"], subject.unit)
        asked.append((replace(clause, subject=who), phrase_words(subject, True)))
    if isinstance(thing, Thing):
        ask = "whom" if thing.noun.human else "what"
        asked.append((replace(clause, object=None, ask=ask), phrase_words(thing)))
    if place is not None:
        moved = replace(clause, goal=None, place=None, ask="where")
        asked.append((moved, place_words(place, clause.goal is not None)))
    if clause.time is not None:
        asked.append((replace(clause, time=None, ask="when"), time_words(clause.time)))
    found = []
    for question, words in asked:
        span = _span_of(sentence, [word for word, _, _ in words])
        if span is not None:
            found.append((write_english(english(Statement(question, "?", 0))).text, *span))
    return found


def is_plain(statement: Statement) -> bool:
    """Return whether a sentence is a statement of one clause that questions can be asked about."""
    clause = statement.body
    if statement.mark != "." or not isinstance(clause, Clause):
        return False
    unusual = clause.kind or clause.negative or clause.often or clause.said or clause.receiver
    return not unusual and clause.tense not in ("command", "perfect") and clause.subject is not None


def _span_of(sentence: Sentence, words: list[str]) -> tuple[int, int] | None:
    """Return the characters of some words that stand together once in a sentence, or None."""
    lowered = [word.lower() for word in sentence.words]
    wanted = [word.lower() for word in words]
    size = len(wanted)
    places = [at for at in range(len(lowered) - size + 1) if lowered[at : at + size] == wanted]
    if len(places) != 1 or not size:
        return None
    spans = sentence.spans[places[0] : places[0] + size]
    return spans[0][0], spans[-1][1]
