"""What fails on the stand-ins for a GPU, and why: a failure that is listed and does not come is one, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# In the environment of stages: the name of the stand-in, empty on a GPU.
STAND_IN: Final = "GPU_SUITE_STAND_IN"
_VALUES: Final = "kernels compute nothing"
# By stand-in, the names of results, or with a star what they begin with.
_EXPECTED: Final[Mapping[str, Mapping[str, str]]] = {
    "emulated-cuda": {
        "first run": _VALUES,
        "recorded/ops/StringJoin": "onnxruntime gives its CUDA provider a Loop of texts, and cannot copy these; this "
        "operator stays on the host, since Transpose has no kernel for them",
    },
    "webgpu": {},
}


def expected_failure(stand_in: str, name: str) -> str:
    """Return why a result is expected to fail on a stand-in; empty if it is not."""
    listed = _EXPECTED.get(stand_in, {})
    prefixes = (key for key in listed if key.endswith("*") and name.startswith(key[:-1]))
    return listed.get(name) or next((listed[key] for key in prefixes), "")
