"""Tests of the widget in JupyterLab with Chromium, readable at once and in the colours of the theme."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from regard.viewer.server import free_socket
from support.browser import Watched, chromium, pixels

pytestmark = pytest.mark.slow

CELL = """\
import torch
import regard
from regard.maps import AttentionMap, Record

torch.manual_seed(0)
words = ["The", "cat", "sat", "on", "the", "mat"]
weights = torch.softmax(2 * torch.randn(1, 2, 6, 6), dim=-1)
map = AttentionMap.from_weights(weights)
regard.viewer.widget([Record(name="layer", layer=0, kind="self", map=map, query_tokens=[words])], height=520)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a notebook in a JupyterLab of its own, which keeps its settings in a temporary folder."""
    for package in ("jupyterlab", "ipykernel", "anywidget"):
        pytest.importorskip(
            package, reason=f"the notebook's test needs {package}: pip install jupyterlab anywidget"
        )
    chromium()  # skips here where there is none
    folder = tmp_path_factory.mktemp("lab")
    cell = {
        "cell_type": "code",
        "id": "one",
        "metadata": {},
        "source": CELL,
        "outputs": [],
        "execution_count": None,
    }
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "look.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with free_socket("127.0.0.1", 0) as found:
        port = found.getsockname()[1]
    private = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "run",
        "IPYTHONDIR": "ipython",
    }
    settings = os.environ | {name: str(folder / place) for name, place in private.items()}
    options = ["--no-browser", "--allow-root", f"--ServerApp.port={port}", "--IdentityProvider.token=t"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"],
            env=settings, cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token=t", server, folder / "log")
            yield f"http://127.0.0.1:{port}/lab/tree/look.ipynb?token=t"
        finally:
            server.terminate()
            server.wait(timeout=30)


def wait_for(address, server, log):
    for _ in range(300):
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert server.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.2)
    raise AssertionError(log.read_text(encoding="utf-8"))


def run_cell(watched, address):
    """Open the notebook, run its cell, and wait for the widget."""
    page = watched.page
    page.goto(address)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.locator(
        ".jp-NotebookPanel-toolbar [title*='Kernel status: Idle'], .jp-Notebook-ExecutionIndicator[data-status='idle']"
    ).first.wait_for(state="attached")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".regard canvas")
    watched.settle()


def choose_theme(watched, name):
    page = watched.page
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.locator(".lm-Menu-item", has_text="Theme").first.hover()
    page.locator(".lm-Menu-item", has_text=name).first.click()
    watched.settle()
    page.wait_for_timeout(600)  # the style sheet of a theme is fetched


def brightness(image) -> np.ndarray:
    return image.reshape(-1, 3).mean(axis=1)


def assert_readable(watched, *, dark):
    """Paper and ink of the drawing differ, and the paper is that of the notebook's theme."""
    light = brightness(pixels(watched.page))
    values, counts = np.unique(light.round(), return_counts=True)
    # A small map leaves most of the drawing empty.
    paper = values[counts.argmax()]
    assert bool(paper < 80) is dark, f"the paper has brightness {paper}"
    ink = light.max() if dark else light.min()
    assert abs(ink - paper) > 120, "the labels can be read"
    ground = watched.page.evaluate(
        "getComputedStyle(document.querySelector('.regard .drawing')).backgroundColor"
    )
    assert abs(np.mean([int(x) for x in ground[4:-1].split(",")]) - paper) < 2, "page and drawing agree"


def test_the_widget_is_readable_at_once_and_follows_the_theme_of_jupyterlab(browser, lab):
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    watched = Watched(context)
    run_cell(watched, lab)
    watched.page.get_by_role("tab", name="Heat map").click()
    watched.settle()
    assert_readable(watched, dark=False)
    choose_theme(watched, "JupyterLab Dark")
    assert_readable(watched, dark=True)
    choose_theme(watched, "JupyterLab Light")
    assert_readable(watched, dark=False)
    errors = [
        trouble for trouble in watched.troubles if trouble.startswith("error: ") and "regard" in trouble
    ]
    assert errors == []
    context.close()
