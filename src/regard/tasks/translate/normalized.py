"""Translation of texts sentence by sentence, with what a model cannot read put around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from regard.tasks.translate.around import ALL, Prepared, StandIns, prepared
from regard.tasks.translate.countries import left_countries
from regard.tasks.translate.dates import lone_date
from regard.tasks.translate.long_texts import cut_spans
from regard.tasks.translate.lost_measures import lost_measures
from regard.tasks.translate.lost_particulars import lost_particulars
from regard.tasks.translate.marks import base_language, is_spaced
from regard.tasks.translate.paragraphs import Inner, Paragraphs, Part, split_text
from regard.tasks.translate.placing import TokenWeights
from regard.tasks.translate.titled_names import lone_salutation
from regard.tasks.translate.translator import Translation, Translator, joined_parts
from regard.text.traced import TracedText

__all__ = ["translate_normalized"]

# A comma before the final marks, which a model may write in an unlikely translation.
_LOOSE_COMMA = re.compile(r"[,，、]+(?=[.!?。！？]*$)")
# A final mark that French writes after a space, and a Chinese month in words before a day in digits.
_UNUSUAL = re.compile(r"\S[!?]+$|[一二三四五六七八九十]月(?=\s?\d)")
# Takes sentences and the numbers of their texts, and returns what the model writes.
Translate = Callable[[list[str], list[int]], list[Translation]]
# Takes the same, and returns the hypotheses for each sentence, the most probable first.
Search = Callable[[list[str], list[int]], list[list[Translation]]]
# A part with the number of its text.
Job = tuple[int, Part]
# Takes the place of a part and its translation, and returns what the translation lost.
Losses = Callable[[int, str], tuple[Inner, ...]]


def translate_normalized(
    translator: Translator, texts: list[str], first: int, translate: Translate, search: Search | None = None
) -> list[Translation]:
    """Translate texts sentence by sentence, where ``first`` is the number of the first text.

    ``search`` returns the hypotheses for sentences whose translation lost something.
    """
    plans = [_cut(split_text(text, *_languages(translator)), translator) for text in texts]
    fixed = [[_without_model(part, *_languages(translator)) for part in plan.parts] for plan in plans]
    jobs = [
        (first + i, part)
        for i, plan in enumerate(plans)
        for part, known in zip(plan.parts, fixed[i], strict=True)
        if known is None
    ]
    done = iter(_translated(translator, jobs, translate, search))
    found = []
    for text, plan, several in zip(texts, plans, fixed, strict=True):
        parts = [next(done) if known is None else known for known in several]
        found.append(_joined(text, plan, parts))
    return found


def _languages(translator: Translator) -> tuple[str, str]:
    return translator.source_language, translator.target_language


def _cut(plan: Paragraphs, translator: Translator) -> Paragraphs:
    """Cut the sentences that are too long for the model."""
    return Paragraphs(plan.lead, [piece for part in plan.parts for piece in _pieces(part, translator)])


def _pieces(part: Part, translator: Translator) -> Iterator[Part]:
    # A final mark may be added to a sentence.
    spans = cut_spans(part.core.text, translator.source, max(1, translator.longest - 1))
    if len(spans) == 1:
        yield part
        return
    cores = [core for span in spans if (core := part.core.cut(*span).stripped()).text]
    gap = " " if is_spaced(translator.target_language) else ""
    for number, core in enumerate(cores):
        is_first, is_last = number == 0, number == len(cores) - 1
        start, end = core.span(0, len(core))
        start, end = part.start if is_first else start, part.end if is_last else end
        yield replace(
            part,
            start=start,
            end=end,
            source=part.source[start - part.start : end - part.start],
            before=part.before if is_first else "",
            core=core,
            after=part.after if is_last else "",
            inner=tuple(one for one in part.inner if start <= one.start and one.end <= end),
            gap=part.gap if is_last else gap,
        )


def _translated(
    translator: Translator, jobs: list[Job], translate: Translate, search: Search | None
) -> list[Translation]:
    """Translate parts.

    A part whose translation has other numbers is read with numbers that stand for them. A part whose translation has
    not the stand-ins of the part is read again with fewer of them. One that still lacks a particular is replaced by
    another hypothesis of a wider search.
    """
    codes = bool(getattr(translator.model.config, "copy", False))
    found = dict(enumerate(_read(translator, jobs, translate, StandIns(codes=codes))))
    wrong = [i for i, one in found.items() if one.is_complete and not one.has_numbers]
    again = _read_again(translator, jobs, translate, found, wrong, StandIns(codes=codes, numbers=True))
    found |= {i: one for i, one in again.items() if one.is_complete and one.has_numbers}
    for stand_ins in (StandIns(codes=False, numerals=False), StandIns(*[False] * 3)):
        missing = [i for i, one in found.items() if not one.is_complete]
        found |= _read_again(translator, jobs, translate, found, missing, stand_ins)
    done = [_restored(translator, one.ready, one.written) for one in found.values()]
    if codes:
        ready = [one.ready for one in found.values()]
        lost = _losses(translator, jobs, ready)
        _find_again(translator, jobs, translate, lost, done)
        if search is not None:
            _choose(translator, jobs, search, ready, lost, done)
    return done


class _Attempt(NamedTuple):
    """A part as it was read, and what the model wrote."""

    ready: Prepared
    written: Translation

    @property
    def is_complete(self) -> bool:
        return self.ready.is_complete(self.written.text)

    @property
    def has_numbers(self) -> bool:
        return self.ready.has_numbers(self.written.text)


def _prepared(translator: Translator, part: Part, stand_ins: StandIns) -> Prepared:
    return prepared(part, translator.casings[0], *_languages(translator), stand_ins=stand_ins)


def _read(
    translator: Translator, jobs: list[Job], translate: Translate, stand_ins: StandIns
) -> list[_Attempt]:
    ready = [_prepared(translator, part, stand_ins) for _, part in jobs]
    raw = translate([one.read.text for one in ready], [number for number, _ in jobs]) if jobs else []
    return [_Attempt(one, written) for one, written in zip(ready, raw, strict=True)]


def _read_again(
    translator: Translator,
    jobs: list[Job],
    translate: Translate,
    found: dict[int, _Attempt],
    places: list[int],
    stand_ins: StandIns,
) -> dict[int, _Attempt]:
    """Return new attempts by place, without those in which the model would read the same text again."""
    changed = [
        i
        for i in places
        if _prepared(translator, jobs[i][1], stand_ins).read.text != found[i].ready.read.text
    ]
    return dict(
        zip(changed, _read(translator, [jobs[i] for i in changed], translate, stand_ins), strict=True)
    )


def _losses(translator: Translator, jobs: list[Job], ready: list[Prepared]) -> Losses:
    """Return a function of a job's place and its translation, which gives the particulars that this lost."""
    target, casing = base_language(translator.target_language), translator.casings[0]
    # A Chinese translation may have a form of a name that is unlike it, a French one seldom has.
    is_rare = casing.is_unknown if target == "fr" else casing.is_rare

    def lost_in(i: int, text: str) -> tuple[Inner, ...]:
        return lost_particulars(jobs[i][1], ready[i].read, text, target, is_rare)

    return lost_in


