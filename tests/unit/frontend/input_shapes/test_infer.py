"""Shapes of inputs, inferred from the operators that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, describe_inputs, to_onnx


def net(*ops: OperatorDef) -> NetDef:
    made = {name for op in ops for name in op.output}
    read = dict.fromkeys(name for op in ops for name in op.input)
    return NetDef(
        name="n", op=ops, external_input=[n for n in read if n not in made], external_output=[ops[-1].output[0]]
    )


def weights(**shapes: tuple[int, ...]) -> NetDef:
    return fills({name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()})


def shapes(init: NetDef | None, *ops: OperatorDef) -> dict[str, list[Any]]:
    """Return the shapes of all inputs, with None for dims that are not numbers."""
    infos = describe_inputs(net(*ops), init)
    return {
        name: [dim if isinstance(dim, int) else None for dim in (("unknown",) if info.shape is None else info.shape)]
        for name, info in infos.items()
    }


CONV = operator("Conv", ["x", "w", "b"], ["y"], kernel=3)


@pytest.mark.parametrize(
    ("ops", "init", "expected"),
    [
        ([CONV], weights(w=(8, 3, 3, 3), b=(8,)), {"x": [None, 3, None, None]}),
        (
            [operator("Conv", ["x", "w"], ["y"], kernel=3, order="NHWC")],
            weights(w=(8, 3, 3, 5)),
            {"x": [None, None, None, 5]},
        ),
        (
            [operator("Conv", ["x", "w"], ["y"], kernel=3, group=4)],
            weights(w=(8, 1, 3, 3)),
            {"x": [None, 4, None, None]},
        ),
        (
            [operator("Conv", ["x", "w"], ["y"], kernels=[3, 3, 3])],
            weights(w=(8, 2, 3, 3, 3)),
            {"x": [None, 2, None, None, None]},
        ),
        (
            [operator("ConvTranspose", ["x", "w"], ["y"], kernel=2)],
            weights(w=(5, 4, 2, 2)),
            {"x": [None, 5, None, None]},
        ),
        # Without weights, their ranks and kernels follow.
        ([CONV], None, {"x": [None] * 4, "w": [None, None, 3, 3], "b": [None]}),
        # Through operators that keep the shape or the channels, also in place.
        (
            [
                operator("NHWC2NCHW", ["x"], ["a"]),
                operator("Mul", ["a", "s"], ["a"], broadcast=1, axis=1),
                operator("Relu", ["a"], ["a"]),
                operator("MaxPool", ["a"], ["c"], kernel=2),
                operator("LRN", ["c"], ["d"], size=1, alpha=1.0, beta=1.0),
                operator("SpatialBN", ["d", "g", "h", "m", "v"], ["e"], is_test=1),
            ],
            weights(g=(7,), h=(7,), m=(7,), v=(7,)),
            {"x": [None, None, None, 7], "s": [7]},
        ),
        ([operator("FC", ["x", "w", "b"], ["y"])], weights(w=(2, 6), b=(2,)), {"x": [None, 6]}),
        ([operator("FC", ["x", "w", "b"], ["y"], axis=2)], weights(w=(2, 6), b=(2,)), {"x": [None, None, 6]}),
        ([operator("FCTransposed", ["x", "w", "b"], ["y"])], weights(w=(2, 6), b=(6,)), {"x": [None, 2]}),
        ([operator("MatMul", ["x", "w"], ["y"], trans_b=1)], weights(w=(2, 6)), {"x": [None, 6]}),
        # An FC behind a convolution takes the image as it is.
        (
            [CONV, operator("FC", ["y", "u", "c"], ["z"])],
            weights(w=(8, 3, 3, 3), b=(8,), u=(2, 32), c=(2,)),
            {"x": [None, 3, None, None]},
        ),
        # Operands that are joined: ranks, and the channels that are left for the last one.
        (
            [operator("Concat", ["x", "z"], ["a", "_"], axis=1), operator("Conv", ["a", "w"], ["y"], kernel=1),
             operator("Conv", ["x", "v"], ["t"], kernel=1), operator("Sum", ["y", "t"], ["u"])],
            weights(w=(8, 5, 1, 1), v=(8, 3, 1, 1)),
            {"x": [None, 3, None, None], "z": [None, 2, None, None]},
        ),
        ([operator("Transpose", ["x"], ["a"], axes=[1, 0, 2])], None, {"x": [None] * 3}),
        (
            [operator("RoIAlign", ["x", "rois"], ["a"], pooled_h=2, pooled_w=2, spatial_scale=0.5, sampling_ratio=2),
             operator("Conv", ["a", "w"], ["y"], kernel=1)],
            weights(w=(8, 6, 1, 1)),
            {"x": [None, 6, None, None], "rois": [None, None]},
        ),
        ([operator("ResizeNearest", ["x"], ["a"], width_scale=2.0, height_scale=2.0)], None, {"x": [None] * 4}),
        ([operator("ExpandDims", ["x"], ["a"], dims=[0]), operator("Conv", ["a", "w"], ["y"], kernel=1)],
         weights(w=(8, 6, 1, 1)), {"x": [6, None, None]}),
        ([operator("SparseLengthsSum", ["table", "ids", "lengths"], ["y"]), operator("FC", ["y", "w", "b"], ["z"])],
         weights(w=(2, 6), b=(2,)), {"table": [None, 6], "ids": [None], "lengths": [None]}),
        # A default is a row of the values, which are ranges here.
        ([operator("LengthsToRanges", ["lengths"], ["ranges"]),
          operator("SparseToDenseMask", ["ids", "ranges", "default", "segments"], ["y"], mask=[1, 2])],
         None, {"default": [2], "ids": [None], "segments": [None]}),
    ],
)  # fmt: skip
def test_shapes_follow_from_use(ops: list[OperatorDef], init: NetDef | None, expected: dict[str, Any]) -> None:
    found = shapes(init, *ops)
    assert {name: found[name] for name in expected} == expected
    codes = {finding.code for finding in check(net(*ops), init).findings}
    assert "needs-shape" not in codes
    assert ("assumed-rank" in codes) == (ops[0].type == "MatMul")


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (operator("MatMul", ["x", "z"], ["y"]), {"x": 2, "z": 2}),
        (operator("BatchMatMul", ["x", "z"], ["y"]), {"x": 3, "z": 3}),
        (operator("Concat", ["x", "z"], ["y", "_"], axis=2), {"x": 3, "z": 3}),
        (operator("Concat", ["x", "z"], ["y", "_"], axis=1, add_axis=1), {"x": 2, "z": 2}),
        (operator("Softmax", ["x"], ["y"]), {"x": 2}),
        (operator("NCHW2NHWC", ["x"], ["y"]), {"x": 4}),
        (operator("LayerNorm", ["x"], ["y", "m", "s"]), {"x": 2}),
        (operator("ReduceBackSum", ["x"], ["y"], num_reduce_dim=2), {"x": 3}),
        (operator("SparseToDenseMask", ["ids", "x", "default"], ["y"], mask=[1, 2]), {"x": 1, "default": 0}),
    ],
)
def test_what_an_operator_leaves_open_is_assumed_with_a_note(op: OperatorDef, expected: dict[str, int]) -> None:
    found = shapes(None, op)
    assert {name: len(found[name]) for name in expected} == expected
    notes = [str(f) for f in check(net(op)).findings if f.code == "assumed-rank"]
    assert notes
    assert f"is assumed to have rank {expected['x']}, as {op.type} most often has" in notes[0]
    assert check(net(op)).covered


def test_a_description_overrides_assumptions() -> None:
    given = net(operator("MatMul", ["x", "w"], ["y"]))
    report = check(given, weights(w=(6, 2)), inputs={"x": ("float32", ["N", "T", 6])})
    assert not [finding for finding in report.findings if finding.code == "assumed-rank"]


def test_a_net_with_placeholders_runs_after_its_first_export() -> None:
    """Caffe2's translator from Caffe writes ConstantFill(shape=[1]) for the data; the weights come first here."""
    ops = [CONV, operator("Relu", ["y"], ["y"]), operator("FC", ["y", "u", "c"], ["z"])]
    predict = NetDef(name="n", op=ops, external_input=["w", "b", "u", "c", "x"], external_output=["z"])
    init = weights(w=(2, 3, 3, 3), b=(2,), u=(4, 2), c=(4,))
    init.op.append(operator("ConstantFill", [], ["x"], shape=[1]))
    model = to_onnx(predict, init)
    (data,) = model.graph.input
    assert [dim.dim_value for dim in data.type.tensor_type.shape.dim] == [0, 3, 0, 0]
    results = Session(model.SerializeToString()).run({"x": np.ones((1, 3, 3, 3), np.float32)})
    # 27 products of 0.5, with the bias 14; two channels with weights 0.5, and the bias.
    assert results["z"].tolist() == [[14.5] * 4]


def test_a_condition_has_one_element() -> None:
    body = net(operator("Relu", ["x"], ["y"]))
    branch = operator("If", ["c"], ["y"], then_net=body)
    ops = (operator("ConstantFill", [], ["k"], shape=[1]), operator("LT", ["k", "n"], ["c"]), branch)
    assert shapes(None, *ops, operator("Relu", ["y"], ["z"]))["n"] == [1]


def test_sizes_go_through_a_gather() -> None:
    ops = (operator("Gather", ["table", "ids"], ["rows"]), operator("Sum", ["rows", "other"], ["y"]))
    found = shapes(weights(table=(5, 4), other=(1, 3, 4)), *ops)
    assert found["ids"] == [1, 3]
