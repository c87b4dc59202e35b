"""Edits of nets: what they change, what they refuse, and where other implementations are known to be wrong.

Modules: detection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from support.nets import lines, net, op

from caffe2_bridge import BridgeError, ConversionError
from caffe2_bridge.graph_edit import (
    fuse_alias_placeholder,
    get_sub_graph_external_input_output,
    group_norm_replace_aten_with_caffe2,
    identify_reshape_sub_graph,
    remove_dead_end_ops,
    remove_reshape_for_fc,
    rename_op_input,
    rename_op_output,
)
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.ssa import get_ssa


def test_renaming_an_input_reaches_external_lists_and_the_init_net() -> None:
    predict = net(op("FC", "x w b", "y"), inputs="x w b", outputs="y w")
    init = net(op("ConstantFill", "", "w"), op("Relu", "w", "w"), inputs="", outputs="w")
    renamed, made = rename_op_input(predict, init, 0, 1, "weights")
    assert lines(renamed) == ["FC(x, weights, b) -> y"]
    assert (list(renamed.external_input), list(renamed.external_output)) == (["x", "weights", "b"], ["y", "weights"])
    assert made is not None
    assert lines(made) == ["ConstantFill() -> w", "Relu(w) -> weights"]
    assert list(made.external_output) == ["weights"]
    assert lines(predict) == ["FC(x, w, b) -> y"]


def test_renaming_goes_by_version() -> None:
    predict = net(op("Relu", "x", "t"), op("Tanh", "t", "t"), op("Exp", "t", "y"))
    assert lines(rename_op_output(predict, 0, 0, "u")) == ["Relu(x) -> u", "Tanh(u) -> t", "Exp(t) -> y"]
    assert lines(rename_op_output(predict, 1, 0, "u")) == ["Relu(x) -> t", "Tanh(t) -> u", "Exp(u) -> y"]
    assert list(rename_op_output(predict, 2, 0, "z").external_output) == ["z"]


def test_renaming_enters_bodies_by_scope() -> None:
    inner = net(op("Add", "t here", "loc"), inputs="t here", outputs="loc")
    do = op("Do", "t ws", "r ws", net=net(op("Relu", "t", "r")), inner_blobs=["t", "r"], outer_blobs_idx=[0, 1])
    step = net(op("Add", "t now", "now"), inputs="t now", outputs="now")
    rnn = op(
        "RecurrentNetwork",
        "x s t",
        "all last ws2",
        step_net=step,
        link_internal=["now"],
        link_external=["x"],
        link_offset=[0],
        recurrent_states=["st"],
        initial_recurrent_state_ids=[1],
    )
    predict = net(
        op("Relu", "x", "t"),
        op("Exp", "x", "here"),
        op("CreateScope", "", "ws"),
        op("If", "c t here", "", then_net=inner),
        do,
        rnn,
        inputs="x c s",
        outputs="all r",
    )
    renamed = rename_op_output(predict, 0, 0, "new")
    assert lines(renamed.op[3].arg[0].n) == ["Add(new, here) -> loc"]
    assert lines(renamed.op[4].arg[0].n) == ["Relu(t) -> r"]
    assert list(renamed.op[4].input) == ["new", "ws"]
    assert lines(renamed.op[5].arg[0].n) == ["Add(new, now) -> now"]


def test_a_body_that_updates_a_blob_ties_its_names() -> None:
    loop = net(op("Add", "t one", "t"), inputs="t one", outputs="t")
    predict = net(
        op("Relu", "x", "t"), op("While", "c t one", "t", loop_net=loop), op("Exp", "t", "y"), inputs="x c one"
    )
    renamed = rename_op_output(predict, 1, 0, "u")
    assert lines(renamed) == ["Relu(x) -> u", "While(c, u, one) -> u", "Exp(u) -> y"]
    assert lines(renamed.op[1].arg[0].n) == ["Add(u, one) -> u"]


def test_renames_that_change_what_is_read_are_refused() -> None:
    predict = net(op("Relu", "x", "t"), op("Exp", "x", "u"), op("Add", "t u", "y"))
    with pytest.raises(ConversionError, match=r"predict\[2\] Add.*another value"):
        rename_op_output(predict, 0, 0, "u")
    with pytest.raises(ConversionError, match=r"predict\[0\] Relu.*'x' is also read by predict\[1\] Exp"):
        rename_op_input(predict, None, 0, 0, "z")
    assert lines(rename_op_input(predict, None, 0, 0, "z", from_producer=True)[0])[:2] == [
        "Relu(z) -> t",
        "Exp(z) -> u",
    ]
    with pytest.raises(BridgeError, match="operator index 3 is out of range"):
        rename_op_output(predict, 3, 0, "z")
    with pytest.raises(BridgeError, match="has no output 1"):
        rename_op_output(predict, 2, 1, "z")
    with pytest.raises(ConversionError, match="update of external input 'x'"):
        rename_op_output(net(op("ScatterAssign", "x i s", "x"), inputs="x i s", outputs="x"), 0, 0, "z")


def test_a_producer_stays_if_one_of_its_readers_does() -> None:
    """Detectron2's version calls a blob dead as soon as one of its readers is."""
    predict = net(op("Relu", "x", "t"), op("Exp", "t", "dead"), op("Tanh", "t", "y"), op("Print", "t", ""))
    assert lines(remove_dead_end_ops(predict)) == ["Relu(x) -> t", "Tanh(t) -> y", "Print(t) -> "]


