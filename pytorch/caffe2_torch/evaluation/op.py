"""What the function of an operator sees."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import NoReturn, Protocol

import torch

from caffe2_bridge.control import ControlOperator
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_torch.evaluation.context import Context, is_exporting
from caffe2_torch.evaluation.values import DTYPES, Strings, Value
from caffe2_torch.functions.int8 import Quantized


class Body(Protocol):
    """The program of a body: ``found`` are blobs that it reads before it writes them, or may keep."""

    found: frozenset[str]
    written: frozenset[str]

    def run(self, blobs: MutableMapping[str, Value], context: Context) -> None:
        """Run it in a workspace."""
        ...


class RefusedError(BridgeError):
    """An operator cannot be computed as it is. The message does not name it."""


class Op:
    """An operator in a run: its type, arguments and operands.

    Attributes:
        type: the operator type.
        args: the arguments.
        values: the operands; None where one is left out, or is no tensor.
        output_count: the number of outputs.
        context: what all operators of the run share.
        blobs: the workspace, for operators with bodies alone.
        bodies: the programs of its bodies, by argument.
        control: the view of an operator with bodies.
    """

    __slots__ = ("args", "blobs", "bodies", "context", "control", "output_count", "type", "values", "view")

    def __init__(
        self,
        view: OpView,
        values: tuple[Value, ...],
        context: Context,
        blobs: MutableMapping[str, Value],
        bodies: Mapping[str, Body],
        control: ControlOperator | None,
    ) -> None:
        self.view = view
        self.type = view.type
        self.args: Args = view.args
        self.values = values
        self.output_count = len(view.outputs)
        self.context = context
        self.blobs = blobs
        self.bodies = bodies
        self.control = control

    @property
    def count(self) -> int:
        """The number of operands."""
        return len(self.values)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The operands, all of which must be tensors."""
        return [self.tensor(index) for index in range(self.count)]

    def has(self, index: int) -> bool:
        """Whether there is an operand ``index``."""
        return index < len(self.values) and bool(self.view.inputs[index])

    def tensor(self, index: int) -> torch.Tensor:
        """Return operand ``index``."""
        value = self.values[index] if index < len(self.values) else None
        if not isinstance(value, torch.Tensor):
            self.refuse(f"input {index} is not a tensor that {self.type} can read")
        return value

    def optional(self, index: int) -> torch.Tensor | None:
        """Return operand ``index``; None where it is left out."""
        return self.tensor(index) if self.has(index) else None

    def quantized(self, index: int) -> Quantized:
        """Return operand ``index``, which must be an Int8 tensor."""
        value = self.values[index] if index < len(self.values) else None
        if not isinstance(value, Quantized):
            self.refuse(f"input {index} is not an Int8 tensor")
        return value

    def strings(self, index: int) -> Strings:
        """Return operand ``index``, which must be a string tensor."""
        value = self.values[index] if index < len(self.values) else None
        if value is None or isinstance(value, torch.Tensor | Quantized):
            self.refuse(f"input {index} is not a string tensor")
        return value

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is listed."""
        return index < self.output_count and bool(self.view.outputs[index])

    def dtype(self, number: int) -> torch.dtype:
        """Return the PyTorch type of a Caffe2 type; of FLOAT that of the module."""
        dtype = DTYPES.get(number)
        if dtype is None:
            self.refuse(f"PyTorch has no element type for Caffe2's {number}")
        return self.context.real if dtype == torch.float32 else dtype

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis that may count from the end, counted from the start."""
        found = axis + rank if axis < 0 else axis
        if not 0 <= found < max(rank, 1):
            self.refuse(f"axis {axis} is out of range for rank {rank}")
        return found

    def require_within(self, index: torch.Tensor, low: int, high: int, reason: str) -> None:
        """Refuse indices that are not from ``low`` to ``high - 1``; an exported program leaves that to PyTorch."""
        if not is_exporting() and index.numel() and not low <= int(index.min()) <= int(index.max()) < high:
            self.refuse(reason)

    def refuse(self, reason: str) -> NoReturn:
        """Raise RefusedError: PyTorch would compute something else, or Caffe2 refuses it too."""
        raise RefusedError(reason)
