"""Realisation of meaning trees as French words, with agreement, elision (l', qu') and contraction (au, du).

The words are first written in full (``de le homme``). :func:`spell` then applies elision and contraction in one pass.
The rules of the grammar therefore do not depend on neighbouring words.
"""

from __future__ import annotations

from regard.corpus.french_verbs import agreement, verb_group
from regard.corpus.lexemes import french_plural
from regard.corpus.lexicon.function_words import NUMERALS, PRONOUNS
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

__all__ = ["french", "spell", "starts_with_vowel"]

Word = tuple[str, int, int]  # text, sure units, possible units

_VOWELS = frozenset("aeiouyhàâéèêëîïôùûœAEIOUYHÀÂÉÈÊÎÔŒ")
_ASPIRATED = frozenset(("haut", "haute", "héros", "huit", "onze", "yaourt"))
_ELIDED = {
    "le": "l'",
    "la": "l'",
    "de": "d'",
    "ne": "n'",
    "je": "j'",
    "que": "qu'",
    "me": "m'",
    "te": "t'",
    "se": "s'",
}
# The forms of `ce` for a masculine, a feminine and a plural noun.
_THIS = ("ce", "cette", "ces")
# Determiners without agreement, as words with whether their alignment is sure.
_INVARIABLE = {"many": (("beaucoup", True), ("de", False)), "every": (("chaque", True),)} | {
    name: ((numeral.fr, True),) for name, numeral in NUMERALS.items()
}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


def starts_with_vowel(word: str) -> bool:
    """Return whether a word starts with a vowel or a mute h, which elides the word before."""
    return word[0] in _VOWELS and word not in _ASPIRATED


def spell(words: list[Word]) -> list[Word]:
    """Apply elision and contraction to French words, from left to right.

    >>> [word for word, _, _ in spell([("de", 1, 0), ("le", 2, 0), ("homme", 4, 0), ("à", 8, 0), ("le", 16, 0),
    ...                                ("chat", 32, 0)])]
    ['de', "l'", 'homme', 'au', 'chat']
    """
    out: list[Word] = []
    last = len(words) - 1
    for place, (word, sure, possible) in enumerate(words):
        text = word
        if place < last:
            following = words[place + 1][0]
            if word in _ELIDED and starts_with_vowel(following):
                text = _ELIDED[word]
            elif word == "si" and following in ("il", "ils"):
                text = "s'"
        if text in ("le", "les") and out and (out[-1][0], text) in _CONTRACTED:
            before, before_sure, before_possible = out[-1]
            out[-1] = (_CONTRACTED[before, text], sure | before_sure, possible | before_possible)
            continue
        out.append((text, sure, possible))
    return out


def french(statement: Statement) -> list[Word]:
    """Return the French words of a sentence, without the capital letter."""
    out: list[Word] = []
    _body(out, statement.body)
    out.append((statement.mark, statement.mark_unit, 0))
    return spell(out)


def _body(out: list[Word], body: Clause | Compound) -> None:
    if isinstance(body, Clause):
        _clause(out, body)
        return
    joint = [(word, body.unit, 0) for word in body.connective.fr]
    if body.before:
        out += joint
        _body(out, body.second)
        out.append((",", body.comma_unit, 0))
        _body(out, body.first)
        return
    _body(out, body.first)
    if body.connective.comma:
        out.append((",", body.comma_unit, 0))
    out += joint
    _body(out, body.second)


def _phrase(out: list[Word], phrase: Phrase, article: str = "", *, subject: bool = False) -> None:
    """Append a phrase, with ``article`` as in :func:`_determiner` for nouns without an English article."""
    if isinstance(phrase, Person):
        pronoun = phrase.pronoun
        out.append((pronoun.fr if subject else pronoun.fr_strong, phrase.unit, 0))
    elif isinstance(phrase, Pair):
        _phrase(out, phrase.first, article, subject=subject)
        out.append(("et", phrase.unit, 0))
        _phrase(out, phrase.second, article, subject=subject)
    else:
        _thing(out, phrase, article)


