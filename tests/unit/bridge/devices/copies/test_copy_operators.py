"""Copies of values on other devices, their names, and where they stand: before the loop that only reads a value."""

from __future__ import annotations

import pytest

from caffe2_bridge.devices.copies.copy_operators import Copies, copy_operator
from caffe2_bridge.devices.copies.residence import Cell, Residence
from caffe2_bridge.devices.device import HOST, Device

GPU, OTHER = Device("cuda", 0), Device("cuda", 1)


def residence() -> Residence:
    return Residence(lambda name: Cell(name, HOST))


@pytest.mark.parametrize(
    ("origin", "to", "op_type", "at"),
    [
        (HOST, GPU, "CopyCPUToGPU", GPU),
        (GPU, HOST, "CopyGPUToCPU", GPU),
        (GPU, OTHER, "Copy", OTHER),
        (HOST, HOST, "Copy", None),
    ],
)
def test_operators_of_copies(origin: Device, to: Device, op_type: str, at: Device | None) -> None:
    op = copy_operator("x", "y", origin, to)
    assert (op.type, list(op.input), list(op.output)) == (op_type, ["x"], ["y"])
    assert op.HasField("device_option") == (at is not None)
    if at is not None:
        assert op.device_option == at.option()


def test_a_copy_on_the_host_says_so_where_operators_inherit_a_gpu() -> None:
    assert copy_operator("x", "y", HOST, HOST, inherited=GPU).HasField("device_option")


def test_a_value_is_copied_once_under_a_free_name() -> None:
    here, copies = residence(), Copies({"x", "x_gpu_0"}, HOST)
    cell = here.find("x")
    assert [copies.bring(cell, GPU, here) for _ in range(2)] == ["x_gpu_0_1"] * 2
    assert [op.type for op in here.ops] == ["CopyCPUToGPU"]
    assert "x_gpu_0_1" in copies.names()


def test_what_a_loop_only_reads_is_copied_before_it() -> None:
    here, copies = residence(), Copies({"x", "y"}, HOST)
    body = here.inner(loop=True)
    copies.bring(body.find("x"), GPU, body)
    assert ([len(here.ops), len(body.ops)], body.hoisted) == ([1, 0], ["x_gpu_0"])

    body.cells["y"] = Cell("y", HOST)  # written in the body
    copies.bring(body.find("y"), GPU, body)
    assert [len(here.ops), len(body.ops)] == [1, 1]


def test_a_value_moves_under_its_name() -> None:
    here, copies = residence(), Copies({"x"}, HOST)
    copies.move("x", GPU, here)
    assert here.find("x").device == GPU
    assert [(op.type, op.output[0]) for op in here.ops] == [("CopyCPUToGPU", "x_gpu_0"), ("Copy", "x")]
    copies.move("x", GPU, here)
    assert len(here.ops) == 2
