"""Keep sums in front of layer normalizations apart from them."""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.dims.classes import DimClasses
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.state import Export


class SeparateSums(InPlacePass[Export]):
    """Compute the addition that a LayerNormalization normalizes as a Gemm, or as a Sum of two operands.

    onnxruntime fuses an Add and the LayerNormalization that follows to its SkipLayerNormalization, whose CPU kernel
    takes eight times as long as the two; it leaves a Sum alone. A Gemm computes the product of two matrices and what
    is added to it.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})

    def __call__(self, state: Export) -> None:
        """Replace the additions, in bodies too."""
        model = state.model
        if model is None:
            return
        additions = list(filter(None, map(_normalized_addition, all_nodes(model.graph))))
        classes = DimClasses()
        for a, b in state.traces.dims.equal if additions else ():
            classes.join(a, b)
        for addition in additions:
            if not _replace_by_gemm(addition, classes):
                addition.op_type = "Sum"


def _normalized_addition(node: ir.Node) -> ir.Node | None:
    """The addition whose result a node normalizes."""
    if node.op_type != "LayerNormalization" or node.domain or node.inputs[0] is None:
        return None
    maker = node.inputs[0].producer()
    return maker if maker is not None and maker.op_type == "Add" and not maker.domain else None


def _replace_by_gemm(addition: ir.Node, classes: DimClasses) -> bool:
    """Replace an addition and the product in front of it by a Gemm; return whether that computes the same."""
    total = addition.outputs[0]
    for product, other in (addition.inputs, addition.inputs[::-1]):
        maker = product.producer() if product is not None else None
        if product is None or other is None or maker is None or not _is_matrix_product(maker):
            continue
        if len(product.uses()) > 1 or product.is_graph_output() or total.is_graph_output():
            continue
        if maker.graph is not addition.graph or addition.graph is None or not _broadcasts(other, product, classes):
            continue
        gemm = ir.Node("", "Gemm", [*maker.inputs, other], metadata_props=addition.metadata_props)
        result = gemm.outputs[0]
        total.name, result.name, result.type, result.shape = result.name, total.name, total.type, total.shape
        addition.graph.insert_before(addition, gemm)
        ir.convenience.replace_all_uses_with(total, result)
        addition.graph.remove([addition, maker], safe=True)
        return True
    return False


def _is_matrix_product(node: ir.Node) -> bool:
    if node.op_type != "MatMul" or node.domain:
        return False
    return all(value is not None and value.shape is not None and len(value.shape) == 2 for value in node.inputs)


def _broadcasts(value: ir.Value, product: ir.Value, classes: DimClasses) -> bool:
    """Whether a value is broadcast to the shape of a product, and the product not to that of the value."""
    if value.shape is None or product.shape is None or len(value.shape) > len(product.shape):
        return False
    pairs = zip(value.shape[::-1], product.shape[::-1], strict=False)
    return all(dim == 1 or _are_equal(as_dim(dim), as_dim(whole), classes) for dim, whole in pairs)


def _are_equal(a: Dim, b: Dim, classes: DimClasses) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return classes.root(a) == classes.root(b)
    return a is not None and a == b
