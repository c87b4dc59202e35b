"""Lower an ONNX graph to a Caffe2 net."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_backend.described_inputs import sizes_hint
from caffe2_backend.lowering.carry import describe_net
from caffe2_backend.lowering.lower import Lowering
from caffe2_backend.lowering.types import STORED_AS
from caffe2_backend.ops import converters
from caffe2_backend.restore.restored_nodes import DOMAIN, reserved_names
from caffe2_backend.state import Import
from caffe2_bridge.control import names_in_arguments
from caffe2_bridge.diagnostics import Location, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.bodies import value_names
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.types import Quantization

_LISTED: Final = 3
_OF_SIZES: Final = frozenset({
    "Add", "Cast", "Concat", "ConstantFill", "Copy", "ExpandDims", "Gather", "Reshape", "Shape", "Slice", "Squeeze",
    "Sub", "Transpose",
})  # fmt: skip


class LowerGraph(FunctionalPass[Import]):
    """Convert every node in order, and report all that cannot be converted at once."""

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset", "constants", "shapes"})
    ensures: ClassVar[frozenset[str]] = frozenset({"net"})

    def __call__(self, state: Import) -> Import:
        """Return the state with the net and its parameters."""
        model = state.model
        graph = model.graph
        names = Names((*value_names(graph), *reserved_names(graph)))
        lowering = Lowering(
            converters() if state.lowers else {}, names, state.options.carries_nodes, sizes_hint(graph.inputs)
        )
        net = NetDef(name=graph.name or "net")
        location = Location(net.name)
        lowering.initializers(graph.initializers.values(), net, location)
        net.op.extend(lowering.graph(graph, location))
        net.external_output.extend(str(value.name) for value in graph.outputs)
        used = _drop_sizes(net)
        defaults = _read_defaults(state, lowering, used, location)
        _drop_unread(lowering, used)
        inputs = [str(value.name) for value in graph.inputs]
        net.external_input.extend(dict.fromkeys([*inputs, *lowering.parameters]))
        opsets = {domain: version for domain, version in model.opset_imports.items() if domain != DOMAIN}
        describe_net(
            net, graph, opsets if any(op.domain for op in net.op) else {}, state.quantized, defaults,
            stores_bits=not lowering.carries_nodes,
        )  # fmt: skip
        _note_stored_bits(graph, lowering, location)
        parameters = {name: _as_int8(value, state.quantized.get(name)) for name, value in lowering.parameters.items()}
        found = (*state.findings, *lowering.diagnostics)
        return replace(state, net=net, parameters=parameters, findings=found)


def _read_defaults(state: Import, lowering: Lowering, used: set[str], location: Location) -> list[ir.Value]:
    """Return the parameters that are inputs with defaults in an export again, as operators read them.

    A value for one that no operator reads any more, because it became an argument or a part of another parameter, would
    change nothing: it is not a parameter either.
    """
    constant = [name for name in state.defaults if name in lowering.parameters and name not in used]
    for name in constant:
        del lowering.parameters[name]
    if constant and not state.demands_inputs:
        reason = "the defaults of inputs are constants of the net, which takes no other values for them"
        reason += f": {listed(constant, _LISTED)}"
        lowering.report("note", reason, location, severity=Severity.NOTE)
    if state.demands_inputs:
        return []
    return [state.model.graph.initializers[name] for name in state.defaults if name in lowering.parameters]


def _drop_sizes(net: NetDef) -> set[str]:
    """Remove operators that compute sizes, or tensors of them, that a converter had no need of.

    Returns the names in the others and those of the net's outputs.
    """
    used, kept = {*net.external_output}, []
    for op in reversed(net.op):
        if op.type in _OF_SIZES and not op.domain and used.isdisjoint(op.output):
            continue
        kept.append(op)
        used.update(op.input[:], op.output[:])
        if op.arg:
            used.update(names_in_arguments(op))
    if len(kept) < len(net.op):
        del net.op[:]
        net.op.extend(reversed(kept))
    return used


def _drop_unread(lowering: Lowering, used: set[str]) -> None:
    """Remove parameters that became arguments, or parts of other parameters, and that no operator reads any more."""
    for name in [name for name in lowering.parameters if name not in used]:
        del lowering.parameters[name]


def _note_stored_bits(graph: ir.Graph, lowering: Lowering, location: Location) -> None:
    """Report inputs and outputs that are bits of numbers of a type that Caffe2 has no tensors of."""
    for value in dict.fromkeys((*graph.inputs, *graph.outputs)):
        dtype = value.dtype if isinstance(value.type, ir.TensorType) else None
        if dtype in STORED_AS and not lowering.carries_nodes:
            stored = STORED_AS[dtype].name.lower()
            reason = f"{value.name!r} is {dtype.name.lower()}, whose bits are a tensor of {stored}"
            lowering.report("note", reason, location, severity=Severity.NOTE)


def _as_int8(parameter: Parameter, how: Quantization | None) -> Parameter:
    return parameter if how is None else replace(parameter, scale=how.scale, zero_point=how.zero_point)
