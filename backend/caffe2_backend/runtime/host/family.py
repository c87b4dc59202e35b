"""Families of host operators, and what a host operator sees."""

from __future__ import annotations

import abc
import builtins
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np

from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.blobs.frame import Frame, results_of
from caffe2_backend.runtime.blobs.results import value_of
from caffe2_backend.runtime.values import Array, HostObject, NoBlobError, Tensor, Value, to_host
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.registry import Family

Kind = TypeVar("Kind", bound=HostObject)


class Ahead(abc.ABC):
    """What an operator keeps from run to run and that works on the next run already."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Wait until nothing is under way."""


class HostOp:
    """One run of a host operator.

    Operands are read when they are asked for, and outputs are written at once: an operator that waits for something
    holds no lock, and reads what is there after it has waited. Arrays that are read must not be changed.

    Attributes:
        frame: the workspace.
        location: of the operator, for messages.
        state: what the operator keeps from run to run; it belongs to the prepared net.
    """

    __slots__ = ("_op", "frame", "location", "state")

    def __init__(self, op: OpView, frame: Frame, location: Location, state: dict[str, Any]) -> None:
        self._op = op
        self.frame = frame
        self.location = location
        self.state = state

    @property
    def type(self) -> str:
        """The operator type."""
        return self._op.type

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input blobs."""
        return self._op.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output blobs."""
        return self._op.outputs

    @property
    def args(self) -> Args:
        """The arguments."""
        return self._op.args

    @property
    def view(self) -> OpView:
        """The operator."""
        return self._op

    def error(self, reason: str) -> RunError:
        """Make the error of this operator, for the caller to raise."""
        return RunError(f"{self.location}: {reason}")

    @contextmanager
    def translating(self, *kinds: builtins.type[Exception]) -> Iterator[None]:
        """Turn exceptions of some types into errors of this operator with the same text."""
        try:
            yield
        except kinds as error:
            raise self.error(str(error)) from None

    def updating(self) -> AbstractContextManager[object]:
        """Let nobody else update the outputs within the block, which computes them from what they were."""
        return self.frame.updating(self.outputs)

    # Blobs by name

    def find(self, name: str) -> Value | None:
        """Return the value of a blob; None if it does not exist or has no value."""
        with self.frame.lock:
            return value_of(name, self.frame)

    def write(self, name: str, value: Any) -> None:
        """Set a blob to an array, a number, a text, or an object; None leaves it without a value."""
        if value is None:
            self.frame.clear(name)
        else:
            self.frame.commit(results_of(name, as_value(name, value, copy=False)))

    # Inputs by index

    def value(self, index: int) -> Value:
        """Return the value of an input. Raises NoBlobError if it has none, RunError if it is not listed."""
        if index >= len(self._op.inputs):
            raise self.error(f"input {index} is missing: the operator lists {len(self._op.inputs)}")
        name = self._op.inputs[index]
        value = self.find(name)
        if value is None:
            raise NoBlobError(f"{self.location} reads blob {name!r}, which is not in the workspace")
        return value

    def tensor(self, index: int) -> Tensor:
        """Return an input that is a tensor. Raises RunError if it is not."""
        value = self.value(index)
        if isinstance(value, HostObject | bytes):
            kind = value.description if isinstance(value, HostObject) else "a text"
            raise self.error(f"blob {self._op.inputs[index]!r} must be a tensor, and is {kind}")
        return value

    def array(self, index: int, dtype: Any = None) -> Array:
        """Return an input as an array on the host, which must not be changed; ``dtype`` is the required element type.

        Raises RunError if the input is not a tensor, or has another element type.
        """
        array = to_host(self.tensor(index))
        if dtype is not None and array.dtype != np.dtype(dtype):
            name = self._op.inputs[index]
            raise self.error(f"blob {name!r} must be a tensor of {np.dtype(dtype).name}, not {array.dtype.name}")
        return array

    def scalar(self, index: int, dtype: Any = None) -> Any:
        """Return the only element of an input, as a Python object. Raises as :meth:`array`, and if there are others."""
        array = self.array(index, dtype)
        if array.size != 1:
            raise self.error(f"blob {self._op.inputs[index]!r} must have one element, not {array.size}")
        return array.reshape(-1)[0].item() if array.dtype != object else array.reshape(-1)[0]

    def object(self, index: int, kind: builtins.type[Kind]) -> Kind:
        """Return an input that is an object of a class. Raises RunError if it is not."""
        value = self.value(index)
        if not isinstance(value, kind):
            found = value.description if isinstance(value, HostObject) else "a tensor or a text"
            name = self._op.inputs[index]
            raise self.error(f"blob {name!r} must be a {kind.type_name}, and is {found}")
        return value

    # Outputs by index

    def set(self, index: int, value: Any) -> None:
        """Set an output to an array, a number, a text, or an object. Raises RunError if it is not listed."""
        if index >= len(self._op.outputs):
            raise self.error(f"output {index} is missing: the operator lists {len(self._op.outputs)}")
        self.write(self._op.outputs[index], value)


HostFunction: TypeAlias = Callable[[HostOp], None]


class HostFamily(Family[HostFunction]):
    """Host operators that belong together."""

    def runs(self, *op_types: str) -> Callable[[HostFunction], HostFunction]:
        """Register a function as the implementation of operator types."""

        def register(function: HostFunction) -> HostFunction:
            self.add(function, *op_types)
            return function

        return register
