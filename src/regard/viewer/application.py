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
from regard.maps.sources import Recomputed, Tile
from regard.viewer import assets
from regard.viewer.encoding import without_selections
from regard.viewer.page import page_of
from regard.viewer.payload import checked_records, remote, source_of
from regard.viewer.tiles import Overview, one_head, pooled_tile, visible_weights

__all__ = ["Refused", "Viewer"]

TILE_SIDE = 512
POOLS = (1, 2, 4)  # weights to a side of a cell; what is coarser is in the overview
OVERVIEW_SIDE = 1024
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
                response = await run_in_threadpool(ANSWERS[name], self, _numbers(request, name))
        except Refused as refused:
            response = Response(refused.why, refused.status, media_type="text/plain; charset=utf-8")
            if refused.status == 405:
                response.headers["Allow"] = "GET, HEAD"
        response.headers.update(self._headers())
        return response

    def _checked(self, request: Request) -> str:
        """Who asks, and for what; a wrong token is told the same as a wrong path."""
        if (
            request.headers.get("host", "").lower() not in self.hosts
            or len(request.headers.getlist("host")) != 1
        ):
            raise Refused(421, "this server does not go by that name")
        origins = request.headers.getlist("origin")
        if any(origin.lower().removeprefix("http://") not in self.hosts for origin in origins):
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

    def tile(self, asked: dict[str, int]) -> Response:
        """A tile of 512 x 512 cells; its cost depends on the tile, not on the map."""
        record, (_, _, q, k) = asked["record"], self._shape(asked)
        pool, row, col = asked["pool"], asked["row"], asked["col"]
        if pool not in POOLS:
            raise Refused(400, f"pool: expected one of {POOLS}")
        span = TILE_SIDE * pool
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
        values = {"hidden": weight < 0, "weight": max(weight, 0.0)}
        values |= _score_of(source, tile) if known and isinstance(source, Recomputed) else _NO_SCORE
        body = json.dumps({name: _plain(value) for name, value in values.items()}, allow_nan=False)
        return Response(body, media_type="application/json")

    def overview(self, asked: dict[str, int]) -> Response:
        """One head from afar, as far as it is computed; asked for again it has grown."""
        self._shape(asked)
        key = (asked["record"], asked["b"], asked["h"])
        found = self.overviews.get(key, self.sources[asked["record"]])
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


ANSWERS = {"tile": Viewer.tile, "row": Viewer.row, "cell": Viewer.cell, "overview": Viewer.overview}
WANTED = {
    "tile": ("record", "b", "h", "pool", "row", "col"),
    "row": ("record", "b", "h", "i"),
    "cell": ("record", "b", "h", "i", "j"),
    "overview": ("record", "b", "h"),
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

    LIMIT = 64  # held; each is 4 MB at most

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int], Overview] = {}
        self._waiting: list[Overview] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def get(self, key: tuple[int, int, int], source: Any) -> Overview:
        """The overview of a head; it is begun when first asked for."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is None:
                found = Overview(source, key[1], key[2], OVERVIEW_SIDE)
                self._waiting.append(found)
            self._held[key] = found  # the newest is the last
            while len(self._held) > self.LIMIT:
                dropped = self._held.pop(next(iter(self._held)))
                if dropped in self._waiting:
                    self._waiting.remove(dropped)
            if found in self._waiting:  # to the front of the queue
                self._waiting.remove(found)
                self._waiting.append(found)
            if self._thread is None and self._waiting and not self._stopped:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return found

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
            except BaseException:
                with self._lock:
                    self._waiting.remove(current)
                    self._thread = None  # the next question starts another
                raise
