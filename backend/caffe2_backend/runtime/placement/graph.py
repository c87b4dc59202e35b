"""Where onnxruntime runs the nodes of a converted net on a GPU, and what it copies between host and GPU meanwhile.

With CUDA the rules are those of its CUDA provider: a node that has a CUDA kernel runs on the GPU, but for nodes of
which all operands are on the host already, because they are computed from shapes. Some kernels want operands, or leave
results, on the host. A value that a node on one side makes and a node on the other side reads is copied. With WebGPU
the provider itself is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from caffe2_backend.runtime.placement.kernels import missing_kernel
from caffe2_backend.runtime.sessions.assignment import Assignment
from caffe2_frontend.interop.bodies import bodies, captured_values
from caffe2_frontend.interop.metadata.origin import LOCATION_KEY, NET_KEY
from caffe2_frontend.interop.operators import MEASURES, REDUCTIONS

_SECOND: Final = REDUCTIONS | {
    "CumSum", "Expand", "OneHot", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze", "Upsample",
}  # fmt: skip
# Operands that CUDA kernels read on the host, by position: shapes, axes, sizes, conditions, lengths.
_HOST_INPUTS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(_SECOND, (1,)),
    "ConstantOfShape": (0,), "Dropout": (1, 2), "GRU": (4,), "If": (0,), "LSTM": (4,), "Loop": (0, 1),
    "NonMaxSuppression": (2, 3, 4), "Pad": (1, 3), "RNN": (4,), "Range": (0, 1, 2), "Resize": (1, 2, 3),
    "SequenceAt": (1,), "SequenceErase": (1,), "SequenceInsert": (2,), "Slice": (1, 2, 3, 4), "SplitToSequence": (1,),
}  # fmt: skip
_UNNAMED: Final = "net"  # in locations, a net without a name
_SMALL: Final = 100  # elements of constants that onnxruntime keeps on the host for a node that it moves there
_NO_HOST: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
Missing = Callable[[ir.Node, Mapping[str, int]], str]


@dataclass
class GraphPlacement:
    """What a converted net does on a GPU.

    Attributes:
        reasons: by index of the operator of the net why it cannot run on the GPU as a whole: a node of it, or of its
            bodies, has no CUDA kernel, and reads values that are not on the host anyway.
        copies: the values that are copied between host and GPU, outside and inside of bodies; those of a body once an
            iteration.
        host_nodes: the names of the nodes on the host: those without a kernel, and those that compute shapes.
    """

    reasons: dict[int, str] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    host_nodes: list[str] = field(default_factory=list)


def place_graph(model: ir.Model, missing: Missing = missing_kernel) -> GraphPlacement:
    """Find out what a model that was converted from a net does on a GPU.

    Args:
        model: the model.
        missing: says why a node has no kernel, as :func:`missing_kernel` does for CUDA.
    """
    placement = GraphPlacement()
    walk = _Walk(model.opset_imports, model.metadata_props.get(NET_KEY) or _UNNAMED, placement, missing)
    walk.graph(model.graph)
    return placement


def place_by_provider(model: ir.Model, found: Assignment) -> GraphPlacement:
    """Return what a model does on a GPU by WebGPU, as its provider has decided."""

    def missing(node: ir.Node, _: Mapping[str, int]) -> str:
        if node.name not in found.host_nodes:
            return ""
        dtypes = {value.dtype.name.lower() for value in (*node.inputs, *node.outputs) if value and value.dtype}
        return f"{node.op_type} has no WebGPU kernel for {', '.join(sorted(dtypes))}"

    reasons = place_graph(model, missing).reasons
    return GraphPlacement(reasons, sorted(found.copies), sorted(found.host_nodes))


class _Walk:
    def __init__(self, opsets: Mapping[str, int], net: str, placement: GraphPlacement, missing: Missing) -> None:
        self._opsets = opsets
        self._missing = missing
        self._location = re.compile(rf"{re.escape(net)}\[(\d+)\]")
        self._found = placement

    def graph(self, graph: ir.Graph, outer: int | None = None, *, is_body: bool = False) -> None:
        """Place the nodes of a graph; ``outer`` is the operator that it is a body of, if that is known.

        A body is placed without regard to where the values are that it reads from outside.
        """
        level = _Level(graph)
        for node in graph:
            index = self._index(node) if outer is None else outer
            reason = self._missing(node, self._opsets)
            if reason and not level.is_fed_by_host(node) and index is not None:
                self._found.reasons.setdefault(index, reason)
            for body in bodies(node):
                self.graph(body, index, is_body=True)
            if level.place(node, has_kernel=not reason):
                self._found.host_nodes.append(str(node.name))
        self._found.copies.extend(level.copies(is_body=is_body))

    def _index(self, node: ir.Node) -> int | None:
        match = self._location.match(node.metadata_props.get(LOCATION_KEY, ""))
        return int(match[1]) if match else None


class _Level:
    """The nodes of a graph that are placed so far, without those of bodies: which values they read and make where."""

    def __init__(self, graph: ir.Graph) -> None:
        self._inputs = frozenset(graph.inputs)
        self._own = set(graph.inputs) | set(graph.initializers.values())
        self._of_shapes: set[ir.Value] = set()  # on the host, as what is computed from them alone
        self._made: dict[bool, set[ir.Value]] = {True: set(), False: set()}  # by whether on the host
        self._read: dict[bool, set[ir.Value]] = {True: set(), False: set()}

    def is_fed_by_host(self, node: ir.Node) -> bool:
        """Whether all that a node reads is on the host anyway, so that it costs nothing that it has no CUDA kernel."""
        found = [value for value in node.inputs if value is not None]
        host = self._made[True]
        return any(value in host for value in found) and all(value in host or _is_small(value) for value in found)

    def place(self, node: ir.Node, *, has_kernel: bool) -> bool:
        """Place a node; return whether it is on the host."""
        follows = self._follows_shapes(node)
        host = not has_kernel or (follows and self._is_of_shapes(node))
        wanted = set(_host_positions(node))
        for position, value in enumerate(node.inputs):
            if value is not None:
                self._read[host or position in wanted].add(value)
        outputs = {value for value in node.outputs if value.name}
        self._own |= outputs
        measures = node.op_type in MEASURES
        self._made[host or measures] |= outputs
        if (host and follows) or (measures and has_kernel):
            self._of_shapes |= outputs
        return host

    def _follows_shapes(self, node: ir.Node) -> bool:
        return any(value in self._of_shapes for value in (*node.inputs, *captured_values(node)))

    def _is_of_shapes(self, node: ir.Node) -> bool:
        """Whether onnxruntime moves a node that has a CUDA kernel, and reads a value of shapes, to the host.

        It does where all operands are such values, and the kernel wants them on the GPU. Inputs of the graph and small
        constants do not matter.
        """
        wanted = set(_host_positions(node))
        for position, value in enumerate(node.inputs):
            if value is None:
                return False
            if value.dtype in _NO_HOST:
                return False
            if _is_small(value) or value in self._inputs:
                continue
            if value not in self._of_shapes or position in wanted:
                return False
        return True

    def copies(self, *, is_body: bool) -> list[str]:
        """Return the values that are copied: made on one side and read on the other.

        Those that come from elsewhere are copied if both sides read them, but for constants of the graph itself, of
        which each side has its own.
        """
        made_host, made_gpu = self._made[True], self._made[False]
        host, gpu = self._read[True], self._read[False]
        both = host & gpu
        found = (made_host & gpu) | (made_gpu & host) | (both & self._inputs)
        if is_body:
            found |= both - self._own
        return sorted(str(value.name) for value in found)


def _host_positions(node: ir.Node) -> Iterable[int]:
    return _HOST_INPUTS.get(node.op_type, ())


def _is_small(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.size <= _SMALL
