"""The names of parameters, and which of them are learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# Operands that no gradient reaches, by operator type: running moments.
_NOT_LEARNED: Final = {"SpatialBN": (3, 4)}


def attribute_names(blobs: Iterable[str], taken: Callable[[str], bool]) -> dict[str, str]:
    """Return the attribute of a module for each blob: its name, with ``_`` where PyTorch does not allow it."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for blob in blobs:
        name = blob.replace(".", "_") or "_"
        while taken(name) or name in used:
            name += "_"
        used.add(name)
        names[blob] = name
    return names


def reached_by_gradients(net: NetDef) -> set[str]:
    """Return the blobs that operators read other than as running moments."""
    found: set[str] = set()
    for op in all_operators(NetView(net)):
        kept = _NOT_LEARNED.get(op.type, ())
        found.update(name for index, name in enumerate(op.inputs) if index not in kept)
    return found