def _find_again(
    translator: Translator,
    jobs: list[Job],
    translate: Translate,
    lost_in: Losses,
    done: list[Translation],
) -> None:
    """Translate sentences again that lost names or codes, with others in their place, and keep what is better."""
    for stand_ins in (StandIns(lost=True), StandIns()):
        lost = {i: found for i in range(len(jobs)) if (found := lost_in(i, done[i].text))}
        parts = {i: _with_inner(jobs[i][1], found) for i, found in lost.items()}
        ready = {i: _prepared(translator, part, stand_ins) for i, part in parts.items()}
        # Each lost particular needs a stand-in.
        ready = {i: one for i, one in ready.items() if len(one.names) == len(parts[i].inner)}
        if not ready:
            continue
        raw = translate([one.read.text for one in ready.values()], [jobs[i][0] for i in ready])
        for (i, one), written in zip(ready.items(), raw, strict=True):
            if one.is_complete(written.text):
                found = _restored(translator, one, written)
                if len(lost_in(i, found.text)) < len(lost[i]):
                    done[i] = found


def _choose(
    translator: Translator,
    jobs: list[Job],
    search: Search,
    ready: list[Prepared],
    lost_in: Losses,
    done: list[Translation],
) -> None:
    """Replace each translation that still lost a particular by the most probable hypothesis that lost fewer.

    A date and a number with its unit are particulars too.
    """
    target = base_language(translator.target_language)

    def count(i: int, text: str) -> int:
        measures = lost_measures(jobs[i][1].core, ready[i].read, text, target)
        return len(lost_in(i, text)) + len(measures)

    least = {i: lost for i in range(len(jobs)) if (lost := count(i, done[i].text))}
    variants = [
        (i, one)
        for i in least
        # With and without the words that stand for measures.
        for one in {one.read.text: one for one in (_prepared(translator, jobs[i][1], ALL), ready[i])}.values()
    ]
    if not variants:
        return
    several = search([one.read.text for _, one in variants], [jobs[i][0] for i, _ in variants])
    for (i, one), hypotheses in zip(variants, several, strict=True):
        for attempt in (_Attempt(one, written) for written in hypotheses):
            if attempt.is_complete and attempt.has_numbers:
                found = _restored(translator, one, attempt.written)
                if (lost := count(i, found.text)) < least[i]:
                    others = _distinct(found.text, done[i].alternatives)
                    done[i], least[i] = replace(found, alternatives=others), lost


