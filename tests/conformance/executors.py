"""What runs an exported model: each executor loads a serialized ONNX model once and runs it over many cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np
import onnx

from conformance.corpus import Array


class Runnable(Protocol):
    """A loaded model."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The model's outputs, in graph order, for inputs by blob name; inputs that the graph lacks are not fed."""
        ...


class OnnxRuntime:
    """onnxruntime on the CPU, one thread."""

    def __init__(self, model: onnx.ModelProto) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._names = [value.name for value in self._session.get_inputs()]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """See Runnable."""
        return [np.asarray(value) for value in self._session.run(None, {name: inputs[name] for name in self._names})]


class Reference:
    """The reference evaluator of the onnx package."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        self._evaluator = ReferenceEvaluator(model)
        weights = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in weights]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """See Runnable."""
        outputs = self._evaluator.run(None, {name: inputs[name] for name in self._names})
        return [np.asarray(value) for value in outputs]


EXECUTORS: Final[Mapping[str, Callable[[onnx.ModelProto], Runnable]]] = {
    "onnxruntime": OnnxRuntime,
    "reference": Reference,
}
