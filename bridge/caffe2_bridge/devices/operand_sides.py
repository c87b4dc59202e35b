"""Which operands live on the host whatever the operator's device.

Read from the operators of real Caffe2: those that ask for a CPU tensor, and the devices that their schemas infer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final, TypeAlias

from caffe2_bridge.netdef.views import Args
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


class Side(Enum):
    """Where an operand is: with the operator, on the host, on some GPU, or wherever it happens to be."""

    SAME = "same"
    HOST = "host"
    GPU = "gpu"
    FREE = "free"


Sides: TypeAlias = tuple[Sequence[Side], Sequence[Side]]

# Control operators run on the host: they look at their condition there. The rest of their operands is for their bodies.
CONTROL: Final = frozenset({"If", "AsyncIf", "While", "Do", "ONNXWhile"})
GRADIENT: Final = "RecurrentNetworkGradient"

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
    "RecurrentNetwork": {-1: _FREE},
    "CreateScope": {0: _FREE},
}
# One operand on each GPU.
_MANY_GPUS: Final = frozenset({"NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLReduceScatter"})
# Fills take the shape from wherever it is, where the input holds one.
_SHAPED: Final = frozenset({
    "ConstantFill", "DiagonalFill", "GaussianFill", "GivenTensorFill", "MSRAFill", "RangeFill", "UniformFill",
    "UniformIntFill", "UniqueUniformFill", "XavierFill",
})  # fmt: skip
SPECIAL: Final = frozenset({*_INPUTS, *_OUTPUTS, *_SHAPED, *_MANY_GPUS, *CONTROL, GRADIENT, "HasScope"})


@cache
def all_same(inputs: int, outputs: int) -> Sides:
    """So many operands that are where the operator is."""
    return (_SAME,) * inputs, (_SAME,) * outputs


def operand_sides(op: OperatorDef) -> Sides:
    """Where the inputs and the outputs of an operator are."""
    kind = op.type
    if kind not in SPECIAL:
        return all_same(len(op.input), len(op.output))
    inputs, outputs = [_SAME] * len(op.input), [_SAME] * len(op.output)
    if kind in CONTROL or kind == "HasScope":
        return _control(op)
    if kind in _MANY_GPUS:
        return [_FREE] * len(inputs), [_FREE] * len(outputs)
    if kind in {"RecurrentNetwork", GRADIENT}:
        inputs = _recurrent(op)
    elif kind in _SHAPED and inputs and Args(op.arg).flag("input_as_shape", default=False):
        inputs[0] = _FREE
    for table, sides in ((_INPUTS, inputs), (_OUTPUTS, outputs)):
        for position, side in table.get(kind, {}).items():
            if -len(sides) <= position < len(sides):
                sides[position] = side
    return inputs, outputs


def _control(op: OperatorDef) -> Sides:
    inputs, outputs = [_FREE] * len(op.input), [_FREE] * len(op.output)
    if op.type == "HasScope":
        outputs = [_HOST] * len(op.output)
    elif op.type == "ONNXWhile":
        inputs[:2] = [_HOST] * len(inputs[:2])
    elif op.type != "Do" and inputs:
        inputs[0] = _HOST
    return inputs, outputs


def _recurrent(op: OperatorDef) -> list[Side]:
    """The sequence and the first states are with the operator; what only its step net reads is where that wants it."""
    args = Args(op.arg)
    if op.type == GRADIENT:
        count = len(args.integers("outputs_with_grads", default=()))
        own = set(range(count + 1))
    else:
        own = {0, *args.integers("initial_recurrent_state_ids", default=())}
    return [_SAME if position in own else _FREE for position in range(len(op.input))]
