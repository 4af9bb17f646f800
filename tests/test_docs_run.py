"""Every Python snippet of the READMEs and of docs/ runs, in order, one page a process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str | None = None) -> list[tuple[str, str]]:
    found = [(kind, body) for kind, body in FENCE.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if language is None or block[0] == language]


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "snippets.py"
    script.write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run_and_print_what_the_page_says(page, tmp_path):
    code = "\n".join(body for _, body in blocks(page, "python"))
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    said = [match.strip() for match in re.findall(r"print\(.*\)\s*# (.*)$", code, flags=re.MULTILINE)]
    printed = result.stdout.splitlines()
    assert [line for line in said if line not in printed] == []


def test_a_snippet_that_fails_would_be_seen(tmp_path):
    assert run("import regard\nregard.nothing_of_this_name", tmp_path).returncode != 0


@pytest.mark.parametrize("name", ["README", "docs/see", "docs/tutorial-code"])
def test_both_languages_have_the_same_code(name):
    english, chinese = (blocks(ROOT / f"{name}{ending}") for ending in (".md", ".zh-CN.md"))
    assert english == chinese
    assert any(kind == "python" for kind, _ in english)
