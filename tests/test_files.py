"""Tests of writing files, with links, modes, devices, streams and the files of killed processes."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.errors import FileError
from regard.files import check_writable, read_json, temporary_beside, write_atomically
from regard.tasks.translate import TranslationSettings
from regard.tasks.translate.data import prepare
from regard.text.cache import write_stores

fcntl = pytest.importorskip("fcntl", reason="links, modes and locks of a Unix system")


def put(path, text="new\n"):
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def run(code, *arguments, **options):
    """Run Python code in a process of its own."""
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **options)


# ---- links


def test_a_link_stays_and_its_target_is_written(tmp_path):
    target, first, second = tmp_path / "target", tmp_path / "first", tmp_path / "second"
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target"
    target.write_text("old\n")
    first.symlink_to("far/target")
    second.symlink_to(first)
    put(second)
    assert first.is_symlink()
    assert second.is_symlink()
    assert target.read_text() == "new\n"
    assert sorted(os.listdir(tmp_path)) == ["far", "first", "second"]  # nothing temporary is left
    assert os.listdir(tmp_path / "far") == ["target"]


def test_a_link_to_a_missing_file_creates_its_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "later")
    put(tmp_path / "link")
    assert (tmp_path / "later").read_text() == "new\n"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("target", "part"), [("nowhere/file", "does not exist"), ("link", "is a symbolic link to itself")]
)
def test_broken_links_are_an_error(tmp_path, target, part):
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(FileError, match=part):
        check_writable(tmp_path / "link")


def test_an_empty_path_is_refused():
    with pytest.raises(FileError, match="empty"):
        check_writable("")


# ---- modes


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "secret"
    path.write_text("old\n")
    path.chmod(mode)
    put(path)
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "theirs"
    path.write_text("old\n")
    os.chown(path, 4321, 1234)
    # Giving a file away clears such bits: they come after.
    path.chmod(0o4711)
    put(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4321, 1234, 0o4711)


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        put(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


# ---- devices and streams

WRITE = """
import sys
from regard.files import write_atomically
print("before", flush=sys.argv[2] == "flush")
write_atomically(sys.argv[1], lambda part: part.write_text("text\\n"))
print("after")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_writing_to_standard_output_appends_to_an_open_file(tmp_path, name):
    """As root, /dev/stdout itself was replaced, and a shell's >> would have lost earlier output."""
    device = os.lstat("/dev/stdout")
    with open(tmp_path / "out", "w") as out:
        out.write("first\n")
        out.flush()
        done = subprocess.run(
            [sys.executable, "-c", WRITE, name, "later"], stdout=out, check=False, timeout=60
        )
    assert done.returncode == 0
    assert (tmp_path / "out").read_text() == "first\nbefore\ntext\nafter\n"
    assert os.lstat("/dev/stdout").st_ino == device.st_ino
    assert os.listdir(tmp_path) == ["out"]


def test_writing_to_standard_output_works_with_a_pipe():
    assert run(WRITE, "/dev/stdout", "flush").stdout == "before\ntext\nafter\n"


def test_a_named_pipe_is_written_to_and_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        put(tmp_path / "link")
        assert reader.communicate(timeout=60)[0] == "new\n"
    assert stat.S_ISFIFO(os.lstat(tmp_path / "pipe").st_mode)


# ---- files of killed processes

HANG = """
import sys, time
from pathlib import Path
from regard.files import temporary_beside
with temporary_beside(Path(sys.argv[1]), folder=sys.argv[2] == "folder") as part:
    if part.is_dir():
        (part / "inside").write_text("half")
    print(part, flush=True)
    time.sleep(120)
"""


def started(target, kind):
    process = subprocess.Popen([sys.executable, "-c", HANG, target, kind], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_temporary_files_of_dead_processes_alone_are_removed(tmp_path, kind):
    living, theirs = started(tmp_path / "target", kind)
    dead, left = started(tmp_path / "target", kind)
    try:
        os.kill(dead.pid, signal.SIGKILL)
        dead.wait(timeout=60)
        assert left.exists()
        (tmp_path / ".target.mine.part").write_text("not one of ours")
        with temporary_beside(tmp_path / "target", folder=kind == "folder") as mine:
            assert not left.exists()
            assert theirs.exists()
            assert mine.exists()
        assert not mine.exists()
    finally:
        for process in (living, dead):
            process.kill()
            process.communicate(timeout=60)
    assert sorted(os.listdir(tmp_path)) == sorted([theirs.name, ".target.mine.part"])


KILLED = """
import os, signal, sys
from regard.tasks.translate import TranslationSettings
from regard.tasks.translate.data import prepare
from regard.text.cache import write_stores
def fill(writers):
    writers["ids"].append([[1, 2, 3]])
    os.kill(os.getpid(), signal.SIGKILL)
write_stores(sys.argv[1], {"ids": 10}, fill)
"""


def test_a_cache_whose_maker_was_killed_leaves_nothing_once_it_is_made_again(tmp_path):
    assert run(KILLED, tmp_path / "cache").returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".cache.*.part"))) == 1
    write_stores(tmp_path / "cache", {"ids": 10}, lambda writers: writers["ids"].append([[1, 2]]) or {})
    assert os.listdir(tmp_path) == ["cache"]


def test_preparing_removes_what_an_earlier_run_left_though_nothing_is_built(tmp_path):
    (tmp_path / "train.tsv").write_text("a dog\tun chien\na cow\tune vache\n", encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("a cat\tun chat\n", encoding="utf-8")
    files = {"data": str(tmp_path / "train.tsv"), "valid": str(tmp_path / "valid.tsv")}
    settings = TranslationSettings(**files, vocabulary_size=300, steps=1)
    prepare(settings, tmp_path, learn=True)
    assert run(KILLED, tmp_path / "cache").returncode == -signal.SIGKILL
    assert list(tmp_path.glob(".cache.*.part"))
    prepare(settings, tmp_path)
    assert not list(tmp_path.glob(".cache.*.part"))


def test_a_folder_that_another_process_has_locked_can_be_written_in(tmp_path):
    """A shell's ``flock FOLDER COMMAND`` holds the lock, and the command would wait for it forever."""
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        began = time.monotonic()
        put(tmp_path / "file")
        assert time.monotonic() - began < 20
    finally:
        os.close(handle)
    assert os.listdir(tmp_path) == ["file"]


def test_concurrent_writers_of_one_file_keep_their_temporary_files(tmp_path):
    code = (
        "import sys\nfrom regard.files import write_atomically\n"
        "for i in range(60): write_atomically(sys.argv[1], lambda part: part.write_text(sys.argv[2] * 1000))\n"
    )
    words = [sys.executable, "-c", code, tmp_path / "file"]
    several = [subprocess.Popen([*words, letter], stderr=subprocess.PIPE, text=True) for letter in "abc"]
    deadline = time.monotonic() + 60
    for process in several:
        errors = process.communicate(timeout=deadline - time.monotonic())[1]
        assert (process.returncode, errors) == (0, "")
    text = (tmp_path / "file").read_text()
    assert len(text) == 1000
    assert len(set(text)) == 1
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file: is this a folder of a model?"),
        (b"{", "not JSON, or cut short"),
        (b"\xff{}", "not JSON, or cut short"),
        (b"[1]", "expected a JSON object, got list"),
        (b"[" * 100_000, "not JSON, or cut short"),
    ],
)
def test_a_json_file_that_cannot_be_read_is_named(tmp_path, content, problem):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_json(path, "is this a folder of a model?")
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_a_json_object_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"word": "\u8bcd"}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"word": "\u8bcd"}
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        read_json(tmp_path)
