"""ssa_rewrite of branches, loops and nets in workspaces of their own."""

from __future__ import annotations

from google.protobuf import text_format
from support.nets import arrows, body

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import ssa_rewrite


def rewrite(text: str) -> NetDef:
    result, _ = ssa_rewrite(text_format.Parse(text, NetDef()))
    assert ssa_rewrite(result)[0] == result
    return result


def test_both_branches_write_the_same_names() -> None:
    result = rewrite("""
        external_input: "c" external_input: "x" external_output: "z"
        op { type: "Relu" input: "x" output: "z" }
        op { type: "If" input: "c" output: "z"
             arg { name: "then_net" n { op { type: "Tanh" input: "z" output: "z" }
                                        op { type: "Sum" input: "z" input: "x" output: "z" } } }
             arg { name: "else_net" n { op { type: "Relu" input: "x" output: "u" } } } }
    """)
    assert arrows(result) == ["Relu: x -> z_1", "If: c z_1 x -> z"]
    assert arrows(body(result.op[1], "then_net")) == ["Tanh: z_1 -> z_2", "Sum: z_2 x -> z"]
    assert arrows(body(result.op[1], "else_net")) == ["Relu: x -> u", "Copy: z_1 -> z"]
    assert list(body(result.op[1], "else_net").external_output) == ["z"]


def test_an_else_net_is_made_where_a_value_passes_through() -> None:
    result = rewrite("""
        external_input: "c" external_input: "x" external_output: "x"
        op { type: "If" input: "c" device_option { device_type: 1 }
             arg { name: "then_net" n { name: "yes" op { type: "Tanh" input: "x" output: "x" } } } }
    """)
    assert arrows(result) == ["If: c x -> x_1"]
    other = body(result.op[0], "else_net")
    assert other.name == "yes_else"
    assert arrows(other) == ["Copy: x -> x_1"]
    assert list(other.external_input) == ["x"]
    assert list(result.external_output) == ["x_1"]


def test_a_branch_without_a_value_to_pass_on_stays_without() -> None:
    result = rewrite("""
        external_input: "c" external_output: "y"
        op { type: "AsyncIf" input: "c" arg { name: "then_net" n { op { type: "Relu" input: "c" output: "y" } } } }
    """)
    assert arrows(result) == ["AsyncIf: c -> y"]
    assert [arg.name for arg in result.op[0].arg] == ["then_net"]


def test_what_a_branch_writes_for_itself_is_no_output() -> None:
    result = rewrite("""
        external_input: "c" external_input: "t" external_output: "y"
        op { type: "If" input: "c" output: "y"
             arg { name: "then_net" n { op { type: "Relu" input: "c" output: "t" }
                                        op { type: "Relu" input: "t" output: "y" } } }
             arg { name: "else_net" n { op { type: "Relu" input: "c" output: "y" } } } }
    """)
    assert list(result.op[0].output) == ["y"]
    assert arrows(body(result.op[0], "then_net")) == ["Relu: c -> t_1", "Relu: t_1 -> y"]
    assert arrows(body(result.op[0], "else_net")) == ["Relu: c -> y"]


WHILE = """
    external_input: "n" external_input: "x" external_output: "x" external_output: "y"
    op {{ type: "Fill" output: "i" }}
    op {{ type: "LT" input: "i" input: "n" output: "go" }}
    {extra}
    op {{ type: "While" input: "go"
         arg {{ name: "loop_net" n {{ op {{ type: "Sum" input: "x" input: "i" output: "x" }}
                                    op {{ type: "Relu" input: "x" output: "x" }}
                                    op {{ type: "Next" input: "i" output: "i" }} }} }}
         arg {{ name: "cond_net" n {{ op {{ type: "LT" input: "i" input: "n" output: "go" }} }} }} }}
    op {{ type: "Relu" input: "i" output: "y" }}
"""


def test_a_loop_carries_blobs_under_one_name() -> None:
    result = rewrite(WHILE.format(extra=""))
    assert arrows(result) == [
        "Fill:  -> i_1",
        "LT: i_1 n -> go",
        "Copy: x -> x_1",
        "Copy: i_1 -> i",
        "While: go i n x_1 -> go x_1 i",
        "Relu: i -> y",
    ]
    assert list(result.external_output) == ["x_1", "y"]
    loop = result.op[4]
    assert arrows(body(loop, "loop_net")) == ["Sum: x_1 i -> x_2", "Relu: x_2 -> x_1", "Next: i -> i"]
    assert arrows(body(loop, "cond_net")) == ["LT: i n -> go"]


