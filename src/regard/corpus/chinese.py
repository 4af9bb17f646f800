"""Realisation of meaning trees as Chinese words, each marked with the units it expresses."""

from __future__ import annotations

from dataclasses import replace

from regard.corpus.chinese_adjectives import adjective_words, copula_negation
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

__all__ = ["chinese"]

Word = tuple[str, int, int]  # text, sure units, possible units

_MARKS = {".": "。", "?": "？", "!": "！"}
_DEFINITE = frozenset(("the", "owner"))
# Determiners that take no measure word, by English determiner and plural.
_WITHOUT_MEASURE = {
    ("many", False): "很多",
    ("many", True): "很多",
    ("some", False): "一些",
    ("some", True): "一些",
    ("this", True): "这些",
    ("that", True): "那些",
}
# Determiners before a measure word.
_BEFORE_MEASURE = {"this": "这", "that": "那", "a": "一", "every": "每"} | {
    name: numeral.zh for name, numeral in NUMERALS.items()
}


def chinese(statement: Statement) -> list[Word]:
    """Return the Chinese words of a sentence."""
    out: list[Word] = []
    _body(out, statement.body)
    body = statement.body
    if isinstance(body, Clause) and body.ask == "yes":
        out.append(("吗", 0, body.helper | body.mark))
    out.append((_MARKS[statement.mark], statement.mark_unit, 0))
    return out


def _body(out: list[Word], body: Clause | Compound) -> None:
    if isinstance(body, Clause):
        _clause(out, body)
        return
    word = body.connective
    comma: Word = ("，", body.comma_unit, 0 if word.comma or body.before else body.unit)
    if word.fronted:
        first, second = _named_first(body)
        out.append((word.zh, body.unit, 0))
        _body(out, second)
        out += [(end, body.unit, 0) for end in word.zh_end]
        out.append(comma)
        _body(out, first)
        return
    _body(out, body.first)
    out += [comma, (word.zh, body.unit, 0)]
    _body(out, body.second)


def _named_first(body: Compound) -> tuple[Clause | Compound, Clause | Compound]:
    """Return the two clauses, with subjects swapped if a pronoun would precede its antecedent (如果莎拉累，她…)."""
    first, second = body.first, body.second
    if (
        body.before
        or isinstance(first, Compound)
        or isinstance(second, Compound)
        or second.stands_for is None
    ):
        return first, second
    return replace(first, subject=second.subject), replace(second, subject=first.subject)


def _phrase(out: list[Word], phrase: Phrase, negative: bool = False) -> None:
    if isinstance(phrase, Person):
        out.append((phrase.pronoun.zh, phrase.unit, 0))
    elif isinstance(phrase, Pair):
        _phrase(out, phrase.first, negative)
        out.append(("和", phrase.unit, 0))
        _phrase(out, phrase.second, negative)
    else:
        _thing(out, phrase, negative)


def _thing(out: list[Word], thing: Thing, negative: bool = False) -> None:
    """Append a noun phrase, without the 一 of an indefinite if ``negative`` (after 不 and 没有)."""
    noun = thing.noun
    if thing.owner is not None:
        _phrase(out, thing.owner)
        out.append(("的", thing.of_unit, 0))
    if thing.whole is not None:
        _thing(out, thing.whole)
        out.append(("的", thing.of_unit, 0))
    spoken = _determiner(out, thing, negative)
    if thing.relative is not None:
        _clause(out, thing.relative)
        out.append(("的", 0, thing.relative_unit))
    qualities = [quality for quality in (thing.quality, thing.second) if quality is not None]
    for quality in sorted(qualities, key=lambda each: each.adjective.style == "bare"):
        _attribute(out, quality)
    text = noun.zh
    if thing.plural and noun.human and (thing.determiner in _DEFINITE or thing.determiner in PRONOUNS):
        text += "们"
    out.append((text, thing.unit, 0 if spoken else thing.unit_determiner))


def _determiner(out: list[Word], thing: Thing, negative: bool) -> bool:
    """Append the determiner and measure word, and return whether there is one."""
    name, unit, either = thing.determiner, thing.unit_determiner, thing.unit_determiner | thing.unit
    if name in PRONOUNS:
        out += [(PRONOUNS[name].zh, unit, 0), ("的", 0, unit)]
        return True
    alone = _WITHOUT_MEASURE.get((name, thing.plural))
    if alone is not None:
        out.append((alone, unit, 0))
        return True
    word = _BEFORE_MEASURE.get(name)
    if word is None or (name == "a" and (negative or thing.plural)):
        return False
    out += [(word, unit, 0), (thing.noun.measure, 0, either)]
    return True


