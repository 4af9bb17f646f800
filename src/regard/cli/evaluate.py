"""``regard evaluate …``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from regard.tasks.translate import Translator

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
    as_json: bool = typer.Option(False, "--json", help="The scores as one JSON object."),
) -> None:
    """BLEU and chrF with their signatures, BLEU by length, and the alignment error rate where links are known."""
    from regard.decoding import DecodingOptions
    from regard.tasks.translate import Translator, find_translator
    from regard.tasks.translate.evaluation import evaluate as measure
    from regard.tasks.translate.gold import embedded_aligned

    translator = Translator.load(find_translator(model, source=source, target=to))
    values: dict[str, Any] = {}
    if links is None or data is not None:
        pairs = _pairs(translator, data, target_data, columns, limit)
        options = DecodingOptions(beams=beams, length_penalty=length_penalty)
        found = measure(translator, pairs, options, lowercase=lowercase)
        values.update(found.to_json())
        if out is not None:
            _write_lines(out, [one.text for one in found.translations])
    if links is not None or data is None:
        count = limit or 1000
        gold = _read_links(links, translator) if links else embedded_aligned(translator, "test", count)
        chosen = _read_links(choose_links, translator) if choose_links else None
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


def _read_links(path: Path, translator: Translator) -> Any:
    from regard.tasks.translate.gold import read_aligned

    return read_aligned(path)


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
        lines.append(f"{values['sentences']} sentences, {values['sentences_per_second']:.1f} a second")
        for name, title in (("bleu", "BLEU"), ("chrf", "chrF")):
            lines.append(f"{title:5} {values[name]['score']:6.2f}  {values[name]['signature']}")
        lines.append("BLEU by words of the source:")
        for one in values["bleu_by_length"]:
            lines.append(f"  {one['words']:>6} {one['bleu']:6.2f}  ({one['sentences']} sentences)")
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


def _write_lines(path: Path, lines: list[str]) -> None:
    from regard.files import write_atomically

    text = "".join(line.replace("\n", " ") + "\n" for line in lines)
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
