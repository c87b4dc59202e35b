"""The start of an export: inputs and outputs spelled out, options checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import BridgeError, ConversionError, OptionError
from caffe2_bridge.model import Model
from caffe2_bridge.passes import PassOrderError, run_passes
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.analysis import ANALYSIS
from caffe2_frontend.options import DEFAULTS
from caffe2_frontend.passes.convert_to_ssa import ConvertToSsa
from caffe2_frontend.passes.lower_net import LowerNet
from caffe2_frontend.pipeline import EXPORT
from caffe2_frontend.prepare import prepare

X: dict[str, Any] = {"x": ("float32", ["N", 2])}


def names(values: Any) -> list[str]:
    return [value.name for value in values]


def test_a_model_has_an_output() -> None:
    relu = NetDef(op=[operator("Relu", ["x"], ["y"])], external_input=["x"])
    with pytest.raises(OptionError, match="outputs must not be empty"):
        to_onnx(relu, outputs=[])


def test_a_net_that_declares_nothing() -> None:
    net = NetDef(op=[operator("Relu", ["x"], ["a"]), operator("Tanh", ["a"], ["y"]), operator("Exp", ["a"], ["z"])])
    state = prepare(net, None, DEFAULTS)
    assert list(state.predict.external_input) == ["x"]
    assert state.outputs == (("y", "y"), ("z", "z"))
    model = to_onnx(net, inputs=X)
    assert (names(model.graph.input), names(model.graph.output)) == (["x"], ["y", "z"])


def test_the_net_is_not_changed() -> None:
    net = NetDef(op=[operator("Relu", ["x"], ["x"])], external_input=["x"], external_output=["x"])
    before = net.SerializeToString()
    to_onnx(net, inputs=X)
    assert net.SerializeToString() == before


def test_the_order_of_outputs_is_the_nets_or_the_callers() -> None:
    ops = [operator("Relu", ["x"], ["a"]), operator("Tanh", ["x"], ["b"]), operator("Exp", ["x"], ["c"])]
    net = NetDef(op=ops, external_input=["x"], external_output=["c", "a", "c"])
    assert names(to_onnx(net, inputs=X).graph.output) == ["c", "a"]
    assert names(to_onnx(net, inputs=X, outputs=["b", "x", "b"]).graph.output) == ["b", "x"]
    assert len(to_onnx(net, inputs=X, outputs=["b", "c"]).graph.node) == 2


def test_an_output_that_overwrites_an_input_gets_a_name() -> None:
    ops = [operator("Relu", ["x"], ["x"]), operator("Exp", ["x"], ["y"])]
    model = to_onnx(NetDef(op=ops, external_input=["x"], external_output=["x", "y"]), inputs=X)
    assert names(model.graph.input) == ["x"]
    assert names(model.graph.output) == ["x_1", "y"]


def test_an_input_that_is_an_output_and_a_weight_that_is_one() -> None:
    net = NetDef(op=[operator("Mul", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["w", "y"])
    model = to_onnx(net, fills({"w": np.ones(2, np.float32)}), inputs=X)
    assert names(model.graph.output) == ["w", "y"]
    onnx.checker.check_model(model, full_check=True)


def test_weights_that_only_a_body_reads() -> None:
    then, other = (NetDef(op=[operator("Mul", ["x", name], ["y"])]) for name in ("w", "v"))
    net = NetDef(
        op=[operator("If", ["c", "x"], ["y"], then_net=then, else_net=other)],
        external_input=["c", "x"],
        external_output=["y"],
    )
    model = to_onnx(net, fills({"w": np.full(2, 3.0), "v": np.full(2, -1.0)}), inputs=X)
    assert names(model.graph.input) == ["c", "x"]
    session = Session(model.SerializeToString())
    for condition, factor in ((True, 3), (False, -1)):
        results = session.run({"c": np.array([condition]), "x": np.array([[1, 2]], np.float32)})
        assert results["y"].tolist() == [[factor, 2 * factor]]


def test_operators_of_the_init_net_that_are_no_fills_are_converted() -> None:
    init = fills({"w": np.full(2, -3, np.float32)})
    init.op.append(operator("Abs", ["w"], ["v"]))
    net = NetDef(op=[operator("Mul", ["x", "v"], ["y"])], external_input=["x", "v"], external_output=["y"])
    model = to_onnx(net, init, inputs=X)
    assert names(model.graph.input) == ["x"]
    assert [node.op_type for node in model.graph.node] == ["Abs", "Mul"]
    model = to_onnx(net, init, inputs=X | {"v": ("float32", [2])})
    assert names(model.graph.input) == ["x", "v"]
    assert [node.op_type for node in model.graph.node] == ["Mul"]


def test_a_weight_that_is_described_is_an_input() -> None:
    net = NetDef(op=[operator("Mul", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["y"])
    model = to_onnx(net, fills({"w": np.ones(2, np.float32)}), inputs=X | {"w": ("float32", [2])})
    assert names(model.graph.input) == ["x", "w"]
    assert not model.graph.initializer


def test_bytes_and_models_are_nets_too() -> None:
    net = NetDef(op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    wanted = to_onnx(net, inputs=X)
    assert to_onnx(net.SerializeToString(), inputs=X) == wanted
    assert to_onnx(Model.of(net), inputs=X) == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"recurrent": "spiral"},
            "recurrent must be one of auto, fused, scan, loop, portable, gpu, unrolled, not 'spiral'",
        ),
        ({"opset": 0}, "opset must be from 1 to"),
        ({"inputs": {"nobody": ("float32", [1])}}, "no operator reads input 'nobody'"),
        ({"outputs": ["y", "nobody"]}, "no operator writes output 'nobody'"),
        ({"inputs": {"x": "float32"}}, "input 'x': expected"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], message: str) -> None:
    net = NetDef(op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    with pytest.raises(BridgeError, match=message) as raised:
        to_onnx(net, **options)
    assert not isinstance(raised.value, ConversionError)
    assert isinstance(raised.value, OptionError) or "expected" in message


def test_an_input_without_a_rank_that_nothing_uses() -> None:
    net = NetDef(op=[operator("Relu", ["x"], ["y"])], external_input=["x", "label"], external_output=["y"])
    assert names(to_onnx(net, inputs=X).graph.input) == ["x"]
    assert names(to_onnx(NetDef(external_input=["x"])).graph.input) == []


def test_the_order_of_the_passes_is_stated() -> None:
    held: set[str] = set()
    for step in EXPORT:
        assert step.requires <= held
        held |= step.ensures
    assert EXPORT[: len(ANALYSIS)] == ANALYSIS
    assert {"ssa", "inputs", "graph", "folded", "deduplicated", "pruned", "opset", "checked"} <= held
    with pytest.raises(PassOrderError, match="LowerNet requires inputs, ssa"):
        run_passes([LowerNet()], prepare(NetDef(), None, DEFAULTS))


def test_renaming_leaves_faults_for_the_lowering() -> None:
    ops = [
        operator("Relu", ["p"], ["a"]), operator("Relu", ["x"], ["a", "a"]), operator("Relu", ["a"], ["p"]),
        operator("RecurrentNetwork", ["p"], ["y"], step_net="op {"),
    ]  # fmt: skip
    net = NetDef(op=ops, external_input=["x"], external_output=["p"])
    renamed = ConvertToSsa()(prepare(net, None, DEFAULTS)).predict
    assert [list(op.input) for op in renamed.op] == [["p"], ["x"], ["a"], ["p"]]
    assert list(renamed.op[1].output) == ["a", "a"]
    assert list(renamed.op[0].output) == ["a_1"]
    assert net.op[0].output == ["a"]
