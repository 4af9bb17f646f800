"""Runs the tests with several versions of torch, transformers and Python, and writes the table of docs/*/versions.md.

    python tests/project/versions.py                            # all environments, and the table
    python tests/project/versions.py "newest transformers"      # one environment, without the table

The environment "lock" is .venv. Each other environment is made in build/versions, and removed after its tests. Those of
the Python of .venv see the packages of .venv, and install what differs. Those of another Python install everything.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "versions"
PAGES = {"en": ROOT / "docs" / "en" / "versions.md", "zh": ROOT / "docs" / "zh" / "versions.md"}
FOLDERS = ("core", "layers", "masks", "kernels", "maps", "capture", "integrations")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BEGIN, END = "<!-- written by make test-versions -->", "<!-- the end of what it writes -->"
NAMES = {
    "floor": "最低版本",
    "lock": "requirements.lock",
    "newest transformers": "最新的 transformers",
    "newest": "最新版本",
}
TEXTS = {
    "en": (
        "Measured on {date}, with the tests of {tests} that are not slow.{missing}",
        " Not found on this machine: Python {pythons}.",
        "| versions | Python | torch | transformers | passed | failed | skipped |",
    ),
    "zh": (
        "测于 {date}，运行 {tests} 中不慢的测试。{missing}",
        "这台机器上没有 Python {pythons}。",
        "| 版本 | Python | torch | transformers | 通过 | 失败 | 跳过 |",
    ),
}


@dataclass(frozen=True)
class Environment:
    """A Python and the requirements that it gets on top of what it has."""

    name: str
    python: str
    requirements: tuple[str, ...] = ()
    # Whether it sees the packages of .venv.
    on_lock: bool = True


class Row(NamedTuple):
    """The versions of an environment and the number of its tests that passed, failed and were skipped."""

    name: str
    python: str
    torch: str
    transformers: str
    passed: int
    failed: int
    skipped: int


def floors(pyproject: str) -> dict[str, str]:
    """Return the lowest versions of torch and transformers that a pyproject.toml allows."""
    project = tomllib.loads(pyproject)["project"]
    needs = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    found = (re.match(r"(torch|transformers)>=([0-9.]+)", need) for need in needs)
    return {match[1]: match[2] for match in found if match}


def other_pythons(current: str) -> dict[str, str | None]:
    """Return the path of each supported version of Python other than the current, or None where there is none."""
    found: dict[str, str | None] = {}
    for version in PYTHONS:
        if version != current:
            names = [shutil.which(f"python{version}"), *_of_pyenv(version)]
            found[version] = next((name for name in names if name and _version_of(name) == version), None)
    return found


def _of_pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))]


def _version_of(python: str) -> str:
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def environments(venv: str) -> tuple[list[Environment], list[str]]:
    """Return all environments, and the versions of Python that this machine does not have."""
    floor = floors((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = [
        Environment("floor", venv, tuple(f"{name}=={version}" for name, version in floor.items())),
        Environment("lock", venv),
        Environment("newest transformers", venv, ("transformers",)),
        Environment("newest", venv, ("torch", "transformers")),
    ]
    pythons = other_pythons(_version_of(venv))
    tools = re.findall(r"^(?:pytest|pytest-xdist|hypothesis)==.*$", _lock(), flags=re.MULTILINE)
    for python in filter(None, pythons.values()):
        listed.append(Environment("newest", python, (f"{ROOT}[all]", *tools), on_lock=False))
    return listed, [version for version, python in pythons.items() if python is None]


def _lock() -> str:
    return (ROOT / "requirements.lock").read_text(encoding="utf-8")


def install(environment: Environment) -> str | None:
    """Make an environment and return its Python, or None if a package cannot be installed."""
    if not environment.requirements:
        return environment.python
    folder = BUILD / f"{environment.name}-{_version_of(environment.python)}".replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([environment.python, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    if environment.on_lock:
        packages, own = (_site_packages(x) for x in (environment.python, python))
        (Path(own) / "lock.pth").write_text(packages + "\n")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    done = subprocess.run([*pip, *environment.requirements])
    return python if done.returncode == 0 else None


def _site_packages(python: str) -> str:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_tests(name: str, python: str, folders: list[str]) -> Row:
    """Run tests with a Python and return their counts."""
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    versions = (
        "import json, platform, torch, transformers as t; v = platform.python_version(), torch.__version__"
    )
    command = [python, "-c", f"{versions}, t.__version__; print(json.dumps(v))"]
    shown = subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout
    print(f"== {name}: Python, torch and transformers {shown.strip()}", flush=True)
    report = BUILD / "report.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    tests = [f"tests/{folder}" for folder in folders]
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
    subprocess.run([*command, "-m", "not slow", f"--junitxml={report}", *tests], cwd=ROOT, env=settings)
    return Row(
        name, *(x.split("+")[0] for x in json.loads(shown)), *counts(report.read_text(encoding="utf-8"))
    )


def counts(report: str) -> tuple[int, int, int]:
    """Return how many tests passed, failed and were skipped in a report of pytest."""
    suite = ElementTree.fromstring(report).find("testsuite")
    if suite is None:
        raise ValueError("the report has no testsuite")
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return total - failed - skipped, failed, skipped


def table(rows: list[Row], missing: list[str], language: str, date: str) -> str:
    """Return the table of the page in one language."""
    sentence, no_python, header = TEXTS[language]
    absent = no_python.format(pythons=", ".join(missing)) if missing else ""
    about = sentence.format(date=date, tests=", ".join(f"`{name}`" for name in FOLDERS), missing=absent)
    lines = [about, "", header, "|---" * 7 + "|"]
    for row in rows:
        name = row.name if language == "en" else NAMES[row.name]
        lines.append(f"| {' | '.join([name, *(f'{x:,}' if isinstance(x, int) else x for x in row[1:])])} |")
    return "\n".join(lines)


def with_table(page: str, written: str) -> str:
    """Return a page with another table between its two marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{written}\n\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"environments among {', '.join(NAMES)}, by default all")
    parser.add_argument("--tests", nargs="+", default=list(FOLDERS), help="folders of tests")
    parser.add_argument("--keep", action="store_true", help="keep the environments in build/versions")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no environment is called {', '.join(sorted(unknown))}: there are {', '.join(NAMES)}")
    listed, missing = environments(sys.executable)
    rows, absent = [], False
    for environment in listed:
        if options.names and environment.name not in options.names:
            continue
        python = install(environment)
        if python is None:
            absent = True
            print(
                f"{environment.name}: {environment.requirements} could not be installed, not tested",
                file=sys.stderr,
            )
            continue
        rows.append(run_tests(environment.name, python, options.tests))
        if python != environment.python and not options.keep:
            shutil.rmtree(Path(python).parents[1])
    if missing and not options.names:
        print(f"not found on this machine: Python {', '.join(missing)}")
    if not options.names and not absent and options.tests == list(FOLDERS):
        date = datetime.date.today().isoformat()
        for language, path in PAGES.items():
            written = table(rows, missing, language, date)
            path.write_text(with_table(path.read_text(encoding="utf-8"), written), encoding="utf-8")
    for row in rows:
        print(*row, sep="\t")
    return int(any(row.failed for row in rows) or (absent and not options.names))


if __name__ == "__main__":
    sys.exit(main())
