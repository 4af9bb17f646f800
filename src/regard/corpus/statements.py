"""Random generation of whole sentences (statements, questions, commands and compound sentences)."""

from __future__ import annotations

from collections.abc import Callable

from regard.corpus.clauses import ClauseMaker, classes_of, pronoun_for
from regard.corpus.lexemes import Adjective, Verb
from regard.corpus.lexicon.adjectives import WEATHER_QUALITIES
from regard.corpus.lexicon.function_words import BY_TENSE, CONNECTIVES, PRONOUNS
from regard.corpus.lexicon.nouns import BY_CLASS
from regard.corpus.lexicon.verbs import BE, BY_FRAME, CALLS, WEATHER
from regard.corpus.meaning import Clause, Compound, Person, Phrase, Place, Statement, Thing, Units, When
from regard.corpus.phrases import HUMAN, weighted

__all__ = ["StatementMaker"]

_KINDS = weighted(
    simple=42, rich=7, question=9, ask=7, command=6, weather=2, there=4, this=2, joined=21, said=8, long=2
)
_ASKS = weighted(what=4, whom=2, why=3, where=4, when=2, who=3)
_JOINTS = weighted(because=6, when=5, but=5, so=3, **{"and": 4, "if": 4})
_PAST = ("past", "then")
_PRESENT = ("present", "present", "now", "future")
_ANSWERED = ("present", "past", "future", "now")
_WEATHER_TENSES = weighted(present=5, past=6, future=6, now=8, then=2)
_SKIES = tuple(
    Adjective(en, "-", (fr, fr, fr, fr), "", False, False, zh, "bare", (), True, False)
    for en, fr, zh in WEATHER_QUALITIES
)
_LARGE = tuple(noun for name in ("animal", "person", "vehicle") for noun in BY_CLASS[name] if not noun.name)
_LARGE = tuple(noun for noun in _LARGE if not noun.classes & {"kin", "spouse", "single"})
_SMALL = tuple(noun for name in ("goods", "pet", "fruit") for noun in BY_CLASS[name])


def _plain(verb: Verb) -> bool:
    return not (verb.fr_link or verb.zh_link or verb.flags & {"bare"})


_WHAT = tuple(verb for verb in BY_FRAME["t"] if _plain(verb) and not HUMAN.issuperset(verb.objects))
_WHAT = tuple(
    verb for verb in _WHAT if "person" in verb.subjects and not {"headwear", "known"} & {*verb.objects}
)
_WHOM = tuple(verb for verb in BY_FRAME["t"] if _plain(verb) and verb.objects[0] == "person")
_WHERE = tuple(
    verb for verb in (*BY_FRAME["i"], *BY_FRAME["t"], *BY_FRAME["p"]) if "nowhere" not in verb.flags
)
_WHERE = tuple(
    verb for verb in _WHERE if "person" in verb.subjects and not verb.flags & {"befalls", "past", "bare"}
)
_WHERE = tuple(verb for verb in _WHERE if verb.frame == "p" or not verb.state) + (BY_FRAME["g"][0],) * 4
_WHEN = tuple(verb for verb in (*BY_FRAME["i"], *BY_FRAME["t"], *BY_FRAME["g"]) if "person" in verb.subjects)
_WHEN = tuple(verb for verb in _WHEN if not verb.state and "befalls" not in verb.flags)


