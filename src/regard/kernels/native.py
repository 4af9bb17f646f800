"""Compiles the C files beside with the user's C compiler, once a machine, and calls them.

They need no header of torch, so that this takes about a second. The library is kept in the user's cache folder
under a name that holds the hash of the sources, the compiler and the processor; it is written beside and renamed,
so that two processes may build it at once. Without a compiler everything works all the same, in torch.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Library", "library", "library_status"]

_SOURCES = sorted((Path(__file__).parent / "c").glob("*.c"))
# Not -ffast-math: linking with it makes gcc flush denormals in the whole process, and it drops NaN.
_FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11", "-shared", "-fPIC"]


class Library(NamedTuple):
    """The loaded library, or why there is none."""

    handle: ctypes.CDLL | None
    why: str

    def call(self, name: str, *arguments: Tensor | int) -> None:
        """Call a function on contiguous CPU tensors and sizes."""
        assert self.handle is not None, self.why  # callers ask for the library first
        kind = "f64" if any(isinstance(x, Tensor) and x.dtype == torch.float64 for x in arguments) else "f32"
        function = getattr(self.handle, f"{name}_{kind}")
        function(
            *[
                ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int64(x)
                for x in arguments
            ]
        )


@functools.cache
def library() -> Library:
    """The native library, built on the first call of a process that needs it."""
    if os.environ.get("REGARD_NATIVE", "1") == "0":
        return Library(None, "switched off by REGARD_NATIVE=0")
    compiler = _compiler()
    if compiler is None:
        return Library(None, "no C compiler found (looked for $CC, cc, gcc, clang)")
    try:
        return Library(_load(compiler), f"compiled with {compiler}")
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return Library(None, f"{compiler} failed: {detail[0] if detail else type(error).__name__}")


def library_status() -> tuple[bool, str]:
    """Whether the native kernels are active, and why (builds the library if need be)."""
    found = library()
    return found.handle is not None, found.why


def cache_folder() -> Path | None:
    """Where compiled kernels are kept: ``$REGARD_CACHE``, else the user's cache folder; None without a home."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen) / "kernels"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return None if base.startswith("~") else Path(base) / "regard" / "kernels"


def _compiler() -> str | None:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    return None


def _load(compiler: str) -> ctypes.CDLL:
    path = _build(compiler)
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # damaged on the disk: build it again, once
        path.unlink()
        return ctypes.CDLL(str(_build(compiler)))


def _build(compiler: str) -> Path:
    """The path of the compiled library; compiles it unless it is there already."""
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    identity = "\n".join(
        [*(source.read_text() for source in _SOURCES), version, *_FLAGS, platform.machine(), _processor()]
    )
    name = f"regard-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    folder = cache_folder()
    if folder is not None:
        if (folder / name).exists():
            return folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return _compile(compiler, folder, name)
        except OSError:  # it cannot be written
            pass
    own = tempfile.mkdtemp(prefix="regard-")  # for this process alone
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return _compile(compiler, Path(own), name)


def _compile(compiler: str, folder: Path, name: str) -> Path:
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".so")
    os.close(handle)
    try:
        command = [compiler, *_FLAGS, "-fopenmp", *map(str, _SOURCES), "-o", temporary, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:  # a compiler without OpenMP still gives a fast single thread
            command.remove("-fopenmp")
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        os.replace(temporary, folder / name)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return folder / name


def _processor() -> str:
    """What ``-march=native`` depends on: a cache folder may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))[:20000]
    except OSError:
        return platform.processor()
