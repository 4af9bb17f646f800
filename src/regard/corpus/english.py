"""Realisation of meaning trees as English words, each marked with the units it expresses."""

from __future__ import annotations

from functools import cache

from regard.corpus.lexemes import Verb
from regard.corpus.lexicon.function_words import PRONOUNS
from regard.corpus.meaning import (
    Clause,
    Compound,
    Pair,
    Person,
    Phrase,
    Place,
    Quality,
    Statement,
    Thing,
    When,
)

__all__ = ["Word", "english", "phrase_words", "place_words", "time_words"]

Word = tuple[str, int, int]  # text, sure units, possible units

_DOUBLED = {"run", "swim", "sit", "get", "stop", "forget", "plan"}
_SHORT = {"am": "'m", "is": "'s", "are": "'re", "will": "'ll"}
_AN = "aeiouAEIOU"


@cache
def third(verb: str) -> str:
    """Return the third person singular of an English verb.

    >>> third("go"), third("cry"), third("have"), third("play")
    ('goes', 'cries', 'has', 'plays')
    """
    if verb == "have":
        return "has"
    if verb.endswith(("s", "x", "ch", "sh", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


@cache
def ing(verb: str) -> str:
    """Return the -ing form of an English verb.

    >>> ing("lie"), ing("sit"), ing("dance"), ing("see")
    ('lying', 'sitting', 'dancing', 'seeing')
    """
    if verb == "lie":
        return "lying"
    if verb in _DOUBLED:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + "ing"


def english(statement: Statement) -> list[Word]:
    """Return the English words of a sentence, without the capital letter."""
    out: list[Word] = []
    _body(out, statement.body)
    out.append((statement.mark, statement.mark_unit, 0))
    return out


def phrase_words(phrase: Phrase, subject: bool = False) -> list[Word]:
    """Return the English words of a noun phrase, whose pronouns are in the object form unless ``subject`` is True."""
    out: list[Word] = []
    _phrase(out, phrase, subject)
    return out


def place_words(place: Place, goal: bool = False) -> list[Word]:
    """Return the English words of a place, to which something moves if ``goal`` is True (home, not at home)."""
    out: list[Word] = []
    _place(out, place, goal)
    return out


def time_words(when: When) -> list[Word]:
    """Return the English words of a time."""
    out: list[Word] = []
    _when(out, when)
    return out


def _body(out: list[Word], body: Clause | Compound) -> None:
    if isinstance(body, Clause):
        _clause(out, body)
        return
    word = body.connective
    if body.before:
        out.append((word.en, body.unit, 0))
        _body(out, body.second)
        out.append((",", body.comma_unit, 0))
        _body(out, body.first)
        return
    _body(out, body.first)
    if word.comma:
        out.append((",", body.comma_unit, 0))
    out.append((word.en, body.unit, 0))
    _body(out, body.second)


def _phrase(out: list[Word], phrase: Phrase, subject: bool = False) -> None:
    if isinstance(phrase, Person):
        pronoun = phrase.pronoun
        out.append((pronoun.en if subject else pronoun.en_object, phrase.unit, 0))
    elif isinstance(phrase, Pair):
        _phrase(out, phrase.first, subject)
        out.append(("and", phrase.unit, 0))
        _phrase(out, phrase.second, subject)
    else:
        _thing(out, phrase)


def _thing(out: list[Word], thing: Thing) -> None:
    if thing.owner is not None:
        _phrase(out, thing.owner)
        out.append(("'s", thing.of_unit, 0))
    start = len(out)
    for quality in (thing.quality, thing.second):
        if quality is not None:
            if quality.degree is not None:
                out.append((quality.degree.en, quality.degree_unit, 0))
            out.append((quality.adjective.en, quality.unit, 0))
    noun = thing.noun
    out.append((noun.en_plural if thing.plural else noun.en, thing.unit, 0))
    if thing.owner is None:
        determiner = _determiner(thing, out[start][0])
        if determiner:
            out.insert(start, (determiner, thing.unit_determiner, 0))
    if thing.whole is not None:
        out.append(("of", thing.of_unit, 0))
        _thing(out, thing.whole)
    if thing.relative is not None:
        word = "who" if noun.human and not thing.relative.gap else "that"
        out.append((word, thing.relative_unit, 0))
        _clause(out, thing.relative)


def _determiner(thing: Thing, following: str) -> str:
    name = thing.determiner
    if name in PRONOUNS:
        return PRONOUNS[name].en_owner
    if name in ("a", "role"):
        if thing.plural:
            return ""
        return "an" if following[0] in _AN and following not in ("university", "useful") else "a"
    if name in ("bare", "none"):
        return ""
    if thing.plural:
        return {"this": "these", "that": "those"}.get(name, name)
    return name


def _subject(clause: Clause) -> list[Word]:
    out: list[Word] = []
    if clause.kind == "weather":
        out.append(("it", clause.extra, clause.unit))
    elif clause.kind == "there":
        out.append(("there", clause.extra, 0))
    elif clause.kind:
        out.append((clause.kind, clause.extra, 0))
    elif clause.subject is not None:
        _phrase(out, clause.subject, True)
    return out


def _agreement(clause: Clause) -> tuple[int, bool]:
    if clause.kind == "weather":
        return 3, False
    if clause.kind in ("this", "that", "these", "those"):
        return 3, clause.kind in ("these", "those")
    subject = clause.subject or clause.head
    return (subject.person, subject.plural) if subject is not None else (2, False)


def _be(tense: str, person: int, plural: bool) -> str:
    if tense in ("past", "then"):
        return "were" if plural or person == 2 else "was"
    if plural or person == 2:
        return "are"
    return "am" if person == 1 else "is"


def _finite(verb: Verb, tense: str, single: bool) -> str:
    if tense == "past":
        return verb.en_past
    return third(verb.en) if single else verb.en


def _helper(clause: Clause, person: int, plural: bool, inverted: bool) -> tuple[Word | None, list[Word]]:
    """Return the first auxiliary (or None) and the verb words after it.

    ``inverted`` says that the auxiliary precedes the subject, so a clause without one gets `do`.
    """
    verb, tense, unit = clause.verb, clause.tense, clause.unit
    single = person == 3 and not plural
    do = inverted or (clause.negative and clause.often is None)
    main: list[Word] = [(verb.en, unit, 0)]
    modal = clause.modal
    if modal is not None:
        if modal.en == "going":
            going = [("going", clause.modal_unit, 0), ("to", 0, clause.modal_unit)]
            return (_be(tense, person, plural), clause.helper, clause.modal_unit), going + main
        if not modal.to:
            return (modal.en_past if tense == "past" else modal.en, clause.modal_unit, 0), main
        to: list[Word] = [("to", 0, clause.modal_unit)]
        if do:
            return _do(clause, single), [(modal.en, clause.modal_unit, 0), *to, *main]
        form = modal.en_past if tense == "past" else modal.en + "s" * single
        return None, [(form, clause.modal_unit, clause.helper), *to, *main]
    if verb.frame == "be":
        if tense == "future":
            return ("will", clause.helper, 0), main
        return (_be(tense, person, plural), unit, 0), []
    if tense == "future":
        return ("will", clause.helper, 0), main
    if tense in ("now", "then"):
        return (_be(tense, person, plural), clause.helper, 0), [(ing(verb.en), unit, 0)]
    if tense == "perfect":
        already: Word = ("already", clause.extra, 0)
        return ("has" if single else "have", clause.helper, 0), [already, (verb.en_participle, unit, 0)]
    if do:
        return _do(clause, single), main
    return None, [(_finite(verb, tense, single), unit, clause.helper)]


def _do(clause: Clause, single: bool) -> Word:
    if clause.tense == "past":
        return "did", clause.helper, 0
    return "does" if single else "do", clause.helper, 0


def _negate(clause: Clause, helper: Word, main: list[Word]) -> tuple[Word, list[Word]]:
    text, sure, possible = helper
    negative = clause.negative
    if clause.short and text != "am":
        text = {"will": "won't", "can": "can't"}.get(text, text + "n't")
        if text.startswith(("do", "did")):
            return (text, negative, sure | clause.unit), main
        return (text, sure | negative, possible), main
    if text == "can":
        return ("cannot", sure | negative, possible), main
    return helper, [("not", negative, 0), *main]


def _clause(out: list[Word], clause: Clause) -> None:
    if clause.time is not None and clause.time.front:
        _when(out, clause.time)
    if clause.tense == "command":
        _command(out, clause)
        return
    inverted = bool(clause.ask)
    person, plural = _agreement(clause)
    helper, main = _helper(clause, person, plural, inverted)
    if clause.often is not None:
        unit = clause.negative or clause.often_unit
        main = [(clause.often.en, unit, 0), *main]
    elif clause.negative and helper is not None:
        helper, main = _negate(clause, helper, main)
    subject = _subject(clause)
    if clause.ask and clause.ask != "yes":
        out.append(({"whom": "who"}.get(clause.ask, clause.ask), clause.ask_unit, 0))
    if inverted and helper is not None:
        out.append(helper)
        out += subject
    else:
        out += _joined(clause, subject, helper)
    out += main
    _rest(out, clause)


def _joined(clause: Clause, subject: list[Word], helper: Word | None) -> list[Word]:
    """Join subject and auxiliary, contracted in I'm and she'll."""
    if helper is None:
        return subject
    pronoun = clause.kind in ("weather", "there") or isinstance(clause.subject, Person)
    if clause.short and pronoun and helper[0] in _SHORT:
        text, sure, possible = subject[0]
        # "there're" is not written.
        if text == "who" or (text == "there" and helper[0] == "are"):
            return [*subject, helper]
        return [(text + _SHORT[helper[0]], sure | helper[1], possible | helper[2])]
    return [*subject, helper]


def _command(out: list[Word], clause: Clause) -> None:
    if clause.polite:
        out.append(("please", clause.extra, 0))
    if clause.negative:
        if clause.short:
            out.append(("don't", clause.negative, clause.helper))
        else:
            out += [("do", clause.helper, clause.negative), ("not", clause.negative, 0)]
    out.append((clause.verb.en, clause.unit, clause.helper))
    _rest(out, clause)


def _rest(out: list[Word], clause: Clause) -> None:
    """Append the objects, adverbials and the subordinate clause after the verb."""
    if clause.verb.particle:
        out.append((clause.verb.particle, clause.unit, 0))
    if clause.kind == "there" and clause.subject is not None:
        _phrase(out, clause.subject)
    if clause.receiver is not None and clause.moved:
        _phrase(out, clause.receiver)
    if clause.object is not None:
        _phrase(out, clause.object)
    if clause.receiver is not None and not clause.moved:
        out.append(("to", clause.extra, 0))
        _phrase(out, clause.receiver)
    if clause.quality is not None:
        _quality(out, clause.quality)
    if clause.goal is not None:
        _place(out, clause.goal, True)
    if clause.manner is not None:
        out.append((clause.manner.en, clause.manner_unit, 0))
    if clause.place is not None:
        _place(out, clause.place)
    if clause.time is not None and not clause.time.front:
        _when(out, clause.time)
    if clause.said is not None:
        if clause.that:
            out.append(("that", clause.said_unit, 0))
        _body(out, clause.said)


def _quality(out: list[Word], quality: Quality) -> None:
    adjective = quality.adjective
    if quality.than is not None:
        if adjective.en_more:
            out.append((adjective.en_more, quality.unit | quality.degree_unit, 0))
        else:
            out += [("more", quality.degree_unit, 0), (adjective.en, quality.unit, 0)]
        out.append(("than", quality.than_unit, 0))
        _phrase(out, quality.than)
        return
    if quality.degree is not None:
        out.append((quality.degree.en, quality.degree_unit, 0))
    out.append((adjective.en, quality.unit, 0))


def _place(out: list[Word], place: Place, goal: bool = False) -> None:
    if place.spot is not None:
        for word, sure, possible in place.spot.en_to if goal else place.spot.en:
            out.append((word, sure * place.unit, possible * place.unit))
    elif place.preposition is not None and place.phrase is not None:
        out += [(word, place.unit, 0) for word in place.preposition.en]
        _thing(out, place.phrase)


def _when(out: list[Word], when: When) -> None:
    for word, sure, possible in when.time.en:
        out.append((word, sure * when.unit, possible * when.unit))
