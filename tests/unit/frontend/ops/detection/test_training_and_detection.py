"""Converters of optimizers, detection and decoders, where recorded cases cannot show it: refusals, dims, forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import ERRORS_FILE, Array
from conformance.recording import generator, operator, read_recorded

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SPECS = (
    "ctc", "detection", "inference_lstm", "learning_rate", "metric", "optimizer", "proposals", "roi_align", "viterbi",
)  # fmt: skip
Specs = Mapping[str, tuple[Any, tuple[int | str | None, ...]]]


def refused() -> list[Any]:
    return [
        pytest.param(recorded, id=f"{recorded.meta['test']}-{recorded.meta['types'][0]}")
        for recorded in read_recorded(GOLDEN / "recorded" / ERRORS_FILE)
        if recorded.meta["test"].split(".")[0] in SPECS
    ]


def export(op: OperatorDef, inputs: Specs) -> onnx.ModelProto:
    return to_onnx(NetDef(op=[op]), inputs=inputs, outputs=list(op.output))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def dims(model: onnx.ModelProto) -> list[list[int | str]]:
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.output]


def nodes(graph: onnx.GraphProto) -> Iterator[str]:
    """The types of all nodes, those of bodies among them."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


@pytest.mark.parametrize("recorded", refused())
def test_what_caffe2_refuses_is_refused(recorded: Any) -> None:
    op = OperatorDef.FromString(recorded.proto)
    arrays = {name[3:]: array for name, array in recorded.arrays.items() if name.startswith("in/")}
    with pytest.raises(ConversionError):
        export(op, {name: (array.dtype, array.shape) for name, array in arrays.items()})


TABLE: Specs = {
    "param": ("float32", ("R", "D")),
    "moment": ("float32", ("R", "D")),
    "indices": ("int64", ("K",)),
    "grad": ("float32", ("K", "D")),
    "lr": ("float32", (1,)),
}
STATE: Specs = {"w": ("float32", ("R", "D")), "m": ("float32", ("R", "D")), "g": ("float32", ("R", "D"))}
REGIONS: Specs = {"X": ("float32", ("N", 3, "H", "W")), "rois": ("float32", ("K", 6))}
LSTM_STATES: Specs = dict.fromkeys(("h", "c"), ("float32", (1, "N", "H")))
LSTM: Specs = {
    "x": ("float32", ("T", "N", "I")),
    **LSTM_STATES,
    "w": ("float32", ("G", "I")),
    "r": ("float32", ("G", "H")),
}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("SparseAdagrad", list(TABLE), ["param", "moment"]), TABLE, [["R", "D"], ["R", "D"]]),
        (operator("MomentumSGD", ["g", "m", "w"], ["go", "mo"]), STATE, [["R", "D"], ["R", "D"]]),
        (operator("RoIAlignRotated", list(REGIONS), ["Y"], pooled_h=2, pooled_w=3), REGIONS, [["K", 3, 2, 3]]),
    ],
    ids=["SparseAdagrad", "MomentumSGD", "RoIAlignRotated"],
)
def test_named_dims_stay(op: OperatorDef, inputs: Specs, expected: list[list[int | str]]) -> None:
    assert dims(export(op, inputs)) == expected


@pytest.mark.parametrize(("gates", "units", "form"), [("G", "H", "Scan"), (24, 6, "LSTM")])
def test_lstm_takes_the_form_that_its_sizes_allow(gates: int | str, units: int | str, form: str) -> None:
    inputs = {**LSTM, "r": ("float32", (gates, units))}
    op = operator("InferenceLSTM", list(inputs), ["y", "hy", "cy"], has_biases=0)
    used = Counter(nodes(export(op, inputs).graph))
    assert {name: used[name] for name in ("Scan", "LSTM")} == {"Scan": 0, "LSTM": 0, form: 1}


