"""Operators on statistics: StatRegistryCreate, StatRegistryExport, StatRegistryUpdate, AveragePut and others."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.stat_registry import GLOBAL_STATISTICS, StatRegistry

family = HostFamily("statistics")

_INT64 = np.iinfo(np.int64)


@family.runs("StatRegistryCreate")
def create(op: HostOp) -> None:
    """StatRegistryCreate() -> registry."""
    op.set(0, StatRegistry())


@family.runs("StatRegistryExport")
def export(op: HostOp) -> None:
    """StatRegistryExport([registry]; reset=1) -> keys, values, times in nanoseconds.

    Without an input the registry is that of the process.
    """
    registry = op.object(0, StatRegistry) if op.inputs else GLOBAL_STATISTICS
    found = registry.export(reset=op.args.flag("reset", default=True))
    op.set(0, np.array([one.key for one in found], object))
    op.set(1, np.array([one.value for one in found], np.int64))
    op.set(2, np.array([one.time_ns for one in found], np.int64))


@family.runs("StatRegistryUpdate")
def update(op: HostOp) -> None:
    """StatRegistryUpdate(keys, values, [registry]) -> (): add the values."""
    registry = op.object(2, StatRegistry) if len(op.inputs) > 2 else GLOBAL_STATISTICS
    keys, values = op.array(0, object).reshape(-1), op.array(1, np.int64).reshape(-1)
    if len(keys) != len(values):
        raise op.error(f"there are {len(keys)} keys, and {len(values)} values")
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        registry.add(key, value)


@family.runs("IncrementPut")
def increment_put(op: HostOp) -> None:
    """IncrementPut(value; stat_name, magnitude_expand=1, bound=0, default_value) -> (): add the first element."""
    GLOBAL_STATISTICS.add(_key(op), _number(op))


@family.runs("AveragePut")
def average_put(op: HostOp) -> None:
    """AveragePut(value; stat_name, magnitude_expand=1, bound=0, default_value) -> (): add to a sum and a count."""
    key = _key(op)
    GLOBAL_STATISTICS.add(f"{key}/sum", _number(op))
    GLOBAL_STATISTICS.add(f"{key}/count", 1)


@family.runs("StdDevPut")
def std_dev_put(op: HostOp) -> None:
    """StdDevPut(value; stat_name, magnitude_expand=1, bound=0, default_value) -> ().

    The sum, the count, and the sums of the differences from the operator's first value and of their squares.
    """
    key, number = _key(op), _number(op)
    offset = number - op.state.setdefault("first", number)
    for name, added in (("sum", number), ("count", 1), ("sumoffset", offset), ("sumsqoffset", offset * offset)):
        GLOBAL_STATISTICS.add(f"{key}/{name}", added)


def _key(op: HostOp) -> str:
    return op.args.text("stat_name", default=op.inputs[0]) + "/stat_value"


def _number(op: HostOp) -> int:
    """Return the first element times ``magnitude_expand``, truncated; ``bound`` limits it to 64 bits."""
    expand = op.args.optional_integer("magnitude_expand", 1)
    array = op.array(0).reshape(-1)
    if array.dtype.kind not in "iuf":
        raise op.error(f"blob {op.inputs[0]!r} must hold numbers, not {array.dtype.name}")
    if array.size:
        number = array[0].item()
    elif "default_value" in op.args:
        number = op.args.number("default_value")
    else:
        raise op.error(f"blob {op.inputs[0]!r} is empty, and the operator has no default_value")
    if isinstance(number, float) and not np.isfinite(number):
        raise op.error(f"blob {op.inputs[0]!r} holds {number}")
    result = int(number * expand)
    limits = int(_INT64.min), int(_INT64.max)
    if op.args.flag("bound", default=False):
        return min(max(result, limits[0]), limits[1])
    if not limits[0] <= result <= limits[1]:
        raise op.error(f"{number} times {expand} does not fit into 64 bits; set bound=1 to limit it")
    return result