class StatementMaker(ClauseMaker):
    """A random generator of sentences as meaning trees."""

    def statement(self) -> Statement:
        """Generate a sentence of a random kind, with units that begin at 1."""
        self.units = Units()
        self.joining = False
        mark = self.units.take()
        kind = self.pick(_KINDS)
        body = _MAKERS[kind](self)
        if kind in _QUESTIONS and isinstance(body, Clause):
            body.mark = mark
        exclamation = kind == "command" and self.chance(0.2)
        return Statement(body, "?" if kind in _QUESTIONS else "!" if exclamation else ".", mark)

    def rich(self) -> Clause:
        """Generate a clause about a person or an animal, with a relative clause if the determiner allows one."""
        noun = self.pick(BY_CLASS["person"] if self.chance(0.7) else BY_CLASS["animal"])
        subject = self.thing(noun, "subject")
        self.describe(subject, 1.0)
        return self.clause(subject=subject)

    # Questions and commands

    def _bare_question(self, clause: Clause) -> Clause:
        """Remove negation, frequency and the perfect tense from a clause, and return the same clause.

        Its question word gets a unit. The caller sets ``ask``.
        """
        clause.negative = clause.often_unit = 0
        clause.often = None
        if clause.tense == "perfect":
            clause.tense = "past" if clause.verb.en != clause.verb.en_past else "future"
        clause.ask_unit = self.units.take()
        return clause

    def question(self) -> Clause:
        """Generate a yes/no question (does she like dogs?)."""
        clause = (
            self.there() if self.chance(0.06) else self.clause(tenses=_ANSWERED if self.chance(0.7) else ())
        )
        self._bare_question(clause).ask = "yes"
        return clause

    def ask(self) -> Clause:
        """Generate a question with who, what, whom, why, where or when."""
        name = self.pick(_ASKS)
        if name == "who":
            clause = self.clause(subject=self.person("who"), tenses=_ANSWERED)
            if clause.quality is not None:
                clause.quality.than = None
            return self._bare_question(clause)
        clause = _ASKERS[name](self)
        clause.ask = name
        return clause

    def _why(self) -> Clause:
        clause = self._bare_question(self.clause())
        clause.time = None
        return clause

    def _without_object(self, verbs: tuple[Verb, ...]) -> Clause:
        clause = self._event(self.pick(verbs), _ANSWERED)
        clause.object = None
        return clause

    def _event(self, verb: Verb, tenses: tuple[str, ...]) -> Clause:
        subject = self.speaker(late=False)
        classes = classes_of(subject)
        if not classes.intersection(verb.subjects):
            subject = self.name()
        return self._bare_question(self.event(verb, subject, tenses))

    def _where(self) -> Clause:
        if self.chance(0.4):
            clause = self.be(self.subject(), ("present",))
            return self._bare_question(clause)
        clause = self._event(self.pick(_WHERE), ("now", "future", "present"))
        clause.place = clause.goal = None
        return clause

    def command(self) -> Clause:
        """Generate a command (open the door, please do not sing)."""
        units = self.units
        clause = Clause(self.pick(CALLS), units.take(), units.take(), "command", short=self.chance(0.6))
        if self.chance(0.25):
            clause.negative = units.take()
        if clause.verb.frame == "t":
            clause.object = self.object(clause, True)
        elif clause.verb.frame == "d":
            self.gift(clause)
        elif clause.verb.frame == "g":
            clause.goal = self.goal(near=clause.verb.en == "run")
        if clause.verb.frame != "d" and self.chance(0.3):
            clause.polite, clause.extra = True, units.take()
        return clause

    # It, there, this

    def weather(self, tenses: tuple[str, ...] = ()) -> Clause:
        """Generate a clause about the weather (it is raining, it will be cold tomorrow).

        ``tenses`` restricts the tense, and leaves out a time.
        """
        units = self.units
        rain = self.chance(0.6)
        verb = self.pick(WEATHER) if rain else BE
        clause = Clause(verb, units.take(), units.take(), "present", kind="weather")
        clause.extra = units.take()
        clause.tense = self.pick(tenses or _WEATHER_TENSES)
        if not rain:
            clause.tense = {"now": "present", "then": "past"}.get(clause.tense, clause.tense)
            clause.quality = self.quality(_SKIES)
        if self.chance(0.15) and (rain or clause.quality is None or clause.quality.degree is None):
            clause.negative = units.take()
        clause.short = self.chance(0.5)
        if not tenses and self.chance(0.6):
            key = "now" if clause.tense == "present" and not rain else clause.tense
            clause.time = When(self.pick(BY_TENSE[key]), units.take_three())
        return clause

    def there(self) -> Clause:
        """Generate an existential clause (there is a cat under the table)."""
        units = self.units
        clause = Clause(
            BE, units.take(), units.take(), self.pick(("present", "present", "past", "future")), kind="there"
        )
        clause.extra = units.take()
        if self.chance(0.15):
            clause.negative = units.take()
        clause.short = self.chance(0.4)
        clause.place = self.place(event=False)
        clause.subject = self.thing(self.pick(_LARGE if _spacious(clause.place) else _SMALL), "there")
        if clause.negative and isinstance(clause.subject, Thing):
            clause.subject.determiner, clause.subject.plural = "a", False
        return clause

    def this(self) -> Clause:
        """Generate a clause with a demonstrative subject (this is my house, those are her books)."""
        units = self.units
        plural = self.chance(0.3)
        kind = self.pick(("these", "those") if plural else ("this", "that"))
        clause = Clause(BE, units.take(), units.take(), "present", kind=kind, extra=units.take())
        if self.chance(0.2):
            clause.negative = units.take()
        clause.short = self.chance(0.5)
        noun = self.pick(_SMALL if self.chance(0.6) else _LARGE)
        thing = self.thing(noun, "person")
        if thing.determiner in ("this", "that"):
            thing.determiner = "the"
        if thing.determiner == "a" and plural:
            thing.determiner = "bare"
        thing.plural = plural
        clause.object = thing
        return clause

    # Clauses joined

    def follow(self, early: Clause | Compound, tenses: tuple[str, ...], share: float = 0.5) -> Clause:
        """Generate the clause after ``early``, with probability ``share`` about its subject as a pronoun.

        The subject is that of the last clause of ``early`` in English. ``tenses`` restricts the tense.
        """
        before = _last(early)
        if before.subject is not None and before.kind == "" and self.chance(share):
            subject = self.person(pronoun_for(before.subject))
            classes = before.stands_for or classes_of(before.subject)
            clause = self.clause(subject=subject, classes=classes, tenses=tenses)
            clause.stands_for = classes
            return clause
        clause = self.clause(late=True, tenses=tenses)
        taken_up = PRONOUNS[pronoun_for(before.subject)] if before.subject is not None else None
        if isinstance(clause.subject, Person) and clause.subject.pronoun is taken_up:
            # The English pronoun is ambiguous, so its antecedent is the subject before.
            clause.stands_for = before.stands_for or (before.subject and classes_of(before.subject))
        return clause

    def joined(self, depth: int, share: float = 0.25, late: bool = False) -> Compound:
        """Generate two clauses with a connective.

        The second may be a compound again with probability ``share``, nested at most ``depth`` times. ``late`` says
        that another clause came before, to which a new `they` would seem to refer.
        """
        self.joining = True
        name = self.pick(_JOINTS)
        tenses = self.pick((_PAST, _PRESENT))
        if name in ("if", "when"):
            return self._condition(name, tenses, late)
        unit, comma = self.units.take(), self.units.take()
        first = self._opening(tenses, name == "so", late)
        if depth and self.chance(share):
            second = self.joined(depth - 1, share, late=True)
        else:
            second = self.follow(first, tenses, 0.0 if name == "and" else 0.5)
        return Compound(CONNECTIVES[name], unit, first, second, False, comma)

    def _condition(self, name: str, tenses: tuple[str, ...], late: bool) -> Compound:
        """Generate a compound with `when` or `if` (when he came, she left).

        The clause that comes first in English is generated first.
        """
        unit, comma = self.units.take(), self.units.take()
        main, side = (("future",), ("present",)) if name == "if" else (tenses[:2], tenses[:1])
        before = self.chance(0.5)
        early = self._opening(side if before else main, name == "if" and before, late)
        after = self.follow(early, main if before else side)
        first, second = (after, early) if before else (early, after)
        if name == "when":
            second.time, second.often, second.negative, second.during = None, None, 0, True
        return Compound(CONNECTIVES[name], unit, first, second, before, comma)

    def _opening(self, tenses: tuple[str, ...], sky: bool, late: bool) -> Clause:
        if sky and self.chance(0.25):
            return self.weather(tenses[:1])
        return self.clause(tenses=tenses, late=late)

    def said(self) -> Clause:
        """Generate a clause with a subordinate clause (I think that he is tired)."""
        self.joining = True
        units = self.units
        verb = self.pick(BY_FRAME["c"])
        subject = self.speaker(late=False)
        past = self.chance(0.25) and verb.en in ("say", "think", "know")
        clause = Clause(verb, units.take(), units.take(), "past" if past else "present", subject)
        clause.said_unit = units.take()
        clause.that = self.chance(0.6)
        if past:
            late = self._reported(subject)
        elif self.chance(0.12):
            late = self.joined(1, late=True)
        else:
            tenses = ("future", "present") if verb.en == "hope" else ()
            late = self.follow(clause, tenses)
        clause.said = late
        return clause

    def _reported(self, subject: Phrase) -> Clause:
        """Generate the clause of reported speech about a past state, which is in the imparfait in French."""
        late = self.person(pronoun_for(subject)) if self.chance(0.5) else self.speaker(late=True)
        return self.be_quality(late, classes_of(late), ("past",))


