"""Conversion of a net for one kind of inputs and a choice of outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from caffe2_backend.runtime.program.conversion import Lowered, lower, needs_sizes
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.signature import describe_inputs
from caffe2_backend.runtime.values import Array, DeviceTensor, HostObject, Int8Tensor, Opaque, Value, to_host
from caffe2_bridge.control import Scope, control_class
from caffe2_bridge.diagnostics import ConversionError, Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_OUTSIDE: Final = "outside"


class Compiler:
    """Converts one net to ONNX, for different inputs, constants and outputs.

    Attributes:
        conversions: how many conversions there were.
        sized: by input, the first axis of those whose sizes, and not only ranks, are known to the conversion. 0 for all
            inputs of a training net, that is, one that overwrites what it reads: most make all steps with parameters
            and batches of the same sizes, and what depends on these is computed once. 0 for all inputs, too, if the
            conversion needs their sizes, which is found out on the first failure.
    """

    def __init__(self, net: NetDef, init: InitNet, interface: NetInterface) -> None:
        self._net = net
        self._init = init
        self._interface = interface
        self.conversions = 0
        self._every = dict.fromkeys((*interface.needs, *interface.may_need), 0)
        self._pools = _pools_backward(net)
        self._needs_sizes = False
        self.sized: Mapping[str, int] = self._every if interface.state else {}

    def forget_sizes(self, names: Collection[str]) -> bool:
        """Take inputs whose sizes change as inputs of any size; False if the conversion needs all sizes.

        A net with gradients of poolings still knows the sizes other than that of the batch, until these change, too:
        the gradients then need not crop images.
        """
        if self._needs_sizes:
            return False
        first = {name: 1 for name in names if self._pools and self.sized.get(name) == 0}
        self.sized = {name: axis for name, axis in self.sized.items() if name not in names} | first
        return True

    def convert(
        self, given: Mapping[str, Value], free: Sequence[str], constants: Mapping[str, Value], outputs: Sequence[str]
    ) -> Lowered:
        """Convert the net.

        Args:
            given: values of inputs and constants.
            free: those that are inputs of the converted net.
            constants: blobs that become constants of the converted net.
            outputs: blobs to return.

        Raises:
            ConversionError: the net cannot be converted.
            RunError: an input is a text or an object.
        """
        self.conversions += 1
        self._require_tensors(given, free)
        net, asked = self._with_interface(given, outputs)
        init = self._with_constants(constants)
        try:
            lowered = lower(net, init, describe_inputs(free, given, sized=self.sized), asked)
        except ConversionError as error:
            if self.sized == self._every or not needs_sizes(error):
                raise
            lowered = lower(net, init, describe_inputs(free, given, sized=self._every), asked)
            self.sized = self._every
            self._needs_sizes = True
        names = dict(zip(asked, outputs, strict=True))
        quantized = {names[name]: how for name, how in lowered.quantized.items()}
        return dataclasses.replace(lowered, outputs=tuple(outputs), quantized=quantized)

    def reader(self, name: str) -> Location | str:
        """The first operator that reads a blob, for errors."""
        view = NetView(self._net)
        for op in view.ops:
            if name in op.inputs:
                return Location(view.name, op.index, op.type, op.name)
        return f"net {view.name!r}"

    def _require_tensors(self, given: Mapping[str, Value], free: Sequence[str]) -> None:
        for name in free:
            value = given.get(name)
            if isinstance(value, bytes):
                raise RunError(f"{self.reader(name)} reads blob {name!r}, which is a text and not a tensor")
            if isinstance(value, HostObject) and self._maker(name, value) is None:
                raise RunError(
                    f"{self.reader(name)} reads blob {name!r}, which is {value.description} and not a tensor"
                )

    def _maker(self, name: str, value: HostObject) -> OperatorDef | None:
        """The operator that makes an object in the converted net; None if the net cannot read it."""
        if isinstance(value, Opaque):
            return value.maker
        fits = all(op.type in value.readers for op in NetView(self._net).ops if name in op.inputs)
        return OperatorDef(type=value.maker_type, output=[name]) if fits and value.maker_type else None

    def _with_constants(self, constants: Mapping[str, Value]) -> InitNet:
        if not constants:
            return self._init
        parameters = {name: _as_parameter(name, value) for name, value in constants.items()}
        return dataclasses.replace(self._init, parameters={**self._init.parameters, **parameters})

    def _with_interface(self, given: Mapping[str, Value], outputs: Sequence[str]) -> tuple[NetDef, list[str]]:
        """The net that declares the inputs and outputs, and the names under which it returns the outputs.

        Operators that make the objects among the inputs are prepended.
        """
        objects = {name: value for name, value in given.items() if isinstance(value, HostObject)}
        makers = [maker for name, value in objects.items() if (maker := self._maker(name, value)) is not None]
        net = NetDef()
        net.CopyFrom(self._net)
        asked = list(outputs)
        for position, name in enumerate(outputs):
            for op in (net.op[index] for index in self._interface.undeclared.get(name, ())):
                if _lists_writes(op):
                    op.output.append(name)
                else:
                    asked[position] = f"{name}/{_OUTSIDE}"
        for old, new in zip(outputs, asked, strict=True):
            if old != new:
                net.op.append(OperatorDef(type="Copy", input=[old], output=[new]))
        if makers:
            set_operators(net, [*makers, *net.op])
        del net.external_input[:]
        inputs = [name for name in given if name not in objects]
        net.external_input.extend(dict.fromkeys([*inputs, *self._init.parameters, *self._interface.made]))
        return net, asked


def _pools_backward(net: NetDef) -> bool:
    """Whether a net has gradients of poolings."""
    return any("Pool" in op.type and op.type.endswith("Gradient") for op in net.op)


def _as_parameter(name: str, value: Value) -> Parameter:
    if isinstance(value, Int8Tensor):
        data = value.data
        return Parameter(name, data.dtype, data.shape, lambda: data, value.scale, value.zero_point)
    assert isinstance(value, np.ndarray | DeviceTensor)
    array: Array = to_host(value)
    return Parameter(name, array.dtype, array.shape, lambda: array)


def _lists_writes(op: OperatorDef) -> bool:
    """Whether an operator lists the blobs that its bodies write; from bodies of others, a copy makes blobs known."""
    operator = control_class(op)
    return operator is not None and operator.scope is Scope.SHARED
