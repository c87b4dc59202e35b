"""Operators that differ in names alone are converted once; the models are those of converting each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from support.nets import net, op

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.verification import VARIABLE
from caffe2_frontend import to_onnx
from caffe2_frontend.emit.shapes import reshape, size
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.stamp import Stamp, StampError, Stamps
from caffe2_frontend.ops import converters, uniform_operators
from caffe2_frontend.passes import lower_net


def exported(predict: NetDef, init: NetDef | None = None, **inputs: object) -> onnx.ModelProto:
    return to_onnx(predict, init, inputs={name: ("float32", shape) for name, shape in inputs.items()})


@pytest.fixture
def stamping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests verify stamps; here they are used."""
    monkeypatch.delenv(VARIABLE)


def repetitive() -> tuple[NetDef, NetDef]:
    """Return a net that repeats operators with equal and with other operands, arguments and shapes."""
    ops = [op("Relu", "x", "a0")]
    for i in range(3):
        ops += [
            op("FC", f"a{i} w{i % 2} b", f"f{i}"),
            op("Add", f"f{i} a{i}", f"s{i}"),
            op("Mul", f"s{i} s{i}", f"m{i}"),
            op("Mul", f"s{i} f{i}", f"n{i}"),
            op("Add", f"m{i} b", f"o{i}", broadcast=1),
            op("LeakyRelu", f"o{i}", f"l{i}", alpha=0.5 if i else 0.25),
            op("FC", f"v w{i % 2} b", f"g{i}"),
            op("GT", f"l{i} n{i}", f"t{i}"),
            op("Sigmoid", f"l{i}", f"a{i + 1}"),
        ]
    predict = net(*ops, inputs="x v w0 w1 b", outputs="a3 t0 t1 t2 g1 g2 n2")
    init = NetDef()
    for name, shape in (("w0", (4, 4)), ("w1", (4, 4)), ("b", (4,))):
        fill = init.op.add(type="GivenTensorFill", output=[name])
        fill.arg.add(name="shape", ints=shape)
        fill.arg.add(name="values", floats=np.arange(np.prod(shape)))
    return predict, init


