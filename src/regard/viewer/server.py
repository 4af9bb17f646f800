"""A local server for maps that are too large to embed, which sends only the parts that the page shows.

It listens on the loopback address. Its URL contains a random token, and requests without the token or from other pages
are refused. Responses are computed from the records alone, so no file on the disk can be requested.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ArgumentError, MissingExtraError, option
from regard.maps import Record
from regard.maps.record_files import load_records
from regard.shapes import whole_number
from regard.viewer.languages import texts_in

if TYPE_CHECKING:
    import uvicorn

    from regard.viewer.application import Viewer

__all__ = ["free_socket", "serve"]

PORT = 8765
PORTS_TRIED = 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# For each host that stands for all addresses: its family, a remote address that finds the local address on the route to
# it, and the loopback address.
EVERYWHERE = {
    "0.0.0.0": (socket.AF_INET, "192.0.2.1", "127.0.0.1"),
    "::": (socket.AF_INET6, "2001:db8::1", "::1"),
}


def serve(
    path_or_records: str | os.PathLike | Sequence[Record],
    host: str = "127.0.0.1",
    port: int = PORT,
    *,
    title: str | None = None,
    images: object = None,
    language: str = "en",
    open_browser: bool = False,
    allow_network: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve records, or a file of records, until Ctrl-C.

    ``say`` is called with the URL, and by default prints it. If ``port`` is in use, the next free one is taken, and 0
    takes any. ``title`` is by default the name of the file. ``images`` and ``language`` are as for
    :func:`regard.viewer.html`. A ``host`` that other machines can reach needs ``allow_network=True``. Everyone who
    knows the URL can then see the maps.
    """
    _check_host(host, allow_network)
    texts = texts_in(language)
    if not 0 <= whole_number("port", port) <= 65535:
        raise ArgumentError("port", f"expected 0 to 65535, got {port}")
    uvicorn = _uvicorn()
    from regard.viewer.application import Viewer, named

    records, name = _records(path_or_records)
    listening = free_socket(host, port)
    port = listening.getsockname()[1]
    viewer = Viewer(
        records,
        token=secrets.token_urlsafe(24),
        hosts=_names(host, port),
        title=(texts.title if name is None else name) if title is None else title,
        images=images,
        language=language,
    )
    address = f"http://{min(named(_reached_at(host), port), key=len)}/{viewer.token}/"
    say(address)
    if open_browser:
        _open(address)
    try:
        uvicorn.Server(_limited(viewer)).run(sockets=[listening])
    except KeyboardInterrupt:
        # Uvicorn raises it once more after it has stopped.
        pass
    finally:
        viewer.close()
        listening.close()


def _records(given: str | os.PathLike | Sequence[Record]) -> tuple[Sequence[Record], str | None]:
    if isinstance(given, str | os.PathLike):
        return load_records(given), Path(given).name
    return given, None


def _check_host(host: str, allow_network: bool) -> None:
    if host not in LOOPBACK and not allow_network:
        raise ArgumentError(
            "host",
            f"{host!r} can be reached from other machines",
            f"use 127.0.0.1, or give {option('allow_network', True)} to allow that",
        )


def _names(host: str, port: int) -> frozenset[str]:
    """Return the Host headers that the server accepts.

    Any other name may belong to a foreign page. The application adds the address of each connection itself.
    """
    from regard.viewer.application import named

    known = {host, *LOOPBACK} if host in LOOPBACK or host in EVERYWHERE else {host}
    if host in EVERYWHERE:
        known.add(socket.gethostname())
    return frozenset().union(*(named(name, port) for name in known))


def _reached_at(host: str) -> str:
    """Return the address for the URL, which is the one on the network if the server listens on all addresses."""
    if host not in EVERYWHERE:
        return host
    family, elsewhere, own = EVERYWHERE[host]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing, but chooses the local address.
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:  # no network
            return own


def _limited(viewer: Viewer) -> uvicorn.Config:
    """Return the settings of uvicorn, which limit connections, the length of requests and the time to stop."""
    return _uvicorn().Config(
        viewer.app, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=2,
        lifespan="off", ws="none", interface="asgi3", proxy_headers=False, limit_concurrency=64,
        http="h11", h11_max_incomplete_event_size=16_384,  # the other parser has no limit
    )  # fmt: skip


def free_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this port, or on the first free port after it.

    After 20 ports in use, and for port 0, any free port is taken. ArgumentError is raised if the host has none.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in [port, *range(port + 1, min(port + PORTS_TRIED, 65536)), 0] if port else [0]:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A port that was closed a moment ago may be reused.
            if sys.platform != "win32":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, candidate))
            made.listen(128)
            return made
        except OSError as error:
            made.close()
            last = error
    raise ArgumentError("host", f"cannot listen on {host!r}: {last}")


def _open(address: str) -> None:
    import threading
    import webbrowser

    threading.Timer(0.5, webbrowser.open, [address]).start()


def _uvicorn():
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtraError("starlette and uvicorn", "view", "the viewer's server") from None
    return uvicorn
