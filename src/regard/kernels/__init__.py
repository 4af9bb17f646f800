"""The kernels, which are torch's fused one, the additive one and the block-sparse one."""

from typing import NamedTuple

__all__ = ["KernelStatus", "status"]


class KernelStatus(NamedTuple):
    """The state of one kernel, as printed by ``regard doctor``.

    ``why`` says how the kernel was built, why it is missing, or when it is used.
    """

    name: str
    active: bool
    why: str


def status() -> list[KernelStatus]:
    """Return the state of every kernel on this machine. The C library is compiled if necessary."""
    import torch

    from regard.kernels.additive import SMALL_WORK
    from regard.kernels.native import library_status
    from regard.torch_private import private_operators

    native, why = library_status()
    small = f"up to {SMALL_WORK:,} products a call run in plain eager mode"
    flash = bool(private_operators("_scaled_dot_product_flash_attention_for_cpu"))
    return [
        KernelStatus("fused products (dot, scaled dot, bilinear)", flash, f"torch {torch.__version__}"),
        KernelStatus("block-sparse (window, global tokens, blocks), compiled C", native, why),
        KernelStatus(
            "block-sparse, gathered blocks in torch", flash, "for float64, for biases and without a compiler"
        ),
        KernelStatus("additive, compiled C", native, f"{why}; {small}"),
        KernelStatus("additive, blocks in eager mode", not native, "used without a compiler"),
    ]
