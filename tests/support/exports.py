"""Export a net of a few operators, run the model on onnxruntime, and read the dims of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
from conformance.corpus import Array

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

Specs: TypeAlias = Mapping[str, tuple[Any, tuple[int | str | None, ...]]]


def export(
    ops: OperatorDef | Sequence[OperatorDef], inputs: Mapping[str, Any], init: NetDef | None = None
) -> onnx.ModelProto:
    """Return the ONNX model of a net of ``ops``. Its outputs are those of the last one."""
    ops = [ops] if isinstance(ops, OperatorDef) else ops
    return to_onnx(NetDef(op=ops), init, inputs=inputs, outputs=list(ops[-1].output))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array], threads: int = 1) -> list[Array]:
    """Return the outputs of a model on onnxruntime's CPU provider."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def specs_of(inputs: Mapping[str, Array], *, sizes: bool = True) -> Specs:
    """Return the dtype and shape of each input; its rank alone without ``sizes``."""
    return {name: (array.dtype, array.shape if sizes else (None,) * array.ndim) for name, array in inputs.items()}


def dims(model: onnx.ModelProto, index: int = 0) -> list[int | str]:
    """Return the dims of one output of a model, by name or size."""
    shape = model.graph.output[index].type.tensor_type.shape
    return [dim.dim_param or dim.dim_value for dim in shape.dim]


def node_types(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the types of all nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from node_types(attribute.g)
