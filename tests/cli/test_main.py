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
from regard.learn import tour
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
def fail(out):
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
        "t.run = lambda out: (print('started', flush=True), time.sleep(60))\n"
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


@pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
def test_a_closed_output_pipe_is_no_error(tmp_path):
    result = subprocess.run(
        f'"{sys.executable}" -c "from regard.cli import main; main()" tour | head -n 1',
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.stdout == "1. Attention by hand\n"
    assert result.stderr == ""


@pytest.mark.usefixtures("fonts")
def test_output_works_in_an_ascii_terminal(tmp_path):
    result = run("tour", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (result.returncode, result.stderr) == (0, "")


# ---- the tour


@pytest.mark.usefixtures("fonts")
def test_tour_prints_the_right_numbers_and_writes_its_pictures(tmp_path):
    result = run("tour", "--out", "made/here", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    for number in ("0.7071", "0.4011", "0.1978", "16.0445", "3.9555"):
        assert number in result.stdout
    pictures = sorted((tmp_path / "made" / "here").iterdir())
    assert len(pictures) == 4
    for picture in pictures:
        assert f"Picture: {picture.relative_to(tmp_path)}" in result.stdout
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "\x1b" not in result.stdout
    assert "by hand" in result.stdout


@pytest.mark.usefixtures("fonts")
def test_tour_goes_to_its_default_folder(tmp_path):
    assert run("tour", cwd=tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["regard-tour"]


def test_tour_works_without_matplotlib(tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None\nfrom regard.cli import main; main()"
    result = run("tour", cwd=tmp_path, code=code)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count(install_command("plot")) == 4
    assert "16.0445" in result.stdout


def test_the_numbers_in_the_text_of_the_tour_are_right():
    scene = tour.self_scene()
    row = dict(zip(scene.sources, scene.weights[scene.targets.index("sat")], strict=True))
    assert row["cat"] > row["mat"] > max(row["sat"], row["on"], row["the"])
    assert (scene.weights[0] == scene.weights[4]).all()  # "The" and "the" ask the same

    scene = tour.cross_scene()
    best = {t: scene.sources[row.argmax()] for t, row in zip(scene.targets, scene.weights, strict=True)}
    assert scene.sources == ["The", "cat", "sits", "on", "the", "mat", "."]
    assert scene.targets == ["Le", "chat", "est", "assis", "sur", "le", "tapis", "."]
    assert list(best.values()) == ["The", "cat", "sits", "sits", "on", "the", "mat", "."]

    scene = tour.causal_scene()
    assert (scene.weights[0] == [1, 0, 0, 0, 0, 0, 0]).all()
    assert scene.sources[scene.weights[scene.targets.index("it")].argmax()] == "cat"
    assert all(scene.weights[i, j] == 0 for i in range(7) for j in range(i + 1, 7))


@pytest.mark.parametrize("scene", [tour.self_scene(), tour.cross_scene(), tour.causal_scene()])
def test_rows_of_the_tour_sum_to_1(scene):
    assert scene.weights.sum(axis=1) == pytest.approx(1.0)


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
