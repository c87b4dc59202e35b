from __future__ import annotations

import pytest
from google.protobuf import text_format
from support.nets import arrows, body, parse
from support.work import count_calls

from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa import ssa_rewrite


def net(ops: str, inputs: str = "", outputs: str = "") -> NetDef:
    """Return a net of lines ``Type: inputs -> outputs``."""
    result = NetDef(external_input=inputs.split(), external_output=outputs.split())
    for line in ops.strip().splitlines():
        kind, _, rest = line.strip().partition(":")
        reads, _, writes = rest.partition("->")
        result.op.add(type=kind, input=reads.split(), output=writes.split())
    return result


def strings(op: OperatorDef, name: str) -> list[str]:
    (arg,) = [arg for arg in op.arg if arg.name == name]
    return [value.decode() for value in arg.strings]


def test_the_last_write_keeps_the_name() -> None:
    result, init = ssa_rewrite(net("Relu: x -> y\nSum: y x -> y\nTanh: y -> z", "x", "y z"))
    assert init is None
    assert arrows(result) == ["Relu: x -> y_1", "Sum: y_1 x -> y", "Tanh: y -> z"]
    assert list(result.external_output) == ["y", "z"]


def test_an_input_keeps_its_name_and_outputs_their_order() -> None:
    result, _ = ssa_rewrite(net("Relu: x -> x\nRelu: x -> y", "x", "y x"))
    assert arrows(result) == ["Relu: x -> x_1", "Relu: x_1 -> y"]
    assert list(result.external_input) == ["x"]
    assert list(result.external_output) == ["y", "x_1"]


def test_new_names_occur_nowhere() -> None:
    given = net("Relu: x -> x\nTanh: x -> y", "x x_1", "y")
    given.op[1].arg.add(name="blob", s=b"x_2")
    given.op[1].arg.add(name="blobs", strings=[b"x_3"])
    inner = given.op[1].arg.add(name="some_net").n
    inner.op.add(type="Relu", input=["x_4"], output=["x_5"])
    assert arrows(ssa_rewrite(given)[0])[0] == "Relu: x -> x_6"


def test_given_nets_stay_as_they_are_and_results_are_not_changed_again() -> None:
    given, init = net("Relu: x -> x\nSum: x w -> x", "x", "x"), net("Fill: -> w\nRelu: w -> w")
    before = given.SerializeToString(), init.SerializeToString()
    first = ssa_rewrite(given, init)
    assert (given.SerializeToString(), init.SerializeToString()) == before
    assert ssa_rewrite(*first) == first


def test_init_net_blobs_are_inputs_of_the_predict_net() -> None:
    predict, init = ssa_rewrite(net("Sum: x w -> w\nRelu: w -> y", "x w", "y w"), net("Fill: -> w\nScale: w -> w"))
    assert init is not None
    assert arrows(init) == ["Fill:  -> w_1", "Scale: w_1 -> w"]
    assert arrows(predict) == ["Sum: x w -> w_2", "Relu: w_2 -> y"]
    assert list(predict.external_output) == ["y", "w_2"]


def test_an_output_that_the_init_net_only_fills_keeps_its_name() -> None:
    predict, _ = ssa_rewrite(net("Relu: x -> y", "x", "y"), net("Fill: -> y"))
    assert arrows(predict) == ["Relu: x -> y"]


def test_a_net_without_declared_inputs() -> None:
    assert arrows(ssa_rewrite(net("Relu: x -> x\nRelu: x -> x"))[0]) == ["Relu: x -> x_1", "Relu: x_1 -> x_2"]


def test_value_info_is_returned_for_the_new_net() -> None:
    info = {"x": (2, 3), "y": (2,)}
    result = ssa_rewrite(net("Relu: x -> y\nRelu: y -> y", "x", "y"), None, info)
    assert len(result) == 3
    assert result[2] == info
    assert result[2] is not info


def test_an_update_in_place_gets_a_copy_of_what_others_read() -> None:
    given = net("ScatterAssign: x i v -> x\nRelu: x -> y\nScatterAssign: x i v -> x", "x i v", "y x")
    given.op[2].device_option.device_type = 1
    result, _ = ssa_rewrite(given)
    assert arrows(result) == [
        "Copy: x -> x_1",
        "ScatterAssign: x_1 i v -> x_1",
        "Relu: x_1 -> y",
        "Copy: x_1 -> x_2",
        "ScatterAssign: x_2 i v -> x_2",
    ]
    assert list(result.external_output) == ["y", "x_2"]
    assert result.op[3].device_option == DeviceOption(device_type=1)


