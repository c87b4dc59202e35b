"""Structures of nets: what decides a conversion, without the names of blobs.

Two nets of one structure differ in names only: of blobs, of operators, of the net. One conversion serves both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from caffe2_bridge.control import is_control
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.types import TensorInfo

# The bytes of constants up to which they are compared: a conversion holds them.
_COMPARED: Final = 1 << 22
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class Structure:
    """A net's structure.

    Attributes:
        digest: equal for nets that one conversion serves, of the net, the constants, the inputs and the outputs.
        blobs: the blobs in the order of their numbers, which replace names in the digest.
        net: the net's name.
    """

    digest: bytes
    blobs: tuple[str, ...]
    net: str

    def has_names_of(self, other: Structure) -> bool:
        """Whether nothing has another name."""
        return self.net == other.net and self.blobs == other.blobs


def structure_of(
    net: NetDef,
    constants: Mapping[str, Parameter],
    inputs: Mapping[str, TensorInfo],
    outputs: Sequence[str],
    form: str = "auto",
) -> Structure | None:
    """Return the structure of a net for a conversion; None if it has large constants, or constant texts.

    ``form`` is that of recurrent nets.

    Blobs of nets with bodies, and of operators whose arguments name blobs, keep their names in the digest.
    """
    if sum(constant.size * constant.dtype.itemsize for constant in constants.values()) > _COMPARED:
        return None
    if any(constant.dtype == object for constant in constants.values()):
        return None
    blobs = tuple(dict.fromkeys([*_operands(net), *net.external_input, *net.external_output, *constants, *outputs]))
    fixed = _names_in_arguments(net, frozenset(blobs))
    numbers = {name: name if fixed or not name else str(number) for number, name in enumerate(blobs)}
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    parts: list[Any] = [fixed, form, [numbers[name] for name in outputs]]
    parts += sorted((numbers.get(name, name), _described(info)) for name, info in inputs.items())
    for name, constant in sorted(constants.items(), key=lambda item: numbers[item[0]]):
        parts.append((numbers[name], constant.dtype.str, constant.shape, constant.scale, constant.zero_point))
        digest.update(constant.load().tobytes())
    digest.update(_without_names(net, numbers).SerializeToString(deterministic=True))
    digest.update(repr(parts).encode())
    return Structure(digest.digest(), blobs, net.name)


def _operands(net: NetDef) -> Iterable[str]:
    for op in net.op:
        yield from op.input
        yield from op.output


def _names_in_arguments(net: NetDef, blobs: frozenset[str]) -> bool:
    """Whether arguments may name blobs: then these cannot be renamed by their operands alone."""
    for op in net.op:
        if is_control(op):
            return True
        for arg in op.arg:
            if arg.HasField("n") or arg.nets:
                return True
            if any(text.decode(errors="replace") in blobs for text in (arg.s, *arg.strings) if text):
                return True
    return False


def _described(info: TensorInfo) -> str:
    dims = None if info.shape is None else [dim if isinstance(dim, int) else None for dim in info.shape]
    return f"{info.dtype} {dims} {info.quantization} {info.onnx_type}"


def _without_names(net: NetDef, numbers: Mapping[str, str]) -> NetDef:
    """Return a copy of a net with numbers for blobs, and without names that no conversion depends on."""
    plain = NetDef()
    plain.CopyFrom(net)
    plain.ClearField("name")
    plain.external_input[:] = sorted(numbers[name] for name in plain.external_input)
    plain.external_output[:] = [numbers[name] for name in plain.external_output]
    for op in plain.op:
        op.ClearField("name")
        op.ClearField("debug_info")
        op.input[:] = [numbers[name] for name in op.input]
        op.output[:] = [numbers[name] for name in op.output]
    return plain
