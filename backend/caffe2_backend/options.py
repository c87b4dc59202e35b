"""Options of an import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from caffe2_bridge.diagnostics.check_options import check_options
from caffe2_frontend.interop.types import TensorInfo, tensor_infos

Foreign = Literal["error", "carry"]
# One device for all operators that can run there, or the device of each named input or parameter.
Placement = str | Mapping[str, str] | None


@dataclass(frozen=True)
class ImportOptions:
    """The options of :func:`caffe2_backend.to_netdef`, validated when they are constructed.

    Args:
        foreign: what becomes of ONNX operators without an equivalent in Caffe2.
        device: where operators run, or where named inputs and parameters are.
        base_dir: the folder of the model's external data; None: that of the file.
        int8: whether quantized parts become Caffe2's Int8 operators.
        required: inputs whose defaults are left out, so that nothing takes them for constants.
        inputs: for each input of which more is known than the model declares, ``(dtype, shape)``.

    Attributes:
        described: ``inputs``, each as a TensorInfo.

    Raises:
        OptionError: ``foreign`` is not one of its values, or ``int8`` neither True nor False.
        InputSpecError: the description of an input has another form.
    """

    foreign: Foreign = "error"
    device: Placement = None
    base_dir: str | os.PathLike[str] | None = None
    int8: bool = False
    required: frozenset[str] = frozenset()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, TensorInfo] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "described", tensor_infos(self.inputs))

    @property
    def carries_nodes(self) -> bool:
        """Whether ONNX operators without an equivalent in Caffe2 are carried unchanged."""
        return self.foreign == "carry"


DEFAULTS = ImportOptions()
