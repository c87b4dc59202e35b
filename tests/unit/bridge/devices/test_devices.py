"""Devices of blobs and operators, in nets with bodies, with several GPUs, and where they contradict each other.

Modules: flow, fuse, infer.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from support.nets import lines, net, op

from caffe2_bridge import BridgeError, ConversionError
from caffe2_bridge.devices import (
    HOST,
    Device,
    as_device,
    assign_device_option,
    fuse_copies,
    infer_device_type,
    infer_output_devices,
    insert_copies,
    place,
    propagate_status,
)
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

GPU = Device("cuda", 1)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("cpu", HOST),
        ("CUDA:3", Device("cuda", 3)),
        ("gpu", Device("cuda", 0)),
        (GPU, GPU),
        (np.ones(2), HOST),
        (DeviceOption(), HOST),
        (DeviceOption(device_type=1, device_id=2), Device("cuda", 2)),
        (types.SimpleNamespace(device="cuda:1"), GPU),
        (1.5, HOST),
    ],
)
def test_devices_are_told_from_many_things(what: object, expected: Device) -> None:
    assert as_device(what) == expected
    assert as_device(expected.option()) == expected
    assert as_device(str(expected)) == expected


@pytest.mark.parametrize("what", ["tpu", "cuda:-1", object(), DeviceOption(device_type=6)])
def test_other_things_are_no_devices(what: object) -> None:
    with pytest.raises(BridgeError):
        as_device(what)


@pytest.mark.torch
def test_torch_tensors_say_where_they_are() -> None:
    import torch

    assert as_device(torch.zeros(2)) == HOST
    assert as_device(torch.device("cuda", 2)) == Device("cuda", 2)


def test_what_one_sweep_each_way_leaves_open_is_found() -> None:
    """Infer backward from y to a, forward to b, backward to c, and so on, which other implementations cannot."""
    ops = [op("Sum", f"v{i} v{i + 1}", f"s{i}") for i in range(0, 20, 2)]
    ops += [op("Sum", f"v{i} v{i + 1}", f"t{i}") for i in range(1, 20, 2)]
    zigzag = net(*ops[::-1], op("Relu", "v0", "y"), inputs=" ".join(f"v{i}" for i in range(21)))
    assert set(infer_device_type(zigzag, {("y", 1): "gpu"}, unknown=None).values()) == {"gpu"}


def test_operands_on_the_host_do_not_conflict() -> None:
    mixed = net(
        op("CopyCPUToGPU", "x", "a"),
        op("Shape", "a", "s"),
        op("CopyGPUToCPU", "s", "h"),
        op("Reshape", "a h", "r old"),
        op("LearningRate", "it", "lr"),
        op("Mul", "r lr", "y"),
        op("Concat", "y y", "z split"),
        inputs="x it",
        outputs="z",
    )
    found = infer_device_type(mixed, {})
    on_gpu = {"a", "s", "r", "lr", "y", "z"}
    assert {name for (name, _), kind in found.items() if kind == "gpu"} == on_gpu
    assert infer_device_type(mixed, {}, "pytorch")["a", 1] == "cuda"
    with pytest.raises(BridgeError, match="device_name_style"):
        infer_device_type(mixed, {}, "onnx")


def test_a_conflict_names_both_operators_that_force_it() -> None:
    predict = net(op("CopyCPUToGPU", "x", "a"), op("Relu", "a", "b"), op("Exp", "b", "c"), op("CopyCPUToGPU", "c", "y"))
    with pytest.raises(ConversionError) as error:
        infer_device_type(predict, {})
    (finding,) = error.value.findings
    assert finding.code == "device-conflict"
    assert "predict[0] CopyCPUToGPU" in finding.reason
    assert "predict[3] CopyCPUToGPU" in finding.reason
    with pytest.raises(ConversionError, match="what was given"):
        infer_device_type(net(op("Add", "x z", "y"), inputs="x z"), {("x", 0): "cpu", ("z", 0): "gpu"})


def test_what_nothing_forces_is_on_the_host_or_an_error() -> None:
    predict = net(
        op("Relu", "x", "a"), op("ConstantFill", "", "c"), op("Exp", "c", "y", GPU), op("Relu", "q", "p"), inputs="x q"
    )
    assert infer_device_type(predict, {("x", 0): "gpu"})["c", 1] == "gpu"
    with pytest.raises(ConversionError, match=r"the device of version 0 of blob 'q' is unknown"):
        infer_device_type(predict, {("x", 0): "gpu"}, unknown=None)
    with pytest.raises(ConversionError, match="the net does not have version 5 of blob 'x'"):
        infer_device_type(predict, {("x", 5): "gpu"})


def test_bodies_take_part() -> None:
    then = net(op("Relu", "g", "r"), inputs="g", outputs="r")
    other = net(op("Exp", "h", "r"), inputs="h", outputs="r")
    predict = net(op("If", "c", "r", then_net=then, else_net=other), op("Exp", "r", "y"), inputs="c g h")
    found = infer_device_type(predict, {("g", 0): "gpu"})
    assert (found["y", 1], found["h", 0], found["c", 0]) == ("gpu", "gpu", "cpu")
    with pytest.raises(ConversionError, match=r"predict\[0\] If"):
        infer_device_type(predict, {("c", 0): "gpu"})
    assigned, init = assign_device_option(
        predict, net(op("ConstantFill", "", "h"), op("ConstantFill", "", "c"), inputs=""), {"g": "cuda:1"}
    )
    assert lines(assigned) == ["If(c) -> r", "Exp(r) -> y @cuda:1"]
    assert [lines(arg.n)[0] for arg in assigned.op[0].arg] == ["Relu(g) -> r @cuda:1", "Exp(h) -> r @cuda:1"]
    assert init is not None
    assert lines(init) == ["ConstantFill() -> h @cuda:1", "ConstantFill() -> c"]
    assert not predict.op[1].HasField("device_option")


def recurrent(step: NetDef | str) -> NetDef:
    rnn = op(
        "RecurrentNetwork",
        "seq init w",
        "all last ws",
        step_net=step,
        link_internal=["x_t", "h_prev", "h"],
        link_external=["seq", "states", "states"],
        link_offset=[0, 0, 1],
        recurrent_states=["states"],
        initial_recurrent_state_ids=[1],
        alias_src=["states", "states"],
        alias_dst=["all", "last"],
        alias_offset=[1, -1],
        timestep="t",
    )
    return net(rnn, inputs="seq init w", outputs="all last")


STEP = net(
    op("FC", "x_t w b", "gates"), op("LSTMUnit", "h_prev h_prev gates lengths t", "h cell"), inputs="x_t", outputs="h"
)


@pytest.mark.parametrize("as_text", [False, True])
def test_step_nets_take_part_and_the_time_step_is_on_the_host(as_text: bool) -> None:
    predict = recurrent(str(STEP) if as_text else STEP)
    found = infer_device_type(predict, {("seq", 0): "gpu"})
    assert {found["all", 1], found["init", 0], found["w", 0]} == {"gpu"}
    assigned, _ = assign_device_option(predict, None, {"seq": "cuda:1"})
    arg = assigned.op[0].arg[0]
    assert arg.HasField("s") == as_text
    inner = NetDef()
    if as_text:
        from google.protobuf import text_format

        text_format.Parse(arg.s, inner)
    else:
        inner = arg.n
    assert lines(inner) == [
        "FC(x_t, w, b) -> gates @cuda:1",
        "LSTMUnit(h_prev, h_prev, gates, lengths, t) -> h, cell @cuda:1",
    ]
    assert infer_output_devices(predict, ["cuda:1"]) == ["cuda:1", "cuda:1"]


def test_every_gpu_index_is_kept_and_two_conflict() -> None:
    predict = net(
        op("Relu", "x", "a"),
        op("CopyGPUToCPU", "a", "h"),
        op("Exp", "h", "y"),
        op("CopyCPUToGPU", "h", "g"),
        op("Add", "g z", "u"),
        inputs="x z",
        outputs="y u a",
    )
    assigned, _ = assign_device_option(predict, None, ["cuda:1", types.SimpleNamespace(device="cuda:2")])
    assert [str(as_device(o.device_option)) for o in assigned.op] == ["cuda:1", "cuda:1", "cpu", "cuda:2", "cuda:2"]
    assert infer_output_devices(predict, {"x": "cuda:1", "z": "cuda:2"}) == ["cpu", "cuda:2", "cuda:1"]
    with pytest.raises(ConversionError, match="conflicting device"):
        assign_device_option(net(op("Add", "x z", "y"), inputs="x z"), None, ["cuda:1", "cuda:2"])
    with pytest.raises(BridgeError, match="3 inputs are given"):
        assign_device_option(predict, None, ["cpu"] * 3)


def test_copies_respect_versions_and_in_place_updates() -> None:
    """Real Caffe2 reuses a copy by its name although the blob was overwritten since."""
    predict = net(
        op("Relu", "x", "a", GPU),
        op("Exp", "x", "b", GPU),
        op("Relu", "x", "x"),
        op("Tanh", "x", "y", GPU),
        op("ScatterAssign", "x i s", "x", GPU),
        inputs="x i s",
    )
    copied, devices = insert_copies(predict)
    assert [line for line in lines(copied) if "Copy" in line or "Tanh" in line or "Scatter" in line] == [
        "CopyCPUToGPU(x) -> x_gpu_1 @cuda:1",
        "CopyCPUToGPU(x) -> x_gpu_1_1 @cuda:1",
        "Tanh(x_gpu_1_1) -> y @cuda:1",
        "Copy(x_gpu_1_1) -> x @cuda:1",
        "CopyCPUToGPU(i) -> i_gpu_1 @cuda:1",
        "CopyCPUToGPU(s) -> s_gpu_1 @cuda:1",
        "ScatterAssign(x, i_gpu_1, s_gpu_1) -> x @cuda:1",
    ]
    assert (devices["x"], devices["y"], devices["i"]) == ("cuda:1", "cuda:1", "cpu")
    assert insert_copies(net(op("Relu", "x", "y", GPU)), {"x": "cuda:1"})[0] == net(op("Relu", "x", "y", GPU))


def test_a_loop_copies_what_it_only_reads_in_front_of_it() -> None:
    step = net(
        op("FC", "x_t w b", "gates", GPU),
        op("LSTMUnit", "h_prev h_prev gates lengths t", "h cell", GPU),
        inputs="x_t",
        outputs="h",
    )
    predict = recurrent(step)
    predict.op[0].device_option.CopyFrom(GPU.option())
    copied, _ = insert_copies(predict)
    assert [line.split("(")[0] for line in lines(copied)] == ["CopyCPUToGPU"] * 5 + ["RecurrentNetwork"]
    rnn = copied.op[-1]
    assert list(rnn.input) == ["seq_gpu_1", "init_gpu_1", "w", "w_gpu_1", "b_gpu_1", "lengths_gpu_1"]
    assert list(rnn.arg[2].strings) == [b"seq_gpu_1", b"states", b"states"]
    assert list(rnn.arg[0].n.op[0].input) == ["x_t", "w_gpu_1", "b_gpu_1"]
    loop = net(op("Add", "a w", "a", GPU), inputs="a w", outputs="a")
    copied, devices = insert_copies(net(op("While", "c", "a", loop_net=loop), inputs="c a w", outputs="a"))
    assert lines(copied) == ["CopyCPUToGPU(w) -> w_gpu_1 @cuda:1", "While(c, w_gpu_1) -> a"]
    assert [o.type for o in copied.op[1].arg[0].n.op] == ["CopyCPUToGPU", "Add", "CopyGPUToCPU", "Copy"]
    assert devices["a"] == "cpu"


def test_what_a_do_binds_is_copied_inside() -> None:
    inner = net(op("Relu", "in", "out", GPU), inputs="in", outputs="out")
    do = op("Do", "x ws", "y ws", net=inner, inner_blobs=["in", "out"], outer_blobs_idx=[0, 1])
    copied, devices = insert_copies(net(op("CreateScope", "", "ws"), do, op("Exp", "y", "z"), inputs="x", outputs="z"))
    assert lines(copied.op[1].arg[0].n) == ["CopyCPUToGPU(in) -> in_gpu_1 @cuda:1", "Relu(in_gpu_1) -> out @cuda:1"]
    assert lines(copied)[2:] == ["CopyGPUToCPU(y) -> y_cpu @cuda:1", "Exp(y_cpu) -> z"]
    assert devices["y"] == "cuda:1"


def round_trip(*tail: OperatorDef, outputs: str = "y") -> NetDef:
    return net(op("CopyGPUToCPU", "a", "b", GPU), op("CopyCPUToGPU", "b", "c", GPU), *tail, inputs="a", outputs=outputs)


def test_all_readers_of_a_fused_copy_are_rewired() -> None:
    """Detectron2's version rewires the first, and fails where there is none."""
    assert lines(fuse_copies(round_trip(op("Relu", "c", "d"), op("Exp", "c", "y")))) == ["Relu(a) -> d", "Exp(a) -> y"]
    assert lines(fuse_copies(round_trip(op("Relu", "a", "y")))) == ["Relu(a) -> y"]


