"""Which operators real Caffe2 has for CUDA devices."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


@cache
def cuda_operators() -> frozenset[str]:
    """Return the types in Caffe2's register of CUDA operators, those among them that fall back to the host.

    Read from the build of its last release, torch 1.9.1 with CUDA 10.2. A type that is there need not take every
    element type that its version for the host takes.
    """
    return frozenset(files("caffe2_bridge.devices").joinpath("cuda_operators.txt").read_text("utf-8").split())


def has_cuda_version(op: OperatorDef) -> bool:
    """Whether an operator can run on a GPU. Of operators that are not Caffe2's own nothing is known: they can."""
    return bool(op.domain) or op.type in cuda_operators()
