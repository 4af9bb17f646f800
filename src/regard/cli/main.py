"""The command line itself, with its commands, exit codes and error messages.

The exit code is 0 for success, 1 for a failure, 2 for a wrong call, 130 for an interruption (Ctrl-C) and 143 for
SIGTERM. An error is one line on standard error. ``--debug`` adds the traceback.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from regard import __version__
from regard.cli import (
    answer,
    caption,
    classify,
    classify_image,
    doctor,
    encode,
    evaluate,
    export,
    glimpse,
    learn,
    models,
    summarize,
    tour,
    train,
    translate,
    view,
    write,
)
from regard.cli.environment import plain_warnings, prepare_streams, read_arguments, say, undecoded
from regard.cli.option_files import check_flags, command_of, with_option_files
from regard.errors import ArgumentError, Interrupted, RegardError

__all__ = ["app", "flag_of", "in_flags", "main"]

app = typer.Typer(
    name="regard",
    help="Build any attention mechanism, train with it, and see what a model attends to.",
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.command("tour")(tour.tour)
app.command("learn")(learn.learn)
app.command("translate")(translate.translate)
app.command("classify")(classify.classify)
app.command("classify-image")(classify_image.classify_image)
app.command("answer")(answer.answer)
app.command("summarize")(summarize.summarize)
app.command("encode")(encode.encode)
app.command("similar")(encode.similar)
app.command("write")(write.write)
app.command("caption")(caption.caption)
app.command("scenes")(caption.scenes)
app.command("glimpse")(glimpse.glimpse)
app.add_typer(train.train, name="train")
app.add_typer(evaluate.evaluate, name="evaluate")
app.command("look")(view.look)
app.command("view")(view.view)
app.command("pack")(models.pack)
app.command("export")(export.export)
app.command("models")(models.models)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    options: str = typer.Option(
        None,
        "--options",
        help="A YAML, TOML or JSON file with options. The command line overrides them.",
    ),
) -> None:
    """Print the version, or the help if no command is given.

    The help of the app replaces this text.
    """
    # main() reads both before typer does, because they may stand anywhere. They are declared here for the help.
    del debug, options
    if version:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


start.__doc__ = app.info.help


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and leave with its exit code."""
    words = read_arguments() if arguments is None else list(arguments)
    end = words.index("--") if "--" in words else len(words)  # what follows is no option
    debug = "--debug" in words[:end]
    words = [word for word in words[:end] if word != "--debug"] + words[end:]
    prepare_streams(words)
    with plain_warnings():
        code = _run(words, debug)
    _end(code)


def _run(words: list[str], debug: bool) -> int:
    """Run a command and return its exit code. An error is printed as one line."""
    try:
        words = with_option_files(typer.main.get_command(app), words)
        check_flags(typer.main.get_command(app), words)
        code = app(words, prog_name="regard", standalone_mode=False)
        sys.stdout.flush()
        # Newer versions of typer return this after an interruption and print nothing.
        if code == 130:
            say("interrupted")
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return 130
    except BrokenPipeError:
        # The process that reads the output has ended, as in `regard tour | head`.
        _drop_output()
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _is_of_output(error):
            message, code = f"cannot write to standard output: {getattr(error, 'strerror', None) or error}", 1
        else:
            message, code = _in_words(error, words, debug)
        if message:
            say(message)
        if _output_fails():
            _drop_output()
        return code


def _is_of_output(error: Exception) -> bool:
    """Return whether an error is that standard output cannot be written, as on a full disk."""
    if not isinstance(error, OSError) or isinstance(error, RegardError) or error.filename is not None:
        return False
    # What could not be written is still in the buffer. Without a buffer, the reason has to tell.
    is_unbuffered = getattr(sys.stdout, "write_through", False)
    return _output_fails() or (is_unbuffered and error.errno in (errno.ENOSPC, errno.EIO))


