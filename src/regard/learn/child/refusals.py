"""Refuses to write, delete or rename files, to start processes and to use the network.

An audit hook of Python does this. `_posixsubprocess.fork_exec`, with which multiprocessing starts processes, raises no
audit event of its own, so it is replaced by a function that raises one. The hook protects from mistakes, not from
attacks. Code that means harm can evade it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from regard.learn.child.places import line_of_frame

__all__ = ["refuse_changes"]

# The audit event of `_posixsubprocess.fork_exec`, which only this module raises.
FORK_EXEC = "_posixsubprocess.fork_exec"
DELETING = {"os.remove", "os.rmdir", "shutil.rmtree"}
CHANGING = {
    *("os.rename", "os.link", "os.symlink", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.lchown"),
    *("os.utime", "os.chflags", "os.setxattr", "os.removexattr", "os.mkfifo", "os.mknod"),
    *("shutil.move", "shutil.copyfile", "shutil.copytree", "shutil.copymode", "shutil.copystat", "shutil.chown"),
    *("shutil.make_archive", "shutil.unpack_archive", "tempfile.mkstemp", "tempfile.mkdtemp"),
}  # fmt: skip
STARTING = {
    *("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "pty.spawn"),
    *("subprocess.Popen", "_winapi.CreateProcess", "os.kill", "os.killpg", "signal.pthread_kill"),
    FORK_EXEC,
}  # fmt: skip
CONNECTING = {
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "urllib.Request",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def what_it_does(event: str, arguments: tuple[Any, ...]) -> str:
    """Return which of the refused actions an audit event is, or ""."""
    if event == "open":
        path, mode, flags = arguments
        wants = any(letter in mode for letter in "wax+") if isinstance(mode, str) else (flags or 0) & WRITING
        return "write" if wants and not isinstance(path, int) and path != os.devnull else ""
    if event == "sqlite3.connect":
        return "" if arguments[0] == ":memory:" else "write"
    for action, events in (
        ("delete", DELETING),
        ("write", CHANGING),
        ("start", STARTING),
        ("connect", CONNECTING),
    ):
        if event in events:
            return action
    return ""


def refuse_changes(path: str, refusals: list[dict[str, Any]]) -> None:
    """Install the audit hook. It raises PermissionError for a refused action, and adds the action to ``refusals``.

    Actions of a package that is being imported are refused without a record, since most packages go on without them.
    """

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        action = what_it_does(event, arguments)
        if not action:
            return
        frame, importing = sys._getframe(1), False
        while frame is not None and frame.f_code.co_filename != path:
            importing = importing or frame.f_code.co_filename.startswith("<frozen importlib")
            frame = frame.f_back
        if not importing:
            name = str(arguments[0])[:200] if arguments else ""
            refusals.append(
                {"kind": "refused", "action": action, "name": name, "line": line_of_frame(frame, path)}
            )
        raise PermissionError(f"an exercise may not {action}")

    sys.addaudithook(hook)
    _refuse_fork_exec()


def _refuse_fork_exec() -> None:
    """Replace `_posixsubprocess.fork_exec` in its module and in subprocess, which keeps a name of its own for it."""
    try:
        import _posixsubprocess
    except ImportError:
        # Windows has no such module. Processes are started there with an audit event.
        return
    import subprocess

    def fork_exec(*arguments: Any) -> int:
        sys.audit(FORK_EXEC, *arguments[:1])
        raise PermissionError("an exercise may not start")

    _posixsubprocess.fork_exec = fork_exec
    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
