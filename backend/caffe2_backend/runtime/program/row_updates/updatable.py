"""The operators whose updates of rows compiled loops can do, and their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_backend.runtime.program.row_updates import kernels
from caffe2_backend.runtime.program.row_updates.lookups import FLOAT, IDS, as_rows, require_rows
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.views import OpView

# From the tables, the ids as a vector, and all operands by index: the rows of the first output, if it is not a table.
Update = Callable[[Sequence[Array], Array, Sequence[Any]], "Array | None"]


class Kind(NamedTuple):
    """How an operator updates rows: the indices of inputs that are its tables, and of the outputs that they are.

    ``ids`` is the index of the ids; ``counts`` are possible numbers of inputs, None for any. ``prepare`` reads the
    arguments of an operator; with other values of those that are ``plain`` here it computes something else.
    """

    prepare: Callable[[OpView], Update]
    tables: tuple[int, ...]
    outputs: tuple[int, ...]
    ids: int
    counts: tuple[int, ...] | None
    plain: Mapping[str, float] = MappingProxyType({})


def _number(op: OpView, name: str, default: float) -> np.float32:
    return np.float32(op.args.number(name, default=default))


def _element(op: OpView, operands: Sequence[Any], index: int) -> Any:
    """Return the first element of an operand. Raises RunError if it is not a tensor on the host."""
    value = operands[index]
    if not isinstance(value, np.ndarray) or not value.size:
        raise RunError(f"blob {op.inputs[index]!r} must be a number on the host")
    return value.reshape(-1)[0]


def _first(op: OpView, operands: Sequence[Any], index: int) -> np.float32:
    return np.float32(_element(op, operands, index))


def _gradient(op: OpView, value: Any, ids: Array, table: Array) -> Array:
    """Return gradients with one row per id. Raises RunError if they do not fit."""
    width = table.shape[1]
    if type(value) is np.ndarray and value.shape == (ids.size, width) and value.dtype == FLOAT and value.flags.carray:
        return value
    if not isinstance(value, np.ndarray) or value.dtype != FLOAT or value.size != ids.size * width:
        found = f"{value.dtype.name} {value.shape}" if isinstance(value, np.ndarray) else "an object"
        raise RunError(f"{op.type} takes gradients of {ids.size} rows of float, not {found}")
    return np.ascontiguousarray(value).reshape(ids.size, width)


def _state(op: OpView, value: Array, table: Array, width: int) -> Array:
    """Return a state with ``width`` elements for each row of a table. Raises RunError if it has others."""
    if value.size != len(table) * width:
        raise RunError(f"{op.type} takes a state of {len(table)} rows of {width} elements, not of {value.shape}")
    return value if value.shape == (len(table), width) else value.reshape(len(table), width)


def _one(op: OpView, value: Array, index: int) -> Array:
    """Return a state of one number as a vector. Raises RunError if it has others."""
    if value.size != 1:
        raise RunError(f"{op.type} takes one number in blob {op.inputs[index]!r}, not {value.shape}")
    return value.reshape(-1)


def _adagrad(op: OpView) -> Update:
    epsilon, decay = _number(op, "epsilon", 1e-5), _number(op, "weight_decay", 0.0)
    by_row = op.type == "RowWiseSparseAdagrad"
    kernel = kernels.row_adagrad if by_row else kernels.adagrad

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        moment = _state(op, tables[1], table, 1 if by_row else table.shape[1])
        lr, grads = _first(op, operands, 4), _gradient(op, operands[3], ids, table)
        kernels.compiled(kernel)(ids, grads, table, moment, lr, epsilon, decay)

    return update


def _adam(op: OpView) -> Update:
    beta1, beta2 = op.args.number("beta1", default=0.9), op.args.number("beta2", default=0.999)
    rest = np.float32(beta1), np.float32(beta2), _number(op, "epsilon", 1e-5)
    by_row, rectified = op.type == "RowWiseSparseAdam", op.args.flag("enableRAdam", default=False)

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        first = _state(op, tables[1], table, table.shape[1])
        second = _state(op, tables[2], table, 1 if by_row else table.shape[1])
        lr, grads = _first(op, operands, 5), _gradient(op, operands[4], ids, table)
        step = int(_element(op, operands, 6)) + 1
        of_first, of_both = 1 / (1 - beta1**step), np.sqrt(1 - beta2**step) / (1 - beta1**step)
        if by_row:
            kernels.compiled(kernels.row_adam)(ids, grads, table, first, second, lr * np.float32(of_both), *rest)
            return
        factor = _rectification(beta2, step) if rectified else 1.0
        rate = lr * np.float32(of_first if factor is None else of_both * factor)
        kernels.compiled(kernels.adam)(ids, grads, table, first, second, rate, *rest, factor is not None)

    return update


def _rectification(beta2: float, step: int) -> float | None:
    """Return the factor of a step of RAdam; None before its second moment is usable.

    The length of the approximated simple moving average is ``limit - 2 * t * beta2 ** t / (1 - beta2 ** t)``, which
    must be 5 at least. (L. Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2019.)
    """
    with np.errstate(all="ignore"):  # beta2 may be 1
        power, limit = beta2**step, np.float64(2) / (1 - beta2) - 1
        length = limit - np.float64(2) * step * power / (1 - power)
        factor = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
    return factor if length >= 5 else None


def _momentum(op: OpView) -> Update:
    factor, nesterov = _number(op, "momentum", 0.0), op.args.flag("nesterov", default=False)

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> Array:
        table = as_rows(tables[1])
        moment, grads = _state(op, tables[0], table, table.shape[1]), _gradient(op, operands[0], ids, table)
        adjusted = np.empty_like(grads)
        lr = _first(op, operands, 2)
        kernels.compiled(kernels.momentum)(ids, grads, moment, table, lr, factor, nesterov, adjusted)
        return adjusted.reshape(operands[0].shape)

    return update


def _weighted(op: OpView) -> Update:
    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        starts = range(3, len(op.inputs), 2)
        pairs = [(_gradient(op, operands[i], ids, table), _first(op, operands, i + 1)) for i in starts]
        if (weight := _first(op, operands, 1)) != 1:
            kernels.compiled(kernels.scale_rows)(ids, table, weight)
        for rows, factor in pairs:
            kernels.compiled(kernels.add_rows)(ids, rows, table, factor)

    return update


def _ftrl(op: OpView) -> Update:
    alpha = op.args.number("alpha", default=0.005)
    rest = _number(op, "beta", 1.0), _number(op, "lambda1", 0.001), _number(op, "lambda2", 0.001)
    given = len(op.inputs) > 4

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        pairs, grads = _state(op, tables[1], table, 2 * table.shape[1]), _gradient(op, operands[3], ids, table)
        with np.errstate(divide="ignore"):
            inverse = np.float32(np.float64(1) / np.float64(_first(op, operands, 4) if given else alpha))
        kernels.compiled(kernels.ftrl)(ids, grads, table, pairs, inverse, *rest)

    return update


def _wngrad(op: OpView) -> Update:
    epsilon = _number(op, "epsilon", 1e-5)

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        lr, grads = _first(op, operands, 4), _gradient(op, operands[3], ids, table)
        sequence = _one(op, tables[1], 1)
        if ids.size:
            kernels.compiled(kernels.wngrad)(ids, grads, table, sequence, lr, epsilon)

    return update


def _storm(op: OpView) -> Update:
    momentum, beta = _number(op, "momentum", 10.0), _number(op, "beta", 0.1)

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        moment, squares = _state(op, tables[1], table, table.shape[1]), _one(op, tables[2], 2)
        lr, grads = _first(op, operands, 5), _gradient(op, operands[3], ids, table)
        kernels.compiled(kernels.storm)(ids, grads, table, moment, squares, lr, momentum, beta)

    return update


def _adadelta(op: OpView) -> Update:
    epsilon, decay = _number(op, "epsilon", 1e-5), _number(op, "decay", 0.95)

    def update(tables: Sequence[Array], ids: Array, operands: Sequence[Any]) -> None:
        table = as_rows(tables[0])
        moment, delta = (_state(op, state, table, table.shape[1]) for state in tables[1:])
        lr, grads = _first(op, operands, 5), _gradient(op, operands[4], ids, table)
        kernels.compiled(kernels.adadelta)(ids, grads, table, moment, delta, lr, epsilon, decay)

    return update


_ADAGRAD: Final = Kind(_adagrad, (0, 1), (0, 1), ids=2, counts=(5,), plain={"decay": 1, "counter_halflife": -1})
_ADAM: Final = Kind(_adam, (0, 1, 2), (0, 1, 2), ids=3, counts=(7,))
KINDS: Final[Mapping[str, Kind]] = {
    "RowWiseSparseAdagrad": _ADAGRAD,
    "RowWiseSparseAdam": _ADAM,
    "ScatterWeightedSum": Kind(_weighted, (0,), (0,), ids=2, counts=None),
    "SparseAdadelta": Kind(_adadelta, (0, 1, 2), (0, 1, 2), ids=3, counts=(6,)),
    "SparseAdagrad": _ADAGRAD,
    "SparseAdam": _ADAM,
    "SparseFtrl": Kind(_ftrl, (0, 1), (0, 1), ids=2, counts=(4, 5)),
    "SparseMomentumSGDUpdate": Kind(_momentum, (1, 3), (1, 2), ids=4, counts=(5,)),
    "SparseStorm": Kind(_storm, (0, 1, 2), (0, 1, 2), ids=4, counts=(6,)),
    "SparseWngrad": Kind(_wngrad, (0, 1), (0, 1), ids=2, counts=(5,)),
}


def kind_of(op: OpView) -> Kind | None:
    """Return how an operator updates rows of tables in place; None if it does not, or not as any loop here does."""
    kind = KINDS.get(op.type)
    if kind is None or op.proto.domain:
        return None
    if any((arg.i or arg.f) != kind.plain[arg.name] for arg in op.proto.arg if arg.name in kind.plain):
        return None
    count = len(op.inputs)  # of a sum: the table, its weight, ids, then rows and a weight
    fits = count in kind.counts if kind.counts is not None else count >= 5 and count % 2 == 1
    if not fits or len(op.outputs) != max(kind.outputs) + 1:
        return None
    names = [op.inputs[index] for index in kind.tables]
    return kind if names == [op.outputs[index] for index in kind.outputs] and len(set(names)) == len(names) else None


def ids_checker(op: OpView, kind: Kind) -> Callable[[Sequence[Any]], Array]:
    """Return what finds the ids of an update among its operands, as a vector.

    It raises RunError for an id that is not a row, and ids of other types.
    """
    at, table = kind.ids, kind.tables[0]

    def check(operands: Sequence[Any]) -> Array:
        ids = operands[at]
        if not isinstance(ids, np.ndarray) or ids.dtype not in IDS:
            found = ids.dtype.name if isinstance(ids, np.ndarray) else "an object"
            raise RunError(f"ids must be int32 or int64, not {found}")
        return require_rows(op, at, ids, len(operands[table]))

    return check


def row_updater(op: OpView, kind: Kind) -> Callable[[Sequence[Any]], tuple[Array, ...]]:
    """Return what updates rows of tables in place, from all operands: it returns the first output if it is no table.

    It raises RunError, before it writes anything, for an id that is not a row, and operands of other types or sizes.
    """
    update, tables, check = kind.prepare(op), kind.tables, ids_checker(op, kind)

    def run(operands: Sequence[Any]) -> tuple[Array, ...]:
        first = update([operands[index] for index in tables], check(operands), operands)
        return () if first is None else (first,)

    return run
