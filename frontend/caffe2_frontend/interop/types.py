"""Element types and tensor descriptions of Caffe2, NumPy and ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

Dim = int | str | None

FLOAT: Final = ir.DataType.FLOAT
DOUBLE: Final = ir.DataType.DOUBLE
FLOAT16: Final = ir.DataType.FLOAT16
INT32: Final = ir.DataType.INT32
INT64: Final = ir.DataType.INT64
UINT8: Final = ir.DataType.UINT8
BOOL: Final = ir.DataType.BOOL

CAFFE2_TO_ONNX: Final[Mapping[int, ir.DataType]] = {
    TensorProto.FLOAT: ir.DataType.FLOAT,
    TensorProto.INT32: ir.DataType.INT32,
    TensorProto.BYTE: ir.DataType.UINT8,
    TensorProto.STRING: ir.DataType.STRING,
    TensorProto.BOOL: ir.DataType.BOOL,
    TensorProto.UINT8: ir.DataType.UINT8,
    TensorProto.INT8: ir.DataType.INT8,
    TensorProto.UINT16: ir.DataType.UINT16,
    TensorProto.INT16: ir.DataType.INT16,
    TensorProto.INT64: ir.DataType.INT64,
    TensorProto.FLOAT16: ir.DataType.FLOAT16,
    TensorProto.DOUBLE: ir.DataType.DOUBLE,
}


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantization of an Int8 tensor: ``real = scale * (q - zero_point)``."""

    scale: float
    zero_point: int

    def to_text(self) -> str:
        """Return both numbers, as text."""
        return f"{self.scale!r} {self.zero_point}"

    @classmethod
    def from_text(cls, text: str) -> Quantization:
        """Read the text that :meth:`to_text` returns. Raises ValueError if it has another form."""
        scale, zero_point = text.split()
        return cls(float(scale), int(zero_point))


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The static description of a tensor.

    ``shape`` is None where even the rank is unknown; a dim is an int, a name (symbolic) or None (unknown).
    ``onnx_type`` is that of an input of ONNX operators, which may be a sequence, an optional value, or a tensor of any
    rank.
    """

    dtype: ir.DataType | None = None
    shape: tuple[Dim, ...] | None = None
    quantization: Quantization | None = None
    onnx_type: ir.TypeProtocol | None = None

    def merged(self, other: TensorInfo) -> TensorInfo:
        """Return this description, with what it leaves open taken from ``other``."""
        return TensorInfo(
            self.dtype if self.dtype is not None else other.dtype,
            self.shape if self.shape is not None else other.shape,
            self.quantization or other.quantization,
            self.onnx_type or other.onnx_type,
        )


# Descriptions by rank come from arguments, which may be any number.
_MAX_DESCRIBED_RANK: Final = 64
_MAX_DIM: Final = 2**63 - 1  # of ONNX


def of_rank(rank: int, dtype: ir.DataType | None = None) -> TensorInfo:
    """Return the description of a tensor by its rank, which is left open where no tensor can have it."""
    return TensorInfo(dtype, (None,) * rank if 0 <= rank <= _MAX_DESCRIBED_RANK else None)


class InputSpecError(BridgeError):
    """A description of an input is not of the form (dtype, shape)."""


def onnx_dtype(value: Any) -> ir.DataType:
    """Return the ONNX type for a NumPy dtype or scalar type, a type's name in any case, or an ONNX type number.

    Raises InputSpecError if the type does not exist.
    """
    if isinstance(value, ir.DataType):
        return value
    if isinstance(value, str):
        if value.upper() in ir.DataType.__members__:
            return ir.DataType[value.upper()]
        if value in ("str", "object"):
            return ir.DataType.STRING
    if value is str or value is object:
        return ir.DataType.STRING
    try:
        if isinstance(value, int):
            return ir.DataType(value)
        dtype = np.dtype(value)
        return ir.DataType.STRING if dtype.kind in "OSU" else ir.DataType.from_numpy(dtype)
    except (TypeError, ValueError):
        raise InputSpecError(f"{value!r} is not an element type, such as float32, int64 or bool") from None


def tensor_infos(inputs: Any) -> dict[str, TensorInfo]:
    """Describe inputs as given, by name. Raises InputSpecError if they are not a mapping, or one has another form."""
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise InputSpecError(f"inputs must be a mapping such as {{'x': ('float32', ['N', 3])}}, not {kind}")
    return {name: tensor_info(name, spec) for name, spec in inputs.items()}


def tensor_info(name: str, spec: Any) -> TensorInfo:
    """Describe input ``name`` as given: ``(dtype, shape)``, or with ``(scale, zero_point)`` as third element.

    ``dtype`` or ``shape`` may be None. Raises InputSpecError if the description has another form.
    """
    if isinstance(spec, TensorInfo):
        return spec
    if not isinstance(spec, Sequence) or isinstance(spec, str) or len(spec) not in (2, 3):
        raise InputSpecError(f"input {name!r}: expected (dtype, shape), got {spec!r}")
    dtype = None if spec[0] is None else onnx_dtype(spec[0])
    if not isinstance(spec[1], Sequence | np.ndarray | None) or isinstance(spec[1], str):
        raise InputSpecError(f"input {name!r}: the shape must be a list of dims, such as ['N', 3], not {spec[1]!r}")
    shape = None if spec[1] is None else tuple(_dim(name, d) for d in spec[1])
    quantization = None
    if len(spec) == 3 and spec[2] is not None:
        quantization = Quantization(float(spec[2][0]), int(spec[2][1]))
    return TensorInfo(dtype, shape, quantization)


def type_info(known: ir.TypeAndShape) -> TensorInfo:
    """Return the description of an ONNX type."""
    kind, shape = known.type, known.shape
    dims = None if shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in shape)
    return TensorInfo(kind.dtype if isinstance(kind, ir.TensorType) else None, dims, onnx_type=kind)


def _dim(name: str, dim: Any) -> Dim:
    if dim is None or (isinstance(dim, str) and dim):
        return dim
    if isinstance(dim, int | np.integer) and not isinstance(dim, bool) and 0 <= dim <= _MAX_DIM:
        return int(dim)
    raise InputSpecError(f"input {name!r}: {dim!r} is not a dim: an integer, a name or None is expected")


def example_dtype(info: TensorInfo) -> str:
    """Return the name of the element type as a caller types it; float32 if it is unknown."""
    dtype = info.dtype or ir.DataType.FLOAT
    return "string" if dtype is ir.DataType.STRING else dtype.numpy().name
