"""Gradients of nets: against what real Caffe2's Python made of them, and where that is wrong, by name."""

from __future__ import annotations

from typing import Any

import pytest
from support.gradients.caffe2_gradients import gradient, operator, read_cases
from support.nets import parse

from caffe2_bridge.gradients import GradientError, SparseGradient, add_gradient_operators, get_backward_pass
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def make_net(*ops: tuple[str, list[str], list[str]], **arguments: Any) -> NetDef:
    """Return a net of operators (type, inputs, outputs); ``arguments`` are those of all, floats."""
    made = NetDef(name="net")
    for op_type, inputs, outputs in ops:
        op = made.op.add(type=op_type, input=inputs, output=outputs)
        for name, value in arguments.items():
            op.arg.add(name=name, f=value)
    return made


def added(found: Any, source: NetDef) -> list[tuple[str, list[str], list[str]]]:
    return [(op.type, list(op.input), list(op.output)) for op in found.net.op[len(source.op) :]]


def ordered(operators: list[OperatorDef]) -> list[bytes]:
    return sorted(op.SerializeToString(deterministic=True) for op in operators)


def test_recorded_nets() -> None:
    """Compare operators, arguments and names; the order of the sums of one operator's inputs is a set's there."""
    equal = refused = copies = repaired = 0
    only_ours = []
    for case in read_cases("nets.jsonl.xz"):
        source = parse(case["net"])
        before = source.SerializeToString(deterministic=True)
        try:
            found = add_gradient_operators(source, case["ys"])
        except GradientError as error:
            if "error" in case:
                refused += 1
            else:
                only_ours.append(str(error))
            continue
        if "error" in case:
            if "Gradient operator needs input" in case["error"]:
                # Real Caffe2 takes the device of a blob that was overwritten for its value.
                assert any(op.type == "CopyOnDeviceLike" for op in found.net.op), case["net"]
            else:
                # Two gradients of one name, one of them handed on by a Sum in place: here they get two names.
                assert "The gradient output of empty gradient op" in case["error"], case["net"]
                assert any("_protected_" in name for op in found.net.op for name in op.output), case["net"]
            copies += 1
            continue
        assert source.SerializeToString(deterministic=True) == before
        operators = found.net.op[len(source.op) :]
        written = {name for op in operators for name in op.output}
        if any("_protected_" in name for name in written):
            repaired += 1  # real Caffe2 writes over a gradient that is read
            continue
        assert ordered(list(operators)) == ordered([operator(text) for text in case["operators"]]), case["net"]
        assert found.gradients == {name: gradient(plain) for name, plain in case["gradients"].items()}, case["net"]
        assert found.net.op[: len(source.op)] == source.op
        equal += 1
    assert equal > 1000
    assert refused > 100
    assert copies < 20
    assert repaired < 100
    # A Sum hands on the gradient of what was overwritten; real Caffe2 does not look at that.
    assert len(only_ours) < 10
    assert all("Sum: its gradient needs" in reason and "overwrote the blob" in reason for reason in only_ours)


def test_fan_out_is_summed() -> None:
    source = make_net(("Relu", ["x"], ["a"]), ("Tanh", ["x"], ["b"]), ("Mul", ["a", "b"], ["y"]))
    found = add_gradient_operators(source, ["y"])
    assert added(found, source) == [
        ("ConstantFill", ["y"], ["y_autogen_grad"]),
        ("MulGradient", ["y_autogen_grad", "a", "b"], ["a_grad", "b_grad"]),
        ("TanhGradient", ["b", "b_grad"], ["x_grad"]),
        ("ReluGradient", ["a", "a_grad"], ["_x_grad_autosplit_0"]),
        ("Sum", ["x_grad", "_x_grad_autosplit_0"], ["x_grad"]),
    ]
    assert found.gradients == {"y": "y_autogen_grad", "a": "a_grad", "b": "b_grad", "x": "x_grad"}