def test_dead_ends_respect_what_bodies_read_and_do() -> None:
    body = net(op("Relu", "t", "y"), inputs="t", outputs="y")
    printing = net(op("Print", "u", ""), inputs="u", outputs="")
    predict = net(
        op("Exp", "x", "t"),
        op("Exp", "x", "u"),
        op("Exp", "x", "v"),
        op("If", "c", "y", then_net=body),
        op("If", "c", "", then_net=printing),
        op("If", "c", "", then_net=net(op("Exp", "v", "w"))),
        inputs="x c",
    )
    assert lines(remove_dead_end_ops(predict)) == ["Exp(x) -> t", "Exp(x) -> u", "If(c) -> y", "If(c) -> "]


def test_borders_count_what_bodies_read() -> None:
    body = net(op("Add", "t u", "v"), inputs="t u", outputs="v")
    predict = net(
        op("Relu", "x", "t"), op("Exp", "x", "u"), op("If", "c", "v", then_net=body), op("Exp", "v", "y"), inputs="x c"
    )
    assert get_sub_graph_external_input_output(predict, [2]) == ([("c", 0), ("t", 1), ("u", 1)], [("v", 1)])
    assert get_sub_graph_external_input_output(predict, [0, 1]) == ([("x", 0)], [("t", 1), ("u", 1)])
    with pytest.raises(BridgeError, match="operator index 9 is out of range"):
        get_sub_graph_external_input_output(predict, [9])


def flattening(*middle: OperatorDef, shape: str = "shape", **more: object) -> NetDef:
    return net(
        op("Conv", "x k", "a"),
        *middle,
        op("Reshape", f"a {shape}".strip(), "flat old", **more),
        op("FC", "flat w b", "y"),
        inputs="x k w b const minus",
    )


COMPUTED = (
    op("Shape", "a", "dims"),
    op("Slice", "dims", "n", starts=[0], ends=[1]),
    op("Concat", "n minus", "shape split", axis=0),
)


def test_reshapes_are_found_with_what_makes_their_shapes_near_the_head_too() -> None:
    """Detectron2's version looks from 15 operators before the first reader on, which is before the net's begin here."""
    assert identify_reshape_sub_graph(flattening(*COMPUTED)) == [[1, 2, 3, 4]]
    assert identify_reshape_sub_graph(flattening(shape="const")) == [[1]]
    assert identify_reshape_sub_graph(flattening(shape="", shape_=[0, -1])) == [[1]]


def test_a_flattening_reshape_goes_with_its_own_parameters_alone() -> None:
    """Detectron2's version drops parameters that other operators read as well."""
    predict = flattening(*COMPUTED)
    predict.op.append(op("Copy", "minus", "z"))
    params = {"minus": np.array([-1]), "w": np.zeros((2, 2)), "const": np.array([0, -1])}
    changed, left = remove_reshape_for_fc(predict, params)
    assert lines(changed) == ["Conv(x, k) -> a", "FC(a, w, b) -> y", "Copy(minus) -> z"]
    assert left.keys() == params.keys()
    changed, left = remove_reshape_for_fc(flattening(*COMPUTED), params)
    assert left.keys() == {"w", "const"}
    assert list(changed.external_input) == ["x", "k", "w", "b", "const"]
    assert lines(remove_reshape_for_fc(flattening(shape="const"), params)[0])[1] == "FC(a, w, b) -> y"


