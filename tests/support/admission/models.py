"""ONNX models made by hand, some of them malicious."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

SECRET: Final = np.array([1, 2, 3, 4], np.float32)
FLOAT: Final = onnx.TensorProto.FLOAT


def external(location: str, name: str = "w", **entries: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=FLOAT, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def value(name: str, kind: int = FLOAT, dims: Sequence[int] = (4,)) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = kind
    info.type.tensor_type.shape.SetInParent()
    for dim in dims:
        info.type.tensor_type.shape.dim.add(dim_value=dim)
    return info


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    made = onnx.NodeProto(op_type=op_type, input=inputs, output=outputs)
    kinds = onnx.AttributeProto
    for name, held in attributes.items():
        attribute = made.attribute.add(name=name)
        if isinstance(held, onnx.TensorProto):
            attribute.type = kinds.TENSOR
            attribute.t.CopyFrom(held)
        elif isinstance(held, onnx.SparseTensorProto):
            attribute.type = kinds.SPARSE_TENSOR
            attribute.sparse_tensor.CopyFrom(held)
        elif isinstance(held, onnx.GraphProto):
            attribute.type = kinds.GRAPH
            attribute.g.CopyFrom(held)
        else:
            attribute.type = kinds.TENSORS
            attribute.tensors.extend(held)
    return made


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any] = ("x",), outputs: Sequence[Any] = ("y",), **fields: Any
) -> onnx.GraphProto:
    given, made = ([value(v) if isinstance(v, str) else v for v in listed] for listed in (inputs, outputs))
    return onnx.GraphProto(name="g", node=nodes, input=given, output=made, **fields)


def model(body: onnx.GraphProto, *, opset: int = 20, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
    opsets = [onnx.OperatorSetIdProto(version=opset), onnx.OperatorSetIdProto(domain="own", version=1)]
    return onnx.ModelProto(ir_version=10, graph=body, opset_import=opsets, functions=functions)


def function(name: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str] = ("a",)) -> onnx.FunctionProto:
    opsets = [onnx.OperatorSetIdProto(version=20), onnx.OperatorSetIdProto(domain="own", version=1)]
    return onnx.FunctionProto(domain="own", name=name, node=nodes, input=inputs, output=["b"], opset_import=opsets)


def call(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return onnx.NodeProto(op_type=name, domain="own", input=inputs, output=outputs)


def sparse(location: str) -> onnx.SparseTensorProto:
    indices = onnx.TensorProto(data_type=onnx.TensorProto.INT64, dims=[4], int64_data=[0, 1, 2, 3])
    return onnx.SparseTensorProto(values=external(location), indices=indices, dims=[4])


def sparse_indices(location: str) -> onnx.SparseTensorProto:
    values = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], float_data=[1, 2, 3, 4])
    indices = external(location)
    indices.dims[:] = [2]
    indices.data_type = onnx.TensorProto.INT64
    return onnx.SparseTensorProto(values=values, indices=indices, dims=[4])


def hiding_places(location: str) -> dict[str, onnx.ModelProto]:
    """Return models that read a file in every part of a model where a tensor may be."""
    add = node("Add", ["x", "w"], ["y"])
    condition = value("c", onnx.TensorProto.BOOL, ())
    branch = graph([node("Constant", [], ["w"], value=external(location)), add], ())
    other = graph([node("Identity", ["x"], ["y"])], ())
    held = graph([add], (), initializer=[external(location)])
    inner = graph([node("If", ["c"], ["y"], then_branch=branch, else_branch=other)], ())
    return {
        "initializer": model(graph([add], initializer=[external(location)])),
        "attribute": model(graph([node("Constant", [], ["w"], value=external(location)), add])),
        "tensors": model(graph([node("Relu", ["x"], ["y"], extra=[external(location)])])),
        "body": model(graph([node("If", ["c"], ["y"], then_branch=branch, else_branch=other)], [condition, "x"])),
        "body initializer": model(
            graph([node("If", ["c"], ["y"], then_branch=held, else_branch=other)], [condition, "x"])
        ),
        "body in a body": model(
            graph([node("If", ["c"], ["y"], then_branch=inner, else_branch=other)], [condition, "x"])
        ),
        "function": model(
            graph([call("f", ["x"], ["y"])]),
            functions=[
                function("f", [node("Constant", [], ["w"], value=external(location)), node("Add", ["a", "w"], ["b"])])
            ],
        ),
        "sparse initializer": model(graph([add], sparse_initializer=[sparse(location)])),
        "sparse indices": model(graph([add], sparse_initializer=[sparse_indices(location)])),
        "sparse attribute": model(graph([node("Constant", [], ["w"], sparse_value=sparse(location)), add])),
    }


def nested(depth: int) -> onnx.ModelProto:
    """Return an If in an If, ``depth`` deep; made from the outside in, since protobuf does not copy what is deep."""
    other = graph([node("Identity", ["x"], ["y"])], ())
    made = model(graph([], [value("c", onnx.TensorProto.BOOL, ()), "x"]))
    body = made.graph
    for _ in range(depth):
        outer = body.node.add(op_type="If", input=["c"], output=["y"])
        outer.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(other)
        body = outer.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        body.name = "g"
        body.output.append(value("y"))
    body.node.append(node("Identity", ["x"], ["y"]))
    return made


def written(folder: Path, made: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path
