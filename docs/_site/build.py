"""Build the site in English and Chinese into build/site, with warnings as errors.

``python docs/_site/build.py``, or ``make docs``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS, ROOT = HERE.parent, HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "src")]

from sphinx.cmd.build import main as sphinx_build

import api_pages
import page_code

LANGUAGES = {"en": "en", "zh": "zh_CN"}


def write_pictures(site: Path, only: str) -> None:
    """Write the live pictures of all pages. Both languages have the same code, so the English pages are run."""
    folder = site / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((DOCS / "en").rglob("*.md")):
        text, page = (
            path.read_text(encoding="utf-8"),
            path.relative_to(DOCS / "en").with_suffix("").as_posix(),
        )
        if page_code.pictures_in(text) and only in page:
            print(f"running {page}", flush=True)
            chinese = (DOCS / "zh" / f"{page}.md").read_text(encoding="utf-8")
            page_code.write_pictures(text, page, folder, {"zh": chinese})


def build(site: Path, language: str, *, again: bool) -> int:
    """Build one language and return 0 if there was no warning."""
    options = [
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-c",
        str(HERE),
        "-D",
        f"language={LANGUAGES[language]}",
    ]
    options += [] if again else ["-a", "-E"]
    doctrees = ["-d", str(site.parent / "doctrees" / language)]
    return sphinx_build([*options, *doctrees, str(DOCS / language), str(site / language)])


def main() -> int:
    """Build both languages and the start page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    parser.add_argument("--again", action="store_true", help="read only changed pages again")
    parser.add_argument(
        "--only", default="", help="make the live pictures of the pages whose names contain this"
    )
    chosen = parser.parse_args()
    site = chosen.out.resolve()
    write_pictures(site, chosen.only)
    api_pages.write(DOCS)
    failures = [language for language in LANGUAGES if build(site, language, again=chosen.again)]
    if failures:
        return 1
    shutil.copy(HERE / "start.html", site / "index.html")
    print(f"built {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
