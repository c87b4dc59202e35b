"""Schemas of Caffe2's operators: operand counts, operands that must share a blob, and the arguments that are read.

``operators.json`` was traced in real Caffe2 (torch 1.9.1) by ``scripts/schemas``: an argument counts as read when the
operator's implementation asked for it, when constructed or run. Real Caffe2 ignores every other argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

# The count of operands that stands for "any number".
UNBOUNDED: Final = 2**31 - 1
# Of operators with any number of operands, 12 were probed; those with one output more than inputs have one pair less.
PROBED: Final = 11


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """What real Caffe2 accepts and reads for one operator type.

    Attributes:
        inputs: smallest and largest number of inputs; :data:`UNBOUNDED` stands for any number.
        outputs: smallest and largest number of outputs.
        refused_counts: (inputs, outputs) within those bounds that the schema refuses.
        equal_counts: there must be as many outputs as inputs.
        enforced_in_place: (input, output) that must be one blob.
        allowed_in_place: (input, output) that may be one blob, among the first :data:`PROBED` of each.
        has_cpu_kernel: a CPU kernel is registered.
        required_arguments: arguments without which the schema refuses the operator.
        arguments_read: names that the implementation asks for; None where the operator could not be traced (it needs
            a GPU, a communicator or an object).
        int32_arguments: those that it reads as integers, or lists of them, of 32 bits: others end its construction.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    refused_counts: frozenset[tuple[int, int]]
    equal_counts: bool
    enforced_in_place: frozenset[tuple[int, int]]
    allowed_in_place: frozenset[tuple[int, int]]
    has_cpu_kernel: bool
    required_arguments: frozenset[str]
    arguments_read: frozenset[str] | None
    int32_arguments: frozenset[str]

    def ignores_argument(self, name: str) -> bool:
        """Whether real Caffe2 is known never to read an argument of this name."""
        return self.arguments_read is not None and name not in self.arguments_read

    def accepts_in_place(self, read: int, written: int) -> bool:
        """Whether an input and an output, by index, may be one blob.

        Indices that were not probed count as the last ones that were and are as far apart, or else as the last ones:
        schemas allow single pairs of the first operands, an index that is the same for both, or all.
        """
        beyond = max(read, written) - PROBED + 1
        if beyond > 0:
            shift = min(beyond, read, written)
            read, written = min(read - shift, PROBED - 1), min(written - shift, PROBED - 1)
        pair = (read, written)
        return pair in self.allowed_in_place or pair in self.enforced_in_place

    def accepts_counts(self, inputs: int, outputs: int) -> bool:
        """Whether the schema accepts an operator with so many inputs and outputs."""
        return (
            self.inputs[0] <= inputs <= self.inputs[1]
            and self.outputs[0] <= outputs <= self.outputs[1]
            and (inputs, outputs) not in self.refused_counts
            and (inputs == outputs or not self.equal_counts)
        )


@cache
def _data() -> Mapping[str, Mapping[str, Any]]:
    data: dict[str, Mapping[str, Any]] = json.loads(
        files("caffe2_bridge.schemas").joinpath("operators.json").read_text("utf-8")
    )
    return data


@cache
def _schema(op_type: str) -> OperatorSchema:
    data = _data()[op_type]
    read = data["arguments_read"]
    return OperatorSchema(
        (data["inputs"][0], data["inputs"][1]),
        (data["outputs"][0], data["outputs"][1]),
        frozenset((i, o) for i, o in data.get("pairs_refused", ())),
        bool(data.get("equal_counts", False)),
        frozenset((i, o) for i, o in data.get("inplace_enforced", ())),
        frozenset((i, o) for i, o in data.get("inplace_allowed", ())),
        bool(data.get("cpu", False)),
        frozenset(data.get("required", ())),
        None if read is None else frozenset(read),
        frozenset(data.get("int32", ())),
    )


@cache
def operator_schemas() -> Mapping[str, OperatorSchema]:
    """Return every operator type that has a schema in real Caffe2, with it."""
    return {op_type: _schema(op_type) for op_type in _data()}


def operator_schema(op_type: str) -> OperatorSchema | None:
    """Return the schema of an operator type; None where real Caffe2 has none.

    An engine variant (``Conv_ENGINE_NNPACK``) has the schema of its base type.
    """
    known = _data()
    name = op_type if op_type in known else op_type.partition("_ENGINE_")[0]
    return _schema(name) if name in known else None
