"""Operators that came from Caffe2 come back as themselves, and only where the ONNX model still says the same."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnx.compose
import onnx.version_converter
import pytest
from onnx import helper, numpy_helper  # noqa: TID251 - edits of protobufs, as users make them
from support.builder.random_cells import draw
from support.exports import specs_of

from caffe2_backend import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import Model
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.interop.metadata.origin import ORIGIN_KEY, PART_KEY

Array = np.ndarray[Any, Any]
FLOATS: Final = np.random.default_rng(7).standard_normal((5, 6)).astype(np.float32)


def fill(init: NetDef, name: str, array: Array) -> None:
    kind = "GivenTensorFill" if array.dtype == np.float32 else "GivenTensorInt64Fill"
    init.op.append(make_operator(kind, [], [name], {"shape": list(array.shape), "values": array.reshape(-1)}))


def small_net() -> tuple[NetDef, NetDef]:
    net = NetDef(name="small", external_input=["x", "w", "b", "shape"], external_output=["y", "places", "rows"])
    net.op.extend(
        [
            make_operator("FC", ["x", "w", "b"], ["fc"], {}, engine="PACKED", op_name="first"),
            make_operator(
                "Relu", ["fc"], ["r"], {"cudnn_exhaustive_search": 0}, device_option=DeviceOption(random_seed=3)
            ),
            make_operator("Scale", ["r"], ["s"], {"scale": 2.5}),
            make_operator("Sub", ["s", "fc"], ["d"], {}),
            make_operator("TopK", ["d"], ["v", "places"], {"k": 2}),
            make_operator("Sigmoid", ["v"], ["y"], {}),
            make_operator("Reshape", ["d", "shape"], ["rows", "old"], {}),
        ]
    )
    init = NetDef(name="init")
    generator = np.random.default_rng(3)
    fill(init, "w", generator.standard_normal((4, 6)).astype(np.float32))
    fill(init, "b", generator.standard_normal(4).astype(np.float32))
    fill(init, "shape", np.array([-1, 2]))
    return net, init


ALL: Final = Counter(op.type for op in small_net()[0].op)


@pytest.fixture
def model() -> onnx.ModelProto:
    net, init = small_net()
    return to_onnx(net, init, inputs={"x": ("float32", [None, 6])})


def node(model: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == op_type)


def came_back(model: onnx.ModelProto, **inputs: Array) -> Counter[str]:
    """Return the types of the net that a model becomes; that net computes what the model does."""
    net = to_netdef(model, foreign="carry")
    feed = inputs or {"x": FLOATS}
    expected = OnnxSession(model.SerializeToString()).run_values(feed)
    again = to_onnx(net, outputs=net.outputs)
    for ours, theirs in zip(OnnxSession(again.SerializeToString()).run_values(feed), expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    return Counter(op.type for op in net.predict_net.op if not op.domain)


def test_definitions_come_back_whole(model: onnx.ModelProto) -> None:
    net, _ = small_net()
    for foreign in ("error", "carry"):
        returned = to_netdef(model, foreign=foreign)  # type: ignore[arg-type] # a literal
        assert list(returned.predict_net.op) == list(net.op)
        assert returned.predict_net.external_input[:4] == ["x", "b", "w", "shape"] or set(
            returned.predict_net.external_input
        ) == {"x", "w", "b", "shape"}
        assert list(returned.predict_net.external_output) == list(net.external_output)
    assert came_back(model) == ALL


def test_one_home_for_each_operator(model: onnx.ModelProto) -> None:
    homes = [prop for node in model.graph.node for prop in node.metadata_props if prop.key == ORIGIN_KEY]
    assert len(homes) == len(ALL)


def change_attribute(model: onnx.ModelProto) -> None:
    node(model, "Gemm").attribute.append(helper.make_attribute("alpha", 2.0))


def change_constant(model: onnx.ModelProto) -> None:
    name = node(model, "Mul").input[1]
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.float32(3), name))


def feed_constant(model: onnx.ModelProto) -> None:
    """Make the constant an input with a default: another value may be given."""
    name = node(model, "Mul").input[1]
    model.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []))


def change_type(model: onnx.ModelProto) -> None:
    node(model, "Relu").op_type = "Tanh"


def change_domain(model: onnx.ModelProto) -> None:
    node(model, "Relu").domain = "com.microsoft"
    node(model, "Relu").op_type = "QuickGelu"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def swap_operands(model: onnx.ModelProto) -> None:
    sub = node(model, "Sub")
    sub.input[0], sub.input[1] = sub.input[1], sub.input[0]


def one_operand_twice(model: onnx.ModelProto) -> None:
    sub = node(model, "Sub")
    sub.input[1] = sub.input[0]


def delete_node(model: onnx.ModelProto) -> None:
    relu = node(model, "Relu")
    for other in model.graph.node:
        other.input[:] = [relu.input[0] if name == relu.output[0] else name for name in other.input]
    model.graph.node.remove(relu)


def change_k(model: onnx.ModelProto) -> None:
    name = node(model, "TopK").input[1]
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(np.array([1]), name))


def swap_outputs(model: onnx.ModelProto) -> None:
    """Change TopK, whose second output is another node's, of the same part."""
    top = node(model, "TopK")
    marked = {prop.key for prop in top.metadata_props}
    assert ORIGIN_KEY in marked
    top.attribute.append(helper.make_attribute("largest", 0))


