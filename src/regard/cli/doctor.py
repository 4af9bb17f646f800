"""``regard doctor``, which reports versions, kernels, extras and fonts."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from typing import Any

import typer

from regard.errors import install_command

__all__ = ["doctor", "findings"]

EXTRAS = {
    "text": ["tokenizers", "sacrebleu"],
    "hf": ["transformers", "datasets"],
    "plot": ["matplotlib"],
    "chinese": ["zhplot"],
    "images": ["pillow", "scikit-learn"],
    "view": ["anywidget", "starlette", "uvicorn"],
    "gguf": ["gguf"],
    "export": ["onnx", "onnxscript", "onnxruntime"],
}
CHINESE = "注意力机制查询键值"


def doctor(as_json: bool = typer.Option(False, "--json", help="Print the findings as JSON.")) -> None:
    """Say what is installed, which kernels are active and why, and how to get what is missing."""
    found = findings()
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else _as_text(found))


def findings() -> dict[str, Any]:
    """Return what the command prints as a dict of JSON values."""
    from regard import __version__

    return {
        "regard": __version__,
        "versions": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: _version(name) for name in ("torch", "numpy", "safetensors", "typer", "rich")},
        },
        "compute": _compute(),
        "kernels": _kernels(),
        "extras": {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()},
        "chinese_font": _chinese_font(),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compute() -> dict[str, Any]:
    import torch

    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.cuda.is_available(),
    }


def _kernels() -> list[dict[str, Any]]:
    from regard import kernels

    return [
        {"name": kernel.name, "active": bool(kernel.active), "why": str(kernel.why)}
        for kernel in kernels.status()
    ]


def _chinese_font() -> str | None:
    """Return the font that Chinese labels are drawn with, or None without matplotlib or such a font."""
    try:
        from regard._fonts import missing_from
    except ImportError:
        return None
    families, missing = missing_from(frozenset(map(ord, CHINESE)))
    return None if missing else families[0]


def _as_text(found: dict[str, Any]) -> str:
    compute = found["compute"]
    lines = [f"Regard {found['regard']}", "", "Versions"]
    lines += [f"  {name:<13}{version or 'not installed'}" for name, version in found["versions"].items()]
    lines += [
        "",
        "Compute",
        f"  {'threads':<13}{compute['threads']} of {compute['cores']} cores",
        f"  {'processor':<13}{compute['cpu_capability']}",
        f"  {'CUDA':<13}{'yes' if compute['cuda'] else 'no'}",
        "",
        "Kernels",
    ]
    wide = max((len(kernel["name"]) for kernel in found["kernels"]), default=0)
    for kernel in found["kernels"]:
        lines.append(f"  {kernel['name']:<{wide}}  {'on ' if kernel['active'] else 'off'}  {kernel['why']}")
    lines += ["", "Extras", *(f"  {line}" for line in _extra_lines(found["extras"])), "", "Chinese labels"]
    return "\n".join([*lines, f"  {_font_line(found)}"])


def _extra_lines(extras: dict[str, dict[str, str | None]]) -> list[str]:
    lines = []
    for extra, packages in extras.items():
        have = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        lack = ", ".join(name for name, version in packages.items() if not version)
        if lack:
            lack = f"missing {lack}: {install_command(extra)}"
        lines.append(f"{extra:<8}{'; '.join(part for part in (have, lack) if part)}")
    return lines


def _font_line(found: dict[str, Any]) -> str:
    if found["extras"]["plot"]["matplotlib"] is None:
        return "matplotlib is not installed: nothing is drawn"
    if found["chinese_font"]:
        return f"drawn with {found['chinese_font']}"
    from regard._fonts import how_to_install_chinese

    return f"no font found: {how_to_install_chinese()}"
