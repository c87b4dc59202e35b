"""The functions of operators, by family; the rooms and files have the names of the frontend's."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from caffe2_bridge.registry import merge
from caffe2_torch.evaluation.family import Evaluate

FAMILIES: Final = (
    "aten",
    "control_flow.branch",
    "control_flow.do",
    "control_flow.loop",
    "control_flow.recurrent",
    "detection.boxes",
    "detection.keypoint",
    "detection.regions",
    "feature.calibration",
    "feature.encoding",
    "feature.histogram",
    "feature.merge",
    "feature.samples",
    "feature.sparse",
    "feature.tensor_train",
    "nn.activation",
    "nn.convolution",
    "nn.distance",
    "nn.image",
    "nn.linear",
    "nn.loss",
    "nn.metric",
    "nn.normalization",
    "nn.pooling",
    "nn.ranking_loss",
    "quantized.int8",
    "quantized.int8_activation",
    "quantized.int8_product",
    "quantized.rowwise",
    "quantized.sparse_lengths_rowwise",
    "sequence.ctc",
    "sequence.lengths",
    "sequence.rnn_unit",
    "sequence.segment_reduction",
    "sequence.sequence",
    "tensor.cast",
    "tensor.concat_split",
    "tensor.copy",
    "tensor.elementwise",
    "tensor.fill",
    "tensor.indexing",
    "tensor.math",
    "tensor.reduction",
    "tensor.scatter",
    "tensor.shape",
    "tensor.sorting",
    "tensor.statistics",
    "tensor.strings",
)


@cache
def functions() -> dict[str, Evaluate]:
    """Return every operator type that converts, with its function."""
    return merge(import_module(f"{__name__}.{name}").family for name in FAMILIES)


def find_function(op_type: str) -> Evaluate | None:
    """Return the function of an operator type; None where there is none."""
    return functions().get(op_type)


def supported_operators() -> tuple[str, ...]:
    """Return the operator types that convert, sorted."""
    return tuple(sorted(functions()))
