"""Inline functions, lift constants to initializers, and infer types and shapes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from caffe2_backend.ops import REGISTERED
from caffe2_backend.passes.describe_registered import describe_registered
from caffe2_backend.restore.restored_nodes import reserved_names
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_graphs, all_nodes, has_bodies, proto_bodies
from caffe2_frontend.interop.domains import is_standard, standard_type
from caffe2_frontend.interop.files.strip_weights import TypeReader, without_weights
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.input_defaults import SEPARATE_INITIALIZERS

logger = logging.getLogger(__name__)

_INFERRED: Final = "caffe2_bridge.inferred"


class InlineFunctions(InPlacePass[Import]):
    """Inline the model's functions, and remove initializers from the graph's inputs.

    Calls of functions that have a registered importer stay, unless nodes may be carried.
    """

    ensures: ClassVar[frozenset[str]] = frozenset({"inlined"})

    def __call__(self, state: Import) -> None:
        """Inline the functions of the model."""
        if state.model.functions:
            own = {} if state.options.carries_nodes else REGISTERED
            common.InlinePass(lambda function: f"{function.domain}::{function.name}" not in own)(state.model)
            if state.model.functions:  # the types of their results follow from their bodies
                make_names_unique(state.model)
                infer(state.model)
            state.model.functions.clear()
        make_names_unique(state.model)  # inference finds values by name
        common.RemoveInitializersFromInputsPass()(state.model)
        if state.model.ir_version is None or state.model.ir_version < SEPARATE_INITIALIZERS:
            state.model.ir_version = SEPARATE_INITIALIZERS


class LiftOwnConstants(InPlacePass[Import]):
    """Make initializers of the constants of a model without bodies: if nothing folds, it need not be inferred again.

    ONNX builds definitions of nodes with bodies, such as FlexAttention, of bodies that hold their constants.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})

    def __call__(self, state: Import) -> None:
        """Lift the constants of the model's graph."""
        if not any(has_bodies(node) for node in state.model.graph):
            _lift_constants(state.model)


class LiftConstants(InPlacePass[Import]):
    """Make initializers of the main graph of all constants, those of bodies too."""

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"constants"})

    def __call__(self, state: Import) -> None:
        """Lift the constants of the model."""
        _add_identities_to_outputs(state.model)
        make_names_unique(state.model)
        _lift_constants(state.model)
        common.LiftSubgraphInitializersToMainGraphPass()(state.model)


def _lift_constants(model: ir.Model) -> None:
    if any(node.op_type == "Constant" for node in all_nodes(model.graph)):
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)


class InferShapes(InPlacePass[Import]):
    """Infer types and shapes without reading the weights."""

    requires: ClassVar[frozenset[str]] = frozenset({"constants"})
    ensures: ClassVar[frozenset[str]] = frozenset({"shapes"})

    def __call__(self, state: Import) -> None:
        """Infer the types and shapes of the model's values."""
        infer(state.model)
        while type_formals(state.model):
            infer(state.model)


def infer(model: ir.Model) -> None:
    """Infer the types and shapes of the values of a model, in place."""
    _infer(model)
    while describe_registered(model):
        _infer(model)


def _infer(model: ir.Model) -> None:
    """Infer once, unless nothing has changed since that was done: a model without bodies is inferred in one go."""
    known = model.meta.get(_INFERRED)
    if known is not None and known == _facts(model):
        return
    _infer_again(model)
    model.meta[_INFERRED] = _facts(model)


def _facts(model: ir.Model) -> list[object] | None:
    """Return what inference depends on, None for a model with bodies."""
    found: list[object] = [value.const_value for value in model.graph.initializers.values()]
    for value in (*model.graph.inputs, *model.graph.initializers.values(), *model.graph.outputs):
        found += _known_of(value)
    for node in model.graph:
        if node.attributes.data and has_bodies(node):
            return None
        found += (node, *node.inputs, *node.attributes.data.values())
        for value in node.outputs:
            found += _known_of(value)
    return found


def _known_of(value: ir.Value) -> tuple[object, ...]:
    return value, value.name, value.type, None if value.shape is None else value.shape.dims


def _infer_again(model: ir.Model) -> None:
    _describe_results(model)
    proto = without_weights(model, metadata=False)
    _show_constants(proto.graph, {tensor.name: tensor for tensor in proto.graph.initializer})
    try:
        inferred = infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError:  # converters report at their node what is unknown
        logger.debug("shapes not inferred", exc_info=True)
        return
    known = dict(_described(inferred.graph))
    types = TypeReader()
    for graph in all_graphs(model.graph):
        for value in (value for node in graph for value in node.outputs):
            info = known.get(value.name or "")
            if info is not None:
                _complete(value, *types.read(info.type))