def _thing(out: list[Word], thing: Thing, article: str = "") -> None:
    noun = thing.noun
    start = len(out)
    text = noun.fr_plural if thing.plural else noun.fr
    before: list[Word] = []
    after: list[Word] = []
    for quality in (thing.quality, thing.second):
        if quality is not None:
            _attribute(before if quality.adjective.before else after, quality, thing, text)
    silent = thing.unit_determiner if article == "none" else 0
    out += before
    out.append((text, thing.unit, silent))
    out += after
    if thing.owner is not None:
        out.insert(start, (_article(thing), 0, thing.of_unit | thing.unit))
        out.append(("de", thing.of_unit, 0))
        _phrase(out, thing.owner)
    elif thing.determiner != "none":
        out[start:start] = _determiner(thing, out[start][0], article, bool(before))
    if thing.whole is not None:
        out.append(("de", thing.of_unit, 0))
        _thing(out, thing.whole)
    if thing.relative is not None:
        out.append(("que" if thing.relative.gap else "qui", thing.relative_unit, 0))
        _clause(out, thing.relative)


def _form(quality: Quality, gender: str, plural: bool) -> str:
    return quality.adjective.fr[(gender == "f") + 2 * plural]


def _attribute(out: list[Word], quality: Quality, thing: Thing, noun: str) -> None:
    text = _form(quality, thing.noun.gender, thing.plural)
    adjective = quality.adjective
    if quality.degree is not None:
        out.append((quality.degree.fr, quality.degree_unit, 0))
    elif adjective.fr_vowel and thing.noun.gender == "m" and not thing.plural and starts_with_vowel(noun):
        text = adjective.fr_vowel
    out += [(word, quality.unit, 0) for word in text.split()]


def _article(thing: Thing) -> str:
    if thing.plural:
        return "les"
    return "le" if thing.noun.gender == "m" else "la"


def _determiner(thing: Thing, following: str, article: str, adjective: bool) -> list[Word]:
    """Return the determiner of a noun before the word ``following``.

    ``article`` is the article of nouns that have none in English, ``generic`` (les chiens), ``de`` (pas de chien),
    ``none`` (besoin d'eau) or empty for the partitive (des chiens).
    """
    name, unit = thing.determiner, thing.unit_determiner
    feminine, plural = thing.noun.gender == "f", thing.plural
    number = 2 if plural else int(feminine)
    if name == "the":
        return [(_article(thing), unit, 0)]
    if name == "a":
        return [("de" if article == "de" else "une" if feminine else "un", unit, 0)]
    if name in PRONOUNS:
        # Before a vowel, the masculine form is used (mon amie).
        masculine = number == 1 and starts_with_vowel(following)
        return [(PRONOUNS[name].fr_owner[0 if masculine else number], unit, 0)]
    if name in ("this", "that"):
        vowel = number == 0 and starts_with_vowel(following)
        return [("cet" if vowel else _THIS[number], unit, 0)]
    if name in _INVARIABLE:
        return [(word, unit if sure else 0, 0 if sure else unit) for word, sure in _INVARIABLE[name]]
    if name == "some":
        if plural:
            return [("quelques", unit, 0)]
        return [] if article == "none" else [("de", unit, 0), (_article(thing), unit, 0)]
    return _bare(thing, article, adjective)


def _bare(thing: Thing, article: str, adjective: bool) -> list[Word]:
    """Return the article of a noun that has none in English (les chiens, de l'eau, de petits chiens)."""
    unit = thing.unit
    if article == "none":
        return []
    if article == "generic":
        return [(_article(thing), 0, unit)]
    if article == "de":
        return [("de", 0, unit)]
    if thing.plural:
        return [("de" if adjective else "des", 0, unit)]
    return [("de", 0, unit), (_article(thing), 0, unit)]


_ASKS = {"why": ("pourquoi",), "when": ("quand",), "where": ("où",), "whom": ("qui",), "what": ("que",)}


