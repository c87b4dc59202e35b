"""GPUs and NUMA nodes of this machine, by Caffe2's names."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_backend.runtime.devices.cuda_driver import (
    cudnn_version,
    device_properties,
    driver_version,
    memory_info,
    peer_access,
)
from caffe2_backend.runtime.sessions.onnxruntime_library import cuda_devices
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA

GpuDeviceType: Final[int] = PROTO_CUDA
_UNKNOWN_NODE: Final = -1  # Caffe2's answer where it was built without NUMA


def NumCudaDevices() -> int:
    """Return how many CUDA devices onnxruntime can use."""
    return cuda_devices()


def NumGpuDevices() -> int:
    """Return how many GPUs onnxruntime can use."""
    return cuda_devices()


def GetCUDAVersion() -> int:
    """Return the CUDA version that the driver supports, as 1000 * major + 10 * minor; 0 without GPUs."""
    return driver_version() if cuda_devices() else 0


def GetCuDNNVersion() -> int:
    """Return the version of the installed cuDNN, as cuDNN encodes it; 0 without GPUs."""
    return cudnn_version() if cuda_devices() else 0


def GetDeviceProperties(deviceid: int) -> dict[str, Any] | None:
    """Return name, compute capability (major, minor), bytes of memory (totalGlobalMem) of a GPU; None without GPUs."""
    return device_properties(deviceid) if cuda_devices() else None


def GetGPUMemoryInfo(deviceid: int = 0) -> tuple[int, int] | None:
    """Return free and total memory of a GPU in bytes; None without GPUs."""
    return memory_info(deviceid) if cuda_devices() else None


def GetGpuPeerAccessPattern() -> npt.NDArray[Any]:
    """Return for each pair of GPUs whether the first can access the memory of the second; empty without GPUs."""
    return np.asarray(peer_access() if cuda_devices() else [])


def IsNUMAEnabled() -> bool:
    """Return False: memory is not bound to NUMA nodes."""
    return False


def GetNumNUMANodes() -> int:
    """Return -1, Caffe2's answer where it was built without NUMA."""
    return _UNKNOWN_NODE


def GetBlobNUMANode(name: object) -> int:
    """Return -1, Caffe2's answer where it was built without NUMA."""
    del name
    return _UNKNOWN_NODE