EDITS: Final[dict[Callable[[onnx.ModelProto], None], set[str]]] = {
    change_attribute: {"FC"},
    change_constant: {"Scale"},
    feed_constant: {"Scale"},
    change_type: {"Relu"},
    change_domain: {"Relu", "Scale", "Sub", "TopK", "Sigmoid", "Reshape"},  # ONNX cannot say what its node gives
    swap_operands: {"Sub"},
    one_operand_twice: {"Sub"},
    delete_node: {"Relu"},
    change_k: {"TopK"},
    swap_outputs: {"TopK"},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_lowered_and_the_rest_restored(
    model: onnx.ModelProto, edit: Callable[[onnx.ModelProto], None]
) -> None:
    edit(model)
    came_back(model)
    definitions = [op for op in small_net()[0].op if op.type not in EDITS[edit]]
    returned = {op.SerializeToString() for op in map(nameless, to_netdef(model, foreign="carry").predict_net.op)}
    for op in definitions:
        assert nameless(op).SerializeToString() in returned, op.type
    for op in small_net()[0].op:
        if op.type in EDITS[edit] and op.ByteSize() > len(op.type) + 40:  # has arguments or a name that tell it
            assert op.name == "" or nameless(op).SerializeToString() not in returned


def nameless(op: Any) -> Any:
    copy = type(op)()
    copy.CopyFrom(op)
    copy.ClearField("input")
    copy.ClearField("output")
    return copy


def scales(model: onnx.ModelProto) -> list[str]:
    return [op.type for op in to_netdef(model, foreign="carry").predict_net.op]


def test_an_edited_operator_is_not_restored(model: onnx.ModelProto) -> None:
    change_constant(model)
    types = scales(model)
    assert "Scale" not in types
    assert "Mul" in types


def test_an_inserted_node_stands_between_restored_ones(model: onnx.ModelProto) -> None:
    sub = node(model, "Sub")
    place = list(model.graph.node).index(sub)
    model.graph.node.insert(place, helper.make_node("Neg", [sub.input[1]], ["turned"]))
    node(model, "Sub").input[1] = "turned"
    assert came_back(model) == ALL + Counter(["Negative"])


def test_names_of_values_play_no_part(model: onnx.ModelProto) -> None:
    renamed = onnx.compose.add_prefix(model, "other/")
    assert came_back(renamed, **{"other/x": FLOATS}) == ALL
    net = to_netdef(renamed).predict_net
    assert list(net.external_output) == ["other/y", "other/places", "other/rows"]
    assert list(net.op[0].input) == ["other/x", "other/w", "other/b"]


def test_exchanged_operands() -> None:
    """Nodes of a gradient of global pooling broadcast X and Y either way; Caffe2's operator returns what is as X."""
    pooled = make_operator("MaxPoolGradient", ["X", "Y", "dY"], ["dX"], {"global_pooling": 1, "order": "NHWC"})
    net = NetDef(op=[pooled], external_input=["X", "Y", "dY"], external_output=["dX"])
    exported = to_onnx(net, inputs={name: ("float32", [None] * 4) for name in net.external_input})
    assert scales(exported) == ["MaxPoolGradient"]
    equal = node(exported, "Equal")
    equal.input[:] = reversed(equal.input)
    assert "MaxPoolGradient" not in scales(exported)


def test_other_weights_go_along(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 2, "w"))
    assert came_back(model) == ALL