def images() -> tuple[NetDef, NetDef]:
    """Return a net of residual blocks of convolutions and normalizations, each with weights of its own."""
    ops, init = [], NetDef()

    def fill(name: str, *shape: int) -> str:
        made = init.op.add(type="GivenTensorFill", output=[name])
        made.arg.add(name="shape", ints=shape)
        made.arg.add(name="values", floats=np.arange(1, 1 + np.prod(shape)))
        return name

    for i in range(3):
        weights = [fill(f"{kind}{i}", 2) for kind in ("scale", "bias", "mean", "var")]
        filters = fill(f"w{i}", 2, 2, 3, 3)
        ops += [
            op("Conv", f"x{i} {filters}", f"c{i}", kernel=3, pad=1, order="NCHW"),
            op("SpatialBN", " ".join([f"c{i}", *weights]), f"n{i}", is_test=1, order="NCHW"),
            op("Sum", f"n{i} x{i}", f"s{i}"),
            op("Clip", f"s{i}", f"x{i + 1}", min=0.0, max=float(i // 2)),
        ]
    predict = net(*ops, inputs="x0", outputs="x3")
    predict.external_input.extend(fill.output[0] for fill in init.op)
    return predict, init


def steps() -> tuple[NetDef, NetDef]:
    """Return steps of an LSTM, with integers as operands: lengths, an input; the timestep, a constant of the step."""
    ops = []
    for i in range(3):
        ops += [
            op("ConstantFill", "", f"t{i}", shape=[1], value=i, dtype=2),
            op("Sum", f"g h{i}", f"h{i}s"),
            op("Concat", f"h{i}s h{i}s h{i}s h{i}s", f"g{i} sizes{i}", axis=2),
            op("LSTMUnit", f"h{i} c{i} g{i} lengths t{i}", f"h{i + 1} c{i + 1}"),
            op("Split", f"h{i + 1}", f"p{i} q{i}", axis=2),
        ]
    return net(*ops, inputs="g h0 c0 lengths", outputs="h3 c3 p2 q2"), NetDef()


def copies() -> tuple[NetDef, NetDef]:
    """Return sums of a value and of its copy, and of two values, one after another."""
    ops = [op("Add", "x x", "s0")]
    for i in range(3):
        ops += [
            op("Copy", f"s{i}", f"c{i}"),
            op("Add", f"s{i} c{i}", f"d{i}"),
            op("Add", f"c{i} d{i}", f"e{i}"),
            op("Add", f"d{i} e{i}", f"s{i + 1}"),
        ]
    return net(*ops, inputs="x", outputs="s3 e2"), NetDef()


_STATE = ("float32", (1, None, 2))


@pytest.mark.parametrize(
    ("nets", "inputs"),
    [
        (repetitive(), {"x": ("float32", (None, 4)), "v": ("float32", (None, 2, 2))}),
        (copies(), {"x": ("float32", (None,))}),
        (images(), {"x0": ("float32", (None, 2, None, None))}),
        (steps(), {"g": _STATE, "h0": _STATE, "c0": _STATE, "lengths": ("int32", (None,))}),
    ],
    ids=["products", "copies", "images", "steps"],
)
def test_the_model_is_the_same(
    monkeypatch: pytest.MonkeyPatch, nets: tuple[NetDef, NetDef], inputs: Mapping[str, object]
) -> None:
    expected = to_onnx(*nets, inputs=inputs)
    monkeypatch.delenv(VARIABLE)
    repeated: list[Stamp] = []
    repeat = Stamps.repeat

    def counted(self: Stamps, stamp: Stamp, *args: Any) -> list[Value | None]:
        repeated.append(stamp)
        return repeat(self, stamp, *args)

    monkeypatch.setattr(Stamps, "repeat", counted)
    assert to_onnx(*nets, inputs=inputs) == expected
    assert len(repeated) > len(nets[0].op) // 3


@pytest.mark.usefixtures("stamping")
def test_a_diagnostic_is_reported_for_each_operator() -> None:
    ops = [op("LeakyRelu", "x", f"y{i}", alpha=1) for i in range(2)]
    with pytest.raises(ConversionError, match=r"(?s)n\[0\] LeakyRelu.*n\[1\] LeakyRelu"):
        exported(net(*ops, outputs="y0 y1"), x=(None, 4))


@pytest.mark.usefixtures("stamping")
def test_operators_that_read_contents_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def shaped(op: Op) -> Value:
        known = op.known(op.input(1))
        assert known is not None
        return reshape(op, op.input(0), [size(op, op.input(0), 0), *known.tolist()])

    ops = [op("Shaped", f"x s{i}", f"y{i}") for i in range(2)]
    init = NetDef()
    for i, dims in enumerate(([2, 2], [1, 4])):
        fill = init.op.add(type="GivenTensorInt64Fill", output=[f"s{i}"])
        fill.arg.add(name="shape", ints=[2])
        fill.arg.add(name="values", ints=dims)
    with_shaped(monkeypatch, shaped)
    model = exported(net(*ops, inputs="x s0 s1", outputs="y0 y1"), init, x=(None, 4))
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]] for value in model.graph.output]
    assert shapes == [[2, 2], [1, 4]]


def test_a_type_that_is_not_uniform_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_name(op: Op) -> Value:
        return op.emit("Relu" if op.view.outputs[0] == "y0" else "Exp", op.input(0))

    with_shaped(monkeypatch, by_name)
    ops = [op("Shaped", "x", f"y{i}") for i in range(2)]
    with pytest.raises(StampError):
        exported(net(*ops, outputs="y0 y1"), x=(None, 4))


def test_uniform_types() -> None:
    known = uniform_operators()
    assert all(name in known for name in ("Relu", "FC", "Add", "Reshape"))
    assert not any(name in known for name in ("RecurrentNetwork", "If", "UniformFill", "ScatterAssign"))


def with_shaped(monkeypatch: pytest.MonkeyPatch, convert: object) -> None:
    """Convert operators of type Shaped, as uniform ones."""
    table = {**converters(), "Shaped": convert}
    monkeypatch.setattr(lower_net, "converters", lambda _: table)
    monkeypatch.setattr(lower_net, "uniform_operators", lambda: frozenset({"Shaped"}))