def test_an_update_of_what_nobody_else_reads_stays_in_place() -> None:
    given = net("Fill: -> m\nRelu: x -> m2\nSparseAdagrad: m m2 i g lr -> m m2", "x i g lr", "m m2")
    assert ssa_rewrite(given)[0] == given


def test_the_value_before_is_kept_for_an_operator_that_reads_its_output() -> None:
    result, _ = ssa_rewrite(net("Fill: -> y\nRelu: y -> z\nAccumulate: x -> y", "x", "y z"))
    assert arrows(result) == ["Fill:  -> y_1", "Relu: y_1 -> z", "Copy: y_1 -> y", "Accumulate: x -> y"]


def test_objects_keep_their_name() -> None:
    given = net("CreateIndex: -> index\nIndexLoad: index keys -> index\nIndexFreeze: index -> index", "keys", "index")
    assert ssa_rewrite(given)[0] == given


RECURRENT = """
    external_input: "x" external_input: "h0" external_input: "w" external_output: "h_all"
    op { type: "Relu" input: "x" output: "x" }
    op { type: "Relu" input: "w" output: "w" }
    op { type: "RecurrentNetwork" input: "x" input: "h0" input: "w" output: "h_all" output: "h_last" output: "ws"
         arg { name: "recurrent_states" strings: "states" }
         arg { name: "link_internal" strings: "h_prev" strings: "h" strings: "x" }
         arg { name: "link_external" strings: "states" strings: "states" strings: "x" }
         arg { name: "alias_src" strings: "states" strings: "states" }
         arg { name: "alias_dst" strings: "h_all" strings: "h_last" }
         arg { name: "timestep" s: "t" }
         arg { name: "step_net" n {
             external_input: "h_prev" external_input: "x" external_input: "w" external_input: "t"
             op { type: "FC" input: "h_prev" input: "w" output: "h" }
             op { type: "Sum" input: "h" input: "x" output: "h" }
             op { type: "LSTMUnit" input: "h" input: "t" output: "h" }
             external_output: "h" } } }
    op { type: "Relu" input: "states" output: "z" }
"""


def test_step_nets_keep_their_links_and_follow_the_names_around_them() -> None:
    result, _ = ssa_rewrite(parse(RECURRENT))
    op = result.op[2]
    assert list(op.input) == ["x_1", "h0", "w_1"]
    assert strings(op, "link_internal") == ["h_prev", "h", "x"]
    assert strings(op, "link_external") == ["states", "states", "x_1"]
    step = body(op, "step_net")
    assert arrows(step) == ["FC: h_prev w_1 -> h_1", "Sum: h_1 x -> h_2", "LSTMUnit: h_2 t -> h"]
    assert list(step.external_input) == ["h_prev", "x", "w_1", "t"]
    assert list(step.external_output) == ["h"]


def test_states_are_written_by_the_recurrent_network() -> None:
    given = parse(RECURRENT)
    given.op.append(given.op[2])
    given.op.append(given.op[3])
    result, _ = ssa_rewrite(given)
    first, second = result.op[2], result.op[4]
    assert strings(first, "recurrent_states") == ["states_1"]
    assert strings(first, "link_external") == ["states_1", "states_1", "x_1"]
    assert strings(first, "alias_src") == ["states_1"] * 2
    assert strings(first, "alias_dst") == list(first.output)[:2] == ["h_all_1", "h_last_1"]
    assert list(result.op[3].input) == ["states_1"]
    assert strings(second, "recurrent_states") == ["states"]
    assert strings(second, "alias_dst") == ["h_all", "h_last"]


def test_text_step_nets_are_rewritten_as_text() -> None:
    given = parse(RECURRENT)
    (arg,) = [arg for arg in given.op[2].arg if arg.name == "step_net"]
    arg.s = text_format.MessageToString(arg.n).encode()
    arg.ClearField("n")
    result, _ = ssa_rewrite(given)
    (arg,) = [arg for arg in result.op[2].arg if arg.name == "step_net"]
    assert not arg.HasField("n")
    assert arrows(parse(arg.s.decode())) == ["FC: h_prev w_1 -> h_1", "Sum: h_1 x -> h_2", "LSTMUnit: h_2 t -> h"]


@pytest.mark.parametrize("kind", ["chain", "in place"])
def test_work_is_linear_in_the_net(kind: str) -> None:
    def work(count: int) -> int:
        given = NetDef(external_input=["b0"], external_output=["b0"])
        for index in range(count):
            names = (f"b{index}", f"b{index + 1}") if kind == "chain" else ("b0", "b0")
            given.op.add(type="Relu", input=names[:1], output=names[1:])
        return count_calls(lambda: ssa_rewrite(given))

    work(10)  # what is computed once
    assert 0 < work(16000) < 9 * work(2000)
