"""What a schema requires of the inputs and outputs that an operator lists: how many, and which share a blob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from caffe2_bridge.schemas.table import UNBOUNDED, OperatorSchema

# Counts of earlier versions of Caffe2, which the schemas of the last one refuse.
_EARLIER: Final[Mapping[str, frozenset[tuple[int, int]]]] = {"LSTMUnitGradient": frozenset({(8, 2)})}


class CountViolation(NamedTuple):
    """A number of inputs or outputs that a schema refuses: the code of the diagnostic, its reason, and its hint."""

    code: str
    reason: str
    hint: str = ""


def count_violation(schema: OperatorSchema, op_type: str, inputs: int, outputs: int) -> CountViolation | None:
    """Return what is wrong with the number of inputs and outputs of an operator; None if the schema accepts them."""
    if schema.accepts_counts(inputs, outputs) or (inputs, outputs) in _EARLIER.get(op_type, ()):
        return None
    if inputs < schema.inputs[0]:
        reason = f"input {inputs} is missing: the operator lists {inputs}, and {op_type} reads {_range(schema.inputs)}"
        return CountViolation(code="missing-input", reason=reason)
    if outputs > schema.outputs[1]:
        reason = f"the operator lists {outputs} outputs, but {op_type} has {_range(schema.outputs)}"
        return CountViolation(code="extra-output", reason=reason, hint="remove the outputs that it does not have")
    if inputs > schema.inputs[1]:
        reason = f"the operator lists {inputs} inputs, but {op_type} reads {_range(schema.inputs)}"
    elif outputs < schema.outputs[0]:
        reason = f"the operator lists {outputs} outputs, but {op_type} writes {_range(schema.outputs)}"
    else:
        reason = f"Caffe2's {op_type} does not accept {inputs} inputs with {outputs} outputs"
    hint = f"give {op_type} the operands that Caffe2 documents for it"
    return CountViolation(code="operand-count", reason=reason, hint=hint)


def unshared_operands(schema: OperatorSchema, inputs: Sequence[str], outputs: Sequence[str]) -> list[tuple[str, str]]:
    """Return the (input, output) blobs that must be one blob and are not."""
    if not schema.enforced_in_place:
        return []
    return [
        (inputs[i], outputs[o])
        for i, o in sorted(schema.enforced_in_place)
        if i < len(inputs) and o < len(outputs) and inputs[i] != outputs[o]
    ]


def refused_in_place(schema: OperatorSchema, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the blobs that are an input and an output, although the schema does not allow these two to be one blob."""
    found = [
        name
        for o, name in enumerate(outputs)
        if name and name in inputs
        for i, read in enumerate(inputs)
        if read == name and not schema.accepts_in_place(i, o)
    ]
    return list(dict.fromkeys(found)) if found else found


def _range(counts: tuple[int, int]) -> str:
    smallest, largest = counts
    if smallest == largest:
        return str(smallest)
    return f"{smallest} or more" if largest == UNBOUNDED else f"{smallest} to {largest}"
