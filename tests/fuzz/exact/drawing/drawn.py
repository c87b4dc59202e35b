"""A drawn case: a net and what is fed to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from conformance.corpus import Array, Quantization

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of


@dataclass(frozen=True)
class Drawn:
    """A net with its inputs.

    Attributes:
        label: what it was drawn from: an operator type, a recorded net, or a kind of program.
        net: the net; its external outputs are the blobs to compare, all that operators list if there are none.
        inputs: the arrays by blob; strings are object arrays of str.
        quantized: (scale, zero point) of the inputs that are Int8 tensors.
        trail: what was changed, for reports.
        unrelated: the change that gave operands sizes or numbers that may not go together; empty if there is none.
        recorded: the case that was changed, if one was.
    """

    label: str
    net: NetDef = field(repr=False)
    inputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    trail: tuple[str, ...] = ()
    unrelated: str = ""
    recorded: Drawn | None = field(default=None, repr=False)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The blobs to compare."""
        listed = dict.fromkeys(name for op in self.net.op for name in op.output if name)
        declared = [name for name in self.net.external_output if name in listed]
        return tuple(declared or listed)

    @property
    def types(self) -> tuple[str, ...]:
        """The operator types of the net, without those of bodies."""
        return tuple(op.type for op in self.net.op)

    def copy_net(self) -> NetDef:
        """A copy of the net, to be changed."""
        net = NetDef()
        net.CopyFrom(self.net)
        return net

    def needed(self) -> Drawn:
        """The case without the operators whose results are overwritten or not read, and without those of bodies.

        It is itself if there are none.
        """
        wanted, kept = set(self.outputs), []
        for op in reversed(self.net.op):
            if not wanted.isdisjoint(_written(op)):
                kept.append(op)
                if not any(arg.HasField("n") for arg in op.arg):
                    wanted.difference_update(op.output)
                wanted |= read_blobs(NetDef(op=[op]))
        net = self.copy_net()
        del net.op[:]
        net.op.extend(kept[::-1])
        _drop_unread(net, read_blobs(net) | {*self.outputs, *_declared_outputs(net)})
        before, after = (sum(1 for _ in all_operators(NetView(each))) for each in (self.net, net))
        return self if before == after else replace(self, net=net)

    def declared(self) -> Drawn:
        """The case with its inputs and outputs declared, and without inputs that no operator reads."""
        net = self.copy_net()
        read = read_blobs(net)
        inputs = {name: array for name, array in self.inputs.items() if name in read}
        outputs = self.outputs
        del net.external_input[:], net.external_output[:]
        net.external_input.extend(inputs)
        net.external_output.extend(outputs)
        quantized = {name: how for name, how in self.quantized.items() if name in inputs}
        return replace(self, net=net, inputs=inputs, quantized=quantized)


def read_blobs(net: NetDef) -> set[str]:
    """The blobs that operators of a net list as inputs, also those of bodies."""
    names: set[str] = set()
    for op in net.op:
        names.update(op.input)
        for arg in op.arg:
            if arg.HasField("n"):
                names |= read_blobs(arg.n)
    return names


def _declared_outputs(net: NetDef) -> set[str]:
    """What bodies of a net declare as their outputs."""
    bodies = [arg.n for op in net.op for arg in op.arg if arg.HasField("n")]
    return {name for body in bodies for name in {*body.external_output, *_declared_outputs(body)}}


def _written(op: OperatorDef) -> set[str]:
    """What an operator lists as outputs and may write: bodies need not write all that theirs lists."""
    if not any(arg.HasField("n") for arg in op.arg):
        return {*op.output}
    try:
        (effects,) = effects_of(NetDef(op=[op]), "net").ops
    except ConversionError:
        return {*op.output}
    return {*op.output}.difference(effects.passes)


def _drop_unread(net: NetDef, read: set[str]) -> None:
    """Drop the operators of bodies that write none of some blobs."""
    for op in net.op:
        for arg in op.arg:
            if arg.HasField("n"):
                kept = [each for each in arg.n.op if not read.isdisjoint(each.output)]
                del arg.n.op[:]
                arg.n.op.extend(kept)
                _drop_unread(arg.n, read)
