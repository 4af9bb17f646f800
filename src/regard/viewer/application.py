"""The web application of the viewer's server, which sends the page and pieces of the maps.

Any other request gets a status code and a short text that reveals nothing about the maps.
"""

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
from regard.viewer.overviews import Overviews
from regard.viewer.page import page_of
from regard.viewer.payload import checked_records, remote, source_of
from regard.viewer.tiles import HIDDEN, one_head, pooled_tile, visible_weights

__all__ = ["Refused", "Viewer"]

TILE_SIDE = 512
# The numbers of weights along a side of a cell of a tile. The overview is coarser.
POOLS = (1, 2, 4)
# The side of a small tile, for a few weights of many heads.
SQUARE_SIDE = 64
OVERVIEW_SIDE = 1024
THUMBNAIL_SIDE = 64
# The most queries of a mean, which are evenly spread. sources.js has the same number.
MEAN_QUERIES = 1024
# The weights in memory while a mean is computed.
MEAN_AT_ONCE = 2**22
# Up to this number of scores, the log-sum-exp of a map is computed at the start, and otherwise at the first request.
LSE_AT_START = 2**28
# The most digits of a number in a request.
LONGEST_NUMBER = 9


class Refused(Exception):
    """The reason to refuse a request, with its HTTP status code."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status, self.why = status, why


class Viewer:
    """The ASGI application of one server, with its records, its secret token and its accepted host names.

    ``hosts`` are the values of the Host header that are accepted, with their ports. The methods that answer requests
    take the numbers of the request under the names of WANTED. They raise Refused for numbers outside the map. The head
    -1 is the mean of all heads.
    """

    def __init__(
        self,
        records: Sequence[Record],
        *,
        token: str,
        hosts: frozenset[str],
        title: str | None = None,
        images: object = None,
        language: str = "en",
    ):
        self.records = checked_records(records)
        self.sources = [without_selections(source_of(record.map)) for record in self.records]
        self.token, self.hosts = token, hosts
        document = remote(self.records, title=title, images=images)
        self.page = page_of(document, connect="'self'", language=language).encode("utf-8")
        self.overviews = Overviews()
        self._summing = threading.Lock()
        for source in self.sources:
            if math.prod(source.grid) <= LSE_AT_START:
                sum_rows(source)

    def close(self) -> None:
        """Stop all computations in the background."""
        self.overviews.stop()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        """Return the response to a request of any path and method."""
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
        """Return the name of the requested piece, or raise Refused.

        A wrong token and a wrong path get the same response.
        """
        names = self.hosts | _arrived_at(request.scope)
        if request.headers.get("host", "").lower() not in names or len(request.headers.getlist("host")) != 1:
            raise Refused(421, "unknown host name")
        origins = request.headers.getlist("origin")
        if any(origin.lower().removeprefix("http://") not in names for origin in origins):
            raise Refused(403, "requests from other pages are refused")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "requests from other pages are refused")
        parts = request.scope["path"].split("/")
        if len(parts) != 3 or parts[0]:
            raise Refused(404, "not found")
        known = hmac.compare_digest(parts[1].encode("utf-8", "replace"), self.token.encode("ascii"))
        if not known or parts[2] not in ("", *ANSWERS):
            raise Refused(404, "not found")
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "only GET and HEAD are allowed")
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
        """Return the piece called ``name`` of a map, after one thread has computed the log-sum-exp of its rows."""
        self._shape(asked)
        with self._summing:
            sum_rows(self.sources[asked["record"]])
        return ANSWERS[name](self, asked)

    def tile(self, asked: dict[str, int]) -> Response:
        """Return a tile of at most 512 x 512 cells of ``pool x pool`` weights.

        ``row`` and ``col`` count tiles. The cost does not depend on the size of the map.
        """
        if asked["pool"] not in POOLS:
            raise Refused(400, f"pool: expected one of {POOLS}")
        return self._part(asked, TILE_SIDE, asked["pool"])

    def square(self, asked: dict[str, int]) -> Response:
        """Return a tile of at most 64 x 64 weights, where ``row`` and ``col`` count tiles."""
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
        """Return all weights of query ``i``."""
        _, _, q, k = self._shape(asked)
        i = _below("i", asked["i"], q)
        source, head = one_head(self.sources[asked["record"]], asked["h"])
        tile = Tile(slice(asked["b"], asked["b"] + 1), slice(head, head + 1), slice(i, i + 1), slice(0, k))
        return _floats(visible_weights(source, tile)[0, 0].numpy())

    def cell(self, asked: dict[str, int]) -> Response:
        """Return the weight of query ``i`` and key ``j``, and the numbers it is computed from, as JSON.

        These are None or 0 if the weight is a mean of heads, or not computed from q and k.
        """
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
        body = json.dumps(
            {name: _without_infinities(value) for name, value in values.items()}, allow_nan=False
        )
        return Response(body, media_type="application/json")

    def received(self, asked: dict[str, int]) -> Response:
        """Return the mean weight of each key over the queries from ``from`` to before ``to``.

        At most MEAN_QUERIES of them are computed, evenly spread. Fully masked queries do not count.
        """
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
        """Return the overview of one head as far as it is computed. Later requests return more of it."""
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
        """Return the sizes of the requested map, or raise Refused if there is no such map, sequence or head."""
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
    """Return the Host headers that a browser may send for a host and a port, of which port 80 may be left out.

    >>> sorted(named("::1", 8765)), sorted(named("Here", 80))
    (['[::1]:8765'], ['here', 'here:80'])
    """
    name = f"[{host}]" if ":" in host else host.lower()
    return frozenset({f"{name}:{port}"} | ({name} if port == 80 else set()))


def _arrived_at(scope: Scope) -> frozenset[str]:
    """Return the Host headers for the address of the connection itself, which no foreign page can have as its name."""
    host, port = scope.get("server") or ("", None)
    return named(host.removeprefix("::ffff:"), port) if host and port else frozenset()


def sum_rows(source: Source) -> None:
    """Compute the log-sum-exp of every row of a source, if it is not known yet."""
    if isinstance(source, Recomputed):
        _ = source.lse
    elif isinstance(source, HeadMean | Selected | ImageWindows):
        sum_rows(source.source)


def _numbers(request: Request, name: str) -> dict[str, int]:
    """Return the parameters of a request, or raise Refused unless each required one is given once.

    All are whole numbers of at most nine digits. Only h may be -1.
    """
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
    """Return a response of little-endian float32 numbers, with the number of rows in a header."""
    body = np.ascontiguousarray(values, dtype="<f4").tobytes()
    headers = {"X-Regard-Rows": str(values.shape[0])}
    return Response(body, media_type="application/octet-stream", headers=headers)


@torch.no_grad()
def _score_of(source: Recomputed, tile: Tile) -> dict[str, Any]:
    """Return the query, the key and the terms of the score of the one pair of a tile."""
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


def _without_infinities(value: Any) -> Any:
    """Replace infinities and NaN by None, since JSON has neither."""
    if isinstance(value, list):
        return [_without_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
