"""Converters that the user's own code registers.

Modules: registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import export

from caffe2_backend import Predictor, Workspace, to_netdef
from caffe2_bridge import ConversionError, Model
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, register_converter, supported_operators, to_onnx
from caffe2_frontend.ops.index import REGISTERED

INPUTS = {"x": ("float32", ["N", 3])}
X = np.array([[1, 2, -3]], np.float32)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def net_of(*op_types: str, **args: Any) -> NetDef:
    names = ["x", *(f"y{i}" for i in range(1, len(op_types))), "y"]
    ops = [operator(kind, [names[i]], [names[i + 1]], **args) for i, kind in enumerate(op_types)]
    return NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])


def register_scaled() -> None:
    @register_converter("ScaledShift")
    def scaled_shift(op: Any) -> Any:
        x = op.input(0)
        return op.emit("Add", op.emit("Mul", x, op.const(op.args.number("scale"), x)), op.const(1, x))


def test_operators_of_onnx() -> None:
    net = net_of("ScaledShift", "Relu", scale=2.0)
    assert [found.code for found in check(net, inputs=INPUTS).findings] == ["unknown-operator"]
    register_scaled()
    assert check(net_of("ScaledShift", scale=2.0), inputs=INPUTS).covered
    assert supported_operators()["registered"] == ("ScaledShift",)
    np.testing.assert_array_equal(Predictor(Model(net_of("ScaledShift", scale=2.0))).run({"x": X})["y"], 2 * X + 1)
    workspace = Workspace()
    workspace.feed("x", X)
    workspace.run_net_once(net_of("ScaledShift", scale=3.0))
    np.testing.assert_array_equal(workspace.fetch("y"), 3 * X + 1)


def test_arguments_that_are_not_read_are_reported() -> None:
    register_scaled()
    with pytest.raises(ConversionError, match="does not support argument 'gain'"):
        to_onnx(net_of("ScaledShift", scale=2.0, gain=1), inputs=INPUTS)


def test_a_node_of_another_domain() -> None:
    @register_converter("Clamp8")
    def clamp(op: Any) -> Any:
        x = op.input(0)
        return op.emit("Clamp8", x, domain="my.domain", dtype=op.dtype(x), shape=op.shape(x), limit=8)

    model = to_onnx(net_of("Clamp8", "Relu"), inputs=INPUTS)
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 20, "my.domain": 1}
    assert [op.type for op in to_netdef(model).predict_net.op] == ["Clamp8", "Relu"]
    for node in model.graph.node:  # without what the export wrote, the node is one that the import does not know
        del node.metadata_props[:]
    with pytest.raises(ConversionError, match=r"'my.domain::Clamp8' has no conversion"):
        to_netdef(model)
    carried = to_netdef(model, foreign="carry")
    assert [(op.domain, op.type) for op in carried.predict_net.op] == [("my.domain", "Clamp8"), ("", "Relu")]
    again = to_onnx(carried)
    assert [(node.domain, node.op_type) for node in again.graph.node] == [("my.domain", "Clamp8"), ("", "Relu")]
    assert again.graph.node[0].attribute == model.graph.node[0].attribute


def test_the_last_registration_of_a_type_counts() -> None:
    register_converter("Own")(lambda op: op.emit("Abs", op.input(0)))
    register_converter("Own")(lambda op: op.emit("Neg", op.input(0)))
    assert [node.op_type for node in export(operator("Own", ["x"], ["y"]), INPUTS).graph.node] == ["Neg"]


def test_types_of_this_project_cannot_be_registered() -> None:
    with pytest.raises(OptionError, match="Relu has a converter already"):
        register_converter("Own", "Relu")
    with pytest.raises(OptionError, match="name the operator types"):
        register_converter()