def test_a_loop_gets_a_copy_of_what_others_read() -> None:
    result = rewrite(WHILE.format(extra='op { type: "Relu" input: "go" output: "z" }'))
    copies = {op.input[0]: op.output[0] for op in result.op if op.type == "Copy"}
    assert copies == {"go_1": "go", "i_1": "i", "x": "x_1"}
    assert arrows(result)[:2] == ["Fill:  -> i_1", "LT: i_1 n -> go_1"]


DO = """
    external_input: "x" external_output: "z"
    op {{ type: "Relu" input: "x" output: "z" }}
    op {{ type: "CreateScope" output: "s" }}
    {extra}
    op {{ type: "Do" {inputs} input: "s" {outputs} output: "s"
         arg {{ name: "net" n {{ op {{ type: "Sum" input: "a" input: "{second}" output: "b" }}
                               op {{ type: "Relu" input: "b" output: "b" }} }} }}
         arg {{ name: "inner_blobs" strings: "a" strings: "b" }}
         arg {{ name: "outer_blobs_idx" ints: 0 ints: 1 }} }}
"""


def positions(op: OperatorDef) -> list[int]:
    (arg,) = [arg for arg in op.arg if arg.name == "outer_blobs_idx"]
    return list(arg.ints)


def test_a_do_that_overwrites_is_one_writer() -> None:
    result = rewrite(DO.format(inputs='input: "x"', outputs='output: "z"', second="a", extra=""))
    assert arrows(result) == ["Relu: x -> z_1", "CreateScope:  -> s", "Do: x s -> z s"]
    assert arrows(body(result.op[2], "net")) == ["Sum: a a -> b_1", "Relu: b_1 -> b"]


def test_a_do_that_reads_what_it_writes_works_in_place() -> None:
    result = rewrite(DO.format(inputs='input: "x" input: "z"', outputs='output: "z"', second="b", extra=""))
    assert arrows(result) == ["Relu: x -> z", "CreateScope:  -> s", "Do: x z s -> z s"]
    assert arrows(body(result.op[2], "net")) == ["Sum: a b -> b_1", "Relu: b_1 -> b"]
    extra = 'op { type: "Tanh" input: "z" output: "y" }'
    result = rewrite(DO.format(inputs='input: "x" input: "z"', outputs='output: "z"', second="b", extra=extra))
    assert arrows(result) == [
        "Relu: x -> z_1", "CreateScope:  -> s", "Tanh: z_1 -> y", "Copy: z_1 -> z", "Do: x z s -> z s",
    ]  # fmt: skip


def test_a_do_declares_what_it_reads_and_writes() -> None:
    read = rewrite(DO.format(inputs='input: "x"', outputs='output: "z"', second="b", extra=""))
    assert arrows(read)[2] == "Do: x z s -> z s"
    assert positions(read.op[2]) == [0, 1]
    written = rewrite(DO.format(inputs='input: "x" input: "z"', outputs="", second="a", extra=""))
    assert arrows(written)[2] == "Do: x z s -> z s"


def test_an_output_that_a_do_never_writes_becomes_an_input() -> None:
    result = rewrite("""
        external_input: "x" external_output: "x" external_output: "y"
        op { type: "CreateScope" output: "s" }
        op { type: "Do" input: "s" output: "x" output: "y" output: "s"
             arg { name: "net" n { op { type: "Relu" input: "a" output: "b" } } }
             arg { name: "inner_blobs" strings: "b" strings: "a" } arg { name: "outer_blobs_idx" ints: 1 ints: 0 } }
    """)
    assert arrows(result)[1] == "Do: x s -> y s"
    assert positions(result.op[1]) == [1, 0]


