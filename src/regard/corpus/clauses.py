"""Random generation of clauses.

The English sentence must determine its translations. Therefore `it` and `they` in a later clause always refer to the
subject of the clause before, `you` is singular, and verbs whose past form equals their present form (read) do not
appear in the simple past.
"""

from __future__ import annotations

from functools import cache

from regard.corpus.lexemes import Adverb, Noun, Verb
from regard.corpus.lexicon.adjectives import ADJECTIVES
from regard.corpus.lexicon.function_words import ALSO, FREQUENCIES, MANNERS, NEVER, PREPOSITIONS, PRONOUNS
from regard.corpus.lexicon.nouns import BY_CLASS
from regard.corpus.lexicon.verbs import BE, BY_FRAME, MODALS
from regard.corpus.meaning import Clause, Pair, Person, Phrase, Thing
from regard.corpus.phrases import HUMAN, PhraseMaker, qualities_of, weighted

__all__ = ["ClauseMaker", "pronoun_for"]

_EVENT_TENSES = weighted(present=24, past=30, future=14, now=16, then=6, perfect=4)
_STATE_TENSES = weighted(present=60, past=25, future=15)
_PAST_TENSES = weighted(past=60, future=25, perfect=15)
_FRAMES = weighted(i=17, t=38, p=11, g=7, d=8, quality=17, place=4, role=3)
_ANIMAL_FRAMES = weighted(i=20, t=35, p=25, quality=20, place=10)
_PEOPLE = frozenset(("person", "adult"))
_COMPARABLE = tuple(
    each for each in ADJECTIVES if "person" in each.classes and each.en_more != "-" and not each.avoir
)
_HEADED = frozenset(("the", "a"))
_THINGS = tuple(
    noun for name in ("goods", "vehicle", "building", "food", "thought") for noun in BY_CLASS[name]
)


@cache
def _verbs(frame: str, classes: frozenset[str]) -> tuple[Verb, ...]:
    """Return the verbs of a valency frame whose subject may be of at least one of these noun classes."""
    return tuple(verb for verb in BY_FRAME[frame] if classes.intersection(verb.subjects))


@cache
def _nouns(verb: Verb) -> tuple[Noun, ...]:
    """Return the nouns that the verb takes as an object, without persons."""
    nouns = dict.fromkeys(noun for name in verb.objects if name not in HUMAN for noun in BY_CLASS[name])
    return tuple(nouns)


@cache
def _manners(verb: Verb) -> tuple[Adverb, ...]:
    return tuple(adverb for adverb in MANNERS if verb.en in adverb.verbs and not verb.particle)


def pronoun_for(phrase: Phrase) -> str:
    """Return the key of the pronoun that refers back to a subject.

    Its French and Chinese forms depend on the antecedent (il or elle, 他 or 它), which a model has to learn.
    """
    if isinstance(phrase, Person):
        return next(key for key, value in PRONOUNS.items() if value is phrase.pronoun)
    feminine = phrase.gender == "f"
    human = isinstance(phrase, Pair) or phrase.noun.human
    if phrase.plural:
        return ("they" if human else "they it") + (" f" if feminine else "")
    if human:
        return "she" if feminine else "he"
    return "it f" if feminine else "it"


def classes_of(phrase: Phrase) -> frozenset[str]:
    """Return the noun classes of a subject, which select its verbs. Pronouns and pairs count as adult persons."""
    return phrase.noun.classes if isinstance(phrase, Thing) else _PEOPLE


