"""Indices, which number keys from 1 on, as far as the keys are known at conversion: they are no values of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.domains import ML_DOMAIN
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("indices")

_DTYPES: Final[Mapping[str, ir.DataType]] = {
    "IntIndexCreate": ir.DataType.INT32,
    "LongIndexCreate": INT64,
    "StringIndexCreate": ir.DataType.STRING,
}
_UNKNOWN: Final = 0  # the number of keys that a frozen index does not have
_MAX_ELEMENTS: Final = 2**31 - 1


@dataclass(frozen=True)
class _Index:
    """An index at one place of the net.

    Attributes:
        dtype: of the keys.
        max_elements: the first number that no key gets.
        numbers: of the keys, in ascending order; strings are bytes.
        frozen: whether new keys get no number.
    """

    dtype: ir.DataType
    max_elements: int
    numbers: Mapping[int | bytes, int]
    frozen: bool = False

    def keys(self) -> Array:
        """Return the keys in the order of their numbers."""
        if self.dtype == ir.DataType.STRING:
            found = np.empty(len(self.numbers), object)
            found[:] = list(self.numbers)
            return found
        return np.array(list(self.numbers), self.dtype.numpy())


@family.converts(*_DTYPES)
def create(op: Op) -> tuple[None]:
    """IntIndexCreate | LongIndexCreate | StringIndexCreate(; max_elements=2147483647) -> index."""
    most = op.args.integer("max_elements", default=_MAX_ELEMENTS)
    op.scope.bind_object(op.view.outputs[0], _Index(_DTYPES[op.type], most, {}))
    return (None,)


@family.converts("IndexLoad")
def load(op: Op) -> tuple[None]:
    """IndexLoad(index, keys; skip_first_entry=0) -> index: number other keys from 1 on."""
    index, keys = _index(op), _known_keys(op)
    skips = op.args.flag("skip_first_entry", default=False)
    if keys is None:
        op.unsupported(
            f"the keys {op.view.inputs[1]!r} of index {op.view.inputs[0]!r} are computed as the model runs",
            "fill them in the init net, with a GivenTensor...Fill",
        )
    if skips and not keys:
        op.unsupported("skip_first_entry requires at least one key", code="invalid-operands")
    numbers = _numbered(keys[1:] if skips else keys)
    if len(numbers) < len(keys) - skips:
        op.unsupported(f"{op.view.inputs[1]!r} holds a key twice", code="invalid-operands")
    if len(numbers) > index.max_elements:
        op.unsupported(
            f"there are {len(numbers)} keys, and max_elements is {index.max_elements}", code="invalid-operands"
        )
    _change(op, replace(index, numbers=numbers))
    return (None,)


@family.converts("IndexFreeze")
def freeze(op: Op) -> tuple[None]:
    """IndexFreeze(index) -> index: keys that it does not have get the number 0 from now on."""
    _change(op, replace(_index(op), frozen=True))
    return (None,)


@family.converts("IndexGet")
def get(op: Op) -> Value:
    """IndexGet(index, keys) -> numbers: int64, in the shape of the keys.

    An index that is not frozen gives numbers to new keys, which must be known at conversion.
    """
    index, keys = _index(op), _known_keys(op)
    if keys is not None:
        if not index.frozen:
            index = replace(index, numbers=_numbered((*index.numbers, *keys)))
            if len(index.numbers) >= index.max_elements:
                op.unsupported(f"the index is full: max_elements is {index.max_elements}", code="invalid-operands")
            _change(op, index)
        numbers = np.array([index.numbers.get(key, _UNKNOWN) for key in keys], np.int64)
        return op.const(numbers.reshape(op.shape(op.input(1)).numpy()))
    if not index.frozen:
        op.unsupported(
            f"index {op.view.inputs[0]!r} is not frozen: it would number new keys as the model runs, and a model keeps "
            "nothing from run to run",
            "freeze it once it has all keys, with IndexFreeze; or remove the operator from the net: its output "
            f"{op.view.outputs[0]!r} is an input then, of int64",
        )
    return _label_encoder(op, op.input(1), index)


def _label_encoder(op: Op, keys: Value, index: _Index) -> Value:
    shape, is_text = op.shape(keys), index.dtype == ir.DataType.STRING
    if index.dtype == ir.DataType.INT32:
        keys = cast(op, keys, INT64)
    numbers = index.numbers or {b"" if is_text else 0: _UNKNOWN}  # a LabelEncoder must have keys
    return op.emit(
        "LabelEncoder",
        keys,
        domain=ML_DOMAIN,
        shape=shape,
        dtype=INT64,
        keys_strings=_texts(op, numbers) if is_text else None,
        keys_int64s=None if is_text else list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=_UNKNOWN,
    )


def _texts(op: Op, keys: Iterable[int | bytes]) -> list[str]:
    try:
        return [key.decode() for key in keys if isinstance(key, bytes)]
    except UnicodeDecodeError as error:
        op.unsupported(f"a key of the index is not UTF-8 text: {error.object!r}")


@family.converts("IndexStore")
def store(op: Op) -> Value:
    """IndexStore(index) -> keys, in the order of their numbers."""
    return op.const(_index(op).keys())


@family.converts("IndexSize")
def size(op: Op) -> Value:
    """IndexSize(index) -> the number of keys plus one, an int64 without dims."""
    return op.const(len(_index(op).numbers) + 1, np.int64)


def _index(op: Op) -> _Index:
    """Return the index that the operator reads; refuse the operator where it is not known at conversion."""
    name = op.view.inputs[0]
    found = op.scope.find_object(name)
    if not isinstance(found, _Index):
        op.unsupported(
            f"input 0 ({name!r}) must be an index that an earlier operator, or one of the init net, creates",
            "give the init net that creates it: --init FILE, or init_net=...",
        )
    return found


def _change(op: Op, index: _Index) -> None:
    """Bind the changed index. Refuses an operator in a body that changes an index from outside of it."""
    name = op.view.inputs[0]
    if name not in op.scope.blobs:
        op.unsupported(f"index {name!r} is changed in a body of a control operator, and created outside of it")
    op.scope.bind_object(name, index)


def _known_keys(op: Op) -> tuple[int | bytes, ...] | None:
    """Return the second operand, of the index's type, in one row; None where it is computed as the model runs."""
    keys = op.input(1)
    require_dtype(op, keys, (_index(op).dtype,), "keys")
    known = op.known(keys)
    if known is None:
        return None
    flat = known.reshape(-1).tolist()
    return tuple(key.encode() if isinstance(key, str) else key for key in flat)


def _numbered(keys: Iterable[int | bytes]) -> dict[int | bytes, int]:
    """Number keys from 1 on in the order in which they occur first."""
    return {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
