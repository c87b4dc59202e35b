"""A net on a GPU as a whole, if all of its operators can run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from caffe2_backend.runtime.devices.device_names import WEBGPU
from caffe2_backend.runtime.placement.graph import GraphPlacement, place_by_provider, place_graph
from caffe2_backend.runtime.program.conversion import Lowered
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.sessions.assignment import assign
from caffe2_backend.runtime.sessions.onnxruntime_library import real_device
from caffe2_backend.runtime.values import HostObject, Tensor, Value

if TYPE_CHECKING:
    import onnx_ir as ir


class HostOperatorsError(Exception):
    """Operators of a net cannot run on the GPU: nothing was run. ``reasons`` are by the operator's index."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__("; ".join(reasons.values()))
        self.reasons = reasons


class GpuProgram(Program):
    """A program that raises HostOperatorsError before it runs inputs for which an operator has no kernel on the GPU.

    Attributes:
        found: what the last conversion does on the GPU.
    """

    found: GraphPlacement = GraphPlacement()
    _refuses = True

    def admit(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> None:
        """Convert the net for a kind of inputs, unless it is already. Raises HostOperatorsError, ConversionError."""
        self._variant_for(given, constants)

    def _convert(self, given: Mapping[str, Value], outputs: list[str]) -> Lowered:
        lowered = super()._convert(given, outputs)
        found = self._place(lowered.model)
        if self._refuses:
            added = sum(isinstance(value, HostObject) for value in given.values())  # by operators before the net's own
            reasons = {index - added: reason for index, reason in found.reasons.items() if index >= added}
            if reasons:
                raise HostOperatorsError(reasons)
        self.found = found
        return lowered

    def _place(self, model: ir.Model) -> GraphPlacement:
        if self.device != WEBGPU:
            return place_graph(model)
        options = self._builder.options
        if real_device(self.device, options) != WEBGPU:  # a stand-in has all kernels
            return GraphPlacement()
        return place_by_provider(model, assign(model, self.device, options))

    def _compute(self, name: str, given: Mapping[str, Value], run: int) -> Mapping[str, Tensor]:
        """Return blobs of an earlier run: it ran on the GPU, so that they are computed there, too."""
        with self._lock:
            self._refuses = False
            try:
                return super()._compute(name, given, run)
            finally:
                self._refuses = True
