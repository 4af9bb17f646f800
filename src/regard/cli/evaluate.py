"""``regard evaluate …``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from regard.tasks.translate import Translator
    from regard.tasks.translate.evaluation import Evaluation

__all__ = ["evaluate"]

evaluate = typer.Typer(help="Measure a model on data it was not trained on.", no_args_is_help=True)


@evaluate.command("translate")
def translate(
    model: str = typer.Option(None, "--model", help="A model's name or folder."),
    to: str = typer.Option("fr", "--to", help="Language to translate to, where no model is named."),
    source: str = typer.Option("en", "--from", help="Language to translate from, where no model is named."),
    data: str = typer.Option(
        None, "--data", help="Pairs, as for training; by default the embedded corpus's test."
    ),
    target_data: str = typer.Option(None, "--target-data", help="The target side of two line-aligned files."),
    columns: str = typer.Option("0,1", "--columns", help="Which columns or fields hold source and target."),
    links: Path = typer.Option(
        None, "--links", help="Gold word alignments: source TAB target TAB sure TAB possible."
    ),
    choose_links: Path = typer.Option(
        None,
        "--choose-links",
        help="Such a file to choose layer and head on, instead of what the model keeps.",
    ),
    limit: int = typer.Option(
        0, "--limit", help="Only so many sentences; 0 for all (1000 of the embedded corpus)."
    ),
    beams: int = typer.Option(5, "--beams", help="Hypotheses searched at a time; 1 is greedy."),
    length_penalty: float = typer.Option(1.0, "--length-penalty", help="Above 1 prefers long translations."),
    lowercase: bool = typer.Option(False, "--lowercase", help="Compare without regard to case."),
    out: Path = typer.Option(None, "--out", help="Write the translations to a file, one a line."),
    compare: list[str] = typer.Option(
        None, "--compare", help="Another model to measure on the same sentences; may be given several times."
    ),
    save_lengths: Path = typer.Option(
        None, "--save-lengths", help="Draw BLEU by length, a line for each model: a .png, .svg or .pdf file."
    ),
    as_json: bool = typer.Option(False, "--json", help="The scores as one JSON object."),
) -> None:
    """BLEU and chrF with their signatures, BLEU by length, and the alignment error rate where links are known."""
    from regard.decoding import DecodingOptions
    from regard.errors import ArgumentError
    from regard.tasks.translate import Translator, find_translator
    from regard.tasks.translate.evaluation import evaluate as measure
    from regard.tasks.translate.gold import embedded_aligned, read_aligned

    if links is not None and data is None and (out or compare or save_lengths):
        raise ArgumentError(
            "links", "without data nothing is translated", "leave out --out, --compare and --save-lengths"
        )
    translator = Translator.load(find_translator(model, source=source, target=to))
    others = {
        name: Translator.load(find_translator(name, source=source, target=to)) for name in compare or []
    }
    values: dict[str, Any] = {}
    if links is None or data is not None:
        pairs = _pairs(translator, data, target_data, columns, limit)
        options = DecodingOptions(beams=beams, length_penalty=length_penalty)
        found = measure(translator, pairs, options, lowercase=lowercase)
        beside = {name: measure(one, pairs, options, lowercase=lowercase) for name, one in others.items()}
        values.update(found.to_json())
        if beside:
            values["compared"] = {name: one.to_json() for name, one in beside.items()}
        if out is not None:
            _write_lines(out, [one.text for one in found.translations])
        if save_lengths is not None:
            _draw_lengths(save_lengths, {model or "model": found, **beside})
    if links is not None or data is None:
        count = limit or 1000
        gold = read_aligned(links) if links else embedded_aligned(translator, "test", count)
        chosen = read_aligned(choose_links) if choose_links else None
        values["alignment"] = _alignment(translator, gold, chosen)
    typer.echo(json.dumps(values, ensure_ascii=False) if as_json else _report(values))


def _pairs(
    translator: Translator, data: str | None, target_data: str | None, columns: str, limit: int
) -> list[tuple[str, str]]:
    from itertools import islice

    from regard.tasks.translate.data import embedded_pairs, reader
    from regard.tasks.translate.settings import TranslationSettings

    settings = TranslationSettings(
        source_language=translator.source_language or "source",
        target_language=translator.target_language or "target",
        columns=columns,
    )
    if data is None:
        return list(embedded_pairs(settings, "test", limit or 1000))
    return list(islice(reader(settings, data, target_data, None), limit or None))


def _alignment(translator: Translator, gold: Any, chosen: Any) -> dict[str, Any]:
    from regard.tasks.translate.alignment import choose_reading, error_rates, reading_of
    from regard.tasks.translate.gold import diagonal_error_rate

    if not translator.attends:
        return {"error_rate": None, "diagonal": diagonal_error_rate(gold), "sentences": len(gold)}
    reading = choose_reading(translator, chosen)[0] if chosen else reading_of(translator)
    (rate,) = error_rates(translator, gold, [reading])
    return {
        "error_rate": rate,
        "diagonal": diagonal_error_rate(gold),
        "sentences": len(gold),
        "reading": str(reading),
    }


def _report(values: dict[str, Any]) -> str:
    lines = []
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


def _draw_lengths(path: Path, found: dict[str, Evaluation]) -> None:
    from regard.plots import plot_by_length

    plot_by_length({name: one.by_length for name, one in found.items()}, path=path)


def _write_lines(path: Path, lines: list[str]) -> None:
    from regard.files import write_atomically

    text = "".join(line.replace("\n", " ") + "\n" for line in lines)
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
