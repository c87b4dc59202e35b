"""Which operands are on the host whatever the operator's device.

Read from the operators of real Caffe2: those that ask for a CPU tensor, and the devices that their schemas infer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from caffe2_bridge.control import Place, control_of, is_control
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.ssa.objects import object_outputs


class Side(Enum):
    """Where an operand is: on the operator's device, on the host, on some GPU, or on any device."""

    SAME = "same"
    HOST = "host"
    GPU = "gpu"
    FREE = "free"


Sides: TypeAlias = tuple[Sequence[Side], Sequence[Side]]

_SAME, _HOST, _GPU, _FREE = Side.SAME, Side.HOST, Side.GPU, Side.FREE
_Table = Mapping[str, Mapping[int, Side]]


def _each(types: Iterable[str], sides: Mapping[int, Side]) -> _Table:
    return dict.fromkeys(types, sides)


# By operator the operands that are not simply with it. Negative positions count from the end.
_INPUTS: Final[_Table] = {
    **_each(("CopyCPUToGPU", "CopyFromCPUInput", "LearningRate"), {0: _HOST}),
    **_each(("EnsureCPUOutput", "Print", "CopyOnDeviceLike", "Summarize"), {0: _FREE}),
    "CopyGPUToCPU": {0: _GPU},
    # Shapes and sizes: read on the host; the operators that take them from a GPU too bring them over themselves.
    "Reshape": {1: _FREE},
    "SplitByLengths": {1: _FREE},
    **_each(("Split", "OneHot", "WeightScale"), {1: _HOST}),
    # The iteration
    **_each(("Adam", "DecayAdagrad"), {5: _HOST}),
    **_each(("SparseAdam", "RowWiseSparseAdam"), {6: _HOST}),
    "YellowFin": {9: _HOST},
    "Iter": {0: _HOST},
    "AtomicIter": {0: _FREE, 1: _HOST},
    **_each(("Snapshot", "Checkpoint"), {0: _HOST}),
    # The time step
    **_each(("LSTMUnit", "GRUUnit"), {-1: _HOST}),
    "LSTMUnitGradient": {-5: _HOST},
    "GRUUnitGradient": {-3: _HOST},
    "rnn_internal_apply_link": {0: _HOST},
    "rnn_internal_accumulate_gradient_input": {0: _HOST},
    # Ranks and tags
    **_each(("SendTensor", "ReceiveTensor"), {0: _FREE, 2: _HOST, 3: _HOST}),
}
_OUTPUTS: Final[_Table] = {
    **_each(("CopyGPUToCPU", "EnsureCPUOutput", "Iter", "AtomicIter"), {0: _HOST}),
    "CopyCPUToGPU": {0: _GPU},
    **_each(("Concat", "Reshape"), {1: _HOST}),
    "ReceiveTensor": {1: _HOST, 2: _HOST},
}
# One operand on each GPU.
_MANY_GPUS: Final = frozenset({"NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLReduceScatter"})
# Fills take the shape from wherever it is, where the input holds one.
_SHAPED: Final = frozenset({
    "ConstantFill", "DiagonalFill", "GaussianFill", "GivenTensorFill", "MSRAFill", "RangeFill", "UniformFill",
    "UniformIntFill", "UniqueUniformFill", "XavierFill",
})  # fmt: skip
_SPECIAL: Final = frozenset({*_INPUTS, *_OUTPUTS, *_SHAPED, *_MANY_GPUS, "HasScope"})
_SIDES: Final = {Place.HOST: Side.HOST, Place.OPERATOR: Side.SAME}


@lru_cache(maxsize=64)
def all_same(inputs: int, outputs: int) -> Sides:
    """Return the sides of the given numbers of operands, all on the operator's device."""
    return (_SAME,) * inputs, (_SAME,) * outputs


def is_plain(op: OperatorDef) -> bool:
    """Whether all operands of an operator are on its device."""
    return op.type not in _SPECIAL and not is_control(op) and not object_outputs(op)


def operand_sides(op: OperatorDef) -> Sides:
    """Return where the inputs and the outputs of an operator are.

    Operators with bodies look at their conditions on the host; the rest of their operands is for their bodies. Objects
    are nowhere in particular.
    """
    control = control_of(OpView(op, 0))
    if control is not None:
        inputs, outputs = control.places()
        return [_SIDES.get(p, _FREE) for p in inputs], [_SIDES.get(p, _FREE) for p in outputs]
    objects = object_outputs(op)
    if op.type not in _SPECIAL and not objects:
        return all_same(len(op.input), len(op.output))
    if op.type in _MANY_GPUS or op.type == "HasScope":
        return [_FREE] * len(op.input), [_HOST if op.type == "HasScope" else _FREE] * len(op.output)
    sides = [_SAME] * len(op.input), [_FREE if name in objects else _SAME for name in op.output]
    if op.type in _SHAPED and op.input and Args(op.arg).flag("input_as_shape", default=False):
        sides[0][0] = _FREE
    for table, found in zip((_INPUTS, _OUTPUTS), sides, strict=True):
        for position, side in table.get(op.type, {}).items():
            if -len(found) <= position < len(found):
                found[position] = side
    return sides
