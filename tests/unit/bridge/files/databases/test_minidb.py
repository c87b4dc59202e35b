from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from caffe2_bridge import NetFormatError, wire
from caffe2_bridge.files import predictor_db
from caffe2_bridge.files.blobs import record_writer
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.files.databases import minidb
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, BlobProto, NetDef, OperatorDef, PlanDef, QTensorProto, TensorProto
from caffe2_bridge.proto.metanet_pb2 import BlobsMap, MetaNetDef, NetsMap, PlansMap

PREDICT = NetDef(
    name="predict", op=[OperatorDef(type="FC", input=["x", "w"], output=["y"])], external_input=["x", "w"],
    external_output=["y"],
)  # fmt: skip


def tensor(key: str, **fields: object) -> bytes:
    blob = BlobProto(name=key.partition("#%")[0], type="Tensor", tensor=TensorProto(**fields))  # type: ignore[arg-type] # any field
    return minidb.record(key, blob.SerializeToString())


def chunk(key: str, shape: list[int], begin: int, values: list[float]) -> bytes:
    segment = TensorProto.Segment(begin=begin, end=begin + len(values))
    return tensor(key, dims=shape, data_type=TensorProto.FLOAT, float_data=values, segment=segment)


def read(records: Iterable[bytes], name: str = "w") -> Parameter:
    return minidb.blobs(wire.Span.of(b"".join(records)))[name].parameter()


def test_chunks_in_any_order() -> None:
    found = read([chunk("w#%1", [2, 3], 4, [4, 5]), chunk("w#%2", [2, 3], 2, [2, 3]), chunk("w#%0", [2, 3], 0, [0, 1])])
    assert found.load().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_whole_tensor_needs_no_segment() -> None:
    assert read([tensor("w", dims=[2], data_type=1, float_data=[1, 2])]).load().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("fields", "dtype", "values"),
    [
        ({"data_type": TensorProto.FLOAT16, "int32_data": [0x3C00, 0xC000]}, np.float16, [1, -2]),
        ({"data_type": TensorProto.FLOAT16, "byte_data": b"\x00\x3c\x00\xc0"}, np.float16, [1, -2]),
        ({"data_type": TensorProto.UINT8, "int32_data": [254, 3]}, np.uint8, [254, 3]),
        ({"data_type": TensorProto.BYTE, "byte_data": b"\xfe\x03"}, np.uint8, [254, 3]),
        ({"data_type": TensorProto.INT8, "int32_data": [-2, 3]}, np.int8, [-2, 3]),
        ({"data_type": TensorProto.BOOL, "int32_data": [1, 0]}, np.bool_, [True, False]),
        ({"data_type": TensorProto.UINT16, "int32_data": [65534, 3]}, np.uint16, [65534, 3]),
        ({"data_type": TensorProto.INT64, "int64_data": [-1, 2**62]}, np.int64, [-1, 2**62]),
        ({"data_type": TensorProto.DOUBLE, "double_data": [0.1, 2]}, np.float64, [0.1, 2]),
        ({"data_type": TensorProto.STRING, "string_data": [b"a", b""]}, object, [b"a", b""]),
        ({"data_type": TensorProto.INT32, "raw_data": struct.pack("<ii", -1, 2)}, np.int32, [-1, 2]),
        # bfloat16: the upper half of a float32
        ({"data_type": TensorProto.FLOAT, "data_format": 1, "raw_data": b"\x80\x3f\x00\xc0"}, np.float32, [1, -2]),
    ],
)
def test_types(fields: dict[str, object], dtype: type, values: list[object]) -> None:
    found = read([tensor("w#%0", dims=[2], **fields)])
    assert found.dtype == np.dtype(dtype)
    assert found.load().dtype == np.dtype(dtype)
    assert found.load().tolist() == values


def test_int8_tensors_as_caffe2_stores_them() -> None:
    def stored(kind: int, data: list[int]) -> bytes:
        quantized = QTensorProto(dims=[2], precision=8, scale=0.5, bias=3, is_signed=False, data=data, data_type=kind)
        return minidb.record("w", BlobProto(name="w", type="Int8TensorCPU", qtensor=quantized).SerializeToString())

    found = read([stored(TensorProto.UINT8, [1, 255])])
    assert (found.dtype, found.scale, found.zero_point) == (np.uint8, 0.5, 3)
    assert found.load().tolist() == [1, 255]
    assert read([stored(TensorProto.INT32, [-7, 2**30])]).load().tolist() == [-7, 2**30]
    with pytest.raises(NetFormatError, match="not a valid Int8 tensor"):
        read([stored(TensorProto.INT8, [1, 2])])


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([chunk("w#%0", [4], 0, [0, 1])], "has 4 elements, but only 2 are stored"),
        ([chunk("w#%0", [4], 0, [0, 1]), chunk("w#%1", [4], 3, [3])], "elements 2:3 of tensor 'w' are missing"),
        ([chunk("w#%0", [3], 0, [0, 1]), chunk("w#%1", [3], 1, [1, 2])], "elements 1:2 of tensor 'w' are stored twice"),
        ([chunk("w#%0", [2], 0, [0, 1, 2])], "has an invalid chunk 0:3"),
        ([chunk("w#%0", [2], 0, [0]), chunk("w#%1", [1, 2], 1, [1])], "differ in shape or type"),
        ([tensor("w#%0", dims=[2**40], data_type=1)], "larger than its record"),
        ([tensor("w#%0", dims=[2], data_type=0)], "has data type 0"),
        (
            [minidb.record(*record_writer.text_record("w", b"text"))],
            "'w' is not a tensor but of type 'std::string'",
        ),
        ([minidb.record("w", b"\x1a\x7f")], "truncated"),
    ],
)
def test_damaged_tensors(records: list[bytes], reason: str) -> None:
    with pytest.raises(NetFormatError, match=reason):
        read(records)


