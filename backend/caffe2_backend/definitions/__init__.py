"""Definitions of operators that ONNX does not define through others, as functions of ONNX operators."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions import (
    activations,
    attention,
    categories,
    int8_forms,
    layer_norm,
    linear_models,
    matrices,
    n_grams,
    optimizers,
    quantized,
    recurrent,
    support_vectors,
    tree_ensemble,
    trees,
)
from caffe2_backend.definitions.definition import Definition, UndefinedError
from caffe2_backend.definitions.family import merged

_DEFINITIONS = merged(
    room.family
    for room in (
        activations, attention, categories, layer_norm, linear_models, matrices, n_grams, optimizers, quantized,
        recurrent, support_vectors, tree_ensemble, trees,
    )
)  # fmt: skip
_INT8_FORMS = merged((int8_forms.family, int8_forms.contributed))


def has_definition(node: ir.Node) -> bool:
    """Whether this project defines the operator through ONNX's."""
    return (node.domain, node.op_type) in _DEFINITIONS


def has_int8_form(node: ir.Node) -> bool:
    """Whether the operator has a definition of which Int8 operators are made."""
    return (node.domain, node.op_type) in _INT8_FORMS


def definition_of(node: ir.Node, *, int8: bool = False) -> ir.Function | None:
    """Return the node as a function of ONNX operators, with the outputs that it has; its Int8 form with ``int8``.

    None where it has a form, or types, that are not defined.
    """
    definition = Definition(node)
    try:
        outputs = (_INT8_FORMS if int8 else _DEFINITIONS)[node.domain, node.op_type](definition)
    except UndefinedError:
        return None
    made = [outputs] if isinstance(outputs, ir.Value) else list(outputs)
    if any(value.name for value in node.outputs[len(made) :]):
        return None
    return definition.function([value for value, own in zip(made, node.outputs, strict=False) if own.name])
