"""Converters of shapes and indices, where a recorded case cannot show it: refusals, named dims, draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import ERRORS_FILE, Array
from conformance.recording import operator, read_recorded

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SPECS = (
    "calibration.py",
    "encoding.py",
    "histogram.py",
    "indexing.py",
    "samples.py",
    "shape.py",
    "slicing.py",
    "sorting.py",
)
# What is wrong is in the operands' values, which are not known before the run.
BY_VALUE = ("hi != mid", "lo != mid", "add_axis_ ? OutputSize()", "data is out of bounds")
Specs = Mapping[str, tuple[Any, tuple[int | str | None, ...]]]
ROWS = {"X": ("float32", ("N", 4))}
BLOCK = {"X": ("float32", ("N", "T", "D"))}


def refused() -> Iterator[Any]:
    for recorded in read_recorded(GOLDEN / "recorded" / ERRORS_FILE):
        spec, _, number = recorded.meta["test"].partition("::")
        by_value = any(text in recorded.meta["error"] for text in BY_VALUE)
        if spec in SPECS and recorded.meta["kind"] == "op" and not by_value:
            yield pytest.param(recorded, id=f"{spec}-{number}-{recorded.meta['types'][0]}")


def export(op: OperatorDef, inputs: Specs) -> onnx.ModelProto:
    return to_onnx(NetDef(op=[op]), inputs=inputs, outputs=list(op.output))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def dims(model: onnx.ModelProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("recorded", list(refused()))
def test_what_caffe2_refuses_is_refused(recorded: Any) -> None:
    op = OperatorDef.FromString(recorded.proto)
    arrays = {name[3:]: array for name, array in recorded.arrays.items() if name.startswith("in/")}
    with pytest.raises(ConversionError):
        export(op, {name: (array.dtype, array.shape) for name, array in arrays.items()})


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("Reshape", ["X"], ["Y", "old"], shape=[0, 2, 2]), ROWS, ["N", 2, 2]),
        (operator("Transpose", ["X"], ["Y"], axes=[1, 0, 2]), BLOCK, ["T", "N", "D"]),
        (operator("ExpandDims", ["X"], ["Y"], dims=[0]), BLOCK, [1, "N", "T", "D"]),
        (operator("ResizeLike", ["A", "X"], ["Y"]), {**BLOCK, "A": ("float32", (None,))}, ["N", "T", "D"]),
        (operator("Concat", ["X", "X"], ["Y", "split"], axis=1, add_axis=1), ROWS, ["N", 2, 4]),
        (operator("Split", ["X"], ["Y", "Z"], axis=1), ROWS, ["N", 2]),
        (operator("Slice", ["X"], ["Y"], starts=[0, 1], ends=[-1, -2]), ROWS, ["N", 2]),
        (operator("Gather", ["X", "I"], ["Y"]), {**ROWS, "I": ("int64", ("K",))}, ["K", 4]),
        (operator("ScatterAssign", ["X", "I", "R"], ["Y"]), {**ROWS, "I": ("int32", ("K",)), "R": ROWS["X"]}, ["N", 4]),
        (operator("TopK", ["X"], ["Y", "I"], k=2), ROWS, ["N", 2]),
        (operator("ArgMax", ["X"], ["Y"], axis=1), BLOCK, ["N", 1, "D"]),
        (operator("Bucketize", ["X"], ["Y"], boundaries=[0.0, 1.0]), BLOCK, ["N", "T", "D"]),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_named_dims_are_kept(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (operator("Concat", ["X", "X"], ["Y", "s"], axis=1, order="NCHW"), ROWS),
        (operator("Transpose", ["X"], ["Y"], axes=[0, 2, 1]), ROWS),
        (operator("Gather", ["X", "I"], ["Y"], match_outer=1), {**ROWS, "I": ("int64", (None,))}),
        (operator("Unique", ["X"], ["Y"]), ROWS),
        (operator("StringPrefix", ["X"], ["Y"], length=-1), {"X": ("str", (None,))}),
        (operator("StringJoin", ["X"], ["Y"]), ROWS),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_what_cannot_be_is_refused(op: OperatorDef, inputs: Specs) -> None:
    with pytest.raises(ConversionError):
        export(op, inputs)


def test_weighted_sample_draws_by_weight() -> None:
    op = operator("WeightedSample", ["W"], ["I"])
    op.device_option.random_seed = 3
    model = export(op, {"W": ("float32", ("N", 3))})
    weights = np.tile(np.array([1, 0, 3], np.float32), (4000, 1))
    (drawn,) = run(model, {"W": weights})
    assert drawn.shape == (4000, 1)
    counts = np.bincount(drawn[:, 0], minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 1000) < 150


def test_multi_sampling_reads_weights_as_their_sums() -> None:
    op = operator("WeightedMultiSampling", ["W"], ["I"], num_samples=3000)
    op.device_option.random_seed = 4
    (drawn,) = run(export(op, {"W": ("float32", (None,))}), {"W": np.array([1, 1, 4], np.float32)})
    counts = np.bincount(drawn, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 750) < 150


def test_a_prefix_of_other_than_ascii_ends_the_run() -> None:
    model = export(operator("StringPrefix", ["X"], ["Y"], length=2), {"X": ("str", (None,))})
    assert run(model, {"X": np.array(["abc"], object)})[0].tolist() == ["ab"]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds"):
        run(model, {"X": np.array(["\u00e9"], object)})


def test_lengths_of_a_shape_in_another_order_keep_their_meaning() -> None:
    op = operator("Reshape", ["X", "S"], ["Y", "old"])
    model = export(op, {"X": ("float32", (None, None)), "S": ("int32", (3,))})
    y, old = run(model, {"X": np.zeros((4, 6), np.float32), "S": np.array([2, 0, -1], np.int32)})
    assert y.shape == (2, 6, 2)
    assert old.dtype == np.int32
