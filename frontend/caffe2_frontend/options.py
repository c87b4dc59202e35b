"""Options of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import onnx

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import check_options
from caffe2_frontend.interop.types import TensorInfo, tensor_infos
from caffe2_frontend.targets.table import find_target
from caffe2_frontend.targets.target import Recurrent

NO_LENGTHS: Final = ("portable", "gpu", "unrolled")  # the forms in which no operator reads the lengths of rows
Recompute = Literal["none", "steps"]
Int8 = Literal["exact", "qdq"]
Float16Io = Literal["float16", "float32"]


@dataclass(frozen=True)
class ExportOptions:
    """The options of :func:`caffe2_frontend.to_onnx`, validated when they are constructed.

    Arguments that :func:`caffe2_frontend.to_onnx` has mean what it says of them.

    Args:
        require_weights: whether weights without a value are an error; else they become inputs, with a warning.
        defaults: whether the parameters that an import describes as inputs are inputs with defaults; if not, they are
            constants, as all other parameters are.

    Attributes:
        described: ``inputs``, each as a TensorInfo.

    Raises:
        OptionError: an option has a value of another type, or outside of what is supported, or ``training`` is asked
            for with ``fp16``.
        InputSpecError: the description of an input has another form.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] | None = None
    opset: int | None = None
    recurrent: Recurrent = "auto"
    recompute: Recompute = "none"
    stateful: bool = False
    reroll: bool = False
    int8: Int8 = "exact"
    fp16: bool = False
    fp16_io: Float16Io = "float16"
    training: bool | None = None
    defaults: bool = True
    require_weights: bool = False
    fold_batchnorm: bool = True
    target: str = "onnxruntime"
    full_lengths: bool = False
    described: Mapping[str, TensorInfo] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(self)
        target = find_target(self.target)
        if self.recurrent == "auto":
            object.__setattr__(self, "recurrent", target.recurrent)
        if self.opset is None:
            object.__setattr__(self, "opset", target.opset)
        newest = onnx.defs.onnx_opset_version()
        if self.opset is not None and not 1 <= self.opset <= newest:
            raise OptionError(f"opset must be from 1 to {newest} with the installed onnx, not {self.opset}")
        if self.training and self.fp16:
            raise OptionError("fp16 must not be combined with training: updates need float32")
        object.__setattr__(self, "described", tensor_infos(self.inputs))


DEFAULTS = ExportOptions()
