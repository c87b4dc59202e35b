"""Int8 operators between DequantizeLinear and QuantizeLinear: close to real Caffe2, fused, channels first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import Array, Case, CaseRef, find_cases, read_case
from conformance.outside import OUTSIDE
from conformance.recording import operator
from support.exports import node_types, run

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import Int8, to_onnx

# Largest difference of one result from real Caffe2's, in steps of its scale.
STEPS: Final = 1
# Rows of so many equal bytes that the sum of QNNPACK's exponentials exceeds 32 bits: what is left of it makes every
# share 255. The exact form computes that; a Softmax of reals does not.
OVERFLOWS: Final = frozenset(f"Int8Softmax/{number}" for number in ("004", "005", "006"))
FORMS: Final[tuple[Int8, ...]] = ("exact", "qdq")
NETS: Final = GOLDEN / "nets" / "int8_test.npz"
WHOLE_NETS: Final = GOLDEN / "recorded" / "nets" / "whole_nets.npz"
X, W, B = ("uint8", [1, 6, 6, 4], (0.05, 121)), ("uint8", [8, 3, 3, 4], (0.01, 140)), ("int32", [8], (0.0005, 0))


def int8_cases() -> list[CaseRef]:
    files = [path for folder in (GOLDEN / "ops", GOLDEN / "recorded" / "ops") for path in folder.glob("Int8*.npz")]
    nets = find_cases(NETS)[::5]
    left_out = {*OVERFLOWS, *(case.removeprefix("recorded/ops/") for case in OUTSIDE)}
    return [ref for path in sorted(files) for ref in find_cases(path) if ref.id not in left_out] + nets


def described(case: Case) -> dict[str, tuple[Any, ...]]:
    """Return the inputs of a case, with the quantization of those that have one."""
    return {
        name: (array.dtype, array.shape, *([case.quantized[name]] if name in case.quantized else []))
        for name, array in case.inputs.items()
    }


def steps_off(case: Case, results: Mapping[str, Array]) -> float:
    """Return the largest difference between results of bytes and what real Caffe2 computed."""
    off = [
        np.abs(a.astype(float) - case.outputs[name]) for name, a in results.items() if a.dtype == np.uint8 and a.size
    ]
    return max((float(each.max()) for each in off), default=0.0)


@pytest.mark.parametrize("ref", int8_cases(), ids=lambda ref: ref.id)
def test_a_result_is_within_a_step_of_real_caffe2(ref: CaseRef) -> None:
    case = read_case(ref)
    model = to_onnx(case.net, inputs=described(case), int8="qdq")
    results = dict(zip([value.name for value in model.graph.output], run(model, case.inputs), strict=True))
    assert {name: array.shape for name, array in results.items()} == {k: v.shape for k, v in case.outputs.items()}
    assert steps_off(case, results) <= STEPS


def bottleneck() -> Case:
    """Return a recorded inverted bottleneck: convolutions, a sum, a resize and a mean."""
    cases = map(read_case, find_cases(WHOLE_NETS))
    return next(case for case in cases if "Int8ResizeNearest" in {op.type for op in case.net.op})


def test_a_chain_of_images_stays_channels_first() -> None:
    case = bottleneck()
    model = to_onnx(case.net, inputs=described(case), outputs=["Y"], int8="qdq")
    weights = sum(op.type.startswith("Int8Conv") for op in case.net.op)
    kinds = Counter(node_types(model.graph))
    assert kinds["Transpose"] == weights  # of the weights, which are inputs of this net
    assert kinds["QuantizeLinear"] == 6
    (result,) = run(model, case.inputs)
    scale = 0.04  # of the mean, the last result in bytes
    assert np.abs(result - case.outputs["Y"]).max() <= 2.001 * scale


def test_onnxruntime_fuses_the_groups(tmp_path: Path) -> None:
    case = bottleneck()
    names = {"w1", "w2", "w3", "b1", "b2", "b3"}
    fills = [fill(name, case.inputs[name], case.quantized[name]) for name in sorted(names)]
    inputs = {name: spec for name, spec in described(case).items() if name not in names}
    model = to_onnx(case.net, NetDef(op=fills), inputs=inputs, outputs=["Y"], int8="qdq")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fused = onnx.ModelProto.FromString((tmp_path / "fused.onnx").read_bytes())
    kinds = Counter(node_types(fused.graph))
    assert (kinds["QLinearConv"], kinds["QLinearAdd"], kinds["QLinearAveragePool"]) == (3, 1, 1)
    assert not {"Conv", "Add", "AveragePool", "Transpose"}.intersection(kinds)


def fill(name: str, array: Array, how: tuple[float, int]) -> Any:
    kind = "Int8GivenTensorFill" if array.dtype == np.uint8 else "Int8GivenIntTensorFill"
    values = array.tobytes() if array.dtype == np.uint8 else array.tolist()
    return operator(kind, [], [name], shape=array.shape, values=values, Y_scale=how[0], Y_zero_point=how[1])


def test_the_exact_form_is_the_default() -> None:
    convolution = operator("Int8Conv", ["X", "W", "B"], ["Y"], kernel=3, order="NHWC", Y_scale=0.1, Y_zero_point=9)
    net = NetDef(op=[convolution], external_output=["Y"])
    exact = to_onnx(net, inputs={"X": X, "W": W, "B": B})
    assert exact == to_onnx(net, inputs={"X": X, "W": W, "B": B}, int8="exact")
    assert "ConvInteger" in set(node_types(exact.graph))


def test_branches_that_read_one_image() -> None:
    def body() -> NetDef:
        args = {"kernel": 3, "order": "NHWC", "Y_scale": 0.1, "Y_zero_point": 9}
        convolution = operator("Int8Conv", ["P", "W", "B"], ["A"], **args)
        return NetDef(op=[convolution, operator("Int8Dequantize", ["A"], ["Y"])])

    pool = operator("Int8MaxPool", ["X"], ["P"], kernel=2, order="NHWC", Y_scale=0.05, Y_zero_point=121)
    choice = operator("If", ["C"], [], then_net=body(), else_net=body())
    start = operator("ConstantFill", [], ["Y"], shape=[1, 3, 3, 8])
    net = NetDef(op=[pool, start, choice], external_output=["Y"])
    inputs = {"X": X, "W": W, "B": B, "C": ("bool", [1])}
    random = np.random.default_rng(0)
    feed = {
        "X": random.integers(0, 256, X[1], np.uint8),
        "W": random.integers(0, 256, W[1], np.uint8),
        "B": random.integers(-99, 99, B[1], np.int32),
    }
    for taken in (True, False):
        results = [run(to_onnx(net, inputs=inputs, int8=form), feed | {"C": np.array([taken])})[0] for form in FORMS]
        assert np.abs(results[0] - results[1]).max() <= 1.001 * 0.1
