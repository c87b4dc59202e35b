from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.random_values import RandomValues

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_compat import workspace
from caffe2_compat.extension import transforms


@pytest.fixture(autouse=True)
def _workspace() -> Iterator[None]:
    with workspace.WorkspaceGuard("transforms"):
        yield
        workspace.ResetWorkspace()


def net_of(*ops: OperatorDef) -> bytes:
    return NetDef(name="n", op=ops).SerializeToString()


def conv(x: str, y: str, *parameters: str, **args: object) -> OperatorDef:
    return make_operator("Conv", [x, *parameters], [y], kernel=3, **args)


def relu(x: str, y: str) -> OperatorDef:
    return make_operator("Relu", [x], [y])


def test_engines_for_nnpack() -> None:
    ops = [conv("x", "a", "w", "b"), conv("x", "c", "w"), conv("x", "d", "w", "b", stride=2), relu("x", "e")]
    net = NetDef.FromString(transforms.run_transform("AddNNPACK", net_of(*ops)))
    assert [op.engine for op in net.op] == ["NNPACK", "", "", ""]
    net = NetDef.FromString(transforms.apply_transform(b"ConvToNNPack", net_of(*ops)))
    assert [op.engine for op in net.op] == ["NNPACK", "NNPACK", "NNPACK", ""]


def fused(*ops: OperatorDef, output: str = "") -> list[tuple[str, list[str], list[str]]]:
    net = NetDef.FromString(transforms.transform_addNNPACK(net_of(*ops)))
    net.external_output.extend([output] if output else [])
    net = NetDef.FromString(transforms.transform_fuseNNPACKConvRelu(net.SerializeToString()))
    return [(op.type, list(op.input[:1]), list(op.output)) for op in net.op]


def test_relu_is_fused_where_it_alone_reads_the_convolution() -> None:
    first = conv("x", "y", "w", "b")
    assert fused(first, relu("y", "z")) == [("Conv", ["x"], ["z"])]
    assert len(fused(first, relu("y", "z"), relu("y", "u"))) == 3
    assert len(fused(first, relu("y", "z"), output="y")) == 2
    assert fused(first, relu("y", "y"), output="y") == [("Conv", ["x"], ["y"])]


def test_a_fused_convolution_does_not_write_its_input() -> None:
    ops = conv("x", "y", "w", "b"), relu("y", "x"), conv("x", "y", "w", "b")
    first, second = fused(*ops)
    assert first[2] == second[1] != ["x"]
    (only,) = fused(conv("x", "y", "w", "b"), relu("y", "x"), output="x")
    assert only[2] != ["x"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_spatial_bn_is_fused_into_parameters(order: str, bias: bool, random: RandomValues) -> None:
    shapes = {"x": (2, 3, 7, 7), "w": (4, 3, 3, 3)}
    if order == "NHWC":
        shapes = {name: (shape[0], *shape[2:], shape[1]) for name, shape in shapes.items()}
    for name, shape in (shapes | dict.fromkeys(["b", "scale", "_bias0", "mean", "var"], (4,))).items():
        workspace.FeedBlob(name, np.abs(random.normal(*shape)) + np.float32(0.5))
    bn = make_operator(
        "SpatialBN", ["y", "scale", "_bias0", "mean", "var"], ["z"], is_test=1, order=order, epsilon=1e-3
    )
    net = net_of(conv("x", "y", "w", *(["b"] if bias else []), order=order), bn)
    workspace.RunNetOnce(net)
    expected = workspace.FetchBlob("z")
    rewritten = NetDef.FromString(transforms.run_workspace_transform("FuseConvBN", net))
    assert [op.type for op in rewritten.op] == ["Conv"]
    assert rewritten.op[0].input[2] == ("b" if bias else "_bias1")
    workspace.RunNetOnce(rewritten)
    np.testing.assert_allclose(workspace.FetchBlob("z"), expected, rtol=1e-4)


def test_spatial_bn_for_training_stays() -> None:
    bn = make_operator("SpatialBN", ["y", "scale", "bias", "mean", "var"], ["z"])
    net = net_of(conv("x", "y", "w"), bn)
    assert len(NetDef.FromString(transforms.transform_fuseConvBN(net)).op) == 2


def test_the_faster_net_is_returned(random: RandomValues) -> None:
    workspace.FeedBlob("w", random.normal(4, 3, 3, 3))
    init = net_of(make_operator("ConstantFill", [], ["x"], shape=[1, 3, 5, 5], value=1.0))
    net = net_of(conv("x", "y", "w"))
    assert transforms.apply_transform_if_faster("ConvToNNPack", net, init, 1, 2, 1e9) == net
    rewritten = transforms.apply_transform_if_faster("ConvToNNPack", net, init, 1, 2, 0.0)
    assert NetDef.FromString(rewritten).op[0].engine == "NNPACK"


def test_unknown_transforms() -> None:
    assert transforms.transform_exists("AddNNPACK")
    assert not transforms.transform_exists("FuseConvBN")
    assert transforms.workspace_transform_exists(b"FuseConvBN")
    with pytest.raises(RunError, match="transform 'X' does not exist; known ones are AddNNPACK, FuseNNPACKConvRelu"):
        transforms.run_transform("X", net_of())


def test_nets_as_they_are_and_in_ssa_form() -> None:
    net = net_of(relu("x", "x"), relu("x", "x"))
    assert transforms.memonger_optimize_inference_net(net, []) == net
    assert transforms.memonger_compute_blob_recycling_for_dag(net, [], [], set(), "", set(), {}) == net
    ops = NetDef.FromString(transforms.ssa_rewrite(net)).op
    assert ops[0].output[0] == ops[1].input[0] != ops[1].output[0]