def test_a_fixed_batch(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 5
    assert came_back(model) == ALL


def test_constants_as_nodes(model: onnx.ModelProto) -> None:
    for tensor in list(model.graph.initializer):
        model.graph.initializer.remove(tensor)
        model.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
    came_back(model)


def test_a_model_that_says_wrong_types(model: onnx.ModelProto) -> None:
    """Check that what the export knew of a value is compared with what follows from the nodes."""
    first = node(model, "Gemm")
    place = list(model.graph.node).index(first)
    model.graph.node.insert(place, helper.make_node("Concat", ["x", "x"], ["twice"], axis=0))
    node(model, "Gemm").input[0] = "twice"
    model.graph.value_info.append(helper.make_tensor_value_info("twice", onnx.TensorProto.FLOAT, ["N", 6]))
    came_back(model)


def test_two_models_in_one(model: onnx.ModelProto) -> None:
    second = onnx.compose.add_prefix(model, "again/")
    merged = onnx.compose.merge_models(model, second, io_map=[], name="both")
    found = came_back(merged, x=FLOATS, **{"again/x": FLOATS + 1})
    assert found["Relu"] == found["FC"] == found["Scale"] == 2


def test_a_copied_node(model: onnx.ModelProto) -> None:
    copy = onnx.NodeProto()
    copy.CopyFrom(node(model, "Relu"))
    copy.name, copy.output[0], copy.input[0] = "copy", "positive", "x"
    model.graph.node.append(copy)
    model.graph.output.append(helper.make_tensor_value_info("positive", onnx.TensorProto.FLOAT, None))
    came_back(model)


@pytest.mark.parametrize("version", [18, 21])
def test_another_opset(version: int) -> None:
    net, init = small_net()
    model = to_onnx(net, init, inputs={"x": ("float32", [None, 6])}, opset=version)
    assert came_back(model) == ALL


def test_a_model_converted_since(model: onnx.ModelProto) -> None:
    came_back(onnx.version_converter.convert_version(model, 17))


def test_a_model_optimized_since(model: onnx.ModelProto, tmp_path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    came_back(onnx.load(tmp_path / "optimized.onnx"))  # noqa: TID251 - a file of the tests themselves


def origin(node: onnx.NodeProto) -> onnx.StringStringEntryProto:
    return next(prop for prop in node.metadata_props if prop.key == ORIGIN_KEY)


GARBAGE: Final = [
    "",
    "x",
    "0 {}",
    "0 []",
    '0 {"ops":["////"],"in":[],"out":[]}',
    '0 {"ops":[],"in":[],"out":[]}',
    '0 {"ops":"a","in":{},"out":3}',
    "0 " + "[" * 100_000,
    '0 {"ops":["IgRSZWx1"],"in":[[99,[1]]],"out":[[[1,null]]]}',
    '0 {"ops":["IgRSZWx1"],"in":[{"same":-1}],"out":[[[1,null],-1,9]],"roots":1000000000,"size":-1}',
    '0 {"ops":["IgRSZWx1"],"in":[],"out":[[[1,null],0,9]],"cuts":[[1,999]],"passed":[7]}',
]


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage(model: onnx.ModelProto, text: str) -> None:
    for each in model.graph.node:
        for prop in each.metadata_props:
            if prop.key in (ORIGIN_KEY, PART_KEY):
                prop.value = text
    came_back(model)
    assert "Scale" not in scales(model)


def test_the_definition_of_another_operator(model: onnx.ModelProto) -> None:
    """Check that metadata put on other nodes, or whose definition was changed, are not believed."""
    relu, sigmoid = origin(node(model, "Relu")), origin(node(model, "Sigmoid"))
    relu.value, sigmoid.value = sigmoid.value, relu.value
    came_back(model)
    home = origin(node(model, "Mul"))
    digest, _, text = home.value.partition(" ")
    other = make_operator("Scale", ["r"], ["s"], {"scale": 4.0})
    data = json.loads(text)
    data["ops"] = [b64encode(other.SerializeToString()).decode()]
    home.value = f"{digest} {json.dumps(data, separators=(',', ':'))}"
    came_back(model)
    assert "Scale" not in scales(model)


def test_metadata_says_nothing_of_bodies_that_others_wrote(model: onnx.ModelProto) -> None:
    """Put the model in a branch: its nodes are no operators of the net then, and are lowered one by one."""
    body = onnx.GraphProto(name="body", node=model.graph.node, initializer=model.graph.initializer)
    body.output.extend(onnx.ValueInfoProto(name=value.name, type=value.type) for value in model.graph.output)
    other = onnx.GraphProto(name="other")
    other.node.extend(
        [
            helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros((1, 2), np.float32))),
            helper.make_node("Constant", [], ["nowhere"], value=numpy_helper.from_array(np.zeros((1, 2), np.int64))),
            helper.make_node("Identity", ["none"], ["no_rows"]),
        ]
    )
    kinds = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
    for name, kind in zip(["none", "nowhere", "no_rows"], kinds, strict=True):
        other.output.append(helper.make_tensor_value_info(name, kind, [None, None]))
    graph = onnx.GraphProto(name="outer", input=model.graph.input)
    graph.input.append(helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []))
    graph.node.append(helper.make_node("If", ["go"], ["one", "two", "three"], then_branch=body, else_branch=other))
    for name, kind in zip(["one", "two", "three"], kinds, strict=True):
        graph.output.append(helper.make_tensor_value_info(name, kind, [None, None]))
    outer = onnx.ModelProto(ir_version=model.ir_version, graph=graph, opset_import=model.opset_import)
    came_back(outer, x=FLOATS, go=np.array(True))  # noqa: FBT003 - a value, no flag


