"""Views of operators with bodies: what their arguments mean, and constructors that the views read back.

Modules: onnx_while, recurrent_spec, rename.
"""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from caffe2_bridge.control import (
    Alias,
    Do,
    If,
    Link,
    OnnxWhile,
    RecurrentNetwork,
    RecurrentNetworkGradient,
    Role,
    Scratch,
    State,
    While,
    backward_arguments,
    control_of,
    do_arguments,
    edit_bodies,
    if_arguments,
    nets_run_by,
    onnx_while_arguments,
    parsed_bodies,
    recurrent_arguments,
    rename_control,
    while_arguments,
)
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

NET = NetDef(name="n", op=[OperatorDef(type="Relu", input=["a"], output=["b"])])
OTHER = NetDef(name="m")


def view(op: OperatorDef) -> OpView:
    return OpView(op, 0)


def test_branches_and_loops_are_read_back() -> None:
    branch = If(view(make_operator("If", ["c"], ["b"], if_arguments(NET, OTHER))))
    assert (branch.condition, branch.then_net, branch.else_net) == ("c", NET, OTHER)
    assert [branch.taken(condition=value) for value in (True, False)] == list(branch.bodies)
    assert If(view(make_operator("AsyncIf", ["c"], [], if_arguments(NET)))).else_net is None
    loop = While(view(make_operator("While", ["c"], ["b"], while_arguments(NET, OTHER))))
    assert (loop.loop_net, loop.cond_net) == (NET, OTHER)
    assert [body.net for body in loop.bodies.values()] == [OTHER, NET]  # in the order in which they first run


def test_a_do_binds_by_index() -> None:
    arguments = do_arguments(NET, {"a": "x", "b": "y"}, ["x"], ["y"], copy_external_blobs=True)
    op = make_operator("Do", ["x", "ws"], ["y", "ws"], arguments)
    do = Do(view(op))
    assert (do.net, do.bindings, do.stack) == (NET, {"a": "x", "b": "y"}, "ws")
    assert (do.copies_external_blobs, do.reuses_workspace, do.keeps_blobs) == (True, False, False)
    do.bind_operands(["y", "x", "ws"], ["y", "ws"])
    op.input[:] = ["y", "x", "ws"]
    assert Do(view(op)).bindings == {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        (["x", "ws"], ["y"], "same stack of workspaces"),
        (["x", "x", "ws"], ["ws"], "inputs list 'x' twice"),
        (["x", "z", "ws"], ["y", "ws"], "leaves the outer blob 'y' unbound"),
        (["ws"], ["ws"], "holds 0, but there are 0 outer blobs"),
    ],
)
def test_bindings_that_caffe2_refuses(inputs: list[str], outputs: list[str], reason: str) -> None:
    arguments = do_arguments(NET, {"a": "x", "b": "y"}, ["x"], ["y"])
    with pytest.raises(ArgumentError, match=reason):
        _ = Do(view(make_operator("Do", inputs, outputs, arguments))).bindings


def test_an_onnx_while_has_formals_and_results() -> None:
    body = NetDef(name="b", external_input=["i", "go", "s", "outer"], external_output=["again", "t", "row"])
    arguments = onnx_while_arguments(body, carried=1, has_trip_count=True, has_condition=False)
    loop = OnnxWhile(view(make_operator("ONNXWhile", ["n", "c", "s0", "outer"], ["last", "rows"], arguments)))
    assert (loop.carried, loop.has_trip_count, loop.has_condition, loop.disables_scopes) == (1, True, False, True)
    assert [(formal.name, formal.source) for formal in loop.formals] == [("i", None), ("go", None), ("s", "s0")]
    (found,) = loop.bodies.values()
    outputs = [(result.name, result.formal and result.formal.name, result.output) for result in found.results]
    assert outputs == [("again", None, None), ("t", "s", "last"), ("row", None, "rows")]


STEP = NetDef(name="step", type="simple", op=[OperatorDef(type="Sum", input=["x_t", "h_prev"], output=["h"])])
LINKS = (Link("h_prev", "states", 0), Link("h", "states", 1), Link("x_t", "x", 0))
ALIASES = (Alias("states", "all", 1), Alias("states", "last", -1))


def recurrent() -> OperatorDef:
    arguments = recurrent_arguments(STEP, "t", [State("states", 1)], LINKS, ALIASES)
    return make_operator("RecurrentNetwork", ["x", "h0"], ["all", "last", "ws"], arguments)


def early() -> OperatorDef:
    """Return the same operator as releases of early 2017 write it: text, blobs by name, rows kept for the gradient."""
    op = recurrent()
    kept = [arg for arg in op.arg if arg.name not in {"initial_recurrent_state_ids", "step_net"}]
    op.ClearField("arg")
    op.arg.extend(kept)
    del op.output[2]
    for name, texts in (("recurrent_inputs", [b"h0"]), ("scratch", [b"kept"])):
        op.arg.add(name=name, strings=texts)
    for name, values in (("recurrent_sizes", [4]), ("recurrent_input_ids", [1]), ("scratch_sizes", [7])):
        op.arg.add(name=name, ints=values)
    op.arg.add(name="step_net", s=text_format.MessageToString(STEP).encode())
    for arg in op.arg:
        if arg.name == "link_internal":
            arg.strings.append(b"h")
        elif arg.name == "link_external":
            arg.strings.append(b"kept")
        elif arg.name == "link_offset":
            arg.ints.append(0)
    return op


