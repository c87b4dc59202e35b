"""Nets that do not compute what a trained model does: parameters left out or random, operators in training mode."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator
from support.cells import fills
from support.nets import net

from caffe2_bridge import Model
from caffe2_bridge.diagnostics import Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, to_onnx


def codes(*nets: NetDef, **options: object) -> dict[str, Severity]:
    return {finding.code: finding.severity for finding in check(*nets, **options).findings}  # type: ignore[arg-type] # the options of check


NORM = net(
    operator("Conv", ["data", "w"], ["a"], kernel=3),
    operator("SpatialBN", ["a", "s", "b", "m", "v"], ["y"], is_test=1),
    inputs="data m v w s b",
)
EMPTY = np.zeros((1, 1), np.float32)
INIT = fills({"data": EMPTY, "m": EMPTY, "v": EMPTY, "w": np.ones((4, 3, 3, 3)), "s": np.ones(4), "b": np.ones(4)})


def test_statistics_that_the_exporter_left_out_are_an_error_that_says_what_to_do() -> None:
    (error,) = (f for f in check(NORM, INIT).findings if f.severity is Severity.ERROR)
    assert error.code == "left-out-parameters"
    assert error.reason == "the exporter left out statistics of SpatialBN: the init net has zeros for 'm', 'v' instead"
    assert "model.GetAllParams()" in error.hint
    assert "--input 'm=float32[4]' --input 'v=float32[4]'" in error.hint


def test_statistics_that_are_described_are_inputs() -> None:
    described = {"m": ("float32", [4]), "v": ("float32", [4])}
    assert codes(NORM, INIT, inputs=described) == {"exporter-fill": Severity.NOTE}
    assert {value.name for value in to_onnx(NORM, INIT, inputs=described).graph.input} == {"data", "m", "v"}


LAYER = net(operator("FC", ["x", "w", "b"], ["y"]), inputs="x w b")
DRAWN = [
    operator("XavierFill", [], ["drawn"], shape=[2, 4]),
    operator("Copy", ["drawn"], ["w"]),
    operator("ConstantFill", [], ["b"], shape=[2]),
]


def test_random_parameters_are_a_warning() -> None:
    (warning,) = check(LAYER, NetDef(name="init", op=DRAWN)).findings
    assert (warning.code, warning.severity) == ("random-parameters", Severity.WARNING)
    assert "the init net draws 1 parameter at random ('w' by XavierFill): the net was never trained" in warning.reason


def test_parameters_that_are_overwritten_are_not_random() -> None:
    trained = operator("GivenTensorFill", [], ["w"], shape=[2, 4], values=[1.0] * 8)
    assert codes(LAYER, NetDef(name="init", op=[*DRAWN, trained])) == {}


def test_a_training_net_begins_with_random_parameters() -> None:
    gradients = net(
        operator("FC", ["x", "w", "b"], ["y"]),
        operator("ConstantFill", ["y"], ["y_grad"], value=1.0),
        operator("FCGradient", ["x", "w", "y_grad"], ["w_grad", "b_grad"]),
        operator("WeightedSum", ["w", "one", "w_grad", "lr"], ["w"]),
        inputs="x w b one lr",
        outputs="y w",
    )
    one = [operator("ConstantFill", [], [name], shape=[1], value=1.0) for name in ("one", "lr")]
    assert "random-parameters" not in codes(gradients, NetDef(name="init", op=[*DRAWN, *one]))


def test_each_operator_type_in_training_mode_is_a_warning() -> None:
    ops = [
        operator("Dropout", ["x"], ["d", "_m"]),
        operator("Dropout", ["d"], ["e", "_n"], ratio=0.1),
        operator("SpatialBN", ["e", "s", "b", "m", "v"], ["y", "m", "v", "_a", "_b"], is_test=0),
    ]
    predict = net(*ops, inputs="x s b m v")
    four = np.ones(4, np.float32)
    found = check(predict, fills({"s": four, "b": four, "m": four, "v": four})).findings
    warned = [finding.reason for finding in found if finding.code == "training-mode"]
    assert [reason.partition(" in training mode")[0] for reason in warned] == [
        "2 Dropout operators are", "the SpatialBN operator is",
    ]  # fmt: skip


def test_operators_for_inference_are_no_warning() -> None:
    kept = net(operator("Dropout", ["x"], ["y"], is_test=1), inputs="x")
    assert codes(kept, inputs={"x": ("float32", ["N", 4])}) == {}


def test_what_the_net_does_not_read_of_an_init_net_stops_nothing() -> None:
    init = fills({"w": np.ones((2, 4)), "b": np.ones(2)})
    init.op.extend([operator("CreateDB", [], ["db"], db="train", db_type="lmdb")])
    assert codes(LAYER, init) == {}
    assert [op.type for op in Model.of(LAYER, init).without_unneeded().init_net.op] == ["GivenTensorFill"] * 2