def test_operators_that_no_loss_depends_on_get_no_gradient() -> None:
    source = make_net(("Relu", ["x"], ["y"]), ("NoSuchOp", ["x"], ["z"]))
    found = add_gradient_operators(source, {"y": "given"})
    assert added(found, source) == [("ReluGradient", ["y", "given"], ["x_grad"])]
    skipped = make_net(("NoSuchOp", ["r"], ["x"]), ("Relu", ["x"], ["y"]))
    assert len(add_gradient_operators(skipped, "y", skip=1).net.op) == 4
    with pytest.raises(GradientError, match=r"net\[0\] NoSuchOp: operator NoSuchOp has no gradient"):
        add_gradient_operators(skipped, "y")
    with pytest.raises(GradientError, match=r"skip \(-1\) must not be negative"):
        add_gradient_operators(skipped, "y", skip=-1)


def test_overwritten_blob_is_an_error_that_says_where() -> None:
    source = make_net(("Mul", ["x", "w"], ["y"]), ("Relu", ["y"], ["x"]))
    with pytest.raises(
        GradientError, match=r"net\[0\] Mul: its gradient needs the input 'x' at version 0.*net\[1\] Relu"
    ):
        add_gradient_operators(source, ["y"])
    source = make_net(("Tanh", ["x"], ["y"]), ("Sum", ["y"], ["z"]), ("Exp", ["x"], ["y"]))
    with pytest.raises(GradientError, match=r"net\[0\] Tanh: its gradient needs the output 'y'.*net\[2\] Exp"):
        add_gradient_operators(source, ["z"])
    source = make_net(("Relu", ["x"], ["x"]), ("Relu", ["y"], ["x"]), ("Relu", ["x"], ["y"]))
    with pytest.raises(GradientError, match="version"):
        add_gradient_operators(source, {"y": "y_grad"})


def test_a_copy_of_what_is_overwritten_has_a_gradient() -> None:
    """Its gradient operator reads the device of the operand only."""
    source = make_net(("Copy", ["h"], ["before"]), ("Mul", ["before", "w"], ["h"]))
    found = add_gradient_operators(source, {"h": "given"})
    assert added(found, source) == [
        ("MulGradient", ["given", "before", "w"], ["before_grad", "w_grad"]),
        ("CopyOnDeviceLike", ["before_grad", "h"], ["h_grad"]),
    ]


def test_losses() -> None:
    source = make_net(("Relu", ["x"], ["y"]), ("Tanh", ["y"], ["z"]))
    assert added(add_gradient_operators(source, {"z": None}), source)[0] == ("ConstantFill", ["z"], ["z_autogen_grad"])
    with pytest.raises(GradientError, match="net: loss 'q' is not a blob"):
        add_gradient_operators(source, ["q"])
    found = add_gradient_operators(source, ["z", "y"])
    assert found.gradients["y"] == "y_autogen_grad"
    assert ("Sum", ["y_autogen_grad", "_y_grad_autosplit_0"], ["y_autogen_grad"]) in added(found, source)


def test_loss_on_a_device_gets_its_gradient_there() -> None:
    source = make_net(("Relu", ["x"], ["y"]))
    source.op[0].device_option.device_type = 1
    found = add_gradient_operators(source, ["y"])
    assert [op.device_option.device_type for op in found.net.op] == [1, 1, 1]


def test_stop_and_zero_gradient() -> None:
    source = make_net(("Relu", ["x"], ["y"]), ("StopGradient", ["y"], ["y"]), ("Tanh", ["y"], ["z"]))
    found = add_gradient_operators(source, ["z"])
    assert [op[0] for op in added(found, source)] == ["ConstantFill", "TanhGradient"]
    assert found.gradients.keys() == {"z"}
    orphan = make_net(("StopGradient", ["y"], ["y2"]))
    with pytest.raises(GradientError, match=r"net\[0\] StopGradient: no operator reads its output 'y2'"):
        add_gradient_operators(orphan, {"y": None})
    unit = ("LSTMUnit", ["h", "c", "g", "s", "t"], ["h1", "c1"])
    with pytest.raises(GradientError, match="gradient of output 'c1' is missing"):
        add_gradient_operators(make_net(unit), ["h1"])
    source = make_net(unit, ("ZeroGradient", ["c1"], []))
    found = add_gradient_operators(source, ["h1"])
    assert [op[0] for op in added(found, source)] == ["ConstantFill", "ConstantFill", "LSTMUnitGradient"]


