"""Requests to the application of the viewer's server, without a network."""

import asyncio

import numpy as np

TOKEN = "secret-token"
HOST = "127.0.0.1:8765"


def ask(viewer, path, *, query="", method="GET", host=HOST, headers=(), server=("127.0.0.1", 8765)):
    """Send one request directly to the application, and return status, headers and body."""
    sent = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": query.encode("latin-1"),
        "headers": [*([(b"host", host.encode("latin-1"))] if host is not None else []),
                    *((name.encode(), value.encode("latin-1")) for name, value in headers)],
        "client": ("127.0.0.1", 1), "server": server,
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(viewer.app(scope, receive, send))
    start = sent[0]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body


def floats(answer):
    status, headers, body = answer
    assert status == 200, body
    values = np.frombuffer(body, dtype="<f4")
    return values.reshape(int(headers["x-regard-rows"]), -1)
