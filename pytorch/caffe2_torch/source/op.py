"""What the emitter of an operator sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NoReturn, TypeAlias

import torch

from caffe2_bridge import registry
from caffe2_bridge.netdef.views import Args
from caffe2_torch.evaluation.context import Context
from caffe2_torch.evaluation.op import Op, RefusedError
from caffe2_torch.evaluation.program import ProgramStep
from caffe2_torch.evaluation.window import Window, read_window
from caffe2_torch.source.library import FUNCTIONS
from caffe2_torch.source.module_state import ModuleState
from caffe2_torch.source.names import literal
from caffe2_torch.source.record import UNKNOWN, Fact
from caffe2_torch.source.scope import Key, NameScope

# Source of the results: one expression, or one for each output; None for an output that needs no statement.
Source: TypeAlias = str | tuple[str | None, ...]


class Unpacked(str):
    """An expression whose value is a tuple with all outputs."""

    __slots__ = ()


class FirstOfMany(Unpacked):
    """An expression whose value is a tuple with all outputs, and more."""

    __slots__ = ()


class SourceOp:
    """An operator whose source is written: its type, arguments and operands, as :class:`Op` has them in a run.

    Attributes:
        type: the operator type.
        args: the arguments.
        facts: what a run saw of them.
        state: the attributes of the module.
        device: the source of a ``device=`` argument for what is created.
    """

    def __init__(
        self, step: ProgramStep, scope: NameScope, read: Callable[[str], str], facts: Sequence[Fact],
        state: ModuleState, device: str,
    ) -> None:  # fmt: skip
        self.step, self.scope, self._read = step, scope, read
        self.facts, self.state, self.device = facts, state, device
        self.type = step.view.type
        self.args: Args = step.view.args

    @property
    def count(self) -> int:
        """The number of operands."""
        return len(self.step.view.inputs)

    @property
    def output_count(self) -> int:
        """The number of outputs."""
        return len(self.step.view.outputs)

    def x(self, index: int) -> str:
        """Return the expression of operand ``index``: a variable, or an attribute, which the module then has."""
        if not self.has(index):
            self.refuse(f"input {index} is missing")
        return self._read(self.step.view.inputs[index])

    @property
    def operands(self) -> list[str]:
        """The expressions of all operands, none of which may be left out."""
        return [self.x(index) for index in range(self.count)]

    def has(self, index: int) -> bool:
        """Whether there is an operand ``index``."""
        return index < self.count and bool(self.step.view.inputs[index])

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is listed, and something reads it."""
        view = self.step.view
        if index >= len(view.outputs) or not view.outputs[index]:
            return False
        # The moments that SpatialBN updates in place are read by itself.
        own = view.inputs.count(view.outputs[index]) if self.type == "SpatialBN" else 0
        return self.state.reads[self.scope.key(view.outputs[index])] > own

    def rank(self, index: int) -> int | None:
        """Return the rank of operand ``index``; None if it is not known."""
        return (self.facts[index] if index < len(self.facts) else UNKNOWN).rank

    def known_rank(self, index: int) -> int:
        """Return the rank of operand ``index``, which the form of the operator depends on."""
        rank = self.rank(index)
        if rank is None:
            self.refuse(f"the rank of input {index} is not known: the example inputs do not reach the operator")
        return rank

    def dtype(self, index: int) -> torch.dtype | None:
        """Return the element type of operand ``index``; None if it is not known."""
        return (self.facts[index] if index < len(self.facts) else UNKNOWN).dtype

    def axis(self, name: str, default: int, *, rank: int | None = None) -> int:
        """Return an axis argument; one that counts from the end is made positive with the rank of X."""
        axis = self.args.integer(name, default=default)
        return axis if axis >= 0 else axis + (self.known_rank(0) if rank is None else rank)

    def blob(self, index: int) -> Key:
        """Return what identifies operand ``index`` among all blobs: its name, where it is one of the module's net."""
        return self.scope.key(self.step.view.inputs[index])

    def constant(self, index: int) -> torch.Tensor | None:
        """Return the value of operand ``index`` if it is a parameter that no operator writes."""
        return self.state.constant(self.blob(index)) if self.has(index) else None

    def owns(self, *indices: int) -> bool:
        """Whether operands are parameters that this operator alone reads, so that they can be those of a layer."""
        return all(self.has(index) for index in indices) and self.state.owns(*map(self.blob, indices))

    def layer(self, constructor: str, **parts: tuple[int, torch.Tensor | None]) -> str:
        """Return the expression of a layer that holds operands, by the names of its parameters."""
        values = {
            part: (str(self.blob(index)), value) for part, (index, value) in parts.items() if value is not None
        }  # fmt: skip
        return self.state.layer(constructor, values)

    def index(self, index: int) -> str:
        """Return the expression of operand ``index`` as int64, the type of PyTorch's indices."""
        return self.x(index) if self.dtype(index) == torch.int64 else f"{self.x(index)}.long()"

    def device_of(self, index: int) -> str:
        """Return the source of a ``device=`` argument for what goes together with operand ``index``."""
        return f", device={self.x(index)}.device"

    def data(self, index: int) -> str:
        """Return the expression of operand ``index``, of the data of an Int8 tensor."""
        blob = self.blob(index)
        if self.state.constant(blob) is not None:
            return self.state.attribute(str(blob))
        is_quantized = index < len(self.facts) and self.facts[index].quantized
        return f"{self.x(index)}.data" if is_quantized else self.x(index)

    def of_data(self) -> SourceOp:
        """Return the operator on the data of its first operand, an Int8 tensor."""
        first = self.step.view.inputs[0]

        def read(name: str) -> str:
            return f"{self._read(name)}.data" if name == first else self._read(name)

        return SourceOp(self.step, self.scope, read, self.facts, self.state, self.device)

    def call(self, helper: str, *arguments: str, **options: Any) -> str:
        """Return a call of a function of :mod:`.library`, which the source then holds."""
        self.state.helpers.add(helper)
        defaults = signature(FUNCTIONS[helper]).parameters
        named = [f"{name}={literal(v)}" for name, v in options.items() if defaults[name].default != v]
        return f"{helper}({', '.join((*arguments, *named))})"

    def window(self, rank: int, *, dilated: bool = True) -> Window:
        """Return the window of a convolution or pooling over images of rank ``rank``."""
        plain = Op(self.step.view, (), Context(), {}, {}, None)
        return read_window(plain, rank, dilated=dilated)

    def refuse(self, reason: str) -> NoReturn:
        """Raise RefusedError: there is no source for the operator as it is."""
        raise RefusedError(reason)


Emit: TypeAlias = Callable[[SourceOp], Source]


class Family(registry.Family[Emit]):
    """A named set of emitters, one file each."""

    def emits(self, *op_types: str) -> Callable[[Emit], Emit]:
        """Register the function that writes the source of operators of these types."""

        def register(function: Emit) -> Emit:
            self.add(function, *op_types)
            return function

        return register
