"""Malformed inputs, each determined by a seed and its index."""

from __future__ import annotations

import gzip
import io
import pickletools
import random
import struct
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final

import onnx
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from caffe2_bridge.proto.caffe2_pb2 import BlobProto, NetDef, PlanDef
from fuzz.robust.doors import DOORS
from fuzz.robust.inputs import CHECKPOINT, MAIN, Input
from fuzz.robust.mutate_bytes import mutate_bytes
from fuzz.robust.mutate_messages import mutate_message
from fuzz.robust.seeds import Seeds

_WEIGHTS: Final[Mapping[str, int]] = {
    "net": 32, "onnx": 34, "text": 8, "plan": 6, "minidb": 6, "lmdb": 4, "leveldb": 3, "npz": 7, "pkl": 8,
}  # fmt: skip
_MESSAGES: Final[Mapping[str, type[Message]]] = {
    "net": NetDef,
    "onnx": onnx.ModelProto,
    "plan": PlanDef,
    "text": NetDef,
}
_STRUCTURED: Final = 0.75
_HEADERS: Final = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f4'), ('b', '<i8')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<U100000000', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (((((((((1,), }",
    "{'descr': '<M8[ns]', 'fortran_order': True, 'shape': (), }",
    "{'descr': 'x" + "(" * 300,
    "(" * 5000,
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1" + "0" * 5000 + ",), }",
)
_OPCODES: Final = (
    *(opcode.code.encode("latin-1") for opcode in pickletools.opcodes), b"cos\nsystem\n", b"(S'x'\nios\nsystem\n",
    b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\nscalar\n", b"c_codecs\nencode\n", b"ccollections\nOrderedDict\n",
    b"X\xff\xff\xff\x7f", b"\x8a\xff", b"I99999999999999999999\n", b"\x80\x09", b"(((((", b"ttttt",
    b"J\xff\xff\xff\xff",
)  # fmt: skip


def draw_case(seeds: Seeds, seed: int, index: int, kinds: Mapping[str, int] = _WEIGHTS) -> tuple[Input, str]:
    """An input and the door to take it to."""
    draw = random.Random(f"{seed}:{index}")  # noqa: S311 - reproducible
    known = [kind for kind in kinds if kind in seeds.kinds]
    kind = draw.choices(known, [kinds[kind] for kind in known])[0]
    found = seeds.pick(kind, draw)
    for _ in range(3):
        mutated = _mutated(found, seeds, draw)
        if mutated != found:
            break
    doors = DOORS[kind]
    return mutated, draw.choices(list(doors), [door.weight for door in doors.values()])[0]


def _mutated(found: Input, seeds: Seeds, draw: random.Random) -> Input:
    files = dict(found.files)
    name = draw.choice(sorted(files))
    if found.kind == "leveldb" and draw.random() < 0.2:
        del files[name]
    elif found.kind == "npz" and draw.random() < 0.6:
        files[name] = _npz(draw)
    elif found.kind == "pkl":
        files[CHECKPOINT] = _checkpoint(files[CHECKPOINT], draw)
    elif found.kind == "minidb" and draw.random() < _STRUCTURED:
        files[name] = _minidb(files[name], draw)
    elif found.kind in _MESSAGES and draw.random() < _STRUCTURED:
        donor = seeds.pick(found.kind, draw)
        files[name] = _message(found.kind, files[name], donor.files[MAIN[found.kind]], draw)
    else:
        files[name] = mutate_bytes(files[name], draw)
    return Input(found.kind, files)


def _message(kind: str, data: bytes, donor: bytes, draw: random.Random) -> bytes:
    message = _MESSAGES[kind]()
    message.MergeFromString(_binary(kind, data))
    mutate_message(message, draw, [_MESSAGES[kind].FromString(_binary(kind, donor))])
    if kind == "text":
        text = text_format.MessageToString(message).encode()
        return mutate_bytes(text, draw) if draw.random() < 0.4 else text
    changed = message.SerializePartialToString()
    return mutate_bytes(changed, draw) if draw.random() < 0.15 else changed


@lru_cache(maxsize=1000)
def _from_text(data: bytes) -> bytes:
    return text_format.Parse(data.decode(), NetDef()).SerializePartialToString()


def _binary(kind: str, data: bytes) -> bytes:
    """A serialized message; parsing text takes longer than most calls, so that it is done once for each seed."""
    return _from_text(data) if kind == "text" else data


def _minidb(data: bytes, draw: random.Random) -> bytes:
    """A database whose records are intact, and the value of one of them is not."""
    records = []
    at = 0
    while at < len(data):
        key_length, value_length = struct.unpack_from("<ii", data, at)
        middle = at + 8 + key_length
        records.append((data[at + 8 : middle], data[middle : middle + value_length]))
        at = middle + value_length
    index = draw.randrange(len(records))
    key, value = records[index]
    try:
        blob = BlobProto.FromString(value)
        mutate_message(blob, draw, [BlobProto.FromString(draw.choice(records)[1])])
        value = blob.SerializePartialToString()
    except DecodeError:
        value = mutate_bytes(value, draw)
    if draw.random() < 0.3:
        value = mutate_bytes(value, draw)
    records[index] = key, value
    return b"".join(struct.pack("<ii", len(k), len(v)) + k + v for k, v in records)


def _checkpoint(data: bytes, draw: random.Random) -> bytes:
    """A checkpoint that is damaged inside of its compression, or at the opcodes of its pickle."""
    if data.startswith(b"\x1f\x8b") and draw.random() < _STRUCTURED:
        return gzip.compress(_checkpoint(gzip.decompress(data), draw))
    places = [0]
    with suppress(ValueError):  # an archive around it
        places = [place for _, _, place in pickletools.genops(data) if place is not None]
    if len(places) == 1 or draw.random() > _STRUCTURED:
        return mutate_bytes(data, draw)
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        first, second = sorted(draw.choices(places, k=2))
        piece = draw.choice((b"", draw.choice(_OPCODES), data[first:second]))
        changed[first : first + draw.choice((0, 1, second - first))] = piece
    return bytes(changed)


def _npz(draw: random.Random) -> bytes:
    """An archive that is intact, with an array that is not."""
    header = draw.choice(_HEADERS).encode()
    if draw.random() < 0.4:
        header = mutate_bytes(header, draw)
    version = draw.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header) % 65536)
    array = b"\x93NUMPY" + version + length + header + b"\0" * draw.choice((0, 4, 376))
    stream = io.BytesIO()
    method = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(draw.choice(("input_blob.npy", "../x.npy", ".npy", "input_blob", "\x1b[31m.npy")), array)
    data = stream.getvalue()
    return mutate_bytes(data, draw) if draw.random() < 0.4 else data