def test_sparse_gradients_are_put_behind_one_another() -> None:
    source = make_net(("Gather", ["t", "i"], ["a"]), ("Gather", ["t", "j"], ["b"]), ("DotProduct", ["a", "b"], ["y"]))
    found = add_gradient_operators(source, ["y"])
    assert added(found, source)[-2:] == [
        ("Concat", ["j", "i"], ["t_grad_indices_concat", "t_grad_indices_concat_split"]),
        ("Concat", ["b_grad", "a_grad"], ["t_grad_values_concat", "t_grad_values_concat_split"]),
    ]
    assert found.gradients["t"] == SparseGradient("t_grad_indices_concat", "t_grad_values_concat")


def test_sparse_gradients_that_operators_compute_are_split() -> None:
    reading = [("SparseLengthsSum", ["t", f"i{k}", f"l{k}"], [f"s{k}"]) for k in range(2)]
    source = make_net(*reading, ("DotProduct", ["s0", "s1"], ["y"]))
    found = add_gradient_operators(source, ["y"])
    assert added(found, source)[-1] == (
        "Concat",
        ["_t_grad_values_autosplit_0", "_t_grad_values_autosplit_1"],
        ["t_grad_values_concat", "t_grad_values_concat_split"],
    )


def test_sparse_and_dense_gradients_cannot_be_added_up() -> None:
    source = make_net(("Gather", ["t", "i"], ["a"]), ("Mul", ["t", "a"], ["y"]))
    with pytest.raises(GradientError, match="blob 't' has both dense and sparse gradients"):
        add_gradient_operators(source, ["y"])


def test_sums_are_on_the_device_of_the_gradients() -> None:
    source = make_net(("Relu", ["x"], ["a"]), ("Tanh", ["x"], ["b"]), ("Mul", ["a", "b"], ["y"]))
    for op in source.op:
        op.device_option.device_type = 1
        op.device_option.device_id = 2
    found = add_gradient_operators(source, {"y": "given"})
    last = found.net.op[-1]
    assert (last.type, last.device_option.device_type, last.device_option.device_id) == ("Sum", 1, 2)
    assert list(last.device_option.extra_info) == ["is_auto_gen_sum_ops:1"]
    source.op[0].device_option.device_id = 1
    with pytest.raises(GradientError, match="on different devices"):
        add_gradient_operators(source, {"y": "given"})


def test_the_tag_alone_is_kept_on_request() -> None:
    source = make_net(("Relu", ["x"], ["a"]), ("Tanh", ["x"], ["b"]), ("Mul", ["a", "b"], ["y"]))
    for op in source.op[:2]:
        op.device_option.extra_info.extend(["shard:1", "only_keep_is_auto_gen_sum_ops_tag:1"])
    found = add_gradient_operators(source, {"y": "given"})
    assert list(found.net.op[-1].device_option.extra_info) == ["is_auto_gen_sum_ops:1"]


def test_a_gradient_handed_on_under_the_sums_name_is_refused() -> None:
    source = make_net(("Relu", ["x"], ["w"]), ("Sum", ["x"], ["x"]), ("Mul", ["x", "w"], ["y"]))
    with pytest.raises(GradientError, match="give the output of the operator that works in place"):
        add_gradient_operators(source, ["y"])


