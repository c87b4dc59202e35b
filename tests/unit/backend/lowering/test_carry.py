from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper, parser

from caffe2_backend.importer import to_netdef
from caffe2_backend.onnx_backend import prepare, run_model, run_node, supports_device
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError, Model, NetFormatError, RunError, load, save
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

BRANCHES = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,3] x, bool c) => (float[N,3] y, float[N,3] z) <float[3] w = {1, 2, 3}> {
  t = Add(x, w)
  z = Erf(t)
  y = If(c) <
    then_branch = a () => (float[N,3] q) { q = Mul(t, w) },
    else_branch = b () => (float[N,3] r) { k = Constant<value_float = 2.0>() r = Sub(t, k) }>
}"""
X = np.array([[1, 2, 3], [-4, 5, -6]], np.float32)


def outputs(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    return OnnxSession(model.SerializeToString()).run_values(inputs)


@pytest.mark.parametrize("condition", [True, False])
def test_there_and_back_with_bodies_that_capture(condition: bool) -> None:
    model = parser.parse_model(BRANCHES)
    net = to_netdef(model, foreign="carry")
    inputs = {"x": X, "c": np.array(condition)}
    for ours, theirs in zip(outputs(to_onnx(net), **inputs), outputs(model, **inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_bodies_operands_stand_among_the_operators() -> None:
    net = to_netdef(parser.parse_model(BRANCHES), foreign="carry").predict_net
    branch = next(op for op in net.op if op.type == "If")
    assert branch.domain == "ai.onnx"
    assert list(branch.input) == ["c", "t", "w", "k"]
    assert [op.type for op in net.op if not op.domain] == ["Add", "Erf"]


def test_a_net_survives_being_saved(tmp_path: Path) -> None:
    model = parser.parse_model(BRANCHES)
    save(to_netdef(model, foreign="carry"), tmp_path)
    again = to_onnx(load(tmp_path))
    inputs = {"x": X, "c": np.zeros((), bool)}
    np.testing.assert_allclose(outputs(again, **inputs)[0], outputs(model, **inputs)[0])


POSITIONS = """<ir_version: 3, opset_import: ["": 21]>
g (bool c, float[1] w, int8[2] h, int8[2] x) => (int8[2] y, bool c, float[1] z) <float[1] w = {3}> {
  y = If(c) <
    then_branch = a () => (int8[2] q) { m = ReduceMin<keepdims = 0>(h) q = Clip(x, , m) },
    else_branch = b () => (int8[2] r) { n = ReduceMax<keepdims = 0>(h) r = Clip(x, n) }>
  z = Neg(w)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_inputs_by_position_are_those_of_the_graph_without_its_initializers(condition: bool) -> None:
    given = [np.array(condition), np.array([1, 2], np.int8), np.array([0, 5], np.int8)]
    y, c, z = prepare(parser.parse_model(POSITIONS)).run(given)
    np.testing.assert_array_equal(y, [0, 1] if condition else [2, 5])
    assert (c, z) == (condition, -3)


def test_a_renamed_operand_is_still_what_the_body_reads() -> None:
    loaded = to_netdef(parser.parse_model(BRANCHES), foreign="carry")
    net = NetDef.FromString(loaded.predict_net.SerializeToString())
    for op in net.op:
        for names in (op.input, op.output):
            names[:] = ["renamed" if name == "t" else name for name in names]
    inputs = {"x": X, "c": np.ones((), bool)}
    expected = outputs(parser.parse_model(BRANCHES), **inputs)
    np.testing.assert_allclose(outputs(to_onnx(Model(net, loaded.init)), **inputs)[0], expected[0])


def attributes() -> list[ir.Attr]:
    tensor = ir.Tensor(np.arange(3, dtype=np.uint32), name="u")
    return [
        ir.AttrInt64("an_int", -5), ir.AttrFloat32("a_float", 0.5), ir.AttrString("text", "é"), ir.AttrString("no", ""),
        ir.AttrInt64s("ints", [1, 2]), ir.AttrFloat32s("floats", [1.0, 2.5]), ir.AttrStrings("texts", ["a", ""]),
        ir.AttrInt64s("no_ints", []), ir.AttrFloat32s("no_floats", []), ir.AttrStrings("no_texts", []),
        ir.AttrTensor("tensor", tensor), ir.AttrTensors("tensors", [tensor, tensor]),
        ir.AttrTypeProto("kind", ir.TypeAndShape(ir.TensorType(ir.DataType.INT8), ir.Shape([2, "N"]))),
    ]  # fmt: skip


def test_every_kind_of_attribute_travels() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    node = ir.Node("my.domain", "Mine", [None, x, None], attributes(), num_outputs=2)
    node.outputs[0].name, node.outputs[1].name = "", "y"
    graph = ir.Graph([x], [node.outputs[1]], nodes=[node], name="g", opset_imports={"": 21, "my.domain": 3})
    model = ir.to_proto(ir.Model(graph, ir_version=10))
    again = to_onnx(to_netdef(model, foreign="carry"))
    assert [(i.domain, i.version) for i in again.opset_import] == [("", 21), ("my.domain", 3)]
    (back,) = again.graph.node
    assert (back.domain, back.op_type, list(back.input), list(back.output)) == (
        "my.domain",
        "Mine",
        ["", "x"],
        ["", "y"],
    )
    before = {attr.name: attr.SerializeToString() for attr in model.graph.node[0].attribute}
    assert {attr.name: attr.SerializeToString() for attr in back.attribute} == before


@pytest.mark.parametrize("dtype", ["bfloat16", "uint32", "float8e4m3fn", "int4", "double", "complex64"])
def test_initializers_of_every_type_travel(dtype: str) -> None:
    array = np.array([0, 1, 2, 3]).astype(ir.DataType[dtype.upper()].numpy())
    model = onnx.ModelProto(ir_version=10, opset_import=[onnx.OperatorSetIdProto(version=21)])
    model.graph.name = "g"
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    model.graph.output.append(onnx.ValueInfoProto(name="w", type=_kind(dtype, 4)))
    net = to_netdef(model, foreign="carry")
    again = ir.from_proto(to_onnx(net)).graph
    source = again.outputs[0].producer()
    value = again.outputs[0] if source is None else source.inputs[0] if source.inputs else source
    tensor = value.attributes["value"].as_tensor() if isinstance(value, ir.Node) else value.const_value  # type: ignore[union-attr]
    assert tensor is not None
    assert tensor.numpy().tobytes() == array.tobytes()


def _kind(dtype: str, *dims: int) -> onnx.TypeProto:
    value = ir.Value(name="v", type=ir.TensorType(ir.DataType[dtype.upper()]), shape=ir.Shape(dims))
    return ir.serde.serialize_value(value).type


def test_functions_are_inlined() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.twice(x) }
        <opset_import: ["": 21], domain: "local"> twice (a) => (b) { b = Add(a, a) }""")
    net = to_netdef(model).predict_net
    assert [op.type for op in net.op] == ["Add"]


def test_all_findings_come_at_once_those_of_bodies_too() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[5,5] x, bool c, seq(float[2]) s) => (float[5,5] y, int64 n) {
          n = SequenceLength(s)
          y = If(c) <then_branch = a () => (float[5,5] q) { m = Det(x) q = Add(x, m) },
                     else_branch = b () => (float[5,5] r) { r = Identity(x) }> }""")
    with pytest.raises(ConversionError) as caught:
        to_netdef(model)
    places = [str(finding.location) for finding in caught.value.findings]
    assert places[0] == "g[0] SequenceLength"
    assert "g[1] If > then_branch[0] Det" in places


