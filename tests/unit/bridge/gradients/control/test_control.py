"""Gradients of Do, If and While: what they look like, and what is refused. test_gradients_oracle runs them."""

from __future__ import annotations

from typing import Any

import pytest
from support.gradients.control_nets import LOOPS, branch_net, do_op, if_ops, net_of, while_ops

from caffe2_bridge.gradients import (
    GradientError,
    OpGradient,
    SparseGradient,
    add_gradient_operators,
    dedupe_g_output,
    disambiguate_grad_if_op_output,
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
)
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def args_of(op: OperatorDef) -> dict[str, Any]:
    return {arg.name: arg for arg in op.arg}


def product() -> OperatorDef:
    """Return a Do that multiplies x and w."""
    return do_op(net_of("body", [("Copy", "x", "local"), ("Mul", "local w", "y")]), ["x", "w", "y"], "ws")


def test_do() -> None:
    (op,), g_input = gen_do_gradient(product(), ["y_grad", None])
    assert g_input == ["x_grad", "w_grad", None]
    assert op.is_gradient_op
    assert list(op.input) == ["y_grad", "w", "x", "ws"]
    assert list(op.output) == ["x_grad", "w_grad", "ws"]
    args = args_of(op)
    assert list(args["saved_fwd_blobs"].strings) == [b"local"]
    outer = [*op.input[:-1], *op.output[:-1]]
    bound = {
        inner.decode(): outer[place]
        for inner, place in zip(args["inner_blobs"].strings, args["outer_blobs_idx"].ints, strict=True)
    }
    assert bound == {
        "x/_DO_OPERATOR_INNER_GRAD_COPY_": "x_grad",
        "w/_DO_OPERATOR_INNER_GRAD_COPY_": "w_grad",
        "y/_DO_OPERATOR_INNER_GRAD_": "y_grad",
        "w": "w",
        "x": "x",
    }
    assert args["net"].n.name == "body_grad"
    assert [inner.type for inner in args["net"].n.op] == ["MulGradient", "CopyOnDeviceLike", "Copy", "Copy"]


def test_do_that_writes_what_it_reads_names_its_gradients_apart() -> None:
    op = do_op(net_of("", [("Copy", "y", "was"), ("Tanh", "was", "y")]), ["y"], "ws")
    found = gen_do_gradient(op, ["y_grad", None])
    assert found.g_input == ["y_input_grad", None]
    # Forward and backward body run in one workspace, where a name stands for one net.
    assert args_of(found.operators[0])["net"].n.name == "_grad"


def test_do_without_gradients_of_inputs_has_no_gradient() -> None:
    op = do_op(net_of("body", [("ConstantFill", "x", "y")]), ["x", "y"], "ws")
    assert gen_do_gradient(op, ["y_grad", None]) == OpGradient([], [None, None])


def test_sparse_gradient_inside_is_dense_outside() -> None:
    op = do_op(net_of("body", [("Gather", "t i", "y")]), ["t", "i", "y"], "ws")
    (gradient,), g_input = gen_do_gradient(op, ["y_grad", None])
    assert g_input == ["t_grad", None, None]
    assert args_of(gradient)["net"].n.op[-1].type == "SparseToDense"


def test_dedupe_g_output() -> None:
    op = OperatorDef(type="Do", output=["a", "b", "c"])
    copies, gradients = dedupe_g_output(op, ["g", "g", None])
    assert [(copy.type, list(copy.input), list(copy.output)) for copy in copies] == [("Copy", ["g"], ["b_g_DEDUP"])]
    assert gradients == ["g", "b_g_DEDUP", None]
    assert dedupe_g_output(OperatorDef(output=["a", "a"]), ["g", "h"]) == ([], ["g", "g"])
    with pytest.raises(GradientError, match="Do has 3 outputs, but 1 gradients"):
        dedupe_g_output(op, ["g"])