def test_fusion_respects_what_is_written_in_between_and_what_others_read() -> None:
    overwritten = round_trip(op("Relu", "c", "d"), op("Relu", "a", "a"), op("Exp", "c", "y"))
    assert lines(fuse_copies(overwritten)) == [
        "CopyGPUToCPU(a) -> b @cuda:1",
        "CopyCPUToGPU(b) -> c @cuda:1",
        "Relu(a) -> d",
        "Relu(a) -> a",
        "Exp(c) -> y",
    ]
    partial = round_trip(op("Relu", "c", "d"), op("Exp", "b", "y"))
    assert lines(fuse_copies(partial)) == ["CopyGPUToCPU(a) -> b @cuda:1", "Relu(a) -> d", "Exp(b) -> y"]
    assert fuse_copies(round_trip(outputs="c")) == round_trip(outputs="c")
    updated = round_trip(op("ScatterAssign", "c i s", "c"), op("Exp", "a", "y"))
    assert fuse_copies(updated) == updated
    other = net(op("CopyGPUToCPU", "a", "b", GPU), op("CopyCPUToGPU", "b", "c"), op("Exp", "c", "y"), inputs="a")
    assert fuse_copies(other) == other  # from GPU 1 to GPU 0


def test_fusion_enters_bodies() -> None:
    body = net(op("Relu", "c", "y"), inputs="c")
    fused = fuse_copies(round_trip(op("If", "k", "y", then_net=body)))
    assert lines(fused) == ["If(k) -> y"]
    assert lines(fused.op[0].arg[0].n) == ["Relu(a) -> y"]
    inside = round_trip(op("Relu", "c", "y"))
    fused = fuse_copies(net(op("If", "k", "y", then_net=inside), inputs="k a"))
    assert lines(fused.op[0].arg[0].n) == ["Relu(a) -> y"]


