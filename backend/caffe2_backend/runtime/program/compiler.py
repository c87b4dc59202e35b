"""Conversion of a net for one kind of inputs and a choice of outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from caffe2_backend.runtime.program.conversion import Lowered, lower, needs_sizes
from caffe2_backend.runtime.program.conversion_cache import CONVERSIONS
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.signature import describe_inputs
from caffe2_backend.runtime.program.structure import structure_of
from caffe2_backend.runtime.values import (
    Array,
    DeviceTensor,
    HostObject,
    Int8Tensor,
    NoBlobError,
    Opaque,
    Value,
    to_host,
)
from caffe2_bridge.control import BodyScope, control_class
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.types import TensorInfo

if TYPE_CHECKING:
    from caffe2_frontend import Recurrent

_OUTSIDE: Final = "outside"


class Compiler:
    """Converts one net to ONNX, for different inputs, constants and outputs.

    Attributes:
        conversions: how many conversions there were.
        sized: by input, the first axis of those whose sizes, and not only ranks, are known to the conversion. 0 for all
            inputs of a training net, that is, one that overwrites what it reads: most make all steps with parameters
            and batches of the same sizes, and what depends on these is computed once. 0 for all inputs, too, if the
            conversion needs their sizes, which the first failure shows.
    """

    def __init__(
        self,
        net: NetDef,
        init: InitNet,
        interface: NetInterface,
        origin: Origin | None = None,
        *,
        recurrent: Recurrent = "auto",
        steps: bool = False,
        fixed: bool = False,
    ) -> None:
        """Take a net.

        Args:
            net: the net.
            init: parameters that are constants.
            interface: of the net.
            origin: see Program.
            recurrent: the form of recurrent nets.
            steps: whether it makes many steps with inputs of the same sizes, as a training net does.
            fixed: whether the conversion needs the sizes of all inputs.
        """
        self._net = net
        self._origin = origin or Origin(Location(NetView(net).name))
        self._init = init
        self._is_shared = not (init.parameters or init.rest or init.findings or init.placeholders)
        self._interface = interface
        self.conversions = 0
        self._every = dict.fromkeys((*interface.needs, *interface.may_need), 0)
        self._pools = _pools_backward(net)
        self._recurrent: Recurrent = recurrent
        self._needs_sizes = fixed
        self.sized: Mapping[str, int] = self._every if interface.state or steps or fixed else {}

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
        makers = self._makers(given)
        net, asked = self._with_interface(makers, given, outputs)
        init = self._with_constants(constants)
        lowered = None
        if self.sized != self._every:
            known = describe_inputs(free, given, sized=self.sized)
            lowered = self._lower(net, init, known, asked, len(makers), final=False)
        if lowered is None:
            every = describe_inputs(free, given, sized=self._every)
            lowered = self._lower(net, init, every, asked, len(makers), final=True)
            assert lowered is not None
            self._needs_sizes |= self.sized != self._every
            self.sized = self._every
        names = dict(zip(asked, outputs, strict=True))
        quantized = {names[name]: how for name, how in lowered.quantized.items()}
        return dataclasses.replace(lowered, outputs=tuple(outputs), quantized=quantized)

    def _lower(
        self,
        net: NetDef,
        init: InitNet,
        inputs: Mapping[str, TensorInfo],
        outputs: list[str],
        added: int,
        *,
        final: bool,
    ) -> Lowered | None:
        """Convert; None if the conversion needs sizes of the inputs that are not known, unless it is the final one.

        Diagnostics name the operators of the whole net. ``added`` operators stand before the net's own.
        """
        form = self._recurrent
        structure = structure_of(net, init.parameters, inputs, outputs, form) if self._is_shared else None
        try:
            if structure is None:
                return lower(net, init, inputs, outputs, form)
            if not final and CONVERSIONS.needs_sizes(structure):
                return None
            return CONVERSIONS.get(structure, lambda: lower(net, init, inputs, outputs, form))
        except ConversionError as error:
            if not final and needs_sizes(error):
                if structure is not None:
                    CONVERSIONS.note_needed_sizes(structure)
                return None
            name = NetView(net).name
            found = [self._origin.relocated(found, name, added) for found in error.errors]
            raise ConversionError([_without_description(each) for each in found]) from None

    def missing(self, name: str) -> NoBlobError:
        """Make the error for a blob that the net reads and that does not exist."""
        reader, index = self._reader(name)
        error = NoBlobError(f"{reader} reads blob {name!r}, which is not in the workspace")
        error.operator = index
        return error

    def _not_a_tensor(self, name: str, what: str) -> RunError:
        reader, index = self._reader(name)
        error = RunError(f"{reader} reads blob {name!r}, which is {what} and not a tensor")
        error.operator = index
        return error

    def _reader(self, name: str) -> tuple[str, int | None]:
        """Return the first operator that reads a blob, for messages, and its index."""
        view = NetView(self._net)
        for op in view.ops:
            if name in op.inputs:
                location = self._origin.location(op)
                return str(location), location.index
        return f"net {view.name!r}", None

    def _require_tensors(self, given: Mapping[str, Value], free: Sequence[str]) -> None:
        for name in free:
            value = given.get(name)
            if isinstance(value, bytes):
                raise self._not_a_tensor(name, "a text")
            if isinstance(value, HostObject) and self._maker(name, value) is None:
                raise self._not_a_tensor(name, value.description)

    def _maker(self, name: str, value: HostObject) -> OperatorDef | None:
        """Return the operator that makes an object in the converted net; None if the net cannot read it."""
        if isinstance(value, Opaque):
            return value.maker
        fits = all(op.type in value.readers for op in NetView(self._net).ops if name in op.inputs)
        return OperatorDef(type=value.maker_type, output=[name]) if fits and value.maker_type else None

    def _with_constants(self, constants: Mapping[str, Value]) -> InitNet:
        if not constants:
            return self._init
        parameters = {name: _as_parameter(name, value) for name, value in constants.items()}
        return dataclasses.replace(self._init, parameters={**self._init.parameters, **parameters})

    def _makers(self, given: Mapping[str, Value]) -> list[OperatorDef]:
        """Return the operators that make the objects among the inputs."""
        objects = {name: value for name, value in given.items() if isinstance(value, HostObject)}
        return [maker for name, value in objects.items() if (maker := self._maker(name, value)) is not None]

    def _with_interface(
        self, makers: Sequence[OperatorDef], given: Mapping[str, Value], outputs: Sequence[str]
    ) -> tuple[NetDef, list[str]]:
        """Return the net that declares the inputs and outputs, and the names under which it returns the outputs.

        The makers, of the objects among the inputs, are prepended.
        """
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
        inputs = [name for name, value in given.items() if not isinstance(value, HostObject)]
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
    return operator is not None and operator.scope is BodyScope.SHARED


def _without_description(finding: Diagnostic) -> Diagnostic:
    """Return a diagnostic without the hint to describe an input, whose type is that of the value that was given."""
    return dataclasses.replace(finding, hint="") if finding.code == "invalid-operands" else finding
