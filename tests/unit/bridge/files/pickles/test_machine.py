"""The opcodes of pickles: what NumPy wrote is read as NumPy reads it, and everything else is refused."""

from __future__ import annotations

import collections
import os
import pickle  # noqa: TID251 - it writes what is read here
import re
from typing import Any

import numpy as np
import pytest

from caffe2_bridge import NetFormatError, wire
from caffe2_bridge.files.pickles.machine import read_pickle
from caffe2_bridge.files.pickles.values import Payload, PickledArray

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read(data: bytes) -> Any:
    return read_pickle(wire.Span.of(data))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values(protocol: int) -> None:
    shared = ["x"]
    value = {
        "text": "é\n", "bytes": b"\x00\xff'", "numbers": [0, 1, 255, 65536, -1, 2**40, -(2**70), 1.5, -np.inf],
        "none": None, "flags": (True, False), "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "empty": [{}, []],
        "same": [shared, shared], 7: "number", None: 0,
    }  # fmt: skip
    assert read(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12).reshape(3, 4)[:, ::2], np.arange(4, dtype=">i4"), np.array([True, False]), np.zeros((0, 3)),
        np.array(3, np.float16), np.float64(0.1), np.int64(7), np.bool_(1), np.arange(9000, dtype=np.uint8),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)  # fmt: skip
def test_arrays(array: Any, protocol: int) -> None:
    found = read(pickle.dumps(array, protocol))
    assert isinstance(found, PickledArray)
    values = found.load()
    assert values.dtype == array.dtype.newbyteorder("=")
    assert values.flags.c_contiguous
    np.testing.assert_array_equal(values, array)
    values[...] = 0  # it is nobody else's


def test_arrays_of_numpy_1_and_of_python_2() -> None:
    # cPickle.dumps({'w': numpy.array([1, 2], 'f')}, 2) of Python 2.7 and NumPy 1.16, whose strings are bytes
    data = (
        b"\x80\x02}q\x01U\x01wq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq"
        b"\x05(K\x01K\x02\x85cnumpy\ndtype\nq\x06U\x02f4K\x00K\x01\x87Rq\x07(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff"
        b"\xffK\x00tb\x89U\x08\x00\x00\x80?\x00\x00\x00@tbs."
    )
    assert read(data)[b"w"].load().tolist() == [1, 2]


def test_long_bytes_stay_in_the_file() -> None:
    data = pickle.dumps({"w": np.zeros(5000, np.uint8), "b": b"x" * 5000})
    found = read(data)
    assert isinstance(found["w"].data, Payload)
    assert found["b"].load() == b"x" * 5000


def test_ordered_dicts_are_dicts() -> None:
    for protocol in PROTOCOLS:
        assert read(pickle.dumps(collections.OrderedDict(b=1, a=2), protocol)) == {"b": 1, "a": 2}
    assert read(b"ccollections\nOrderedDict\n(((S'a'\nI1\nlltR.") == {b"a": 1}


class Call:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo run > ran",)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        *((pickle.dumps({"w": Call()}, protocol), f"GLOBAL {os.system.__module__}.system") for protocol in PROTOCOLS),
        (b"(S'echo run'\nios\nsystem\n.", "INST os.system"),
        (b"cnumpy.core.multiarray\nfromfile\n.", "GLOBAL numpy.core.multiarray.fromfile"),
        (b"c__builtin__\n\x1b[31meval\n.", r"GLOBAL __builtin__.\x1b[31meval"),
        (pickle.dumps({1}, 4), "EMPTY_SET"),
        (pickle.dumps(frozenset([1]), 4), "FROZENSET"),
        (pickle.dumps(1j), "GLOBAL builtins.complex"),
        (pickle.dumps(np.float32), "GLOBAL numpy.float32"),
        (b"Pname\n.", "PERSID"),
        (b"]\x81.", "NEWOBJ"),
        (b"\x82\x01.", "EXT1"),
        (b"\xfe.", "opcode 0xfe"),
        (pickle.dumps(np.array(["text", None], object)), "dtype 'O8'"),
        (pickle.dumps(np.array(["text"])), "dtype 'U4'"),
        (pickle.dumps(np.zeros(1, [("a", "f4")])), "dtype 'V4'"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_its_name(
    data: bytes, name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NetFormatError, match=re.escape(name)):
        read(data)
    assert not list(tmp_path.iterdir())


ARRAY = pickle.dumps(np.arange(3, dtype=np.int32), 2)


@pytest.mark.parametrize(
    "data",
    [
        b"", b".", b"0.", b"(.", b"1.", b"R.", b"]R.", b"K\x01a.", b"]a.", b"]]K\x01s.", b"}]K\x01s.", b"(K\x01d.",
        b"h\x05.", b"q\x01.", b"}(}K\x01u.", b"}(((((tttttK\x01u.", b"I1", b"Ix\n.", b"I" + b"9" * 5000 + b"\n.",
        b"\x8b\xff\xff\xff\x7f.", b"\x8b\x00\x00\x00\x10" + b"x" * 99, b"X\xff\xff\xff\xff.",
        b"X\x01\x00\x00\x00\xff.", b"T\xff\xff\xff\xff.", b"S1\n.", b"S'\\x'\n.", b"V\\u12\n.", b"\x80\x09.",
        b"]}b.", b"cnumpy\ndtype\n(S'f4,f4'\ntR.", b"cnumpy\ndtype\n(S'O'\ntR.", b"cnumpy\ndtype\n(S'(9,9)f4'\ntR.",
        b"cnumpy\ndtype\n)R.", b"cnumpy\ndtype\n(NtR.", b"cnumpy\nndarray\n)R.",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\ntR.", b"c_codecs\nencode\n(V\\u1234\ntR.",
        b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.", b"ccollections\nOrderedDict\n(I1\ntR.", b"cnumpy\n\xff\n.",
        ARRAY.replace(b"K\x03\x85", b"K\x04\x85"), ARRAY.replace(b"K\x03\x85", b"\x88\x85"),
        ARRAY.replace(b"K\x03\x85", b"J\xff\xff\xff\xff\x85"), ARRAY.replace(b"X\x01\x00\x00\x00<",
        b"X\x01\x00\x00\x00?"),
    ],
)  # fmt: skip
def test_damaged_pickles(data: bytes) -> None:
    with pytest.raises(NetFormatError, match="pickle"):
        read(data).load()


def test_every_cut_is_refused() -> None:
    for protocol in PROTOCOLS:
        data = pickle.dumps({"w": np.arange(3.0)}, protocol)
        for length in range(len(data)):
            with pytest.raises(NetFormatError, match="truncated"):
                read(data[:length])


def test_nesting_is_not_recursion() -> None:
    assert isinstance(read(b"(" * 500_000 + b"t" * 500_000 + b"."), tuple)


def test_opcodes_are_bounded() -> None:
    with pytest.raises(NetFormatError, match="more than 2,097,152 opcodes"):
        read(b"N0" * (1 << 20) + b".")