@pytest.mark.parametrize(("gates", "units"), [("G", "H"), (24, 6)])
def test_both_forms_of_an_lstm_agree_with_its_definition(gates: int | str, units: int | str) -> None:
    rng = generator(3)
    shapes = {"x": (5, 2, 4), "h": (1, 2, 6), "c": (1, 2, 6), "w": (24, 4), "r": (24, 6)}
    values = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    op = operator("InferenceLSTM", list(shapes), ["y", "hy", "cy"], has_biases=0)
    outputs = run(export(op, {**LSTM, "r": ("float32", (gates, units))}), values)
    hidden, cell, expected = values["h"][0], values["c"][0], []
    for row in values["x"]:
        i, f, g, o = np.split(row @ values["w"].T + hidden @ values["r"].T, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
        cell = f * cell + i * np.tanh(g)
        hidden = o * np.tanh(cell)
        expected.append(hidden)
    for output, value in zip(outputs, (np.stack(expected), hidden[None], cell[None]), strict=True):
        np.testing.assert_allclose(output, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "loop"),
    [("CTCBeamSearchDecoder", "Loop"), ("CTCGreedyDecoder", None)],
)
def test_a_decoder_is_as_large_for_long_sequences_as_for_short_ones(op_type: str, loop: str | None) -> None:
    outputs = ["len", "values", "prob"] if loop else ["len", "values"]
    short, long = (
        Counter(nodes(export(operator(op_type, ["X"], outputs), {"X": ("float32", (steps, 3, 5))}).graph))
        for steps in (2, 500)
    )
    assert short == long
    assert loop is None or short[loop] == 1


@pytest.mark.parametrize(("rotated", "loops"), [(0, 0), (1, 1)])
def test_upright_boxes_are_suppressed_by_onnx_itself(rotated: int, loops: int) -> None:
    inputs = {"scores": ("float32", ("N", "C")), "boxes": ("float32", ("N", "D"))}
    op = operator("BoxWithNMSLimit", list(inputs), ["s", "b", "c"], rotated=rotated)
    used = Counter(nodes(export(op, inputs).graph))
    assert (used["NonMaxSuppression"], used["Loop"]) == (1 - loops, loops)


def overlap(first: Array, second: Array) -> float:
    """The share of a fine grid around both boxes, [x, y, width, height, degrees], that is in both, as an area."""
    side = np.linspace(-30, 30, 1201)
    x, y = np.meshgrid(side, side)
    inside = np.ones_like(x, dtype=bool)
    for box in (first, second):
        turn = np.radians(box[4])
        dx, dy = x - box[0], y - box[1]
        along, across = dx * np.cos(turn) - dy * np.sin(turn), dx * np.sin(turn) + dy * np.cos(turn)
        inside &= (np.abs(along) <= box[2] / 2) & (np.abs(across) <= box[3] / 2)
    return float(inside.sum() * (side[1] - side[0]) ** 2)


@pytest.mark.parametrize("seed", range(12))
def test_rotated_boxes_are_dropped_where_they_overlap(seed: int) -> None:
    rng = generator(seed)
    boxes = np.concatenate([rng.uniform(-4, 4, (2, 2)), rng.uniform(4, 20, (2, 2)), rng.uniform(-180, 180, (2, 1))], 1)
    shared = overlap(*boxes)
    union = boxes[0, 2] * boxes[0, 3] + boxes[1, 2] * boxes[1, 3] - shared
    values = {
        "scores": np.array([[0, 0.9], [0, 0.8]], np.float32),
        "boxes": np.tile(boxes, (1, 2)).astype(np.float32),
    }
    inputs = {name: (array.dtype, array.shape) for name, array in values.items()}
    kept = []
    for threshold in (shared / union - 0.02, shared / union + 0.02):
        op = operator("BoxWithNMSLimit", list(inputs), ["s", "b", "c"], rotated=1, nms=float(threshold))
        kept.append(len(run(export(op, inputs), values)[0]))
    assert kept == [1, 2]
