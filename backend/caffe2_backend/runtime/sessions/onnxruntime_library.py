"""The onnxruntime library: the one module that imports it, its errors, devices, values and session options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from caffe2_backend.runtime.devices.cuda_driver import count_devices, driver_version
from caffe2_backend.runtime.devices.cuda_libraries import CudaLibraries, load_cuda_libraries
from caffe2_backend.runtime.devices.device_names import CPU, WEBGPU, device_index, device_kind, device_name
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, DeviceTensor
from caffe2_bridge.diagnostics import RunError

_WARNINGS_AND_WORSE: Final = 2
_ERRORS_AND_WORSE: Final = 3
_FATAL: Final = 4
_PROVIDERS: Final = {"cuda": "CUDAExecutionProvider", WEBGPU: "WebGpuExecutionProvider"}
_PER_MAJOR: Final = 1000  # the driver gives CUDA's version as 1000 * major + 10 * minor
# onnxruntime's names of the levels of SessionOptions.optimization.
OPTIMIZATION_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL",
}  # fmt: skip


def onnxruntime() -> Any:
    """Import onnxruntime. Raises RunError if it is not installed, or its installation is damaged."""
    try:
        import onnxruntime as library
    except ImportError:
        raise RunError(
            "onnxruntime is not installed: install caffe2-bridge[cpu], or caffe2-bridge[gpu] for CUDA (not both)"
        ) from None
    if not hasattr(library, "InferenceSession"):
        raise RunError("onnxruntime is damaged, as when onnxruntime and onnxruntime-gpu are both installed: keep one")
    return library


@cache
def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that onnxruntime raises for a faulty model or faulty inputs. Raises RunError without it."""
    onnxruntime()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return (
        state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile,
        state.NotImplemented, state.RuntimeException, state.EPFail, RuntimeError, ValueError, TypeError,
    )  # fmt: skip


# Devices


def real_device(device: str, options: SessionOptions) -> str:
    """Return the device that runs operators of ``device``: itself or its stand-in.

    Raises RunError if this onnxruntime does not support it.
    """
    real = device_name(options.stand_in.get(device, device))
    if real == CPU:
        return real
    if real == WEBGPU:
        reason, count = missing_webgpu(), 1
    else:
        reason = missing_cuda()
        count = 0 if reason else cuda_devices()
    if not reason and device_index(real) >= count:
        reason = f"this machine has {count} CUDA device{'s' if count > 1 else ''}, the last one is cuda:{count - 1}"
    if reason:
        raise RunError(f"{real} is not available: {reason}; --device cpu, or device='cpu', runs without it")
    return real


def missing_cuda() -> str:
    """Return why onnxruntime cannot use any CUDA device; empty if it can. Raises RunError as :func:`onnxruntime`.

    Loads the CUDA and cuDNN libraries of this Python's packages, PyTorch's among them, where the loader does not find
    them itself.
    """
    if not has_cuda():
        return "this onnxruntime has no CUDA (install caffe2-bridge[gpu] instead of caffe2-bridge[cpu])"
    if not cuda_devices():
        return "no CUDA device is available"
    libraries = cuda_libraries()
    driver = driver_version()
    if driver and libraries.major and driver < libraries.major * _PER_MAJOR:
        version = f"{driver // _PER_MAJOR}.{driver % _PER_MAJOR // 10}"
        return (
            f"the driver supports CUDA {version}, and this onnxruntime needs CUDA {libraries.major}: update the driver"
        )
    if libraries.missing:
        names = ", ".join(libraries.missing)
        return f"{names} cannot be loaded (install onnxruntime-gpu[cuda,cudnn], or PyTorch with CUDA {libraries.major})"
    return ""


def cuda_libraries() -> CudaLibraries:
    """Return the CUDA libraries that this onnxruntime needs, loaded where they are found."""
    return load_cuda_libraries(Path(onnxruntime().__file__).parent)


def has_cuda() -> bool:
    """Whether this onnxruntime was built for CUDA."""
    return _PROVIDERS["cuda"] in onnxruntime().get_available_providers()


def cuda_devices() -> int:
    """Return the number of CUDA devices that onnxruntime can use: 0 without CUDA support or without a driver."""
    return count_devices() if has_cuda() else 0