def test_if() -> None:
    op = branch_net("no else").op[-3]
    (gradient,), g_input = gen_if_gradient(op, ["y_grad", None])
    assert g_input == [None, "x_grad", "w_grad", None]
    assert gradient.input[0] == "cond"
    args = args_of(gradient)
    assert [inner.type for inner in args["then_net"].n.op] == ["Do"]
    assert [(inner.type, list(inner.output)) for inner in args["else_net"].n.op] == [
        ("ConstantFill", ["x_grad"]),
        ("ConstantFill", ["w_grad"]),
    ]


def test_disambiguate_grad_if_op_output() -> None:
    op = branch_net("no else").op[-3]
    (gradient,), _ = gen_if_gradient(op, ["y_grad", None])
    disambiguate_grad_if_op_output(gradient, list(gradient.output).index("x_grad"), "renamed")
    written = [
        name for outer in (gradient, *(inner for arg in gradient.arg for inner in arg.n.op)) for name in outer.output
    ]
    assert written.count("renamed") == 3
    assert "x_grad" not in written
    with pytest.raises(GradientError, match="output 9 does not exist"):
        disambiguate_grad_if_op_output(gradient, 9, "renamed")
    with pytest.raises(GradientError, match="must be the gradient of an If, not Do"):
        disambiguate_grad_if_op_output(product(), 0, "renamed")


def test_while() -> None:
    net = LOOPS["one state"].net()
    op = next(op for op in net.op if op.type == "While")
    operators, g_input = gen_while_gradient(op, ["h_grad" if name == "h" else None for name in op.output])
    assert [step.type for step in operators] == ["Copy", "ConstantFill", "HasScope", "While"]
    assert dict(zip(op.input, g_input, strict=True))["h"] == "h_loop_grad"
    assert dict(zip(op.input, g_input, strict=True))["w"] == "w_loop_grad"
    args = args_of(operators[-1])
    assert [step.type for step in args["loop_net"].n.op] == ["Do", "Copy", "Sum"]
    assert [step.type for step in args["cond_net"].n.op] == ["HasScope"]
    (do, *_) = args["loop_net"].n.op
    assert b"was" in args_of(do)["saved_fwd_blobs"].strings
    assert do.is_gradient_op


def test_while_that_needs_what_it_overwrites_is_refused_by_itself() -> None:
    ops = while_ops("w h", [("Mul", "h w", "m"), ("Tanh", "m", "h")])
    with pytest.raises(GradientError, match=r"loop_body\[0\] Mul: its gradient needs the input 'h' at"):
        gen_while_gradient(ops[-1], ["given" if name == "h" else None for name in ops[-1].output])


def test_while_in_a_net_computes_on_local_blobs() -> None:
    """Check that the new net's loop keeps what its gradient needs, and that the net that was given is not changed."""
    net = net_of("net", while_ops("w h", [("Mul", "h w", "m"), ("Tanh", "m", "h")]))
    before = net.SerializeToString(deterministic=True)
    found = add_gradient_operators(net, {"h": "given"})
    assert net.SerializeToString(deterministic=True) == before
    (do,) = args_of(found.net.op[len(net.op) - 1])["loop_net"].n.op
    body = [(op.type, list(op.input), list(op.output)) for op in args_of(do)["net"].n.op]
    assert body[:3] == [
        ("Copy", ["h"], ["h_local"]),
        ("Mul", ["h_local", "w"], ["m"]),
        ("Tanh", ["m"], ["h_local_1"]),
    ]
    assert ("Copy", ["h_local_1"], ["h"]) in body


def test_while_without_a_do_gets_one() -> None:
    (counter, condition, _, loop) = while_ops("w h", [("Mul", "h w", "m"), ("Tanh", "m", "h")])
    (do,) = args_of(loop)["loop_net"].n.op
    body = args_of(do)["net"].n
    del loop.input[-1], loop.output[-1]
    args_of(loop)["loop_net"].n.CopyFrom(body)
    found = add_gradient_operators(net_of("net", [counter, condition, loop]), {"h": "given"})
    assert [op.type for op in found.net.op[:4]] == ["ConstantFill", "LT", "CreateScope", "While"]
    assert found.gradients["w"] == "w_loop_grad"


