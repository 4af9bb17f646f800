"""Tests of the command line in a process of its own, with exit codes, one-line errors and written pictures."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import regard
from regard.errors import install_command
from support.command_line import assert_one_line, run

# ---- the frame


def test_the_version_is_printed():
    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"regard {regard.__version__}\n", "")


@pytest.mark.parametrize("words", [["--help"], []])
def test_help_names_the_commands(words):
    result = run(*words)
    assert result.returncode == 0
    assert result.stderr == ""
    for word in ("tour", "doctor", "--version", "--debug"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [(["tuor"], "tuor"), (["tour", "--outt", "x"], "--outt"), (["doctor", "extra"], "extra")],
)
def test_a_usage_error_is_one_line_and_exit_code_2(words, part):
    assert_one_line(run(*words), 2, part)


def test_a_failure_is_one_line_and_exit_code_1(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    assert_one_line(run("tour", "--out", "taken", cwd=tmp_path), 1, "--out: cannot make the folder 'taken'")


BROKEN = """
import regard.learn.tour
def fail(out, **options):
    raise ZeroDivisionError("not\\nexpected")
regard.learn.tour.run = fail
from regard.cli import main
main()
"""


def test_an_unexpected_error_is_one_line_too(tmp_path):
    assert_one_line(run("tour", cwd=tmp_path, code=BROKEN), 1, "ZeroDivisionError: not expected", "--debug")


@pytest.mark.parametrize("words", [["--debug", "tour"], ["tour", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(tmp_path, words):
    result = run(*words, cwd=tmp_path, code=BROKEN)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "in fail" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_control_c_is_clean():
    code = (
        "import regard.learn.tour as t, time\n"
        "t.run = lambda out, **options: (print('started', flush=True), time.sleep(60))\n"
        "from regard.cli import main; main()"
    )
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    )  # ignored in background jobs
    with subprocess.Popen(
        [sys.executable, "-c", code, "tour"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "started\n"
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, stderr) == (130, "regard: interrupted\n")


LONG_OUTPUT = (
    "import regard.learn.tour as t; t.run = lambda *a, **b: [print('line', n) for n in range(10**6)]; "
    "from regard.cli import main; main()"
)


@pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
def test_a_closed_output_pipe_is_no_error(tmp_path):
    result = subprocess.run(
        f'"{sys.executable}" -c "{LONG_OUTPUT}" tour | head -n 1',
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.stdout == "line 0\n"
    assert result.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 1),
        (["models"], 1),
        (["learn"], 1),
        (["train", "write", "--help"], 1),
        (["translate", "The cat sleeps."], 1),
        (["models", "--nope"], 2),
    ],
)
def test_output_to_a_full_disk_is_one_line(words, code, unbuffered):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "regard", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    reason = "No such option" if code == 2 else "cannot write to standard output: No space left on device\n"
    assert_one_line(result, code, reason)


def test_an_error_after_some_output_is_one_line_on_a_full_disk(tmp_path):
    code = (
        "import regard.learn.tour as t\ndef fails(*a, **b):\n    print('x')\n    raise ValueError('of the tour')\n"
        "t.run = fails\nimport os; os.dup2(os.open(os.environ['FULL'], os.O_WRONLY), 1)\n"
        "from regard.cli import main; main()"
    )
    full = "/dev/full" if os.path.exists("/dev/full") else os.devnull
    result = run("tour", cwd=tmp_path, code=code, FULL=full, PYTHONUNBUFFERED="")
    assert_one_line(result, 1, "ValueError: of the tour")


def test_output_works_in_an_ascii_terminal(tmp_path):
    code = "import regard.learn.tour as t; t.run = lambda *a, **b: print('\u732b')\nfrom regard.cli import main; main()"
    result = run("tour", cwd=tmp_path, code=code, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (result.returncode, result.stdout, result.stderr) == (0, "\\u732b\n", "")


# ---- the doctor


def test_doctor_lists_what_is_installed_and_how_to_install_the_rest():
    result = run("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    for part in ("torch", "numpy", "threads", "Kernels", "Chinese labels"):
        assert part in result.stdout


def test_doctor_prints_json():
    result = run("doctor", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["regard"] == regard.__version__
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["compute"]["threads"] >= 1
    assert found["kernels"]
    assert all(kernel["why"] and isinstance(kernel["active"], bool) for kernel in found["kernels"])


def test_a_missing_extra_comes_with_its_command():
    from regard.cli.doctor import _extra_lines

    (line,) = _extra_lines({"text": {"tokenizers": "1.0", "sacrebleu": None}})
    assert line == f"text    tokenizers 1.0; missing sacrebleu: {install_command('text')}"
