"""The fast paths: torch's fused kernel, the additive kernel, and the local one that skips blocks."""

from typing import NamedTuple

__all__ = ["KernelStatus", "status"]


class KernelStatus(NamedTuple):
    """One line of ``regard doctor``."""

    name: str
    active: bool
    why: str


def status() -> list[KernelStatus]:
    """Which kernels are active on this machine, and why."""
    import torch

    from regard.kernels.additive import SMALL_WORK
    from regard.kernels.native import library_status

    native, why = library_status()
    small = f"up to {SMALL_WORK:,} products a call run in plain eager mode"
    flash = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
    return [
        KernelStatus("fused products (dot, scaled dot, bilinear)", flash, f"torch {torch.__version__}"),
        KernelStatus("local (window, global tokens, blocks), compiled C", native, why),
        KernelStatus(
            "local, gathered blocks", flash, "for float64 and biases, and where nothing is compiled"
        ),
        KernelStatus("additive, compiled C", native, f"{why}; {small}"),
        KernelStatus("additive, blocked eager", not native, "stands in where nothing is compiled"),
    ]
