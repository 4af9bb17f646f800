"""Tests that the notebooks are stored without outputs, install Regard if it is missing, and run."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# What each notebook needs beside the core, and the package by which its absence shows.
NEEDED = {"plot": "matplotlib", "text": "tokenizers", "hf": "transformers", "view": "anywidget"}


def content(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in content(path)["cells"] if cell["cell_type"] == "code"]


def extras(path: Path) -> list[str]:
    """The extras that the first code cell installs."""
    return code_cells(path)[0].split("{source}[")[1].split("]")[0].split(",")


def named(path: Path) -> str:
    return path.stem


def test_there_are_five_notebooks():
    assert [path.name[:3] for path in NOTEBOOKS] == ["01_", "02_", "03_", "04_", "05_"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_is_stored_without_outputs(path):
    for cell in content(path)["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_no_line_of_code_is_cut_off_in_a_window_of_1300_pixels(path):
    assert [line for cell in code_cells(path) for line in cell.splitlines() if len(line) > 107] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_starts_with_its_title_and_the_installation(path):
    first, second = content(path)["cells"][:2]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith(f"# {int(path.name[:2])}. ")
    assert second["cell_type"] == "code"
    assert set(extras(path)) <= set(NEEDED)


@pytest.mark.parametrize("found", [True, False])
def test_the_first_cell_installs_regard_only_if_it_is_missing(found, monkeypatch):
    calls = []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if found else None)
    monkeypatch.setattr(subprocess, "check_call", calls.append)
    monkeypatch.setenv("REGARD_SOURCE", "some/folder")
    exec(code_cells(NOTEBOOKS[0])[0], {})
    install = [sys.executable, "-m", "pip", "install", "--quiet", "some/folder[plot]"]
    assert calls == ([] if found else [install])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package, reason=f"running notebooks needs {package}: pip install '.[notebooks]'")
    for extra in extras(path):
        pytest.importorskip(NEEDED[extra], reason=f"{path.name} needs pip install '.[{extra}]'")
    import nbclient
    import nbformat

    for variable, place in {"IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "run"}.items():
        monkeypatch.setenv(variable, str(tmp_path / place))
    # The kernel is that of this environment, whatever kernels the user has installed.
    kernel = tmp_path / "data" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "x", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    python_path = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, python_path)))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    done = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert [cell.execution_count for cell in done.cells if cell.cell_type == "code"] == [
        place + 1 for place in range(len(code_cells(path)))
    ]
    printed = "".join(map(texts_of, done.cells))
    # The address of an object in memory, as that of the generator which manual_seed() returns, tells a reader nothing.
    assert " at 0x" not in printed
    if path.stem == "03_train_a_translator":
        assert float(printed.split("unseen sentences: ")[1].split()[0]) > 50


def texts_of(cell) -> str:
    """Return the printed texts and the plain texts of the results of a cell."""
    shown = [output for output in cell.get("outputs", []) if "image/png" not in output.get("data", {})]
    return "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in shown)
