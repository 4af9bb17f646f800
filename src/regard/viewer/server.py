"""A server on this machine for maps too large to embed: it sends the page, then only what is looked at.

It listens on the loopback address, its address holds a random token, and it answers nobody who does not know that
token or who comes from another page. Every answer is computed from the record; nothing else on the disk can be asked
for.
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

if TYPE_CHECKING:
    import uvicorn

    from regard.viewer.application import Viewer

__all__ = ["free_socket", "serve"]

PORT = 8765
PORTS_TRIED = 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Hosts that mean every address: one that is far away, to find which of ours faces it, and the one that is always there.
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
    open_browser: bool = False,
    allow_network: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve a file of records, or records, until Ctrl-C; ``say`` gets the address to open.

    A port that is taken is passed over for the next free one; 0 asks for any. Another ``host`` than this machine's
    own needs ``allow_network=True``: whoever knows the address then sees the maps.
    """
    _check_host(host, allow_network)
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
        title=name if title is None else title,
        images=images,
    )
    address = f"http://{min(named(_reached_at(host), port), key=len)}/{viewer.token}/"
    say(address)
    if open_browser:
        _open(address)
    try:
        uvicorn.Server(_limited(viewer)).run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it once more after it has stopped
        pass
    finally:
        viewer.close()
        listening.close()


def _records(given: str | os.PathLike | Sequence[Record]) -> tuple[Sequence[Record], str]:
    if isinstance(given, str | os.PathLike):
        return load_records(given), Path(given).name
    return given, "Attention"


def _check_host(host: str, allow_network: bool) -> None:
    if host not in LOOPBACK and not allow_network:
        raise ArgumentError(
            "host",
            f"{host!r} can be reached from other machines",
            f"use 127.0.0.1, or say {option('allow_network', True)} if that is what you want",
        )


def _names(host: str, port: int) -> frozenset[str]:
    """What a browser may call this server; any other name is a page elsewhere that points here.

    The address that a connection arrives on is known to the application itself.
    """
    from regard.viewer.application import named

    known = {host, *LOOPBACK} if host in LOOPBACK or host in EVERYWHERE else {host}
    if host in EVERYWHERE:
        known.add(socket.gethostname())
    return frozenset().union(*(named(name, port) for name in known))


def _reached_at(host: str) -> str:
    """An address to open: where the server listens everywhere, the one that faces the network."""
    if host not in EVERYWHERE:
        return host
    family, elsewhere, own = EVERYWHERE[host]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))  # nothing is sent: it only asks which way it would go
            return str(probe.getsockname()[0])
        except OSError:  # no network
            return own


def _limited(viewer: Viewer) -> uvicorn.Config:
    """How the application is run: quietly, with a bound on connections, on the length of a request and on stopping."""
    return _uvicorn().Config(
        viewer.app, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=2,
        lifespan="off", ws="none", interface="asgi3", proxy_headers=False, limit_concurrency=64,
        http="h11", h11_max_incomplete_event_size=16_384,  # the other parser knows no bound
    )  # fmt: skip


def free_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on this port, or on the first of those after it that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in [port, *range(port + 1, min(port + PORTS_TRIED, 65536)), 0] if port else [0]:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            if sys.platform != "win32":  # a port that was left a moment ago may be taken again
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
