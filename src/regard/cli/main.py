"""The command line itself: its commands, its exit codes and how it speaks of errors.

0 is success, 1 a failure, 2 a wrong call, 130 an interruption. An error is one line on standard error;
``--debug`` adds the traceback.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import typer

from regard import __version__
from regard.cli import doctor, evaluate, tour, train, translate, view
from regard.cli.option_files import command_of, refuse_empty_values, with_option_files

__all__ = ["app", "main"]

app = typer.Typer(
    name="regard",
    help="Build any attention mechanism, train with it, and see what a model attends to.",
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.command("tour")(tour.tour)
app.command("translate")(translate.translate)
app.add_typer(train.train, name="train")
app.add_typer(evaluate.evaluate, name="evaluate")
app.command("look")(view.look)
app.command("view")(view.view)
app.command("pack")(translate.pack)
app.command("models")(translate.models)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    options: str = typer.Option(
        None, "--options", help="A YAML, TOML or JSON file with options of the command; the line wins."
    ),
) -> None:
    """Print the version or the help where no command is given (the help above is the one shown)."""
    del debug, options  # taken out by main(), where they may stand anywhere; declared here for the help
    if version:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


start.__doc__ = app.info.help


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)  # what follows is no option
    debug = "--debug" in words[:end]
    words = [word for word in words[:end] if word != "--debug"] + words[end:]
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot write 猫 gets an escape, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        words = with_option_files(typer.main.get_command(app), words)
        refuse_empty_values(typer.main.get_command(app), words)
        code = app(words, prog_name="regard", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # newer typers answer an interruption themselves, and silently
            _say("interrupted", 130)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("interrupted", 130)
    except BrokenPipeError:  # the reader has gone (`regard tour | head`): there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = _report(error, words, debug)
    _end(code if isinstance(code, int) else 0)


def _end(code: int) -> NoReturn:
    """Leave; at once, where threads of torch's would go on while Python ends (see has_met_others)."""
    distributed = sys.modules.get("regard.training.distributed")
    if distributed is not None and distributed.has_met_others():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def _report(error: Exception, words: list[str], debug: bool) -> int:
    """One line for an error: what a user did wrong in plain words, anything else with its kind."""
    from regard.errors import ArgumentError, FileError, Interrupted, RegardError

    if isinstance(error, typer.Exit):
        return error.exit_code
    usage = getattr(error, "format_message", None)  # the errors of the command line's parser have one
    if usage is not None:
        command = getattr(getattr(error, "ctx", None), "command_path", "regard")
        return _say(f"{usage()} (see {command} --help)", getattr(error, "exit_code", 2))
    if isinstance(error, ArgumentError) and (flag := _flag(error.argument, words)):
        return _say(flag + str(error).removeprefix(error.argument), 2)
    if isinstance(error, FileError | ArgumentError):
        return _say(_as_on_the_line(str(error), words), 1)
    if isinstance(error, RegardError):
        return _say(str(error), 130 if isinstance(error, Interrupted) else 1)
    hint = "" if debug else " (--debug shows where)"
    return _say(f"{type(error).__name__}: {error}{hint}", 1)


def _flag(argument: str, words: list[str]) -> str:
    """What an argument is called on the command line; nothing, if the command has no such option."""
    if argument == "options":
        return "--options"
    command, _ = command_of(typer.main.get_command(app), words)
    for one in command.params:
        if one.name == argument:
            return max(one.opts, key=len) if one.opts[0].startswith("-") else one.name.upper()
    return ""


def _as_on_the_line(message: str, words: list[str]) -> str:
    """What is said of a file, with the option that names the file instead of the argument inside the program."""
    argument, sign, rest = message.partition(": ")
    if not sign or not argument.isidentifier():
        return message
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    pairs = itertools.pairwise(split)
    option = next((one for one, value in pairs if one.startswith("--") and _names(value, rest)), None)
    return f"{option}: {rest}" if option else rest


def _names(value: str, text: str) -> bool:
    """Whether a text speaks of a value as a whole: "fr" is not in "from.txt"."""
    return re.search(rf"(?<![\w/.-]){re.escape(value)}(?![\w/-])", text) is not None


def _say(message: str, code: int) -> int:
    print("regard: " + " ".join(message.split()), file=sys.stderr)
    return code