def test_a_reshape_that_does_more_than_flatten_stays() -> None:
    params = {"const": np.array([-1, 4]), "minus": np.array([-1])}
    rows = flattening(shape="const")  # FC on the data as it is would see other rows
    assert remove_reshape_for_fc(rows, params)[0] == rows
    read = flattening(*COMPUTED)
    read.op.append(op("Exp", "flat", "z"))
    assert remove_reshape_for_fc(read, params)[0] == read
    external = flattening(*COMPUTED)
    external.external_output.append("flat")
    assert remove_reshape_for_fc(external, params)[0] == external
    unread = net(op("Reshape", "x const", "y old"), inputs="x const")  # its shape is what the net gives
    assert remove_reshape_for_fc(unread, {"const": np.array([0, -1])})[0] == unread
    over = net(op("Reshape", "x const", "f o"), op("Exp", "k", "x"), op("FC", "f w b", "y"), inputs="x k w b const")
    assert remove_reshape_for_fc(over, {"const": np.array([0, -1])})[0] == over


WEIGHTS = {"k": np.zeros((3, 2, 5, 5)), "w": np.zeros((7, 12)), "b": np.zeros(7)}


@pytest.mark.parametrize("shape", [[-1, 12], [4, 12]])
@pytest.mark.parametrize(
    ("middle", "data"),
    [
        ((), "a"),
        ((op("Relu", "a", "a"), op("MaxPool", "a", "p", kernel=2), op("SpatialBN", "p s o m v", "q")), "q"),
        ((op("FC", "a w1 b1", "h"), op("Relu", "h", "h")), "h"),
        ((op("Relu", "rows", "a"),), "a"),
    ],
)
def test_a_constant_shape_before_an_fc_of_as_many_columns_goes(
    shape: list[int], middle: tuple[OperatorDef, ...], data: str
) -> None:
    params = WEIGHTS | {"w1": np.zeros((12, 6)), "const": np.array(shape)}
    ops = (op("Conv", "x k", "a"), *middle)
    inputs = "x k w b w1 b1 rows const"
    for reshape in (op("Reshape", f"{data} const", "flat old"), op("Reshape", data, "flat old", shape=shape)):
        predict = net(*ops, reshape, op("FC", "flat w b", "y"), inputs=inputs)
        changed, _ = remove_reshape_for_fc(predict, params, input_shapes={"rows": (5, 3, 4)})
        assert lines(changed) == [*lines(net(*ops)), f"FC({data}, w, b) -> y"]


@pytest.mark.oracle
def test_real_caffe2_computes_the_same_without_reshapes() -> None:
    draw = np.random.default_rng(0)
    feeds = {
        name: draw.normal(size=size).astype(np.float32)
        for name, size in {"x": (4, 2, 6, 6), "k": (3, 2, 5, 5), "w": (7, 12), "b": (7,)}.items()
    }
    runs = []
    for shape in ([-1, 12], [4, 12]):
        reshape = op("Reshape", "a", "flat old", shape=shape)
        given = net(op("Conv", "x k", "a", kernel=5), reshape, op("FC", "flat w b", "y"), inputs="x k w b")
        changed, _ = remove_reshape_for_fc(given, feeds)
        assert len(changed.op) == 2
        runs += [OracleRun(form, inputs=feeds, outputs=["y"]) for form in (given, changed)]
    results = run_oracle(runs)
    for result in results:
        assert result.error == ""
        np.testing.assert_array_equal(result.outputs["y"], results[0].outputs["y"])


@pytest.mark.parametrize(
    "given",
    [
        (op("Conv", "x k", "a"), op("Reshape", "a", "flat old", shape=[-1, 6])),  # an FC of other columns
        (op("Conv", "x k", "a", order="NHWC"), op("Reshape", "a", "flat old", shape=[-1, 12])),
        (op("Transpose", "x", "a"), op("Reshape", "a", "flat old", shape=[-1, 12])),
        (op("Conv", "x k5", "a"), op("Reshape", "a", "flat old", shape=[-1, 12])),  # 5 channels
        (op("AveragePool", "rows", "a", global_pooling=1), op("Reshape", "a", "flat old", shape=[-1, 12])),
        (op("Reshape", "x", "flat old", shape=[-1, 12]),),  # of unknown shape
        (op("Reshape", "rows", "flat old", shape=[-1, 12]),),  # FC reads 24 columns
        (op("Conv", "x k", "a"), op("Reshape", "a", "flat old", shape=[-1, 3, 4])),
        (op("Flatten", "rows", "a", axis=2), op("Reshape", "a", "flat old", shape=[-1, 12])),
    ],
)
def test_a_constant_shape_that_may_mix_rows_stays(given: tuple[OperatorDef, ...]) -> None:
    params = WEIGHTS | {"k5": np.zeros((5, 2, 5, 5))}
    predict = net(*given, op("FC", "flat w b", "y"), inputs="x rows k k5 w b")
    assert remove_reshape_for_fc(predict, params, input_shapes={"rows": (2, 6, 4)})[0] == predict


