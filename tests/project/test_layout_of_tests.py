"""Tests that test files are in the folder of their room, and share helpers only through support modules."""

import ast
from pathlib import Path

import pytest

from support.paths import ROOT

TESTS = ROOT / "tests"
PACKAGE = ROOT / "src" / "regard"
# Folders of tests/ that stand for no room of the package: what several tests share, the documents with the examples,
# and the repository itself.
WITHOUT_ROOM = {"support", "docs", "project"}
MODULES = sorted(path for path in TESTS.rglob("*.py") if path.name != "sitecustomize.py")


def imported_test_modules(source: str) -> set[str]:
    """The test modules and ``conftest`` modules that a source imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.update(
                [module, *(f"{module}.{alias.name}" for alias in node.names if not module or node.level)]
            )
            names.update(f"{module}.{alias.name}" for alias in node.names if module.split(".")[0] == "tests")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names.update(arg.value for arg in node.args if isinstance(arg, ast.Constant))
    return {
        name
        for name in names
        if any(part.startswith("test_") or part == "conftest" for part in str(name).split("."))
    }


def is_room(folder: Path) -> bool:
    """Return whether the package has a folder or a module of the same path."""
    room = PACKAGE / folder
    return room.with_suffix(".py").is_file() or (room / "__init__.py").is_file()


def folders_without_room(folders: list[Path]) -> list[str]:
    return [str(folder) for folder in folders if folder.parts[0] not in WITHOUT_ROOM and not is_room(folder)]


def folders_of_tests() -> list[Path]:
    return sorted({path.parent.relative_to(TESTS) for path in MODULES} - {Path()})


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_module_imports_another(path):
    assert imported_test_modules(path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    "line",
    [
        "from test_main import run",
        "import test_main as main",
        "from cli.test_main import run",
        "from tests.cli import test_main",
        "from . import test_main",
        "def f():\n    from ..cli.test_main import run",
        "import conftest",
        "importlib.import_module('cli.test_main')",
    ],
)
def test_every_form_of_import_is_seen(line):
    assert imported_test_modules(line)


@pytest.mark.parametrize("line", ["from support.command_line import run", "from regard import test_data"])
def test_other_imports_are_allowed(line):
    assert imported_test_modules(line) == set()


def test_every_folder_of_tests_has_a_room():
    assert folders_without_room(folders_of_tests()) == []
    assert len(folders_of_tests()) > 20


def test_a_folder_without_a_room_is_named():
    folders = [
        Path("capture"),
        Path("core"),
        Path("capture/joining"),
        Path("docs"),
        Path("captures"),
        Path("text/odd"),
    ]
    assert folders_without_room(folders) == ["captures", "text/odd"]


def test_files_beside_the_folders_are_named_after_a_module():
    names = {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")}
    modules = {path.stem.removeprefix("_") for path in PACKAGE.glob("*.py")}
    assert names - modules == set()
