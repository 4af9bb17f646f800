"""The server as a person, a page elsewhere and a port scanner meet it."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import regard
from regard.errors import ArgumentError, FileError, MissingExtraError
from regard.maps import AttentionMap
from regard.maps.record_files import load_records, save_records
from support.viewer_records import B, H, K, Q, hidden_of, recomputed, record
from support.viewer_requests import HOST, TOKEN, ask, floats

pytest.importorskip("starlette", reason="the server needs the extra 'view'")
pytest.importorskip("uvicorn", reason="the server needs the extra 'view'")

from regard.viewer import server
from regard.viewer.application import Viewer
from regard.viewer.overviews import Overviews
from regard.viewer.tiles import HIDDEN


def long_map(n: int = 1300) -> AttentionMap:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, n, 8).unbind()
    return regard.attention(q, k, torch.randn(1, 1, n, 2), mask=regard.causal(), return_map=True)[1]


@pytest.fixture(scope="module")
def viewer():
    records = [record(recomputed(regard.causal())), record(long_map(), "long")]
    made = Viewer(records, token=TOKEN, hosts=frozenset({HOST, "localhost:8765"}), title="a title")
    yield made
    made.close()


# ---- answers


def test_the_page_is_served_with_its_policy(viewer):
    status, headers, body = ask(viewer, f"/{TOKEN}/")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert b'"type": "remote"' in body
    assert TOKEN.encode() not in body


@pytest.mark.parametrize("head", [0, 2, -1])
def test_tiles_are_the_weights(viewer, head):
    map = viewer.records[0].map
    hidden = hidden_of(map)[1]
    expected = map.weights()[1].mean(0).numpy() if head < 0 else map.weights()[1, head].numpy()
    expected = np.where(hidden.all(0) if head < 0 else hidden[head], HIDDEN, expected)
    found = floats(ask(viewer, f"/{TOKEN}/tile", query=f"record=0&b=1&h={head}&pool=1&row=0&col=0"))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    row = floats(ask(viewer, f"/{TOKEN}/row", query=f"record=0&b=1&h={head}&i=3"))
    np.testing.assert_allclose(row[0], expected[3], atol=1e-6)


@pytest.mark.parametrize("pool", [1, 2, 4])
def test_tiles_of_a_long_map_hold_the_largest_weights(viewer, pool):
    map = viewer.records[1].map
    shown = np.where(hidden_of(map)[0, 0], HIDDEN, map.weights()[0, 0].numpy())
    span = 512 * pool
    row, col = (1300 - 1) // span, 0
    found = floats(ask(viewer, f"/{TOKEN}/tile", query=f"record=1&b=0&h=0&pool={pool}&row={row}&col={col}"))
    part = shown[row * span :, : min(1300, span)]
    for r in (0, found.shape[0] - 1):
        for c in (0, found.shape[1] // 2, found.shape[1] - 1):
            block = part[r * pool : (r + 1) * pool, c * pool : (c + 1) * pool]
            assert found[r, c] == pytest.approx(block.max(), abs=1e-6)


@pytest.mark.parametrize("head", [1, -1])
def test_the_mean_of_queries_is_that_of_their_rows(viewer, head):
    whole = viewer.records[0].map.weights()[1]
    weights = (whole.mean(0) if head < 0 else whole[head]).numpy()
    answer = ask(viewer, f"/{TOKEN}/received", query=f"record=0&b=1&h={head}&from=1&to=4")
    np.testing.assert_allclose(floats(answer)[0], weights[1:4].mean(0), atol=1e-6)
    assert answer[1]["x-regard-queries"] == "3"


def test_the_mean_of_many_queries_is_that_of_some(viewer):
    answer = ask(viewer, f"/{TOKEN}/received", query="record=1&b=0&h=0&from=0&to=1300")
    assert answer[1]["x-regard-queries"] == "1024"
    exact = viewer.records[1].map.weights()[0, 0].mean(0).numpy()
    found = floats(answer)[0]
    assert found.sum() == pytest.approx(1, abs=1e-4)
    assert np.abs(found - exact).sum() < 0.1


def test_the_overview_grows_until_it_is_whole(viewer):
    answer = ask(viewer, f"/{TOKEN}/overview", query="record=1&b=0&h=0&side=1024")
    end = time.monotonic() + 60
    while float(answer[1]["x-regard-done"]) < 1 and time.monotonic() < end:
        time.sleep(0.05)
        answer = ask(viewer, f"/{TOKEN}/overview", query="record=1&b=0&h=0&side=1024")
    found = floats(answer)
    map = viewer.records[1].map
    shown = np.where(hidden_of(map)[0, 0], HIDDEN, map.weights()[0, 0].numpy())
    assert found.shape == (1024, 1024)
    cells = np.arange(1300) * 1024 // 1300
    for r, c in [(0, 0), (1023, 1023), (1023, 0), (0, 1023), (700, 300)]:
        assert found[r, c] == pytest.approx(shown[np.ix_(cells == r, cells == c)].max(), abs=1e-6)


def test_a_thumbnail_is_small_and_a_square_is_a_part_of_the_map(viewer):
    map = viewer.records[1].map
    shown = np.where(hidden_of(map)[0, 0], HIDDEN, map.weights()[0, 0].numpy())
    answer = ask(viewer, f"/{TOKEN}/overview", query="record=1&b=0&h=0&side=64")
    assert floats(answer).shape == (64, 64)
    found = floats(ask(viewer, f"/{TOKEN}/square", query="record=1&b=0&h=0&row=3&col=2"))
    np.testing.assert_allclose(found, shown[192:256, 128:192], atol=1e-6)
    assert floats(ask(viewer, f"/{TOKEN}/square", query="record=1&b=0&h=0&row=20&col=0")).shape == (20, 64)


class Slow:
    """A source that takes a moment for each row of an overview."""

    def __init__(self):
        self.grid = regard.shapes.Grid(1, 1, 1, 4)

    def weights(self, tile):
        time.sleep(0.02)
        return torch.full((1, 1, 1, 4), 0.25)


def test_overviews_that_are_not_finished_are_never_dropped():
    held = Overviews()
    held.LIMIT = 3 * 4 * 4
    keys = [(0, 0, n, 64) for n in range(12)]
    first = {key: held.get(key, Slow()) for key in keys}
    end = time.monotonic() + 30
    while any(one.done < 1 for one in first.values()) and time.monotonic() < end:
        time.sleep(0.02)
    assert all(one.done == 1 for one in first.values()), "each was finished, none begun again"
    for _ in range(2):
        held.get(keys[-1], Slow())
    assert len(held._held) <= 4, "finished ones make way"
    held.stop()


def test_an_overview_that_fails_says_so():
    class Broken(Slow):
        def weights(self, tile):
            raise RuntimeError("no more memory")

    made = Viewer([record(recomputed())], token=TOKEN, hosts=frozenset({HOST}))
    made.sources = [Broken()]
    end = time.monotonic() + 30
    status, body = 200, b""
    while status == 200 and time.monotonic() < end:
        status, _, body = ask(made, f"/{TOKEN}/overview", query="record=0&b=0&h=0&side=64")
        time.sleep(0.02)
    assert (status, body) == (500, b"the overview could not be computed: no more memory")
    made.close()


@pytest.mark.parametrize("at_once", [2**28, 0])
def test_row_sums_are_worked_out_once_whoever_asks_first(monkeypatch, at_once):
    from regard.maps.sources import Recomputed
    from regard.viewer import application

    map = recomputed(regard.causal())
    expected = map.weights()[0, 0].numpy()
    map._source._lse = None
    calls, plain = [], torch.logsumexp

    def slowly(*given, **named):
        calls.append(1)
        time.sleep(0.1)
        return plain(*given, **named)

    monkeypatch.setattr(torch, "logsumexp", slowly)
    monkeypatch.setattr(application, "LSE_AT_START", at_once)
    made = Viewer([record(map)], token=TOKEN, hosts=frozenset({HOST}))
    assert isinstance(made.sources[0], Recomputed)
    assert bool(calls) == bool(at_once)
    query = f"record=0&b=0&h=0&i={Q - 1}&j=1"
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(made, f"/{TOKEN}/cell", query=query)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weights = [json.loads(body)["weight"] for _, _, body in answers]
    np.testing.assert_allclose(weights, [expected[-1, 1]] * 6, rtol=1e-5)
    assert len(calls) == B  # a stream of one tile for each sequence
    made.close()


def test_the_server_sends_the_numbers_of_one_cell(viewer):
    status, _, body = ask(viewer, f"/{TOKEN}/cell", query=f"record=0&b=0&h=1&i={Q - 1}&j=2")
    assert status == 200
    cell, map = json.loads(body), viewer.records[0].map
    ready = map._source.ready
    np.testing.assert_allclose(cell["q"], ready.q[0, 1, -1].double(), rtol=1e-12)
    np.testing.assert_allclose(cell["k"], ready.k[0, 1, 2].double(), rtol=1e-12)
    assert cell["weight"] == pytest.approx(float(map[0, 1, -1, 2]), rel=1e-5)
    assert np.exp(cell["product"] * cell["scale"] - cell["lse"]) == pytest.approx(cell["weight"], rel=1e-4)
    hidden = json.loads(ask(viewer, f"/{TOKEN}/cell", query=f"record=0&b=0&h=1&i=0&j={K - 1}")[2])
    assert hidden["hidden"] is True
    assert hidden["weight"] == 0
    mean = json.loads(ask(viewer, f"/{TOKEN}/cell", query="record=0&b=0&h=-1&i=1&j=0")[2])
    assert mean["q"] is None


# ---- refused requests, each with its status

GOOD_TILE = "record=0&b=0&h=0&pool=1&row=0&col=0"
TILE = f"/{TOKEN}/tile"
ABUSES = [
    # another name for this machine: DNS that was turned to point here
    *[(421, {"host": host}) for host in (
        "evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:87650", "", "localhost",
        "127.0.0.1:8765.evil.example", "127.0.0.1:8765@evil.example", "0.0.0.0:8765", "[::1]:8765", " 127.0.0.1:8765x",
    )],
    (421, {"host": None}),
    (421, {"headers": [("host", HOST)]}),  # twice
    # another page
    *[(403, {"headers": [("origin", origin)]}) for origin in (
        "http://evil.example", "https://127.0.0.1:8765", "null", "", "http://127.0.0.1", "http://127.0.0.1:8766",
        "http://127.0.0.1:8765/", "http://127.0.0.1:8765.evil.example", "file://", "http://user@127.0.0.1:8765",
    )],
    *[(403, {"headers": [("sec-fetch-site", site)]}) for site in ("cross-site", "same-site", "nonsense")],
    (403, {"headers": [("origin", f"http://{HOST}"), ("origin", "http://evil.example")]}),
    # without the token, or next to it
    *[(404, {"path": path}) for path in (
        "/", "", "*", "//", "/tile", "/wrong/", "/wrong/tile", f"/{TOKEN}", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/",
        f"/{TOKEN.upper()}/", f"//{TOKEN}/", f"/{TOKEN}//", f"/{TOKEN}/tile/", f"/{TOKEN}/../{TOKEN}/", f"/{TOKEN}/..",
        f"/{TOKEN}/../../etc/passwd", f"/{TOKEN}/%2e%2e/", f"/{TOKEN}/static/app.js", f"/{TOKEN}/index.html",
        f"/{TOKEN}/Tile", f"/{TOKEN}/tile\0", f"/{TOKEN}\0/", "/\udcff/", "/猫/", f"/{TOKEN}/__class__",
        f"/{TOKEN}/favicon.ico", f"http://{HOST}/{TOKEN}/", "/" + "a" * 10_000,
    )],
    # other methods
    *[(405, {"method": method}) for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get")],
    # malformed and huge questions
    *[(400, {"path": TILE, "query": query}) for query in (
        "", "record=0", GOOD_TILE + "&record=0", GOOD_TILE + "&x=1", GOOD_TILE.replace("pool=1", "pool=0"),
        GOOD_TILE.replace("pool=1", "pool=3"), GOOD_TILE.replace("pool=1", "pool=1024"),
        GOOD_TILE.replace("pool=1", "pool=-1"), GOOD_TILE.replace("row=0", "row=1"),
        GOOD_TILE.replace("col=0", "col=1"), GOOD_TILE.replace("row=0", "row=-1"),
        GOOD_TILE.replace("row=0", "row=1e3"), GOOD_TILE.replace("row=0", "row= 0"),
        GOOD_TILE.replace("row=0", "row=0x1"), GOOD_TILE.replace("row=0", "row=9999999999"),
        GOOD_TILE.replace("row=0", "row=" + "9" * 5000), GOOD_TILE.replace("row=0", "row=%D9%A1"),
        GOOD_TILE.replace("row=0", "row=NaN"), GOOD_TILE.replace("row=0", "row="), GOOD_TILE.replace("h=0", "h=-2"),
        GOOD_TILE.replace("h=0", f"h={H}"), GOOD_TILE.replace("b=0", f"b={B}"), GOOD_TILE.replace("b=0", "b=-1"),
        GOOD_TILE.replace("record=0", "record=2"), GOOD_TILE.replace("record=0", "record=-1"),
        GOOD_TILE.replace("record=0", "record=999999999"), "%00", "&&&&", "=" * 1000,
    )],
    *[(400, {"path": f"/{TOKEN}/{name}", "query": query}) for name, query in (
        ("row", "record=0&b=0&h=0&i=5"), ("row", "record=0&b=0&h=0"), ("row", "record=0&b=0&h=0&i=0&j=0"),
        ("cell", f"record=0&b=0&h=0&i=0&j={K}"), ("cell", "record=0&b=0&h=0&i=0&j=zero"),
        ("overview", "record=5&b=0&h=0&side=64"), ("overview", "record=0&b=0&h=3&side=64"),
        ("overview", "record=0&b=0&h=0"),
        ("overview", "record=0&b=0&h=0&side=65"), ("overview", "record=0&b=0&h=0&side=999999"),
        ("square", "record=0&b=0&h=0&row=1&col=0"),
        ("square", GOOD_TILE),
        ("received", "record=0&b=0&h=0&from=0&to=0"), ("received", "record=0&b=0&h=0&from=3&to=2"),
        ("received", "record=0&b=0&h=0&from=0&to=6"), ("received", "record=0&b=0&h=0&from=5&to=6"),
        ("received", "record=0&b=0&h=0&from=-1&to=2"), ("received", "record=0&b=0&h=0"),
    )],
]  # fmt: skip


def test_there_are_enough_hostile_requests():
    assert len(ABUSES) >= 60


@pytest.mark.parametrize("case", range(len(ABUSES)))
def test_hostile_requests_are_refused(viewer, case):
    expected, how = ABUSES[case]
    status, headers, body = ask(viewer, **{"path": f"/{TOKEN}/", **how})
    assert status == expected, (how, body[:80])
    assert len(body) < 200
    assert TOKEN.encode() not in body
    assert headers["content-type"].startswith("text/plain")
    assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("headers", [[("origin", f"http://{HOST}")], [("sec-fetch-site", "same-origin")], []])
def test_requests_of_the_page_itself_are_answered(viewer, headers):
    assert ask(viewer, TILE, query=GOOD_TILE, headers=headers)[0] == 200
    assert ask(viewer, f"/{TOKEN}/", host="LOCALHOST:8765", method="HEAD", headers=headers)[0] == 200


@pytest.mark.parametrize(
    ("server", "host", "status"),
    [
        (("192.168.7.5", 8765), "192.168.7.5:8765", 200),
        (("192.168.7.5", 8765), "192.168.7.6:8765", 421),
        (("192.168.7.5", 8765), "192.168.7.5", 421),
        (("192.168.7.5", 80), "192.168.7.5", 200),
        (("fe80::1", 8765), "[fe80::1]:8765", 200),
        (("::ffff:10.0.0.1", 8765), "10.0.0.1:8765", 200),
        (None, HOST, 200),
    ],
)
def test_only_the_address_of_the_connection_is_accepted_as_host(viewer, server, host, status):
    headers = [("origin", f"http://{host}")]
    assert ask(viewer, f"/{TOKEN}/", host=host, headers=headers, server=server)[0] == status


def test_host_names_of_the_server_are_lower_case(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Big-Iron")
    assert "big-iron:8765" in server._names("0.0.0.0", 8765)
    assert {"big-iron", "127.0.0.1", "localhost:80"} <= server._names("0.0.0.0", 80)
    assert "big-iron:8765" not in server._names("127.0.0.1", 8765)


# ---- the server as a process


def test_other_hosts_and_impossible_ports_are_refused():
    for host in ("0.0.0.0", "192.168.0.1", "::", "example.org"):
        with pytest.raises(ArgumentError, match="other machines"):
            server.serve([record(recomputed())], host=host)
    with pytest.raises(ArgumentError, match="port"):
        server.serve([record(recomputed())], port=70000)


def test_a_port_that_is_taken_is_passed_over():
    with server.free_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with server.free_socket("127.0.0.1", port) as second:
            assert second.getsockname()[1] not in (0, port)
    with pytest.raises(ArgumentError, match="cannot listen"):
        server.free_socket("203.0.113.1", 0)


def test_a_missing_extra_is_named():
    from unittest import mock

    with (
        mock.patch.dict(sys.modules, {"uvicorn": None}),
        pytest.raises(MissingExtraError, match=r"\[view\]"),
    ):
        server.serve([record(recomputed())])


def started(path, *words):
    """``regard view`` in a process of its own, and the address it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from regard.cli import main; main()", "view", str(path), "--no-open", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    address = process.stdout.readline().strip()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{20,})/", address)
    assert found, (address, process.stderr.read() if process.poll() is not None else "")
    return process, int(found[1]), found[2]