def _attribute(out: list[Word], quality: Quality) -> None:
    adjective = quality.adjective
    if quality.degree is not None:
        out.append((quality.degree.zh, quality.degree_unit, 0))
    out.append((adjective.zh, quality.unit, 0))
    if adjective.style != "bare" or quality.degree is not None:
        out.append(("的", 0, quality.unit))


def _when(out: list[Word], when: When) -> None:
    for word, sure, possible in when.time.zh:
        out.append((word, sure * when.unit, possible * when.unit))


def _place(out: list[Word], place: Place) -> None:
    """Append a place without 在."""
    if place.spot is not None:
        for word, sure, possible in place.spot.zh:
            out.append((word, sure * place.unit, possible * place.unit | place.unit << 2))
    elif place.preposition is not None and place.phrase is not None:
        _thing(out, place.phrase)
        after = place.preposition.zh
        if not after:
            word, sure, possible = out[-1]
            out[-1] = word, sure, possible | place.unit
        else:
            out.append((place.phrase.noun.inside if after == "里" else after, place.unit, 0))


def _at(place: Place, text: str = "在", sure: int = 0, possible: int = 0) -> Word:
    """Return the word 在 (or ``text``) with the units of the place and the given units."""
    if place.spot is None:
        return text, sure | place.unit, possible
    return text, sure | place.unit << 2, possible | place.unit << 1


def _clause(out: list[Word], clause: Clause) -> None:
    time = clause.time
    if time is not None and (time.front or clause.kind in ("there", "weather")):
        _when(out, time)
        time = None
    if clause.kind == "there":
        _there(out, clause)
        return
    if clause.polite:
        out.append(("请", clause.extra, 0))
    if clause.kind == "weather" and clause.quality is not None:
        out.append(("天气", clause.extra, 0))
    elif clause.kind and clause.kind != "weather":
        out.append((_THIS[clause.kind], clause.extra, 0))
    elif clause.subject is not None:
        _phrase(out, clause.subject)
    if time is not None:
        _when(out, time)
    if clause.ask in _ASKED_BEFORE_VERB:
        out.append((_ASKED_BEFORE_VERB[clause.ask], clause.ask_unit, 0))
    subject = clause.subject
    if isinstance(subject, Thing) and subject.determiner == "every":
        out.append(("都", 0, subject.unit_determiner))
    if clause.verb.frame == "be":
        _copula(out, clause)
    else:
        _predicate(out, clause)


_ASKED_BEFORE_VERB = {"why": "为什么", "when": "什么时候"}
_ASKED_AS_OBJECT = {"what": "什么", "whom": "谁"}
_THIS = {"this": "这", "that": "那", "these": "这些", "those": "那些"}


def _there(out: list[Word], clause: Clause) -> None:
    """Append an existential clause (桌子下面有一只猫)."""
    if clause.place is not None:
        _place(out, clause.place)
    if clause.tense == "future":
        if clause.negative:
            out.append(("不", clause.negative, 0))
        out.append(("会", clause.helper, 0))
    elif clause.negative:
        out.append(("没", clause.negative, 0))
    out.append(("有", clause.unit | clause.extra, 0))
    if clause.subject is not None:
        _phrase(out, clause.subject, bool(clause.negative))


def _adverbs(out: list[Word], clause: Clause) -> None:
    """Append adverbs such as 总是 and 已经, and modal verbs and 会 with their negation."""
    if clause.often is not None and not clause.negative:
        out.append((clause.often.zh, clause.often_unit, 0))
    if clause.tense == "perfect":
        out.append(("已经", clause.extra, 0))
    modal = clause.modal
    if modal is not None:
        if clause.negative and modal.zh_not:
            out.append((modal.zh_not, clause.modal_unit | clause.negative, clause.helper))
            return
        if clause.negative:
            out.append(("不", clause.negative, 0))
        out.append((modal.zh, clause.modal_unit, clause.helper))
    elif clause.tense == "future":
        if clause.negative:
            out.append(("不", clause.negative, 0))
        out.append(("会", clause.helper, 0))


def _copula(out: list[Word], clause: Clause) -> None:
    _adverbs(out, clause)
    if clause.quality is not None:
        for part in adjective_words(clause, clause.quality):
            if isinstance(part, tuple):
                out.append(part)
            else:
                _phrase(out, part)
    elif clause.ask == "where":
        out += [("在", 0, clause.unit | clause.ask_unit), ("哪里", clause.ask_unit, 0)]
    elif clause.place is not None:
        out += [*copula_negation(clause), _at(clause.place, possible=clause.unit)]
        _place(out, clause.place)
    elif clause.object is not None:
        out += [*copula_negation(clause), ("是", clause.unit, 0)]
        _phrase(out, clause.object, bool(clause.negative))


