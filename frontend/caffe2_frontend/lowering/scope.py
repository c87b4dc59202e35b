"""Where emitted nodes go: the graph under construction, and the blobs that are visible in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.names import Names

# Constants up to this size are shared between the operators that need the same one.
_SHARED_CONSTANT_BYTES = 1024


class Constants:
    """The constants of a model: initializers of its main graph, visible in all bodies."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shared: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self.values: list[ir.Value] = []

    def add(self, array: Array, base: str = "const") -> ir.Value:
        """A constant that holds ``array``; strings are an array of objects (str)."""
        array = np.asarray(array)
        if array.dtype.kind in "OSU":
            return self.add_tensor(string_tensor(array), base)
        small = array.nbytes <= _SHARED_CONSTANT_BYTES
        key = (array.dtype.str, array.shape, array.tobytes()) if small else None
        if key is not None and key in self._shared:
            return self._shared[key]
        value = self.add_tensor(ir.tensor(array), base)
        if key is not None:
            self._shared[key] = value
        return value

    def add_tensor(self, tensor: ir.TensorProtocol, base: str, *, claimed: bool = False) -> ir.Value:
        """A constant that holds a tensor, which may be lazy; ``claimed``: it is the value of the blob of that name."""
        value = ir.Value(
            name=self._names.claim(base) if claimed else self._names.fresh(base),
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        tensor.name = value.name
        self.values.append(value)
        return value


def string_tensor(array: Array) -> ir.StringTensor:
    """An ONNX string tensor of an array of str or bytes."""
    data = [v.encode() if isinstance(v, str) else bytes(v) for v in array.reshape(-1).tolist()]
    return ir.StringTensor(data, shape=ir.Shape(array.shape))


@dataclass
class Scope:
    """One graph under construction: its nodes so far, and the values of the blobs written in it.

    A body's scope sees the blobs of the scope around it and writes its own. A blob whose operator was refused is
    *poisoned*: what depends on it is not converted and not reported again. ``sizes`` says, for the name of a dim, which
    input of the model has it as which axis.
    """

    names: Names
    constants: Constants
    opset: int
    parent: Scope | None = None
    outermost: bool = False
    sizes: Mapping[str, tuple[ir.Value, int]] = field(default_factory=dict)
    nodes: list[ir.Node] = field(default_factory=list)
    blobs: dict[str, ir.Value | None] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    unbound: set[ir.Value] = field(default_factory=set)

    def child(self, blobs: Mapping[str, ir.Value] | None = None, *, sealed: bool = False) -> Scope:
        """The scope of a body. ``sealed``: it does not see the blobs around it."""
        parent = None if sealed else self
        return Scope(self.names, self.constants, self.opset, parent, sizes=self.sizes, blobs=dict(blobs or {}))

    def find(self, blob: str) -> ir.Value | None:
        """The current value of a blob, looked up outwards; None where it was never written, or is no tensor."""
        if blob in self.blobs:
            return self.blobs[blob]
        return None if self.parent is None else self.parent.find(blob)

    def is_known(self, blob: str) -> bool:
        """Whether the blob exists here: as a tensor, as something else, or as what could not be converted."""
        if blob in self.blobs or blob in self.poisoned:
            return True
        return self.parent is not None and self.parent.is_known(blob)

    def is_opaque(self, blob: str) -> bool:
        """Whether the blob exists but is no tensor, such as a stack of workspaces."""
        if blob in self.blobs:
            return self.blobs[blob] is None
        return self.parent is not None and self.parent.is_opaque(blob)

    def is_poisoned(self, blob: str) -> bool:
        """Whether the blob's current value could not be converted."""
        if blob in self.poisoned:
            return True
        return blob not in self.blobs and self.parent is not None and self.parent.is_poisoned(blob)

    def append(self, node: ir.Node, owner: str) -> None:
        """Add a node; its outputs are named after the blob that it is emitted for, until they are bound to one."""
        for value in node.outputs:
            value.name = self.names.fresh(f"{owner}/{node.op_type}")
            self.unbound.add(value)
        self.nodes.append(node)

    def bind(self, blob: str, value: ir.Value | None) -> None:
        """The blob now has this value, or none that is a tensor. A value that is new takes the blob's name."""
        if value is not None and value in self.unbound:
            self.unbound.remove(value)
            value.name = self.names.claim(blob) if self.outermost else self.names.fresh(blob)
        self.blobs[blob] = value
        self.poisoned.discard(blob)

    def poison(self, blob: str) -> None:
        """The blob has no value that could be converted."""
        self.poisoned.add(blob)
        self.blobs.pop(blob, None)

    def graph(self, inputs: Iterable[ir.Value], outputs: Iterable[ir.Value], name: str) -> ir.Graph:
        """The finished graph."""
        return ir.Graph(inputs=list(inputs), outputs=list(outputs), nodes=self.nodes, name=name)
