"""Sessions of models in memory, of any size."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx

from caffe2_backend.runtime.sessions.session import InnerSession, Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.sessions.wide_scalars import widen_scalars
from caffe2_bridge.diagnostics import RunError

if TYPE_CHECKING:
    import onnx_ir as ir

# The bytes of weights up to which a model goes to onnxruntime in memory, and those of a tensor that stays in it else.
_IN_MEMORY: Final = 1 << 26
_EXTERNAL_TENSOR: Final = 1 << 10


def model_session(model: ir.Model | onnx.ModelProto, device: str, options: SessionOptions) -> Session:
    """Return a session for a model; many weights go through a file, from which onnxruntime maps them one by one.

    Of a model in memory there would be three copies of the weights at once, and more than one afterwards. The weights
    of the file leave memory as onnxruntime packs them. It is not written where the disk has no space for it.

    Raises RunError as Session does, and if the weights of a model that no message can hold cannot be written.
    """
    session = _session(model, device, options)
    outputs = model.graph.output if isinstance(model, onnx.ModelProto) else model.graph.outputs
    session.unranked = frozenset(str(value.name) for value in outputs if not _has_rank(value))
    return session


def _has_rank(value: onnx.ValueInfoProto | ir.Value) -> bool:
    if isinstance(value, onnx.ValueInfoProto):
        return value.type.tensor_type.HasField("shape")
    return value.shape is not None


def _session(model: ir.Model | onnx.ModelProto, device: str, options: SessionOptions) -> Session:
    if weight_bytes(model) > _IN_MEMORY:
        try:
            return _through_file(model, device, options)
        except OSError as error:
            if not is_small(model):
                raise RunError(
                    f"the weights of the model, {weight_bytes(model):,} bytes, cannot be written to a temporary file: "
                    f"{error.strerror or error} (name a folder with more space in the variable TMPDIR)"
                ) from error
    return InnerSession(_serialized(model), device, options=options)


def _through_file(model: ir.Model | onnx.ModelProto, device: str, options: SessionOptions) -> Session:
    import onnx_ir as ir

    from caffe2_frontend.interop.files.serialize import own_errors

    if isinstance(model, onnx.ModelProto):
        model = ir.from_proto(model)
    with tempfile.TemporaryDirectory(prefix="caffe2-bridge-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "model.onnx"
        with own_errors():
            ir.save(model, path, external_data="weights", size_threshold_bytes=_EXTERNAL_TENSOR)
        return InnerSession(str(path), device, options=options)


def _serialized(model: ir.Model | onnx.ModelProto) -> bytes:
    from caffe2_frontend.interop.files.serialize import to_proto

    if not isinstance(model, onnx.ModelProto):
        model = to_proto(model)
        widen_scalars(model)
    return bytes(model.SerializeToString())


def is_small(model: ir.Model | onnx.ModelProto) -> bool:
    """Whether a message can hold the model."""
    from caffe2_frontend.interop.files.onnx_files import SINGLE_FILE_LIMIT

    return weight_bytes(model) < SINGLE_FILE_LIMIT


def weight_bytes(model: ir.Model | onnx.ModelProto) -> int:
    """Return the bytes of the initializers of a model."""
    if isinstance(model, onnx.ModelProto):
        return sum(_tensor_bytes(tensor) for tensor in model.graph.initializer)
    weights = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in weights if tensor is not None)


def _tensor_bytes(tensor: onnx.TensorProto) -> int:
    import onnx_ir as ir

    is_text = tensor.data_type == onnx.TensorProto.STRING
    return 0 if is_text else math.ceil(math.prod(tensor.dims) * ir.DataType(tensor.data_type).itemsize)