def _output_fails() -> bool:
    """Return whether what is left of standard output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _drop_output() -> None:
    """Send what is left of standard output nowhere, so that Python does not try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(code: int) -> NoReturn:
    """End the process, at once if threads of torch would go on while Python ends (see has_met_others)."""
    distributed = sys.modules.get("regard.training.distributed")
    if distributed is not None and distributed.has_met_others():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def _in_words(error: Exception, words: list[str], debug: bool) -> tuple[str, int]:
    """Return the message of an error and the exit code."""
    if isinstance(error, typer.Exit):
        return "", error.exit_code
    usage = getattr(error, "format_message", None)  # the errors of the command line's parser have one
    if usage is not None:
        command = getattr(getattr(error, "ctx", None), "command_path", "regard")
        told = f"{usage()}{_wrong_value(error, words)}{_misplaced_file(usage(), words)}"
        return f"{told} (see {command} --help)", getattr(error, "exit_code", 2)
    command = _command(words)
    if isinstance(error, Interrupted):
        return str(error), 128 + error.signal
    if isinstance(error, RegardError):
        named = isinstance(error, ArgumentError) and (
            flag_of(error.argument, command) or error.argument == "task"
        )
        return in_flags(error, command), 2 if named else 1
    if isinstance(error, UnicodeEncodeError) and (word := undecoded(words)):
        return f"not UTF-8: {word}: write it in UTF-8, or put it into a file", 2
    hint = "" if debug else " (--debug shows where)"
    return f"{type(error).__name__}: {error}{hint}", 1


def _wrong_value(error: Exception, words: list[str]) -> str:
    """Return the value that the parser rejected, for the end of its message, or "" if the message has it."""
    message = error.format_message()  # type: ignore[attr-defined]
    if not message.startswith("Invalid value for"):
        return ""
    for flag in getattr(getattr(error, "param", None), "opts", ()):
        for word, following in zip(words, [*words[1:], ""], strict=True):
            value = following if word == flag else word.removeprefix(f"{flag}=")
            if (word == flag or word.startswith(f"{flag}=")) and repr(value) not in message:
                return f": got {value!r}"
    return ""


def _misplaced_file(message: str, words: list[str]) -> str:
    """Return how to name a file, for the end of a message about an extra argument, or "" if that is not the mistake."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", message.replace("(s)", ""))
    if (
        extra is None
        or not flag_of("file", _command(words))
        or any(word.startswith("--file") for word in words)
    ):
        return ""
    return f": to read a file, say --file {shlex.quote(extra[1])}"


def _command(words: list[str]) -> Any:
    """Return the command that words call, or the whole command line if its task cannot be imported."""
    group = typer.main.get_command(app)
    try:
        return command_of(group, words)[0]
    except Exception:  # the same error is being reported
        return group


# Errors with the flags of a command in place of the names of Python arguments


def flag_of(argument: str, command: Any) -> str:
    """Return the flag of an argument, or its name in capitals if it has no flag, or "" if there is no such argument."""
    if argument == "options":
        return "--options"
    for parameter in command.params:
        if parameter.name == argument:
            is_option = parameter.opts[0].startswith("-")
            if not is_option:
                return parameter.name.upper()
            return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
    return ""


def in_flags(error: RegardError, command: Any) -> str:
    """Return the message of an error, with a flag for its argument and for each option that it mentions."""
    parameters = {parameter.name: parameter for parameter in command.params}

    def spell(name: str, value: str) -> str:
        flag = flag_of(name, command)
        if not flag:
            return f"{name}={value}"
        if value == "False" and parameters[name].secondary_opts:
            return parameters[name].secondary_opts[0]
        if value == "True" and parameters[name].is_flag:
            return flag
        return f"{flag} {value}".rstrip()

    message = error.in_words(spell)
    flag = flag_of(error.argument, command) if error.argument else ""
    if flag:
        return f"{flag}: {message}"
    # The path that a function was given is in the message. The name of its argument means nothing to the user.
    return message if error.argument in (None, "path", "folder") else f"{error.argument}: {message}"
