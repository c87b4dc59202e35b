"""The targets by name."""

from __future__ import annotations

import re
from typing import Final

from caffe2_bridge.diagnostics import OptionError
from caffe2_frontend.targets.coreml import COREML
from caffe2_frontend.targets.onnxruntime import ONNXRUNTIME, ONNXRUNTIME_WEB, release
from caffe2_frontend.targets.opencv import OPENCV
from caffe2_frontend.targets.openvino import OPENVINO
from caffe2_frontend.targets.target import Target
from caffe2_frontend.targets.tensorrt import TENSORRT
from caffe2_frontend.targets.tract import TRACT

_TARGETS: Final = (ONNXRUNTIME, ONNXRUNTIME_WEB, OPENVINO, TRACT, OPENCV, TENSORRT, COREML)


def find_target(name: str) -> Target:
    """Return the target of a name. Raises OptionError if there is none."""
    version = re.fullmatch(r"onnxruntime-1\.(\d{1,2})", name)
    found = release(int(version[1])) if version else next((each for each in _TARGETS if each.name == name), None)
    if found is None:
        names = ", ".join(each.name for each in _TARGETS)
        raise OptionError(f"target must be one of {names}, or onnxruntime-1.8 and later, not {name!r}")
    return found


def all_targets() -> tuple[Target, ...]:
    """Return every target, without older releases of onnxruntime."""
    return _TARGETS
