"""Runs the job of a folder."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import json
import os
import sys
import types
import warnings
from typing import Any

import numpy as np

from regard.learn.child.limits import end_limits, limit_memory, limit_time
from regard.learn.child.places import Stop, raised
from regard.learn.child.refusals import refuse_changes
from regard.learn.child.results import outcome_of, traced

# Packages that are imported before the limits of time and the audit hook are set, because loading them is slow.
PACKAGES = {
    "deep_learning",
    "einops",
    "jax",
    "matplotlib",
    "numpy",
    "pandas",
    "regard",
    "scipy",
    "sklearn",
    "torch",
}


def execute(source: bytes, path: str, job: dict[str, Any]) -> types.ModuleType:
    """Execute the file as a module. ``if __name__ == "__main__"`` is False in it."""
    try:
        tree = ast.parse(importlib.util.decode_source(source), path)
        code = compile(tree, path, "exec")
    except UnicodeDecodeError:
        raise Stop(kind="encoding", line=0) from None
    except SyntaxError as error:
        # The first two lines are read before the rest.
        if error.msg.startswith("invalid or missing encoding declaration"):
            raise Stop(kind="encoding", line=0) from None
        raise Stop(kind="syntax", line=error.lineno or 0, message=error.msg, text=error.text or "") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Stop(kind="syntax", line=0, message=str(error) or type(error).__name__, text="") from None
    for name in imported(tree):
        # If the import fails here, it fails again in the file, where it has a line.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    sys.path.append(os.path.dirname(path))
    module = types.ModuleType("exercise")
    module.__file__ = path
    sys.modules["exercise"] = module
    limit_time(path, job["cpu"], job["wall"])
    refuse_changes(path, job["refusals"])
    exec(code, module.__dict__)
    return module


def imported(tree: ast.AST) -> list[str]:
    """Return the modules of slow packages that a file imports anywhere."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return [name for name in names if name.split(".")[0] in PACKAGES]


def find_function(module: types.ModuleType, job: dict[str, Any]) -> Any:
    """Return the function of the exercise, or stop with the names of the functions of the file."""
    function = getattr(module, job["function"], None)
    if callable(function):
        return function
    own = [
        n
        for n, value in vars(module).items()
        if getattr(value, "__module__", "") == "exercise" and callable(value)
    ]
    raise Stop(kind="no_function", names=own[:10])


def call(function: Any, arguments: dict[str, Any]) -> Any:
    """Call the function with the arguments in order, or by name if it has the same names in another order."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function(*arguments.values())
    names = list(signature.parameters)
    if names != list(arguments) and set(names) == set(arguments):
        return function(**arguments)
    try:
        signature.bind(*arguments.values())
    except TypeError:
        raise Stop(kind="arguments", names=names[:20]) from None
    return function(*arguments.values())


def copied(value: Any) -> Any:
    """Return a copy of an array, or the value itself if it is none."""
    return np.copy(value) if isinstance(value, np.ndarray) else value


def run_cases(
    function: Any, cases: list[dict[str, Any]], job: dict[str, Any], results: dict[str, np.ndarray]
) -> list:
    """Call the function for each case, add the arrays to ``results`` and return the reports."""
    reports = []
    for number, case in enumerate(cases):
        arguments = {name: copied(value) for name, value in case.items()}
        try:
            report, arrays = outcome_of(call(function, arguments), job["count"])
        except Exception as error:
            report, arrays = raised(error, job["path"]), []
        report["changed"] = [
            name
            for name, value in case.items()
            if isinstance(value, np.ndarray) and not np.array_equal(arguments[name], value, equal_nan=True)
        ]
        results |= {f"{number}.{part}": array for part, array in enumerate(arrays)}
        reports.append(report)
    return reports


def run(job: dict[str, Any], cases: list[dict[str, Any]], results: dict[str, np.ndarray]) -> dict[str, Any]:
    """Execute the file, call its function and return the report."""
    path = job["path"]
    report: dict[str, Any] = {"trouble": None, "outcomes": [], "trace": []}
    try:
        with open(path, "rb") as file:
            source = file.read()
        function = find_function(execute(source, path, job), job)
        if job["trace"] is None:
            report["outcomes"] = run_cases(function, cases, job, results)
        else:
            for record, array in traced(lambda: call(function, cases[job["trace"]]), path):
                results[f"trace.{len(report['trace'])}"] = array
                report["trace"].append(record)
    except BaseException as error:
        report["trouble"] = raised(error, path)
    finally:
        end_limits()
    # A refusal that the file caught counts too, and it is the cause of what happened after it.
    if job["refusals"]:
        report["trouble"] = job["refusals"][0]
    return report


def main(folder: str) -> None:
    """Run the job in a folder and end the process, with all its threads."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    with np.load(os.path.join(folder, "arguments.npz"), allow_pickle=False) as arrays:
        cases = [
            {
                name: arrays[value["array"]] if isinstance(value, dict) else value
                for name, value in case.items()
            }
            for case in job["cases"]
        ]
    job["refusals"] = []
    # A warning, such as that of NumPy for an overflow, would be shown as if the file had printed it.
    warnings.simplefilter("ignore")
    results: dict[str, np.ndarray] = {}
    # Opened before the audit hook refuses it.
    with (
        open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as report_file,
        open(os.path.join(folder, "results.npz"), "wb") as results_file,
    ):
        limit_memory(job["memory"])
        report = run(job, cases, results)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        np.savez(results_file, **results)  # type: ignore[arg-type]
        json.dump(report, report_file)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