def fetched(port, path):
    """A page of a server, which may be a moment from listening."""
    end = time.monotonic() + 60
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read()
        except ConnectionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


EVERYWHERE = """
import sys, torch
from regard.maps import AttentionMap, Record
from regard.viewer import serve
half = AttentionMap.from_weights(torch.full((2, 2), 0.5))
one = Record(name="layer", layer=0, kind="self", map=half)
serve([one], "0.0.0.0", 0, allow_network=True, say=lambda text: print(text, flush=True))
"""


def exchanged(host, port, data: bytes) -> bytes:
    """Send bytes to a server and return its answer."""
    answer = b""
    with socket.create_connection((host, port), timeout=10) as raw, contextlib.suppress(OSError):
        raw.sendall(data)
        raw.settimeout(2)
        while part := raw.recv(65536):
            answer += part
            if b"\r\n\r\n" in answer:
                break
    return answer


@pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2, and Ctrl-C as a signal")
def test_a_server_for_the_network_answers_by_address_survives_abuse_and_stops_at_ctrl_c():
    process = subprocess.Popen(
        [sys.executable, "-c", EVERYWHERE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        found = re.fullmatch(r"http://([\d.]+):(\d+)/([\w-]{20,})/", process.stdout.readline().strip())
        assert found, process.stderr.read() if process.poll() is not None else ""
        address, port, token = found[1], int(found[2]), found[3]
        assert address != "0.0.0.0", "an address that can be opened"
        assert fetched(port, f"/{token}/")[0] == 200
        request = "GET /{} HTTP/1.1\r\nHost: {}\r\n{}\r\n"
        for host, name, status in (
            ("127.0.0.2", f"127.0.0.2:{port}", b"200"), ("127.0.0.2", f"127.0.0.3:{port}", b"421"),
            (address, f"{address}:{port}", b"200"), ("127.0.0.1", f"LOCALHOST:{port}", b"200"),
            ("127.0.0.1", f"evil.example:{port}", b"421"), ("127.0.0.1", "localhost", b"421"),
        ):  # fmt: skip
            answer = exchanged(host, port, request.format(f"{token}/", name, "").encode())
            assert answer.startswith(b"HTTP/1.1 " + status), (host, name, answer[:60])
        local = f"127.0.0.1:{port}"
        for data, status in (
            (request.format(f"{token}/", local, "Origin: http://evil.example\r\n").encode(), b"403"),
            (request.format("x" * 2_000_000, local, "").encode(), b"4"),  # longer than is read
            (request.format(f"{token}/", local, "A: " + "b" * 2_000_000 + "\r\n").encode(), b"4"),
            (b"\x16\x03\x01\x02\x00" * 40 + b"\r\n\r\n", b"400"),
        ):
            answer = exchanged("127.0.0.1", port, data)
            assert answer.startswith(b"HTTP/1.1 " + status) or answer == b"", answer[:60]  # or cut off
            assert token.encode() not in answer
        assert fetched(port, f"/{token}/")[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_the_server_limits_connections_and_request_sizes(viewer):
    config = server._limited(viewer)
    assert (config.http, config.limit_concurrency, config.h11_max_incomplete_event_size) == (
        "h11",
        64,
        16_384,
    )
    assert (config.timeout_graceful_shutdown, config.proxy_headers, config.ws) == (2, False, "none")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent as a signal")
def test_two_servers_survive_nonsense_and_stop_at_ctrl_c(tmp_path):
    path = tmp_path / "record.safetensors"
    save_records([record(long_map(), "long")], path)
    first, port, token = started(path)
    second, other, _ = started(path, "--port", str(port))
    try:
        assert other != port
        assert fetched(port, f"/{token}/")[0] == 200
        assert fetched(other, f"/{token}/")[0] == 404, "each server has its own token"
        for nonsense in (
            b"\x00" * 100,
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"A" * 100_000,
            b"\x16\x03\x01\x02",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
                raw.sendall(nonsense)
                raw.settimeout(0.3)
                with contextlib.suppress(OSError):
                    raw.recv(1000)
        overview = threading.Thread(
            target=fetched, args=(port, f"/{token}/overview?record=0&b=0&h=0&side=1024")
        )
        overview.start()
        status, body = fetched(port, f"/{token}/tile?record=0&b=0&h=0&pool=1&row=1&col=0")
        overview.join()
        assert (status, len(body)) == (200, 512 * 512 * 4)
        for process in (first, second):
            process.send_signal(signal.SIGINT)
        for process in (first, second):
            assert process.wait(timeout=60) == 0
            assert "Traceback" not in process.stderr.read()
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()


LONG = """
import torch
from regard.masks import causal
from regard.maps.sources import Recomputed
from regard.scores import Prepared
from regard.shapes import Grid
from regard.viewer.tiles import HIDDEN, Overview, pooled_tile
n, d = 100_000, 64
torch.manual_seed(0)
q, k = torch.randn(1, 1, n, d), torch.randn(1, 1, n, d)
lse = torch.full((1, 1, n), 12.0)  # any number will do: rows need not sum to 1 here
source = Recomputed(Prepared(q, k, 0.125), Grid(1, 1, n, n), causal(), None, lse, None)
tile = pooled_tile(source, 0, 0, slice(99_840, n), slice(99_840, n), 1)
expected = torch.exp((q[0, 0, -1] @ k[0, 0, -160:].T) * 0.125 - 12.0).numpy()
assert abs(tile[-1] - expected).max() < 1e-6 and tile[0, -1] == HIDDEN, "the last tile"
overview = Overview(source, 0, 0, 1024)
for _ in range(3):
    overview.advance()
assert 0.0005 < overview.done < 0.05, overview.done
# Not ru_maxrss: on Linux a new program inherits the peak of the process that started it.
status = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(status[0].split()[1]) / 2**20)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is asked of Linux")
def test_a_map_of_a_hundred_thousand_tokens_is_served_within_two_gigabytes():
    result = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 2.0


# ---- damaged files and files of other formats


@pytest.fixture(scope="module")
def record_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "record.safetensors"
    save_records(
        [record(recomputed(regard.causal() & regard.padding([7, 4])), query_tokens=[["w"] * Q] * B),
         record(AttentionMap.from_weights(torch.rand(1, 2, 3, 5) / 5), "weights", key_grid=(2, 2), key_extra=1)],
        path,
    )  # fmt: skip
    return path.read_bytes()


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """The bytes of a file after something happened to them."""
    kind = random.integers(6)
    at = int(random.integers(len(data)))
    header = int.from_bytes(data[:8], "little")
    if kind == 0:  # cut short
        return data[:at]
    if kind == 1:  # a byte of the header
        at = 8 + int(random.integers(header))
        return data[:at] + bytes([int(random.integers(256))]) + data[at + 1 :]
    if kind == 2:  # a number of the header
        text = data[8 : 8 + header].decode()
        found = list(re.finditer(r"\d+", text))
        one = found[int(random.integers(len(found)))]
        text = text[: one.start()] + str(int(random.integers(1 << 40))) + text[one.end() :]
        return len(text.encode()).to_bytes(8, "little") + text.encode() + data[8 + header :]
    if kind == 3:  # a piece taken out, or twice
        end = min(len(data), at + int(random.integers(1, 40)))
        return data[:at] + data[at:end] * int(random.integers(0, 3)) + data[end:]
    if kind == 4:  # a word of the header for another
        text = data[8 : 8 + header].decode()
        words = sorted(set(re.findall(r"[a-z_]{3,}", text)))
        old, new = (words[int(n)] for n in random.integers(len(words), size=2))
        text = text.replace(old, new)
        return len(text.encode()).to_bytes(8, "little") + text.encode() + data[8 + header :]
    return bytes(random.integers(0, 256, int(random.integers(0, 200)), dtype=np.uint8))  # another file


def test_a_thousand_altered_files_are_read_or_named(record_file, tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "altered.safetensors"
    named, wild = 0, []
    for n in range(1000):
        path.write_bytes(mutated(record_file, random))
        try:
            records = load_records(path)
            Viewer(records, token=TOKEN, hosts=frozenset({HOST}))
            for one in records:
                one.map[0, 0, 0]
        except regard.RegardError:
            named += 1
        except Exception as error:
            wild.append(f"mutation {n}: {type(error).__name__}: {error}")
    assert wild == []
    assert named > 500, "too few of the files were altered for this to say anything"


def test_files_without_records_are_refused(tmp_path):
    for name, data in {
        "no": None,
        "empty": b"",
        "text": b"hello",
        "json": b"{}",
        "zip": b"PK\x03\x04",
    }.items():
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(FileError, match="path"):
            server.serve(path)
    recomputed().save(tmp_path / "map.safetensors")
    with pytest.raises(FileError, match="records"):
        server.serve(tmp_path / "map.safetensors")
