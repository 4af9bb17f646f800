"""The command line in a process of its own or in this one, and the form of its errors."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from unittest import mock

import pytest

from regard.cli import main


def run(*words: str, cwd=None, code: str = "from regard.cli import main; main()", **environment: str):
    """The command in a process of its own, with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def run_here(*words: str, cwd=None, warned: str = "error", **environment: str):
    """Run the command in this process, for tests of its output rather than of its start."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or os.getcwd()),
        mock.patch.dict(os.environ, {"COLUMNS": "100", **environment}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(action=warned),
        pytest.raises(SystemExit) as left,
    ):
        main(words)
    return subprocess.CompletedProcess(words, left.value.code, out.getvalue(), errors.getvalue())


def assert_one_line(result, exit_code: int, *parts: str):
    assert result.returncode == exit_code
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("regard: ")
    for part in parts:
        assert part in result.stderr
