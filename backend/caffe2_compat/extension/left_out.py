"""Names of the extension that are left out: each raises an error that says so when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from caffe2_bridge.diagnostics import RunError

_NOMNIGRAPH: Final = "nomnigraph, Caffe2's graph library in C++, is left out; caffe2_bridge.passes rewrites nets"
_MKLDNN: Final = "MKL-DNN's transforms are left out: onnxruntime fuses operators"
_ONNXIFI: Final = "ONNXIFI is left out: onnxruntime runs the nets"
_TENSORRT: Final = "TensorRT is left out"
_ONNX: Final = "Caffe2's ONNX converters are left out: use caffe2_frontend.to_onnx and caffe2_backend.to_netdef"

LEFT_OUT: Final = {
    **dict.fromkeys(
        (
            "Annotation",
            "Edge",
            "Graph",
            "MatchPredicateRef",
            "NNGraph",
            "NNMatchGraph",
            "NNModule",
            "NNModuleFromProtobuf",
            "NNModuleFromProtobufDistributed",
            "NNSubgraph",
            "NeuralNetData",
            "NeuralNetOperator",
            "Node",
            "NodeRef",
            "matchSubgraph",
            "replaceAllUsesWith",
            "replaceAsConsumer",
            "replaceProducer",
        ),
        _NOMNIGRAPH,
    ),
    **dict.fromkeys(("transform_optimizeForMKLDNN", "fakeFp16FuseOps"), _MKLDNN),
    **dict.fromkeys(("onnxifi", "onnxifi_get_option", "onnxifi_set_option"), _ONNXIFI),
    **dict.fromkeys(("onnx_to_trt_op", "transform_trt"), _TENSORRT),
    **dict.fromkeys(
        ("Caffe2Backend", "Caffe2BackenRep", "Caffe2Ops", "DummyName", "export_to_onnx", "support_onnx_export"), _ONNX
    ),
}


def left_out_names() -> dict[str, Any]:
    """Return a class for each name, which cannot be made and has no members."""
    return {name: _LeftOut(name, (), {"reason": reason}) for name, reason in LEFT_OUT.items()}


class _LeftOut(type):
    """The type of what is left out. It is a class, since programs derive from some, and call others."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise _error(cls)

    def __getattr__(cls, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _error(cls)


def _error(cls: Any) -> RunError:
    return RunError(f"caffe2_pybind11_state.{cls.__name__} does not exist here: {cls.reason}")
