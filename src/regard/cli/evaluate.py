"""``regard evaluate …``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.translate import DEVICE, load_translator

if TYPE_CHECKING:
    from regard.decoding import DecodingOptions
    from regard.tasks.translate import Translator
    from regard.tasks.translate.evaluation import Evaluation
    from regard.text import Skipped

__all__ = ["evaluate"]

EMBEDDED = 1000  # sentences of the embedded corpus that are measured on, unless told otherwise

evaluate = typer.Typer(help="Measure a model on data it was not trained on.", no_args_is_help=True)


@evaluate.command("translate")
def translate(
    model: str = typer.Option(None, "--model", help="A model's name or folder."),
    target_language: str = typer.Option(
        None, "--to", help="Language to translate to, where no model is named.", show_default="fr"
    ),
    source_language: str = typer.Option(
        None, "--from", help="Language to translate from, where no model is named.", show_default="en"
    ),
    data: str = typer.Option(
        None, "--data", help="Pairs, as for training; by default the embedded corpus's test."
    ),
    target_data: str = typer.Option(None, "--target-data", help="The target side of two line-aligned files."),
    columns: str = typer.Option(
        None, "--columns", help="Which columns or fields hold source and target.", show_default="0,1"
    ),
    format: str = typer.Option(
        None, "--format", help="tsv, csv, jsonl or parquet, where the file's name does not say it."
    ),
    split: str = typer.Option(
        None, "--split", help="Of a Hugging Face data set: the part to measure on.", show_default="test"
    ),
    dataset_config: str = typer.Option(
        None, "--dataset-config", help="Of a Hugging Face data set: its configuration, if it has several."
    ),
    links: Path = typer.Option(
        None, "--links", help="Gold word alignments: source TAB target TAB sure TAB possible."
    ),
    choose_links: Path = typer.Option(
        None,
        "--choose-links",
        help="Such a file to choose layer and head on, instead of what the model keeps.",
    ),
    limit: int = typer.Option(
        0, "--limit", min=0, help="A sample of so many sentences; 0 for all (1000 of the embedded corpus)."
    ),
    seed: int = typer.Option(None, "--seed", help="Which sentences the sample takes.", show_default="0"),
    beams: int = typer.Option(
        None, "--beams", help="Hypotheses searched at a time; 1 is greedy.", show_default="5"
    ),
    length_penalty: float = typer.Option(
        None, "--length-penalty", help="Above 1 prefers long translations.", show_default="1"
    ),
    coverage_penalty: float = typer.Option(
        None, "--coverage-penalty", help="What unattended words cost.", show_default="0"
    ),
    lowercase: bool = typer.Option(
        None,
        "--lowercase/--no-lowercase",
        help="Compare without regard to case.",
        show_default="as the model",
    ),
    out: Path = typer.Option(None, "--out", help="Write the translations to a file, one for each pair."),
    compare: list[str] = typer.Option(
        None, "--compare", help="Another model to measure on the same sentences; may be given several times."
    ),
    save_lengths: Path = typer.Option(
        None, "--save-lengths", help="Draw BLEU by length, a line for each model: a .png, .svg or .pdf file."
    ),
    device: str = DEVICE,
    as_json: bool = typer.Option(False, "--json", help="The scores as one JSON object."),
) -> None:
    """BLEU and chrF with their signatures, BLEU by length, and the alignment error rate where links are known.

    Pairs with the same source are references of one sentence.
    """
    from regard.decoding import DecodingOptions
    from regard.files import check_writable
    from regard.tasks.translate.evaluation import sample
    from regard.text import Skipped

    reading = {"columns": columns, "format": format, "split": split, "dataset_config": dataset_config}
    search = {"beams": beams, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    others = {"lowercase": lowercase, "out": out, "save_lengths": save_lengths, "compare": compare or None}
    _check_use(data, {"target_data": target_data, **reading}, links, choose_links, {**search, **others})
    _check_sample(limit, seed, data, out)
    for path in (out, save_lengths):
        if path is not None:
            check_writable(path)
    options = DecodingOptions(**{"beams": 5, **_given(search)})
    translator = load_translator(model, source_language, target_language, device)
    languages = (translator.source_language, translator.target_language)
    # Installed models are called after their languages.
    named = _with_others(model or "-".join(languages), translator, compare or [], device)
    values: dict[str, Any] = {}
    if links is None or data is not None:
        skipped = Skipped()
        there = _pairs(translator, data, target_data, limit, _given(reading), skipped)
        pairs = sample(there, limit, seed or 0, key=lambda pair: pair[0])  # with all references of a sentence
        _tell_skipped(skipped, out)
        found = _measured(named, pairs, options, lowercase)
        values.update(_compared(found), left_out=skipped.total)
        _write_results(found, pairs, out, save_lengths)
    if links is not None or data is None:
        values["alignment"] = _alignment(translator, links, choose_links, limit, seed or 0)
    typer.echo(json.dumps(values, ensure_ascii=False) if as_json else _report(values))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_use(
    data: str | None,
    reading: dict[str, Any],
    links: Path | None,
    choose_links: Path | None,
    translating: dict[str, Any],
) -> None:
    """Refuse what would be of no use: ways to read data where there is none, ways to translate where nothing is."""
    from regard.errors import ArgumentError

    for name in _given({} if data else reading):
        raise ArgumentError(name, "given without data=", "name the pairs, or the source side, with --data")
    if choose_links and data and not links:
        raise ArgumentError("choose_links", "of no use without gold links to measure", "add --links")
    for name in _given(translating if links and not data else {}):
        raise ArgumentError(name, "of no use with --links alone: nothing is translated", "add --data")


def _check_sample(limit: int, seed: int | None, data: str | None, out: Path | None) -> None:
    """Refuse a seed of nothing, and a file of translations whose lines nobody could match with the data."""
    from regard.errors import ArgumentError

    if seed is not None and not limit:
        raise ArgumentError("seed", "of no use without a sample", "add --limit")
    if limit and data and out is not None:
        told = "its lines would be those of a sample, not of the data"
        raise ArgumentError("out", told, "leave out --limit")


def _tell_skipped(skipped: Skipped, out: Path | None) -> None:
    """Say which pairs cannot be measured; a file of translations without them would not match its input."""
    from regard.errors import ArgumentError

    if skipped.total and out is not None:
        told = f"its lines would not be those of the data, of which cannot be measured: {skipped}"
        raise ArgumentError("out", told, "take these pairs out first")
    if skipped.total:
        print(f"not measured: {skipped}", file=sys.stderr)


def _with_others(
    model: str, translator: Translator, compare: list[str], device: str | None
) -> dict[str, Translator]:
    """The model and those to compare it with, by name; all have to translate between the same languages."""
    from regard.errors import ArgumentError

    named, own = {model: translator}, (translator.source_language, translator.target_language)
    for name in compare:
        if name in named:
            raise ArgumentError("compare", f"{name} is named twice")
        one = named[name] = load_translator(name, None, None, device)
        theirs = (one.source_language, one.target_language)
        if theirs != own:
            told = f"{name} translates {theirs[0]} to {theirs[1]}, the model {own[0]} to {own[1]}"
            raise ArgumentError("compare", told)
    return named


def _pairs(
    translator: Translator,
    data: str | None,
    target_data: str | None,
    limit: int,
    reading: dict[str, Any],
    skipped: Skipped,
) -> Iterable[tuple[str, str]]:
    from regard.tasks.translate.data import embedded_pairs, reader
    from regard.tasks.translate.settings import TranslationSettings

    if data is None:
        _check_embedded(translator)
    settings = TranslationSettings(
        source_language=translator.source_language or "source",
        target_language=translator.target_language or "target",
        data=data,
        target_data=target_data,
        **{"split": "test", **reading},
    )
    if data is None:
        return embedded_pairs(settings, "test", max(limit, EMBEDDED))
    return reader(settings, data, target_data, skipped, max_words=None)  # long ones are translated in pieces


def _check_embedded(translator: Translator) -> None:
    from regard.errors import ArgumentError
    from regard.tasks.translate.settings import EMBEDDED_LANGUAGES

    for language in (translator.source_language, translator.target_language):
        if language not in EMBEDDED_LANGUAGES:
            told = f"the embedded corpus has {', '.join(EMBEDDED_LANGUAGES)}, not {language!r}"
            raise ArgumentError("data", told, "name pairs to measure on")


def _measured(
    named: dict[str, Translator],
    pairs: list[tuple[str, str]],
    options: DecodingOptions,
    lowercase: bool | None,
) -> dict[str, Evaluation]:
    from regard.tasks.translate.evaluation import evaluate as measure

    return {name: measure(one, pairs, options, lowercase=lowercase) for name, one in named.items()}


def _compared(found: dict[str, Evaluation]) -> dict[str, Any]:
    """The numbers of the first model and its name, with those of the others inside."""
    first, *others = found.items()
    values = {"model": first[0], **first[1].to_json()}
    return {**values, "compared": {name: one.to_json() for name, one in others}} if others else values


def _write_results(
    found: dict[str, Evaluation], pairs: list[tuple[str, str]], out: Path | None, save_lengths: Path | None
) -> None:
    if out is not None:
        first = next(iter(found.values()))
        texts = {one.source: one.text for one in first.translations}
        _write_lines(out, [texts[source] for source, _ in pairs])
    if save_lengths is not None:
        from regard.plots import plot_by_length

        short = [Path(name).name for name in found]  # a folder's own name, where that tells them apart
        names = short if len(set(short)) == len(short) else list(found)
        rows = [one.by_length for one in found.values()]
        plot_by_length(dict(zip(names, rows, strict=True)), path=save_lengths)


def _alignment(
    translator: Translator, links: Path | None, choose_links: Path | None, limit: int, seed: int
) -> dict[str, Any]:
    """The alignment error rate, beside that of the diagonal."""
    from regard.tasks.translate.alignment import choose_reading, error_rates
    from regard.tasks.translate.evaluation import sample
    from regard.tasks.translate.gold import diagonal_error_rate, embedded_aligned, read_aligned
    from regard.tasks.translate.reading import reading_of

    gold = read_aligned(links) if links else embedded_aligned(translator, "test", max(limit, EMBEDDED))
    gold = [gold[place] for place in sample(range(len(gold)), limit, seed)]
    values: dict[str, Any] = {
        "diagonal": diagonal_error_rate(gold),
        "sentences": len(gold),
        "error_rate": None,
    }
    if not translator.attends:
        return values
    chosen = read_aligned(choose_links) if choose_links else None
    reading = choose_reading(translator, chosen)[0] if chosen else reading_of(translator)
    (rate,) = error_rates(translator, gold, [reading])
    return {**values, "error_rate": rate, "reading": str(reading)}


def _report(values: dict[str, Any]) -> str:
    lines = []
    if "compared" in values:
        lines.append(f"{values['model']}:")
    if "bleu" in values:
        lines += _scores(values)
    for name, other in values.get("compared", {}).items():
        lines += [f"{name}:", *_scores(other, minus=values)]
    if "alignment" in values:
        a = values["alignment"]
        if a["error_rate"] is None:
            lines.append("AER: the model has no attention")
        else:
            lines.append(
                f"AER   {100 * a['error_rate']:6.2f} %  ({a['sentences']} sentences; {a['reading']})"
            )
        lines.append(f"      {100 * a['diagonal']:6.2f} %  by the diagonal")
    return "\n".join(lines)


def _scores(values: dict[str, Any], minus: dict[str, Any] | None = None) -> list[str]:
    """The scores of a model; beside ``minus``, how far each length is from what that one has."""
    lines = [f"{values['sentences']} sentences, {values['sentences_per_second']:.1f} a second"]
    for name, title in (("bleu", "BLEU"), ("chrf", "chrF")):
        lines.append(f"{title:5} {values[name]['score']:6.2f}  {values[name]['signature']}")
    lines.append("BLEU by words of the source:")
    for place, one in enumerate(values["bleu_by_length"]):
        line = f"  {one['words']:>6} {one['bleu']:6.2f}  ({one['sentences']} sentences)"
        if minus is not None:
            line += f"  {one['bleu'] - minus['bleu_by_length'][place]['bleu']:+.2f}"
        lines.append(line)
    return lines


def _write_lines(path: Path, lines: list[str]) -> None:
    from regard.files import write_atomically

    text = "".join(line.replace("\n", " ") + "\n" for line in lines)
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
