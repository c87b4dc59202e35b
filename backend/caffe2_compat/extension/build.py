"""How the extension was built, and the machine that it runs on."""

from __future__ import annotations

from typing import Final

from caffe2_backend import workspace as functions
from caffe2_backend.databases import DATABASES
from caffe2_backend.runtime.sessions.onnxruntime_library import has_cuda

__all__ = [
    "builtin_cpu_supports_avx2",
    "clear_global_net_observer",
    "cudnn_convolution_bwd_data_algo_count",
    "cudnn_convolution_bwd_filter_algo_count",
    "cudnn_convolution_fwd_algo_count",
    "define_caffe2_no_operator_schema",
    "get_blob_numa_node",
    "get_build_options",
    "get_cuda_peer_access_pattern",
    "get_cuda_version",
    "get_cudnn_version",
    "get_device_properties",
    "get_gpu_memory_info",
    "get_num_numa_nodes",
    "get_stats",
    "has_fbgemm",
    "has_mkldnn",
    "is_asan",
    "is_numa_enabled",
    "num_cuda_devices",
    "on_module_exit",
    "registered_dbs",
    "use_mkldnn",
    "use_rocm",
    "use_trt",
]

cudnn_convolution_fwd_algo_count: Final = 8
cudnn_convolution_bwd_data_algo_count: Final = 6
cudnn_convolution_bwd_filter_algo_count: Final = 7
define_caffe2_no_operator_schema: Final = False
has_fbgemm: Final = False
has_mkldnn: Final = False
use_mkldnn: Final = False
use_rocm: Final = False
use_trt: Final = False
is_asan: Final = False

get_blob_numa_node = functions.GetBlobNUMANode
get_cuda_version = functions.GetCUDAVersion
get_cudnn_version = functions.GetCuDNNVersion
get_cuda_peer_access_pattern = functions.GetGpuPeerAccessPattern
get_device_properties = functions.GetDeviceProperties
get_gpu_memory_info = functions.GetGPUMemoryInfo
get_num_numa_nodes = functions.GetNumNUMANodes
is_numa_enabled = functions.IsNUMAEnabled
num_cuda_devices = functions.NumCudaDevices
clear_global_net_observer = functions.ClearGlobalNetObserver
get_stats = functions.GetStats


def get_build_options() -> dict[str, str]:
    """Return Caffe2's build options that matter to its Python."""
    return {"BUILD_TYPE": "caffe2-bridge", "USE_CUDA": str(int(has_cuda())), "USE_MKLDNN": "0"}


def registered_dbs() -> list[str]:
    """Return the types of databases."""
    return list(DATABASES)


def builtin_cpu_supports_avx2() -> bool:
    """Return True: onnxruntime chooses its kernels for the processor."""
    return True


def on_module_exit() -> None:
    """Do nothing: sessions free their memory when the process ends."""
