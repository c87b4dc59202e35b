"""Run a module once, and note ranks and element types: they decide between forms of an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.program import Program, ProgramStep
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.int8 import Quantized
from caffe2_torch.module import NetModule


class Fact(NamedTuple):
    """What is known of a value; ``rank`` is None where runs differ, ``dtype`` for what is not a tensor.

    Of an Int8 tensor (``quantized``) they are those of its data.
    """

    rank: int | None
    dtype: torch.dtype | None
    quantized: bool = False


UNKNOWN = Fact(None, None)


@dataclass
class Record:
    """What a run saw, by the identity of steps: facts of operands and results. Steps that did not run are missing."""

    operands: dict[int, tuple[Fact, ...]] = field(default_factory=dict)
    results: dict[int, tuple[Fact, ...]] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


def record(module: NetModule, program: Program, inputs: Mapping[str, Any]) -> Record:
    """Run the module in evaluation on inputs by blob name. Raises RunError."""
    found = Record()
    originals = [(step, step.function) for step in _steps(program)]
    for step, function in originals:
        step.function = _noting(found, step, function)
    try:
        with torch.no_grad():
            found.outputs = module.eval().run(inputs, module.outputs)  # each by its operator
    finally:
        for step, function in originals:
            step.function = function
    return found


def _steps(program: Program) -> Iterable[ProgramStep]:
    for step in program.steps:
        yield step
        for body in step.bodies.values():
            yield from _steps(body)


def _noting(found: Record, step: ProgramStep, function: Callable[[Op], Any]) -> Callable[[Op], Any]:
    def noting(op: Op) -> Any:
        results = function(op)
        _merge(found.operands, step, op.values)
        _merge(found.results, step, results if type(results) is tuple else (results,))
        return results

    return noting


def _merge(table: dict[int, tuple[Fact, ...]], step: ProgramStep, values: Iterable[Value]) -> None:
    new = tuple(map(_fact, values))
    old = table.get(id(step), new)
    table[id(step)] = tuple(
        Fact(a.rank if a.rank == b.rank else None, a.dtype if a.dtype == b.dtype else None, a.quantized)
        for a, b in zip(old, new, strict=False)
    )


def _fact(value: Value) -> Fact:
    if isinstance(value, Quantized):
        return _fact(value.data)._replace(quantized=True)
    return Fact(value.dim(), value.dtype) if isinstance(value, torch.Tensor) else UNKNOWN
