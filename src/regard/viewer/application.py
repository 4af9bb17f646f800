"""What the server answers: the page, and pieces of the maps; everything else with a refusal that says no more."""

from __future__ import annotations

import hmac
import json
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.maps import Record
from regard.maps.image_windows import ImageWindows
from regard.maps.sources import HeadMean, Recomputed, Selected, Source, Tile
from regard.viewer import assets
from regard.viewer.encoding import without_selections
from regard.viewer.page import page_of
from regard.viewer.payload import checked_records, remote, source_of
from regard.viewer.tiles import HIDDEN, Overview, one_head, pooled_tile, visible_weights

__all__ = ["Refused", "Viewer"]

TILE_SIDE = 512
POOLS = (1, 2, 4)  # weights to a side of a cell; what is coarser is in the overview
SQUARE_SIDE = 64  # a small tile, for a few single weights of many heads
OVERVIEW_SIDE = 1024
THUMBNAIL_SIDE = 64
MEAN_QUERIES = 1024  # of which a mean is taken, evenly spread; the page's number stands in sources.js
MEAN_AT_ONCE = 2**22  # weights
SUMMED_AT_ONCE = 2**28  # scores; the row sums of larger maps are worked out when they are first needed
LONGEST_NUMBER = 9  # digits


class Refused(Exception):
    """A request that gets a status code and a short line instead of an answer."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status, self.why = status, why


class Viewer:
    """The application of one server: its records, its token, and the names it goes by."""

    def __init__(
        self,
        records: Sequence[Record],
        *,
        token: str,
        hosts: frozenset[str],
        title: str | None = None,
        images: object = None,
    ):
        self.records = checked_records(records)
        self.sources = [without_selections(source_of(record.map)) for record in self.records]
        self.token, self.hosts = token, hosts
        self.page = page_of(remote(self.records, title=title, images=images), connect="'self'").encode(
            "utf-8"
        )
        self.overviews = Overviews()
        self._summing = threading.Lock()
        for source in self.sources:
            if math.prod(source.grid) <= SUMMED_AT_ONCE:
                sum_rows(source)

    def close(self) -> None:
        """Stop what is still being computed."""
        self.overviews.stop()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application as a server calls it."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        """Every request comes through here, whatever its path and method."""
        try:
            name = self._checked(request)
            if name == "":
                response = Response(self.page, media_type="text/html; charset=utf-8")
            else:
                response = await run_in_threadpool(self._piece, name, _numbers(request, name))
        except Refused as refused:
            response = Response(refused.why, refused.status, media_type="text/plain; charset=utf-8")
            if refused.status == 405:
                response.headers["Allow"] = "GET, HEAD"
        response.headers.update(self._headers())
        return response

    def _checked(self, request: Request) -> str:
        """Who asks, and for what; a wrong token is told the same as a wrong path."""
        names = self.hosts | _arrived_at(request.scope)
        if request.headers.get("host", "").lower() not in names or len(request.headers.getlist("host")) != 1:
            raise Refused(421, "this server does not go by that name")
        origins = request.headers.getlist("origin")
        if any(origin.lower().removeprefix("http://") not in names for origin in origins):
            raise Refused(403, "asked for by another page")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "asked for by another page")
        parts = request.scope["path"].split("/")
        if len(parts) != 3 or parts[0]:
            raise Refused(404, "not found")
        known = hmac.compare_digest(parts[1].encode("utf-8", "replace"), self.token.encode("ascii"))
        if not known or parts[2] not in ("", *ANSWERS):
            raise Refused(404, "not found")
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "only GET")
        return parts[2]

    def _headers(self) -> dict[str, str]:
        policy = assets.security_policy(assets.page_script(), connect="'self'")
        return {
            "Content-Security-Policy": policy + "; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    # ---- pieces of maps

    def _piece(self, name: str, asked: dict[str, int]) -> Response:
        """A piece of a map whose row sums are there: several threads ask, one of them works them out."""
        self._shape(asked)
        with self._summing:
            sum_rows(self.sources[asked["record"]])
        return ANSWERS[name](self, asked)

    def tile(self, asked: dict[str, int]) -> Response:
        """A tile of 512 x 512 cells; its cost depends on the tile, not on the map."""
        if asked["pool"] not in POOLS:
            raise Refused(400, f"pool: expected one of {POOLS}")
        return self._part(asked, TILE_SIDE, asked["pool"])

    def square(self, asked: dict[str, int]) -> Response:
        """A tile of 64 x 64 weights."""
        return self._part(asked, SQUARE_SIDE, 1)

    def _part(self, asked: dict[str, int], side: int, pool: int) -> Response:
        record, (_, _, q, k) = asked["record"], self._shape(asked)
        row, col = asked["row"], asked["col"]
        span = side * pool
        if row * span >= q or col * span >= k:
            raise Refused(400, "row, col: outside the map")
        rows = slice(row * span, min(q, (row + 1) * span))
        cols = slice(col * span, min(k, (col + 1) * span))
        return _floats(pooled_tile(self.sources[record], asked["b"], asked["h"], rows, cols, pool))

    def row(self, asked: dict[str, int]) -> Response:
        """All weights of one query."""
        _, _, q, k = self._shape(asked)
        i = _below("i", asked["i"], q)
        source, head = one_head(self.sources[asked["record"]], asked["h"])
        tile = Tile(slice(asked["b"], asked["b"] + 1), slice(head, head + 1), slice(i, i + 1), slice(0, k))
        return _floats(visible_weights(source, tile)[0, 0].numpy())

    def cell(self, asked: dict[str, int]) -> Response:
        """How one weight comes about."""
        _, _, q, k = self._shape(asked)
        i, j = _below("i", asked["i"], q), _below("j", asked["j"], k)
        source = self.sources[asked["record"]]
        at, head = one_head(source, asked["h"])
        tile = Tile(
            slice(asked["b"], asked["b"] + 1), slice(head, head + 1), slice(i, i + 1), slice(j, j + 1)
        )
        weight = float(visible_weights(at, tile))
        known = isinstance(source, Recomputed) and source.score is None and asked["h"] >= 0
        hidden = weight <= HIDDEN
        values = {"hidden": hidden, "weight": 0.0 if hidden else weight}
        values |= _score_of(source, tile) if known and isinstance(source, Recomputed) else _NO_SCORE
        body = json.dumps({name: _plain(value) for name, value in values.items()}, allow_nan=False)
        return Response(body, media_type="application/json")

    def received(self, asked: dict[str, int]) -> Response:
        """The mean weight that each key gets from some queries, or from as many of them as are worth the wait."""
        _, _, q, k = self._shape(asked)
        first, end = _below("from", asked["from"], q), asked["to"]
        if not first < end <= q:
            raise Refused(400, f"to: expected {first + 1} to {q}")
        count = min(end - first, MEAN_QUERIES)
        rows = first + ((torch.arange(count) + 0.5) * ((end - first) / count)).long()
        source, head = one_head(self.sources[asked["record"]], asked["h"])
        total, counted = torch.zeros(k, dtype=torch.float64), 0
        for part in rows.split(max(1, MEAN_AT_ONCE // k)):
            tile = Tile(slice(asked["b"], asked["b"] + 1), slice(head, head + 1), part, slice(0, k))
            weights = visible_weights(source, tile)[0, 0]  # (q,k)
            weights = weights.masked_fill(weights <= HIDDEN, 0.0)
            total += weights.sum(dim=0, dtype=torch.float64)
            counted += int((weights != 0).any(dim=1).sum())
        response = _floats((total / max(1, counted)).float()[None].numpy())
        response.headers["X-Regard-Queries"] = str(count)
        return response

    def overview(self, asked: dict[str, int]) -> Response:
        """One head from afar, as far as it is computed; asked for again it has grown."""
        if asked["side"] not in (THUMBNAIL_SIDE, OVERVIEW_SIDE):
            raise Refused(400, f"side: expected {THUMBNAIL_SIDE} or {OVERVIEW_SIDE}")
        key = (asked["record"], asked["b"], asked["h"], asked["side"])
        found = self.overviews.get(key, self.sources[asked["record"]])
        if found.error is not None:
            raise Refused(500, f"the overview could not be computed: {found.error}")
        response = _floats(found.values)
        response.headers["X-Regard-Done"] = f"{found.done:.6f}"
        return response

    def _shape(self, asked: dict[str, int]) -> tuple[int, int, int, int]:
        """The sizes of the map that is asked for, after checking that there is such a map, sequence and head."""
        record = _below("record", asked["record"], len(self.records))
        b, h, q, k = self.records[record].map.shape
        _below("b", asked["b"], b)
        if asked["h"] != -1:
            _below("h", asked["h"], h)
        return b, h, q, k


ANSWERS = {
    "tile": Viewer.tile,
    "square": Viewer.square,
    "row": Viewer.row,
    "cell": Viewer.cell,
    "received": Viewer.received,
    "overview": Viewer.overview,
}
WANTED = {
    "tile": ("record", "b", "h", "pool", "row", "col"),
    "square": ("record", "b", "h", "row", "col"),
    "row": ("record", "b", "h", "i"),
    "cell": ("record", "b", "h", "i", "j"),
    "received": ("record", "b", "h", "from", "to"),
    "overview": ("record", "b", "h", "side"),
}
_NO_SCORE = {
    "q": None,
    "k": None,
    "v": None,
    "product": 0.0,
    "scale": 0.0,
    "bias": 0.0,
    "hasBias": False,
    "lse": 0.0,
}


def named(host: str, port: int) -> frozenset[str]:
    """What a browser calls a host at a port: without the port where that is the usual one.

    >>> sorted(named("::1", 8765)), sorted(named("Here", 80))
    (['[::1]:8765'], ['here', 'here:80'])
    """
    name = f"[{host}]" if ":" in host else host.lower()
    return frozenset({f"{name}:{port}"} | ({name} if port == 80 else set()))


def _arrived_at(scope: Scope) -> frozenset[str]:
    """The address that the connection came in on: no page elsewhere has it for a name."""
    host, port = scope.get("server") or ("", None)
    return named(host.removeprefix("::ffff:"), port) if host and port else frozenset()


def sum_rows(source: Source) -> None:
    """Work out the log-sum-exp of every row, where a source does not have it yet."""
    if isinstance(source, Recomputed):
        _ = source.lse
    elif isinstance(source, HeadMean | Selected | ImageWindows):
        sum_rows(source.source)


def _numbers(request: Request, name: str) -> dict[str, int]:
    """The numbers of a request: exactly those wanted, each once, each small; only h may be -1."""
    given = request.query_params.multi_items()
    if sorted(key for key, _ in given) != sorted(WANTED[name]):
        raise Refused(400, f"expected {', '.join(WANTED[name])}, each once")
    found = {}
    for key, text in given:
        small = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
        if not small and (key, text) != ("h", "-1"):
            raise Refused(400, f"{key}: expected a whole number")
        found[key] = int(text)
    return found


def _below(name: str, value: int, n: int) -> int:
    if not 0 <= value < n:
        raise Refused(400, f"{name}: expected 0 to {n - 1}")
    return value


def _floats(values: np.ndarray) -> Response:
    """Numbers as little-endian float32, and how many rows they are."""
    body = np.ascontiguousarray(values, dtype="<f4").tobytes()
    headers = {"X-Regard-Rows": str(values.shape[0])}
    return Response(body, media_type="application/octet-stream", headers=headers)


@torch.no_grad()
def _score_of(source: Recomputed, tile: Tile) -> dict[str, Any]:
    """The numbers behind the one pair of a tile."""
    q, k, scale, v = source.ready
    head = tile.h.start // (source.grid.h // k.shape[1])
    query = q[tile.b, tile.h, tile.q][0, 0, 0].double().cpu()
    key = k[tile.b, head, tile.k][0, 0].double().cpu()
    score = float(source.scores(tile)[0])
    product = float(query @ key) if v is None else float(v.double().cpu() @ torch.tanh(query + key))
    return {
        "q": query.tolist(),
        "k": key.tolist(),
        "v": None if v is None else v.double().tolist(),
        "product": product,
        "scale": scale,
        "bias": score - product * scale if source.bias is not None else 0.0,
        "hasBias": source.bias is not None,
        "lse": float(source.lse[tile.b, tile.h, tile.q]),
    }


def _plain(value: Any) -> Any:
    """JSON has no infinities and no NaN: they become null."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Overviews:
    """Overviews that grow in the background, one at a time; what was looked at last is computed first."""

    LIMIT = 2**28  # bytes of those held

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int, int], Overview] = {}
        self._waiting: list[Overview] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def get(self, key: tuple[int, int, int, int], source: Source) -> Overview:
        """The overview of (record, sequence, head, side); it is begun when first asked for."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is None:
                found = Overview(source, *key[1:])
                self._waiting.append(found)
            self._held[key] = found  # the newest is the last
            self._drop_oldest()
            if found in self._waiting:  # to the front of the queue
                self._waiting.remove(found)
                self._waiting.append(found)
            if self._thread is None and self._waiting and not self._stopped:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return found

    def _drop_oldest(self) -> None:
        """Of those that are finished: one dropped half way would be begun again, and again."""
        size = sum(one.values.nbytes for one in self._held.values())
        for key, one in [*self._held.items()][:-1]:
            if size > self.LIMIT and one not in self._waiting:
                size -= self._held.pop(key).values.nbytes

    def stop(self) -> None:
        """Give up what is not finished, and wait for the thread."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        if thread is not None:
            thread.join(timeout=10)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._waiting = [one for one in self._waiting if one.done < 1]
                if self._stopped or not self._waiting:
                    self._thread = None
                    return
                current = self._waiting[-1]
            try:
                current.advance()
            except Exception as error:  # told to whoever asks for this overview; the others go on
                current.error = error
                with self._lock:
                    self._waiting.remove(current)