def _predicate(out: list[Word], clause: Clause) -> None:
    verb, unit = clause.verb, clause.unit
    _adverbs(out, clause)
    text, fused = verb.zh, 0
    settled = clause.modal is not None or clause.tense == "future"
    if clause.negative and not settled:
        text, fused = _negate(out, clause)
    progressive = _progressive(out, clause)
    if clause.manner is not None:
        out.append((clause.manner.zh, clause.manner_unit, 0))
    if verb.zh_link and (clause.object is not None or clause.receiver is not None):
        out.append((verb.zh_link, 0 if verb.frame == "d" else unit, unit | clause.extra))
        ahead = clause.receiver if verb.frame == "d" else clause.object
        if ahead is not None:
            _phrase(out, ahead)
    # `to` and `that` have no Chinese words.
    silent = clause.said_unit | clause.extra * (verb.frame == "d")
    if not (progressive or settled):
        silent |= clause.helper
    if clause.goal is not None and clause.goal.spot is None:
        silent |= clause.goal.unit
    out.append((text, unit | fused, silent))
    _aspect(out, clause)
    _objects(out, clause)


def _negate(out: list[Word], clause: Clause) -> tuple[str, int]:
    """Append 不, 没有 or 不要, and return the verb with the unit of a negation that is part of the verb.

    The unit is 0 if the negation is a separate word.
    """
    verb, negative = clause.verb, clause.negative
    never = clause.often is not None
    if verb.en == "have":
        out.append(("从来没" if never else "没", negative, clause.helper))
        return verb.zh, 0
    if clause.tense == "command":
        out.append(("不要", negative, clause.helper))
    elif clause.tense == "present" and verb.zh_cannot:
        if never:
            out.append(("从来", negative, 0))
        return verb.zh_cannot, negative
    elif verb.state or clause.tense == "present":
        out.append(("从不" if never else "不", negative, 0))
    else:
        out.append(("没有", negative, clause.helper))
    return verb.zh, 0


def _progressive(out: list[Word], clause: Clause) -> bool:
    """Append 正在 and the place before the verb, and return whether the clause is progressive.

    正在 and the 在 of a place merge to one word.
    """
    verb, place = clause.verb, clause.place
    acting = clause.tense in ("now", "then") and verb.frame != "p" and "steady" not in verb.flags
    where = clause.ask == "where" and verb.frame not in "pg"
    before = place is not None and verb.frame != "p"
    if acting:
        text = "在" if clause.negative or where or clause.ask == "why" else "正在"
        if place is not None:
            out.append(_at(place, text, clause.helper, clause.unit))
        else:
            out.append((text, clause.helper, clause.unit))
    elif before and place is not None:
        out.append(_at(place))
    elif where:
        out.append(("在", 0, clause.ask_unit))
    if where:
        out.append(("哪里", clause.ask_unit, 0))
    if before and place is not None:
        _place(out, place)
    return acting


def _aspect(out: list[Word], clause: Clause) -> None:
    """Append the word after the verb, which is 在 with a posture, 着 with worn clothes, or 了 for completed events."""
    verb = clause.verb
    if verb.frame == "p":
        if clause.place is not None:
            out.append(_at(clause.place, possible=clause.unit))
            _place(out, clause.place)
        elif clause.ask == "where":
            out += [("在", 0, clause.unit | clause.ask_unit), ("哪里", clause.ask_unit, 0)]
    elif clause.negative or clause.modal is not None or verb.state or verb.frame == "c":
        return
    elif "steady" in verb.flags and clause.tense in ("now", "then"):
        out.append(("着", 0, clause.unit | clause.helper))
    elif clause.tense in ("past", "perfect") and clause.head is None and not clause.during:
        out.append(("了", 0, clause.unit | clause.helper))


def _objects(out: list[Word], clause: Clause) -> None:
    verb, negative = clause.verb, bool(clause.negative)
    if verb.frame == "d" and clause.receiver is not None and not verb.zh_link:
        _phrase(out, clause.receiver)
    if clause.object is not None and (verb.frame == "d" or not verb.zh_link):
        _phrase(out, clause.object, negative)
    if clause.ask in _ASKED_AS_OBJECT:
        out.append((_ASKED_AS_OBJECT[clause.ask], clause.ask_unit, 0))
    elif clause.ask == "where" and verb.frame == "g":
        out.append(("哪里", clause.ask_unit, 0))
    if clause.goal is not None:
        _place(out, clause.goal)
    if clause.said is not None:
        _body(out, clause.said)