def test_a_chunk_with_other_than_its_count_is_found_when_it_is_decoded() -> None:
    segment = TensorProto.Segment(begin=0, end=2)
    found = read([tensor("w#%0", dims=[2], data_type=1, float_data=[1], segment=segment)])
    with pytest.raises(NetFormatError, match="holds 1 elements"):
        found.load()


def test_cut_off_databases() -> None:
    whole = chunk("w#%0", [2], 0, [0, 1]) * 2
    for length in range(1, len(whole)):
        span = wire.Span.of(whole[:length])
        full, rest = divmod(length, len(whole) // 2)
        if rest < 4:  # Caffe2, too, takes a key length that it cannot read for the end
            assert len(list(minidb.records(span))) == full
        else:
            with pytest.raises(NetFormatError, match="truncated or damaged"):
                list(minidb.records(span))


def text(name: str, content: bytes) -> bytes:
    return minidb.record(*record_writer.text_record(name, content))


def blobs(*records: bytes) -> Mapping[str, Blob]:
    return minidb.blobs(wire.Span.of(b"".join(records)))


def database(meta: MetaNetDef, *records: bytes) -> Mapping[str, Blob]:
    return blobs(text(predictor_db.META_NET_DEF, meta.SerializeToString()), *records)


def meta_net(suffix: str = "") -> MetaNetDef:
    load = NetDef(op=[OperatorDef(type="Load", input=[predictor_db.DB_READER], output=["w"])])
    zero = OperatorDef(type="ConstantFill", output=["x"], arg=[Argument(name="shape", ints=[5, 2])])
    local = OperatorDef(type="ConstantFill", output=["extra"], arg=[Argument(name="shape", ints=[1])])
    nets = {
        predictor_db.PREDICT_NET: PREDICT,
        predictor_db.GLOBAL_INIT_NET: load,
        predictor_db.PREDICT_INIT_NET: NetDef(op=[zero, local]),
    }
    roles = {predictor_db.PARAMETERS: ["w"], predictor_db.INPUTS: ["x"], predictor_db.OUTPUTS: ["y"]}
    return MetaNetDef(
        nets=[NetsMap(key=key + suffix, value=net) for key, net in nets.items()],
        blobs=[BlobsMap(key=key + suffix, value=names) for key, names in roles.items()],
    )


@pytest.mark.parametrize("suffix", ["", "_named"])
def test_predictors(suffix: str) -> None:
    model = predictor_db.read_predictor(database(meta_net(suffix), chunk("w#%0", [2], 0, [1, 2])), "here")
    assert (model.inputs, model.outputs, model.source) == (("x",), ("y",), "here")
    assert {name: array.tolist() for name, array in model.params.items()} == {"w": [1, 2], "extra": [0]}
    assert model.init.placeholders["x"].shape == (5, 2)
    assert [op.type for op in model.init_net.op] == ["GivenTensorFill", "GivenTensorFill"]


def test_predictors_that_are_not_whole() -> None:
    stored = chunk("w#%0", [2], 0, [1, 2])
    with pytest.raises(NetFormatError, match="lacks 1 of 1 parameters: w"):
        predictor_db.read_predictor(database(meta_net()), "")
    with pytest.raises(NetFormatError, match="without a net"):
        predictor_db.read_predictor(blobs(stored), "")
    with pytest.raises(NetFormatError, match="no predict net; its nets are none"):
        predictor_db.read_predictor(database(MetaNetDef(), stored), "")
    two = meta_net("_a")
    two.MergeFrom(meta_net("_b"))
    with pytest.raises(NetFormatError, match="several predictors: 'a', 'b'"):
        predictor_db.read_predictor(database(two, stored), "")
    broken = text(predictor_db.META_NET_DEF, b"\x12\x7f")
    with pytest.raises(NetFormatError, match="is not a MetaNetDef"):
        predictor_db.read_predictor(blobs(broken), "")


def test_a_predictor_may_be_a_plan() -> None:
    meta = meta_net()
    del meta.nets[0]
    meta.plans.append(PlansMap(key=predictor_db.PREDICT_NET, value=PlanDef(network=[PREDICT])))
    model = predictor_db.read_predictor(database(meta, chunk("w#%0", [2], 0, [1, 2])), "")
    assert model.predict_net == PREDICT
