"""Operators of real Caffe2 that cannot be expressed in ONNX, with the reasons that diagnostics give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from caffe2_bridge.unsupported_types import unsupported_reasons


def reasons() -> Mapping[str, str]:
    """Return the operators that cannot be converted, each with its reason."""
    return unsupported_reasons()


def unsupported_reason(op_type: str) -> str:
    """Return why an operator of real Caffe2 cannot be converted; empty if Caffe2 does not have it."""
    if op_type in reasons():
        return reasons()[op_type]
    if "Gradient" in op_type or op_type.endswith("Grad"):
        return "it computes gradients that this version does not convert"
    return ""


# The end of hints that name outputs once the net is lowered (caffe2_frontend.passes.output_hints).
CHOOSE_OUTPUTS: Final = "choose outputs that do not need it"


def unknown_reason(op_type: str) -> str:
    """Return why an operator type is not converted, as a sentence."""
    reason = unsupported_reason(op_type)
    return f"operator {op_type!r} has no conversion" + (f": {reason}" if reason else "")


def unknown_hint(op_type: str) -> str:
    """Return what the user can do about an operator type that is not converted."""
    if op_type == "Load":
        return (
            "put the database into the folder of the net, or give its folder: --databases DIR, "
            "or load(path, databases=DIR)"
        )
    return CHOOSE_OUTPUTS
