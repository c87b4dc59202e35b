"""Nets that are cut at host operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.control.branch import if_arguments
from caffe2_bridge.control.do import do_arguments
from caffe2_bridge.control.while_loop import while_arguments
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def fill(name: str, value: float, **more: Any) -> OperatorDef:
    return operator("ConstantFill", [], [name], shape=[1], value=value, **more)


def test_stages_run_in_order_on_what_is_there() -> None:
    """Check that values go from stage to stage, states to the next run, and that all blobs can be fetched."""
    workspace = Workspace()
    workspace.run_net_once(NetDef(name="init", op=[fill("w", 1.0), operator("CreateCounter", [], ["c"])]))
    net = NetDef(
        name="net",
        op=[
            operator("Add", ["w", "x"], ["a"]),
            operator("CountUp", ["c"], ["n"]),
            operator("Cast", ["n"], ["f"], to=1),
            operator("Add", ["a", "f"], ["w"]),
            operator("Mul", ["a", "a"], ["b"]),
            operator("RetrieveCount", ["c"], ["m"]),
        ],
    )
    workspace.create_net(net)
    workspace.feed("x", np.float32([2]))
    expected = 1.0
    for turn in range(3):
        workspace.run_net("net")
        a = expected + 2
        expected = a + turn
        for name, value in (("a", a), ("w", expected), ("b", a * a), ("n", turn), ("m", turn + 1)):
            assert workspace.fetch(name) == value, name
    assert workspace.conversions() == 3  # two parts of the net and the fill


def test_a_later_stage_reads_what_the_workspace_had() -> None:
    workspace = Workspace()
    workspace.feed("x", np.float32([2]))
    with pytest.raises(RunError, match=r"reads blob 'nothing'"):
        workspace.run_net_once(
            NetDef(
                name="net",
                op=[
                    operator("CreateCounter", [], ["c"]),
                    operator("Mul", ["x", "x"], ["y"]),
                    operator("CountUp", ["c"], ["n"]),
                    operator("Mul", ["nothing", "x"], ["z"]),
                ],
            )
        )
    assert workspace.fetch("y") == 4  # the operators before the one that failed have run, as in Caffe2


def test_every_blob_of_a_net_with_host_operators() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"]))
    workspace.feed("x", np.float32([2]))
    loop = operator("If", ["yes"], [], **if_arguments(NetDef(name="then", op=[operator("CountUp", ["c"], ["n"])])))
    workspace.feed("yes", np.array([True]))
    workspace.create_net(
        NetDef(
            name="net",
            op=[operator("Mul", ["x", "x"], ["y"]), operator("CountUp", ["c"], ["k"]), loop],
        )
    )
    for bodies in (False, True):
        trace = workspace.run_net("net", every_blob=True, bodies=bodies)
        assert {name: array.item() for name, array in trace.blobs.items() if name != "n"} == {"y": 4, "k": 2 * bodies}
        assert workspace.fetch("n") == 1 + 2 * bodies


def test_bodies_with_host_operators() -> None:
    """Run a While whose body counts, with an If and a Do in it."""
    then = NetDef(name="then", op=[operator("CountUp", ["odd"], ["n"]), operator("Add", ["total", "one"], ["total"])])
    inner = NetDef(name="inner", op=[operator("RetrieveCount", ["counter"], ["count"])])
    bound = do_arguments(inner, {"counter": "odd", "count": "seen"}, ["odd"], ["seen"])
    body = NetDef(
        name="body",
        op=[
            operator("Not", ["flip"], ["flop"]),
            operator("Copy", ["flop"], ["flip"]),
            operator("If", ["flip"], ["total"], **if_arguments(then)),
            operator("Do", ["odd", "stack"], ["seen", "stack"], **bound),
            operator("CountDown", ["left"], ["done"]),
            operator("Not", ["done"], ["go"]),
        ],
    )
    net = NetDef(
        name="net",
        op=[
            operator("CreateCounter", [], ["left"], init_count=4),
            operator("CreateCounter", [], ["odd"]),
            operator("CreateScope", [], ["stack"]),
            fill("go", 1, dtype=5),
            fill("flip", 0, dtype=5),
            fill("one", 1.0),
            fill("total", 10.0),
            operator("While", ["go"], ["go"], **while_arguments(body)),
            operator("Mul", ["total", "total"], ["square"]),
        ],
    )
    workspace = Workspace()
    for _ in range(2):
        workspace.run_net_once(net)
        found = {name: workspace.fetch(name) for name in ("total", "square", "seen", "n")}
        assert found == {"total": 13, "square": 169, "seen": 3, "n": 2}
    assert not workspace.has_blob("count")


def test_a_missing_converter_is_still_reported() -> None:
    workspace = Workspace()
    workspace.feed("x", np.float32([2]))
    net = NetDef(name="net", op=[operator("CreateMutex", [], ["m"]), operator("NoSuchOperator", ["x"], ["y"])])
    with pytest.raises(ConversionError, match="NoSuchOperator"):
        workspace.run_net_once(net)


def test_an_object_is_no_input_of_a_tensor_operator() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"]))
    with pytest.raises(RunError, match=r"Mul reads blob 'c', which is a .*Counter.* and not a tensor"):
        workspace.run_operator_once(operator("Mul", ["c", "c"], ["y"]))


def test_errors_name_the_operator_of_the_whole_net() -> None:
    """Fail also in a later part, in a body, and in a part that reads an object that was made before."""
    workspace = Workspace()
    workspace.run_net_once(NetDef(op=[operator("CreateMutex", [], ["m"]), operator("CreateCounter", [], ["c"])]))
    workspace.feed("yes", np.array([True]))
    workspace.feed("i", np.array([1]))
    count = operator("CountUp", ["c"], ["n"])
    bad = operator("NoSuchOperator", ["n"], ["y"])
    missing = operator("Mul", ["nothing", "nothing"], ["y"])
    cases = [
        ([count, count, operator("Copy", ["n"], ["x"]), missing], r"^net\[3\] Mul reads blob 'nothing'", 3),
        ([count, operator("Copy", ["n"], ["x"]), bad], r"^net\[2\] NoSuchOperator: ", None),
        ([count, operator("AtomicIter", ["m", "i"], ["i"]), bad], r"^net\[2\] NoSuchOperator: ", None),
        ([count, operator("CountUp", ["yes"], ["n"])], r"^net\[1\] CountUp: blob 'yes' must be", 1),
    ]
    for ops, message, index in cases:
        for net, prefix, place in (
            (NetDef(name="net", op=ops), "", index),
            (
                NetDef(
                    name="outer",
                    op=[count, operator("If", ["yes"], [], **if_arguments(NetDef(name="net", op=ops)))],
                ),
                r"outer\[1\] If > ",
                1,
            ),
        ):
            found = message if not prefix else "^" + prefix + message[1:].replace("net", "then_net", 1)
            with pytest.raises((ConversionError, RunError), match=found) as raised:
                workspace.run_net_once(net)
            if isinstance(raised.value, RunError):
                assert raised.value.operator == place


def test_a_child_finds_the_blobs_of_its_parent() -> None:
    parent = Workspace()
    parent.feed("x", np.float32([2]))
    child = parent.child()
    child.run_net_once(NetDef(name="net", op=[operator("Mul", ["x", "x"], ["y"]), operator("Add", ["x", "y"], ["x"])]))
    assert parent.fetch("x") == 6
    assert not parent.has_blob("y")
    assert child.fetch("y") == 4
    assert child.blobs() == ["x", "y"]
    assert parent.blobs() == ["x"]


@pytest.mark.parametrize("cut", [False, True])
def test_what_ran_before_an_error_stays(cut: bool) -> None:
    workspace = Workspace()
    for name, shape in {"a": (2, 2), "v": (3, 5), "count": (1,), "one": (1,)}.items():
        workspace.feed(name, np.ones(shape, np.float32))
    ops = [
        operator("Scale", ["a"], ["w"], scale=5.0),
        *([operator("Print", ["w"], [])] if cut else []),
        operator("Add", ["count", "one"], ["count"]),
        operator("MatMul", ["w", "v"], ["z"]),
        operator("Copy", ["one"], ["later"]),
    ]
    net = NetDef(name="net", op=ops)
    for _ in range(2):
        with pytest.raises((RunError, ConversionError), match=rf"net\[{2 + cut}\] MatMul"):
            workspace.run_net_once(net)
    assert workspace.fetch("w").tolist() == [[5, 5], [5, 5]]  # type: ignore[union-attr]  # an array
    assert workspace.fetch("count").tolist() == [3]  # type: ignore[union-attr]
    assert not {"z", "later"} & set(workspace.blobs())


def test_an_error_while_a_net_runs_names_the_operator_and_its_inputs() -> None:
    workspace = Workspace()
    workspace.feed("table", np.ones((3, 2), np.float32))
    workspace.feed("ids", np.array([0, 9]))
    net = NetDef(name="net", op=[operator("Copy", ["ids"], ["i"]), operator("Gather", ["table", "i"], ["rows"])])
    with pytest.raises(RunError, match=r"(?s)net\[1\] Gather: .*\(inputs: table, i\)$") as caught:
        workspace.run_net_once(net)
    assert caught.value.operator == 1
    assert workspace.fetch("i").tolist() == [0, 9]  # type: ignore[union-attr]


def test_an_operator_without_outputs_that_nobody_knows_is_refused() -> None:
    workspace = Workspace()
    workspace.feed("x", np.ones(1, np.float32))
    unknown = operator("NoSuchOperator", ["x"], [])
    net = NetDef(name="net", op=[operator("Copy", ["x"], ["y"]), unknown])
    for run in (workspace.run_net_once, workspace.create_net):
        with pytest.raises(RunError, match=r"net\[1\] NoSuchOperator: no operator has this type") as caught:
            run(net)
        assert caught.value.operator == 1
    with pytest.raises(RunError, match="NoSuchOperator: no operator has this type"):
        workspace.run_operator_once(unknown)
    workspace.create_net(NetDef(name="other", op=[operator("Conv_ENGINE_MADE_UP", ["x", "x"], [])]))


@pytest.mark.parametrize("condition", [True, False])
def test_branches_that_leave_other_types_and_ranks(condition: bool) -> None:
    """Run a net that no ONNX model is, whose later operators read what the branch that ran has left."""
    then = NetDef(op=[operator("Cast", ["x"], ["y"], to=2), operator("ExpandDims", ["x"], ["z"], dims=[0])])
    other = NetDef(op=[operator("Copy", ["x"], ["y"]), operator("SumElements", ["x"], ["z"])])
    ops = [operator("If", ["c", "x"], ["y", "z"], **if_arguments(then, other)), operator("Negative", ["z"], ["last"])]
    workspace = Workspace()
    workspace.create_net(NetDef(name="net", op=ops))
    for turn in range(3):
        x = np.float32([turn, 1.5])
        workspace.feed("c", np.array([condition]))
        workspace.feed("x", x)
        workspace.run_net("net")
        y, last = workspace.fetch("y"), workspace.fetch("last")
        np.testing.assert_array_equal(y, x.astype(np.int32 if condition else np.float32), strict=True)
        np.testing.assert_array_equal(last, -x[None] if condition else -np.float32(x.sum()).reshape(()), strict=True)
        condition = not condition


def test_a_loop_whose_state_changes_its_rank() -> None:
    workspace = Workspace()
    for name, value in {"x": [1, 2], "i": [0], "one": [1], "limit": [3]}.items():
        workspace.feed(name, np.float32(value))
    grow = NetDef(
        op=[
            operator("ExpandDims", ["x"], ["x"], dims=[0]),
            operator("Add", ["i", "one"], ["i"]),
            operator("LT", ["i", "limit"], ["go"]),
        ]
    )
    workspace.feed("go", np.bool_(1).reshape(()))
    workspace.run_net_once(NetDef(name="net", op=[operator("While", ["go"], ["x", "i"], **while_arguments(grow))]))
    np.testing.assert_array_equal(workspace.fetch("x"), np.float32([[[[1, 2]]]]), strict=True)
    np.testing.assert_array_equal(workspace.fetch("go"), np.array([False]), strict=True)


def test_what_cannot_run_through_bodies_either_is_refused_as_a_whole() -> None:
    workspace = Workspace()
    workspace.feed("c", np.array([True]))
    workspace.feed("x", np.float32([[1, 2]]))
    then = NetDef(op=[operator("Cast", ["x"], ["y"], to=2)])
    other = NetDef(op=[operator("Copy", ["x"], ["y"])])
    choose = operator("If", ["c", "x"], ["y"], **if_arguments(then, other))
    wrong = operator("Softmax", ["x"], ["z"], engine="CUDNN", axis=7)
    with pytest.raises(ConversionError, match=r"axis") as raised:
        workspace.run_net_once(NetDef(name="net", op=[choose, wrong]))
    assert len(raised.value.errors) == 2
