"""Scopes: graphs under construction, with their nodes and the blobs that are visible in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.names import Names

# Equal constants up to this size are shared.
SHARED_CONSTANT_BYTES: Final = 1024


class Constants:
    """The constants of a model: initializers of its main graph, which are visible in all bodies."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shared: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self._types: dict[ir.DataType, ir.TensorType] = {}
        self._shapes: dict[tuple[int, ...], ir.Shape] = {}
        self.values: list[ir.Value] = []

    def add(self, array: Array, base: str = "const") -> ir.Value:
        """Return a constant with the values of ``array``; strings are an object array of str or bytes."""
        array = np.asarray(array)
        if array.dtype.kind in "OSU":
            return self.add_tensor(string_tensor(array), base)
        small = array.nbytes <= SHARED_CONSTANT_BYTES
        key = (array.dtype.str, array.shape, array.tobytes()) if small else None
        if key is not None and key in self._shared:
            return self._shared[key]
        value = self.add_tensor(ir.Tensor(array), base)
        if key is not None:
            self._shared[key] = value
        return value

    def shape(self, dims: tuple[int, ...]) -> ir.Shape:
        """Return the shape with these dims: always one object."""
        known = self._shapes.get(dims)
        if known is None:
            known = self._shapes[dims] = ir.Shape(dims)
        return known

    def add_tensor(self, tensor: ir.TensorProtocol, base: str, *, claimed: bool = False) -> ir.Value:
        """Add a constant with a tensor, which may be lazy. With ``claimed``, its name is that of the blob ``base``.

        Equal types and shapes are one object, by which later passes recognize that operators are alike.
        """
        value = ir.Value(
            name=self._names.claim(base) if claimed and base else self._names.fresh(base or "unnamed"),
            type=self._types.setdefault(tensor.dtype, ir.TensorType(tensor.dtype)),
            shape=self.shape(tuple(tensor.shape.numpy())),
            const_value=tensor,
        )
        tensor.name = value.name
        self.values.append(value)
        return value


@dataclass
class Scope:
    """A graph under construction.

    The scope of a body can read the blobs of the enclosing scopes, and writes only its own. A blob whose operator is
    not supported is *poisoned*: operators that depend on it are neither converted nor reported.

    Attributes:
        names: the names in use.
        constants: the constants of the model.
        opset: the ONNX opset.
        parent: the enclosing scope.
        outermost: whether this is the main graph.
        sizes: for the name of a dim, an input of the model and the axis with that dim.
        nodes: the nodes so far.
        blobs: the value of each blob written in the scope; None for one that is not a tensor.
        objects: what is known at conversion of blobs that are not tensors, such as step workspaces.
        poisoned: the poisoned blobs.
        unbound: the values that do not have the name of a blob yet.
    """

    names: Names
    constants: Constants
    opset: int
    parent: Scope | None = None
    outermost: bool = False
    sizes: Mapping[str, tuple[ir.Value, int]] = field(default_factory=dict)
    nodes: list[ir.Node] = field(default_factory=list)
    blobs: dict[str, ir.Value | None] = field(default_factory=dict)
    objects: dict[str, object] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    unbound: set[ir.Value] = field(default_factory=set)

    def child(self, blobs: Mapping[str, ir.Value] | None = None, *, sealed: bool = False) -> Scope:
        """Make the scope of a body; a ``sealed`` one cannot read the blobs of this scope."""
        parent = None if sealed else self
        return Scope(self.names, self.constants, self.opset, parent, sizes=self.sizes, blobs=dict(blobs or {}))

    def find(self, blob: str) -> ir.Value | None:
        """Return the current value of a blob here or in an enclosing scope; None if it is undefined or not a tensor."""
        if blob in self.blobs:
            return self.blobs[blob]
        return None if self.parent is None else self.parent.find(blob)

    def find_object(self, blob: str) -> object:
        """Return what is known of a blob that is not a tensor, here or in an enclosing scope; None if nothing is."""
        if blob in self.blobs:
            return self.objects.get(blob) if self.blobs[blob] is None else None
        return None if self.parent is None else self.parent.find_object(blob)

    def bind_object(self, blob: str, known: object) -> None:
        """Set what is known of a blob that is not a tensor."""
        self.bind(blob, None)
        self.objects[blob] = known

    def is_known(self, blob: str) -> bool:
        """Return whether a blob is defined: as a tensor, as something else, or poisoned."""
        if blob in self.blobs or blob in self.poisoned:
            return True
        return self.parent is not None and self.parent.is_known(blob)

    def is_opaque(self, blob: str) -> bool:
        """Return whether a blob is defined but not a tensor, such as a stack of workspaces."""
        if blob in self.blobs:
            return self.blobs[blob] is None
        return self.parent is not None and self.parent.is_opaque(blob)

    def is_poisoned(self, blob: str) -> bool:
        """Return whether a blob is poisoned."""
        if blob in self.poisoned:
            return True
        return blob not in self.blobs and self.parent is not None and self.parent.is_poisoned(blob)

    def append(self, node: ir.Node, owner: str) -> None:
        """Add a node. Its outputs are named after the blob ``owner`` until they are bound to a blob."""
        for value in node.outputs:
            value.name = self.names.fresh(f"{owner}/{node.op_type}")
            self.unbound.add(value)
        self.nodes.append(node)

    def append_written(self, node: ir.Node, blobs: Iterable[str]) -> None:
        """Add a node whose outputs are the values of these blobs."""
        for blob, value in zip(blobs, node.outputs, strict=True):
            value.name = self.names.claim(blob) if self.outermost else self.names.fresh(blob)
            self.blobs[blob] = value
            self.poisoned.discard(blob)
        self.nodes.append(node)

    def bind(self, blob: str, value: ir.Value | None) -> None:
        """Set the value of a blob; None if it is not a tensor. An unbound value gets the blob's name."""
        if value is not None and value in self.unbound:
            self.unbound.remove(value)
            value.name = self.names.claim(blob) if self.outermost else self.names.fresh(blob)
        self.blobs[blob] = value
        self.poisoned.discard(blob)

    def poison(self, blob: str) -> None:
        """Mark a blob as one that could not be converted."""
        self.poisoned.add(blob)
        self.blobs.pop(blob, None)

    def graph(self, inputs: Iterable[ir.Value], outputs: Iterable[ir.Value], name: str) -> ir.Graph:
        """Make the graph."""
        return ir.Graph(inputs=list(inputs), outputs=list(outputs), nodes=self.nodes, name=name)
