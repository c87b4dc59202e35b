"""Every operator that the frontend converts has a recorded case, or a reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases, read_net

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.ops import converters

WITHOUT_CASE: Final[Mapping[str, str]] = {
    "AsyncIf": "real Caffe2 1.9.1 has it on GPUs only; its arguments are those of If, which has cases",
    "CopyCPUToGPU": "real Caffe2 is the CPU build, which does not have it; Copy is the same on one device",
    "CopyGPUToCPU": "the same",
    "DeformConvGradient": "real Caffe2 has it on GPUs only; unit tests compare it with PyTorch's autograd",
    "MaxPoolWithIndexGradient": "real Caffe2 has it on GPUs only; unit tests compare it with PyTorch's autograd",
    "RoIAlignRotatedGradient": "real Caffe2 has it on GPUs only; unit tests compare it with RoIAlignRotated",
    "RoIPoolGradient": "real Caffe2 has it on GPUs only; unit tests compare it with RoIPool",
    "DeformConv": "real Caffe2 has it on GPUs only; unit tests compare it with Conv",
    "Float16UniformFill": "random: no outcome is certain, and it fails on an empty shape",
    "NCCLAllGather": "real Caffe2 is the CPU build, which does not have it; of one device it is a copy",
    "NCCLAllreduce": "the same",
    "NCCLBroadcast": "the same",
    "NCCLReduce": "the same",
    "XavierFill": "random: no outcome is certain, and it fails on an empty shape",
}

DETECTRON: Final = (
    "GroupSpatialSoftmax", "PSRoIPool", "RoIPoolF", "SampleAs", "SelectSmoothL1Loss", "SigmoidCrossEntropyLoss",
    "SigmoidFocalLoss", "SmoothL1Loss", "SoftmaxFocalLoss", "SpatialNarrowAs", "UpsampleNearest",
)  # fmt: skip


def types_in(net: NetDef) -> set[str]:
    """Return the operator types of a net and of the nets in its arguments."""
    found = {op.type for op in net.op}
    for op in net.op:
        for arg in op.arg:
            for body in (arg.n, *arg.nets):
                found |= types_in(body)
    return found


def recorded_types() -> set[str]:
    return {name for ref in find_cases(GOLDEN) for name in types_in(read_net(ref))}


def test_every_operator_has_a_case() -> None:
    missing = set(converters()) - recorded_types()
    # A library of its own, whose kernels are for GPUs: unit tests compare them with PyTorch.
    missing -= {name + ending for name in DETECTRON for ending in ("", "Gradient")}
    assert missing == set(WITHOUT_CASE), "operators without a case, and reasons for operators that need none"
