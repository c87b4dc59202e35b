"""Operators where their inputs are."""

from __future__ import annotations

import pytest
from support.nets import op

from caffe2_bridge.devices import HOST, Device, as_device, follow_inputs, has_cuda_version, insert_copies
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

GPU = Device("cuda", 1)


def net(inputs: str, *ops: OperatorDef) -> NetDef:
    return NetDef(name="net", op=ops, external_input=inputs.split())


def devices(net: NetDef) -> list[str]:
    return [str(as_device(each.device_option)) for each in net.op]


def test_the_first_gpu_among_operands_decides() -> None:
    given = net("a b c", op("Add", "c a", "d"), op("Add", "d b", "e"), op("Relu", "c", "f"))
    made, inputs = follow_inputs(given, {"a": "cuda:1", "b": "cuda:0"})
    assert devices(made) == ["cuda:1", "cuda:1", "cpu"]
    assert inputs == {"a": GPU, "b": Device("cuda", 0), "c": HOST}
    copied, where = insert_copies(made, inputs)
    assert [each.type for each in copied.op] == ["CopyCPUToGPU", "Add", "Copy", "Add", "Relu"]
    assert (where["e"], where["f"]) == ("cuda:1", "cpu")


def test_followers_are_where_they_are_first_read() -> None:
    given = net("x w s h u", op("FC", "x w h", "y"), op("Reshape", "y s", "z z_old"), op("Relu", "h", "r"))
    _, inputs = follow_inputs(given, {"x": GPU}, ["w", "h", "u"])
    assert inputs == {"x": GPU, "w": GPU, "h": GPU, "u": HOST, "s": HOST}


def test_host_operands_do_not_bring_their_operator_anywhere() -> None:
    given = net("x s", op("Split", "x s", "a b"))
    made, _ = follow_inputs(given, {"s": GPU})
    assert devices(made) == ["cpu"]
    copied, _ = insert_copies(made, {"s": GPU})
    assert [each.type for each in copied.op] == ["CopyGPUToCPU", "Split"]


def test_what_cuda_lacks_runs_on_the_host() -> None:
    given = net("c a b", op("Where", "c a b", "d"), op("Relu", "d", "e"))
    assert not has_cuda_version(given.op[0])
    made, inputs = follow_inputs(given, {"c": GPU, "a": GPU}, everywhere=GPU)
    assert devices(made) == ["cpu", "cuda:1"]
    copied, _ = insert_copies(made, inputs)
    assert [each.type for each in copied.op] == ["CopyGPUToCPU", "CopyGPUToCPU", "Where", "CopyCPUToGPU", "Relu"]
    foreign = OperatorDef(type="Where", domain="ai.onnx")
    assert has_cuda_version(foreign)


def test_what_nothing_brings_anywhere_is_where_it_is_read() -> None:
    given = net("x", op("ConstantFill", "", "zeros"), op("Sigmoid", "zeros", "s"), op("Add", "s x", "y"))
    made, _ = follow_inputs(given, {"x": GPU})
    assert devices(made) == ["cuda:1"] * 3


def test_branches_follow_what_they_read_and_hand_on() -> None:
    then = net("", op("Relu", "x", "y"))
    other = net("", op("Relu", "h", "y"))
    given = net("c x h", op("If", "c", "y", then_net=then, else_net=other), op("Tanh", "y", "z"))
    made, inputs = follow_inputs(given, {"x": GPU})
    assert devices(made) == ["cpu", "cuda:1"]
    bodies = {arg.name: arg.n for arg in made.op[0].arg}
    assert devices(bodies["then_net"]) == ["cuda:1"]
    assert devices(bodies["else_net"]) == ["cpu"]
    copied, _ = insert_copies(made, inputs)
    handed_on = next(arg.n for arg in copied.op[0].arg if arg.name == "else_net")
    assert [each.type for each in handed_on.op] == ["Relu", "CopyCPUToGPU", "Copy"]


@pytest.mark.parametrize(("start", "first"), [(HOST, "cpu"), (GPU, "cuda:1")])
def test_what_turns_in_a_loop_is_read_where_it_starts(start: Device, first: str) -> None:
    body = net("", op("Add", "h w", "sum"), op("Add", "sum x", "h"), op("LT", "n n", "c"))
    given = net("c x h w n", op("While", "c", "h", loop_net=body))
    made, inputs = follow_inputs(given, {"x": GPU, "h": start}, ["w"])
    assert devices(made.op[0].arg[0].n) == [first, "cuda:1", "cpu"]
    assert str(inputs["w"]) == first


def test_a_name_that_is_no_input() -> None:
    with pytest.raises(BridgeError, match="no external input 'y'"):
        follow_inputs(net("x", op("Relu", "x", "y")), {"y": GPU})
