"""Nodes of operators that ONNX defines have the operands and the kinds of attributes that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_ALL_DTYPES: Final = _DTYPES | _OPTIONAL_DTYPES


@dataclass(frozen=True)
class _Signature:
    """What a schema says, read once: its own attributes are made anew at each access.

    Attributes:
        inputs: the names of the operands, the last of which may be repeated, and whether each may be left out.
        input_counts: the least and the largest number of operands.
        output_counts: the same of outputs.
        integers: the operands that are integers whatever the others are: indices, sizes and axes.
        attributes: the types of the attributes, and whether each must be given.
    """

    inputs: Sequence[tuple[str, bool]]
    input_counts: tuple[int, int]
    output_counts: tuple[int, int]
    integers: frozenset[int]
    attributes: Mapping[str, tuple[int, bool]]

    @classmethod
    def of(cls, schema: OpSchema) -> _Signature:
        formals = list(schema.inputs)
        return cls(
            [(formal.name, formal.option == OpSchema.FormalParameterOption.Optional) for formal in formals],
            (schema.min_input, schema.max_input),
            (schema.min_output, schema.max_output),
            frozenset(index for index, formal in enumerate(formals) if formal.types and formal.types <= _INTEGERS),
            {
                name: (_number(attribute.type), attribute.required and name not in _MEANINGLESS)
                for name, attribute in schema.attributes.items()
            },
        )


def check_signatures(model: onnx.ModelProto, scope: GraphScope) -> Iterator[Diagnostic]:
    """Report the nodes of a scope that do not have what their operator requires.

    Operators that ONNX does not define are not checked, nor attributes that the operator does not have.
    """
    root = (scope.root or scope).proto
    opsets = _opsets(root if isinstance(root, onnx.FunctionProto) else model)
    functions = {(plain_domain(function.domain), function.name) for function in model.functions}
    types: Mapping[str, int] | None = None
    for index, (node, attributes) in enumerate(zip(scope.nodes, scope.attributes, strict=True)):
        domain, op_type = plain_domain(node.domain), node.op_type
        version = opsets.get(domain, None if domain else WORKING_OPSET)
        if version is not None and (domain, op_type) not in functions:
            signature = _signature_of(op_type, version, domain)
            if signature is not None:
                reasons = list(_faults(node, attributes, signature))
                if signature.integers:
                    types = _known_types(scope) if types is None else types
                    reasons += _type_faults(node, signature, types)
                clause = _clause(node, version, domain) if reasons else ""
                for reason in reasons:
                    yield Diagnostic("malformed-model", reason + clause, scope.at(index), hint=HINT if clause else "")


def _clause(node: onnx.NodeProto, version: int, domain: str) -> str:
    """Return of which earlier opset a node is, as a clause; empty if it is of none."""
    attributes = list(node.attribute)
    names = {attribute.name for attribute in attributes}

    def fits(schema: OpSchema) -> bool:
        return names <= schema.attributes.keys() and not [*_faults(node, attributes, _Signature.of(schema))]

    return earlier_form(node.op_type, version, domain, fits)


def _opsets(owner: onnx.ModelProto | onnx.FunctionProto) -> _Opsets:
    return {plain_domain(entry.domain): entry.version for entry in owner.opset_import}


def schema_of(op_type: str, version: int, domain: str) -> OpSchema | None:
    """Return the schema of an operator in an opset; None where ONNX does not define it."""
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except (SchemaError, TypeError):  # not defined there; a version beyond the numbers that ONNX counts
        return None


def _signature_of(op_type: str, version: int, domain: str) -> _Signature | None:
    try:
        return _defined(op_type, version, domain)
    except (SchemaError, TypeError):
        return None


@lru_cache(maxsize=4096)
def _defined(op_type: str, version: int, domain: str) -> _Signature:
    """Return a signature. A name that ONNX does not define, which may be of any length, is not kept."""
    return _Signature.of(onnx.defs.get_schema(op_type, version, domain))


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


def _type_faults(node: onnx.NodeProto, signature: _Signature, types: Mapping[str, int]) -> Iterator[str]:
    for index in signature.integers:
        kind = types.get(node.input[index], 0) if index < len(node.input) else 0
        if kind and not ir.DataType(kind).is_integer():
            name = signature.inputs[index][0]
            yield f"input {index} ({name}) must be integers, not {ir.DataType(kind).name.lower()}"


def _faults(node: onnx.NodeProto, attributes: Sequence[onnx.AttributeProto], signature: _Signature) -> Iterator[str]:
    yield from _operand_faults(node, signature)
    yield from _attribute_faults(attributes, signature)
    yield from _dtype_faults(attributes)
    op_type = standard_type(node)
    if op_type == "Split":
        yield from _split_faults(node)
    if op_type == "Einsum":
        yield from _equation_faults(node)
    if op_type == "Constant":
        if len(attributes) != 1:
            yield f"a Constant has one attribute, its value, not {len(attributes)}"
        elif attributes[0].name not in signature.attributes:
            yield f"a Constant has no attribute {attributes[0].name!r}"


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


def _operand_faults(node: onnx.NodeProto, signature: _Signature) -> Iterator[str]:
    operands, formals = node.input[:], signature.inputs
    least, most = signature.input_counts
    if len(operands) < least:
        yield f"the node has {len(operands)} inputs; {node.op_type} has at least {least}"
    if "" in operands and formals:
        for index, name in enumerate(operands):
            formal, is_optional = formals[min(index, len(formals) - 1)]
            if not name and not is_optional:
                yield f"input {index} ({formal}) is missing"
    given = len(node.output)
    if given < signature.output_counts[0]:
        yield f"the node has {given} outputs; {node.op_type} has at least {signature.output_counts[0]}"
    if len(operands) > most:
        yield f"the node has {len(operands)} inputs; {node.op_type} has at most {most}"
    if given > signature.output_counts[1]:
        yield f"the node has {given} outputs; {node.op_type} has at most {signature.output_counts[1]}"


def _attribute_faults(attributes: Sequence[onnx.AttributeProto], signature: _Signature) -> Iterator[str]:
    present = {attribute.name: attribute for attribute in attributes}
    for name, (kind, is_required) in signature.attributes.items():
        attribute = present.get(name)
        if attribute is None:
            if is_required:
                yield f"attribute {name!r} is missing"
        elif not attribute.ref_attr_name and attribute.type != kind:
            expected, found = map(onnx.AttributeProto.AttributeType.Name, (kind, attribute.type))
            yield f"attribute {name!r} must be of type {expected}, not {found}"


def _dtype_faults(attributes: Sequence[onnx.AttributeProto]) -> Iterator[str]:
    """Check what attributes say of element types: ONNX's inference copies it."""
    for attribute in attributes:
        if attribute.name not in _ALL_DTYPES or attribute.ref_attr_name:
            continue
        is_undefined = attribute.i == onnx.TensorProto.UNDEFINED and attribute.name in _DTYPES
        if attribute.type == onnx.AttributeProto.INT and (is_undefined or not is_dtype(attribute.i)):
            yield f"attribute {attribute.name!r} must be an element type, not {attribute.i}"


def _number(kind: Any) -> int:  # the stubs of ONNX's enumerations lack their values
    return int(kind.value)
