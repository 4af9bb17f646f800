"""Compilation of the C kernels with the user's compiler, and calls of the compiled functions.

The C files need no torch headers, so compilation takes about a second. It happens once a machine, because the library
is kept in the user's cache folder. The file name holds a hash of the sources, the compiler and the processor, and a
hash of the library itself, which is checked before loading. The library is written to a temporary file and renamed, so
two processes may build it at the same time. Without a compiler, all kernels run in torch.
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
# -ffast-math is left out because linking with it makes gcc flush denormals in the whole process, and it drops NaN.
_FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11", "-shared", "-fPIC"]


class Library(NamedTuple):
    """The compiled C functions.

    ``handle`` is None if there is no library. ``why`` names the compiler, or the reason why there is none.
    """

    handle: ctypes.CDLL | None
    why: str

    def call(self, name: str, *arguments: Tensor | int) -> None:
        """Call a C function with contiguous CPU tensors and integers.

        ``name`` has no suffix for the dtype. The function writes its results into the tensors.
        """
        assert self.handle is not None, self.why
        kind = _precision(name, arguments)
        function = getattr(self.handle, f"{name}_{kind}")
        function(
            *[
                ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int64(x)
                for x in arguments
            ]
        )


def _precision(name: str, arguments: Iterable[Tensor | int]) -> str:
    """Return the suffix of the C function for the dtype of the tensors, "f32" or "f64".

    Any other dtype raises DtypeError, because C does not check the type of the memory it reads.
    """
    dtypes = {x.dtype for x in arguments if isinstance(x, Tensor) and x.is_floating_point()}
    if dtypes == {torch.float64}:
        return "f64"
    if dtypes != {torch.float32}:
        got = ", ".join(sorted(str(dtype) for dtype in dtypes)) or "none"
        raise DtypeError("tensors", f"{name} expects float32 alone or float64 alone, got {got}")
    return "f32"


@functools.cache
def library() -> Library:
    """Return the library, which the first call loads from the cache or compiles.

    Nothing is raised if that fails. The result then has no handle, and all kernels run in torch.
    """
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
    """Return whether the compiled kernels are active, and why. The library is compiled if necessary."""
    loaded = library()
    return loaded.handle is not None, loaded.why


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, under ``$REGARD_CACHE`` or the user's cache folder.

    It is None if the user has no home folder.
    """
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
    """Load the library from the cache folder, or else from a temporary folder of this process.

    A temporary folder is used if the cache folder is not writable, is on a full disk or is mounted with noexec.
    """
    identity, folder, cached = _identity(compiler), cache_folder(), None
    if folder is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            cached = _intact(folder, identity) or _compile(compiler, folder, identity)
            return ctypes.CDLL(str(cached))
    temporary = Path(tempfile.mkdtemp(prefix="regard-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    path = shutil.copy(cached, temporary) if cached else _compile(compiler, temporary, identity)
    return ctypes.CDLL(str(path))


def _identity(compiler: str) -> str:
    """Return a hash of the sources, the compiler, its flags and the processor."""
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    sources = [source.read_text() for source in _SOURCES]
    return _short_hash("\n".join([*sources, version, *_FLAGS, platform.machine(), _processor()]).encode())


def _intact(folder: Path, identity: str) -> Path | None:
    """Return the library in a folder whose content matches the hash in its name, or None.

    Files that do not match are removed. Loading a truncated file would end the process with SIGBUS.
    """
    for path in sorted(folder.glob(f"regard-{identity}-*.so")):
        if path.stem.endswith(_short_hash(path.read_bytes())):
            return path
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _compile(compiler: str, folder: Path, identity: str) -> Path:
    """Compile the library into a folder, and return its path, which contains the hash of its content."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as place:
        built = Path(place) / "library.so"
        command = [compiler, *_FLAGS, "-fopenmp", *map(str, _SOURCES), "-o", str(built), "-lm"]
        options = {
            "capture_output": True,
            "text": True,
            "timeout": 120,
            "env": {**os.environ, "TMPDIR": place},
        }
        # Without OpenMP the library runs on one thread.
        if subprocess.run(command, **options).returncode:
            command.remove("-fopenmp")
            subprocess.run(command, check=True, **options)
        path = folder / f"regard-{identity}-{_short_hash(built.read_bytes())}.so"
        os.replace(built, path)
    return path


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    """Return a description of the processor, because machines with different processors may share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))[:20000]
    except OSError:
        return platform.processor()
