"""Counters as tensors: Caffe2's counters, which are objects, as int64 blobs without dims that live between nets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto

_COUNTERS: Final = frozenset(
    {"CreateCounter", "ResetCounter", "CountDown", "CountUp", "RetrieveCount", "CheckCounterDone"}
)


def counters_as_tensors(net: NetDef) -> None:
    """Replace the operators on counters, those of bodies too, by operators on int64 tensors, in place.

    ``CountUp`` outputs the count before it; ``CountDown`` outputs whether the count before it was at most 0, and counts
    on below 0, as Caffe2 does. No other blobs are made: an output first holds the constant that is added or compared.
    """
    if any(op.type in _COUNTERS for op in net.op):
        set_operators(net, (new for op in net.op for new in (_replaced(op) if op.type in _COUNTERS else (op,))))
    for op in net.op:
        for arg in op.arg:
            if arg.HasField("n"):
                counters_as_tensors(arg.n)


def _replaced(op: OperatorDef) -> Iterator[OperatorDef]:
    """The operators that do with tensors what an operator does with a counter."""

    def make(op_type: str, inputs: list[str], output: str, *args: Argument) -> OperatorDef:
        made = OperatorDef(type=op_type, name=op.name, input=inputs, output=[output], arg=args)
        if op.HasField("device_option"):
            made.device_option.CopyFrom(op.device_option)
        return made

    def fill(output: str, value: int) -> OperatorDef:
        scalar = Argument(name="shape", ints=[]), Argument(name="dtype", i=TensorProto.INT64)
        return make("ConstantFill", [], output, *scalar, Argument(name="value", i=value))

    start = OpView(op, 0).args.integer("init_count", default=0)
    if op.type == "CreateCounter":
        yield fill(op.output[0], start)
        return
    counter = op.input[0]
    result = op.output[0] if op.output else ""
    if op.type == "ResetCounter":
        if result:
            yield make("Copy", [counter], result)
        yield fill(counter, start)
    elif op.type == "RetrieveCount":
        yield make("Copy", [counter], result)
    elif op.type == "CheckCounterDone":
        yield fill(result, 0)
        yield make("LE", [counter, result], result)
    elif op.type == "CountUp":
        yield fill(result, 1)
        yield make("Add", [counter, result], counter)
        yield make("Sub", [counter, result], result)
    else:  # CountDown
        yield fill(result, 1)
        yield make("Sub", [counter, result], counter)
        yield fill(result, 0)
        yield make("LT", [counter, result], result)
