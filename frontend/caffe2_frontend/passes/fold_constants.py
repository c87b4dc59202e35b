"""Fold constants: replace nodes whose operands are all constants by constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.bounds import current_limits
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import value_names
from caffe2_frontend.interop.cleanup.unused import remove_unused_constants
from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.inference.node_evaluation import evaluation_of
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operators import RECURRENT, VIEWS
from caffe2_frontend.state import Export

# The results of these are no larger than their operands: they may be stored.
_FOLDABLE: Final = VIEWS | {
    "Add", "Cast", "Concat", "Gather", "Mul", "Neg", "Shape", "Slice", "Split", "Sub", "Transpose",
}  # fmt: skip
# How the names of folded weights end.
_SUFFIXES: Final = {
    "Cast": "cast",
    "Flatten": "reshaped",
    "Gather": "part",
    "Neg": "negated",
    "Reshape": "reshaped",
    "Slice": "part",
    "Split": "part",
    "Squeeze": "reshaped",
    "Transpose": "transposed",
    "Unsqueeze": "reshaped",
}
_RECURRENT_OPERANDS: Final = {1: "W", 2: "R", 3: "B"}


class FoldConstants(InPlacePass[Export]):
    """Replace nodes whose operands are all constants by constants, computed when the model is written.

    Weights that are transposed, sliced or reordered for ONNX are thus never in memory all at once.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Export) -> None:
        """Fold the constants of the model's graph."""
        graph = state.graph
        results = set(graph.outputs)
        folded: list[_Folded] = []
        for node in list(graph):
            if not _is_foldable(node, state.working_opset) or results.intersection(node.outputs):
                continue
            sources = tuple(value for value in node.inputs if value is not None)
            for value, tensor in zip(node.outputs, _tensors(node, state.working_opset), strict=True):
                constant = ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=tensor)
                ir.convenience.replace_all_uses_with(value, constant)
                folded.append(_Folded(constant, value, node.op_type, sources))
            graph.remove(node, safe=True)
        _name(state, folded)
        for each in folded:
            graph.register_initializer(each.constant)
        if folded:
            remove_unused_constants(graph)  # that only folded nodes read


_RUNS: Final = "caffe2_bridge.runs"  # of nodes that reading a tensor takes
_MAX_RUNS: Final = 32


@dataclass(frozen=True)
class _Folded:
    """A constant, the value that it replaces, and the type and the operands of the node that computed it."""

    constant: ir.Value
    value: ir.Value
    op_type: str
    sources: tuple[ir.Value, ...]


def _name(state: Export, folded: Sequence[_Folded]) -> None:
    """Name the constants that are read after the weights that they are computed from, unless they are blobs.

    The replaced values get the names too: the traces of the operators hold those.
    """
    bound = [state.traces.blobs, state.traces.given, *(trace.before for trace in state.traces.ops if trace.before)]
    blobs = {value for values in bound for value in values.values()} if folded else set()
    names = Names([*value_names(state.graph), *(str(each.constant.name) for each in folded)]) if folded else Names()
    made = {each.constant: each for each in folded}
    for each in folded:
        if each.value not in blobs and each.constant.uses():
            name = _derived_name(each, made)
            if name is not None:
                each.value.name = each.constant.name = names.fresh(name)
        assert each.constant.const_value is not None
        each.constant.const_value.name = each.constant.name


def _derived_name(folded: _Folded, made: Mapping[ir.Value, _Folded]) -> str | None:
    """Return ``<operator>_W`` and so on for operands of recurrent operators, else ``<weight>_transposed`` and so on.

    None for a constant of several weights, which keeps the name after the operator that it was made for.
    """
    owner = str(folded.value.name).rpartition("/")[0]
    for use in folded.constant.uses():
        if standard_type(use.node) in RECURRENT and use.idx in _RECURRENT_OPERANDS:
            return f"{owner}_{_RECURRENT_OPERANDS[use.idx]}"
    suffix, source = _SUFFIXES.get(folded.op_type), folded
    while True:
        weights = [value for value in source.sources if value.dtype is not None and value.dtype.is_floating_point()]
        if len(weights) != 1 or suffix is None:
            return None
        before = made.get(weights[0])
        if before is None:
            return f"{weights[0].name}_{suffix}"
        source = before


def _is_foldable(node: ir.Node, opset: int) -> bool:
    return (
        node.domain == ""
        and node.op_type in _FOLDABLE
        and node.attributes.keys() <= _attributes(node.op_type, opset)
        and all(value is not None and value.const_value is not None for value in node.inputs)
        and all(
            value.dtype is not None and value.shape is not None and value.shape.is_static() for value in node.outputs
        )
        and not _grows(node)
    )


@lru_cache(maxsize=256)
def _attributes(op_type: str, opset: int) -> frozenset[str]:
    return frozenset(onnx.defs.get_schema(op_type, opset).attributes)


def _grows(node: ir.Node) -> bool:
    """Whether a result is very large, and larger than all operands: weights may be as large as they are."""
    given = sum(value.const_value.size for value in node.inputs if value is not None and value.const_value is not None)
    allowed = max(given, current_limits().constant_bytes // 8)
    return any(math.prod(value.shape.numpy()) > allowed for value in node.outputs if value.shape is not None)


def _tensors(node: ir.Node, opset: int) -> list[ir.TensorProtocol]:
    """Return the outputs as lazy tensors that run the node when they are read; strings are computed at once.

    A tensor that took too many runs of nodes is kept: what reads it would run all of them again, and a value that is
    read twice at each of n levels would be computed 2^n times.
    """
    inputs = {str(v.name): v.const_value for v in node.inputs if v is not None and v.const_value is not None}
    proto = ir.serde.serialize_node(node)
    shapes = [value.shape.numpy() for value in node.outputs if value.shape is not None]
    runs = 1 + sum(tensor.meta.get(_RUNS, 0) for tensor in inputs.values())

    def run(index: int) -> Callable[[], ir.TensorProtocol]:
        def compute() -> ir.TensorProtocol:
            feed = {name: tensor.numpy() for name, tensor in inputs.items()}
            try:
                results = evaluation_of(proto, opset)(feed)
            except Exception as error:  # noqa: BLE001 - NumPy's functions raise whatever they do on operands that do not fit
                raise _invalid(node, f"cannot be computed: {error}") from None
            array = np.asarray(results[index], order="C")  # not ascontiguousarray, which makes vectors of scalars
            if array.shape != shapes[index]:
                raise _invalid(
                    node, f"has the shape {list(array.shape)} and not {list(shapes[index])}: sizes contradict"
                )
            return string_tensor(array) if array.dtype.kind in "OSU" else ir.Tensor(array)

        return compute

    made: list[ir.TensorProtocol] = []
    for i, value in enumerate(node.outputs):
        if value.dtype == ir.DataType.STRING:  # a lazy tensor does not know the size of its strings
            made.append(run(i)())
            continue
        tensor = ir.LazyTensor(run(i), value.dtype, ir.Shape(value.shape.numpy()), cache=runs > _MAX_RUNS)  # type: ignore[union-attr, arg-type] # static: _is_foldable
        if tensor.cache:
            tensor.numpy()  # now: reading a long chain of them at once would recurse too deeply
        tensor.meta[_RUNS] = 0 if tensor.cache else runs
        made.append(tensor)
    return made


def _invalid(node: ir.Node, reason: str) -> ConversionError:
    """Return the error of a node whose constants do not go together."""
    found = Diagnostic("invalid-operands", f"{node.op_type} of constants {reason}", Location(node.name or "graph"))
    return ConversionError([found])