def test_models_stay_as_they_are(model: onnx.ModelProto) -> None:
    before = model.SerializeToString()
    to_netdef(model)
    assert model.SerializeToString() == before


def test_a_net_that_travelled_twice(model: onnx.ModelProto) -> None:
    first = to_netdef(model)
    second = to_netdef(to_onnx(first))
    assert list(second.predict_net.op) == list(first.predict_net.op)
    assert isinstance(second, Model)


def test_nodes_stay_where_a_gradient_operator_reads_their_results() -> None:
    cell = draw(5)
    outputs = ["loss", *cell.gradients.values()]
    exported = to_onnx(cell.net.proto, inputs=specs_of(cell.inputs, sizes=False), outputs=outputs)
    returned = came_back(exported, **cell.inputs)
    assert not returned["RecurrentNetworkGradient"]
    assert returned["Tanh"]


def counting_loop() -> onnx.ModelProto:
    test = make_operator("LT", ["i", "n"], ["more"], {})
    body = [make_operator("Add", ["i", "one"], ["i"], {}), make_operator("Tanh", ["x"], ["x"], {})]
    nets = {"cond_net": NetDef(op=[test], external_output=["more"]), "loop_net": NetDef(op=body)}
    loop = make_operator("While", ["more", "i", "x", "n", "one"], ["i", "x", "more"], nets)
    net = NetDef(name="loop", op=[test, loop], external_output=["x", "i"])
    return to_onnx(net, inputs={"x": ("float32", [None]), **dict.fromkeys(("i", "n", "one"), ("int32", [1]))})


def test_the_first_test_of_a_loop_is_one_of_its_nodes() -> None:
    """It is the operator before the loop that computes it, once equal nodes are one."""
    exported = counting_loop()
    feeds = [{"i": start, "n": end, "one": 1} for start, end in ((0, 3), (5, 3))]
    feeds = [{name: np.array([value], np.int32) for name, value in feed.items()} | {"x": FLOATS[0]} for feed in feeds]
    for feed in feeds:
        assert came_back(exported, **feed)["While"]
    less = node(exported, "Less")
    less.input[:] = reversed(less.input)
    for feed in feeds:
        came_back(exported, **feed)


def test_blobs_of_a_branch_that_another_one_reads() -> None:
    """Read as gradients of branches do: the blobs have no value before the first one."""
    forward = NetDef(op=[make_operator("Tanh", ["x"], ["t"], {}), make_operator("Mul", ["t", "x"], ["y"], {})])
    backward = NetDef(op=[make_operator("Sub", ["t", "y"], ["g"], {})])
    net = NetDef(
        name="branches",
        op=[
            make_operator("Sigmoid", ["x"], ["y"], {}),
            make_operator("Abs", ["x"], ["g"], {}),
            make_operator("If", ["c", "x", "y"], ["y", "t"], {"then_net": forward}),
            make_operator("If", ["c", "t", "y"], ["g"], {"then_net": backward}),
        ],
        external_output=["y", "g"],
    )
    net.op[3].is_gradient_op = True
    exported = to_onnx(net, inputs={"x": ("float32", [None]), "c": ("bool", [1])})
    for branch in (True, False):
        assert came_back(exported, x=FLOATS[0], c=np.array([branch]))["If"] == 2
