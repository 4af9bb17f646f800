"""A real Chromium for the viewer's tests, and pages to open in it."""

import contextlib
import shutil
import threading
import time

import pytest

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-sync", "--no-first-run",
    "--disable-domain-reliability", "--disable-features=OptimizationHints,MediaRouter,Translate",
]  # fmt: skip


def chromium() -> str:
    found = next((path for path in map(shutil.which, CANDIDATES) if path), None)
    if found is None:
        pytest.skip("no Chromium here: install the Debian package chromium to run these tests")
    return found


@contextlib.contextmanager
def launched():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright drives the browser: pip install playwright"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page together with everything that went wrong in it and everything it asked for."""

    def __init__(self, context):
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog):
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def settle(self):
        """Wait until the drawing has caught up with the state."""
        self.page.wait_for_timeout(60)
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        self.page.wait_for_timeout(200)  # the address is written a moment after the last change

    def hash(self) -> dict[str, str]:
        from urllib.parse import parse_qsl

        self.settle()
        return dict(parse_qsl(self.page.evaluate("location.hash").lstrip("#"), keep_blank_values=True))

    def said(self) -> str:
        """What a screen reader was told last."""
        self.settle()
        return self.page.locator("[aria-live]").inner_text()

    def outside(self, *own: str) -> list[str]:
        """Requests that left the page."""
        return [url for url in self.requests if not url.startswith((*own, "data:", "blob:", "about:"))]


@contextlib.contextmanager
def served(records, **options):
    """A server in a thread of this process; gives its address."""
    import uvicorn

    from regard.viewer.application import Viewer
    from regard.viewer.server import free_socket

    listening = free_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    viewer = Viewer(records, token="token-of-the-test", hosts=frozenset({f"127.0.0.1:{port}"}), **options)
    config = uvicorn.Config(viewer.app, log_level="error", lifespan="off", interface="asgi3", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/token-of-the-test/"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        viewer.close()
        listening.close()