def _with_inner(part: Part, lost: tuple[Inner, ...]) -> Part:
    return replace(part, inner=tuple(sorted((*part.inner, *lost), key=lambda inner: inner.start)))


def _without_model(part: Part, source_language: str, target_language: str) -> Translation | None:
    """Return the translation of a part without words, which is copied, of a date or of a salutation."""
    if not part.core.text:
        return Translation(part.source, part.before, 0.0, [], [])
    if base_language(source_language) != "en" or part.inner:
        return None
    text, language = part.core.text, base_language(target_language)
    found = lone_date(text, language) or lone_salutation(text, language)
    return Translation(part.source, f"{part.before}{found}{part.after}", 0.0, [], []) if found else None


def _restored(translator: Translator, one: Prepared, raw: Translation) -> Translation:
    """Return the translation of a part in the form of its source."""
    part, read = one.part, one.read
    is_plain = raw.text == raw.text.strip() and not raw.text[:1].islower() and not _UNUSUAL.search(raw.text)
    if is_plain and base_language(translator.target_language) == "zh":
        is_plain = not left_countries(raw.text)
    if is_plain and not one.changed and not one.lost_mark(raw.text):
        return replace(raw, source=part.source, alternatives=_distinct(raw.text, raw.alternatives))
    shown = TracedText(raw.text, raw.trace)
    weights = None
    if one.removed and raw.target_ids and translator.attends:
        source = translator.source.spans(read.text)
        table = translator.token_weights(raw.source_ids, raw.target_ids, len(source))  # (t,s)
        weights = TokenWeights(table, read.originals(source), shown.moved(translator.target_spans(raw)))
    casing = translator.casings[1]
    best = one.restored(raw.text, weights, casing)
    others = tuple(
        (one.restored(text, None, casing).text if one.is_complete(text) else text, score)
        for text, score in raw.alternatives
    )
    trace = tuple(shown.originals(best.spans))
    others = _distinct(best.text, others)
    return replace(raw, source=part.source, text=best.text, alternatives=others, trace=trace)


def _distinct(best: str, others: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the alternatives that differ from the best text and from one another, without commas at their end.

    >>> _distinct("Bonjour.", [("Bonjour,.", -2.0), ("Salut.", -3.0), ("Salut.", -4.0)])
    (('Salut.', -3.0),)
    """
    scores: dict[str, float] = {}
    for text, score in others:
        scores.setdefault(_LOOSE_COMMA.sub("", text), score)
    scores.pop(best, None)
    return tuple(scores.items())


def _joined(text: str, plan: Paragraphs, parts: list[Translation]) -> Translation:
    """Join the translations of the parts of a text, with the white space around them."""
    if not parts:
        return Translation(text, text, 0.0, [], [])
    gaps, last = [part.gap for part in plan.parts[:-1]], plan.parts[-1].gap
    whole = joined_parts(text, parts, gaps)
    if not plan.lead and not last:
        return whole
    texts = tuple((f"{plan.lead}{words}{last}", score) for words, score in whole.alternatives)
    shown = TracedText.added(plan.lead, 0) + TracedText(whole.text, whole.trace)
    shown += TracedText.added(last, len(whole.written))
    trace = tuple(shown.spans) if whole.written else None
    return replace(whole, text=shown.text, alternatives=texts, trace=trace)
