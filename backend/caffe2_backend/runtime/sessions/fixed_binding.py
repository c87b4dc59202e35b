"""Runs on buffers that stay where they are on a GPU: what a CUDA graph replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caffe2_backend.runtime.devices.device_names import device_index, device_kind
from caffe2_backend.runtime.sessions.onnxruntime_library import onnxruntime
from caffe2_backend.runtime.values import Array, DeviceTensor

_NOT_RECORDED = "-1"


class FixedBinding:
    """Buffers on a GPU for one combination of shapes, bound to a session.

    A run copies the inputs into the buffers and the outputs out of them: values that are on the GPU within the GPU.

    Args:
        session: onnxruntime's session.
        inputs: values of the shapes; a first run on them, which is not recorded, finds out the shapes of the outputs.
        device: the name of the device of the outputs.
        real: the device that runs the session.
        graph: the number of the CUDA graph.
    """

    def __init__(
        self, session: Any, inputs: Mapping[str, Array | DeviceTensor], device: str, real: str, graph: int
    ) -> None:
        library = onnxruntime()
        self._kind, self._index = device_kind(real), device_index(real)
        self._device = device
        self._session = session
        arrays = {name: v.numpy() if isinstance(v, DeviceTensor) else v for name, v in inputs.items()}
        names = [value.name for value in session.get_outputs()]
        found = session.run(names, arrays, _run_options(_NOT_RECORDED))
        self._binding = session.io_binding()
        self._inputs = {}
        for name, array in arrays.items():
            self._inputs[name] = library.OrtValue.ortvalue_from_numpy(array, self._kind, self._index)
            self._binding.bind_ortvalue_input(name, self._inputs[name])
        self._outputs = {}
        for name, array in zip(names, found, strict=True):
            self._outputs[name] = self._buffer(array.shape, array.dtype)
            self._binding.bind_ortvalue_output(name, self._outputs[name])
        self._made = {name: (array.shape, array.dtype) for name, array in zip(names, found, strict=True)}
        self._options = _run_options(str(graph))

    def run(self, feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        """Run once with inputs of the buffers' shapes; the outputs are copies on the GPU."""
        for name, value in feed.items():
            if isinstance(value, DeviceTensor):
                _copy(value.ort, self._inputs[name])
            else:
                self._inputs[name].update_inplace(value)
        self._session.run_with_iobinding(self._binding, self._options)
        results = {name: self._buffer(*made) for name, made in self._made.items()}
        for name, result in results.items():
            _copy(self._outputs[name], result)
        return {name: DeviceTensor(value, self._device) for name, value in results.items()}

    def _buffer(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return onnxruntime().OrtValue.ortvalue_from_shape_and_type(shape, dtype, self._kind, self._index)


def _copy(source: Any, to: Any) -> None:
    """Copy one of onnxruntime's values into another one of the same GPU, and wait until it is done."""
    if to.tensor_size_in_bytes():
        to.update_inplace(source)


def _run_options(graph: str) -> Any:
    options = onnxruntime().RunOptions()
    options.add_run_config_entry("gpu_graph_id", graph)
    return options