class Seconds:
    """Operators of a type take so long on the host and on the GPU; every copy takes 1."""

    def __init__(self, **table: tuple[float | None, float | None]) -> None:
        self.table = table

    def operator(self, proto: OperatorDef, device: Device) -> float | None:
        return self.table[proto.type][device.is_gpu]

    def transfer(self, _: str) -> float:
        return 1.0


def test_placement_weighs_copies_against_work_and_keeps_bodies_together() -> None:
    loop = net(op("Exp", "a", "a"), inputs="a", outputs="a")
    predict = net(op("Conv", "x", "a"), op("While", "c", "a", loop_net=loop), op("NMS", "a", "y"), inputs="x c")
    found = place(
        predict,
        Seconds(Conv=(9, 1), Exp=(2, 1), NMS=(3, None)),
        gpu=GPU,
        inputs={"x": "cpu", "c": "cpu"},
        outputs={"y": "cpu"},
    )
    assert [str(device) for device in found.devices.values()] == ["cuda:1", "cpu", "cuda:1", "cpu"]
    assert found.cost == 1 + 1 + 1 + 1 + 3
    copied, _ = insert_copies(found.net)
    assert [o.type for o in copied.op] == ["CopyCPUToGPU", "Conv", "While", "CopyGPUToCPU", "NMS"]
    with pytest.raises(ConversionError, match=r"predict\[0\] Conv.*on no device"):
        place(predict, Seconds(Conv=(None, None), Exp=(2, 1), NMS=(3, 2)))
    with pytest.raises(BridgeError, match="must not be negative"):
        place(predict, Seconds(Conv=(-1, 1), Exp=(2, 1), NMS=(3, 2)))
    then = net(op("Conv", "x", "a"), outputs="a")
    both = net(
        op("If", "c", "a", then_net=then, else_net=net(op("NMS", "x", "a"), outputs="a")), inputs="c x", outputs="a"
    )
    with pytest.raises(ConversionError, match=r"NMS.*Conv|Conv.*NMS"):
        place(both, Seconds(Conv=(None, 1), NMS=(1, None)))


