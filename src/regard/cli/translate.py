"""``regard translate``, ``regard models``, and what belongs to translation in ``train`` and ``evaluate``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from regard.decoding import DecodingOptions
    from regard.tasks.translate import Translation, Translator

__all__ = ["models", "pack", "translate"]

LINES_AT_A_TIME = 64  # of a stream: enough for batches, few enough to see the first ones soon


def translate(
    text: list[str] = typer.Argument(
        None, help="Sentences; or use --file, or pipe lines in.", show_default=False
    ),
    to: str = typer.Option("fr", "--to", help="Language to translate to."),
    source: str = typer.Option("en", "--from", help="Language to translate from."),
    model: str = typer.Option(None, "--model", help="A model's name or folder instead of languages."),
    file: Path = typer.Option(None, "--file", help="Translate the lines of a file ('-' for standard input)."),
    out: Path = typer.Option(None, "--out", help="Write the translations to a file instead of the screen."),
    beams: int = typer.Option(
        None, "--beams", help="Hypotheses searched at a time; 1 is fastest.", show_default="5"
    ),
    length_penalty: float = typer.Option(
        1.0, "--length-penalty", help="Above 1: long translations; below: short."
    ),
    coverage_penalty: float = typer.Option(
        0.0, "--coverage-penalty", help="What unattended source words cost."
    ),
    n_best: int = typer.Option(1, "--n-best", help="How many translations of each sentence."),
    sample: bool = typer.Option(
        False, "--sample", help="Draw words by their probability instead of searching."
    ),
    temperature: float = typer.Option(
        1.0, "--temperature", help="Of sampling: below 1 is safer, above 1 bolder."
    ),
    top_k: int = typer.Option(0, "--top-k", help="Sample from the likeliest words only; 0 for all."),
    top_p: float = typer.Option(1.0, "--top-p", help="Sample from the words that make up this share."),
    seed: int = typer.Option(0, "--seed", help="Of sampling."),
    attention: bool = typer.Option(False, "--attention", help="Draw what each word looked at."),
    save_attention: Path = typer.Option(
        None, "--save-attention", help="Save that picture: .png, .svg, .pdf or .html."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
) -> None:
    """Translate sentences, a file, or what is piped in."""
    from regard.decoding import DecodingOptions
    from regard.tasks.translate import Translator, find_translator

    options = DecodingOptions(
        beams=max(5, n_best) if beams is None else beams,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        n_best=n_best,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    lines = _input(text, file)
    show = _Shower(attention, save_attention, as_json, n_best)
    translator = Translator.load(find_translator(model, source=source, target=to))
    if out is None:
        _write(translator, lines, options, show, sys.stdout)
    else:
        _write_file(translator, lines, options, show, out)


def models(as_json: bool = typer.Option(False, "--json", help="One JSON object a line.")) -> None:
    """List the models that are installed."""
    from regard.tasks.translate import installed_models

    found = installed_models()
    if not found and not as_json:
        typer.echo("no models are installed: train one with `regard train translate`")
    for one in found:
        size = (one.folder / "model.safetensors").stat().st_size / 1e6
        if as_json:
            languages = dict(zip(("from", "to"), one.languages, strict=True))
            values = {
                "name": one.name,
                "task": one.settings["task"],
                **languages,
                "megabytes": round(size, 1),
            }
            typer.echo(json.dumps({**values, "folder": str(one.folder)}, ensure_ascii=False))
        else:
            kind = one.settings["model"]["kind"]
            typer.echo(
                f"{one.name:16} {one.settings['task']}  {' to '.join(one.languages)}  {kind}  {size:.1f} MB"
            )


def pack(
    run: Path = typer.Argument(..., help="The folder of a training run, or of a model."),
    out: Path = typer.Option(..., "--out", help="The folder to write."),
    dtype: str = typer.Option("float16", "--dtype", help="float16, bfloat16 or float32."),
    license: str = typer.Option("", "--license", help="What the card says about the licence."),
    data: str = typer.Option("", "--data", help="What the card says about the data."),
    notes: str = typer.Option("", "--notes", help="What the card says about the model's limits."),
    preparation: str = typer.Option("", "--preparation", help="Commands to run before the training."),
    result: list[str] = typer.Option([], "--result", help="A line of the card's table: WHAT=RESULT."),
) -> None:
    """Make a trained translator ready to be given away: small weights and a card."""
    from regard.errors import ArgumentError
    from regard.tasks.translate.packing import pack as make

    pairs = []
    for one in result:
        what, sign, value = one.partition("=")
        if not sign:
            raise ArgumentError("result", f"expected WHAT=RESULT, got {one!r}")
        pairs.append((what, value))
    facts = {"license": license, "data": data, "notes": notes, "preparation": preparation}
    make(run, out, dtype=dtype, results=pairs, **facts)
    size = sum(path.stat().st_size for path in out.iterdir() if path.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB")


def _input(text: list[str] | None, file: Path | None) -> Iterable[str]:
    """Sentences given on the line, or lines of a file or of standard input."""
    from regard.errors import ArgumentError
    from regard.text import read_lines

    if text and file:
        raise ArgumentError("file", "given besides sentences", "give one of them")
    if text:
        return text
    if file is None and sys.stdin.isatty():
        raise ArgumentError(
            "text", "nothing to translate", 'say it on the line: regard translate "Good morning."'
        )
    return read_lines("-" if file is None else str(file))


class _Shower:
    """What is shown of each translation."""

    def __init__(self, attention: bool, picture: Path | None, as_json: bool, n_best: int):
        from regard.errors import ArgumentError

        self.attention, self.picture, self.as_json, self.n_best = attention, picture, as_json, n_best
        self.drawn = 0  # pictures of further sentences are numbered
        if picture is not None and picture.suffix not in (".png", ".svg", ".pdf", ".html"):
            raise ArgumentError(
                "save_attention", f"expected a .png, .svg, .pdf or .html file, got {picture.name}"
            )

    def lines(self, translator: Translator, one: Translation) -> Iterator[str]:
        """The lines to print for one sentence."""
        if self.as_json:
            yield json.dumps(self._values(translator, one), ensure_ascii=False)
            return
        yield one.text
        for alternative, score in one.alternatives:
            yield f"{alternative}\t{score:.3f}"

    def pictures(self, translator: Translator, one: Translation) -> None:
        """Draw the alignment, in the terminal or into a file."""
        if not (self.attention or self.picture) or not one.text.strip() or not one.source.strip():
            return
        from regard.errors import ArgumentError
        from regard.tasks.translate import align

        if one.parts:
            raise ArgumentError(
                "attention", "the text was translated in pieces", "draw one sentence at a time"
            )
        found = align(translator, one)
        if self.attention and not self.as_json:
            from regard.terminal import draw_weights

            draw_weights(found.weights, found.target_words, found.source_words)
        if self.picture is not None:
            from regard.tasks.translate.pictures import save_alignment

            self.drawn += 1
            number = "" if self.drawn == 1 else f"-{self.drawn}"
            save_alignment(found, self.picture.with_stem(self.picture.stem + number))

    def _values(self, translator: Translator, one: Translation) -> dict[str, Any]:
        values: dict[str, Any] = {"source": one.source, "translation": one.text, "score": round(one.score, 4)}
        if one.alternatives:
            values["alternatives"] = [
                {"translation": text, "score": round(s, 4)} for text, s in one.alternatives
            ]
        if self.attention:
            from regard.tasks.translate import align

            found = align(translator, one)
            values["source_words"], values["target_words"] = found.source_words, found.target_words
            values["attention"] = [[round(float(w), 4) for w in row] for row in found.weights]
        return values


def _write(
    translator: Translator, lines: Iterable[str], options: DecodingOptions, show: _Shower, stream: Any
) -> None:
    """Translate a stream, some lines at a time and in order; say at the end how fast it went."""
    began, count = time.perf_counter(), 0
    for some in _chunks(lines):
        for one in translator.translate(some, options):
            for line in show.lines(translator, one):
                print(line, file=stream)
            show.pictures(translator, one)
        stream.flush()
        count += len(some)
    seconds = time.perf_counter() - began
    if count > 1:
        print(f"{count} sentences in {seconds:.1f} s: {count / seconds:.1f} a second", file=sys.stderr)


def _write_file(
    translator: Translator, lines: Iterable[str], options: DecodingOptions, show: _Shower, out: Path
) -> None:
    from regard.files import write_atomically

    def write(path: Path) -> None:
        with open(path, "w", encoding="utf-8") as stream:
            _write(translator, lines, options, show, stream)

    write_atomically(out, write)


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """As many lines as have come, so that slow ones are answered at once and fast ones together."""
    if isinstance(lines, list):
        yield lines
        return
    queue: Queue[str | Exception | None] = Queue(maxsize=4 * LINES_AT_A_TIME)
    Thread(target=_fill, args=(queue, lines), daemon=True).start()
    ended = False
    while not ended:
        some = [queue.get()]
        while some[-1] is not None and len(some) < LINES_AT_A_TIME and not queue.empty():
            some.append(queue.get())
        ended = some[-1] is None
        ready = [line for line in some if isinstance(line, str)]
        if ready:  # what came before an error is translated before it is told
            yield ready
        for one in some:
            if isinstance(one, Exception):
                raise one


def _fill(queue: Queue[str | Exception | None], lines: Iterable[str]) -> None:
    """Read ahead; what goes wrong is handed on like a line."""
    try:
        for line in lines:
            queue.put(line)
    except Exception as error:
        queue.put(error)
    queue.put(None)
