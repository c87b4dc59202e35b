"""Caffe2's ``workspace`` module on onnxruntime: the same names, the same meaning.

Replace ``from caffe2.python import workspace`` by ``from caffe2_backend import workspace``. As in Caffe2, functions
work on the current workspace, of which there is one for the whole process, named ``default`` at first. Nets are NetDefs
of this project or of Caffe2, their bytes, or objects with ``Proto()``.
"""

from __future__ import annotations

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.sessions.onnxruntime_library import has_cuda
from caffe2_backend.runtime.values import Int8Tensor
from caffe2_compat.workspace.benchmark import BenchmarkNet, BenchmarkNetOnce
from caffe2_compat.workspace.blob_access import (
    Blobs,
    CreateBlob,
    DeserializeBlob,
    FeedBlob,
    FeedTorch,
    FetchBlob,
    FetchBlobs,
    FetchInt8Blob,
    FetchInt8BlobRealVal,
    FetchTorch,
    GetBlobSizeBytes,
    HasBlob,
    RemoveBlob,
    ResetBlob,
    SerializeBlob,
    blobs,
)
from caffe2_compat.workspace.devices import (
    GetBlobNUMANode,
    GetCUDAVersion,
    GetCuDNNVersion,
    GetDeviceProperties,
    GetGPUMemoryInfo,
    GetGpuPeerAccessPattern,
    GetNumNUMANodes,
    GpuDeviceType,
    IsNUMAEnabled,
    NumCudaDevices,
    NumGpuDevices,
)
from caffe2_compat.workspace.immediate import (
    FeedImmediate,
    FetchImmediate,
    ImmediateBlobs,
    IsImmediate,
    RunOperatorImmediate,
    StartImmediate,
    StopImmediate,
)
from caffe2_compat.workspace.inference import InferShapesAndTypes
from caffe2_compat.workspace.named_workspaces import (
    CreateChildWorkspace,
    CurrentWorkspace,
    GlobalInit,
    ResetWorkspace,
    RootFolder,
    SetDevice,
    SwitchWorkspace,
    WorkspaceGuard,
    Workspaces,
    current,
)
from caffe2_compat.workspace.names import GetNetName, StringifyBlobName, StringifyNetName, StringifyProto
from caffe2_compat.workspace.nets import (
    CallWithExceptionIntercept,
    ClearGlobalNetObserver,
    CreateNet,
    GetStats,
    Nets,
    RegisteredOperators,
    RunNet,
    RunNetOnce,
    RunOperatorMultiple,
    RunOperatorOnce,
    RunOperatorsOnce,
    operator_tracebacks,
)
from caffe2_compat.workspace.plans import RunPlan, RunPlanInBackground
from caffe2_compat.workspace.predictor import PositionalPredictor

Predictor = PositionalPredictor  # Caffe2's name

has_hip_support = False
has_fbgemm = False
is_asan = False

__all__ = [
    "BenchmarkNet",
    "BenchmarkNetOnce",
    "Blobs",
    "CallWithExceptionIntercept",
    "ClearGlobalNetObserver",
    "CreateBlob",
    "CreateChildWorkspace",
    "CreateNet",
    "CurrentWorkspace",
    "DeserializeBlob",
    "FeedBlob",
    "FeedImmediate",
    "FeedTorch",
    "FetchBlob",
    "FetchBlobs",
    "FetchImmediate",
    "FetchInt8Blob",
    "FetchInt8BlobRealVal",
    "FetchTorch",
    "GetBlobNUMANode",
    "GetBlobSizeBytes",
    "GetCUDAVersion",
    "GetCuDNNVersion",
    "GetDeviceProperties",
    "GetGPUMemoryInfo",
    "GetGpuPeerAccessPattern",
    "GetNetName",
    "GetNumNUMANodes",
    "GetStats",
    "GlobalInit",
    "GpuDeviceType",
    "HasBlob",
    "ImmediateBlobs",
    "InferShapesAndTypes",
    "Int8Tensor",
    "IsImmediate",
    "IsNUMAEnabled",
    "Nets",
    "NumCudaDevices",
    "NumGpuDevices",
    "PositionalPredictor",
    "Predictor",
    "RegisteredOperators",
    "RemoveBlob",
    "ResetBlob",
    "ResetWorkspace",
    "RootFolder",
    "RunNet",
    "RunNetOnce",
    "RunOperatorImmediate",
    "RunOperatorMultiple",
    "RunOperatorOnce",
    "RunOperatorsOnce",
    "RunPlan",
    "RunPlanInBackground",
    "SerializeBlob",
    "SetDevice",
    "StartImmediate",
    "StopImmediate",
    "StringifyBlobName",
    "StringifyNetName",
    "StringifyProto",
    "SwitchWorkspace",
    "Workspace",
    "WorkspaceGuard",
    "Workspaces",
    "blobs",
    "current",
    "has_fbgemm",
    "has_hip_support",
    "is_asan",
    "operator_tracebacks",
]


# Names of Caffe2's module that are left out, and why.
_LEFT_OUT = {
    "ApplyTransform": "graphs are optimized by onnxruntime, without Caffe2's transforms",
    "ApplyTransformIfFaster": "graphs are optimized by onnxruntime, without Caffe2's transforms",
    "CreateOfflineTensor": "tensors without memory are not supported; InferShapesAndTypes infers shapes",
    "FillRandomNetworkInputs": "feed the inputs with FeedBlob, or use caffe2_backend.validate, which makes inputs",
    "GetOperatorCost": "operators do not have cost models; BenchmarkNet measures them",
    "StartMint": "the web page of Caffe2's mint is not supported",
}


def __getattr__(name: str) -> bool:
    """Compute ``has_gpu_support`` and ``has_cuda_support`` on access: whether onnxruntime was built for CUDA."""
    if name in ("has_gpu_support", "has_cuda_support"):
        return has_cuda()
    reason = f": {_LEFT_OUT[name]}" if name in _LEFT_OUT else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")
