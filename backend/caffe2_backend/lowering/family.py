"""Families of importers."""

from __future__ import annotations

from collections.abc import Callable

from caffe2_backend.lowering.op import Op, Outputs
from caffe2_bridge import registry

Converter = Callable[[Op], Outputs]


class Family(registry.Family[Converter]):
    """A named set of converters of ONNX operators, one file each."""

    def converts(self, *op_types: str) -> Callable[[Converter], Converter]:
        """Register a converter for operator types; of another domain than ONNX's own as ``domain::type``."""

        def register(function: Converter) -> Converter:
            self.add(function, *op_types)
            return function

        return register
