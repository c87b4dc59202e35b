"""Where onnxruntime runs the nodes of a converted net on a GPU, and what it copies between host and GPU meanwhile.

The rules are those of its CUDA provider: a node that has a CUDA kernel runs on the GPU, but for nodes of which all
operands are on the host already, because they are computed from shapes. Some kernels want operands, or leave results,
on the host. A value that a node on one side makes and a node on the other side reads is copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from caffe2_backend.runtime.placement.kernels import missing_kernel
from caffe2_frontend.interop.metadata.origin import LOCATION_KEY, NET_KEY
from caffe2_frontend.interop.operators import MEASURES, REDUCTIONS

_SECOND: Final = REDUCTIONS | {
    "CumSum", "Expand", "OneHot", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze", "Upsample",
}  # fmt: skip
# Operands that CUDA kernels read on the host, by position: shapes, axes, sizes, conditions, lengths.
_HOST_INPUTS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(_SECOND, (1,)),
    "ConstantOfShape": (0,), "Dropout": (1, 2), "GRU": (4,), "If": (0,), "LSTM": (4,), "Loop": (0, 1), "Pad": (1, 3),
    "RNN": (4,), "Range": (0, 1, 2), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4),
}  # fmt: skip
_UNNAMED: Final = "net"  # in locations, a net without a name
_SMALL: Final = 100  # elements of constants that onnxruntime keeps on the host for a node that it moves there
_NO_HOST: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@dataclass
class GraphPlacement:
    """What a converted net does on a GPU.

    Attributes:
        reasons: by index of the operator of the net why it cannot run on the GPU as a whole: a node of it, or of its
            bodies, has no CUDA kernel, and reads values that are not on the host anyway.
        copies: the values that are copied between host and GPU, outside and inside of bodies; those of a body once an
            iteration.
    """

    reasons: dict[int, str] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)


def place_graph(model: ir.Model) -> GraphPlacement:
    """Find out what a model that was converted from a net does on a GPU."""
    placement = GraphPlacement()
    walk = _Walk(model.opset_imports, model.metadata_props.get(NET_KEY) or _UNNAMED, placement)
    walk.graph(model.graph)
    return placement


class _Walk:
    def __init__(self, opsets: Mapping[str, int], net: str, placement: GraphPlacement) -> None:
        self._opsets = opsets
        self._location = re.compile(rf"{re.escape(net)}\[(\d+)\]")
        self._found = placement

    def graph(self, graph: ir.Graph, outer: int | None = None) -> None:
        """Place the nodes of a graph; ``outer`` is the operator that it is a body of.

        A body is placed without regard to where the values are that it reads from outside.
        """
        host: set[ir.Value] = set()
        on_gpu: set[ir.Value] = set()
        read_on_gpu: set[ir.Value] = set()
        read_on_host: set[ir.Value] = set()
        for node in graph:
            index = self._index(node) if outer is None else outer
            reason = missing_kernel(node, self._opsets)
            moved = self._is_of_shapes(node, host)
            if reason and not moved and index is not None:
                self._found.reasons.setdefault(index, reason)
            bodies = [body for attribute in node.attributes.values() for body in _bodies(attribute)]
            for body in bodies:
                self.graph(body, index)
            stays = bool(reason) or moved
            wanted = set() if stays else set(_host_positions(node))
            for position, value in enumerate(node.inputs):
                if value is not None and not _is_constant(value):
                    (read_on_host if stays or position in wanted else read_on_gpu).add(value)
            outputs = [value for value in node.outputs if value.name]
            if stays or node.op_type in MEASURES:
                host.update(outputs)
            else:
                on_gpu.update(outputs)
        self._copies(on_gpu & read_on_host, (host & read_on_gpu))

    def _copies(self, to_host: Iterable[ir.Value], to_gpu: Iterable[ir.Value]) -> None:
        names = sorted(str(value.name) for value in {*to_host, *to_gpu})
        self._found.copies.extend(names)

    def _is_of_shapes(self, node: ir.Node, host: set[ir.Value]) -> bool:
        """Whether onnxruntime moves a node to the host.

        It does where an operand that the kernel wants on the GPU is on the host, and all others are there, too.
        """
        wanted = set(_host_positions(node))
        found = [(position, value) for position, value in enumerate(node.inputs) if value is not None]
        if any(value.dtype in _NO_HOST for _, value in found):
            return False
        starts = any(value in host and position not in wanted for position, value in found)
        return starts and all(value in host or _is_small(value) for _, value in found)

    def _index(self, node: ir.Node) -> int | None:
        match = self._location.match(node.metadata_props.get(LOCATION_KEY, ""))
        return int(match[1]) if match else None


def _bodies(attribute: ir.Attr) -> Iterable[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        yield attribute.as_graph()
    elif attribute.type == ir.AttributeType.GRAPHS:
        yield from attribute.as_graphs()


def _host_positions(node: ir.Node) -> Iterable[int]:
    return _HOST_INPUTS.get(node.op_type, ())


def _is_constant(value: ir.Value) -> bool:
    return value.const_value is not None and value.producer() is None


def _is_small(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.size <= _SMALL
