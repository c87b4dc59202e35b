"""Runtimes that models are deployed to, each in a process of its own: what one computes wrong is seen before."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from caffe2_validation.runtimes.base import AnyModel, Form, onnx_model
from caffe2_validation.runtimes.process_runtime import ProcessRuntime

_WORKER: Final = "caffe2_validation.runtimes.deployed_worker"
_NODE_WORKER: Final = Path(__file__).with_name("node_worker.js")
_SECONDS: Final = 120.0


class _Deployed(ProcessRuntime[onnx.ModelProto]):
    form: Form = "onnx"

    def __init__(self, name: str, title: str) -> None:
        super().__init__(name, title, _SECONDS)

    def model_of(self, model: AnyModel) -> onnx.ModelProto:
        """See ProcessRuntime."""
        return onnx_model(model)

    def outputs_of(self, model: onnx.ModelProto) -> list[str]:
        """See ProcessRuntime."""
        return [value.name for value in model.graph.output]

    def load_requests(self, model: onnx.ModelProto) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """See ProcessRuntime."""
        yield {"do": "load"}, {"model": np.frombuffer(model.SerializeToString(), np.uint8)}


class PythonPackage(_Deployed):
    """A runtime that is a package of Python: OpenVINO, OpenCV's module dnn, tract.

    Args:
        name: as users write it, and the extra of this project that installs it.
        title: what messages call it.
        module: the module that is imported.
    """

    def __init__(self, name: str, title: str, module: str) -> None:
        super().__init__(name, title)
        self._module = module

    def missing_program(self) -> str:
        """See ProcessRuntime."""
        if find_spec(self._module):
            return ""
        return f"{self._title} is not installed: pip install 'caffe2-bridge[{self.name}]'"

    def command(self) -> tuple[list[str], dict[str, str]]:
        """See ProcessRuntime."""
        return [sys.executable, "-P", "-m", _WORKER, self.name], {"OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}


class NodePackage(_Deployed):
    """onnxruntime as a package of Node.js, in a folder of the variable NODE_PATH.

    It is not looked for in the current folder, which may be that of a model of somebody else.
    """

    def missing_program(self) -> str:
        """See ProcessRuntime."""
        node = shutil.which("node")
        if node is None:
            return f"Node.js is not installed, which {self._title} needs"
        if _has_package(node, self.name):
            return ""
        return f"{self._title} is not installed: npm install -g {self.name}, and NODE_PATH=$(npm root -g)"

    def command(self) -> tuple[list[str], dict[str, str]]:
        """See ProcessRuntime."""
        return [str(shutil.which("node")), str(_NODE_WORKER), self.name], {}


@cache
def _has_package(node: str, package: str) -> bool:
    """Whether Node.js finds a package."""
    import subprocess

    command = [node, str(_NODE_WORKER), package]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603 - the user's Node.js
    return done.returncode == 0


# One process for everything that is validated in this one.
DEPLOYED: Final = {
    runtime.name: runtime
    for runtime in (
        PythonPackage("openvino", "OpenVINO", "openvino"),
        PythonPackage("opencv", "OpenCV", "cv2"),
        PythonPackage("tract", "tract", "tract"),
        NodePackage("onnxruntime-node", "onnxruntime for Node.js"),
        NodePackage("onnxruntime-web", "onnxruntime for web pages"),
    )
}