def test_any_status_can_be_propagated() -> None:
    """Propagate layouts: a Transpose-like operator turns them, all else keeps them."""

    def layouts(
        proto: OperatorDef, inputs: list[str | None], outputs: list[str | None]
    ) -> tuple[list[str | None], list[str | None]]:
        if proto.type in {"NCHW2NHWC", "NHWC2NCHW"}:
            return ["NCHW"], ["NHWC"]
        known = next((status for status in (*inputs, *outputs) if status), None)
        return [known] * len(inputs), [known] * len(outputs)

    predict = net(op("Relu", "x", "a"), op("NCHW2NHWC", "a", "b"), op("Add", "b z", "y"), inputs="x z")
    assert propagate_status(predict, layouts, {}) == {
        ("x", 0): "NCHW",
        ("a", 1): "NCHW",
        ("b", 1): "NHWC",
        ("z", 0): "NHWC",
        ("y", 1): "NHWC",
    }
    with pytest.raises(
        ConversionError,
        match=r"blob 'a' has conflicting statuses: NCHW by net\[1\] NCHW2NHWC, but NHWC by what was given",
    ):
        propagate_status(predict, layouts, {("x", 0): "NHWC"})


def test_arguments_that_cannot_be_read_are_named_with_their_place() -> None:
    fill = op("ConstantFill", "x", "y", input_as_shape=3.0)
    inside = net(op("If", "c", "", then_net=net(op("Relu", "x", "a"), fill)), inputs="c x")
    with pytest.raises(ConversionError, match=r"predict\[0\] If > then_net\[1\] ConstantFill.*must be an integer"):
        infer_device_type(inside, {})
    with pytest.raises(ConversionError, match=r"\[1\] ConstantFill.*must be an integer"):
        insert_copies(inside)


