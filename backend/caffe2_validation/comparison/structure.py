"""Facts about the outer net of a model, in either form: outputs and depths."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_validation.runtimes import AnyModel


def every_value(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with every value that a node of its outer graph computes as an output."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    listed = {value.name for value in whole.graph.output}
    computed = dict.fromkeys(name for node in whole.graph.node for name in node.output if name and name not in listed)
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in computed)
    return whole


def depths(model: AnyModel) -> dict[str, int]:
    """Return the number of operators on the longest path from the inputs to each value; one with a body counts once."""
    found: dict[str, int] = {}
    for op in _operators(model):
        depth = 1 + max((found.get(name, 0) for name in op.input), default=0)
        found.update((name, depth) for name in op.output)
    return found


def _operators(model: AnyModel) -> Iterable[OperatorDef | onnx.NodeProto]:
    return model.predict_net.op if isinstance(model, Model) else model.graph.node
