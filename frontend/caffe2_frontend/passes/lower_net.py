"""Lower a Caffe2 net to an ONNX graph."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.ssa.outputs import outputs_hint
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.domains import EXPORTED_VERSIONS
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES
from caffe2_frontend.interop.metadata.origin import node_metadata
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.types import Quantization, TensorInfo
from caffe2_frontend.lowering.lower import Lowering
from caffe2_frontend.lowering.reads import BlobReads
from caffe2_frontend.lowering.scope import Constants, Scope
from caffe2_frontend.lowering.trace import Trace, Traces
from caffe2_frontend.lowering.unsupported_ops import CHOOSE_OUTPUTS
from caffe2_frontend.ops import converters, expectations, uniform_operators
from caffe2_frontend.passes.output_hints import with_output_hints
from caffe2_frontend.state import Export, ir_version
from caffe2_frontend.targets.table import find_target


class LowerNet(FunctionalPass[Export]):
    """Convert every operator in order, and report all that cannot be converted at once."""

    requires: ClassVar[frozenset[str]] = frozenset({"ssa", "inputs"})
    ensures: ClassVar[frozenset[str]] = frozenset({"graph"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the ONNX model, or without one if an error was reported."""
        net = state.net
        names = Names(_blob_names(net, state))
        constants = Constants(names)
        inputs = [_graph_input(names.claim(name), info) for name, info in state.inputs.items()]
        scope = Scope(names, constants, state.working_opset, outermost=True, sizes=_named_sizes(inputs))
        scope.blobs.update((str(value.name), value) for value in inputs)
        for name, parameter in state.init.parameters.items():
            if name not in state.inputs:
                scope.blobs[name] = _parameter(parameter, constants)
        blobs = tuple(blob for _, blob in state.outputs)
        # An input that an import stored without a shape may be of any rank: operators report what they need of it.
        ranks_known = all(info.shape is not None or info.onnx_type is not None for info in state.inputs.values())
        table = converters(state.options.int8)
        lowering = Lowering(
            table,
            state.options.recurrent,
            BlobReads(state.predict, blobs),
            blobs,
            ranks_known,
            state.implied_outputs,
            expectations(),
            uniform=uniform_operators(),
            full_lengths=state.options.full_lengths,
            target=find_target(state.options.target),
        )
        _poison_reported(state.init, scope)
        lowering.ops(((op.index, op) for op in state.init.rest), scope, Location("init_net"))
        scope.blobs.update((str(value.name), value) for value in inputs)  # also those that the init net writes
        lowering.ops(state.numbered(), scope, Location(net.name))
        traces = Traces(lowering.traces, scope.blobs, dims=lowering.dims, labels=lowering.labels)
        findings = _in_net_order([*state.findings, *_choose_outputs(lowering), *_omitted_outputs(lowering)], net.name)
        omitted = {blob for blobs in lowering.omitted.values() for blob in blobs}
        outputs = tuple((name, blob) for name, blob in state.outputs if blob not in omitted)
        made = [(name, _output(name, blob, scope, net, findings)) for name, blob in outputs]
        findings = with_output_hints(findings, state, scope)
        model = None
        if not any(finding.severity is Severity.ERROR for finding in findings):
            graph = _finish(net.name, inputs, made, scope, traces)
            domains = {node.domain for node in all_nodes(graph)}
            graph.opset_imports.update((d, EXPORTED_VERSIONS.get(d, 1)) for d in domains if d)
            graph.opset_imports.update(state.domains)
            model = ir.Model(graph, ir_version=ir_version(state.working_opset))
        # A new view of the net: the old one holds all operators as Python objects.
        state = replace(state, net=NetView(state.predict), model=model, outputs=outputs, findings=tuple(findings))
        return replace(
            state,
            covered=lowering.covered,
            unexamined=lowering.unexamined,
            traces=traces,
            accepted=lowering.accepted,
            functions=lowering.functions,
            wanted_scales=lowering.wanted_scales,
        )


def _choose_outputs(lowering: Lowering) -> list[Diagnostic]:
    """Return the diagnostics, with what to type where outputs of the model keep recurrent nets from being fused."""
    slow = tuple(name for names in lowering.unfused.values() for name in names)
    kept = [name for name in lowering.outputs if name not in slow]
    if not slow or not kept:
        return lowering.findings
    hint = f"if {', '.join(map(repr, slow))} is not needed, choose the others: {outputs_hint(kept)}"
    return [replace(each, hint=hint) if each.location in lowering.unfused else each for each in lowering.findings]


def _omitted_outputs(lowering: Lowering) -> list[Diagnostic]:
    """Return a note for each recurrent net without the rows of its cell state, with what to type to output them."""
    names = lowering.outputs
    return [
        Diagnostic(
            "omitted-output",
            f"{', '.join(map(repr, omitted))} is not an output of the model: no operator reads it, the net declares no "
            "outputs, and ONNX's LSTM does not compute it",
            here,
            Severity.NOTE,
            f"to output it, choose all outputs, and the net becomes a Scan: {outputs_hint(names)}",
        )
        for here, omitted in lowering.omitted.items()
    ]


