"""What is said of inputs: fills, assumed ranks and types, and descriptions that operators contradict."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills
from support.nets import net

from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx

CONV = operator("Conv", ["x", "w"], ["y"], kernel=3)
BGRA = operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["x", "mean"], ["y"], noise_std=0.0)
W = np.ones((2, 3, 3, 3), np.float32)


def zeros(**shapes: tuple[int, ...]) -> NetDef:
    return fills({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})


def hints(*nets: NetDef, **options: object) -> list[str]:
    return [hint for f in check(*nets, **options).findings for hint in re.findall(r"--input '([^']+)'", f.hint)]  # type: ignore[arg-type] # the options of check


def typed(found: list[str]) -> dict[str, tuple[object, ...]]:
    parsed = [parse_input(hint) for hint in found]
    return {one[0]: one[1] for one in parsed if one is not None}


def test_a_hint_has_the_dims_that_the_operators_tell() -> None:
    predict = net(CONV, inputs="x w")
    init = fills({"x": np.zeros((1, 1), np.float32), "w": W})
    (note,) = check(predict, init).findings
    assert (note.code, note.severity) == ("exporter-fill", Severity.NOTE)
    assert hints(predict, init) == ["x=float32[N,3,H,W]"]


def test_a_hint_of_bytes_with_channels_last() -> None:
    init = fills({"x": np.zeros((1, 1), np.float32), "mean": np.zeros(3, np.float32), "w": W})
    conv = operator("Conv", ["y", "w"], ["z"], kernel=3)
    assert hints(net(BGRA, conv, inputs="x mean w", outputs="z"), init) == ["x=uint8[N,H,W,4]"]


def test_a_sample_is_a_warning_and_its_hint_is_of_the_operators() -> None:
    init = fills({"x": np.ones((1, 3, 8, 8), np.float32), "w": W})
    predict = net(CONV, inputs="x w")
    (warning,) = check(predict, init).findings
    assert (warning.code, warning.severity) == ("placeholder", Severity.WARNING)
    assert hints(predict, init) == ["x=float32[N,3,H,W]"]


def test_a_hint_typed_gives_the_same_model_and_removes_the_diagnostic() -> None:
    ops = (operator("Gather", ["t", "ids"], ["r"]), operator("MatMul", ["r", "w"], ["y"]))
    init = fills(
        {"t": np.ones((5, 4), np.float32), "w": np.ones((4, 2), np.float32), "ids": np.zeros((1, 1), np.float32)}
    )
    predict = net(*ops, inputs="ids t w")
    found = typed(hints(predict, init))
    assert found == {"ids": ("int32", ["N"])}
    assert check(predict, init, inputs=found).findings == ()
    before, after = to_onnx(predict, init), to_onnx(predict, init, inputs=found)
    assert [node.op_type for node in before.graph.node] == [node.op_type for node in after.graph.node]
    assert before.graph.input[0].type.tensor_type.elem_type == after.graph.input[0].type.tensor_type.elem_type


def test_dims_that_are_not_known_to_be_equal_have_different_names() -> None:
    predict = net(operator("BatchMatMul", ["x", "z"], ["y"]), inputs="x z")
    assert hints(predict) == ["x=float32[N,D,H]", "z=float32[?,H,?]"]


def test_several_assumed_ranks_are_one_note() -> None:
    ops = [operator("Softmax", [f"x{i}"], [f"y{i}"]) for i in range(9)]
    predict = net(*ops, inputs=" ".join(f"x{i}" for i in range(9)), outputs=" ".join(f"y{i}" for i in range(9)))
    (note,) = check(predict).findings
    assert note.code == "assumed-rank"
    assert note.reason.endswith(
        "so are 'x1' (rank 2, Softmax), 'x2' (rank 2, Softmax), 'x3' (rank 2, Softmax) and 5 more"
    )
    assert check(predict, inputs=typed(hints(predict))).findings == ()


@pytest.mark.parametrize("repeated", [1, 3])
def test_the_type_of_ids_is_assumed_and_the_note_says_why(repeated: int) -> None:
    ops = [operator("Gather", ["t", f"ids{i}"], [f"y{i}"]) for i in range(repeated)]
    names = [f"ids{i}" for i in range(repeated)]
    predict = net(*ops, inputs=" ".join(["t", *names]), outputs=" ".join(f"y{i}" for i in range(repeated)))
    init = fills({"t": np.ones((5, 4), np.float32)})
    (note,) = (f for f in check(predict, init).findings if f.code == "assumed-type")
    assert "assumed to be int32, because Gather takes int32 and int64, and the net does not say which" in note.reason
    assert [hint.partition("=")[0] for hint in re.findall(r"--input '([^']+)'", note.hint)] == names


def test_the_type_of_a_fill_that_is_not_float_is_that_of_the_input() -> None:
    fill = operator("GivenTensorIntFill", [], ["x"], shape=[3], values=[1, 2, 3])
    predict = net(operator("IndexHash", ["x"], ["y"], seed=1, modulo=9), inputs="x")
    assert hints(predict, NetDef(name="init", op=[fill])) == ["x=int32[N]"]
    assert set(hints(predict, zeros(x=(3,)))) == {"x=int64[N]"}  # a fill of zeros is float whatever the input is


@pytest.mark.parametrize(("op", "dtype", "expected"), [
    (BGRA, "float32", "uint8"),
    (operator("SoftmaxWithLoss", ["z", "x"], ["p", "y"]), "float32", "int32"),
    (operator("Accuracy", ["z", "x"], ["y"]), "float32", "int32"),
])  # fmt: skip
def test_a_described_type_that_an_operator_cannot_read_is_an_error(op: OperatorDef, dtype: str, expected: str) -> None:
    inputs = {"x": (dtype, [2, 4, 4, 4] if op is BGRA else [2]), "z": ("float32", [2, 4]), "mean": ("float32", [3])}
    predict = net(op, inputs=" ".join(op.input))
    described = {name: spec for name, spec in inputs.items() if name in op.input}
    (error,) = (f for f in check(predict, inputs=described).findings if f.severity is Severity.ERROR)
    assert error.code == "invalid-operands"
    assert f"input 'x' is described as {dtype}, and {op.type} reads it as {expected}" in error.reason
    assert f"--input 'x={expected}[" in error.hint
    assert check(predict, inputs={**described, **typed([re.findall(r"--input '([^']+)'", error.hint)[0]])}).covered


def test_operators_that_read_the_shape_alone_take_every_type() -> None:
    predict = net(operator("RMACRegions", ["x"], ["y"]), inputs="x")
    assert check(predict, inputs={"x": ("int32", [1, 2, 8, 8])}).covered
