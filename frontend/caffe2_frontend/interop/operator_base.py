"""Queries and refusals that operators under conversion have in common, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

import onnx_ir as ir

from caffe2_bridge.bounds import MAX_RANK, MAX_UNROLLED, current_limits, hint_of
from caffe2_bridge.diagnostics import BridgeError, Location, Severity
from caffe2_bridge.netdef.parameters import Array


class UnsupportedError(BridgeError):
    """A converter refuses its operator.

    The lowering turns it into a Diagnostic at the operator's location, or carries the node unchanged.
    """

    def __init__(self, reason: str, hint: str = "", code: str = "unsupported") -> None:
        super().__init__(reason)
        self.reason, self.hint, self.code = reason, hint, code


class RefusedBodyError(UnsupportedError):
    """A body of the operator cannot be converted. The body's own diagnostics give the reasons."""

    def __init__(self, reason: str = "a body cannot be converted") -> None:
        super().__init__(reason, code="refused-body")


def refuse_shapes(first: Sequence[int], second: Sequence[int]) -> NoReturn:
    """Refuse an operator whose operands have shapes that do not go together. Raises UnsupportedError."""
    reason = f"the operands' shapes do not go together: {list(first)} and {list(second)}"
    raise UnsupportedError(reason, code="invalid-operands") from None


def bounded(*dims: int) -> int:
    """Return the product of dims.

    Raises UnsupportedError where one is negative, or an int64 constant of so many elements exceeds the limit; a dim of
    0 counts as 1, since the other ones are those of what the constant is computed from.
    """
    if min(dims, default=0) < 0:
        raise UnsupportedError(f"a constant has a negative dim: {list(dims)}", code="invalid-argument")
    size = prod(dim for dim in dims if dim)
    wanted, allowed = 8 * size, current_limits().constant_bytes
    if wanted > allowed:
        reason = f"a constant of {size:,} elements has {wanted:,} bytes; {allowed:,} are allowed"
        raise UnsupportedError(reason, hint_of("constant_bytes", wanted), "large-constant")
    return prod(dims)


class Reporter(Protocol):
    """The part of a lowering that collects diagnostics."""

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a diagnostic."""


class TypedValue(Protocol):
    """What conversions ask of a value: ONNX values in the export, values of Caffe2 tensors in the import."""

    @property
    def name(self) -> str | None:
        """The name, for messages."""

    @property
    def dtype(self) -> ir.DataType | None:
        """The element type, None where it is unknown."""

    @property
    def shape(self) -> ir.Shape | None:
        """The dims, symbolic ones included, None where the rank is unknown."""

    @property
    def const_value(self) -> ir.TensorProtocol | None:
        """The contents of a parameter or constant."""


V = TypeVar("V", bound=TypedValue)


class WithinRank:
    """A sequence of an operand's dims, mixed into its type: reading one beyond the rank raises UnsupportedError."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """Return a dim, or for a slice several."""
        try:
            return super().__getitem__(index)  # type: ignore[misc]
        except IndexError:
            reason = f"an operand has rank {len(self)}, and the operator reads its dim {index}"  # type: ignore[arg-type]
            raise UnsupportedError(reason, code="invalid-operands") from None


class OperandShape(WithinRank, ir.Shape):
    """The dims of an operand, symbolic ones included."""


class OperandSizes(WithinRank, tuple[int, ...]):
    """The sizes of all dims of an operand."""

    __slots__ = ()


class OperatorBase(Generic[V]):
    """One operator under conversion: what is known of values, and how to refuse the operator.

    The operator is a Caffe2 operator in the export and an ONNX node in the import.
    """

    # What the user can do where a shape is unknown.
    shape_hint: ClassVar[str] = ""
    # ONNX accepts axis 0 and -1 of a scalar in some operators; Caffe2 does not.
    allows_scalar_axis: ClassVar[bool] = False

    def __init__(self, location: Location, reporter: Reporter) -> None:
        self.location = location
        self._reporter = reporter

    # Queries

    def dtype(self, value: V) -> ir.DataType:
        """Return the element type of a value; refuse the operator where it is unknown."""
        if value.dtype is None:
            self.needs_shape(f"the element type of {value.name or 'an operand'!r} is unknown")
        return value.dtype

    def shape(self, value: V) -> ir.Shape:
        """Return the dims of a value, symbolic ones included; refuse the operator where the rank is unknown.

        Reading a dim beyond the rank refuses the operator too.
        """
        if value.shape is None:
            self.needs_shape(f"the rank of {value.name or 'an operand'!r} is unknown")
        return OperandShape(value.shape)

    def rank(self, value: V) -> int:
        """Return the number of dims of a value; refuse the operator where it is unknown."""
        return len(self.shape(value))

    def static_shape(self, value: V) -> tuple[int, ...] | None:
        """Return the dims of a value if all of them are known, else None.

        Reading a dim beyond the rank refuses the operator.
        """
        if value.shape is None or not value.shape.is_static():
            return None
        return OperandSizes(value.shape.numpy())

    def static_dim(self, value: V, axis: int) -> int | None:
        """Return the size of a dim if it is known, else None; refuse the operator where the rank is unknown."""
        dim = self.shape(value)[axis]
        return dim if isinstance(dim, int) else None

    def list_length(self, value: V, axis: int = 0) -> int | None:
        """Return the length of lists of sizes or axes if it is known, else None; refuse one that no rank reaches."""
        length = self.static_dim(value, axis)
        if length is not None and length > MAX_RANK:
            reason = f"an operand lists {length:,} dims; at most {MAX_RANK} are supported"
            self.unsupported(reason, code="invalid-operands")
        return length

    def known(self, value: V) -> Array | None:
        """Return the contents of a parameter or constant, None for a value that is computed at run time."""
        return None if value.const_value is None else value.const_value.numpy()

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """Return ``axis`` in [0, rank); refuse the operator where it is outside [-rank, rank)."""
        limit = max(rank, 1) if self.allows_scalar_axis else rank
        if not -rank <= axis < limit:
            self.unsupported(f"{what} {axis} is out of range for rank {rank}", code="invalid-argument")
        return axis % rank if rank else 0

    def bounded(self, *dims: int) -> int:
        """Return the product of dims; refuse the operator if int64 constants of so many elements exceed the limit."""
        return bounded(*dims)

    def unrolled(self, *counts: int) -> int:
        """Return the product of counts; refuse the operator if so many nodes are too many to be emitted one by one."""
        number = prod(counts)
        if number > MAX_UNROLLED:
            self.unsupported(f"the operator needs {number:,} nodes of its own; at most {MAX_UNROLLED:,} are emitted")
        return number

    # Diagnostics

    def note(self, reason: str) -> None:
        """Tell the user of a choice that the conversion made, without stopping it."""
        self._reporter.report("note", reason, self.location, severity=Severity.NOTE)

    def unsupported(self, reason: str, hint: str = "", code: str = "unsupported") -> NoReturn:
        """Refuse the operator. Raises UnsupportedError."""
        raise UnsupportedError(reason, hint, code)

    def needs_shape(self, reason: str) -> NoReturn:
        """Refuse the operator because an element type, a rank or a dim is unknown. Raises UnsupportedError."""
        self.unsupported(reason, self.shape_hint, "needs-shape")