def test_the_model_given_is_not_changed() -> None:
    model = parser.parse_model(BRANCHES)
    before = model.SerializeToString()
    to_netdef(model, foreign="carry")
    assert model.SerializeToString() == before
    in_memory = ir.from_proto(model)
    before = ir.to_proto(in_memory).SerializeToString()
    to_netdef(in_memory, foreign="carry")
    assert ir.to_proto(in_memory).SerializeToString() == before


def external(tmp_path: Path, location: str) -> Path:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }""")
    weight = model.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(np.array([1, 2, 3, 4], np.float32).tobytes())
    del weight.float_data[:]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read_from_beside_the_model(tmp_path: Path) -> None:
    model = to_netdef(external(tmp_path, "w.bin"))
    np.testing.assert_array_equal(model.params["w"], [1, 2, 3, 4])


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "absent.bin"])
def test_external_data_elsewhere_is_a_finding(tmp_path: Path, location: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ConversionError, match="w"):
        to_netdef(external(inner, location))


def test_older_opsets_are_converted() -> None:
    model = parser.parse_model("""<ir_version: 6, opset_import: ["": 11]>
        g (float[2,3] x) => (float[2] y) { y = ReduceSum<axes = [1], keepdims = 0>(x) }""")
    np.testing.assert_allclose(run_model(model, [X])[0], X.sum(1))


def test_an_old_resize_keeps_its_meaning() -> None:
    model = parser.parse_model("""<ir_version: 5, opset_import: ["": 10]>
        g (float[1,1,2,3] x) => (float[1,1,3,5] y) <float[4] s = {1.0, 1.0, 1.5, 1.7}> {
          y = Resize<mode = "nearest">(x, s) }""")
    x = X.reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(run_model(model, [x])[0], outputs(model, x=x)[0])


def test_what_is_no_model() -> None:
    with pytest.raises(NetFormatError):
        to_netdef(b"\xff\xff")
    with pytest.raises(NetFormatError):
        to_netdef(onnx.ModelProto())
    with pytest.raises(NetFormatError):
        to_netdef(5)  # type: ignore[arg-type] # what a user may give
    with pytest.raises(OptionError):
        to_netdef(parser.parse_model(BRANCHES), foreign="perhaps")  # type: ignore[arg-type] # the same


def test_the_backend_interface() -> None:
    assert supports_device("CPU")
    assert not supports_device("TPU")
    rep = prepare(parser.parse_model(BRANCHES))
    result = rep.run([X, np.ones((), bool)])
    np.testing.assert_allclose(result.y, np.add(X, [1, 2, 3]) * [1, 2, 3])  # type: ignore[attr-defined] # by name
    with pytest.raises(RunError):
        rep.run([X])
    node = onnx.NodeProto(op_type="Add", input=["a", "b"], output=["c"])
    np.testing.assert_allclose(run_node(node, [X, X])[0], 2 * X)


def test_an_attribute_that_is_not_text() -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (string[N] x) => (bool[N] y) {y = RegexFullMatch<pattern = "a">(x)}'
    )
    model.graph.node[0].attribute[0].s = b"\xff"
    (op,) = to_netdef(model, foreign="carry").predict_net.op
    assert op.arg[0].s == b"\xff"


@pytest.mark.parametrize(
    "op_type",
    ["Add", "Constant", "Expand", "GRU", "If", "LSTM", "Loop", "RNN", "Scan", "Shape", "Sigmoid", "Transpose"],
)
@pytest.mark.parametrize("given", ["(x)", "<then_branch = 1, body = 1, to = 1>(x)", "()"])
def test_operators_of_other_domains_are_not_taken_for_those_of_onnx(op_type: str, given: str) -> None:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
        g (float[N,3] x) => (float[A,B] y) <float[N,3] z, int64[A] s> {{
          s = my.domain.{op_type}{given}
          z = my.domain.{op_type}{given}
          t = Reshape(z, s)
          y = Log(t)
        }}""")
    again = to_onnx(to_netdef(model, foreign="carry"))
    kept = [node for node in again.graph.node if node.domain == "my.domain"]
    assert [node.op_type for node in kept] in ([op_type] * 2, [op_type])  # equal nodes may be one
    assert all(list(node.input) == (["x"] if "x" in given else []) for node in kept)
    (result,) = again.graph.output
    assert not any(dim.dim_value for dim in result.type.tensor_type.shape.dim)


def test_sparse_inputs_without_a_shape_are_refused_where_onnx_needs_one() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x, float[2] like) => (float[2] y) { y = CastLike(x, like) }""")
    model.graph.input[1].type.sparse_tensor_type.elem_type = onnx.TensorProto.FLOAT
    net = to_netdef(model)
    with pytest.raises(ConversionError, match="the rank of input 'like' is unknown"):
        to_onnx(net)
    assert [value.name for value in to_onnx(net, inputs={"like": ("float32", [2])}).graph.input] == ["x", "like"]
