"""The machine: versions, the driver, the libraries, and a first run on the GPU."""

from __future__ import annotations

import importlib.util
import platform
import sys
from typing import Any

import numpy as np

from caffe2_backend.runtime import Workspace
from caffe2_backend.runtime.devices.cuda_driver import cudnn_version, device_properties, driver_version
from caffe2_backend.runtime.sessions.onnxruntime_library import cuda_libraries, missing_cuda, onnxruntime
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from gpu_suite.results import record


def main() -> int:
    """Record what there is; 1 if onnxruntime cannot use the GPU."""
    library = onnxruntime()
    record("onnxruntime", "measured", version=library.__version__, at=library.__file__)
    record("machine", "measured", version=platform.platform(), torch=_torch())
    reason = missing_cuda()
    if reason:
        record("CUDA", "failed", reason=reason)
        return 1
    properties = device_properties(0)
    libraries = cuda_libraries()
    record(
        "CUDA", "passed", version=driver_version(), cudnn=cudnn_version(), built_for=libraries.major, device=properties
    )
    try:
        found = _first_run()
    except RunError as error:
        return 0 if record("first run", "failed", reason=str(error)) else 1
    good = found.tolist() == [0, 2]
    reason = "" if good else f"Relu of [-1, 2] gave {found.tolist()}"
    return 0 if record("first run", "passed" if good else "failed", reason=reason) else 1


def _first_run() -> np.ndarray[Any, Any]:
    workspace = Workspace("cuda:0")
    workspace.feed("x", np.array([-1, 2], np.float32))
    net = NetDef(name="first", op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_input=["x"])
    workspace.run_net_once(net)
    return np.asarray(workspace.fetch("y"))


def _torch() -> str:
    if importlib.util.find_spec("torch") is None:
        return "not installed"
    import torch

    return f"{torch.__version__}, CUDA {torch.version.cuda}, {'sees' if torch.cuda.is_available() else 'no'} GPU"


if __name__ == "__main__":
    sys.exit(main())
