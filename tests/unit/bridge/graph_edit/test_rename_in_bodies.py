"""Renames of what bodies write: declared outputs and bodies keep one name for a value.

Modules: rename_blobs, value_numbering.
"""

from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.graph_edit import fuse_alias_placeholder, rename_op_input, rename_op_output
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef


def op(kind: str, inputs: str, outputs: str, *args: Argument, **bodies: NetDef) -> OperatorDef:
    proto = OperatorDef(type=kind, input=inputs.split(), output=outputs.split(), arg=args)
    for name, value in bodies.items():
        proto.arg.add(name=name).n.CopyFrom(value)
    return proto


def net(*ops: OperatorDef, inputs: str = "", outputs: str = "") -> NetDef:
    return NetDef(name="n", op=ops, external_input=inputs.split(), external_output=outputs.split())


def line(proto: OperatorDef) -> str:
    return f"{proto.type}({', '.join(proto.input)}) -> {', '.join(proto.output)}"


def body(proto: OperatorDef, name: str) -> list[str]:
    (found,) = (arg.n for arg in proto.arg if arg.name == name)
    return [line(inner) for inner in found.op]


def branch(kind: str, *, outputs: str = "t") -> OperatorDef:
    """Return an operator whose branches both write ``t`` without reading it."""
    return op(kind, "c a", outputs, then_net=net(op("Exp", "a", "t")), else_net=net(op("Tanh", "a", "t")))


def after_a_first_value(control: OperatorDef) -> NetDef:
    return net(op("Relu", "a", "t"), op("Abs", "t", "z"), control, op("Exp", "t", "y"), inputs="a c one", outputs="y z")


@pytest.mark.parametrize("kind", ["If", "AsyncIf"])
def test_branches_write_the_new_name_of_a_blob_that_existed_before(kind: str) -> None:
    renamed = rename_op_output(after_a_first_value(branch(kind)), 2, 0, "new")
    assert [line(o) for o in renamed.op] == [
        "Relu(a) -> t", "Abs(t) -> z", f"{kind}(c, a) -> new", "Exp(new) -> y",
    ]  # fmt: skip
    assert body(renamed.op[2], "then_net") == ["Exp(a) -> new"]
    assert body(renamed.op[2], "else_net") == ["Tanh(a) -> new"]


def test_what_branches_write_undeclared_is_renamed_through_its_reader() -> None:
    renamed, _ = rename_op_input(after_a_first_value(branch("If", outputs="")), None, 3, 0, "new")
    assert [line(o) for o in renamed.op][:3] == ["Relu(a) -> t", "Abs(t) -> z", "If(c, a) -> "]
    assert line(renamed.op[3]) == "Exp(new) -> y"
    assert body(renamed.op[2], "then_net") == ["Exp(a) -> new"]


def test_nested_branches_write_the_new_name() -> None:
    nested = op("If", "c a", "t", then_net=net(branch("If", outputs="")), else_net=net(op("Abs", "a", "t")))
    renamed = rename_op_output(after_a_first_value(nested), 2, 0, "new")
    inner = next(arg.n for arg in renamed.op[2].arg if arg.name == "then_net").op[0]
    assert body(inner, "then_net") == ["Exp(a) -> new"]
    assert body(inner, "else_net") == ["Tanh(a) -> new"]
    assert body(renamed.op[2], "else_net") == ["Abs(a) -> new"]
    assert line(renamed.op[0]) == "Relu(a) -> t"


def test_a_do_in_a_branch_binds_the_new_name() -> None:
    bindings = (Argument(name="inner_blobs", strings=[b"i", b"o"]), Argument(name="outer_blobs_idx", ints=[0, 1]))
    do = op("Do", "a ws", "t ws", *bindings, net=net(op("Exp", "i", "o")))
    control = op("If", "c a ws", "t ws", then_net=net(do), else_net=net(op("Tanh", "a", "t")))
    given = net(op("CreateScope", "", "ws"), *after_a_first_value(control).op, inputs="a c", outputs="y z")
    renamed = rename_op_output(given, 3, 0, "new")
    assert body(renamed.op[3], "then_net") == ["Do(a, ws) -> new, ws"]
    assert body(renamed.op[3], "else_net") == ["Tanh(a) -> new"]


def test_a_loop_that_makes_an_undeclared_blob_writes_its_new_name() -> None:
    loop = op("While", "c a", "", loop_net=net(op("Exp", "a", "t")))
    given = net(loop, op("Exp", "t", "y"), inputs="a c", outputs="y")
    renamed, _ = rename_op_input(given, None, 1, 0, "new")
    assert [line(o) for o in renamed.op] == ["While(c, a) -> ", "Exp(new) -> y"]
    assert body(renamed.op[0], "loop_net") == ["Exp(a) -> new"]


