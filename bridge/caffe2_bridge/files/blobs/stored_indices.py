"""Indices as Caffe2 stores them: a blob with the keys as a tensor, and the operators that make such an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, OperatorDef

INDEX_TYPE: Final = "std::unique_ptr<caffe2::IndexBase>"
_MAKERS: Final = {
    np.dtype(np.int32): "IntIndexCreate",
    np.dtype(np.int64): "LongIndexCreate",
    np.dtype(object): "StringIndexCreate",
}


@dataclass(frozen=True)
class StoredIndex:
    """An index: its keys in the order of their numbers, the first number that no key gets, whether it is frozen."""

    keys: Parameter
    max_elements: int
    is_frozen: bool

    @classmethod
    def of(cls, blob: Blob) -> StoredIndex:
        """Read the blob of an index. Raises NetFormatError if it is damaged."""
        keys = blob.parameter()
        if keys.dtype not in _MAKERS or keys.scale is not None:
            raise NetFormatError(f"the keys of the index {blob.name!r} must be int32, int64 or texts")
        text = blob.text()
        try:
            most, frozen = map(int, text.split())
        except ValueError:
            raise NetFormatError(f"the index {blob.name!r} must have a maximum and a flag: {text!r}") from None
        return cls(keys, most, bool(frozen))

    def operators(self, name: str, keys: str) -> list[OperatorDef]:
        """Return the operators that make the index under a name, of keys in a blob."""
        most = Argument(name="max_elements", i=self.max_elements)
        made = [OperatorDef(type=_MAKERS[self.keys.dtype], output=[name], arg=[most])]
        made.append(OperatorDef(type="IndexLoad", input=[name, keys], output=[name]))
        if self.is_frozen:
            made.append(OperatorDef(type="IndexFreeze", input=[name], output=[name]))
        return made


def read_blobs(blobs: Mapping[str, Blob]) -> tuple[dict[str, Parameter], list[OperatorDef]]:
    """Return the stored blobs that an init net is to fill, by their names there, as parameters and operators.

    Tensors are parameters. An index is made by operators from a parameter ``NAME:keys``.

    Raises NetFormatError for a damaged blob and one of another type.
    """
    parameters: dict[str, Parameter] = {}
    operators: list[OperatorDef] = []
    for name, blob in blobs.items():
        if blob.kind() != INDEX_TYPE:
            parameters[name] = blob.parameter()
            continue
        index, keys = StoredIndex.of(blob), f"{name}:keys"
        parameters[keys] = dataclasses.replace(index.keys, name=keys, device=None)
        operators += index.operators(name, keys)
    return parameters, operators
