"""The operators whose updates of rows compiled loops can do, and their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_backend.runtime.program.row_updates import kernels
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.views import OpView

# From the operator, its tables as rows, its ids, and the operands by index: the rows of its first output, if any.
Step = Callable[[OpView, list[Array], Array, Mapping[int, Array]], "Array | None"]


class Kind(NamedTuple):
    """How an operator updates rows: the indices of inputs that are its tables, and of the outputs that they are.

    ``ids`` is the index of the ids; ``arity`` the number of inputs, None for any.
    """

    step: Step
    tables: tuple[int, ...]
    outputs: tuple[int, ...]
    ids: int
    arity: int | None


def _number(op: OpView, name: str, default: float) -> np.float32:
    return np.float32(op.args.number(name, default=default))


def _first(value: Array) -> np.float32:
    return np.float32(value.reshape(-1)[0])


def _gradient(op: OpView, value: Array, ids: Array, table: Array) -> Array:
    """Gradients with one row per id. Raises RunError if they do not fit."""
    if value.dtype != np.float32 or value.size != ids.size * table.shape[1]:
        raise RunError(f"{op.type} takes gradients of {ids.size} rows of float, not {value.dtype.name} {value.shape}")
    return np.ascontiguousarray(value).reshape(ids.size, table.shape[1])


def _adagrad(op: OpView, tables: list[Array], ids: Array, operands: Mapping[int, Array]) -> None:
    grads = _gradient(op, operands[3], ids, tables[0])
    kernel, moment = kernels.adagrad, tables[1]
    if op.type == "RowWiseSparseAdagrad":
        kernel, moment = kernels.row_adagrad, moment.reshape(-1)
    rest = _first(operands[4]), _number(op, "epsilon", 1e-5), _number(op, "weight_decay", 0.0)
    kernels.compiled(kernel)(ids, grads, tables[0], moment, *rest)


def _adam(op: OpView, tables: list[Array], ids: Array, operands: Mapping[int, Array]) -> None:
    grads = _gradient(op, operands[4], ids, tables[0])
    beta1, beta2 = op.args.number("beta1", default=0.9), op.args.number("beta2", default=0.999)
    step = int(operands[6].reshape(-1)[0]) + 1
    rate = _first(operands[5]) * np.float32(np.sqrt(1 - beta2**step) / (1 - beta1**step))
    kernel, second = kernels.adam, tables[2]
    if op.type == "RowWiseSparseAdam":
        kernel, second = kernels.row_adam, second.reshape(-1)
    rest = rate, np.float32(beta1), np.float32(beta2), _number(op, "epsilon", 1e-5)
    kernels.compiled(kernel)(ids, grads, tables[0], tables[1], second, *rest)


def _momentum(op: OpView, tables: list[Array], ids: Array, operands: Mapping[int, Array]) -> Array:
    moment, table = tables
    grads = _gradient(op, operands[0], ids, table)
    adjusted = np.empty_like(grads)
    rest = _first(operands[2]), _number(op, "momentum", 0.0), op.args.flag("nesterov", default=False), adjusted
    kernels.compiled(kernels.momentum)(ids, grads, moment, table, *rest)
    return adjusted.reshape(operands[0].shape)


def _weighted(op: OpView, tables: list[Array], ids: Array, operands: Mapping[int, Array]) -> None:
    (table,) = tables
    pairs = [(_gradient(op, operands[i], ids, table), _first(operands[i + 1])) for i in range(3, len(op.inputs), 2)]
    if (weight := _first(operands[1])) != 1:
        kernels.compiled(kernels.scale_rows)(ids, table, weight)
    for rows, factor in pairs:
        kernels.compiled(kernels.add_rows)(ids, rows, table, factor)


_ADAGRAD: Final = Kind(_adagrad, (0, 1), (0, 1), ids=2, arity=5)
_ADAM: Final = Kind(_adam, (0, 1, 2), (0, 1, 2), ids=3, arity=7)
KINDS: Final[Mapping[str, Kind]] = {
    "RowWiseSparseAdagrad": _ADAGRAD,
    "RowWiseSparseAdam": _ADAM,
    "ScatterWeightedSum": Kind(_weighted, (0,), (0,), ids=2, arity=None),
    "SparseAdagrad": _ADAGRAD,
    "SparseAdam": _ADAM,
    "SparseMomentumSGDUpdate": Kind(_momentum, (1, 3), (1, 2), ids=4, arity=5),
}
# Arguments with which an operator computes something else.
_OTHERS: Final = ("counter_halflife", "decay", "enableRAdam")


def kind_of(op: OpView) -> Kind | None:
    """How an operator updates rows of tables in place; None if it does not, or in a way that no loop here has."""
    kind = KINDS.get(op.type)
    if kind is None or op.proto.domain or any(name in op.args for name in _OTHERS):
        return None
    count = len(op.inputs)  # of a sum: the table, its weight, ids, then rows and a weight
    fits = count == kind.arity if kind.arity is not None else count >= 5 and count % 2 == 1
    if not fits or len(op.outputs) != max(kind.outputs) + 1:
        return None
    names = [op.inputs[index] for index in kind.tables]
    return kind if names == [op.outputs[index] for index in kind.outputs] and len(set(names)) == len(names) else None


def update_rows(op: OpView, kind: Kind, tables: Sequence[Array], operands: Mapping[int, Array]) -> Array | None:
    """Update rows of tables in place: the first output where it is not a table.

    Raises RunError, before it writes anything, for an id that is not a row, and operands of other types or sizes.
    """
    ids = operands[kind.ids].reshape(-1)
    rows = len(tables[0])
    if ids.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise RunError(f"ids must be int32 or int64, not {ids.dtype.name}")
    ids = np.ascontiguousarray(ids)
    if not kernels.compiled(kernels.are_rows)(ids, rows):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise RunError(f"id {wrong} of blob {op.inputs[kind.ids]!r} must be one of {rows} rows")
    flat: list[Any] = [table.reshape(rows, -1) for table in tables]
    return kind.step(op, flat, ids, operands)
