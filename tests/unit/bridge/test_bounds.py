"""Bounds: their values, how they are raised, and what each of them refuses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper  # noqa: TID251 - malformed models, which onnx_ir does not build
from support.paths import ROOT

from caffe2_backend import to_netdef, validate
from caffe2_backend.admission.load import load_ir
from caffe2_bridge import BridgeError, Limits, NetFormatError, bounds, limits, load
from caffe2_bridge.bounds import VARIABLE, current_limits, limits_of_processes, parse_limits
from caffe2_bridge.diagnostics import BuildError, ConversionError, OptionError
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.netdef.construct import make_argument, make_operator
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef
from caffe2_frontend import to_onnx


def test_limits_hold_in_a_block() -> None:
    assert current_limits() == Limits()
    with limits(constant_bytes=5):
        with limits(iterations=7) as inner:
            assert inner == current_limits() == Limits(constant_bytes=5, iterations=7)
        assert current_limits() == Limits(constant_bytes=5)
    assert current_limits() == Limits()


def test_limits_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "constant_bytes=2k, iterations=3")
    assert current_limits() == Limits(constant_bytes=2048, iterations=3)
    with limits_of_processes("iterations=4"):
        assert current_limits() == Limits(constant_bytes=2048, iterations=4)
        assert os.environ[VARIABLE] == "constant_bytes=2k, iterations=3,iterations=4"
    assert current_limits().iterations == 3


def test_text_of_limits() -> None:
    assert parse_limits("constant_bytes=4g,text_bytes=1K,,iterations=12") == {
        "constant_bytes": 4 << 30, "text_bytes": 1024, "iterations": 12,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["constant_bytes", "constant_bytes=", "iterations=-1", "other=1", "iterations=1.5"])
def test_text_that_is_not_of_limits(text: str) -> None:
    with pytest.raises(OptionError):
        parse_limits(text)


def test_limits_must_be_integers() -> None:
    with pytest.raises(OptionError, match="must be an integer of at least 0"), limits(iterations=-1):
        pass
    with pytest.raises(OptionError, match="is not a limit"), limits(bytes=1):
        pass


def _model(*nodes: onnx.NodeProto, **lists: object) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], **lists)


def _padding() -> NetDef:
    op = OperatorDef(type="GatherPadding", input=["x", "n"], output=["y"])
    op.arg.add(name="padding_width", i=1 << 30)
    return NetDef(name="g", op=[op], external_input=["x", "n"], external_output=["y"])


def _sparse() -> onnx.ModelProto:
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [7])
    model = _model(helper.make_node("Add", ["x", "w"], ["y"]))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 20]))
    return model


def _functions(levels: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets)]
    for level in range(1, levels):
        calls = [helper.make_node(f"f{level - 1}", [a], [b], domain="f") for a, b in (("a", "c"), ("c", "b"))]
        functions.append(helper.make_function("f", f"f{level}", ["a"], ["b"], calls, opsets))
    model = _model(helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="f"), functions=functions)
    model.opset_import.append(helper.make_opsetid("f", 1))
    return model


def test_a_constant_of_a_converter_is_bounded() -> None:
    with pytest.raises(ConversionError) as raised:
        to_onnx(_padding(), inputs={"x": ("float32", ["n", 2]), "n": ("int32", ["m"])})
    (found,) = raised.value.errors
    assert found.code == "large-constant"
    assert "--limit constant_bytes=8589934592" in found.hint


def test_the_bound_of_a_sparse_tensor() -> None:
    load_ir(_sparse())
    with limits(constant_bytes=1 << 20), pytest.raises(ConversionError, match="constant_bytes=4194304"):
        load_ir(_sparse())


def test_the_bound_of_functions() -> None:
    with pytest.raises(ConversionError, match=r"49,151 nodes.*--limit function_nodes=49151"):
        to_netdef(_functions(15))
    with limits(function_nodes=50_000):
        load_ir(_functions(15))


def test_the_bound_of_plans() -> None:
    nets = [NetDef(name=name, op=[OperatorDef(type="Relu", input=["x"], output=["x"])] * 40) for name in ("a", "b")]
    plan = PlanDef(name="p", network=nets)
    plan.execution_step.append(ExecutionStep(name="s", network=["a"] * 30))
    assert len(plan_net(plan).op) == 1200
    with limits(plan_operators=100):
        assert len(plan_net(plan).op) == 1200  # no more than 20 times as many as were written
        plan.execution_step[0].network.extend(["b"] * 11)
        with pytest.raises(ConversionError, match=r"1,640 operators; 1,600 .*--limit plan_operators=1640"):
            plan_net(plan)


def test_plans_that_nest_too_deeply(tmp_path: Path) -> None:
    net = NetDef(name="a", op=[OperatorDef(type="Relu", input=["x"], output=["x"])])
    plan = PlanDef(name="p", network=[net])
    plan.execution_step.append(ExecutionStep(name="s", network=["a"] * 60, should_stop_blob="stop"))
    with pytest.raises(ConversionError, match="nest deeper than 30 bodies"):
        plan_net(plan)
    (tmp_path / "plan.pb").write_bytes(plan.SerializeToString())
    with pytest.raises(NetFormatError, match="nest deeper than 30 bodies"):
        load(tmp_path / "plan.pb")


def test_the_bound_of_text(tmp_path: Path) -> None:
    path = tmp_path / "predict_net.pbtxt"
    path.write_text('name: "n" op { type: "Relu" input: "x" output: "y" }')
    assert load(path).predict_net.name == "n"
    with limits(text_bytes=20), pytest.raises(NetFormatError, match="--limit text_bytes=52"):
        load(path)


def test_the_bound_of_synthesized_inputs() -> None:
    model = _model(helper.make_node("Relu", ["x"], ["y"]))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 40
    with pytest.raises(BridgeError, match="--limit constant_bytes=8796093022208"):
        validate(model, runtimes=["onnxruntime-cpu", "onnx-reference"])


def test_the_documentation_lists_every_limit() -> None:
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", text, re.MULTILINE))
    constants = {name: value for name, value in vars(bounds).items() if name.startswith("MAX_")}
    expected = {name: default for name, default, _ in bounds.table()} | constants
    assert {name: int(number.replace(",", "")) for name, number in rows.items()} == expected
    for _, _, summary in bounds.table():
        assert summary in text


def _operator(kind: str, count: int, **args: object) -> NetDef:
    inputs = ["x", "a", "b"][:count]
    return NetDef(op=[make_operator(kind, inputs, ["y"], args)], external_input=inputs, external_output=["y"])


@pytest.mark.parametrize(
    ("net", "code"),
    [
        (_operator("MaxPoolGradient", 3, kernels=[1 << 30] * 2, strides=[1, 1]), "large-constant"),
        (_operator("ConvGradient", 3, kernels=[1 << 30] * 2), "unsupported"),
        (_operator("ATen", 1, operator="adaptive_avg_pool2d", output_size=[3, 1 << 30]), "unsupported"),
        (_operator("ATen", 1, operator="layer_norm", normalized_shape=[1 << 30]), "large-constant"),
        (_operator("ATen", 1, operator="layer_norm", normalized_shape=[-1]), "invalid-argument"),
    ],
)  # fmt: skip
def test_what_an_argument_asks_for_is_bounded(net: NetDef, code: str) -> None:
    dims = [2, 3, 7, 5] if len(net.external_input) == 1 else [None] * 4
    inputs = dict.fromkeys(net.external_input, ("float32", dims))
    with pytest.raises(ConversionError) as raised:
        to_onnx(net, inputs=inputs)
    assert [found.code for found in raised.value.errors] == [code]


def test_rows_of_padding_are_no_operands_of_their_own() -> None:
    model = to_onnx(_operator("AddPadding", 1, padding_width=1 << 30), inputs={"x": ("float32", ["n", 2])})
    assert max(len(node.input) for node in model.graph.node) < 4


def test_dims_that_no_array_has() -> None:
    assert bounds.is_possible_shape([0, 1 << 40])
    assert not bounds.is_possible_shape([0, 1 << 62, 4])
    assert not bounds.is_possible_shape([-1])
    assert not bounds.is_possible_shape([1] * 33)
    op = make_operator("GivenTensorFill", [], ["w"], {"shape": [0, 1 << 62, 4], "values": np.zeros(0, np.float32)})
    (found,) = read_init_net(NetDef(op=[op])).findings
    assert found.code == "bad-fill"


def test_integers_that_an_argument_does_not_hold() -> None:
    for value in (1 << 63, [0, 1 << 63]):
        with pytest.raises(BuildError, match="argument 'a' has an integer that 64 bits do not hold"):
            make_argument("a", value)
    with pytest.raises(BuildError, match="argument 'a' has text that UTF-8 cannot encode"):
        make_argument("a", "\ud800")


def test_no_dim_is_negative_where_there_are_no_rows() -> None:
    net = _operator("ViterbiPath", 2)
    model = to_onnx(net, inputs={"x": ("float32", [0, 3]), "a": ("float32", [3, 3])})
    dims = [dim.dim_value for info in model.graph.value_info for dim in info.type.tensor_type.shape.dim]
    assert min(dims, default=0) >= 0


def test_dims_beyond_64_bits() -> None:
    op = make_operator("MaxPool2DGradient", ["x", "a", "b"], ["y"], {"kernels": [3, 3], "strides": [(1 << 31) - 1, 2]})
    net = NetDef(op=[op], external_input=["x", "a", "b"], external_output=["y"])
    inputs = {name: ("float32", [1, 1, 6, 5]) for name in net.external_input}
    with pytest.raises(ConversionError) as raised:
        to_onnx(net, inputs=inputs)
    assert [found.code for found in raised.value.errors] == ["invalid-operands"]