def test_a_loop_of_onnx_has_parameters() -> None:
    result = rewrite(
        """
        external_input: "m" external_input: "c" external_input: "v" external_input: "k" external_output: "v"
        op { type: "Relu" input: "k" output: "k" }
        op { type: "ONNXWhile" input: "m" input: "c" input: "v" output: "v"
             arg { name: "body" n { external_input: "i" external_input: "c" external_input: "k"
                                    op { type: "Sum" input: "k" input: "w" output: "k" }
                                    op { type: "Relu" input: "k" output: "k" }
                                    external_output: "c" external_output: "k" } } }
    """.replace('"w"', '"i"')
    )
    assert arrows(result)[1] == "ONNXWhile: m c v -> v_1"
    assert arrows(body(result.op[1], "body")) == ["Sum: k i -> k_2", "Relu: k_2 -> k"]
    assert list(body(result.op[1], "body").external_input) == ["i", "c", "k"]


def test_captures_of_an_onnx_loop_follow() -> None:
    result = rewrite("""
        external_input: "m" external_input: "c" external_input: "v" external_input: "k" external_output: "y"
        op { type: "Relu" input: "k" output: "k" }
        op { type: "ONNXWhile" input: "m" input: "c" input: "v" output: "y"
             arg { name: "body" n { external_input: "i" external_input: "go" external_input: "a" external_input: "k"
                                    op { type: "Sum" input: "a" input: "k" output: "b" }
                                    external_output: "go" external_output: "b" } } }
    """)
    assert arrows(body(result.op[1], "body")) == ["Sum: a k_1 -> b"]
    assert list(body(result.op[1], "body").external_input) == ["i", "go", "a", "k_1"]


def test_what_a_do_perhaps_reads_is_an_output_of_the_branch_that_writes_it() -> None:
    result = rewrite("""
        external_input: "c" external_output: "y"
        op { type: "If" input: "c" arg { name: "then_net" n { op { type: "Relu" input: "c" output: "a" } } } }
        op { type: "CreateScope" output: "s" }
        op { type: "Do" input: "c" input: "s" output: "a" output: "y" output: "s"
             arg { name: "net" n {
                 op { type: "If" input: "c" output: "a"
                      arg { name: "then_net" n { op { type: "Tanh" input: "c" output: "a" } } } }
                 op { type: "Relu" input: "a" output: "y" } } }
             arg { name: "inner_blobs" strings: "c" strings: "a" strings: "y" }
             arg { name: "outer_blobs_idx" ints: 0 ints: 1 ints: 2 } }
    """)
    assert arrows(result) == ["If: c -> a", "CreateScope:  -> s", "Do: c s -> a y s"]


def test_an_update_of_what_is_perhaps_there_gets_a_copy_where_it_is_read() -> None:
    result = rewrite("""
        external_input: "c" external_output: "a"
        op { type: "If" input: "c" arg { name: "then_net" n { op { type: "Relu" input: "c" output: "a" } } } }
        op { type: "If" input: "c"
             arg { name: "then_net" n { op { type: "ScatterAssign" input: "a" input: "c" input: "c" output: "a" } } }
             arg { name: "else_net" n { op { type: "Tanh" input: "c" output: "a" } } } }
    """)
    assert arrows(body(result.op[1], "then_net")) == ["Copy: a_1 -> a", "ScatterAssign: a c c -> a"]
    assert arrows(body(result.op[1], "else_net")) == ["Tanh: c -> a"]


def test_a_net_without_declared_inputs_may_find_what_one_branch_overwrites() -> None:
    """Check that, where the branch is not taken, the reader finds the blob that was there before the net ran."""
    result = rewrite("""
        op { type: "If" input: "c" output: "y"
             arg { name: "then_net" n { op { type: "Tanh" input: "x" output: "y" } } } }
        op { type: "Relu" input: "y" output: "y" }
        op { type: "Exp" input: "y" output: "z" }
    """)
    assert arrows(result) == ["If: c x -> y", "Relu: y -> y_1", "Exp: y_1 -> z"]
    assert arrows(body(result.op[0], "then_net")) == ["Tanh: x -> y"]


def test_a_blob_that_is_not_read_before_it_is_surely_written_keeps_its_last_name() -> None:
    result = rewrite("""
        op { type: "If" input: "c" output: "y"
             arg { name: "then_net" n { op { type: "Tanh" input: "x" output: "y" } } } }
        op { type: "Relu" input: "x" output: "y" }
    """)
    assert arrows(result) == ["If: c x -> y_1", "Relu: x -> y"]