def _in_net_order(findings: list[Diagnostic], net: str) -> list[Diagnostic]:
    """Return each diagnostic once: those of the net in the order of its operators, after all others."""

    def position(finding: Diagnostic) -> int:
        outermost = finding.location.outermost
        return -1 if outermost.net != net or outermost.index is None else outermost.index

    return sorted(dict.fromkeys(findings), key=position)


def _poison_reported(init: InitNet, scope: Scope) -> None:
    """Poison what operators of the init net read without a value: the init net's own diagnostics report it."""
    if not any(finding.code == "not-an-init-net" for finding in init.findings):
        return
    written: set[str] = set()
    for op in init.rest:
        for name in op.inputs:
            if name not in written and not scope.is_known(name):
                scope.poison(name)
        written.update(op.outputs)


def _blob_names(net: NetView, state: Export) -> set[str]:
    names = {*state.inputs, *state.init.parameters, *(name for name, _ in state.outputs)}
    for op in net.ops:
        names.update(op.inputs)
        names.update(op.outputs)
    return names


def _graph_input(name: str, info: TensorInfo) -> ir.Value:
    assert info.dtype is not None
    known = info.onnx_type if info.onnx_type is not None and info.quantization is None else ir.TensorType(info.dtype)
    value = ir.Value(name=name, type=known, shape=None if info.shape is None else ir.Shape(info.shape))
    if info.quantization is not None:
        value.meta["quantization"] = info.quantization
    return value


def _named_sizes(inputs: list[ir.Value]) -> dict[str, tuple[ir.Value, int]]:
    """Return the first input, and its axis, that has each named dim."""
    found: dict[str, tuple[ir.Value, int]] = {}
    for value in inputs:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                found.setdefault(dim.value, (value, axis))
    return found


def _parameter(parameter: Parameter, constants: Constants) -> ir.Value:
    """Return a parameter as a constant, read from its file whenever the model is written; strings are read at once.

    A small one is read once: to read it takes longer than to keep it costs.
    """
    tensor: ir.TensorProtocol
    if parameter.dtype.kind in "OSU":
        tensor = string_tensor(parameter.load())
    else:
        dtype = ir.DataType.from_numpy(parameter.dtype)
        small = parameter.size * parameter.dtype.itemsize <= SMALL_TENSOR_BYTES
        tensor = ir.LazyTensor(
            lambda: ir.Tensor(parameter.load()), dtype, constants.shape(parameter.shape), cache=small
        )
    value = constants.add_tensor(tensor, parameter.name, claimed=True)
    if parameter.scale is not None:
        value.meta["quantization"] = Quantization(parameter.scale, parameter.zero_point or 0)
    return value


def _output(name: str, blob: str, scope: Scope, net: NetView, findings: list[Diagnostic]) -> ir.Value | None:
    value = scope.find(blob)
    if value is None and not scope.is_poisoned(blob):
        reason = f"output {name!r} is not written by any operator, or is not a tensor"
        findings.append(Diagnostic("undefined-output", reason, Location(net.name), hint=CHOOSE_OUTPUTS))
    return value


def _finish(
    name: str, inputs: list[ir.Value], outputs: list[tuple[str, ir.Value | None]], scope: Scope, traces: Traces
) -> ir.Graph:
    """Return the graph, with each output under its own name; an input, a constant or a renamed blob gets an Identity.

    An input may be an output itself. Where an output is a later value of a blob that is an input, too, the input keeps
    its name, and the output gets a new one.
    """
    given = {value.name: value for value in inputs}
    used: set[ir.Value] = set(inputs)
    made = {value.name: value for value in scope.constants.values}
    made |= {value.name: value for node in scope.nodes for value in node.outputs}
    results = []
    for output, value in outputs:
        assert value is not None
        if given.get(output) is value:
            results.append(value)
            continue
        holder = made.get(output)
        if holder is not None and holder is not value:
            _rename(holder, scope.names.fresh(output))  # an earlier value of a blob that is written in place
        result = value
        if value in used or value.const_value is not None:
            result = _passed_on(scope, value, traces.writers.get(output))
            traces.given[output] = result
            if value.name == output and value.const_value is not None:
                _rename(value, scope.names.fresh(output))
        result.name = scope.names.fresh(output) if output in given else output
        used.add(result)
        results.append(result)
    graph = ir.Graph(inputs, results, nodes=scope.nodes, name=name, opset_imports={"": scope.opset})
    for constant in scope.constants.values:
        graph.register_initializer(constant)
    return graph


def _rename(value: ir.Value, name: str) -> None:
    value.name = name
    if value.const_value is not None:
        value.const_value.name = name


def _passed_on(scope: Scope, value: ir.Value, writer: Trace | None) -> ir.Value:
    """Return the output of an Identity of the value, with the metadata of the operator that writes the output."""
    node = ir.Node("", "Identity", [value], num_outputs=1)
    scope.nodes.append(node)
    result = node.outputs[0]
    if writer is not None:
        node.metadata_props.update(node_metadata(writer.op.type, writer.location))
    result.type, result.shape = value.type, value.shape
    return result
