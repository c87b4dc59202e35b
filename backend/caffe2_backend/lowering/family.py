"""Families of importers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from caffe2_backend.lowering.op import Op, Outputs
from caffe2_bridge import registry
from caffe2_frontend.interop.types import TensorInfo

Converter = Callable[[Op], Outputs]
# From the types and dims of operands to those of results.
Inference = Callable[[Sequence[TensorInfo]], Iterable[TensorInfo]]


class Family(registry.Family[Converter]):
    """A named set of converters of ONNX operators, one file each."""

    def converts(self, *op_types: str) -> Callable[[Converter], Converter]:
        """Register a converter for operator types; of another domain than ONNX's own as ``domain::type``."""

        def register(function: Converter) -> Converter:
            self.add(function, *op_types)
            return function

        return register


def full_type(node: ir.Node) -> str:
    """Return the operator type of a node, as converters are registered for it."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type
