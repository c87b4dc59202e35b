"""Scales and shifts of channels become part of the convolution before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conformance.corpus import Array
from conformance.recording import operator
from support.exports import Specs, node_types, run

from caffe2_backend import to_netdef
from caffe2_bridge.graph_edit import construct_init_net_from_params
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import ExportOptions, analyze, to_onnx
from caffe2_frontend.pipeline import complete

CHANNELS = 4
RANDOM = np.random.default_rng(0)
NORM = operator("SpatialBN", ["c", "gamma", "beta", "mean", "var"], ["n"], is_test=1, epsilon=1e-3, order="NCHW")
AFFINE = operator("AffineChannel", ["c", "gamma", "beta"], ["n"])
RELU = operator("Relu", ["n"], ["y"])
X = RANDOM.standard_normal((2, 6, 5, 5)).astype(np.float32)
INPUTS: Specs = {"x": ("float32", ("N", 6, "H", "W"))}


def conv(output: str = "c", *, bias: bool = True, **arguments: Any) -> OperatorDef:
    """Return a convolution of x."""
    arguments.setdefault("kernels", [3, 3])
    return operator("Conv", ["x", "w", "b"] if bias else ["x", "w"], [output], **arguments)


def weights(*, rank: int = 2, group: int = 1) -> dict[str, Array]:
    """Return parameters of a convolution and of what follows it, far from 0 and 1."""
    made = {"w": RANDOM.standard_normal((CHANNELS, 6 // group, *[3] * rank))}
    made |= {name: RANDOM.standard_normal(CHANNELS) for name in ("b", "beta", "mean")}
    made |= {name: RANDOM.uniform(0.1, 30, CHANNELS) for name in ("gamma", "var")}
    return {name: array.astype(np.float32) for name, array in made.items()}


def exported(ops: Sequence[OperatorDef], parameters: dict[str, Array], outputs: Sequence[str], **options: Any) -> Any:
    """Return the model of a net with these parameters."""
    options.setdefault("inputs", INPUTS)
    init = construct_init_net_from_params(parameters)
    return to_onnx(NetDef(name="net", op=ops), init, outputs=list(outputs), **options)


@pytest.mark.parametrize("last", [NORM, AFFINE], ids=["SpatialBN", "AffineChannel"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("group", [1, 2])
def test_it_computes_the_same(last: OperatorDef, group: int, *, bias: bool) -> None:
    ops, parameters = [conv(bias=bias, group=group), last, RELU], weights(group=group)
    folded = exported(ops, parameters, ["y"])
    kept = exported(ops, parameters, ["y"], fold_batchnorm=False)
    assert [*node_types(folded.graph)] == ["Conv", "Relu"]
    assert len(kept.graph.node) > 2
    assert {each.name for each in folded.graph.initializer} == {"w_scaled", "w_shift"}
    (before,), (after,) = run(kept, {"x": X}), run(folded, {"x": X})
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5 * np.abs(before).max())


def test_a_bias_of_its_own() -> None:
    """PyTorch's Caffe2 backend wrote one after each convolution."""
    ops, parameters = [conv(bias=False), operator("Add", ["c", "b"], ["n"], broadcast=1, axis=1)], weights()
    model = exported(ops, parameters, ["n"])
    assert [*node_types(model.graph)] == ["Conv"]
    assert {each.name for each in model.graph.initializer} == {"w", "w_shift"}
    (before,), (after,) = run(exported(ops, parameters, ["n"], fold_batchnorm=False), {"x": X}), run(model, {"x": X})
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_a_convolution_of_volumes() -> None:
    ops, parameters = [conv(kernels=[3, 3, 3]), NORM], weights(rank=3)
    inputs = {"x": ("float32", ("N", 6, "D", "H", "W"))}
    x = RANDOM.standard_normal((1, 6, 3, 5, 4)).astype(np.float32)
    folded = exported(ops, parameters, ["n"], inputs=inputs)
    kept = exported(ops, parameters, ["n"], inputs=inputs, fold_batchnorm=False)
    assert [*node_types(folded.graph)] == ["Conv"]
    (before,), (after,) = run(kept, {"x": x}), run(folded, {"x": x})
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5 * np.abs(before).max())


@pytest.mark.parametrize(
    ("ops", "outputs"),
    [
        ([conv(), NORM], ["n", "c"]),
        ([conv(), NORM, operator("Add", ["n", "c"], ["y"])], ["y"]),
        ([conv(), operator("Relu", ["c"], ["r"]), operator("AffineChannel", ["r", "gamma", "beta"], ["n"])], ["n"]),
        ([conv(), conv("d", pads=[1, 1, 1, 1]), NORM], ["n", "d"]),
        ([conv(), operator("Add", ["c", "x4"], ["y"])], ["y"]),
    ],
    ids=["output", "other reader", "other node between", "shared weights", "no parameter"],
)
def test_others_stay(ops: Sequence[OperatorDef], outputs: Sequence[str]) -> None:
    inputs = {**INPUTS, "x4": ("float32", ("N", CHANNELS, "H2", "W2"))}
    inputs = {name: spec for name, spec in inputs.items() if any(name in op.input for op in ops)}
    folded, kept = (
        exported(ops, weights(), outputs, inputs=inputs, fold_batchnorm=chosen, opset=20) for chosen in (True, False)
    )
    assert [*node_types(folded.graph)] == [*node_types(kept.graph)]


def test_statistics_that_are_inputs_stay() -> None:
    parameters = weights()
    model = exported([conv(), NORM], parameters, ["n"], inputs={**INPUTS, "mean": ("float32", (CHANNELS,))})
    assert [*node_types(model.graph)] == ["Conv", "BatchNormalization"]


def test_a_note_tells_that_it_was_done() -> None:
    net, init = NetDef(name="net", op=[conv(), NORM]), construct_init_net_from_params(weights())
    for chosen in (True, False):
        state = complete(analyze(net, init, ExportOptions(inputs=INPUTS, outputs=["n"], fold_batchnorm=chosen)))
        told = [str(finding) for finding in state.findings if "SpatialBN" in finding.reason]
        assert len(told) == chosen
        assert all("--no-fold-batchnorm" in each for each in told)


def test_the_import_takes_the_folded_convolution() -> None:
    model = exported([conv(), NORM, RELU], weights(), ["y"])
    assert [op.type for op in to_netdef(model).predict_net.op] == ["Conv", "Relu"]
