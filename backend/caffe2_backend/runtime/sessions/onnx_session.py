"""Sessions with values of every ONNX type: sequences, strings, and numeric types that NumPy lacks."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from caffe2_backend.runtime.sessions.guard import failure_of
from caffe2_backend.runtime.sessions.onnxruntime_library import failures, onnxruntime
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import RunError

# What onnxruntime's own conversion from and to NumPy handles.
_PLAIN: Final = frozenset({
    "float", "double", "float16", "bool", "string", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "complex64", "complex128",
})  # fmt: skip


class OnnxSession(Session):
    """A session whose values are arrays (of NumPy's types and those of ``ml_dtypes``), lists of them, or None."""

    _is_sent = False

    def run_values(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Run the model. Raises RunError as :meth:`run`."""
        session = self._taking(inputs)
        if session is not self:
            return session.run_values(inputs)
        feed = self._feed(inputs)
        library = self._session
        listed = [*library.get_inputs(), *library.get_outputs()]
        if all(_is_plain(value.type) for value in listed):
            return self.run_list({name: _fed(value) for name, value in feed.items()})
        try:
            values = library.run_with_ort_values(self._outputs, {name: _typed(value) for name, value in feed.items()})
        except failures() as error:
            raise failure_of(error) from error
        return [_array(value) for value in values]


def _fed(value: Any) -> Any:
    """Return a value as onnxruntime takes it: strings as objects, NumPy's scalars as arrays."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "SU":
        return value.astype(object)
    return value


def _is_plain(kind: str) -> bool:
    if "map(" in kind:  # a dict, whose keys and values are Python's
        return True
    element = kind.replace("optional(", "").replace("seq(", "").removeprefix("tensor(").rstrip(")")
    return element in _PLAIN


def _typed(array: Any) -> Any:
    """Convert an array of any type to onnxruntime's value. Raises RunError if it is not an array."""
    library = onnxruntime()
    if not isinstance(array, np.ndarray | np.generic):
        raise RunError(f"onnxruntime takes no {type(array).__name__} together with types that NumPy lacks")
    proto = numpy_helper.from_array(np.asarray(array))
    if proto.data_type == onnx.TensorProto.STRING:
        raise RunError("onnxruntime takes no strings together with types that NumPy lacks")
    value = library.OrtValue(
        library.capi._pybind_state.OrtValue.ortvalue_from_shape_and_onnx_type(  # noqa: SLF001 - the only way to create values of types that NumPy lacks
            list(array.shape), proto.data_type, _cpu()
        )
    )
    if len(proto.raw_data) != value.tensor_size_in_bytes():
        raise RunError(f"onnxruntime stores {array.dtype.name} in {value.tensor_size_in_bytes()} bytes")
    ctypes.memmove(value.data_ptr(), proto.raw_data, len(proto.raw_data))
    return value


def _cpu() -> Any:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)


def _array(value: Any) -> Any:
    if not value.is_tensor() or _is_plain(value.data_type()):
        return value.numpy()
    proto = onnx.TensorProto(dims=value.shape(), data_type=value.element_type())
    proto.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(proto)