@cache
def webgpu_devices() -> Sequence[Any]:
    """Return the devices of onnxruntime's WebGPU provider, a package of its own. Raises RunError if it has none."""
    library = onnxruntime()
    try:
        import onnxruntime_ep_webgpu as package
    except ImportError:
        raise RunError("onnxruntime's WebGPU provider is not installed (install caffe2-bridge[webgpu])") from None
    try:
        library.register_execution_provider_library(WEBGPU, package.get_library_path())
        found = [device for device in library.get_ep_devices() if device.ep_name == _PROVIDERS[WEBGPU]]
    except failures() as error:
        raise RunError(f"onnxruntime {library.__version__} cannot load its WebGPU provider: {error}") from None
    if not found:
        raise RunError("onnxruntime's WebGPU provider finds no GPU")
    return found


def missing_webgpu() -> str:
    """Return why onnxruntime cannot use a GPU by WebGPU; empty if it can. Raises RunError as :func:`onnxruntime`."""
    onnxruntime()
    try:
        webgpu_devices()
    except RunError as error:
        return str(error)
    return ""


# Values


def copy_to_device(array: Array, device: str, real: str) -> DeviceTensor:
    """Copy a host array to ``real``, the device that runs operators of ``device``."""
    value = onnxruntime().OrtValue.ortvalue_from_numpy(array, device_kind(real), device_index(real))
    return DeviceTensor(value, device)


def from_dlpack(tensor: Any) -> Any:
    """Return an OrtValue that shares memory with another library's tensor. Raises RunError if onnxruntime refuses."""
    try:
        return onnxruntime().OrtValue.from_dlpack(tensor)
    except failures() as error:
        raise RunError(f"onnxruntime cannot take the tensor over: {error}") from None


# Sessions


def library_options(options: SessionOptions) -> Any:
    """Convert to onnxruntime's own SessionOptions."""
    library = onnxruntime()
    made = library.SessionOptions()
    worst = _FATAL if options.silent else _ERRORS_AND_WORSE
    made.log_severity_level = _WARNINGS_AND_WORSE if options.verbose else worst
    if options.threads is not None:
        made.intra_op_num_threads = options.threads
    if options.parallel_operators != 1:
        made.execution_mode = library.ExecutionMode.ORT_PARALLEL
        made.inter_op_num_threads = options.parallel_operators
    made.graph_optimization_level = getattr(library.GraphOptimizationLevel, OPTIMIZATION_LEVELS[options.optimization])
    made.enable_cpu_mem_arena = options.arena
    made.enable_mem_pattern = options.memory_patterns
    if not options.spinning:
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # onnxruntime 1.32: on processors without VNNI, products of uint8 and int8 saturate at 16 bits unless this is set.
    made.add_session_config_entry("session.x64quantprecision", "1")
    for key, value in options.entries.items():
        made.add_session_config_entry(key, value)
    if options.optimized:
        made.optimized_model_filepath = options.optimized
    return made


def require_provider(session: Any, device: str) -> None:
    """Raise RunError if a session for a GPU has none: onnxruntime falls back to the CPU where its provider fails."""
    if device != CPU and _PROVIDERS[device_kind(device)] not in session.get_providers():
        name = "WebGPU" if device == WEBGPU else f"CUDA for {device}"
        raise RunError(f"onnxruntime could not start {name}, and would run on the CPU; verbose=True shows its reason")


def execution_providers(device: str, options: SessionOptions) -> list[Any]:
    """Return the providers to try, in order; none for WebGPU, which :func:`add_webgpu` adds.

    Raises RunError if this onnxruntime lacks one of ``options.providers``, or cannot try any before WebGPU.
    """
    if device == WEBGPU:
        if options.providers:
            raise RunError("no other provider can come before WebGPU: leave the option 'providers' out")
        return []
    available = onnxruntime().get_available_providers()
    first: list[Any] = []
    for provider in options.providers:
        name, settings = (provider, {}) if isinstance(provider, str) else provider
        if name not in available:
            raise RunError(f"this onnxruntime has no provider {name!r}: it has {', '.join(available)}")
        first.append((name, dict(settings)))
    if device != CPU:
        settings = {"device_id": device_index(device), **options.cuda}
        if options.cuda_graphs:
            settings["enable_cuda_graph"] = "1"
        first.append((_PROVIDERS["cuda"], settings))
    return [*first, "CPUExecutionProvider"]


def add_webgpu(made: Any) -> None:
    """Let sessions with these options of onnxruntime's run by WebGPU, and on the CPU what it has no kernel for."""
    made.add_provider_for_devices(webgpu_devices(), {})


@cache
def releasing_run() -> Any:
    """Return onnxruntime's options of a run after which the arena of the host gives free memory back."""
    made = onnxruntime().RunOptions()
    made.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return made