def changed_loop(**arguments: int | None) -> OperatorDef:
    """Return a While with other arguments of its Do."""
    op = OperatorDef()
    op.CopyFrom(next(op for op in LOOPS["one state"].net().op if op.type == "While"))
    (do,) = args_of(op)["loop_net"].n.op
    for name, value in arguments.items():
        kept = [arg for arg in do.arg if arg.name != name]
        del do.arg[:]
        do.arg.extend(kept)
        if value is not None:
            do.arg.add(name=name, i=value)
    return op


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"reuse_workspace": 1}, "'reuse_workspace' set"),
        ({"copy_external_blobs": None}, "lacks 'copy_external_blobs'"),
        ({"inner_blobs": None}, "'inner_blobs' has 0 names"),
    ],
)
def test_while_with_another_body_is_refused(arguments: dict[str, int | None], reason: str) -> None:
    op = changed_loop(**arguments)
    with pytest.raises(GradientError, match=reason):
        gen_while_gradient(op, ["h_grad", *[None] * (len(op.output) - 1)])


def test_while_needs_one_do() -> None:
    op = changed_loop()
    args_of(op)["loop_net"].n.op.add(type="Relu", input=["h"], output=["h"])
    with pytest.raises(GradientError, match="one Do operator"):
        gen_while_gradient(op, ["h_grad", *[None] * (len(op.output) - 1)])


def test_refuses() -> None:
    with pytest.raises(GradientError, match="the operator must be If, not Do"):
        gen_if_gradient(product(), ["g", None])
    with pytest.raises(GradientError, match="no output has a gradient"):
        gen_do_gradient(product(), [None, None])
    with pytest.raises(GradientError, match="'y' is sparse"):
        gen_do_gradient(product(), [SparseGradient("i", "v"), None])
    sparse = [SparseGradient("i", "v"), *[None] * (len(changed_loop().output) - 1)]
    with pytest.raises(GradientError, match="sparse"):
        gen_while_gradient(changed_loop(), sparse)
    with pytest.raises(GradientError, match="'then_net' is missing"):
        gen_if_gradient(OperatorDef(type="If", input=["cond"], output=["y"]), ["g"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda op: op.output.pop(), "same stack of workspaces"),
        (lambda op: op.input.insert(0, "w"), "inputs list 'w' twice"),
        (lambda op: op.input.insert(0, "more"), "leaves the outer blob .* unbound"),
        (lambda op: op.arg.pop(0), "'net' is missing"),
    ],
)
def test_refuses_other_bindings(change: Any, reason: str) -> None:
    op = product()
    change(op)
    with pytest.raises(GradientError, match=reason):
        gen_do_gradient(op, ["g", None][: len(op.output)])


def test_branches_without_do() -> None:
    """Real Caffe2 runs such branches in the workspace of the net."""
    op = OperatorDef(type="If", input=["cond", "x", "y"], output=["y"])
    then = net_of("then", [("Tanh", "x", "y")])
    op.arg.add(name="then_net").n.CopyFrom(then)
    (gradient,), g_input = gen_if_gradient(op, ["g"])
    assert g_input == [None, "x_grad", "y_grad"]
    args = args_of(gradient)
    assert [(step.type, list(step.output)) for step in args["then_net"].n.op] == [
        ("TanhGradient", ["x_grad"]),
        ("ConstantFill", ["y_grad"]),
    ]
    assert [(step.type, list(step.output)) for step in args["else_net"].n.op] == [
        ("ConstantFill", ["x_grad"]),
        ("Copy", ["y_grad"]),
    ]


def test_nothing_of_the_net_changes() -> None:
    net = net_of("net", [*if_ops("x w y", [("Mul", "x w", "y")], [("Tanh", "x", "y")]), ("Sum", "y x", "z")])
    before = net.SerializeToString(deterministic=True)
    found = add_gradient_operators(net, ["z"])
    assert net.SerializeToString(deterministic=True) == before
    assert isinstance(found.net, NetDef)