def test_an_output_of_a_loop_of_onnx_keeps_apart_from_names_of_its_body() -> None:
    control = op(
        "ONNXWhile", "m c a t", "r", Argument(name="num_loop_carried_deps", i=1),
        body=net(op("Add", "v t", "w"), inputs="i k v t", outputs="k w"),
    )  # fmt: skip
    given = net(op("Relu", "a", "t"), control, op("Exp", "r", "y"), inputs="a c m", outputs="y")
    renamed = rename_op_output(given, 0, 0, "new")
    assert [line(o) for o in renamed.op] == ["Relu(a) -> new", "ONNXWhile(m, c, a, new) -> r", "Exp(r) -> y"]
    assert body(renamed.op[1], "body") == ["Add(v, new) -> w"]
    renamed = rename_op_output(given, 1, 0, "new")
    assert [line(o) for o in renamed.op][1:] == ["ONNXWhile(m, c, a, t) -> new", "Exp(new) -> y"]
    with pytest.raises(ConversionError, match="already uses the name 'w'"):
        rename_op_output(given, 1, 0, "w")


def test_an_alias_of_what_branches_write_names_it_in_the_branches() -> None:
    alias = op("AliasWithName", "t", "raw", Argument(name="name", s=b"named"), Argument(name="is_backward", i=1))
    given = after_a_first_value(branch("If"))
    given = net(*given.op, alias, inputs="a c one", outputs="y z raw")
    fused, _ = fuse_alias_placeholder(given)
    assert [line(o) for o in fused.op] == ["Relu(a) -> t", "Abs(t) -> z", "If(c, a) -> named", "Exp(named) -> y"]
    assert body(fused.op[2], "then_net") == ["Exp(a) -> named"]
    assert body(fused.op[2], "else_net") == ["Tanh(a) -> named"]


def test_what_only_one_branch_writes_keeps_the_name_of_the_value_before() -> None:
    control = op("If", "c a", "t", then_net=net(op("Exp", "a", "t")))
    renamed = rename_op_output(after_a_first_value(control), 2, 0, "new")
    assert [line(o) for o in renamed.op] == ["Relu(a) -> new", "Abs(new) -> z", "If(c, a) -> new", "Exp(new) -> y"]
    assert body(renamed.op[2], "then_net") == ["Exp(a) -> new"]


@pytest.mark.parametrize("inputs", ["c a", "c a t"])
def test_the_hint_renames_an_external_input_that_one_branch_overwrites(inputs: str) -> None:
    control = op("If", inputs, "t", then_net=net(op("Exp", "a", "t")))
    given = net(op("Relu", "a", "z"), control, inputs="a c t", outputs="z t")
    init = net(op("ConstantFill", "", "t"), outputs="t")
    with pytest.raises(ConversionError, match="must share its name") as refused:
        rename_op_output(given, 1, 0, "new")
    *statements, call = refused.value.findings[0].hint.split("; then ")
    names = {"predict_net": given, "init_net": init, "rename_op_input": rename_op_input}
    for statement in statements:
        exec(statement.removeprefix("declare it: "), names)  # noqa: S102 - what the hint says to type
    renamed, made = eval(call.removeprefix("rename the input: "), names)  # noqa: S307
    assert [line(o) for o in renamed.op] == ["Relu(a) -> z", "If(c, a, new) -> new"]
    assert body(renamed.op[1], "then_net") == ["Exp(a) -> new"]
    assert (list(renamed.external_input), list(renamed.external_output)) == (["a", "c", "new"], ["z", "new"])
    assert line(made.op[0]) == "ConstantFill() -> new"


def test_hints_name_the_argument_of_the_function_that_was_called() -> None:
    given = net(op("Relu", "a", "t"), op("Exp", "t", "y"), op("Tanh", "t", "z"), inputs="a", outputs="y z")
    with pytest.raises(ConversionError) as refused:
        rename_op_input(given, None, 1, 0, "new")
    assert refused.value.findings[0].hint == "rename it for all readers with from_producer=True"
    alias = op("AliasWithName", "t", "raw", Argument(name="name", s=b"named"))
    with pytest.raises(ConversionError) as refused:
        fuse_alias_placeholder(net(*given.op, alias, inputs="a", outputs="y z raw"))
    assert "add the argument is_backward=1 to the alias" in refused.value.findings[0].hint
