"""``regard view`` and ``regard look``, which show attention in a page."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from regard.errors import renamed
from regard.files import check_writable

__all__ = ["look", "open_page", "show_in_browser", "show_page", "view"]

LANGUAGE = typer.Option(
    "en", "--language", help="Language of the buttons and messages of the page: en or zh."
)


def view(
    record: Path = typer.Argument(..., help="A file of records, as `seen.save(...)` writes it."),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen on."),
    port: int = typer.Option(8765, "--port", help="The port; the next free one if it is taken, 0 for any."),
    open_browser: bool = typer.Option(True, "--open/--no-open", help="Open the page in the browser."),
    allow_network: bool = typer.Option(
        False,
        "--allow-network",
        help="Accept requests of other machines, if --host is an address that they reach.",
    ),
    language: str = LANGUAGE,
) -> None:
    """Serve a page that shows recorded attention of any length, until Ctrl-C."""
    from regard import viewer

    def say(address: str) -> None:
        typer.echo(address)
        typer.echo("Ctrl-C stops the server.", err=True)

    viewer.serve(
        record,
        host,
        port,
        language=language,
        open_browser=open_browser and _has_screen(),
        allow_network=allow_network,
        say=say,
    )


def look(
    text: str = typer.Argument(..., help="The text that the model reads."),
    model: str = typer.Option(
        None, "--model", help="The folder of a model, or the name of an installed one."
    ),
    out: Path = typer.Option(None, "--out", help="Where to write the page; by default a temporary file."),
    open_browser: bool = typer.Option(True, "--open/--no-open", help="Open the page in the browser."),
    language: str = LANGUAGE,
) -> None:
    """Run a model on a text, and show its attention in a page."""
    from regard.tasks import look as record
    from regard.viewer.languages import texts_in

    texts_in(language)  # before the work
    if out is not None:
        with renamed(path="out"):
            check_writable(out)
    records = record(text, model, say=lambda line: typer.echo(line, err=True))
    show_page(records, title=text, out=out, open_browser=open_browser, language=language, is_result=True)


def show_page(
    records: Any,
    *,
    title: str,
    out: Path | None = None,
    open_browser: bool = True,
    images: Any = None,
    language: str = "en",
    is_result: bool = False,
) -> None:
    """Write records as a page, by default into a temporary file, and open it if there is a screen.

    ``images`` are the pictures whose patches are keys, and ``language`` is that of the page, as for
    :func:`regard.viewer.html`. ``is_result`` is that of :func:`open_page`.
    """
    from regard import viewer

    with open_page(out, open_browser=open_browser, is_result=is_result) as path:
        viewer.save_html(records, path, title=title, images=images, language=language)


@contextlib.contextmanager
def open_page(
    out: Path | None = None, *, open_browser: bool = True, is_result: bool = False
) -> Iterator[Path]:
    """Return a context manager that gives the path of a page to write, by default a temporary file.

    At its end it prints the path, and opens the page if there is a screen. The path goes to standard output if the
    page ``is_result`` of the command. Otherwise it goes to standard error, beside the results.
    """
    path = Path(tempfile.mkdtemp(prefix="regard-")) / "look.html" if out is None else out
    yield path
    typer.echo(str(path), err=not is_result)
    if open_browser:
        show_in_browser(path)


def show_in_browser(path: Path) -> None:
    """Open a page in the browser, if there is a screen."""
    if _has_screen():
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def _has_screen() -> bool:
    """Return whether a browser can be shown."""
    screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return screen or os.name == "nt" or sys.platform == "darwin"