def test_aliases_give_their_name_and_go() -> None:
    predict = net(
        op("AliasWithName", "x", "d", name="data", is_backward=1),
        op("Relu", "d", "t"),
        op("Exp", "x", "e"),
        op("Add", "t e", "s"),
        op("AliasWithName", "s", "r", name="result"),
        op("Copy", "r", "y"),
        outputs="y r",
    )
    fused, init = fuse_alias_placeholder(predict, net(op("ConstantFill", "", "x"), inputs="", outputs="x"))
    assert lines(fused) == ["Relu(data) -> t", "Exp(data) -> e", "Add(t, e) -> result", "Copy(result) -> y"]
    assert (list(fused.external_input), list(fused.external_output)) == (["data"], ["y", "result"])
    assert init is not None
    assert lines(init) == ["ConstantFill() -> data"]
    predict.op[0].arg[1].i = 0
    with pytest.raises(ConversionError, match=r"predict\[0\] AliasWithName.*also read by predict\[2\] Exp"):
        fuse_alias_placeholder(predict)
    del predict.op[4].arg[:]
    with pytest.raises(ConversionError, match=r"(?s)predict\[0\].*predict\[4\] AliasWithName.*'name' is missing"):
        fuse_alias_placeholder(predict)


def test_group_norm_of_aten_becomes_caffe2s() -> None:
    args = {"operator": "group_norm", "num_groups": 4, "eps": 0.5, "cudnn_enabled": 0}
    body = net(op("ATen", "x g b", "y", **args), op("ATen", "y", "z", operator="sin"), inputs="x g b")
    predict = net(op("If", "c", "y", then_net=body), op("ATen", "y g b", "z", **args), inputs="c x g b")
    found = group_norm_replace_aten_with_caffe2(predict)
    expected = [Argument(name="group", i=4), Argument(name="epsilon", f=0.5)]
    inner = found.op[0].arg[0].n
    assert [o.type for o in (found.op[1], *inner.op)] == ["GroupNorm", "GroupNorm", "ATen"]
    assert list(found.op[1].arg) == list(inner.op[0].arg) == expected
    assert predict.op[1].type == "ATen"


def test_an_output_that_is_listed_twice_has_the_version_of_the_last() -> None:
    predict = net(op("Split", "x", "a a"), op("Relu", "a", "y"))
    assert get_ssa(predict)[0][0][1] == [("a", 2), ("a", 2)]
    assert get_sub_graph_external_input_output(predict, [0]) == ([("x", 0)], [("a", 2)])
    assert get_sub_graph_external_input_output(predict, [1]) == ([("a", 2)], [("y", 1)])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0, 0, None), "new_name must be a blob name that is not empty, not None"),
        ((0, 0, ""), "new_name must be a blob name"),
        ((0, 0, 3), "new_name must be a blob name"),
        (("a", 0, "n"), "op_id must be an integer, not 'a'"),
        ((None, 0, "n"), "op_id must be an integer, not None"),
    ],
)
def test_renames_refuse_arguments_of_another_type(arguments: tuple[Any, Any, Any], reason: str) -> None:
    predict = net(op("Relu", "x", "y"))
    with pytest.raises(BridgeError, match=reason):
        rename_op_output(predict, *arguments)
    with pytest.raises(BridgeError, match=reason):
        rename_op_input(predict, None, *arguments)
    with pytest.raises(BridgeError, match=r"output_id must be an integer, not 0\.5"):
        rename_op_output(predict, 0, 0.5, "n")  # type: ignore[arg-type]
    with pytest.raises(BridgeError, match="input_id must be an integer, not 'x'"):
        rename_op_input(predict, None, 0, "x", "n")  # type: ignore[arg-type]
    with pytest.raises(BridgeError, match="op_indices must hold integers, not 'a'"):
        get_sub_graph_external_input_output(predict, ["a"])  # type: ignore[list-item]
