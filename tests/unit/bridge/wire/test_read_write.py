"""Fields and runs of numbers, read and written as protobuf reads and writes them.

Modules: arrays, spans.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire_fields import encode_fixed

from caffe2_bridge import wire
from caffe2_bridge.proto.caffe2_pb2 import Argument, TensorProto
from caffe2_bridge.wire import write as wire_write

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
# Around the sizes at which chunks end.
SIZES = [0, 1, 2, 1023, 1024, 1025, 5121, 30_000]


def mixed(floats: np.ndarray, ints: np.ndarray) -> bytes:
    """Return an Argument with every encoding in turn: plain, packed, and plain again after other fields."""
    return b"".join(
        (
            Argument(name="values").SerializeToString(),
            encode_fixed(wire.FLOATS, floats),
            wire_write.encode_varints(ints, wire.INTS),
            wire_write.encode_len(wire.INTS, wire_write.encode_varints(ints)),
            wire_write.encode_len(wire.STRINGS, b"text"),
            wire_write.encode_len(wire.FLOATS, floats.tobytes()),
            encode_fixed(wire.FLOATS, floats),
        )
    )


@pytest.mark.parametrize("size", SIZES)
def test_mixed_runs_are_read_as_protobuf_reads_them(size: int) -> None:
    generator = np.random.default_rng(size)
    floats = generator.standard_normal(size, dtype=np.float32)
    ints = generator.integers(-(2**63), 2**63 - 1, size) >> generator.integers(0, 63, size)
    data = mixed(floats, ints)
    span = wire.Span.of(data)
    arg = Argument.FromString(data)
    np.testing.assert_array_equal(wire.fixed(span, wire.FLOATS, "<f4"), np.array(arg.floats, np.float32))
    np.testing.assert_array_equal(wire.varints(span, wire.INTS), np.array(arg.ints, np.int64))
    assert wire.count_fixed(span, wire.FLOATS, 4) == len(arg.floats)
    assert wire.count_varints(span, wire.INTS) == len(arg.ints)
    assert [s.tobytes() for s in wire.payloads(span, wire.STRINGS)] == [b"text"]


@given(st.lists(INT64, max_size=50))
def test_integers_of_any_length(values: list[int]) -> None:
    arg = Argument(name="x", ints=values)
    assert wire.scalar_array(arg).tolist() == values
    plain = wire_write.encode_varints(np.array(values, np.int64), wire.INTS)
    assert Argument(ints=values).SerializeToString() == plain


@given(st.lists(FLOAT32, max_size=50), st.lists(INT64, max_size=5))
def test_fields_find_every_field(floats: list[float], ints: list[int]) -> None:
    data = Argument(name="n", floats=floats, ints=ints, strings=[b"a"]).SerializeToString()
    found = list(wire.fields(wire.Span.of(data)))
    assert [(f.tag_at, f.end) for f in found] == list(
        zip([0, *(f.end for f in found[:-1])], [f.end for f in found], strict=True)
    )
    assert found[-1].end == len(data)
    light, heavy = wire.split(wire.Span.of(data), (wire.FLOATS, wire.INTS))
    assert Argument.FromString(light) == Argument(name="n", strings=[b"a"])
    assert len(heavy) == bool(floats) + bool(ints)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_as_malformed(data: bytes) -> None:
    span = wire.Span.of(data)
    try:
        found = list(wire.fields(span))
    except wire.WireError:
        return
    assert not found or found[-1].end == len(data)
    for number in (wire.FLOATS, wire.INTS):
        try:
            assert wire.fixed(span, number, "<f4").size <= len(data) // 4
            assert wire.varints(span, number).size <= len(data)
        except wire.WireError as error:
            assert error.reason  # noqa: PT017 - a malformed packed field is found when it is decoded


def test_scalar_array_of_floats_and_of_nothing() -> None:
    assert wire.scalar_array(Argument(name="x", floats=[1.5, -2.0])).tolist() == [1.5, -2.0]
    assert wire.scalar_array(Argument(name="x")).dtype == np.float32
    assert wire.scalar_array(Argument(name="x", ints=[7])).dtype == np.int64


def test_doubles() -> None:
    values = np.array([1e300, -0.1])
    packed = TensorProto(double_data=values).SerializeToString()
    plain = encode_fixed(TensorProto.DOUBLE_DATA_FIELD_NUMBER, values)
    for data in (packed, plain, packed + plain):
        found = wire.fixed(wire.Span.of(data), TensorProto.DOUBLE_DATA_FIELD_NUMBER, "<f8")
        np.testing.assert_array_equal(found.reshape(-1, 2), np.tile(values, (len(found) // 2, 1)))


def test_a_long_form_of_a_tag_is_read_too() -> None:
    # 0xB0 0x00 is the tag 0x30 written in two bytes: odd, and legal.
    data = b"\xb0\x00\x07" + Argument(ints=[8]).SerializeToString()
    assert list(Argument.FromString(data).ints) == [7, 8]
    assert wire.varints(wire.Span.of(data), wire.INTS).tolist() == [7, 8]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x2d\x00\x00", "truncated"),
        (b"\x0a\x7fab", "has 127 bytes, but only 2 remain"),
        (b"\x30", "truncated within a varint"),
        (b"\x30" + b"\xff" * 10 + b"\x01", "the varint at byte 1 has no end"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x01", "field number 0"),
    ],
)
def test_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(wire.WireError, match=reason):
        list(wire.fields(wire.Span.of(data)))


def test_count_is_not_fooled_by_a_run_that_only_ends_alike() -> None:
    # 5 + 2 * 5 bytes: divisible by the stride, and the last "element" begins with the tag's byte by chance.
    tail = wire_write.encode_len(wire.STRINGS, b"\x01\x02\x03\x2d\x00\x00\x00\x00")
    data = encode_fixed(wire.FLOATS, np.ones(1, np.float32)) + tail
    assert len(data) % 5 == 0
    assert wire.count_fixed(wire.Span.of(data), wire.FLOATS, 4) == 1


def peak_of(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, int]:
    """Return what a function returns, and the most memory that it had, in bytes."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_mapped_file_costs_its_result_only(tmp_path: Path) -> None:
    values = np.arange(2_000_000, dtype=np.float32)
    path = tmp_path / "large"
    path.write_bytes(encode_fixed(wire.FLOATS, values))
    span = wire.Buffer.of_file(str(path)).span()

    def shrunk() -> np.ndarray:
        found = np.empty(len(span) // 4, np.float32)
        found.resize(values.size, refcheck=False)
        return found

    found, peak = peak_of(lambda: wire.fixed(span, wire.FLOATS, "<f4"))
    np.testing.assert_array_equal(found, values)
    # NumPy counts an array that it shrinks in place once until release 2.4, and twice since.
    assert peak < peak_of(shrunk)[1] + 0.25 * values.nbytes  # Python floats would be 64 MB, and a copy 8


SMALL = [np.int8, np.uint8, np.bool_, np.int16, np.uint16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", SMALL)
def test_integers_of_every_type_are_written_as_protobuf_writes_them(dtype: type[np.generic]) -> None:
    values = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 700_001).astype(dtype)  # more than a piece
    values[:4] = np.array([0, 1, -1, 127]).astype(dtype)
    for number in (wire.INTS, None):
        pieces = wire_write.varints(values, number)
        data = bytes(pieces)
        assert len(data) == len(pieces)
        message = data if number else wire_write.encode_len(wire.INTS, data)
        np.testing.assert_array_equal(wire.varints(wire.Span.of(message), wire.INTS), values.astype(np.int64))
    assert Argument(ints=map(int, values[:1000])).SerializeToString() == wire_write.encode_varints(
        values[:1000], wire.INTS
    )


def test_fields_are_made_while_they_are_written() -> None:
    values = np.arange(700_001, dtype=np.float64)
    field = wire_write.len_field(3, b"ab", wire_write.fixed(values, np.float32))
    assert bytes(field) == wire_write.encode_len(3, b"ab", values.astype("<f4").tobytes())
    assert len(bytes(field)) == len(field)
    tracemalloc.start()
    for piece in field:
        del piece
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes
