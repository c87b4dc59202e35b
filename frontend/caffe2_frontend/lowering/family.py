"""Families of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from caffe2_bridge import registry
from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.op import Op, Outputs

Converter = Callable[[Op], Outputs]
Expectation = Callable[[OpView, int], TensorInfo]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How an operator type is converted.

    ``expects`` infers, from an operator and the index of one of its operands, what is known of that operand; it
    describes inputs of the net that the caller does not describe. ``uniform``: the nodes of an operator follow from its
    type, its arguments and what is known of its operands (:mod:`.stamp`).
    """

    convert: Converter
    expects: Expectation | None = None
    uniform: bool = False

    def __str__(self) -> str:
        return self.convert.__qualname__


class Family(registry.Family[Conversion]):
    """A named set of converters, one file each."""

    def converts(
        self,
        *op_types: str,
        expects: Expectation | Mapping[int, TensorInfo] | None = None,
        uniform: bool = False,
    ) -> Callable[[Converter], Converter]:
        """Register a converter for operator types.

        ``expects`` describes operands by index, or by a function of the operator and the index; ``uniform`` says that
        operators of these types that differ in names alone are converted alike.
        """
        expectation = _by_index(expects) if isinstance(expects, Mapping) else expects

        def register(function: Converter) -> Converter:
            self.add(Conversion(function, expectation, uniform), *op_types)
            return function

        return register


def _by_index(expected: Mapping[int, TensorInfo]) -> Expectation:
    return lambda _, index: expected.get(index, TensorInfo())
