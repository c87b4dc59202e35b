"""Converters of operators that Caffe2 does not have: those of a user's own C++ libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caffe2_bridge.diagnostics import OptionError
from caffe2_frontend.interop.guarded import guarded
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Converter, Expectation, Family
from caffe2_frontend.lowering.op import Value
from caffe2_frontend.ops.index import INDEX, REGISTERED


def register_converter(
    *op_types: str, expects: Expectation | Mapping[int, TensorInfo] | None = None
) -> Callable[[Converter], Converter]:
    """Return a decorator that registers the converter of operator types of one's own.

    A converter is a function from the operator, as ``docs/own-operators.md`` describes it, to the value of its output,
    or to a tuple of those of several. Exports, checks, runs and validations of this process use it from then on. A
    later registration of the same type replaces it.

    Args:
        op_types: Caffe2's names of the operator types.
        expects: what is known of operands that are inputs of the net, by index, for those that are not described.

    Raises:
        OptionError: this project has a converter of one of the types, or no type is named.
    """
    known = [op_type for op_type in op_types if op_type in INDEX]
    if known or not op_types:
        raise OptionError(f"{known[0]} has a converter already" if known else "name the operator types")

    def register(function: Converter) -> Converter:
        family = Family("registered")
        family.converts(*op_types, expects=expects)(guarded(function, Value))
        REGISTERED.update(family.handlers)
        return function

    return register
