"""``regard write``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from regard.cli import streams
from regard.cli.environment import ClosedStream, say
from regard.errors import ArgumentError, UnknownNameError, option, renamed

__all__ = ["write"]

DTYPES = ("float32", "bfloat16", "int8")
TITLE = "Attention with which each word was written, last layer, mean of the heads"


def write(
    text: list[str] = typer.Argument(
        None,
        help="Prompts. Without them, the lines of --file or of a pipe are read, or there is no prompt.",
        show_default=False,
    ),
    model: str = streams.MODEL,
    file: Path = typer.Option(
        None, "--file", help="A file with a prompt in each line ('-' for standard input)."
    ),
    whole: bool = typer.Option(False, "--whole", help="Read the file or standard input as one prompt."),
    out: Path = streams.OUT,
    max_tokens: int = typer.Option(200, "--max-tokens", help="Tokens to write, at most."),
    temperature: float = typer.Option(
        0.8, "--temperature", help="Below 1 more predictable, above 1 more varied, 0 for the likeliest token."
    ),
    top_k: int = typer.Option(0, "--top-k", help="Draw from so many of the likeliest tokens, 0 for all."),
    top_p: float = typer.Option(1.0, "--top-p", help="Draw from the likeliest tokens with this probability."),
    min_p: float = typer.Option(
        0.0, "--min-p", help="Leave out tokens below this share of the probability of the likeliest."
    ),
    repetition_penalty: float = typer.Option(
        1.0, "--repetition-penalty", help="Above 1 makes tokens that were read or written less likely."
    ),
    seed: int = typer.Option(
        0, "--seed", help="Seed of the random numbers. The same seed gives the same text."
    ),
    stop: list[str] = typer.Option(
        [], "--stop", help="End before this text; may be given several times.", show_default=False
    ),
    samples: int = typer.Option(1, "--samples", help="Texts to write for each prompt."),
    when_full: str = typer.Option(
        "slide",
        "--when-full",
        help="When the context is full: slide (forget the older half) or stop.",
    ),
    chat: bool = typer.Option(
        False, "--chat", help="Prompts are messages of a conversation that is answered."
    ),
    system: str = typer.Option(None, "--system", help="With --chat: instructions before the conversation."),
    scores: bool = typer.Option(False, "--scores", help="Show the perplexity of each text."),
    attention: bool = streams.ATTENTION,
    save_attention: Path = streams.SAVE_ATTENTION,
    look: bool = streams.LOOK,
    device: str = streams.DEVICE,
    dtype: str = typer.Option(
        "float32", "--dtype", help="Weights in float32, or faster in bfloat16 or int8, with rounding errors."
    ),
    as_json: bool = streams.AS_JSON,
) -> None:
    """Write on after each prompt, token by token as they come."""
    output = streams.Output(as_json, scores, attention, save_attention, look, TITLE)
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k}
    options |= {"top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty, "seed": seed}
    options |= {"stop": stop, "when_full": when_full}
    _check(chat, system, samples, whole, text, temperature)
    streams.check_out(out, file, "write")
    prompts = _prompts(text, file, whole=whole, chat=chat)
    _check_dtype(dtype)
    writer = streams.load_predictor("write", model, device)
    writer.round_weights(dtype)
    output.check(writer)
    talk = _conversation(writer, prompts, system, options) if chat else None
    asked = talk or _streams(writer, prompts, samples, options)
    count = len(prompts) if isinstance(prompts, list) else streams.counted_lines(file)
    total = None if count is None else count * samples
    with renamed(prompt="text", path="file"):
        streams.write_results(
            out, lambda results: _show(writer, asked, output, results), noun="texts", total=total
        )


def _check(
    chat: bool, system: str | None, samples: int, whole: bool, text: list[str] | None, temperature: float
) -> None:
    """Reject options that have no effect."""
    if samples < 1:
        raise ArgumentError("samples", f"expected 1 or more, got {samples}")
    if system is not None and not chat:
        raise ArgumentError("system", f"of no use without {option('chat', True)}", "leave it out")
    if chat and samples > 1:
        raise ArgumentError("samples", f"of no use with {option('chat', True)}", "leave it out")
    if samples > 1 and temperature == 0:
        problem = f"of no use with {option('temperature', 0)}, which gives equal texts"
        raise ArgumentError("samples", problem, "leave out one of them")
    if whole and text:
        raise ArgumentError("whole", "of no use with a prompt on the command line", "leave it out")


def _check_dtype(dtype: str) -> None:
    """Raise UnknownNameError for another dtype, before a model is loaded."""
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)


def _prompts(text: list[str] | None, file: Path | None, *, whole: bool, chat: bool) -> Iterable[str]:
    """Return the prompts of the line, of a file or of standard input, or an empty one if there is none."""
    if whole:
        from regard.text.lines import check_readable, whole_text

        place = "-" if file is None else str(file)
        with renamed(path="file"):
            check_readable("path", place)
            return [whole_text("path", place)]
    silent = isinstance(sys.stdin, ClosedStream) or sys.stdin.isatty()
    if not text and file is None and silent:
        return _typed() if chat and not isinstance(sys.stdin, ClosedStream) else [""]
    chunks = streams.input_chunks(text, file, verb="write")
    return list(text) if text else _read(itertools.chain.from_iterable(chunks), chat=chat)


def _read(lines: Iterable[str], *, chat: bool) -> Iterator[str]:
    """Yield the lines of a file or a pipe, without the blank ones in a conversation.

    If there are none, a line on standard error says so. Then one empty prompt is yielded, but no empty message.
    """
    empty = True
    for line in lines:
        if line.strip() or not chat:
            empty = False
            yield line
    if empty and chat:
        say("the input is empty: there is no message to answer")
    elif empty:
        say("the input is empty: the text begins without a prompt")
        yield ""


def _typed() -> Iterator[str]:
    """Yield the lines that a user types, until the end of the input."""
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        if line.strip():
            yield line.rstrip("\n")


def _streams(writer: Any, prompts: Iterable[str], samples: int, options: dict[str, Any]) -> Iterator[Any]:
    """Yield a stream for each sample of each prompt."""
    number = 0
    for prompt in prompts:
        unknown = writer.unknown(prompt)
        if unknown:
            shown = ", ".join(map(repr, unknown[:5]))
            say(f"the model does not know {shown}: it reads an unknown token in each place")
        for _ in range(samples):
            yield writer.stream(prompt, number=number, **options)
            number += 1


def _conversation(
    writer: Any, prompts: Iterable[str], system: str | None, options: dict[str, Any]
) -> Iterator[Any]:
    """Yield the stream of the answer to each message, which is part of the conversation from then on."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    for prompt in prompts:
        messages.append({"role": "user", "content": prompt})
        stream = writer.reply(messages, **options)
        yield stream
        messages.append({"role": "assistant", "content": stream.finish().text})


def _show(writer: Any, asked: Iterable[Any], output: streams.Output, results: streams.Results) -> None:
    """Write each text to a file or to the screen while it is written, and then draw its attention."""
    target = results.stream
    for number, stream in enumerate(asked):
        stream.check_prompt()
        if output.as_json:
            for line in output.lines(writer, stream.finish()):
                print(line, file=target, flush=True)
        else:
            if number:
                print(file=target)
            print(stream.prompt if stream.whole else "", end="", file=target, flush=True)
            for piece in stream:
                print(piece, end="", file=target, flush=True)
            print(file=target, flush=True)
            if output.scores:
                print(f"perplexity {stream.finish().perplexity:.2f}", file=target)
            output.show(writer, stream.finish())
        results.count(1)
        _report(writer, stream)


def _report(writer: Any, stream: Any) -> None:
    """Say if the prompt did not fit, or if the context was full."""
    found, most = stream.finish(), writer.context
    if found.cut_off:
        count = len(stream.start) + len(found.token_ids)
        say(f"the prompt has {count} tokens and the model reads {most}: its beginning was not read")
    if found.slid:
        say(f"the model reads {most} tokens: it forgot the older ones when they were full")
    if found.ended == "full":
        say(f"stopped: the context of {most} tokens is full")
