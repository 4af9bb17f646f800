"""Tests of the built site. They are skipped if Sphinx is missing, and those in a browser if Chromium is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from filelock import FileLock

from support.browser import Watched, launched
from support.pages import SITE


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the whole site, once for all processes of a test run. ``REGARD_SITE`` names one that is built already."""
    if built := os.environ.get("REGARD_SITE"):
        return Path(built).resolve()
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme", "latex2mathml", "ziamath"):
        pytest.importorskip(package, reason=f"the site needs {package}: make docs installs it")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    out = shared / "site"
    with FileLock(shared / "site.lock"):
        if not (out / "index.html").exists():
            command = [sys.executable, str(SITE / "build.py"), "--out", str(out)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return out


SOURCE = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=\"([^\"]*)\"|<link\b[^>]*?\shref=\"([^\"]*)\""
)
STYLE = re.compile(r"url\(\s*[\"']?(https?:)?//|@import\s+[\"'](?:https?:)?//")


def remote_sources(html: str) -> list[str]:
    """Return the addresses that a browser would fetch from elsewhere when it opens a page."""
    found = [first or second for first, second in SOURCE.findall(html)]
    return [address for address in found if re.match(r"(?:https?:)?//", address)]


def test_a_source_elsewhere_would_be_seen():
    page = '<script async src="https://a/b.js"></script><link rel="x" href="//c/d.css"><img src="e.png"><a href="http://f">'
    assert remote_sources(page) == ["https://a/b.js", "//c/d.css"]
    assert STYLE.search("body { background: url(https://a/b.png) }")
    assert not STYLE.search("body { background: url('b.png') }")


@pytest.mark.slow
def test_the_site_opens_without_a_network(site):
    found = list(site.rglob("*.html"))
    assert len(found) > 150
    for page in found:
        assert remote_sources(page.read_text("utf-8")) == [], page
    for sheet in site.rglob("*.css"):
        assert not STYLE.search(sheet.read_text("utf-8")), sheet


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_page_and_a_place_of_it(site):
    places: dict = {}

    def ids(path):
        if path not in places:
            places[path] = set(re.findall(r"\sid=\"([^\"]+)\"", path.read_text("utf-8")))
        return places[path]

    broken = []
    for page in [site / "index.html", *site.glob("en/**/*.html"), *site.glob("zh/**/*.html")]:
        for link in re.findall(r"<a\b[^>]*?\shref=\"([^\"]*)\"", page.read_text("utf-8")):
            path, _, place = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"\w+:", link) or "pictures/" in link:
                continue
            if not target.exists() or (place and target.suffix == ".html" and place not in ids(target)):
                broken.append((str(page.relative_to(site)), link))
    assert broken == []


@pytest.mark.slow
def test_the_built_reference_has_the_docstrings(site):
    page = (site / "en" / "api" / "regard.masks.html").read_text("utf-8")
    assert 'id="regard.masks.causal"' in page
    assert "Make a causal mask" in page


# ---- in a browser


@pytest.fixture(scope="module")
def browser(site):
    with launched() as program:
        yield program


def watched(browser, width: int = 1280, scheme: str = "light") -> Watched:
    context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
    return Watched(context)


def remote(seen: Watched) -> list[str]:
    return [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "query", "expected"),
    [
        ("zh", "注意力", "1. 为什么需要注意力"),
        ("zh", "缩放点积", "3. 四种分数"),
        ("zh", "softmax", "regard.reference.softmax"),
        ("en", "bottleneck", "1. Why attention"),
        ("en", "恐龙 dinosaur", None),
    ],
)
def test_the_search_finds_pages_that_are_opened_as_files(site, browser, language, query, expected):
    seen = watched(browser)
    seen.page.goto(f"file://{site}/{language}/search.html?q={quote(query)}")
    words = "/finished|did not match|完成|没有匹配/"
    seen.until(f"() => {words}.test(document.querySelector('#search-results .search-summary')?.textContent)")
    found = seen.page.locator("#search-results li a").all_inner_texts()
    assert (expected in found) if expected else found == []
    assert seen.troubles == []
    assert remote(seen) == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_is_wider_than_the_window_or_asks_the_network(site, browser, language, width, scheme):
    seen = watched(browser, width, scheme)
    wide = []
    names = [
        "index.html",
        "guides.html",
        "tutorial/*.html",
        "[c-t]*.html",
        "api/index.html",
        "api/regard.m*.html",
    ]
    for page in sorted({page for name in names for page in (site / language).glob(name)}):
        seen.page.goto(page.as_uri(), wait_until="domcontentloaded")
        if seen.page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
            wide.append(page.name)
    assert wide == []
    assert seen.troubles == []
    assert remote(seen) == []


