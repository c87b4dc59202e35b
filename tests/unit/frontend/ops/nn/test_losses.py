"""Losses: sizes that stay out of the graph, and hierarchies that are malformed."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, export, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def test_sizes_are_not_in_the_graph() -> None:
    op = operator("LambdaRankNdcg", ["y", "r", "n"], ["loss", "slope"])
    scores = ("float32", ("N",))
    one = export(op, {"y": scores, "r": scores, "n": ("int32", (1,))})
    many = export(op, {"y": scores, "r": scores, "n": ("int32", (1000,))})
    assert len(one.graph.node) == len(many.graph.node)


@pytest.mark.parametrize("hierarchy", [b"", b"\x12", b"\x12\x08\x12\x06\x10\xff\xff\xff\xff\x07"])
def test_what_is_no_hierarchy_is_refused(hierarchy: bytes) -> None:
    weights: Specs = {"X": ("float32", ("N", 5)), "W": ("float32", (13, 5)), "b": ("float32", (13,))}
    op = operator("HSoftmax", ["X", "W", "b", "l"], ["Y", "Z"], hierarchy=hierarchy)
    with pytest.raises(ConversionError, match="hierarchy"):
        export(op, {**weights, "l": ("int32", ("N",))})


SOFTMAX_LOSS: Specs = {"X": ("float32", ("N", 5)), "l": ("int32", ("N",))}


@pytest.mark.parametrize("order", ["NCHW", "nchw"])
def test_both_spellings_of_the_order_are_read(order: str) -> None:
    plain = export(operator("SoftmaxWithLoss", ["X", "l"], ["P", "loss"]), SOFTMAX_LOSS)
    ordered = export(operator("SoftmaxWithLoss", ["X", "l"], ["P", "loss"], order=order), SOFTMAX_LOSS)
    assert [node.op_type for node in ordered.graph.node] == [node.op_type for node in plain.graph.node]


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        (operator("SoftmaxWithLoss", ["X", "l"], ["P", "loss"], order="NHWC"), "X"),
        (operator("SoftmaxWithLossGradient", ["X", "l", "X", "l"], ["dX"], order="NHWC"), "the operands"),
    ],
)
def test_another_order_is_refused_with_a_hint(op: OperatorDef, operands: str) -> None:
    with pytest.raises(ConversionError, match=rf"(?s)order must be NCHW.*convert {operands} with NHWC2NCHW"):
        export(op, SOFTMAX_LOSS)


def test_a_scalar_has_no_pairs() -> None:
    model = export(operator("PairWiseLoss", ["X", "label"], ["loss"]), {"X": ("float32", ()), "label": ("float32", ())})
    assert run(model, dict.fromkeys(("X", "label"), np.array(1, np.float32)))[0].shape == (0,)
    scalars = {"X": ("float32", ()), "label": ("float32", ()), "n": ("int32", (1,))}
    model = export(operator("PairWiseLoss", list(scalars), ["loss"]), scalars)
    one = np.array(1, np.float32)
    assert run(model, {"X": one, "label": one, "n": np.ones(1, np.int32)})[0].shape == (0,)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_scores_of_an_average_precision_are_a_matrix(rank: int) -> None:
    shape = (None,) * rank
    with pytest.raises(ConversionError, match="scores must have rank 2"):
        export(operator("APMeter", ["X", "L"], ["AP"]), {"X": ("float32", shape), "L": ("int32", shape)})
