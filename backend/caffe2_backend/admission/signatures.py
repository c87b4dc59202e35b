"""Nodes of operators that ONNX defines have the operands and the kinds of attributes that it asks for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import onnx
import onnx_ir as ir
from onnx.defs import OpSchema, SchemaError

from caffe2_backend.admission.earlier_forms import HINT, earlier_form
from caffe2_backend.admission.scopes import GraphScope
from caffe2_backend.admission.types import is_dtype
from caffe2_backend.state import WORKING_OPSET
from caffe2_bridge.diagnostics import Diagnostic
from caffe2_frontend.interop.domains import plain_domain, standard_type

_Opsets = Mapping[str, int]

# Attributes that early opsets require although no operator reads them.
_MEANINGLESS: Final = frozenset({"consumed_inputs"})
_TERM: Final = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")  # of the equation of an Einsum
_INTEGERS: Final = frozenset({"tensor(int32)", "tensor(int64)"})
# Attributes that are numbers of element types: of those that must be, and of those that may be undefined.
_DTYPES: Final = frozenset({"dtype", "to"})
_OPTIONAL_DTYPES: Final = frozenset({"output_datatype", "output_dtype", "softmax_precision", "stash_type"})


def check_signatures(model: onnx.ModelProto, scope: GraphScope) -> Iterator[Diagnostic]:
    """Report the nodes of a scope that do not have what their operator requires.

    Operators that ONNX does not define are not checked, nor attributes that the operator does not have.
    """
    root = (scope.root or scope).proto
    opsets = _opsets(root if isinstance(root, onnx.FunctionProto) else model)
    functions = {(plain_domain(function.domain), function.name) for function in model.functions}
    types: Mapping[str, int] | None = None
    for index, node in enumerate(scope.nodes):
        domain = plain_domain(node.domain)
        version = opsets.get(domain, None if domain else WORKING_OPSET)
        if version is not None and (domain, node.op_type) not in functions:
            schema = schema_of(node.op_type, version, domain)
            if schema is not None:
                reasons = list(_faults(node, schema))
                integers = _integer_operands(node.op_type, version, domain)
                if integers:
                    types = _known_types(scope) if types is None else types
                    reasons += _type_faults(node, schema, integers, types)
                clause = _clause(node, version, domain) if reasons else ""
                for reason in reasons:
                    yield Diagnostic("malformed-model", reason + clause, scope.at(index), hint=HINT if clause else "")


def _clause(node: onnx.NodeProto, version: int, domain: str) -> str:
    """Return of which earlier opset a node is, as a clause; empty if it is of none."""
    names = {attribute.name for attribute in node.attribute}
    return earlier_form(
        node.op_type, version, domain, lambda schema: names <= schema.attributes.keys() and not [*_faults(node, schema)]
    )


def _opsets(owner: onnx.ModelProto | onnx.FunctionProto) -> _Opsets:
    return {plain_domain(entry.domain): entry.version for entry in owner.opset_import}


def schema_of(op_type: str, version: int, domain: str) -> OpSchema | None:
    """Return the schema of an operator in an opset; None where ONNX does not define it."""
    try:
        return _defined(op_type, version, domain)
    except (SchemaError, TypeError):  # not defined there; a version beyond the numbers that ONNX counts
        return None


# Neither keeps a name that ONNX does not define: it may be of any length.
@lru_cache(maxsize=4096)
def _defined(op_type: str, version: int, domain: str) -> OpSchema:
    return onnx.defs.get_schema(op_type, version, domain)


@lru_cache(maxsize=4096)
def _integer_operands(op_type: str, version: int, domain: str) -> frozenset[int]:
    """Return the operands of an operator that are integers whatever the others are: indices, sizes and axes."""
    formals = _defined(op_type, version, domain).inputs
    return frozenset(index for index, formal in enumerate(formals) if formal.types and formal.types <= _INTEGERS)


def _known_types(scope: GraphScope) -> Mapping[str, int]:
    """Return the element types of the inputs and constants that a scope sees, the innermost of a name."""
    found: dict[str, int] = {}
    at: GraphScope | None = scope
    while at is not None:
        own: dict[str, int] = {}
        if isinstance(at.proto, onnx.GraphProto):
            own = {info.name: info.type.tensor_type.elem_type for info in at.proto.input}
            own |= {tensor.name: tensor.data_type for tensor in at.proto.initializer}
        for node in at.nodes:
            if standard_type(node) == "Constant" and node.output and node.attribute and node.attribute[0].HasField("t"):
                own[node.output[0]] = node.attribute[0].t.data_type
        found = own | found
        at = at.parent
    return found


def _type_faults(
    node: onnx.NodeProto, schema: OpSchema, operands: Collection[int], types: Mapping[str, int]
) -> Iterator[str]:
    for index in operands:
        kind = types.get(node.input[index], 0) if index < len(node.input) else 0
        if kind and not ir.DataType(kind).is_integer():
            yield f"input {index} ({schema.inputs[index].name}) must be integers, not {ir.DataType(kind).name.lower()}"


def _faults(node: onnx.NodeProto, schema: OpSchema) -> Iterator[str]:
    yield from _operand_faults(node, schema)
    yield from _attribute_faults(node, schema)
    yield from _dtype_faults(node)
    if standard_type(node) == "Split":
        yield from _split_faults(node)
    if standard_type(node) == "Einsum":
        yield from _equation_faults(node)
    if standard_type(node) == "Constant":
        if len(node.attribute) != 1:
            yield f"a Constant has one attribute, its value, not {len(node.attribute)}"
        elif node.attribute[0].name not in schema.attributes:
            yield f"a Constant has no attribute {node.attribute[0].name!r}"


def _split_faults(node: onnx.NodeProto) -> Iterator[str]:
    """Check ``num_outputs``: of a list of so many sizes, ONNX's inference reads as many as the node has outputs."""
    for attribute in node.attribute:
        if attribute.name == "num_outputs" and not attribute.ref_attr_name and attribute.i != len(node.output):
            yield f"attribute 'num_outputs' must be the number of outputs, {len(node.output)}, not {attribute.i}"


