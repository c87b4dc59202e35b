"""Tensors, nodes and texts that onnx or onnx_ir would fail on, or read as something else."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from support.admission.models import FLOAT, call, function, graph, model, node, value

from caffe2_backend import to_netdef
from caffe2_backend.admission import load_graph, load_ir
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, NetFormatError

KINDS = onnx.TensorProto


def refused(made: onnx.ModelProto) -> Diagnostic:
    with pytest.raises(ConversionError) as raised:
        load_ir(made)
    with pytest.raises(ConversionError):
        to_netdef(made.SerializeToString())
    return raised.value.errors[0]


def initialized(**fields: Any) -> onnx.ModelProto:
    tensor = onnx.TensorProto(**{"name": "w", "data_type": FLOAT, "dims": [4]} | fields)
    return model(graph([node("Relu", ["x"], ["y"])], initializer=[tensor]))


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"float_data": [1.0] * 3}, "malformed-model", "has 3 elements in float_data, not 4"),
        ({"raw_data": b"\0" * 15}, "malformed-model", "has 15 bytes, not 16"),
        ({"raw_data": b"\0" * 16, "data_type": KINDS.STRING}, "malformed-model", "has strings as raw data"),
        ({"int64_data": [1] * 4}, "malformed-model", "must not have its values in int64_data"),
        ({"int32_data": [1] * 4}, "malformed-model", "must not have its values in int32_data"),
        ({"float_data": [1.0] * 4, "data_type": KINDS.COMPLEX64}, "malformed-model", "not 8"),
        ({"int32_data": [1] * 4, "data_type": KINDS.INT4}, "malformed-model", "not 2"),
        ({"float_data": [1.0] * 4, "segment": {"begin": 0, "end": 4}}, "malformed-model", "is a segment of a tensor"),
        ({}, "no-values", "has no values"),
        ({"dims": [2**62, 4]}, "no-values", "has no values"),
        ({"dims": [0, 2**62]}, "malformed-model", "has dims that no array has"),
        ({"dims": [1] * 70, "float_data": [1.0]}, "malformed-model", "has 70 dims"),
    ],
)
def test_values_must_fit(fields: dict[str, Any], code: str, reason: str) -> None:
    found = refused(initialized(**fields))
    assert found.code == code
    assert found.reason.startswith("initializer 'w' ")
    assert reason in found.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"float_data": [1.0] * 4},
        {"raw_data": b"\0" * 16},
        {"dims": [0, 4]},
        {"dims": [], "float_data": [1.0]},
        {"raw_data": b"\0\0", "data_type": KINDS.INT4},
        {"int32_data": [1, 2], "data_type": KINDS.UINT4},
        {"int32_data": [1] * 4, "data_type": KINDS.FLOAT16},
        {"uint64_data": [1] * 4, "data_type": KINDS.UINT32},
        {"float_data": [1.0] * 8, "data_type": KINDS.COMPLEX64},
        {"string_data": [b"a"] * 4, "data_type": KINDS.STRING},
    ],
)
def test_values_that_fit(fields: dict[str, Any]) -> None:
    loaded = load_ir(initialized(**fields))
    tensor = loaded.graph.initializers["w"].const_value
    assert tensor is not None
    assert list(tensor.numpy().shape) == fields.get("dims", [4])


def test_pictures_do_not_need_values(tmp_path: Any) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(initialized().SerializeToString())
    assert load_graph(path).graph.initializer[0].name == "w"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node("Add", ["x"], ["y"]), "the node has 1 inputs; Add has at least 2"),
        (node("Relu", ["x", "x"], ["y"]), "the node has 2 inputs; Relu has at most 1"),
        (node("Relu", ["x"], ["y", "z"]), "the node has 2 outputs; Relu has at most 1"),
        (node("Add", ["x", ""], ["y"]), "input 1 (B) is missing"),
        (node("Min", ["x", ""], ["y"]), "input 1 (data_0) is missing"),
        (node("Cast", ["x"], ["y"]), "attribute 'to' is missing"),
        (node("Softmax", ["x"], ["y"], axis=KINDS(data_type=FLOAT, float_data=[1])), "must be of type INT, not TENSOR"),
    ],
)
def test_nodes_are_as_onnx_defines_them(made: onnx.NodeProto, reason: str) -> None:
    found = refused(model(graph([made])))
    assert found.code == "malformed-model"
    assert reason in found.reason
    assert found.location.index == 0


def test_a_split_into_more_parts_than_outputs() -> None:
    split = node("Split", ["x"], ["y", "z"])
    split.attribute.add(name="num_outputs", type=onnx.AttributeProto.INT, i=3)
    assert refused(model(graph([split]))).reason == "attribute 'num_outputs' must be the number of outputs, 2, not 3"


def test_a_node_without_outputs() -> None:
    found = refused(model(graph([node("Relu", ["x"], []), node("Relu", ["x"], ["y"])])))
    assert found.reason == "the node has 0 outputs; Relu has at least 1"


def test_operators_that_onnx_does_not_define_are_not_checked() -> None:
    unknown = node("Relu", ["x", "x"], ["y"])
    unknown.domain = "own"
    assert len(load_ir(model(graph([unknown]))).graph) == 1
    assert len(load_ir(model(graph([node("Foo", [], ["y"])]))).graph) == 1
    assert len(load_ir(model(graph([node("Relu", ["x"], ["y"])]), opset=1000)).graph) == 1


@pytest.mark.parametrize("opset", [0, -(2**63), 2**40])
def test_versions_that_do_not_exist(opset: int) -> None:
    assert "does not exist" in refused(model(graph([node("Relu", ["x"], ["y"])]), opset=opset)).reason


def body(inputs: int, outputs: int) -> onnx.GraphProto:
    names = [f"i{index}" for index in range(inputs)]
    return graph([node("Identity", ["x"], ["o"])], names, ["o"] * outputs)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node("If", ["x"], ["y"], then_branch=body(0, 1), else_branch=body(0, 2)), "else_branch has 2 outputs"),
        (node("If", ["x"], ["y"], then_branch=body(1, 1), else_branch=body(0, 1)), "then_branch must not have inputs"),
        (node("Loop", ["", "", "x"], ["y"], body=body(2, 2)), "the body has 2 inputs"),
        (node("Loop", ["", "", "x"], ["y"], body=body(3, 1)), "the body has 1 outputs"),
        (node("Scan", ["x"], ["y"], body=body(1, 1)), "attribute 'num_scan_inputs' is missing"),
    ],
)
def test_bodies_are_as_their_nodes_ask_for(made: onnx.NodeProto, reason: str) -> None:
    assert reason in refused(model(graph([made]))).reason


def doubling(levels: int) -> onnx.ModelProto:
    """Return functions of which each calls the one before it twice."""
    functions = [function("f0", [node("Relu", ["a"], ["b"])])]
    for level in range(1, levels):
        calls = [call(f"f{level - 1}", ["a"], ["t"]), call(f"f{level - 1}", ["t"], ["b"])]
        functions.append(function(f"f{level}", calls))
    return model(graph([call(f"f{levels - 1}", ["x"], ["y"])]), functions=functions)


def test_functions_must_not_expand_without_bound() -> None:
    assert len(load_ir(doubling(5)).functions) == 5
    for levels in (20, 60):
        assert refused(doubling(levels)).code == "expansion"


def test_text_must_be_utf8() -> None:
    made = model(graph([node("Relu", ["x"], ["y"])]))
    made.metadata_props.add(key="marker", value="v")
    made.graph.value_info.append(value("dimmed"))
    made.graph.node[0].attribute.append(onnx.AttributeProto(name="noted", type=2, i=1, doc_string="told"))
    made.graph.node[0].attribute.append(
        onnx.AttributeProto(name="keys", type=4, t=onnx.TensorProto(name="titled", data_type=FLOAT))
    )
    made.graph.quantization_annotation.add(tensor_name="annotated")
    made.configuration.add(name="configured", device=["placed"], num_devices=1)
    for text in (b"marker", b"dimmed", b"told", b"titled", b"annotated", b"configured", b"placed"):
        data = made.SerializeToString().replace(text, b"\xff" + text[1:])
        with pytest.raises(ConversionError, match="is not UTF-8"):
            to_netdef(data)


def test_declared_element_types() -> None:
    made = model(graph([node("Relu", ["x"], ["y"])]))
    made.graph.input.append(value("v", 99))
    assert refused(made).reason == "value 'v' has unknown element type 99"
    made.graph.input[-1].CopyFrom(value("v", 0))
    assert refused(made).reason == "input 'v' has no element type"


def test_declared_ranks() -> None:
    """NumPy has arrays of 64 dims at most."""
    made = model(graph([node("Relu", ["x"], ["y"])]))
    made.graph.input.append(value("v", FLOAT))
    for _ in range(33 - len(made.graph.input[-1].type.tensor_type.shape.dim)):
        made.graph.input[-1].type.tensor_type.shape.dim.add(dim_value=1)
    assert refused(made).reason == "value 'v' has 33 dims; at most 32 are supported"


def test_what_onnx_ir_does_not_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: onnx.ModelProto) -> None:
        raise ValueError("99 is not a valid DataType")

    monkeypatch.setattr("onnx_ir.from_proto", fail)
    found = refused(model(graph([node("Relu", ["x"], ["y"])])))
    assert found.code == "malformed-model"
    assert found.reason.startswith("the model cannot be read: ValueError: 99 is not a valid DataType")


def test_values_in_two_fields() -> None:
    made = model(graph([node("Relu", ["x"], ["y"])]))
    made.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT64, dims=[1], int64_data=[1], int32_data=[1])
    assert refused(made).reason == "initializer 'w' has values in int64_data and int32_data"


def test_pipes_and_devices_are_not_read(tmp_path: Any) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.onnx")
    for path, reason in ((tmp_path / "pipe.onnx", "not a regular"), ("/dev/zero", "not a regular"), ("no", "No such")):
        with pytest.raises(NetFormatError, match=f"cannot be read: .*{reason} file"):
            to_netdef(path)
    deep = tmp_path / "deep.json"
    deep.write_text('{"graph":' * 3000)
    with pytest.raises(NetFormatError, match="not an ONNX model"):
        to_netdef(deep)
