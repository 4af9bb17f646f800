"""A real Chromium for the viewer's tests, pages to open in it, and what can be read off them."""

import base64
import contextlib
import shutil
import threading
import time

import numpy as np
import pytest

import regard

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
    # First: without a browser, Playwright's own driver may not start either.
    program = chromium()
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
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
        # The address is written a moment after the last change.
        self.page.wait_for_timeout(200)

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true, without ``eval``, which the policy of the page forbids."""
        for _ in range(200):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came true: {condition}")

    def hash(self) -> dict[str, str]:
        from urllib.parse import parse_qsl

        self.settle()
        return dict(parse_qsl(self.page.evaluate("location.hash").lstrip("#"), keep_blank_values=True))

    def said(self) -> str:
        """Return the last text for screen readers."""
        self.settle()
        return self.page.locator("[aria-live]").inner_text()

    def outside(self, *own: str) -> list[str]:
        """Requests that left the page."""
        return [url for url in self.requests if not url.startswith((*own, "data:", "blob:", "about:"))]


PIXELS = """async (file) => {
  let image = document.querySelector("canvas");
  if (file) {
    image = new Image();
    image.src = file;
    await image.decode();
  }
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [image.width, image.height];
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  let text = "";
  for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
  return { width: copy.width, height: copy.height, text: btoa(text) };
}"""


def pixels(page, file: str | None = None) -> np.ndarray:
    """Return the drawing of a page, or a picture file as a data URL, as bytes ``(rows, columns, 3)``."""
    found = page.evaluate(PIXELS, file)
    data = np.frombuffer(base64.b64decode(found["text"]), dtype=np.uint8)
    return data.reshape(found["height"], found["width"], 4)[..., :3]


def saved(watched, kind: str) -> bytes:
    """The file that a press of PNG or SVG gives."""
    from pathlib import Path

    with watched.page.expect_download() as waiting:
        watched.page.get_by_role("button", name=f"as {kind}").click()
    return Path(waiting.value.path()).read_bytes()


def texts_of(svg: bytes) -> list[str]:
    import xml.etree.ElementTree as xml

    return [node.text or "" for node in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def colours(watched) -> int:
    """Return the number of colours of the drawing, which is one if it is blank."""
    return len(np.unique(pixels(watched.page).reshape(-1, 3)[::4], axis=0))


@contextlib.contextmanager
def served(records, **options):
    """Run a server in a thread of this process and yield its URL."""
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


WIDGET = """async ({ esm, css, values, blobs, late }) => {
  const style = document.createElement("style");
  style.textContent = css;
  document.head.append(style);
  const bytes = blobs.map((text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer));
  const held = { ...values, blobs: bytes };
  const module = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  const el = document.createElement("div");
  if (!late) document.body.append(el);
  window.cleanUp = module.default.render({ model: { get: (name) => held[name] }, el });
  if (late) setTimeout(() => document.body.append(el), 300); // as JupyterLab does, now and then
}"""


def put_widget(page, records, *, late=False, **options):
    """Mount the widget as a notebook does. With ``late``, its element is attached to the page after rendering."""
    import base64

    pytest.importorskip("anywidget", reason="the widget needs the extra 'view'")
    made = regard.viewer.widget(records, **options)
    values = {"document": made.document, "height": made.height, "language": made.language}
    blobs = [base64.b64encode(data).decode() for data in made.blobs]
    page.evaluate(
        WIDGET, {"esm": made._esm, "css": made._css, "values": values, "blobs": blobs, "late": late}
    )
    page.wait_for_selector(".regard canvas")
