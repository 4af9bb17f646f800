"""Tests that a learner's file cannot do harm, and that everything that happens in it is told in both languages."""

import dataclasses
import os
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from regard.errors import FileError
from regard.learn.runner import Limits, run_file
from support.exercise_files import BY_NAME, QUICK, in_both_languages, write

CHINESE = re.compile(r"[\u4e00-\u9fff]")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")


def function(body: str, before: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return f"import numpy as np\n{before}\ndef softmax(x):\n{lines}\n"


# What the file holds, and what is said of it in English. Line 4 is the first of the function.
BAD_FILES = {
    "syntax error": ("def softmax(x)\n    return x\n", ["cannot read the file in line 1", "expected ':'"]),
    "not closed": ("def softmax(x):\n    return (x\n", ["cannot read the file in line 2", "never closed"]),
    "not UTF-8": (b"# \xff\xfe\ndef softmax(x):\n    return x\n", ["not encoded as UTF-8"]),
    "null bytes": (b"def softmax(x):\n    return \0x\n", ["cannot read the file", "null bytes"]),
    "empty": ("", ["has no function softmax"]),
    "other name": ("def softmaxx(x):\n    return x\n", ["has no function softmax. It has softmaxx."]),
    "no function": ("softmax = 3\n", ["has no function softmax"]),
    "missing module": ("import torhc\n", ["imports torhc in line 1, “import torhc”, but no module of this name"]),
    "missing module beside NumPy": ("import numpy as np\nimport torhc\n", ["imports torhc in line 2"]),
    "missing module inside": (function("import torhc"), ["imports torhc", "line 4"]),
    "raises at once": ("1 / 0\n", ["raised ZeroDivisionError in line 1", "division by zero"]),
    "raises at once beside NumPy": (
        "import numpy as np\nx = np.ones((2, 3)) @ np.ones(2)\n",
        ["raised ValueError in line 2", "mismatch"],
    ),
    "no keepdims": (
        function("return np.exp(x - x.max(axis=-1))"),
        ["The maximum has lost its axis", "keepdims=True", "are not divided by their sum"],
    ),
    "raises": (function("y = x + 1\nreturn y @ z"), ["raised NameError in line 5", "'z' is not defined"]),
    "shapes": (
        function("y = np.ones((2, 7))\nreturn x @ y"),
        ["raised ValueError in line 5", "x (2, 3)", "In that line: y (2, 7)"],
    ),
    "error without words": (
        function("class Odd(Exception):\n    def __str__(self): return 1 / 0\nraise Odd"),
        ["raised Odd in line 6"],
    ),
    "recursion": (function("return softmax(x)"), ["raised RecursionError in line 4"]),
    "too many arguments": ("def softmax(x, axis):\n    return x\n", ["arguments x, axis", "softmax(x)"]),
    "no arguments": ("def softmax():\n    return 1\n", ["takes no arguments", "softmax(x)"]),
    "returns None": (function("x"), ["returned None", "return?"]),
    "None inside": (function("return [[None, 1.0]]"), ["returned None"]),
    "ragged": (function("return [[1.0], [1.0, 2.0]]"), ["rows have different lengths"]),
    "two results": (function("return x, 1.0"), ["returned 2 things. Return only the exponentials"]),
    "text": (function("return 'weights'"), ["returned text"]),
    "complex": (function("return x + 1j"), ["complex numbers"]),
    "object": (function("return {'weights': x}"), ["returned a dict"]),
    "coroutine": ("async def softmax(x):\n    return x\n", ["returned a coroutine"]),
    "too large a result": (function("return np.zeros(10**6 + 1)"), ["more than a million numbers"]),
    "wrong shape": (function("return x.ravel()[:3]"), ["the shape of your weights is (3,). The right shape is (2, 3)"]),
    "NaN": (function("return x * np.nan"), ["yours is nan", "contains NaN, which comes from 0 / 0"]),
    "exit": (function("exit()", "import sys"), ["ends the program", "line 4"]),
    "sys.exit": (function("sys.exit(3)", "import sys"), ["ends the program in line 4"]),
    "os._exit": (function("os._exit(0)", "import os"), ["process ended before", "exit code 0"]),
    "crash": (function("ctypes.string_at(0)", "import ctypes"), ["process ended before", "exit code -11"]),
    "keyboard": (function("return float(input())"), ["raised EOFError in line 4"]),
    "endless loop": (function("while True:\n    x = x + 1"), ["0.5 seconds of computing in line", "loop"]),
    "endless loop at once": ("while True:\n    pass\n", ["0.5 seconds of computing in line"]),
    "stubborn loop": (
        function("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        ["0.5 seconds of computing"],
    ),
    "sleep": (function("time.sleep(1000)", "import time"), ["still waiting after 2 seconds in line 4"]),
    "prints too much": (function("while True: print('x' * 1000)"), ["printed more than 1 MB"]),
    "fork": (function("os.fork()", "import os"), ["tried to start or end another process in line 4"]),
    "system": (function("os.system('ls')", "import os"), ["tried to start or end another process"]),
    "subprocess": (
        function("subprocess.run(['ls'])", "import subprocess"),
        ["tried to start or end another process"],
    ),
    "spawn": (
        function(
            "multiprocessing.get_context('spawn').Process(target=print, args=('started',)).start()",
            "import multiprocessing",
        ),
        ["tried to start or end another process in line 4"],
    ),
    "kill": (function("os.kill(os.getppid(), 9)", "import os"), ["tried to start or end another process"]),
    "network": (
        function("socket.create_connection(('localhost', 9))", "import socket"),
        ["tried to use the network in line 4"],
    ),
}  # fmt: skip


# One of each sort. The others are slow only together.
QUICK_KINDS = {
    *("syntax error", "other name", "missing module", "raises", "shapes", "too many arguments", "returns None"),
    *("complex", "wrong shape", "sys.exit", "os._exit", "endless loop", "sleep", "prints too much", "fork"),
    *("spawn", "network"),
}  # fmt: skip
KINDS = [kind if kind in QUICK_KINDS else pytest.param(kind, marks=pytest.mark.slow) for kind in BAD_FILES]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_file_is_told_in_words_and_not_changed(kind, tmp_path):
    source, parts = BAD_FILES[kind]
    path = tmp_path / "my.py"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    before = path.read_bytes()
    # A file that computes is stopped by the limit of computing, not by that of waiting.
    limits = dataclasses.replace(QUICK, wall=60.0) if "loop" in kind else QUICK
    _, english, chinese = in_both_languages("softmax", path, limits)
    assert english.startswith("Not yet.\n")
    assert chinese.startswith("还不对。\n")
    for part in parts:
        assert part in english
    assert "Traceback" not in english + chinese
    # The line of the file and the message of an error stay as they are. Everything else is translated.
    assert CHINESE.search(chinese.splitlines()[1])
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["my.py"]


DELETES = [
    "os.remove(FILE)",
    "pathlib.Path(FILE).unlink()",
    "shutil.rmtree(os.path.dirname(FILE))",
    "os.rmdir(FOLDER)",
]
CHANGES = [
    "os.rename(FILE, FILE + '2')",
    "os.truncate(FILE, 0)",
    "os.chmod(FILE, 0)",
    "open(FILE, 'w')",
    "open(FILE, 'r+')",
    "open(FILE, 'a').write('x')",
    "os.open(FILE, os.O_WRONLY | os.O_TRUNC)",
    "pathlib.Path(FILE).write_text('x')",
    "np.save(FILE, x)",
    "x.tofile(FILE)",
    "np.memmap(FILE, mode='w+', shape=3)",
    "shutil.copy(__file__, FILE)",
    "os.mkdir(FILE + '-folder')",
    "os.symlink(FILE, FILE + '-link')",
    "sqlite3.connect(FILE)",
]


def writing_file(folder, body: str):
    """A file with a function of some lines from line 7 on, beside a file and a folder to keep."""
    (folder / "kept.npy").write_text("as it was")
    (folder / "folder").mkdir()
    before = f"FILE = {str(folder / 'kept.npy')!r}\nFOLDER = {str(folder / 'folder')!r}"
    return write(folder, "import os, pathlib, shutil, sqlite3\n" + function(body, before))


def assert_kept(folder):
    assert (folder / "kept.npy").read_text() == "as it was"
    assert sorted(one.name for one in folder.iterdir()) == ["folder", "kept.npy", "my.py"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (DELETES[0], "tried to delete"),
        (DELETES[2], "tried to delete"),
        (CHANGES[3], "tried to write or change"),
    ],
)
def test_an_attempt_to_write_or_delete_is_told_with_its_line(line, said, tmp_path):
    _, english, chinese = in_both_languages("softmax", writing_file(tmp_path, f"{line}\nreturn x"))
    assert said in english
    assert "in line 6" in english
    assert "已被拒绝" in chinese
    assert_kept(tmp_path)


def test_every_way_to_write_or_delete_is_refused(tmp_path):
    body = "\n".join(
        f"try:\n    {line}\n    print({line!r})\nexcept PermissionError: pass" for line in DELETES + CHANGES
    )
    run, _, _ = in_both_languages("softmax", writing_file(tmp_path, f"{body}\nreturn x"))
    assert run.printed == ""
    assert run.trouble is not None
    assert run.trouble["kind"] == "refused"
    assert_kept(tmp_path)


STARTS = [
    "os.fork()",
    "os.forkpty()",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "os.posix_spawnp('true', ['true'], {})",
    "os.spawnlp(os.P_WAIT, 'true', 'true')",
    "os.execlp('true', 'true')",
    "os.system('true')",
    "os.popen('true')",
    "subprocess.run(['true'])",
    "subprocess._fork_exec()",
    "_posixsubprocess.fork_exec()",
    "multiprocessing.get_context('fork').Process().start()",
    "multiprocessing.get_context('spawn').Process().start()",
    "multiprocessing.get_context('forkserver').Process().start()",
    "multiprocessing.get_context('spawn').Pool(1)",
    "concurrent.futures.ProcessPoolExecutor(1).submit(print)",
]


@pytest.mark.skipif(os.name == "nt", reason="other ways to start a process")
def test_every_way_to_start_a_process_is_refused(tmp_path):
    body = "\n".join(
        f"try:\n    {line}\n    print({line!r})\nexcept PermissionError: pass" for line in STARTS
    )
    before = "import _posixsubprocess, concurrent.futures, multiprocessing, os, subprocess"
    source = function(f"{body}\nprint('all refused')\nreturn x", before)
    run, english, _ = in_both_languages("softmax", write(tmp_path, source))
    assert run.printed.splitlines() == ["all refused"] * len(BY_NAME["softmax"].cases)
    assert "tried to start or end another process in line 5" in english


def test_a_refusal_that_the_file_catches_is_told_too(tmp_path):
    body = "try:\n    open('notes.txt', 'w')\nexcept OSError:\n    pass\nreturn x"
    _, english, _ = in_both_languages("softmax", write(tmp_path, function(body)))
    assert "tried to write or change notes.txt in line 5" in english


@LINUX
@pytest.mark.parametrize("body", ["y = []\nwhile True: y.append(bytearray(10**7))", "return np.ones(10**10)"])
def test_memory_is_limited(body, tmp_path):
    limits = Limits(memory=256 * 1024**2, wall=60.0)
    _, english, chinese = in_both_languages("softmax", write(tmp_path, function(body)), limits)
    assert "needs more than the 0.25 GB of memory" in english
    assert "内存" in chinese


def test_little_is_shown_of_a_file_that_prints_without_end(tmp_path):
    source = function("while True: print('x' * 1000)")
    _, english, chinese = in_both_languages("softmax", write(tmp_path, source))
    assert english.endswith(f"Your file printed:\n  {'x' * 100}…\n  {'x' * 100}…\n  …")
    assert len(chinese) < 500


@LINUX
@pytest.mark.parametrize("size", ["10**7", pytest.param("10**9", marks=pytest.mark.slow)])
def test_one_print_of_many_letters_is_stopped(size, tmp_path):
    _, english, _ = in_both_languages("softmax", write(tmp_path, function(f"print('x' * {size})\nreturn x")))
    assert "printed more than 1 MB" in english or "memory" in english


def test_the_file_runs_in_an_empty_folder_and_may_read_and_print(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 1.0\n")
    source = function(
        "return weights(x * helper.FACTOR)", "import os, helper\nprint(os.listdir(), open(__file__).read(6))"
    )
    source += "def weights(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"
    source += "if __name__ == '__main__':\n    raise ValueError\n"
    run, english, chinese = in_both_languages("softmax", write(tmp_path, source))
    assert run.trouble is None
    assert english.startswith("Right.")
    assert "Your file printed:\n  [] import" in english
    assert "你的文件打印了" in chinese
    assert not (tmp_path / "__pycache__").exists()


def test_warnings_are_not_shown_as_prints_of_the_file(tmp_path):
    body = "print('mine', file=sys.stderr)\nreturn np.exp(x) / np.exp(x).sum(-1, keepdims=True)"
    run, english, _ = in_both_languages("softmax", write(tmp_path, function(body, "import sys")))
    assert set(run.printed.splitlines()) == {"mine"}
    assert "RuntimeWarning" not in english
    assert "exp(1000) is inf" in english


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    large = tmp_path / "large.py"
    large.write_bytes(b"#" * 1_000_001)
    wrong = {
        tmp_path / "none.py": "No such file",
        tmp_path: "is a folder",
        Path(os.devnull): "is no regular file",
        large: "more than 1 MB",
    }
    for path, part in wrong.items():
        with pytest.raises(FileError, match=part):
            run_file(path, BY_NAME["softmax"])


def test_only_a_file_that_imports_torch_loads_it(tmp_path):
    body = "import sys\nprint('torch' in sys.modules)\nreturn x"
    run, _, _ = in_both_languages("softmax", write(tmp_path, function(body)))
    assert run.printed.splitlines()[0] == "False"


def test_threads_of_the_file_do_not_keep_the_process(tmp_path):
    before = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()"
    run, _, _ = in_both_languages("softmax", write(tmp_path, function("return x", before)), QUICK)
    assert run.trouble is None
    assert len(run.results) == len(BY_NAME["softmax"].cases)


@pytest.mark.skipif(os.name == "nt", reason="no process groups")
def test_the_environment_of_the_caller_is_not_changed(tmp_path):
    before = dict(os.environ)
    in_both_languages("softmax", write(tmp_path, function("import os\nos.environ.clear()\nreturn x")))
    assert dict(os.environ) == before


def test_control_characters_that_a_file_prints_do_not_reach_the_terminal(tmp_path):
    body = "e = np.exp(x - x.max(-1, keepdims=True))\nreturn e / e.sum(-1, keepdims=True)"
    source = function(body, r"print('\x1b]0;title\x07\x1b[31mred\x9b')")
    _, english, _ = in_both_languages("softmax", write(tmp_path, source))
    assert "red" in english
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", english)


def test_a_right_answer_in_bfloat16_is_right(tmp_path):
    source = (
        "import torch\ndef simple_attention(Q, K, V):\n"
        "    q, k, v = (torch.as_tensor(x).bfloat16() for x in (Q, K, V))\n"
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v)\n"
    )
    assert in_both_languages("simple_attention", write(tmp_path, source))[1].startswith("Right.")


def test_a_result_that_overflows_gives_no_warning(tmp_path):
    source = function("e = np.nan_to_num(np.exp(x))\nreturn e / np.nan_to_num(e.sum(-1, keepdims=True))")
    assert "Not yet." in in_both_languages("softmax", write(tmp_path, source))[1]
