"""Tasks by their names and as ``module:Class``, and the errors for anything else."""

import importlib

import pytest

from regard.errors import ArgumentError, MissingExtraError, RegardError
from regard.tasks import find_task
from support.command_line import assert_one_line, run_here

EXPECTED = "expected a class that inherits from regard.tasks.Task"


@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize("task", ["json:JSONDecoder", "os:getcwd", "os:sep"])
def test_only_a_class_of_tasks_is_a_task(command, task):
    assert_one_line(run_here(command, task), 2, f"task: {task} is not a", EXPECTED)


@pytest.mark.parametrize("task", [3, dict, object()])
def test_only_a_task_can_be_given_in_python(task):
    with pytest.raises(ArgumentError, match=f"task: .* is not a task: {EXPECTED}"):
        find_task(task)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("class Half(Task): name = 'half'", "does not define settings, predictor, prepare, build, objective"),
        ("class Half(Task: pass", "cannot be imported: SyntaxError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("class Whole: pass", "has no attribute 'Half': expected module:Class"),
    ],
)
def test_a_task_that_is_not_complete_is_one_line(tmp_path, code, problem, monkeypatch):
    monkeypatch.delitem(importlib.sys.modules, "half_tasks", raising=False)
    (tmp_path / "half_tasks.py").write_text(f"from regard.tasks import Task\n{code}\n")
    importlib.invalidate_caches()
    result = run_here("train", "half_tasks:Half", cwd=tmp_path)
    importlib.sys.modules.pop("half_tasks", None)
    assert_one_line(result, 2, problem)


def test_a_failing_import_inside_a_task_of_regard_is_not_a_wrong_name(monkeypatch):
    def fail(name):
        raise ImportError("libfoo.so is missing")

    monkeypatch.setattr("regard.tasks.registry.importlib.import_module", fail)
    with pytest.raises(
        RegardError, match=r"regard\.tasks\.translate\.task cannot be imported: libfoo"
    ) as caught:
        find_task("translate")
    assert not isinstance(caught.value, ArgumentError)
    assert "module:Class" not in str(caught.value)


def test_a_missing_extra_inside_a_task_names_its_command(monkeypatch):
    def fail(name):
        raise MissingExtraError("tokenizers", "text", "byte-pair encoding")

    monkeypatch.setattr("regard.tasks.registry.importlib.import_module", fail)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[text\]'"):
        find_task("translate")
