"""What fails on the stand-ins for a GPU, and why: a failure that is listed and does not come is one, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# In the environment of stages: the name of the stand-in, empty on a GPU.
STAND_IN: Final = "GPU_SUITE_STAND_IN"
_VALUES: Final = "kernels compute nothing"
_GPU_TESTS: Final = "tests/end_to_end/test_runtime_gpu.py"
# By stand-in, the names of results, or with a star what they begin with.
_EXPECTED: Final[Mapping[str, Mapping[str, str]]] = {
    "emulated-cuda": {
        "first run": _VALUES,
        f"{_GPU_TESTS}::test_golden_models*": _VALUES,
        f"{_GPU_TESTS}::test_a_tail_on_the_host_does_the_copies_of_its_plan": _VALUES,
        f"{_GPU_TESTS}::test_cuda_graphs": _VALUES,
        "tests/unit/validation/runtimes/test_runtimes.py::test_every_runtime_runs_a_net[onnxruntime-cuda]": _VALUES,
        "copies in resnet50": "the plans of cuDNN's graph interface are not emulated",
        "copies in attention_train": "shapes of gradients are computed on the GPU, where kernels compute nothing",
        "recorded/ops/StringJoin": "onnxruntime gives its CUDA provider a Loop of texts, and cannot copy these; this "
        "operator stays on the host, since Transpose has no kernel for them",
    },
    "webgpu": {
        **dict.fromkeys(("recorded/ops/FloatToHalf", "recorded/ops/HalfToFloat"), "the software GPU has no float16"),
        "recorded/ops/LC2DGradient": "onnxruntime-ep-webgpu 0.4: it ends the process in products of dims",
        **dict.fromkeys(
            (
                f"{_GPU_TESTS}::test_no_copies_but_those_that_are_predicted[{name}]"
                for name in (
                    "attention_recurrent",
                    "attention_regular",
                    "basic_rnn_tanh",
                    "gru_linear_before_reset",
                    "layer_norm_lstm",
                    "layer_norm_milstm",
                )
            ),
            "WebGPU lacks kernels that CUDA has: GRU, RNN, some for int64",
        ),
    },
}


def expected_failure(stand_in: str, name: str) -> str:
    """Return why a result is expected to fail on a stand-in; empty if it is not."""
    listed = _EXPECTED.get(stand_in, {})
    prefixes = (key for key in listed if key.endswith("*") and name.startswith(key[:-1]))
    return listed.get(name) or next((listed[key] for key in prefixes), "")