def _describe_results(model: ir.Model) -> None:
    """Complete the shapes that ONNX's inference leaves open.

    Those of the results of Loops are the states'; the rank of a convolution is its kernel's, and so are its channels.
    """
    for node in all_nodes(model.graph):
        if node.op_type == "Loop" and is_standard(node):
            for result, formal in zip(node.outputs, node.attributes["body"].as_graph().inputs[2:], strict=False):
                result.shape = completed(result.shape, formal.shape)
        elif node.op_type == "Conv" and is_standard(node) and node.outputs[0].shape is None:
            kernel = node.inputs[1] if len(node.inputs) > 1 else None
            if kernel is not None and kernel.shape is not None and len(kernel.shape) > 1:
                node.outputs[0].type = node.outputs[0].type or kernel.type
                node.outputs[0].shape = ir.Shape([None, kernel.shape[0], *[None] * (len(kernel.shape) - 2)])


def _show_constants(graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto]) -> None:
    """Copy the constants that bodies read into them: ONNX's inference does not see the values of outer graphs."""
    for node in graph.node:
        for body in proto_bodies(node):
            read = dict.fromkeys(name for inner in body.node for name in inner.input if name in constants)
            body.initializer.extend(constants[name] for name in read)
            _show_constants(body, constants)


def type_formals(model: ir.Model) -> bool:
    """Complete the types of bodies' inputs from the operands of their nodes. Return whether a type was completed."""
    found = False
    for node in all_nodes(model.graph):
        if node.op_type in _BODIES and is_standard(node):
            formals = node.attributes["body"].as_graph().inputs
            for formal, (kind, shape) in zip(formals, _BODIES[node.op_type](node), strict=False):
                if formal.type is None and kind is not None:
                    formal.type, found = kind, True
                if formal.shape is None and shape is not None:
                    formal.shape, found = shape, True
    return found


def _of_loop(node: ir.Node) -> Iterator[_Known]:
    """Yield the types of the inputs of a Loop's body; the shapes of states may change."""
    yield ir.TensorType(ir.DataType.INT64), ir.Shape(())
    yield ir.TensorType(ir.DataType.BOOL), None
    yield from ((None if value is None else value.type, None) for value in node.inputs[2:])


def _of_scan(node: ir.Node) -> Iterator[_Known]:
    """Yield the types and shapes of the inputs of a Scan's body: states, then elements of the scanned sequences."""
    count = node.attributes.get_int("num_scan_inputs", 0)
    axes = node.attributes.get_ints("scan_input_axes", ()) or [0] * count
    states = len(node.inputs) - count
    for value in node.inputs[:states]:
        yield (None, None) if value is None else (value.type, None if value.shape is None else ir.Shape(value.shape))
    for value, axis in zip(node.inputs[states:], axes, strict=False):
        dims = [] if value is None or value.shape is None else list(value.shape)
        if value is None or not -len(dims) <= axis < len(dims):
            yield None, None
        else:
            del dims[axis]
            yield value.type, ir.Shape(dims)


_Known = tuple[ir.TypeProtocol | None, ir.Shape | None]
_BODIES: Final[dict[str, Callable[[ir.Node], Iterator[_Known]]]] = {"Loop": _of_loop, "Scan": _of_scan}


def _described(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.ValueInfoProto]]:
    for info in (*graph.value_info, *graph.output):
        yield info.name, info
    for node in graph.node:
        for body in proto_bodies(node):
            yield from _described(body)


def _complete(value: ir.Value, kind: ir.TypeProtocol | None, shape: ir.Shape | None) -> None:
    if value.type is None:
        value.type = kind
    if kind is not None and (value.shape is None or not value.shape.is_static()):
        value.shape = completed(shape, value.shape)


def completed(shape: ir.Shape | None, declared: ir.Shape | None) -> ir.Shape | None:
    """Return a shape with the declared dims where it has none, unless their ranks differ."""
    if shape is None or declared is None or len(shape) != len(declared):
        return declared if shape is None else shape
    return ir.Shape([given if _is_unknown(dim) else dim for dim, given in zip(shape, declared, strict=True)])


def _is_unknown(dim: int | ir.SymbolicDim) -> bool:
    return isinstance(dim, ir.SymbolicDim) and dim.value is None


def _add_identities_to_outputs(model: ir.Model) -> None:
    """Add an Identity for each output of a body that is a constant, because constants move to the main graph."""
    for body in list(all_graphs(model.graph)):
        if body is model.graph:
            continue
        for position, value in enumerate(body.outputs):
            if value.is_initializer():
                node = ir.Node("", "Identity", [value], num_outputs=1)
                node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
                node.outputs[0].name, value.name = value.name, f"{value.name}/constant"
                body.append(node)
                body.outputs[position] = node.outputs[0]


def _is_constant(value: ir.Value) -> bool:
    """Whether a Constant makes a value, which becomes an initializer and needs a name."""
    producer = value.producer()
    return producer is not None and standard_type(producer) == "Constant"


def make_names_unique(model: ir.Model) -> None:
    """Make the names of all values of all graphs unique: Caffe2's bodies share one workspace."""
    taken = {*reserved_names(model.graph)}
    for graph in all_graphs(model.graph):
        values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
        for value in dict.fromkeys(values):
            name = value.name
            if name == "" and not (value.uses() or value.is_graph_output() or _is_constant(value)):
                continue  # an optional output that is left out
            base, count = name or "value", 1
            while not name or name in taken:
                name = f"{base}_{count}"
                count += 1
            taken.add(name)
            if name != value.name:
                value.name = name
