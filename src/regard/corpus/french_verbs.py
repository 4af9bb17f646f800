"""The French verb group with negation, clitic pronouns, auxiliary and participle."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.corpus.conjugation import conjugate, imperative, participle
from regard.corpus.meaning import Clause, Person

__all__ = ["agreement", "verb_group"]

Word = tuple[str, int, int]

# The order of the parts of each construction.
_ORDERS = {
    # elle ne le voit pas
    "simple": "ne pronouns finite adverbs tail",
    # elle ne l'a pas vu
    "compound": "ne pronouns auxiliary adverbs participle tail",
    # elle ne peut pas le voir
    "modal": "ne modal adverbs pronouns infinitive tail",
    # lève-toi
    "command": "imperative -pronouns tail",
    # ne te lève pas
    "negative command": "ne pronouns imperative adverbs tail",
}
# The French tense of a finite verb for each English one.
_TENSES = {
    "present": "present",
    "now": "present",
    "past": "imperfect",
    "then": "imperfect",
    "future": "future",
}
# The French verb for `be` in "it is cold" and "there is". Elsewhere it is être, or avoir before a noun (avoir faim).
_BE = {"weather": "faire", "there": "avoir"}
_REFLEXIVE = ("me", "te", "se", "nous", "se")
# aide-moi, lève-toi
_AFTER = {"me": "-moi", "te": "-toi"}
# The verbs of participles that stand after être and agree.
_TAILS = {"assis": "asseoir", "allongé": "allonger"}


def agreement(clause: Clause) -> tuple[int, bool, str]:
    """Return the person (1 to 3), whether it is plural, and the gender (m or f) of the subject.

    A command has the second person singular.
    """
    if clause.kind in ("weather", "there"):
        return 3, False, "m"
    if clause.kind:
        return 3, clause.kind in ("these", "those"), "m"
    subject = clause.subject or clause.head
    if subject is None:
        return 2, False, "m"
    return subject.person, subject.plural, subject.gender


class _Group(NamedTuple):
    """A clause with the verb and the agreement of its verb group.

    ``slot`` is the place of the subject in a conjugation table (je, tu, il, nous, ils). ``tail`` are the words after
    the verb (avoir *besoin*).
    """

    clause: Clause
    slot: int
    gender: str
    plural: bool
    infinitive: str
    reflexive: bool
    tail: str


def verb_group(clause: Clause) -> list[Word]:
    """Return the words of the verb group, from `ne` to the last part of the verb."""
    group = _group(clause)
    return [word for part in _ORDERS[_construction(clause)].split() for word in _PARTS[part](group)]


def _group(clause: Clause) -> _Group:
    person, plural, gender = agreement(clause)
    slot = person - 1 if not plural else 3 if person == 1 else 4
    verb = clause.verb
    infinitive, reflexive, tail = verb.fr, verb.reflexive, verb.fr_tail
    if verb.fr_moving and (clause.modal is not None or clause.tense in ("future", "command")):
        _, infinitive, *words = verb.fr_moving.split()
        reflexive, tail = True, " ".join(words)
    if verb.frame == "be":
        infinitive = _BE.get(clause.kind, infinitive)
        if not clause.kind and clause.quality is not None and clause.quality.adjective.avoir:
            infinitive = "avoir"
    return _Group(clause, slot, gender, plural, infinitive, reflexive, tail)


def _construction(clause: Clause) -> str:
    if clause.tense == "command":
        return "negative command" if clause.negative else "command"
    if clause.modal is not None:
        return "modal"
    lasting = clause.verb.state or "posture" in clause.verb.flags
    return "compound" if clause.tense == "perfect" or (clause.tense == "past" and not lasting) else "simple"


def _finite(group: _Group) -> list[Word]:
    clause = group.clause
    return [(conjugate(group.infinitive, _TENSES[clause.tense], group.slot), clause.unit, clause.helper)]


def _modal(group: _Group) -> list[Word]:
    clause, modal = group.clause, group.clause.modal
    assert modal is not None
    tense = "conditional" if modal.en == "should" else _TENSES[clause.tense]
    return [(conjugate(modal.fr, tense, group.slot), clause.modal_unit, clause.helper)]


def _auxiliary(group: _Group) -> list[Word]:
    form = conjugate("être" if _takes_etre(group) else "avoir", "present", group.slot)
    return [(form, group.clause.helper, group.clause.unit)]


def _takes_etre(group: _Group) -> bool:
    return group.reflexive or "être" in group.clause.verb.flags


def _participle(group: _Group) -> list[Word]:
    """Return the participle, which agrees with the subject (with être) or with a preceding object (with avoir)."""
    clause = group.clause
    gender, plural = "m", False
    if _takes_etre(group):
        gender, plural = group.gender, group.plural
    elif clause.verb.fr_link == "":
        ahead = clause.head if clause.gap == "object" else None
        ahead = clause.object if isinstance(clause.object, Person) else ahead
        if ahead is not None:
            gender, plural = ahead.gender, ahead.plural
    return [(participle(group.infinitive, gender, plural), clause.unit, 0)]


def _imperative(group: _Group) -> list[Word]:
    return [(imperative(group.infinitive), group.clause.unit, group.clause.helper)]


def _ne(group: _Group) -> list[Word]:
    return [("ne", group.clause.negative, 0)] if group.clause.negative else []


def _adverbs(group: _Group) -> list[Word]:
    """Return the words directly after the finite verb (pas, jamais, souvent, déjà)."""
    clause = group.clause
    words: list[Word] = []
    if clause.often is not None:
        words.append((clause.often.fr, clause.negative or clause.often_unit, 0))
    elif clause.negative:
        words.append(("pas", clause.negative, 0))
    if clause.tense == "perfect":
        words.append(("déjà", clause.extra, 0))
    return words


def _pronouns(group: _Group) -> list[Word]:
    """Return the object pronouns, which stand before the verb (se, le, lui, y)."""
    clause = group.clause
    words: list[Word] = [(_REFLEXIVE[group.slot], clause.unit, 0)] if group.reflexive else []
    phrase, receiver = clause.object, clause.receiver
    if isinstance(phrase, Person):
        forms = {"": phrase.pronoun.fr_object, "à": phrase.pronoun.fr_to}
        if clause.verb.fr_link in forms:
            words.append((forms[clause.verb.fr_link], phrase.unit, 0))
    if isinstance(receiver, Person):
        words.append((receiver.pronoun.fr_to, receiver.unit, 0 if clause.moved else clause.extra))
    if clause.kind == "there":
        words.append(("y", clause.extra, 0))
    return words


def _hyphenated_pronouns(group: _Group) -> list[Word]:
    """Return the object pronouns after a command (lève-toi)."""
    return [(_AFTER.get(word, "-" + word), sure, possible) for word, sure, possible in _pronouns(group)]


def _infinitive(group: _Group) -> list[Word]:
    return [(group.infinitive, group.clause.unit, 0)]


def _tail(group: _Group) -> list[Word]:
    """Return the words after the verb (besoin, assise)."""
    words = group.tail.split()
    if group.tail in _TAILS:
        words = [participle(_TAILS[group.tail], group.gender, group.plural)]
    return [(word, group.clause.unit, 0) for word in words]


# The words of each part of an order.
_PARTS: dict[str, Callable[[_Group], list[Word]]] = {
    "ne": _ne,
    "pronouns": _pronouns,
    "-pronouns": _hyphenated_pronouns,
    "finite": _finite,
    "auxiliary": _auxiliary,
    "modal": _modal,
    "imperative": _imperative,
    "adverbs": _adverbs,
    "infinitive": _infinitive,
    "participle": _participle,
    "tail": _tail,
}
