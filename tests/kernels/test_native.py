"""Tests of how the C kernels are built and replaced, and of their arithmetic at its limits."""

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import DtypeError
from regard.kernels import additive, native, status
from support.attention_cases import forced

needs_compiler = pytest.mark.skipif(
    native.library().handle is None, reason=f"no compiled kernels: {native.library().why}"
)
PROGRAM = """
import torch
from regard.kernels import status
from regard.kernels.additive import additive_scores
a, c, v = (torch.randn(*s, generator=torch.Generator().manual_seed(1)) for s in [(2, 70, 64), (2, 60, 64), (64,)])
expected = torch.tanh(a.double()[:, :, None] + c.double()[:, None]) @ v.double()
assert torch.allclose(additive_scores(a, c, v).double(), expected, atol=1e-5)
for line in status():
    print(line.name, "|", line.active, "|", line.why)
"""


def run(tmp_path: Path, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("CC", "REGARD_NATIVE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**clean, "REGARD_CACHE": str(tmp_path / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_compiler_everything_works_and_doctor_says_why(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    out = run(tmp_path, PATH=str(bare))
    assert "additive, compiled C | False | no C compiler found" in out
    assert "additive, blocks in eager mode | True" in out
    assert not (tmp_path / "cache").exists()


def test_the_compiled_kernels_can_be_switched_off(tmp_path):
    assert "compiled C | False | switched off by REGARD_NATIVE=0" in run(tmp_path, REGARD_NATIVE="0")


def test_a_failing_compiler_falls_back_to_torch(tmp_path):
    broken = tmp_path / "cc"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "boom: no such instruction" >&2\nexit 1\n'
    )
    broken.chmod(0o755)
    out = run(tmp_path, CC=str(broken))
    assert "compiled C | False" in out
    assert "boom: no such instruction" in out
    assert list((tmp_path / "cache" / "kernels").iterdir()) == []


@needs_compiler
def test_the_library_is_built_once_and_found_again(tmp_path):
    assert "compiled C | True | compiled with" in run(tmp_path)
    built = list((tmp_path / "cache" / "kernels").iterdir())
    assert len(built) == 1
    stamp = built[0].stat().st_mtime_ns
    run(tmp_path)
    assert [p.stat().st_mtime_ns for p in (tmp_path / "cache" / "kernels").iterdir()] == [stamp]


@needs_compiler
def test_two_processes_may_build_it_at_once(tmp_path):
    with ThreadPoolExecutor() as pool:
        outs = list(pool.map(lambda _: run(tmp_path), range(3)))
    assert all("compiled C | True" in out for out in outs)
    assert len(list((tmp_path / "cache" / "kernels").iterdir())) == 1


@needs_compiler
def test_a_read_only_cache_is_avoided(tmp_path):
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a folder should be")
    assert "compiled C | True" in run(tmp_path)


@needs_compiler
def test_a_library_that_was_cut_short_is_built_again(tmp_path):
    """Loading it would end every process with SIGBUS."""
    run(tmp_path)
    built = next((tmp_path / "cache" / "kernels").iterdir())
    whole = built.read_bytes()
    built.write_bytes(whole[: len(whole) // 3])
    assert "additive, compiled C | True" in run(tmp_path)
    (again,) = (tmp_path / "cache" / "kernels").iterdir()
    assert len(again.read_bytes()) == len(whole)


def test_a_library_is_used_only_if_its_content_has_the_hash_of_its_name(tmp_path):
    whole = bytes(range(256))
    path = tmp_path / f"regard-abc-{native._short_hash(whole)}.so"
    path.write_bytes(whole)
    assert native._intact(tmp_path, "abc") == path
    assert native._intact(tmp_path, "ab") is None
    for damaged in (b"", b"not a library", whole[:100], whole[:-1] + b"!"):
        path.write_bytes(damaged)
        assert native._intact(tmp_path, "abc") is None
        assert not path.exists()


@needs_compiler
def test_a_cache_mounted_noexec_is_avoided(tmp_path, monkeypatch):
    """A library on a disk that is mounted noexec cannot be loaded."""
    loaded, real = [], ctypes.CDLL

    def noexec_cache(path):
        if path.startswith(str(tmp_path)):
            raise OSError(f"{path}: failed to map segment from shared object")
        loaded.append(path)
        return real(path)

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(native.ctypes, "CDLL", noexec_cache)
    assert native._load(native._compiler()).additive_forward_f32
    assert len(loaded) == 1
    (kept,) = (tmp_path / "kernels").iterdir()  # compiled once, then only copied
    stamp = kept.stat().st_mtime_ns
    native._load(native._compiler())
    assert kept.stat().st_mtime_ns == stamp


@needs_compiler
def test_a_cache_on_a_full_disk_is_avoided(tmp_path):
    cc = tmp_path / "cc"
    cc.write_text(
        f'#!/bin/sh\ncase "$*" in *{tmp_path}/cache*) echo "ld: final link failed: No space left on device" >&2; '
        f'exit 1;; esac\nexec {native._compiler()} "$@"\n'
    )
    cc.chmod(0o755)
    assert "compiled C | True" in run(tmp_path, CC=str(cc))
    assert list((tmp_path / "cache" / "kernels").iterdir()) == []


def test_small_numbers_keep_their_precision():
    """Loading a library must not make the process flush denormals to zero."""
    native.library()
    assert (torch.tensor(1e-40) * 0.5).item() != 0
    assert float("1e-310") * 0.5 != 0


KERNELS = ["additive in torch", *(["additive in C"] if native.library().handle is not None else [])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [1.0, 15.0, 39.0, 45.0, 1e3, 1e30])
def test_large_numbers_neither_overflow_nor_lose_their_sum(kernel, dtype, size):
    random = torch.Generator().manual_seed(0)
    a = torch.randn(2, 9, 33, generator=random, dtype=dtype) * size / 3
    c = -a[:, :7] + torch.randn(2, 7, 33, generator=random, dtype=dtype)  # large numbers that cancel
    v = torch.randn(33, generator=random, dtype=dtype)
    a, c, v = (x.clamp(-size, size).requires_grad_() for x in (a, c, v))
    with forced(kernel):
        scores = additive.additive_scores(a, c, v)
        found = [scores.detach(), *torch.autograd.grad(scores.sum(), (a, c, v))]
    exact_inputs = [x.detach().double().requires_grad_() for x in (a, c, v)]
    exact = torch.tanh(exact_inputs[0][:, :, None] + exact_inputs[1][:, None]) @ exact_inputs[2]
    expected = [exact.detach(), *torch.autograd.grad(exact.sum(), exact_inputs)]
    plain_inputs = [x.detach().requires_grad_() for x in (a, c, v)]
    plain = torch.tanh(plain_inputs[0][:, :, None] + plain_inputs[1][:, None]) @ plain_inputs[2]
    plains = [plain.detach(), *torch.autograd.grad(plain.sum(), plain_inputs)]
    for got, want, theirs in zip(found, expected, plains, strict=True):
        assert torch.isfinite(got).all()
        error = (got.double() - want).pow(2).mean().sqrt()
        limit = 3 * (theirs.double() - want).pow(2).mean().sqrt()
        assert error <= limit + 20 * torch.finfo(dtype).eps * max(1.0, float(want.abs().max()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_nan_is_propagated(kernel):
    a, c, v = torch.zeros(1, 3, 20), torch.zeros(1, 4, 20), torch.ones(20)
    a[0, 1, 5] = float("nan")
    a.requires_grad_()
    with forced(kernel):
        scores = additive.additive_scores(a, c, v)
        (grad,) = torch.autograd.grad(scores.sum(), a)
    assert scores[0, 1].isnan().all()
    assert torch.isfinite(scores[0, [0, 2]]).all()
    assert grad[0, 1, 5].isnan()


def test_additive_scores_keep_their_precision_when_v_has_a_mean():
    """The constant of 1 - 2r has to be part of the sum, or digits are lost when v has a mean.

    The factor is between 2 and 3.2 with it, which depends on the processor, and about 50 without it.
    """
    random = torch.Generator().manual_seed(3)
    a, c = (torch.randn(1, 64, 256, generator=random) * 0.1 for _ in range(2))
    v = torch.ones(256)
    exact = torch.tanh(a.double()[:, :, None] + c.double()[:, None]) @ v.double()
    plain = torch.tanh(a[:, :, None] + c[:, None]) @ v
    for kernel in KERNELS:
        with forced(kernel):
            error = (additive.additive_scores(a, c, v).double() - exact).pow(2).mean().sqrt()
        assert error <= 8 * (plain.double() - exact).pow(2).mean().sqrt()


def test_status_lists_every_kernel():
    names = [line.name.split(" ")[0].strip(",") for line in status()]
    assert names == ["fused", "block-sparse", "block-sparse", "additive", "additive"]
    assert all(line.why for line in status())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("size_a", "size_c"), [(0.0, 300.0), (300.0, 0.0), (-300.0, -300.0), (0.0, -300.0)])
def test_large_operands_saturate_the_additive_score_without_overflow(kernel, size_a, size_c):
    a, c, v = torch.full((1, 3, 20), size_a), torch.full((1, 4, 20), size_c), torch.ones(20)
    a, c, v = (x.requires_grad_() for x in (a, c, v))
    with forced(kernel):
        scores = additive.additive_scores(a, c, v)
        grads = torch.autograd.grad(scores.sum(), (a, c, v))
    sign = 1.0 if size_a + size_c > 0 else -1.0
    assert torch.equal(scores, torch.full((1, 3, 4), 20 * sign))
    assert (grads[0] == 0).all()
    assert (grads[1] == 0).all()
    assert torch.equal(grads[2], torch.full((20,), 12 * sign))


@needs_compiler
def test_the_name_of_the_library_holds_all_it_depends_on(monkeypatch):
    compiler = native._compiler()
    names = [native._identity(compiler)]
    for what, value in [
        ("_FLAGS", ["-O1"]),
        ("_SOURCES", native._SOURCES[:1]),
        ("_processor", lambda: "another machine"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(native, what, value)
            names.append(native._identity(compiler))
    assert len(set(names)) == 4
    assert native._identity(compiler) == names[0]


@needs_compiler
def test_the_exponential_of_the_block_sparse_kernel_is_exact_to_the_last_digits():
    """With two keys at a distance of x the output is e^-x / (1 + e^-x), which shows the error of the exponential."""
    x = torch.linspace(0, 30, 640)[None, None, :, None]
    k = torch.zeros(1, 1, 640, 1)
    k[:, :, 1] = -1
    v = torch.zeros(1, 1, 640, 1)
    v[:, :, 1] = 1
    with forced("block-sparse in C"):
        out = regard.attention(
            x, k, v, mask=regard.window(None, None) & (torch.arange(640) < 2)[None], scale=1.0
        )
    e = torch.exp(-x.double())
    assert ((out.double() - e / (1 + e)) / (e / (1 + e))).abs().max() < 2.5e-7


@pytest.mark.parametrize("size", [1.0, 60.0])
def test_the_blocked_eager_form_takes_a_few_rows_at_a_time(size, monkeypatch):
    random = torch.Generator().manual_seed(0)
    a, c, v = (torch.randn(*s, generator=random, dtype=torch.float64) for s in [(2, 11, 5), (2, 7, 5), (5,)])
    a, c, v = (x.requires_grad_() for x in (a * size, c, v))
    monkeypatch.setattr(additive, "_BLOCK", 4 * 7 * 5)  # four rows, four, and three
    expected = torch.tanh(a[:, :, None] + c[:, None]) @ v
    upstream = torch.randn(expected.shape, generator=random, dtype=torch.float64)
    with forced("additive in torch"):
        found = additive.additive_scores(a, c, v)
        grads = torch.autograd.grad(found, (a, c, v), upstream)
    assert torch.allclose(found, expected, atol=1e-12)
    for got, want in zip(grads, torch.autograd.grad(expected, (a, c, v), upstream), strict=True):
        assert torch.allclose(got, want, atol=1e-11)


@needs_compiler
@pytest.mark.parametrize("dtypes", [(torch.float16,), (torch.bfloat16,), (torch.float32, torch.float64)])
def test_tensors_that_c_cannot_read_are_refused(dtypes):
    tensors = [torch.zeros(4, dtype=dtype) for dtype in dtypes]
    with pytest.raises(
        DtypeError, match="additive_forward expects float32 alone or float64 alone, got torch"
    ):
        native.library().call("additive_forward", *tensors)


@pytest.mark.skipif(native.library().handle is None, reason=f"no compiled kernels: {native.library().why}")
def test_kernels_are_built_without_a_home_folder(monkeypatch):
    for name in ("XDG_CACHE_HOME", "REGARD_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as without a home folder
    assert native.cache_folder() is None
    assert native.library.__wrapped__().handle is not None
    assert not Path("~").exists()