def test_versions_of_devices_are_those_of_get_ssa_where_an_output_is_listed_twice() -> None:
    predict = net(op("Split", "x", "a a"), op("Relu", "a", "y"))
    kinds = infer_device_type(predict, {("a", 2): "cuda"})
    assert kinds == {("x", 0): "gpu", ("a", 2): "gpu", ("y", 1): "gpu"}


def test_unread_external_inputs_are_on_no_device() -> None:
    predict = net(op("Relu", "x", "y"), inputs="x unread")
    assert infer_device_type(predict, {("x", 0): "cpu"}, unknown=None) == {("x", 0): "cpu", ("y", 1): "cpu"}
    given = {("x", 0): "cpu", ("unread", 0): "cuda"}
    assert infer_device_type(predict, given, unknown=None)["unread", 0] == "gpu"
    assert infer_device_type(predict, {})["unread", 0] == "cpu"


@pytest.mark.parametrize(("unknown", "reason"), [("tpu", "unknown: 'tpu' is not a device"), (3, "unknown must be")])
def test_unknown_must_be_a_device(unknown: Any, reason: str) -> None:
    with pytest.raises(BridgeError, match=reason):
        infer_device_type(net(op("Relu", "x", "y")), {}, unknown=unknown)


@pytest.mark.parametrize("returned", [([], [1]), ([1], [1, 2]), ([1], [1], [1]), None, (1, 2)])
def test_an_updater_must_return_a_status_for_each_operand(returned: Any) -> None:
    with pytest.raises(
        BridgeError, match=r"status_updater must return two lists, of 1 and 1 statuses for net\[0\] Relu"
    ):
        propagate_status(net(op("Relu", "x", "y")), lambda *_: returned, {("x", 0): 1})


def test_known_statuses_are_given_by_version() -> None:
    with pytest.raises(BridgeError, match=r"keys of known_status must be pairs \(blob, version\), not 'x'"):
        infer_device_type(net(op("Relu", "x", "y")), {"x": "cpu"})  # type: ignore[dict-item]