def _equation_faults(node: onnx.NodeProto) -> Iterator[str]:
    """Check equations: ONNX's inference does not end at characters that it does not know."""
    for attribute in node.attribute:
        if attribute.name == "equation" and not attribute.ref_attr_name:
            terms, _, result = attribute.s.decode(errors="replace").replace(" ", "").partition("->")
            if not all(_TERM.fullmatch(term) for term in (*terms.split(","), result)):
                yield f"attribute 'equation' is malformed: {attribute.s.decode(errors='replace')!r}"


def _operand_faults(node: onnx.NodeProto, schema: OpSchema) -> Iterator[str]:
    given = len(node.input)
    if given < schema.min_input:
        yield f"the node has {given} inputs; {node.op_type} has at least {schema.min_input}"
    for index, name in enumerate(node.input):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
        if formal is not None and formal.option != OpSchema.FormalParameterOption.Optional and not name:
            yield f"input {index} ({formal.name}) is missing"
    if len(node.output) < schema.min_output:
        yield f"the node has {len(node.output)} outputs; {node.op_type} has at least {schema.min_output}"
    if given > schema.max_input:
        yield f"the node has {given} inputs; {node.op_type} has at most {schema.max_input}"
    if len(node.output) > schema.max_output:
        yield f"the node has {len(node.output)} outputs; {node.op_type} has at most {schema.max_output}"


def _attribute_faults(node: onnx.NodeProto, schema: OpSchema) -> Iterator[str]:
    present = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in present:
            if attribute.required and name not in _MEANINGLESS:
                yield f"attribute {name!r} is missing"
        elif not present[name].ref_attr_name and present[name].type != _number(attribute.type):
            expected, found = map(onnx.AttributeProto.AttributeType.Name, (_number(attribute.type), present[name].type))
            yield f"attribute {name!r} must be of type {expected}, not {found}"


def _dtype_faults(node: onnx.NodeProto) -> Iterator[str]:
    """Check what attributes say of element types: ONNX's inference copies it."""
    for attribute in node.attribute:
        if attribute.ref_attr_name or attribute.name not in _DTYPES | _OPTIONAL_DTYPES:
            continue
        is_undefined = attribute.i == onnx.TensorProto.UNDEFINED and attribute.name in _DTYPES
        if attribute.type == onnx.AttributeProto.INT and (is_undefined or not is_dtype(attribute.i)):
            yield f"attribute {attribute.name!r} must be an element type, not {attribute.i}"


def _number(kind: Any) -> int:  # the stubs of ONNX's enumerations lack their values
    return int(kind.value)
