"""Fold scales and shifts of channels into the convolution before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.passes import FunctionalPass, InPlacePass
from caffe2_frontend.interop.bodies import value_names
from caffe2_frontend.interop.cleanup.unused import remove_unused_constants
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.names import Names
from caffe2_frontend.state import Export


@dataclass(frozen=True)
class _Affine:
    """What follows a convolution: nodes that scale and shift each channel, and what computes both, float32 [C].

    No scale is one of 1.
    """

    nodes: tuple[ir.Node, ...]
    scale: Callable[[], Array] | None
    shift: Callable[[], Array]

    @property
    def result(self) -> ir.Value:
        """The value after the last node."""
        return self.nodes[-1].outputs[0]


class ReportBatchNorm(FunctionalPass[Export]):
    """Note how many scales and shifts :class:`FoldBatchNorm` will fold."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "folded"})
    ensures: ClassVar[frozenset[str]] = frozenset({"batchnorm_reported"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the note, if there are any."""
        count = sum(1 for _ in _candidates(state))
        if not count:
            return state
        reason = (
            f"{count} of SpatialBN, AffineChannel and Add became part of the weights of the convolutions before them"
        )
        hint = "to keep them: --no-fold-batchnorm, or fold_batchnorm=False"
        note = Diagnostic("note", reason, Location(str(state.graph.name)), Severity.NOTE, hint)
        return replace(state, findings=(*state.findings, note))


class FoldBatchNorm(InPlacePass[Export]):
    """Fold SpatialBN and AffineChannel of an inference net into the weights of the convolution before them.

    ::

        Conv(x, W, b) -> BatchNormalization  =>  Conv(x, W * scale, b * scale + shift)
        Conv(x, W, b) -> Mul -> Add          =>  the same
        Conv(x, W, b) -> Add                 =>  Conv(x, W, b + shift)

    Nothing else may read the convolution, and all weights are parameters. The new weights are computed in float32, as
    the net computes its results, when the model is written.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "folded", "batchnorm_reported"})
    ensures: ClassVar[frozenset[str]] = frozenset({"batchnorm_folded"})

    def __call__(self, state: Export) -> None:
        """Fold what the model's graph has."""
        found = list(_candidates(state))
        if found:
            names = Names(value_names(state.graph))
            for conv, affine in found:
                _fold(state.graph, conv, affine, names)
            remove_unused_constants(state.graph)


def _candidates(state: Export) -> Iterator[tuple[ir.Node, _Affine]]:
    """Yield the convolutions that are followed by a scale and shift of channels."""
    if state.model is None or not state.options.fold_batchnorm or state.updates or state.losses:
        return
    for node in state.graph:
        found = _affine_after(node)
        if found is not None:
            yield node, found


def _affine_after(conv: ir.Node) -> _Affine | None:
    """Return the scale and shift after a convolution that can be folded into it."""
    weight = conv.inputs[1] if standard_type(conv) == "Conv" else None
    if weight is None or not all(map(_is_parameter, conv.inputs[1:])) or len(weight.uses()) > 1:
        return None
    channels = None if weight.shape is None else weight.shape[0]
    node = _only_reader(conv.outputs[0])
    if node is None or not isinstance(channels, int):
        return None
    if standard_type(node) == "BatchNormalization":
        return _normalization(node, conv.outputs[0])
    return _scale_and_shift(node, conv.outputs[0], channels, len(weight.shape or ()) - 2)


def _normalization(node: ir.Node, x: ir.Value) -> _Affine | None:
    operands = node.inputs[1:]
    is_training = node.attributes.get_int("training_mode", 0) != 0
    if node.inputs[0] is not x or is_training or len(node.outputs) > 1 or not all(map(_is_parameter, operands)):
        return None
    gamma, beta, mean, variance = (_reader(value) for value in operands)
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))

    def scale() -> Array:
        return gamma() / np.sqrt(variance() + epsilon)

    return _Affine((node,), scale, lambda: beta() - mean() * scale())


def _scale_and_shift(node: ir.Node, x: ir.Value, channels: int, spatial: int) -> _Affine | None:
    shift = _per_channel(node, "Add", x, channels, spatial)
    if shift is not None:
        return _Affine((node,), None, shift)
    factor = _per_channel(node, "Mul", x, channels, spatial)
    if factor is None:
        return None
    added = _only_reader(node.outputs[0])
    term = None if added is None else _per_channel(added, "Add", node.outputs[0], channels, spatial)
    if added is None or term is None:
        return _Affine((node,), factor, lambda: np.zeros(channels, np.float32))
    return _Affine((node, added), factor, term)


def _per_channel(node: ir.Node, op_type: str, x: ir.Value, channels: int, spatial: int) -> Callable[[], Array] | None:
    """Return the operand of ``x * operand`` or ``x + operand`` if it is one number for each channel of ``x``."""
    others = [value for value in node.inputs if value is not x]
    if standard_type(node) != op_type or len(others) != 1 or not _is_parameter(others[0]):
        return None
    shape = () if others[0] is None or others[0].shape is None else tuple(others[0].shape)
    return _reader(others[0]) if shape in ((channels, *[1] * spatial), (1, channels, *[1] * spatial)) else None


def _only_reader(value: ir.Value) -> ir.Node | None:
    uses = value.uses()
    return next(iter(uses)).node if len(uses) == 1 and not value.is_graph_output() else None


def _is_parameter(value: ir.Value | None) -> bool:
    """Whether a value is a constant of type float32."""
    return (
        value is not None
        and value.const_value is not None
        and not value.is_graph_input()
        and value.const_value.dtype == ir.DataType.FLOAT
    )


def _reader(value: ir.Value | None) -> Callable[[], Array]:
    assert value is not None
    tensor = value.const_value
    assert tensor is not None
    return lambda: tensor.numpy().reshape(-1)


def _fold(graph: ir.Graph, conv: ir.Node, affine: _Affine, names: Names) -> None:
    """Let a convolution with other weights compute the result of the nodes after it."""
    weight, result = conv.inputs[1], affine.result
    assert weight is not None
    assert weight.const_value is not None
    old, shape = weight.const_value, tuple(weight.const_value.shape.numpy())
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    before = None if bias is None else _reader(bias)

    scale = affine.scale or (lambda: np.ones(1, np.float32))

    def weights() -> ir.TensorProtocol:
        return ir.Tensor(old.numpy() * scale().reshape(-1, *[1] * (len(shape) - 1)))

    def biases() -> ir.TensorProtocol:
        shift = affine.shift()
        return ir.Tensor(shift if before is None else before() * scale() + shift)

    conv.resize_inputs(3)
    parts = (("scaled", weights, shape), ("shift", biases, shape[:1]))
    for index, (suffix, compute, dims) in enumerate(parts, 1):
        if compute is weights and affine.scale is None:
            continue
        name = names.fresh(f"{weight.name}_{suffix}")
        tensor = ir.LazyTensor(compute, old.dtype, ir.Shape(dims), name=name)
        value = ir.Value(name=name, type=ir.TensorType(old.dtype), shape=ir.Shape(dims), const_value=tensor)
        graph.register_initializer(value)
        conv.replace_input_with(index, value)
    output = conv.outputs[0]
    final, kind, known = result.name, result.type, result.shape
    ir.convenience.replace_all_uses_with(result, output, replace_graph_outputs=True)
    graph.remove(affine.nodes[::-1], safe=True)
    output.name, output.type, output.shape = final, kind, known or output.shape
