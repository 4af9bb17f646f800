"""Compiles the C files beside with the user's C compiler, once a machine, and calls them.

They need no header of torch, so that this takes about a second. The library is kept in the user's cache folder. Its
name holds two hashes: of the sources, the compiler and the processor, and of its own content, which is checked before
it is loaded. It is written beside and renamed, so that two processes may build it at once. Without a compiler
everything works all the same, in torch.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import DtypeError

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
        kind = _precision(name, arguments)
        function = getattr(self.handle, f"{name}_{kind}")
        function(
            *[
                ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int64(x)
                for x in arguments
            ]
        )


def _precision(name: str, arguments: Iterable[Tensor | int]) -> str:
    """Which form of a C function takes these tensors. C reads memory as it is told, so any other dtype is refused."""
    dtypes = {x.dtype for x in arguments if isinstance(x, Tensor) and x.is_floating_point()}
    if dtypes == {torch.float64}:
        return "f64"
    if dtypes != {torch.float32}:
        got = ", ".join(sorted(str(dtype) for dtype in dtypes)) or "none"
        raise DtypeError("tensors", f"{name} expects float32 alone or float64 alone, got {got}")
    return "f32"


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
    """Load the library from the cache folder, else from a folder of this process alone.

    The second is for a cache folder that cannot be written, is on a full disk or may not hold programs (noexec).
    """
    identity, folder, cached = _identity(compiler), cache_folder(), None
    if folder is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            cached = _intact(folder, identity) or _compile(compiler, folder, identity)
            return ctypes.CDLL(str(cached))
    own = Path(tempfile.mkdtemp(prefix="regard-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return ctypes.CDLL(str(shutil.copy(cached, own) if cached else _compile(compiler, own, identity)))


def _identity(compiler: str) -> str:
    """A hash of everything that the compiled library depends on."""
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    sources = [source.read_text() for source in _SOURCES]
    return _short_hash("\n".join([*sources, version, *_FLAGS, platform.machine(), _processor()]).encode())


def _intact(folder: Path, identity: str) -> Path | None:
    """The library in a folder whose content has the hash in its name; damaged ones are removed.

    Loading a file that was cut short would end the process with SIGBUS.
    """
    for path in sorted(folder.glob(f"regard-{identity}-*.so")):
        if path.stem.endswith(_short_hash(path.read_bytes())):
            return path
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _compile(compiler: str, folder: Path, identity: str) -> Path:
    """Compile the library into a folder, under a name with the hash of its content."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as place:
        built = Path(place) / "library.so"
        command = [compiler, *_FLAGS, "-fopenmp", *map(str, _SOURCES), "-o", str(built), "-lm"]
        options = {
            "capture_output": True,
            "text": True,
            "timeout": 120,
            "env": {**os.environ, "TMPDIR": place},
        }
        if subprocess.run(command, **options).returncode:
            command.remove("-fopenmp")  # a compiler without OpenMP still gives a fast single thread
            subprocess.run(command, check=True, **options)
        path = folder / f"regard-{identity}-{_short_hash(built.read_bytes())}.so"
        os.replace(built, path)
    return path


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    """What ``-march=native`` depends on: a cache folder may be shared by machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))[:20000]
    except OSError:
        return platform.processor()
