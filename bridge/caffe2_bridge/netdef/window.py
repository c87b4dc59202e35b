"""The arguments of windows, in any of Caffe2's spellings."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.netdef.views import Args

_PARTS: Final = {"pad": ("pad_t", "pad_l", "pad_b", "pad_r")}


def window_argument(args: Args, name: str, count: int) -> list[int]:
    """Return the sizes of a window along each axis: ``kernel``, ``stride``, ``dilation``, ``adj`` or ``pad``.

    Such an argument has three spellings: the plural (``kernels``), one size for all axes (``kernel``), and one argument
    for each of two axes (``kernel_h``, ``kernel_w``; for pads ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``). Mixed
    spellings are read as in Caffe2: the one size is repeated after the plural's up to ``count`` sizes; named axes, all
    of which must be given to count, are appended to the plural's.

    Returns:
        The sizes; empty if the argument is not given.
    """
    parts = _PARTS.get(name, (f"{name}_h", f"{name}_w"))
    values = list(args.integers(f"{name}s", default=()))
    args.ignore(*parts)
    if name in args:
        return (values + [args.integer(name)] * count)[:count]
    if all(part in args for part in parts):
        values += [args.integer(part) for part in parts]
    return values


def window_rank(args: Args) -> int | None:
    """Return the number of dims that a window slides over, from the sizes of its kernel; None if they leave it open."""
    if "kernels" in args:
        return len(args.integers("kernels"))
    return 2 if "kernel" in args or "kernel_h" in args else None
