"""Runs on buffers that stay where they are on a GPU: what a CUDA graph replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caffe2_backend.runtime.devices.cuda_driver import copy_within
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
        within = []
        for name, value in feed.items():
            if isinstance(value, DeviceTensor):
                within.append((self._inputs[name], value.ort))
            else:
                self._inputs[name].update_inplace(value)
        self._copy(within)
        self._session.run_with_iobinding(self._binding, self._options)
        results = {name: self._buffer(*made) for name, made in self._made.items()}
        self._copy([(results[name], self._outputs[name]) for name in results])
        return {name: DeviceTensor(value, self._device) for name, value in results.items()}

    def _buffer(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return onnxruntime().OrtValue.ortvalue_from_shape_and_type(shape, dtype, self._kind, self._index)

    def _copy(self, pairs: list[tuple[Any, Any]]) -> None:
        """Copy the second value of each pair into the first."""
        found = [(to.data_ptr(), source.data_ptr(), to.tensor_size_in_bytes()) for to, source in pairs]
        copy_within(self._index, [each for each in found if each[2]])


def _run_options(graph: str) -> Any:
    options = onnxruntime().RunOptions()
    options.add_run_config_entry("gpu_graph_id", graph)
    return options
