"""Queries of the CUDA driver: the number of GPUs, their properties and memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from caffe2_bridge.diagnostics import RunError

# CUdevice_attribute
_MAJOR: Final = 75
_MINOR: Final = 76
_NAME_LENGTH: Final = 256
_CUDNN: Final = ("libcudnn.so.9", "libcudnn.so.8")


@cache
def _driver() -> ctypes.CDLL | None:
    """Return the driver, initialized; None if it is not installed or finds no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def count_devices() -> int:
    """Return the number of GPUs; 0 without a driver."""
    driver = _driver()
    count = ctypes.c_int()
    found = driver is not None and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if found else 0


def driver_version() -> int:
    """Return the CUDA version that the driver supports, as 1000 * major + 10 * minor; 0 without a driver."""
    driver = _driver()
    version = ctypes.c_int()
    return version.value if driver is not None and driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0


def cudnn_version() -> int:
    """Return the version of the installed cuDNN, as cuDNN encodes it; 0 without one."""
    for name in _CUDNN:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.cudnnGetVersion.restype = ctypes.c_size_t
        return int(library.cudnnGetVersion())
    return 0


def device_properties(index: int) -> dict[str, Any]:
    """Return name, compute capability (major, minor) and memory in bytes (totalGlobalMem) of a GPU.

    Raises RunError if the GPU does not exist.
    """
    device = _device(index)
    driver = _loaded()
    name = ctypes.create_string_buffer(_NAME_LENGTH)
    _check(driver.cuDeviceGetName(name, _NAME_LENGTH, device))
    total = ctypes.c_size_t()
    _check(driver.cuDeviceTotalMem_v2(ctypes.byref(total), device))
    return {
        "name": name.value.decode(),
        "major": _attribute(_MAJOR, device),
        "minor": _attribute(_MINOR, device),
        "totalGlobalMem": total.value,
    }


def memory_info(index: int) -> tuple[int, int]:
    """Return the free and total memory of a GPU, in bytes. Raises RunError if the GPU does not exist."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _context(index) as driver:
        _check(driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def peer_access() -> list[list[bool]]:
    """Return, for each pair of GPUs, whether the first can access the memory of the second."""
    devices = [_device(index) for index in range(count_devices())]
    return [[_can_access(one, other) for other in devices] for one in devices]


def _can_access(one: ctypes.c_int, other: ctypes.c_int) -> bool:
    able = ctypes.c_int()
    _check(_loaded().cuDeviceCanAccessPeer(ctypes.byref(able), one, other))
    return bool(able.value)


@contextmanager
def _context(index: int) -> Iterator[ctypes.CDLL]:
    """Make the primary context of a GPU the current one. Raises RunError if the GPU does not exist."""
    device = _device(index)
    driver = _loaded()
    context, previous = ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    try:
        _check(driver.cuCtxPushCurrent_v2(context))
        try:
            yield driver
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(previous))
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)


def _loaded() -> ctypes.CDLL:
    driver = _driver()
    if driver is None:
        raise RunError("this machine has no CUDA driver")
    return driver


def _device(index: int) -> ctypes.c_int:
    if not 0 <= index < count_devices():
        raise RunError(f"GPU {index} does not exist: this machine has {count_devices()}")
    device = ctypes.c_int()
    _check(_loaded().cuDeviceGet(ctypes.byref(device), index))
    return device


def _attribute(attribute: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _check(_loaded().cuDeviceGetAttribute(ctypes.byref(value), attribute, device))
    return value.value


def _check(status: int) -> None:
    if status:
        raise RunError(f"the CUDA driver reports error {status}")
