"""onnxruntime sessions: the one place that imports it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.device_names import CPU, device_index, device_kind, device_name
from caffe2_backend.runtime.session_options import DEFAULTS, Choices
from caffe2_backend.runtime.values import Array, DeviceTensor
from caffe2_bridge.diagnostics import RunError

_WARNINGS_AND_WORSE: Final = 2
_ERRORS_AND_WORSE: Final = 3
_FATAL: Final = 4
_OPTIMIZATION: Final = {
    "none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL",
}  # fmt: skip


class Session:
    """An ONNX model ready to run; several threads may run it at a time.

    Args:
        model: the serialized model, or the path of a file.
        device: ``cpu`` or ``cuda:N``.
        threads: threads within an operator; None leaves it to ``choices``.
        verbose: show onnxruntime's warnings.
        choices: everything else.

    Raises:
        RunError: onnxruntime is missing, cannot load the model, or has no such device.
    """

    def __init__(
        self,
        model: bytes | str,
        device: str = CPU,
        *,
        threads: int | None = None,
        verbose: bool = False,
        choices: Choices = DEFAULTS,
    ) -> None:
        runtime = _onnxruntime()
        if threads is not None or verbose:
            choices = dataclasses.replace(choices, threads=threads, verbose=verbose)
        self.device = device_name(device)
        self._real = real_device(self.device, choices)
        try:
            self._session = runtime.InferenceSession(
                model, _options(choices), providers=_providers(self._real, choices),
                disabled_optimizers=list(choices.disabled_optimizers) or None,
            )  # fmt: skip
        except failures() as error:
            raise RunError(f"onnxruntime cannot load the model: {error}") from error
        self.inputs = tuple(value.name for value in self._session.get_inputs())
        self.outputs = tuple(value.name for value in self._session.get_outputs())
        self._outputs = list(self.outputs)
        self._texts = {value.name for value in self._session.get_outputs() if value.type == "tensor(string)"}
        self._on_cpu = self._real == CPU and self.device == CPU
        self._graphs = choices.cuda_graphs and device_kind(self._real) == "cuda"
        self._fixed: dict[Any, FixedBinding] = {}
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model: arrays in, arrays out, by name.

        Names that the model does not have are not used. Raises RunError where an input is missing or the run fails.
        """
        wanted = self._outputs if outputs is None else list(outputs)
        return dict(zip(wanted, self.run_list(self._feed(inputs), wanted), strict=True))

    def _feed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise RunError(f"input {', '.join(map(repr, missing))} is not given")
        return {name: inputs[name] for name in self.inputs}

    def run_list(self, feed: dict[str, Array], outputs: list[str] | None = None) -> list[Array]:
        """The same without the checks: ``feed`` holds the model's inputs and no other."""
        try:
            values: list[Array] = self._session.run(outputs, feed)
        except failures() as error:
            raise RunError(f"onnxruntime: {error}") from error
        return values

    def run_on_device(self, inputs: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        """Run the model with values that stay where they are: outputs lie on the session's device, texts on the host.

        Raises RunError as :meth:`run`.
        """
        feed = self._feed(inputs)
        if self._on_cpu:
            plain = {name: v.numpy() if isinstance(v, DeviceTensor) else v for name, v in feed.items()}
            return dict(zip(self._outputs, self.run_list(plain, self._outputs), strict=True))
        if any(isinstance(v, np.ndarray) and v.dtype == object for v in feed.values()):
            # Texts cannot be bound: onnxruntime brings all of this run to the host and back.
            plain = {name: v.numpy() if isinstance(v, DeviceTensor) else v for name, v in feed.items()}
            values = zip(self._outputs, self.run_list(plain, self._outputs), strict=True)
            return {name: v if v.dtype == object else self.put(v) for name, v in values}
        try:
            return self._run_fixed(feed) if self._graphs else self._run_bound(feed)
        except failures() as error:
            raise RunError(f"onnxruntime: {error}") from error

    def put(self, array: Array) -> DeviceTensor:
        """An array of the host as a tensor on the session's device."""
        return put_on(array, self.device, self._real)

    def _run_bound(self, feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        binding = self._session.io_binding()
        for name, value in feed.items():
            if isinstance(value, DeviceTensor):
                binding.bind_ortvalue_input(name, value.ort)
            else:
                binding.bind_cpu_input(name, np.ascontiguousarray(value).reshape(value.shape))
        for name in self.outputs:
            if name in self._texts:
                binding.bind_output(name)
            else:
                binding.bind_output(name, device_kind(self._real), device_index(self._real))
        binding.synchronize_inputs()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return {
            name: value.numpy() if name in self._texts else DeviceTensor(value, self.device)
            for name, value in zip(self.outputs, binding.get_outputs(), strict=True)
        }

    def _run_fixed(self, feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        """A run over buffers that stay where they are, one set a shape: what a CUDA graph replays."""
        key = tuple((value.dtype.str, *value.shape) for value in feed.values())
        with self._lock:
            fixed = self._fixed.get(key)
            if fixed is None:
                outputs = _onnxruntime().RunOptions()
                outputs.add_run_config_entry("gpu_graph_id", "-1")  # this run is not recorded: it tells the shapes
                shapes = self._shapes_of(feed, outputs)
                fixed = FixedBinding(self._session, feed, shapes, self._real, str(len(self._fixed) + 1))
                self._fixed[key] = fixed
            return {name: self.put(array) for name, array in fixed.run(feed).items()}

    def _shapes_of(self, feed: Mapping[str, Array | DeviceTensor], options: Any) -> dict[str, Array]:
        plain = {name: v.numpy() if isinstance(v, DeviceTensor) else v for name, v in feed.items()}
        return dict(zip(self.outputs, self._session.run(self._outputs, plain, options), strict=True))


class FixedBinding:
    """Buffers of one set of shapes on a device, bound to a session once; a run copies in, runs, and copies out."""

    def __init__(
        self, session: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Array], device: str, graph_id: str
    ) -> None:
        runtime = _onnxruntime()
        kind, index = device_kind(device), device_index(device)
        self._session = session
        self._binding = session.io_binding()
        self._inputs = {}
        for name, value in inputs.items():
            array = value.numpy() if isinstance(value, DeviceTensor) else value
            self._inputs[name] = runtime.OrtValue.ortvalue_from_numpy(array, kind, index)
            self._binding.bind_ortvalue_input(name, self._inputs[name])
        self._outputs = {}
        for name, array in outputs.items():
            value = runtime.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype, kind, index)
            self._outputs[name] = value
            self._binding.bind_ortvalue_output(name, value)
        self._options = runtime.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", graph_id)

    def run(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """One run over inputs of the shapes that the buffers have; outputs are copies on the host."""
        for name, value in feed.items():
            self._inputs[name].update_inplace(value.numpy() if isinstance(value, DeviceTensor) else value)
        self._session.run_with_iobinding(self._binding, self._options)
        return {name: value.numpy() for name, value in self._outputs.items()}


def put_on(array: Array, device: str, real: str) -> DeviceTensor:
    """An array on ``device``, whose part ``real`` may play."""
    value = _onnxruntime().OrtValue.ortvalue_from_numpy(array, device_kind(real), device_index(real))
    return DeviceTensor(value, device)


def from_dlpack(tensor: Any) -> Any:
    """Onnxruntime's value over the memory of another library's tensor. Raises RunError where it takes none."""
    try:
        return _onnxruntime().OrtValue.from_dlpack(tensor)
    except failures() as error:
        raise RunError(f"onnxruntime cannot take the tensor over: {error}") from None


def real_device(device: str, choices: Choices) -> str:
    """The device that runs what is meant for ``device``. Raises RunError where this onnxruntime has none."""
    real = device_name(choices.stand_in.get(device, device))
    if device_kind(real) == "cuda" and "CUDAExecutionProvider" not in _onnxruntime().get_available_providers():
        raise RunError("this onnxruntime has no CUDA: install caffe2-bridge[gpu] in place of caffe2-bridge[cpu]")
    return real


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise RunError(
            "onnxruntime is not installed: install caffe2-bridge[cpu], or caffe2-bridge[gpu] for CUDA (not both)"
        ) from None
    if not hasattr(onnxruntime, "InferenceSession"):
        raise RunError("onnxruntime is damaged, as when onnxruntime and onnxruntime-gpu are both installed: keep one")
    return onnxruntime


@cache
def failures() -> tuple[type[Exception], ...]:
    """What onnxruntime raises where the model or its inputs are at fault."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return (
        state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile,
        state.NotImplemented, state.RuntimeException, state.EPFail, RuntimeError, ValueError, TypeError,
    )  # fmt: skip


def _options(choices: Choices) -> Any:
    runtime = _onnxruntime()
    options = runtime.SessionOptions()
    worst = _FATAL if choices.silent else _ERRORS_AND_WORSE
    options.log_severity_level = _WARNINGS_AND_WORSE if choices.verbose else worst
    if choices.threads is not None:
        options.intra_op_num_threads = choices.threads
    if choices.parallel_operators != 1:
        options.execution_mode = runtime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = choices.parallel_operators
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, _OPTIMIZATION[choices.optimization])
    options.enable_cpu_mem_arena = choices.arena
    options.enable_mem_pattern = choices.memory_patterns
    if not choices.spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for key, value in choices.entries.items():
        options.add_session_config_entry(key, value)
    if choices.optimized:
        options.optimized_model_filepath = choices.optimized
    return options


def _providers(device: str, choices: Choices) -> list[Any]:
    available = _onnxruntime().get_available_providers()
    first: list[Any] = []
    for provider in choices.providers:
        name, options = (provider, {}) if isinstance(provider, str) else provider
        if name not in available:
            raise RunError(f"this onnxruntime has no provider {name!r}: it has {', '.join(available)}")
        first.append((name, dict(options)))
    if device != CPU:
        options = {"device_id": device_index(device), **choices.cuda}
        if choices.cuda_graphs:
            options["enable_cuda_graph"] = "1"
        first.append(("CUDAExecutionProvider", options))
    return [*first, "CPUExecutionProvider"]


def cuda_devices() -> int:
    """How many CUDA devices onnxruntime can use: 0 where it has no CUDA, or there is no driver."""
    import ctypes

    if "CUDAExecutionProvider" not in _onnxruntime().get_available_providers():
        return 0
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    found = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if found else 0
