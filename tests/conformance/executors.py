"""What runs the cases: an exported model, loaded once and run over many cases, or the net itself in a workspace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, Protocol

import numpy as np
import onnx

from caffe2_backend import Workspace
from caffe2_backend.runtime import Int8Tensor, SessionOptions
from caffe2_backend.runtime.sessions.guard import Guard
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, RunError
from caffe2_validation.runtimes import find_runtime
from caffe2_validation.runtimes.deployed import DEPLOYED
from conformance.corpus import Array, Case

# The head of what is said of a model that computes something else without optimizations.
UNOPTIMIZED: Final = "without optimizations"


class Runnable(Protocol):
    """A loaded model."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the model's outputs, in graph order, for inputs by blob name; what the graph lacks is not fed."""
        ...


class OnnxRuntime:
    """onnxruntime on the CPU, one thread. A run that takes longer than ``seconds`` raises TimeoutError.

    Without ``optimizes`` every node runs as it is in the model.
    """

    def __init__(self, model: onnx.ModelProto, seconds: float | None = None, *, optimizes: bool = True) -> None:
        import onnxruntime

        self._model, self._optimizes = model, optimizes
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # An arena that cannot grow, as in a loop without an end, is left in a state that ends the process later.
        options.enable_cpu_mem_arena = seconds is None
        if not optimizes:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._guard = Guard.of(model.SerializeToString())
        self._session = onnxruntime.InferenceSession(self._guard.model, options, providers=["CPUExecutionProvider"])
        self._names = [value.name for value in self._session.get_inputs()]
        self._seconds = seconds

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Run as Runnable says."""
        self._guard.check(inputs)
        fed = {name: inputs[name] for name in self._names}
        values = self._session.run(None, fed) if self._seconds is None else self._run_until(fed, self._seconds)
        return [np.asarray(value) for value in values]

    @cached_property
    def plain(self) -> OnnxRuntime:
        """The same model without optimizations, which must compute the same."""
        return OnnxRuntime(self._model, self._seconds, optimizes=False) if self._optimizes else self

    def _run_until(self, fed: Mapping[str, Array], seconds: float) -> Sequence[Array]:
        import onnxruntime

        options = onnxruntime.RunOptions()
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.start()
        try:
            values: Sequence[Array] = self._session.run(None, fed, options)
        except Exception:
            if options.terminate:
                msg = f"onnxruntime has no result after {seconds:.0f} seconds"
                raise TimeoutError(msg) from None
            raise
        finally:
            timer.cancel()
        return values


class Reference:
    """The reference evaluator of the onnx package."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        self._evaluator = ReferenceEvaluator(model)
        weights = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in weights]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Run as Runnable says."""
        outputs = self._evaluator.run(None, {name: inputs[name] for name in self._names})
        return [np.asarray(value) for value in outputs]


class Deployed:
    """A runtime that models are deployed to, in a process of its own."""

    def __init__(self, name: str, model: onnx.ModelProto) -> None:
        self._loaded = find_runtime(name).load(model)
        self._outputs = [value.name for value in model.graph.output]
        self._inputs = {value.name for value in model.graph.input}

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Run as Runnable says."""
        found = self._loaded.run({name: array for name, array in inputs.items() if name in self._inputs}, self._outputs)
        return [np.asarray(found[name]) for name in self._outputs]


def run_in_workspace(case: Case) -> list[Array]:
    """Return the case's outputs, fetched after its operator or net ran in a workspace where its inputs were fed."""
    workspace = Workspace(options=SessionOptions(threads=1))
    if case.init_net is not None:
        workspace.run_net_once(case.init_net)
    for name, array in case.inputs.items():
        known = case.quantized.get(name)
        workspace.feed(name, array if known is None else Int8Tensor(array, *known))
    if case.ref.kind == "op" and len(case.net.op) == 1:
        workspace.run_operator_once(case.net.op[0])
    else:
        workspace.run_net_once(case.net)
    return [_plain(workspace.fetch(name), case, name) for name in case.outputs]


def run_in_pytorch(case: Case) -> list[Array]:
    """Return the case's outputs, computed by the module of its net. Raises ConversionError if an operator is refused.

    Without gradients: Caffe2 computes with arrays that nothing differentiates.
    """
    import torch

    from caffe2_torch import to_torch

    inputs = list(case.fed) if case.init_net is None else None
    module = to_torch(case.net, case.init_net, inputs=inputs, outputs=list(case.outputs))
    fed = {
        name: array if name not in case.quantized else Int8Tensor(array, *case.quantized[name])
        for name, array in case.inputs.items()
        if name in module.inputs or name in module.names
    }
    try:
        with torch.no_grad():
            found = module(fed)
    except RunError as error:
        raise ConversionError([Diagnostic("unsupported", str(error))]) from error
    return [_of_module(found[name], case, name) for name in case.outputs]


def _of_module(value: Any, case: Case, name: str) -> Array:
    """Return the array of an output of a module: a tensor, strings, or an Int8 tensor of a tensor."""
    if isinstance(value, Int8Tensor):
        return _plain(value._replace(data=np.asarray(value.data)), case, name)
    return np.asarray(value)


def _plain(value: Array | Int8Tensor | bytes, case: Case, name: str) -> Array:
    """Return the array; of an Int8 tensor its integers, once its scale and zero point are those recorded."""
    if isinstance(value, Int8Tensor):
        expected = case.quantized[name]
        if not np.allclose((value.scale, value.zero_point), expected):
            raise ValueError(f"{name}: scale and zero point {value.scale, value.zero_point}, expected {expected}")
        return value.data
    assert isinstance(value, np.ndarray)
    if value.dtype != object:
        return value
    texts = np.empty(value.size, object)
    texts[:] = [text.decode() for text in value.reshape(-1)]
    return texts.reshape(value.shape)


# What runs a case's net without an export of the caller's.
NET_EXECUTORS: Final[Mapping[str, Callable[[Case], list[Array]]]] = {
    "pytorch": run_in_pytorch,
    "workspace": run_in_workspace,
}

EXECUTORS: Final[Mapping[str, Callable[[onnx.ModelProto], Runnable]]] = {
    "onnxruntime": OnnxRuntime,
    "reference": Reference,
    **{name: partial(Deployed, name) for name in DEPLOYED},
}