def test_a_recurrent_network_is_read_back() -> None:
    spec = RecurrentNetwork(view(recurrent())).spec
    assert (spec.step_net, spec.timestep, spec.states) == (STEP, "t", (State("states", 1),))
    assert (spec.links, spec.aliases, spec.scratches) == (LINKS, ALIASES, ())
    control = RecurrentNetwork(view(recurrent()))
    assert (control.objects, control.creates, control.initial_ids) == (("ws",), ("states", "all", "last"), (1,))


def test_rows_of_outer_blobs_are_updated() -> None:
    """Check that a backward step that writes rows of a blob that neither operator creates changes that blob."""
    copies = [OperatorDef(type="Copy", input=["h_grad"], output=[name]) for name in ("x_t_grad", "m_grad")]
    gradient = make_operator(
        "RecurrentNetworkGradient", ["all_grad", "x", "h0", "all", "last", "ws"], ["x_grad", "h0_grad"],
        {
            **recurrent_arguments(STEP, "t", [State("states", 1)], LINKS, ALIASES),
            **backward_arguments(
                NetDef(op=copies),
                [Link("x_t_grad", "x_grad", 0), Link("h_grad", "states_grad", 1), Link("m_grad", "memory_grad", 0)],
                [],
                outputs_with_grads=[0],
            ),
        },
    )  # fmt: skip
    control = RecurrentNetworkGradient(view(gradient))
    assert control.updates == ("memory_grad",)
    assert "memory_grad" not in control.writes
    rename_control(gradient, {"memory_grad": "before"}, {"memory_grad": "after"})
    assert [link.external for link in RecurrentNetworkGradient(view(gradient)).spec.links][-1] == "after"


def test_an_early_recurrent_network_is_the_same() -> None:
    control = RecurrentNetwork(view(early()))
    assert control.spec.scratches == (Scratch("kept", 7),)
    assert control.spec.without_scratches() == RecurrentNetwork(view(recurrent())).spec
    assert control.objects == ()
    assert control.fills == ("states", "kept")
    assert (control.initial_ids, control.outputs_with_gradients) == ((1,), (0,))
    assert set(control.op.args.unread) <= {"recurrent_sizes", "recurrent_input_ids"}


def test_an_early_gradient_has_the_gradient_of_one_output() -> None:
    op = early()
    op.type = "RecurrentNetworkGradient"
    op.input[:] = ["all_grad", "x", "h0", "all", "last"]
    op.output[:] = ["x_grad", "h0_grad"]
    control = RecurrentNetworkGradient(view(op))
    assert control.derived_from == ("states", "x")
    assert [body.role for body in control.bodies.values()] == [Role.PAST]


def test_an_initial_state_must_be_an_input() -> None:
    op = early()
    op.input[1] = "other"
    with pytest.raises(ArgumentError, match="initial state 'h0' must be among the inputs"):
        _ = RecurrentNetwork(view(op)).spec


def test_text_bodies_are_edited_in_place() -> None:
    net = NetDef(op=[early()])
    with parsed_bodies(net):
        pass
    edit_bodies(net.op[0], NetDef.ByteSize)
    assert net.op[0] == early()
    with parsed_bodies(net):
        (step,) = (arg.n for arg in net.op[0].arg if arg.name == "step_net")
        step.op[0].type = "Mul"
    (text,) = (arg for arg in net.op[0].arg if arg.name == "step_net")
    assert text.HasField("s")
    assert not text.HasField("n")
    assert [(name, body.op[0].type) for name, body in nets_run_by(view(net.op[0]))] == [("step_net", "Mul")]


def test_renames_reach_arguments_and_text() -> None:
    op = early()
    rename_control(op, {"x": "y", "h0": "g0"}, {"states": "rows", "kept": "stored", "all": "every"})
    control = RecurrentNetwork(view(op))
    assert (list(op.input), list(op.output)) == (["y", "g0"], ["every", "last"])
    assert control.spec.states == (State("rows", 1),)
    assert control.spec.scratches == (Scratch("stored", 7),)
    assert control.spec.aliases == (Alias("rows", "every", 1), Alias("rows", "last", -1))
    assert [link.external for link in control.spec.links] == ["rows", "rows", "y", "stored"]
    assert control.step_net == STEP


def test_operators_of_other_domains_have_no_view() -> None:
    assert control_of(view(OperatorDef(type="If", domain="ai.onnx"))) is None
    assert control_of(view(OperatorDef(type="Relu"))) is None


def test_a_state_without_a_name_is_not_a_blob() -> None:
    op = early()
    next(arg for arg in op.arg if arg.name == "recurrent_states").strings[:] = [b""]
    assert RecurrentNetwork(view(op)).fills == ("kept",)