class ClauseMaker(PhraseMaker):
    """A random generator of single clauses.

    The argument ``alone`` of its methods says that the sentence has no other noun that `it` could refer to. ``late``
    says that another clause came before.
    """

    def subject(self, late: bool = False) -> Phrase:
        """Generate a subject, which is human, an animal or a thing. ``late`` is that of :meth:`speaker`."""
        chance = self.random()
        if chance < 0.76:
            return self.speaker(late)
        if chance < 0.92:
            return self.thing(self.pick(BY_CLASS["animal"]), "subject")
        return self.thing(self.pick(_THINGS), "topic")

    def clause(
        self,
        *,
        late: bool = False,
        subject: Phrase | None = None,
        classes: frozenset[str] | None = None,
        tenses: tuple[str, ...] = (),
        alone: bool = False,
    ) -> Clause:
        """Generate a declarative clause.

        Without ``subject`` it gets a random one, with a relative clause in some cases. ``classes`` are the noun classes
        of the antecedent of a pronoun subject. ``tenses`` restricts the tense.
        """
        if subject is None:
            subject = self.subject(late)
            self.describe(subject, 0.05)
        classes = classes_of(subject) if classes is None else classes
        frame = self._frame(classes)
        if frame == "quality":
            return self.be_quality(subject, classes, tenses)
        if frame == "place":
            return self.be_somewhere(subject, tenses)
        if frame == "role":
            return self.be_role(subject, tenses)
        verbs = _verbs(frame, classes)
        clause = self.event(self.pick(verbs), subject, tenses, alone)
        self.circumstances(clause, may_open=alone)
        return clause

    def describe(self, subject: Phrase, share: float) -> None:
        """Add a relative clause to a subject with probability ``share``, if its form allows one.

        The subject must be a noun with the determiner "the" or "a", and without an `of` phrase. Other subjects are not
        changed. With a clause it loses its adjectives ("the old man" becomes "the man who lives here").
        """
        if (
            isinstance(subject, Thing)
            and subject.determiner in _HEADED
            and not subject.whole
            and self.chance(share)
        ):
            self.relative_subject(subject)

    def _frame(self, classes: frozenset[str]) -> str:
        if classes & HUMAN:
            return self.pick(_FRAMES)
        if "animal" in classes:
            return self.pick(_ANIMAL_FRAMES)
        if "vehicle" in classes and _verbs("i", classes) and self.chance(0.5):
            return "i"
        return "quality" if self.chance(0.85) or "goods" not in classes else "place"

    # Tense, negation and the rest of the verb

    def tense(self, clause: Clause, tenses: tuple[str, ...]) -> None:
        """Set the tense of a clause, and perhaps a modal verb and a negation.

        ``tenses`` are the allowed tenses, and all if it is empty. A verb without the form gets another tense.
        """
        verb = clause.verb
        options = _STATE_TENSES if verb.state else _PAST_TENSES if "past" in verb.flags else _EVENT_TENSES
        clause.tense = self.pick(options)
        if tenses and clause.tense not in tenses:
            clause.tense = self.pick(tenses)
            if verb.state and clause.tense in ("now", "then", "perfect"):
                clause.tense = "past" if "past" in tenses else "present"
        if "moment" in verb.flags and clause.tense in ("now", "then"):
            clause.tense = "past" if clause.tense == "then" else "present"
        if clause.tense == "perfect" and (verb.frame == "p" or "steady" in verb.flags):
            clause.tense = "past"
        human = clause.subject is not None and bool(classes_of(clause.subject) & HUMAN)
        willing = not verb.state and "befalls" not in verb.flags
        if willing and human and clause.tense in ("present", "past") and not tenses and self.chance(0.24):
            self.modal(clause)
        if verb.en == verb.en_past and clause.tense == "past" and clause.modal is None:
            clause.tense = "future"
        every = isinstance(clause.subject, Thing) and clause.subject.determiner == "every"
        if clause.tense != "perfect" and not every and self.chance(0.2):
            clause.negative = self.units.take()
        if clause.tense == "perfect":
            clause.extra = self.units.take()
        clause.short = self.chance(0.5)

    def modal(self, clause: Clause) -> None:
        """Add a modal verb to a clause, in the present if it has no past form in English."""
        modal = self.pick(MODALS)
        if clause.tense == "past" and not modal.en_past:
            clause.tense = "present"
        clause.modal, clause.modal_unit = modal, self.units.take()

    def event(
        self, verb: Verb, subject: Phrase | None, tenses: tuple[str, ...], alone: bool = False
    ) -> Clause:
        """Generate a clause of a verb other than `be`, with the objects, the place or the goal that its frame needs."""
        units = self.units
        clause = Clause(verb, units.take(), units.take(), "present", subject)
        self.tense(clause, tenses)
        if verb.frame == "t":
            clause.object = self.object(clause, alone)
        elif verb.frame == "d":
            self.gift(clause)
        elif verb.frame == "p":
            human = subject is not None and bool(classes_of(subject) & HUMAN)
            clause.place = self.place(event=verb.state, near="posture" in verb.flags, human=human)
        elif verb.frame == "g":
            clause.goal = self.goal(near=verb.en == "run")
        return clause

    def object(self, clause: Clause, alone: bool) -> Phrase:
        """Generate the object of the verb of a clause. ``alone`` allows the pronoun `it`."""
        verb, subject = clause.verb, clause.subject
        people = tuple(name for name in verb.objects if name in HUMAN)
        nouns = _nouns(verb)
        if people and (not nouns or self.chance(0.5)):
            return self.other(subject, people)
        plain_verb = not verb.fr_link and not verb.zh_link and not verb.flags & {"bare", "generic", "steady"}
        if alone and plain_verb and isinstance(subject, Person) and self.chance(0.06):
            return self.person("it")
        owner = pronoun_for(subject).split()[0] if subject is not None else "you"
        noun = self.pick(nouns)
        role = "place" if "place" in noun.classes else "not" if clause.negative else "object"
        thing = self.thing(noun, role, owner="" if owner in ("it", "who") else owner)
        if thing.determiner in _HEADED and clause.head is None and self.chance(0.07):
            self.relative_object(thing)
        return thing

    def gift(self, clause: Clause) -> None:
        """Add an object and a receiver to a ditransitive verb (give a book to Tom, give him a book)."""
        verb = clause.verb
        noun = self.pick(_nouns(verb))
        clause.receiver = self.other(clause.subject, ("person",))
        clause.extra = self.units.take()
        thing = self.thing(noun, "not" if clause.negative else "object")
        bare = thing.determiner == "bare"
        clause.moved = "to" not in verb.flags and not bare and clause.tense != "perfect" and self.chance(0.5)
        if clause.tense == "perfect":
            clause.tense = "past"
        clause.object = thing

    def circumstances(self, clause: Clause, may_open: bool) -> None:
        """Add adverbials of manner, place, frequency and time at random.

        ``may_open`` allows a time at the front of the clause.
        """
        verb, tense, units = clause.verb, clause.tense, self.units
        # After a relative clause, an adverbial would seem to belong to that clause.
        if isinstance(clause.object, Thing) and clause.object.relative is not None:
            return
        if verb.frame in "it" and not clause.negative and self.chance(0.2):
            manners = _manners(verb)
            if manners:
                manner = self.pick(manners)
                subject = clause.subject
                if manner.en != "together" or (subject is not None and subject.plural):
                    clause.manner, clause.manner_unit = manner, units.take()
        if verb.en == "swim" and self.chance(0.5):
            clause.place = self.site(PREPOSITIONS[1], "wet")
        elif verb.frame in "it" and not verb.state and "nowhere" not in verb.flags and self.chance(0.2):
            clause.place = self.place(event=True)
        chance = self.random()
        if verb.state or clause.modal is not None:
            return
        if tense == "present" and not clause.negative and chance < 0.3:
            self.often(clause)
        elif chance < 0.33 and tense != "perfect":
            clause.time = self.when(tense, may_open)
        elif chance < 0.36 and not clause.negative and tense != "perfect":
            clause.often, clause.often_unit = ALSO, units.take()

    def often(self, clause: Clause) -> None:
        """Add an adverb of frequency to a clause (often, never)."""
        clause.often, clause.often_unit = self.pick(FREQUENCIES), self.units.take()
        every = isinstance(clause.subject, Thing) and clause.subject.determiner == "every"
        if self.chance(0.25) and clause.verb.frame != "p" and clause.quality is None and not every:
            clause.often, clause.negative = NEVER, self.units.take()

    # The copula

    def be(self, subject: Phrase | None, tenses: tuple[str, ...]) -> Clause:
        """Generate a clause with the copula and no predicate yet."""
        units = self.units
        clause = Clause(BE, units.take(), units.take(), "present", subject)
        self.tense(clause, tenses)
        return clause

    def be_quality(self, subject: Phrase, classes: frozenset[str], tenses: tuple[str, ...]) -> Clause:
        """Generate a clause with an adjective (she is tired, Tom is taller than Mary).

        ``classes`` select the adjectives. Without any, the clause has a place instead.
        """
        clause = self.be(subject, tenses)
        options = qualities_of(classes, False)
        if not options:
            clause.place = self.place(event=False)
            return clause
        human = bool(classes & HUMAN)
        if human and not clause.negative and self.chance(0.12):
            clause.quality = self.quality(_COMPARABLE, plain=True)
            clause.quality.degree_unit = self.units.take()
            clause.quality.than_unit = self.units.take()
            clause.quality.than = self.other(subject, ("person",))
            return clause
        clause.quality = self.quality(options, plain=bool(clause.negative))
        passing = clause.quality.degree is None and clause.quality.adjective.en in _PASSING
        if passing and clause.tense == "present" and not clause.negative and human and self.chance(0.12):
            self.often(clause)
        return clause

    def be_somewhere(self, subject: Phrase, tenses: tuple[str, ...]) -> Clause:
        """Generate a clause with a place (Tom is in the garden)."""
        clause = self.be(subject, tenses)
        human = bool(classes_of(subject) & HUMAN)
        clause.place = self.place(event=human)
        return clause

    def be_role(self, subject: Phrase, tenses: tuple[str, ...]) -> Clause:
        """Generate a clause with a profession (Tom is a doctor), which has no article in French.

        A subject that is a profession itself gets an adjective instead.
        """
        clause = self.be(subject, tenses)
        if clause.tense == "future":
            clause.tense = "present"
        noun = self.pick(BY_CLASS["role"])
        if isinstance(subject, Thing) and "job" in subject.noun.classes:
            return self.be_quality(subject, subject.noun.classes, tenses)
        units = self.units
        clause.object = Thing(noun, units.take(), "role", units.take(), subject.plural)
        return clause

    # Relative clauses

    def relative_object(self, thing: Thing) -> None:
        """Add a relative clause whose object is the noun (the book that she bought), in place of its adjectives.

        The noun is not changed if no verb takes it as an object.
        """
        verbs = _taking(thing.noun)
        if not verbs:
            return
        units = self.units
        thing.relative_unit = units.take()
        thing.quality = thing.second = None
        subject = self.person(self.pick(_RELATIVE)) if self.chance(0.6) else self.name()
        clause = Clause(
            self.pick(verbs), units.take(), units.take(), "present", subject, head=thing, gap="object"
        )
        self.tense(clause, ("past", "present", "future"))
        clause.short = False
        thing.relative = clause

    def relative_subject(self, thing: Thing) -> None:
        """Add a relative clause whose subject is the noun (the man who lives in Paris), in place of its adjectives."""
        units = self.units
        thing.relative_unit = units.take()
        thing.quality = thing.second = None
        clause = self.relative_clause(thing)
        clause.head, clause.subject = thing, None
        if clause.short and not clause.negative:
            clause.short = False
        thing.relative = clause

    def relative_clause(self, thing: Thing) -> Clause:
        """Generate a relative clause whose subject is the thing (the man who sleeps)."""
        tenses = ("present", "past", "future", "now")
        classes = thing.noun.classes
        frame = self._frame(classes)
        if frame in ("role", "place"):
            return self.be_somewhere(thing, ("present",))
        if frame == "quality":
            return self.be_quality(thing, classes, ("present",))
        clause = self.event(self.pick(_verbs(frame, classes)), thing, tenses)
        if clause.object is not None and isinstance(clause.object, Thing):
            clause.object.relative = None
        return clause


_RELATIVE = ("I", "you", "he", "she", "we")
_PASSING = frozenset(
    ("happy", "sad", "angry", "tired", "busy", "nervous", "hungry", "thirsty", "sleepy", "kind")
)


@cache
def _taking(noun: Noun) -> tuple[Verb, ...]:
    """Return the verbs that take this noun as a direct object in all three languages."""
    return tuple(
        verb
        for verb in BY_FRAME["t"]
        if noun.classes.intersection(verb.objects)
        and _PEOPLE.intersection(verb.subjects)
        and not (verb.fr_link or verb.zh_link or verb.particle or "bare" in verb.flags)
    )