class TestWhereRealCaffe2IsWrong:
    """The same nets run, and are compared with finite differences, in test_gradients_oracle."""

    def test_gradient_in_several_steps_stays_together(self) -> None:
        source = make_net(("Pow", ["x"], ["a"]), ("Pow", ["x"], ["b"]), ("Mul", ["a", "b"], ["y"]), exponent=2.0)
        found = add_gradient_operators(source, {"y": "given"})
        assert added(found, source)[-4:] == [
            ("Pow", ["x"], ["_x_grad_autosplit_0"]),
            ("Mul", ["_x_grad_autosplit_0", "a_grad"], ["_x_grad_autosplit_0"]),
            ("Scale", ["_x_grad_autosplit_0"], ["_x_grad_autosplit_0"]),
            ("Sum", ["x_grad", "_x_grad_autosplit_0"], ["x_grad"]),
        ]

    def test_shared_gradient_is_not_changed(self) -> None:
        source = make_net(("Sqr", ["x"], ["a"]), ("Sqr", ["w"], ["b"]), ("Sum", ["a", "b"], ["y"]))
        found = add_gradient_operators(source, {"y": "given"})
        assert added(found, source) == [
            ("Scale", ["given"], ["_given_protected_1"]),
            ("Mul", ["_given_protected_1", "w"], ["w_grad"]),
            ("Scale", ["given"], ["given"]),
            ("Mul", ["given", "x"], ["x_grad"]),
        ]

    def test_given_gradient_is_added(self) -> None:
        source = make_net(("Relu", ["x"], ["h"]), ("Tanh", ["h"], ["y"]))
        found = add_gradient_operators(source, {"y": None, "h": "given"})
        assert ("Sum", ["h_grad", "given"], ["h_grad"]) in added(found, source)
        found = add_gradient_operators(source, {"y": None, "h": "h_grad"})
        assert ("Sum", ["h_grad", "_h_grad_autosplit_0"], ["h_grad_total"]) in added(found, source)
        assert found.gradients["h"] == "h_grad_total"

    def test_product_in_place_is_refused(self) -> None:
        """Its gradient needs the operand that it has overwritten; real Caffe2 reads the product instead."""
        source = make_net(("Mul", ["x", "w"], ["x"]))
        with pytest.raises(GradientError, match=r"net\[0\] Mul: its gradient needs the input 'x' at version 0"):
            add_gradient_operators(source, {"x": "given"})
        for kept in ("Add", "Sub", "Div"):
            assert len(add_gradient_operators(make_net((kept, ["x", "w"], ["x"])), {"x": "given"}).net.op) == 2

    def test_split_of_which_one_part_is_used(self) -> None:
        source = make_net(("Split", ["x"], ["a", "b"]), ("Relu", ["a"], ["y"]))
        found = add_gradient_operators(source, {"y": "given"})
        assert added(found, source)[1:] == [
            ("ConstantFill", ["b"], ["b_zero_grad"]),
            ("Concat", ["a_grad", "b_zero_grad"], ["x_grad", "_x_grad_dims"]),
        ]

    def test_gradient_is_not_written_over_one_that_is_read(self) -> None:
        source = make_net(("Copy", ["x"], ["a"]), ("Sum", ["a", "b"], ["x"]))
        found = add_gradient_operators(source, {"x": "x_grad"})
        assert added(found, source) == [("CopyOnDeviceLike", ["x_grad", "x"], ["_x_grad_protected_0"])]

    def test_a_blob_read_twice_by_one_operator(self) -> None:
        """What is computed for one operand is told from what is computed for the other."""
        source = make_net(("MatMul", ["x", "x"], ["y"]))
        found = add_gradient_operators(source, {"y": "given"})
        assert [op[2] for op in added(found, source)] == [["x_grad"], ["_x_grad_autosplit_0"], ["x_grad"]]
        source = make_net(("Pow", ["x", "x"], ["y"]))
        steps = added(add_gradient_operators(source, {"y": "given"}), source)
        assert steps[-1] == ("Sum", ["x_grad", "_x_grad_autosplit_0"], ["x_grad"])
        assert "\0" not in str(steps)


def test_get_backward_pass_lets_the_inner_gradient_replace_a_given_one() -> None:
    source = make_net(("Relu", ["x"], ["h"]), ("Tanh", ["h"], ["y"]))
    found = get_backward_pass(source.op, {"h": "h_grad", "y": "y_grad"})
    assert [(op.type, list(op.output)) for op in found.operators] == [
        ("TanhGradient", ["h_grad"]),
        ("ReluGradient", ["x_grad"]),
    ]
    assert found.gradients["h"] == "h_grad"
