"""Tests of the repository, its lock file, its files and its two READMEs."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from project import versions
from support.paths import ROOT

SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
SKIPPED = {
    ".git",
    ".venv",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    "__pycache__",
    "regard-tour",
    "build",
    "dist",
}


def project_files() -> list[Path]:
    """Return the files that git tracks or would track, or without git all files but build products."""
    if shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if listed.returncode == 0:
            return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    return [p for p in ROOT.rglob("*") if p.is_file() and not SKIPPED & set(p.relative_to(ROOT).parts)]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


# Written in pieces, so that this file does not contain what it looks for.
FORBIDDEN = {
    "a path of one machine": re.compile(r"/(?:work|home|root|Users|opt)/" + r"[a-z]"),
    "a package registry": re.compile(
        r"(?:index|extra-index|find-links)" + r"-url|" + r"files\.pythonhosted" + r"\.org"
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_depends_on_one_machine(what):
    found = [p for p in project_files() if (text := text_of(p)) is not None and FORBIDDEN[what].search(text)]
    assert [str(path.relative_to(ROOT)) for path in found] == []


def locked_lines(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if line and line[0] != "#"]


def test_the_locks_pin_every_version_and_name_no_registry():
    lines = locked_lines("requirements.lock") + locked_lines("requirements-docs.lock")
    assert "torch==2.13.0" in lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9A-Za-z.]+", line), line
    names = [line.split("==")[0].lower() for line in lines]
    assert len(names) == len(set(names))
    assert not {"regard", "torchvision", "torchtext", "lightning", "triton"} & set(names)
    assert not [name for name in names if name.startswith(("nvidia", "cuda"))]


def test_ci_tests_a_bare_machine_before_it_installs_anything():
    """A browser or a font that is installed first would hide that a test needs it."""
    lines = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    commands = [line for line in lines if line and line[0] != "#"]
    first = [line.startswith("run ") for line in commands].index(True)
    assert commands[first] == "run test demo"
    assert not any("install" in line for line in commands[:first])
    assert "run test-newest" in commands


def rows_of_versions(language: str) -> list[list[str]]:
    """Return the cells of the table that `make test-versions` wrote, without the names of the rows."""
    written = (
        versions.PAGES[language].read_text(encoding="utf-8").split(versions.BEGIN)[1].split(versions.END)[0]
    )
    return [row.strip("| ").split(" | ")[1:] for row in written.splitlines() if row.startswith("| ")][1:]


def test_the_table_of_versions_has_the_floors_and_the_lock_and_no_failure():
    rows = rows_of_versions("en")
    assert rows == rows_of_versions("zh")
    floor = versions.floors((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lowest, locked = ([row[1].split("."), row[2].split(".")] for row in rows[:2])
    for cells, name in zip(lowest, ("torch", "transformers"), strict=True):
        assert cells[: len(floor[name].split("."))] == floor[name].split(".")
    lines = locked_lines("requirements.lock")
    assert {f"{n}=={'.'.join(x)}" for n, x in zip(("torch", "transformers"), locked, strict=True)} <= set(
        lines
    )
    assert len(rows) >= 4
    for *_, passed, failed, skipped in rows:
        assert int(passed.replace(",", "")) > 1000
        assert int(failed) == 0
        assert int(skipped) < 100


def test_the_table_of_versions_is_written_between_its_marks_from_the_counts_of_pytest():
    report = '<testsuites><testsuite tests="1211" failures="2" errors="1" skipped="4"/></testsuites>'
    assert versions.counts(report) == (1204, 3, 4)
    row = versions.Row("floor", "3.11.7", "2.6.0", "5.17.0", *versions.counts(report))
    page = f"# A page\n\n{versions.BEGIN}\nold\n{versions.END}\n\nThe rest\n"
    written = versions.table([row], ["3.14"], "en", "2026-11-20")
    found = versions.with_table(page, written)
    assert found.startswith("# A page\n")
    assert found.endswith("\n\nThe rest\n")
    assert "| floor | 3.11.7 | 2.6.0 | 5.17.0 | 1,204 | 3 | 4 |" in found
    assert "Not found on this machine: Python 3.14." in found
    assert "old" not in found
    assert versions.with_table(found, written) == found


def test_the_tests_do_not_depend_on_the_users_environment():
    settings = {"FORCE_COLOR": "1", "COLUMNS": "0", "PYTHONIOENCODING": "latin-1", "REGARD_MODELS": "nowhere"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_terminal.py"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_lock_has_what_the_project_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {line.split("==")[0].lower() for line in (ROOT / "requirements.lock").read_text().splitlines()}
    extras = project["optional-dependencies"]
    for need in [
        *project["dependencies"],
        *extras["plot"],
        *extras["chinese"],
        *extras["hf"],
        *extras["images"],
        "pytest",
        "ruff",
        "pyright",
        "hatchling",
    ]:
        assert re.split(r"[<>=\[]", need)[0].lower() in locked


def test_the_lock_of_the_site_has_what_the_site_needs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    locked = {line.split("==")[0].lower() for line in locked_lines("requirements-docs.lock")}
    assert {need.split(">=")[0] for need in extras["docs"]} <= locked


def calls_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    return imported | {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_reads_or_writes_pickles(path):
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "torch.load", "torch.save"}
    assert calls_of(path) & forbidden == set()
    assert not re.search(r"allow_pickle\s*=\s*True", path.read_text(encoding="utf-8"))


def test_the_licence_text_is_complete():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text.splitlines()) > 170


def outline(name: str) -> list[int]:
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", text, flags=re.MULTILINE)]


def test_both_readmes_have_the_same_outline():
    assert outline("README.md") == outline("README.zh-CN.md")
    assert len(outline("README.md")) > 3