# Texts that end outside the window, but for those in boxes that scroll.
CUT_OFF = """() => [...document.querySelectorAll(".bd-main *")]
  .filter((each) => !each.children.length && !each.closest("pre, table, .formula, .bd-sidebar-secondary"))
  .filter((each) => [...each.getClientRects()].some((box) => box.right > innerWidth + 1))
  .map((each) => each.textContent)"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_text_is_cut_off_in_a_narrow_window(site, browser, language):
    seen = watched(browser, 390)
    cut = {}
    for page in [site / language / "results.html", *sorted((site / language / "api").glob("*.html"))]:
        seen.page.goto(page.as_uri(), wait_until="domcontentloaded")
        if found := seen.page.evaluate(CUT_OFF):
            cut[page.name] = found[:3]
    assert cut == {}


@pytest.mark.slow
def test_a_chinese_word_in_a_formula_stays_on_one_line_in_a_narrow_window(site, browser):
    seen = watched(browser, 390)
    seen.page.goto(f"file://{site}/zh/tutorial/01-why-attention.html")
    word = seen.page.locator("mtext", has_text="一个向量").first
    wide, size = word.evaluate(
        "(each) => [each.getBoundingClientRect().width, parseFloat(getComputedStyle(each).fontSize)]"
    )
    assert wide > 4.5 * size, "the five characters stand side by side"


@pytest.mark.slow
def test_signatures_of_the_reference_have_short_names(site):
    for page in sorted((site / "en" / "api").glob("*.html")):
        for signature in re.findall(r'<dt class="sig.*?</dt>', page.read_text("utf-8"), flags=re.DOTALL):
            shown = re.sub(r"<[^>]+>", "", signature)
            assert not re.search(r"~\w|&lt;\w|TypeAliasForwardRef", shown), (page.name, shown)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_live_picture_is_drawn_in_the_theme_of_the_page(site, browser, scheme):
    seen = watched(browser, scheme=scheme)
    seen.page.goto(f"file://{site}/zh/tutorial/02-query-key-value.html")
    frame = seen.page.locator("figure.live iframe")
    frame.scroll_into_view_if_needed()
    inside = seen.page.frame_locator("figure.live iframe").locator(f'.regard[data-theme="{scheme}"]')
    inside.wait_for()
    assert "sleeps" in inside.inner_text()
    assert inside.locator("[role=tab]").all_inner_texts() == ["模型", "热图", "连线", "文本", "步骤"]
    assert inside.locator("h1").inner_text() == "哪个词在看哪个词？"
    assert seen.troubles == []


@pytest.mark.slow
def test_formulas_are_drawn_in_the_font_of_the_site(site, browser):
    seen = watched(browser)
    seen.page.goto(f"file://{site}/en/tutorial/02-query-key-value.html")
    assert (
        seen.page.evaluate(
            "() => document.fonts.load('20px \"STIX Two Math\"').then((fonts) => fonts.length)"
        )
        == 1
    )
    tall = seen.page.evaluate("() => document.querySelector('.formula math').getBoundingClientRect().height")
    assert tall > 30


@pytest.mark.slow
def test_the_switch_leads_to_the_same_page_in_the_other_language(site, browser):
    seen = watched(browser)
    seen.page.goto(f"file://{site}/en/tutorial/04-masks.html")
    seen.page.locator(".language-switch a:visible").first.click()
    seen.until("() => document.documentElement.lang.startsWith('zh')")
    assert seen.page.url == f"file://{site}/zh/tutorial/04-masks.html"
    assert seen.page.locator("h1").inner_text().startswith("4. 掩码")
