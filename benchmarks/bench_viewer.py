"""The viewer: sizes of pages, and a map of 100,000 tokens behind the server.

Run alone on an idle machine. The overview of the long map is one pass over ten billion weights: minutes, not seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import torch

import regard
from regard.maps import AttentionMap, Record
from regard.viewer.application import OVERVIEW_SIDE, TILE_SIDE


def one_map(heads: int, tokens: int, width: int) -> AttentionMap:
    q, k = torch.randn(2, 1, heads, tokens, width).unbind()
    v = torch.zeros(1, heads, tokens, 1)
    return regard.attention(q, k, v, mask=regard.causal(), return_map=True)[1]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def pages() -> None:
    for width, limit in ((32, 15), (64, 28)):
        records = [
            Record(name=f"layers.{n}", layer=n, kind="causal", map=one_map(12, 512, width)) for n in range(12)
        ]
        start = time.perf_counter()
        size = len(regard.viewer.html(records).encode()) / 1e6
        took = time.perf_counter() - start
        print(
            f"page, 12 layers x 12 heads x 512 tokens, width {width}: {size:.1f} MB (limit {limit}), {took:.1f} s"
        )


@contextlib.contextmanager
def served(record: Record) -> Iterator[Callable[[str], float]]:
    """A server as `regard view` runs it; gives a function that asks and says how much of an overview is done."""
    import uvicorn

    from regard.viewer import server
    from regard.viewer.application import Viewer

    listening = server.free_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    viewer = Viewer([record], token="bench", hosts=server._names("127.0.0.1", port))
    running = uvicorn.Server(server._limited(viewer))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()

    def ask(what: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/bench/{what}") as reply:
            reply.read()
            return float(reply.headers.get("X-Regard-Done", 1))

    try:
        yield ask
    finally:
        running.should_exit = True
        thread.join()
        viewer.close()
        listening.close()


def long_map(tokens: int, overview: bool) -> None:
    record = Record(name="long", layer=0, kind="causal", map=one_map(1, tokens, 64))
    with served(record) as ask:
        times = []
        for n in range(20):
            at = (n * 7919) % (tokens // TILE_SIDE)
            start = time.perf_counter()
            ask(f"tile?record=0&b=0&h=0&pool=1&row={at}&col={at}")
            times.append(time.perf_counter() - start)
        print(
            f"tile of {TILE_SIDE} x {TILE_SIDE} of {tokens:,} tokens: median {1e3 * sorted(times)[10]:.1f} ms"
        )
        start = time.perf_counter()
        while overview and ask(f"overview?record=0&b=0&h=0&side={OVERVIEW_SIDE}") < 1:
            time.sleep(0.6)  # as often as the page looks
        if overview:
            print(f"overview of {tokens:,} tokens, through the server: {time.perf_counter() - start:.0f} s")
    print(f"peak of resident memory: {peak_megabytes():,.0f} MB (limit 2,000)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--no-overview", action="store_true", help="leave out the long pass")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    pages()
    for tokens in (arguments.tokens // 10, arguments.tokens):  # the cost of a tile does not grow with the map
        long_map(tokens, tokens == arguments.tokens and not arguments.no_overview)


if __name__ == "__main__":
    main()
