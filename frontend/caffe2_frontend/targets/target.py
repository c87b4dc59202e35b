"""What an export has to know of a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir

Recurrent = Literal["auto", "fused", "scan", "loop", "portable", "gpu", "unrolled"]


@dataclass(frozen=True)
class Target:
    """A runtime.

    Attributes:
        name: as it is chosen.
        source: how the table was made: the version that models were run in, or the public list.
        opset: the largest opset that it takes; None for the default of the export.
        recurrent: the form of recurrent nets.
        scans: whether the form ``portable`` has a Scan where it has a Loop for others.
        only: the operators that it has; None where ``lacks`` lists those that it does not have.
        lacks: operators that it does not have, or not as they are exported, with the reason; ``Add of uint8`` is one
            whose first operand has that type. An LSTM, a GRU or an ``RNN of Relu`` there becomes a loop.
        constants: for operators, the indices of inputs that must be constants.
        dtypes: element types that it does not have.
        selects: whether both branches of an If are computed, and a Where selects, where that is possible.
        scalars: whether the index of an iteration has no dims, and not one.
        loop_outputs: whether an output of a Loop may be one of the model.
        omitted_outputs: whether an LSTM may omit an output before one that it has.
    """

    name: str
    source: str
    opset: int | None = None
    recurrent: Recurrent = "auto"
    scans: bool = False
    only: frozenset[str] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: frozenset[ir.DataType] = frozenset()
    selects: bool = False
    scalars: bool = True
    loop_outputs: bool = True
    omitted_outputs: bool = True