def _clause(out: list[Word], clause: Clause) -> None:
    if clause.time is not None and clause.time.front:
        _when(out, clause.time)
        out.append((",", 0, 14 * clause.time.unit))
    if clause.ask:
        if clause.ask == "where" and clause.verb.frame == "be" and clause.subject is not None:
            out.append(("où", clause.ask_unit, 0))
            out += verb_group(clause)
            _phrase(out, clause.subject, subject=True)
            return
        question_words = _ASKS.get(clause.ask, ())
        out += [(word, clause.ask_unit, 0) for word in question_words]
        sure = clause.ask_unit if clause.ask == "what" else 0
        out += [("est-ce", sure, clause.helper | clause.mark), ("que", sure, clause.helper | clause.mark)]
    _subject(out, clause)
    out += verb_group(clause)
    _rest(out, clause)


def _subject(out: list[Word], clause: Clause) -> None:
    if clause.kind == "weather":
        out.append(("il", clause.extra, clause.unit))
    elif clause.kind == "there":
        out.append(("il", clause.extra, 0))
    elif clause.kind:
        vowel = starts_with_vowel(verb_group(clause)[0][0])
        out.append(("c'" if vowel else "ce", clause.extra, 0))
    elif clause.tense == "command":
        if clause.polite:
            out += [(word, clause.extra, 0) for word in ("s'", "il", "te", "plaît")]
            out.append((",", 0, clause.extra))
    elif clause.subject is not None:
        _phrase(out, clause.subject, "generic", subject=True)


def _rest(out: list[Word], clause: Clause) -> None:
    """Append the objects, adverbials and the subordinate clause after the verb."""
    if clause.kind == "there" and clause.subject is not None:
        _phrase(out, clause.subject, "de" if clause.negative else "")
    if clause.object is not None:
        _object(out, clause, clause.object)
    if clause.receiver is not None and not isinstance(clause.receiver, Person):
        out.append(("à", clause.extra, clause.unit))
        _phrase(out, clause.receiver)
    if clause.quality is not None:
        _quality(out, clause.quality, clause)
    if clause.goal is not None:
        _place(out, clause.goal)
    if clause.manner is not None:
        out.append((clause.manner.fr, clause.manner_unit, 0))
    if clause.place is not None:
        _place(out, clause.place)
    if clause.time is not None and not clause.time.front:
        _when(out, clause.time)
    if clause.said is not None:
        out.append(("que", clause.said_unit, clause.unit))
        _body(out, clause.said)


def _object(out: list[Word], clause: Clause, phrase: Phrase) -> None:
    verb = clause.verb
    link = verb.fr_link
    if isinstance(phrase, Thing) and phrase.determiner == "role":
        _, plural, gender = agreement(clause)
        text = phrase.noun.roles[gender == "f"]
        out.append((french_plural(text) if plural else text, phrase.unit, phrase.unit_determiner))
        return
    # This pronoun was placed before the verb by `verb_group`.
    if isinstance(phrase, Person) and link in ("", "à"):
        return
    if link:
        out.append((link, clause.unit, 0))
    if link == "de" or "bare" in verb.flags:
        article = "none"
    elif link or "generic" in verb.flags:
        article = "generic"
    elif clause.negative and verb.frame != "be":
        article = "de"
    else:
        article = ""
    _phrase(out, phrase, article)


def _quality(out: list[Word], quality: Quality, clause: Clause) -> None:
    _, plural, gender = agreement(clause)
    text = _form(quality, gender, plural)
    if clause.kind == "weather":
        text = quality.adjective.fr[0]
    if quality.than is not None:
        out.append(("plus", quality.degree_unit, 0))
    elif quality.degree is not None:
        out.append((quality.degree.fr, quality.degree_unit, 0))
    out += [(word, quality.unit, 0) for word in text.split()]
    if quality.than is not None:
        out.append(("que", quality.than_unit, 0))
        _phrase(out, quality.than)


def _place(out: list[Word], place: Place) -> None:
    if place.spot is not None:
        for word, sure, possible in place.spot.fr:
            out.append((word, sure * place.unit, possible * place.unit))
    elif place.preposition is not None and place.phrase is not None:
        out += [(word, place.unit, 0) for word in place.preposition.fr]
        _thing(out, place.phrase)


def _when(out: list[Word], when: When) -> None:
    for word, sure, possible in when.time.fr:
        out.append((word, sure * when.unit, possible * when.unit))
