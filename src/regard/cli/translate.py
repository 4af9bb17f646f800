"""``regard translate``, ``regard models`` and ``regard pack``."""

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

from regard.cli.streams import ClosedStream

if TYPE_CHECKING:
    from regard.decoding import DecodingOptions
    from regard.tasks.translate import Translation, Translator, WordAlignment

__all__ = ["DEVICE", "load_translator", "models", "pack", "translate"]

LINES_AT_A_TIME = 64  # of a stream: enough for batches, few enough to see the first ones soon
LINES_OF_A_FILE = 1024  # nobody waits for the first of these: more of like length go together
DEVICE = typer.Option(None, "--device", help="cpu, cuda, …", show_default="a GPU where there is one")


def translate(
    text: list[str] = typer.Argument(
        None, help="Sentences; or use --file, or pipe lines in.", show_default=False
    ),
    target_language: str = typer.Option(None, "--to", help="Language to translate to.", show_default="fr"),
    source_language: str = typer.Option(
        None, "--from", help="Language to translate from.", show_default="en"
    ),
    model: str = typer.Option(None, "--model", help="A model's name or folder instead of languages."),
    file: Path = typer.Option(None, "--file", help="Translate the lines of a file ('-' for standard input)."),
    out: Path = typer.Option(None, "--out", help="Write the translations to a file instead of the screen."),
    beams: int = typer.Option(
        None, "--beams", help="Hypotheses searched at a time; 1 is fastest.", show_default="5"
    ),
    length_penalty: float = typer.Option(
        None, "--length-penalty", help="Above 1: long translations; below: short.", show_default="1"
    ),
    coverage_penalty: float = typer.Option(
        None, "--coverage-penalty", help="What unattended source words cost.", show_default="0"
    ),
    batch_size: int = typer.Option(
        None,
        "--batch-size",
        min=1,
        help="Sentences translated together; fewer take less memory.",
        show_default="as many as have 3000 tokens",
    ),
    n_best: int = typer.Option(
        1, "--n-best", help="How many translations of each sentence, each with its score."
    ),
    min_length: int = typer.Option(0, "--min-length", help="Tokens of a translation, at least."),
    max_length: int = typer.Option(
        None,
        "--max-length",
        help="Tokens of a translation, at most.",
        show_default="1.5 times the source + 10",
    ),
    sample: bool = typer.Option(
        False, "--sample", help="Draw words by their probability instead of searching."
    ),
    temperature: float = typer.Option(
        None, "--temperature", help="Of sampling: below 1 is safer, above 1 bolder.", show_default="1"
    ),
    top_k: int = typer.Option(
        None, "--top-k", help="Sample from the likeliest words only.", show_default="all"
    ),
    top_p: float = typer.Option(
        None, "--top-p", help="Sample from the words that make up this share.", show_default="1"
    ),
    seed: int = typer.Option(None, "--seed", help="Of sampling.", show_default="0"),
    attention: bool = typer.Option(False, "--attention", help="Draw what each word looked at."),
    save_attention: Path = typer.Option(
        None,
        "--save-attention",
        help="Save that picture: .png, .svg, .pdf or .html; more sentences, more files.",
    ),
    device: str = DEVICE,
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
) -> None:
    """Translate sentences, a file, or what is piped in."""
    search = {"beams": beams, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    common = {"n_best": n_best, "min_length": min_length, "max_length": max_length}
    how = {"options": _options(sample, search, draws, common), "batch_size": batch_size}
    show = _Shower(attention, save_attention, as_json, scored=n_best > 1)
    chunks = _input(text, file, batch_size)
    if out is not None:
        _check_file(out, file)
    translator = load_translator(model, source_language, target_language, device)
    show.check(translator)
    if out is None:
        _write(translator, chunks, how, show, sys.stdout)
    else:
        _write_file(translator, chunks, how, show, out)


def models(as_json: bool = typer.Option(False, "--json", help="One JSON object a line.")) -> None:
    """List the models that are installed, and those in the folders that REGARD_MODELS names."""
    from regard.tasks.translate import installed_models

    found = installed_models()
    if not found and not as_json:
        typer.echo("no models are installed: train one with `regard train translate`")
    for one in found:
        size = one.bytes / 1e6
        if as_json:
            languages = dict(zip(("from", "to"), one.languages, strict=True))
            values = {"name": one.name, "task": one.task, **languages, "megabytes": round(size, 1)}
            others = {"instead_of": [str(path) for path in one.instead_of]} if one.instead_of else {}
            typer.echo(json.dumps({**values, "folder": str(one.folder), **others}, ensure_ascii=False))
        else:
            where = " to ".join(one.languages)
            instead = f"  in {one.folder}, not {one.others}" if one.instead_of else ""
            typer.echo(f"{one.name:16} {one.task}  {where}  {one.kind}  {size:.1f} MB{instead}")


def pack(
    run: Path = typer.Argument(..., help="The folder of a training run, or of a model."),
    out: Path = typer.Option(..., "--out", help="The folder to write."),
    dtype: str = typer.Option("float16", "--dtype", help="float16, bfloat16 or float32."),
    license: str = typer.Option("", "--license", help="What the card says about the licence."),
    data: str = typer.Option("", "--data", help="What the card says about the data."),
    notes: str = typer.Option("", "--notes", help="What the card says about the model's limits."),
    preparation: str = typer.Option("", "--preparation", help="Commands to run before the training."),
    result: list[str] = typer.Option([], "--result", help="A line of the card's table: WHAT=RESULT."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a model that is in the folder."),
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
    make(run, out, dtype=dtype, results=pairs, overwrite=overwrite, **facts)
    size = sum(path.stat().st_size for path in out.iterdir() if path.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB")


def load_translator(
    model: str | None, source: str | None, target: str | None, device: str | None
) -> Translator:
    """The translator that is named, or that is installed for the languages."""
    from regard.errors import ArgumentError
    from regard.tasks.translate import Translator, find_translator

    try:
        folder = find_translator(model, source=source, target=target)
    except ArgumentError as error:  # the languages have other names here: a reader of data calls its files so
        problem = str(error).removeprefix(f"{error.argument}: ")
        raise ArgumentError(f"{error.argument}_language", problem) from None
    translator = Translator.load(folder, device=device)
    for name, wanted in (("source_language", source), ("target_language", target)):
        has = getattr(translator, name)
        if wanted is not None and wanted.lower() != has.lower():
            raise ArgumentError(name, f"the model {model} has {has!r} there, not {wanted!r}", "leave it out")
    return translator


def _options(
    sample: bool, search: dict[str, Any], draws: dict[str, Any], common: dict[str, Any]
) -> DecodingOptions:
    """How to decode; options that the way of decoding has no use for are refused, not ignored."""
    from regard.decoding import DecodingOptions
    from regard.errors import ArgumentError

    unused, fix = (search, "leave out --sample") if sample else (draws, "add --sample")
    for name, value in unused.items():
        if value is not None:
            raise ArgumentError(name, "of no use " + ("in sampling" if sample else "without sampling"), fix)
    given = {name: value for name, value in (draws if sample else search).items() if value is not None}
    if not sample and "beams" not in given:
        given["beams"] = max(5, common["n_best"])
    return DecodingOptions(sample=sample, **common, **given)


def _check_file(path: Path, read: Path | None = None) -> None:
    """Check that a file can be written and is not the one that is read."""
    from regard.errors import ArgumentError
    from regard.files import check_writable

    if read is not None and path.is_file() and read.is_file() and path.samefile(read):
        raise ArgumentError("out", f"{path} is the file to translate", "name another file")
    check_writable(path)


def _input(text: list[str] | None, file: Path | None, batch_size: int | None) -> Iterable[list[str]]:
    """Sentences given on the line, or lines of a file or of standard input, as many at a time as go together."""
    from regard.errors import ArgumentError
    from regard.text import read_lines

    if text and file:
        raise ArgumentError("file", "given besides sentences", "give one of them")
    if text:
        return [text]
    if file is None and (isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty()):
        raise ArgumentError(
            "text", "nothing to translate", 'say it on the line: regard translate "Good morning."'
        )
    if file is None or str(file) == "-":
        return _chunks(read_lines("-"), max(LINES_AT_A_TIME, batch_size or 0))
    return _chunks(read_lines(str(file)), max(LINES_OF_A_FILE, batch_size or 0))


class _Shower:
    """What is shown of each translation."""

    def __init__(self, attention: bool, picture: Path | None, as_json: bool, scored: bool):
        from regard.errors import ArgumentError

        self.attention, self.picture, self.as_json, self.scored = attention, picture, as_json, scored
        self.drawn = 0  # pictures of further sentences are numbered
        if picture is None:
            return
        if picture.suffix.lower() not in (".png", ".svg", ".pdf", ".html"):
            told = f"expected a .png, .svg, .pdf or .html file, got {picture.name}"
            raise ArgumentError("save_attention", told)
        _check_file(picture)

    def check(self, translator: Translator) -> None:
        """See that there is attention to show, before anything is translated."""
        from regard.errors import ArgumentError

        if (self.attention or self.picture) and not translator.attends:
            name = "attention" if self.attention else "save_attention"
            raise ArgumentError(name, "this model has none: it was trained without attention")

    def lines(self, translator: Translator, one: Translation) -> Iterator[str]:
        """The lines to print for one sentence; pictures are drawn below them."""
        drawn = list(self._alignments(translator, one))
        if self.as_json:
            yield json.dumps(self._values(one, drawn), ensure_ascii=False)
        else:
            yield f"{one.text}\t{one.score:.3f}" if self.scored else one.text
            for alternative, score in one.alternatives:
                yield f"{alternative}\t{score:.3f}"
        for _, found in drawn:
            self._draw(found)

    def _alignments(
        self, translator: Translator, one: Translation
    ) -> Iterator[tuple[Translation, WordAlignment]]:
        """What the words looked at: of a long text, in each of its pieces."""
        if not (self.attention or self.picture):
            return
        from regard.tasks.translate import align

        for part in one.parts or (one,):
            if part.text.strip() and part.source.strip():
                yield part, align(translator, part)

    def _draw(self, found: WordAlignment) -> None:
        if self.attention and not self.as_json:
            from regard.terminal import draw_weights

            draw_weights(found.weights, found.target_words, found.source_words)
        if self.picture is not None:
            from regard.tasks.translate.pictures import save_alignment

            self.drawn += 1
            number = "" if self.drawn == 1 else f"-{self.drawn}"
            path = self.picture.with_stem(self.picture.stem + number)
            save_alignment(found, path)
            if number:
                print(f"the picture of another sentence is in {path}", file=sys.stderr)

    def _values(self, one: Translation, drawn: list[tuple[Translation, WordAlignment]]) -> dict[str, Any]:
        values: dict[str, Any] = {"source": one.source, "translation": one.text, "score": round(one.score, 4)}
        values["cut_off"] = one.cut_off
        if one.alternatives:
            values["alternatives"] = [
                {"translation": text, "score": round(s, 4)} for text, s in one.alternatives
            ]
        if self.attention and one.parts:
            values["parts"] = [
                {"source": part.source, "translation": part.text, **_attention_values(found)}
                for part, found in drawn
            ]
        elif self.attention and drawn:
            values |= _attention_values(drawn[0][1])
        return values


def _attention_values(found: WordAlignment) -> dict[str, Any]:
    return {
        "source_words": found.source_words,
        "target_words": found.target_words,
        "attention": [[round(float(w), 4) for w in row] for row in found.weights],
    }


def _write(
    translator: Translator,
    chunks: Iterable[list[str]],
    how: dict[str, Any],
    show: _Shower,
    stream: Any,
) -> None:
    """Translate a stream, some lines at a time and in order; say at the end how fast it went."""
    began, count = time.perf_counter(), 0
    for some in chunks:
        for one in translator.translate(some, **how, first=count):
            for line in show.lines(translator, one):
                print(line, file=stream)
        stream.flush()
        count += len(some)
    seconds = time.perf_counter() - began
    if count > 1:
        print(f"{count} sentences in {seconds:.1f} s: {count / seconds:.1f} a second", file=sys.stderr)


def _write_file(
    translator: Translator, chunks: Iterable[list[str]], how: dict[str, Any], show: _Shower, out: Path
) -> None:
    from regard.files import write_atomically

    def write(path: Path) -> None:
        with open(path, "w", encoding="utf-8") as stream:
            _write(translator, chunks, how, show, stream)

    write_atomically(out, write)


def _chunks(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """As many lines as have come, so that slow ones are answered at once and fast ones together."""
    queue: Queue[str | Exception | None] = Queue(maxsize=4 * most)
    Thread(target=_fill, args=(queue, lines), daemon=True).start()
    ended = False
    while not ended:
        some = [queue.get()]
        while some[-1] is not None and len(some) < most and not queue.empty():
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
