"""Converters of sequences, segments and sparse rows, where a recorded case cannot show it: refusals, dims, chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import ERRORS_FILE, Array, text_array
from conformance.recording import operator, read_recorded

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SPECS = ("feature", "lengths", "rowwise", "segment_reduction", "sequence", "sequence_mask", "sparse")
# What real Caffe2 refuses for the contents of an operand, which nobody knows before the model runs.
FOR_CONTENTS = ("All elements of input must be same",)
Specs = Mapping[str, tuple[Any, tuple[int | str | None, ...]]]


def refused() -> list[Any]:
    return [
        pytest.param(recorded, id=f"{recorded.meta['test']}-{recorded.meta['types'][0]}")
        for recorded in read_recorded(GOLDEN / "recorded" / ERRORS_FILE)
        if recorded.meta["test"].split(".")[0] in SPECS
        and not any(text in recorded.meta["error"] for text in FOR_CONTENTS)
    ]


def export(op: OperatorDef, inputs: Specs) -> onnx.ModelProto:
    return to_onnx(NetDef(op=[op]), inputs=inputs, outputs=list(op.output))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array], threads: int = 1) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def dims(model: onnx.ModelProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("recorded", refused())
def test_what_caffe2_refuses_is_refused(recorded: Any) -> None:
    op = OperatorDef.FromString(recorded.proto)
    arrays = {name[3:]: array for name, array in recorded.arrays.items() if name.startswith("in/")}
    texts = recorded.meta.get("strings", {}).items()
    arrays |= {name[3:]: text_array(*value) for name, value in texts if name.startswith("in/")}
    with pytest.raises(ConversionError):
        export(op, {n: (str if a.dtype == object else a.dtype, a.shape) for n, a in arrays.items()})


ROWS: Specs = {"X": ("float32", ("N", "D")), "L": ("int32", ("S",))}
TABLE: Specs = {"X": ("float32", ("R", "D")), "I": ("int64", ("N",)), "L": ("int32", ("S",))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("LengthsSum", ["X", "L"], ["Y"]), ROWS, ["S", "D"]),
        (operator("LengthsMax", ["X", "L"], ["Y"]), ROWS, ["S", "D"]),
        (operator("SparseLengthsMean", ["X", "I", "L"], ["Y"]), TABLE, ["S", "D"]),
        (operator("PackSegments", ["L", "X"], ["Y"], max_length=5), ROWS, ["S", 5, "D"]),
        (operator("SequenceMask", ["X", "L"], ["Y"], mode="sequence"), ROWS, ["N", "D"]),
        (operator("LengthsTopK", ["X", "L"], ["Y", "I"], k=3), ROWS | {"X": ("float32", ("N",))}, ["S", 3]),
        (
            operator("ReversePackedSegs", ["X", "L"], ["Y"]),
            ROWS | {"X": ("float32", ("T", "S", "D"))},
            ["T", "S", "D"],
        ),
        (
            operator("SparseLengthsSumFused8BitRowwise", ["X", "I", "L"], ["Y"]),
            TABLE | {"X": ("uint8", (100, 24))},
            ["S", 16],
        ),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_dims_are_known(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


def test_sums_are_right_with_several_threads() -> None:
    lengths = np.full(4, 20_000, "int32")
    inputs = {"X": np.ones((80_000, 3), "float32"), "L": lengths}
    model = export(operator("LengthsSum", ["X", "L"], ["Y"]), ROWS)
    for _ in range(5):
        np.testing.assert_array_equal(run(model, inputs, threads=4)[0], np.full((4, 3), 20_000, "float32"))


@pytest.mark.parametrize("ratio", [0.25, 0.75])
def test_dropped_segments_are_as_many_as_the_ratio_says(ratio: float) -> None:
    op = operator("SparseDropoutWithReplacement", ["X", "L"], ["Y", "M"], ratio=ratio, replacement_value=-7)
    op.device_option.random_seed = 3
    model = export(op, {"X": ("int64", ("N",)), "L": ("int32", ("S",))})
    values, lengths = run(model, {"X": np.arange(20_000), "L": np.full(10_000, 2, "int32")})
    assert abs((lengths == 1).mean() - ratio) < 0.02
    assert (values == -7).sum() == (lengths == 1).sum()
    assert len(values) == lengths.sum()
    kept = values[values != -7]
    np.testing.assert_array_equal(kept[1::2], kept[::2] + 1)


@pytest.mark.parametrize("bits", [2, 8])
def test_random_codes_are_right_in_the_mean(bits: int) -> None:
    quantize = operator("FloatToFusedRandRowwiseQuantized", ["X"], ["Q"], bitwidth=bits)
    quantize.device_option.random_seed = 3
    net = NetDef(op=[quantize, operator("FusedRandRowwiseQuantizedToFloat", ["Q"], ["Y"])])
    x = np.tile(np.array([0, 0.3, 0.61, 1.0], "float32"), (20_000, 1))
    (y,) = run(to_onnx(net, inputs={"X": ("float32", ("N", "D"))}, outputs=["Y"]), {"X": x})
    np.testing.assert_allclose(y.mean(axis=0), x[0], atol=0.01)
    assert len(np.unique(y[:, 1])) == 2


@pytest.mark.parametrize(
    ("dtype", "quantize"),
    [
        ("float32", "FloatToFused8BitRowwiseQuantized"),
        ("float16", "FloatToFused8BitRowwiseQuantizedHalfScaleBias"),
    ],
)
def test_numbers_become_the_bytes_that_hold_them_and_back(dtype: str, quantize: str) -> None:
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.5, info.max, info.min, info.tiny, info.smallest_subnormal, np.inf, -np.inf]
    random = np.random.default_rng(4).integers(0, 256, 4000, dtype="uint8").view(dtype)
    values = np.concatenate([np.array(edges, dtype), random[np.isfinite(random)]]).reshape(-1, 1)
    data = np.ascontiguousarray(values).view("uint8")
    # The least element of a row of one is its bias, which is stored last.
    width = data.shape[1]
    model = export(operator(quantize, ["X"], ["Y"]), {"X": ("float32", ("N", "D"))})
    (fused,) = run(model, {"X": values.astype("float32")})
    np.testing.assert_array_equal(fused[:, -width:], data)
    # A scale of 0 leaves the bias.
    fused[:, :-width] = 0
    name = "" if dtype == "float32" else "HalfScaleBias"
    model = export(operator(f"Fused8BitRowwiseQuantized{name}ToFloat", ["X"], ["Y"]), {"X": ("uint8", ("N", "D"))})
    np.testing.assert_array_equal(run(model, {"X": fused})[0], values.astype("float32"))
