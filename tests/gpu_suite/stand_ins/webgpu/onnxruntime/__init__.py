"""onnxruntime with its WebGPU provider under the name of CUDA: kernels compute, and memory is the device's own.

With ``GPU_SUITE_OWN_NAME`` in the environment, the onnxruntime after it is left as it is: stages of the device webgpu.

This folder comes first on the path: the module replaces itself by the onnxruntime that stands after it, and changes
that. Needs onnxruntime-ep-webgpu, and a GPU of Vulkan, which may be a software one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import onnxruntime_ep_webgpu
from gpu_suite.stand_ins.renamed import CUDA, OWN_NAME, install_driver, is_cuda, real_library, rename

_WEBGPU: Final = "WebGpuExecutionProvider"


def _change(library: Any) -> None:
    library.register_execution_provider_library("webgpu", onnxruntime_ep_webgpu.get_library_path())
    devices = [device for device in library.get_ep_devices() if device.ep_name == _WEBGPU]
    if not devices:
        raise ImportError("onnxruntime's WebGPU provider found no device")

    class InferenceSession(library.InferenceSession):  # type: ignore[misc] # the real one has no types
        def __init__(
            self, model: Any, options: Any = None, providers: Sequence[Any] = (), *more: Any, **named: Any
        ) -> None:
            asked = [provider for provider in providers or () if is_cuda(provider)]
            if asked:
                options = options or library.SessionOptions()
                graphs = any(isinstance(one, tuple) and one[1].get("enable_cuda_graph") == "1" for one in asked)
                options.add_provider_for_devices(devices, {"enableGraphCapture": "1"} if graphs else {})
            super().__init__(model, options, None if asked else providers or None, *more, **named)

        def get_providers(self) -> list[str]:
            return [CUDA if name == _WEBGPU else name for name in super().get_providers()]

    library.InferenceSession = InferenceSession
    rename(library, "webgpu")


_library = real_library(__file__)
if not os.environ.get(OWN_NAME):
    _change(_library)
    install_driver()
