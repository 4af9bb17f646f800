"""The French verb group with negation, clitic pronouns, auxiliary and participle."""

from __future__ import annotations

from regard.corpus.conjugation import conjugate, imperative, participle
from regard.corpus.meaning import Clause, Person

__all__ = ["agreement", "verb_group"]

Word = tuple[str, int, int]

_REFLEXIVE = ("me", "te", "se", "nous", "se")
_AFTER = {"me": "-moi", "te": "-toi"}  # aide-moi, lève-toi
_TAILS = {"assis": "asseoir", "allongé": "allonger"}  # participles that stand after être and agree


def agreement(clause: Clause) -> tuple[int, bool, str]:
    """Return person, plural and gender of the subject."""
    if clause.kind in ("weather", "there"):
        return 3, False, "m"
    if clause.kind:
        return 3, clause.kind in ("these", "those"), "m"
    subject = clause.subject or clause.head
    if subject is None:
        return 2, False, "m"
    return subject.person, subject.plural, subject.gender


def verb_group(clause: Clause) -> list[Word]:
    """Return the words of the verb group, from `ne` to the last part of the verb."""
    person, plural, gender = agreement(clause)
    slot = person - 1 if not plural else 3 if person == 1 else 4  # je tu il nous ils
    verb, unit = clause.verb, clause.unit
    infinitive, reflexive, tail = verb.fr, verb.reflexive, verb.fr_tail
    if verb.fr_moving and (clause.modal is not None or clause.tense in ("future", "command")):
        parts = verb.fr_moving.split()
        reflexive, infinitive, tail = True, parts[1], " ".join(parts[2:])
    if clause.kind == "there":
        infinitive = "avoir"
    if clause.kind == "weather" and verb.frame == "be":
        infinitive = "faire"
    elif clause.quality is not None and clause.quality.adjective.avoir:
        infinitive = "avoir"
    before: list[Word] = [(_REFLEXIVE[slot], unit, 0)] if reflexive else []
    before += _clitics(clause)
    if clause.kind == "there":
        before.append(("y", clause.extra, 0))
    ending = [(word, unit, 0) for word in _tail(tail, gender, plural)]
    if clause.tense == "command":
        return _command(clause, infinitive, before) + ending
    not_before: list[Word] = [("ne", clause.negative, 0)] if clause.negative else []
    not_after = _not_after(clause)
    if clause.modal is not None:
        form = conjugate(clause.modal.fr, _modal_tense(clause), slot)
        finite: Word = (form, clause.modal_unit, clause.helper)
        return [*not_before, finite, *not_after, *before, (infinitive, unit, 0), *ending]
    if clause.tense == "perfect" or (clause.tense == "past" and not (verb.state or "posture" in verb.flags)):
        auxiliary = "être" if reflexive or "être" in verb.flags else "avoir"
        helper: Word = (conjugate(auxiliary, "present", slot), clause.helper, unit)
        form = _participle(clause, infinitive, auxiliary, gender, plural)
        return [*not_before, *before, helper, *not_after, (form, unit, 0), *ending]
    tense = {"now": "present", "then": "imperfect", "past": "imperfect"}.get(clause.tense, clause.tense)
    return [
        *not_before,
        *before,
        (conjugate(infinitive, tense, slot), unit, clause.helper),
        *not_after,
        *ending,
    ]


def _modal_tense(clause: Clause) -> str:
    if clause.modal is not None and clause.modal.en == "should":
        return "conditional"
    return "imperfect" if clause.tense == "past" else "present"


def _not_after(clause: Clause) -> list[Word]:
    """Return the words directly after the finite verb (pas, jamais, souvent, déjà)."""
    words: list[Word] = []
    if clause.often is not None:
        words.append((clause.often.fr, clause.negative or clause.often_unit, 0))
    elif clause.negative:
        words.append(("pas", clause.negative, 0))
    if clause.tense == "perfect":
        words.append(("déjà", clause.extra, 0))
    return words


def _clitics(clause: Clause) -> list[Word]:
    words: list[Word] = []
    phrase, receiver = clause.object, clause.receiver
    if isinstance(phrase, Person):
        if clause.verb.fr_link == "":
            words.append((phrase.pronoun.fr_object, phrase.unit, 0))
        elif clause.verb.fr_link == "à":
            words.append((phrase.pronoun.fr_to, phrase.unit, 0))
    if isinstance(receiver, Person):
        possible = 0 if clause.moved else clause.extra
        words.append((receiver.pronoun.fr_to, receiver.unit, possible))
    return words


def _tail(tail: str, gender: str, plural: bool) -> list[str]:
    if tail in _TAILS:
        return [participle(_TAILS[tail], gender, plural)]
    return tail.split()


def _participle(clause: Clause, infinitive: str, auxiliary: str, gender: str, plural: bool) -> str:
    """Return the participle, which agrees with the subject (with être) or with a preceding object (with avoir)."""
    if auxiliary == "être":
        return participle(infinitive, gender, plural)
    ahead = None
    if clause.verb.fr_link == "":
        if isinstance(clause.object, Person):
            ahead = clause.object
        elif clause.gap == "object":
            ahead = clause.head
    return (
        participle(infinitive, ahead.gender, ahead.plural)
        if ahead is not None
        else participle(infinitive, "m", False)
    )


def _command(clause: Clause, infinitive: str, before: list[Word]) -> list[Word]:
    form: Word = (imperative(infinitive), clause.unit, clause.helper)
    if clause.negative:
        return [("ne", clause.negative, 0), *before, form, ("pas", clause.negative, 0)]
    return [form, *((_AFTER.get(word, "-" + word), sure, possible) for word, sure, possible in before)]