# The method that generates each kind of sentence.
_MAKERS: dict[str, Callable[[StatementMaker], Clause | Compound]] = {
    "simple": lambda maker: maker.clause(alone=True),
    "rich": StatementMaker.rich,
    "question": StatementMaker.question,
    "ask": StatementMaker.ask,
    "command": StatementMaker.command,
    "weather": lambda maker: maker.weather(),
    "there": StatementMaker.there,
    "this": StatementMaker.this,
    "joined": lambda maker: maker.joined(2),
    "said": StatementMaker.said,
    "long": lambda maker: maker.joined(5, 0.85),
}
_QUESTIONS = ("question", "ask")
# The method that generates the question of each question word. `who` asks for the subject and is made by `ask`.
_ASKERS: dict[str, Callable[[StatementMaker], Clause]] = {
    "why": StatementMaker._why,
    "what": lambda maker: maker._without_object(_WHAT),
    "whom": lambda maker: maker._without_object(_WHOM),
    "where": StatementMaker._where,
    "when": lambda maker: maker._event(maker.pick(_WHEN), ("future",)),
}


def _spacious(place: Place) -> bool:
    return place.spot is not None or (place.phrase is not None and "place" in place.phrase.noun.classes)


def _last(body: Clause | Compound) -> Clause:
    """Return the clause that comes last in English."""
    while isinstance(body, Compound):
        body = body.first if body.before else body.second
    return body
