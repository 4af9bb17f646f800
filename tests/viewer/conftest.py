"""A real Chromium, and pages opened in it."""

import pytest

import regard
from support.browser import Watched, launched
from support.viewer_records import causal_records


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture
def opened(browser):
    """Opens pages, and looks afterwards whether anything went wrong in them."""
    contexts, pages = [], []

    def open_page(address, *, width=1200, height=760, own=("file:",), **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        watched = Watched(context)
        contexts.append(context)
        pages.append((watched, own))
        watched.page.goto(address)
        watched.page.wait_for_selector(".regard canvas")
        watched.settle()
        return watched

    yield open_page
    for watched, own in pages:
        assert watched.troubles == []
        assert watched.outside(*own) == []
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The address of a page of seven words, two layers and three heads."""
    path = tmp_path_factory.mktemp("pages") / "small.html"
    regard.viewer.save_html(causal_records(), path, title="Seven words")
    return path.as_uri()
