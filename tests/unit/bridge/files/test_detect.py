from __future__ import annotations

import io

import numpy as np
import onnx
import pytest

from caffe2_bridge import NetFormatError, wire
from caffe2_bridge.files.blobs.record_writer import text_record
from caffe2_bridge.files.databases.minidb import record
from caffe2_bridge.files.detect import Format, detect
from caffe2_bridge.proto.caffe2_pb2 import (
    Argument,
    BlobProto,
    ExecutionStep,
    NetDef,
    OperatorDef,
    PlanDef,
    TensorProto,
    TensorProtos,
)
from caffe2_bridge.proto.metanet_pb2 import BlobsMap, MetaNetDef, NetsMap

OP = OperatorDef(type="Relu", input=["x"], output=["y"])
NET = NetDef(name="net", op=[OP], external_input=["x"], external_output=["y"], num_workers=2)


def found(data: bytes) -> Format:
    return detect(wire.Span.of(data))


def zipped() -> bytes:
    out = io.BytesIO()
    np.savez(out, x=np.zeros(1))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (NET.SerializeToString(), Format.NET),
        (NetDef(op=[OP]).SerializeToString(), Format.NET),
        (NetDef(name="init").SerializeToString(), Format.NET),
        (NetDef(name="", op=[OP]).SerializeToString(), Format.NET),
        (NetDef(name="an op " * 5).SerializeToString(), Format.NET),  # all of its bytes are printable
        (NET.SerializeToString() + b"\xfa\x3f\x01x", Format.NET),  # a field of the future
        (b'op { type: "Relu" }', Format.NET_TEXT),
        (b"\xef\xbb\xbf# comment\n\n  # another\nname: 'x'", Format.NET_TEXT),
        (b'name: "\xc3\xa9"\nexternal_output: "y"', Format.NET_TEXT),
        (b"# nothing but a comment", Format.NET_TEXT),
        (b'op { type: "Relu" colour: 3 }', Format.NET_TEXT),
        (PlanDef(name="plan", network=[NET]).SerializeToString(), Format.PLAN),
        (b"\x00" * 16 + b"\xde\xc0\xef\xbe" + b"\x00" * 16, Format.LMDB),
        (b'network { name: "n" } execution_step { network: "n" }', Format.PLAN_TEXT),
        (record(*text_record("key", b"value")), Format.MINIDB),
        (b"\x80\x04\x95", Format.PICKLE),
        (b"(dp0\n.", Format.PICKLE),
        (zipped(), Format.NPZ),
    ],
)
def test_formats(data: bytes, expected: Format) -> None:
    assert found(data) is expected


META = MetaNetDef(nets=[NetsMap(key="PREDICT_NET_TYPE", value=NET)], blobs=[BlobsMap(key="k", value=["v"])])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file holds only white space"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (b"<html><body>404", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl", "a zip archive"),
        (b"\x01\x02\x03", "neither a net"),
        (b"just some words", "neither a net"),
        (b'{"json": 1}', "neither a net"),
        (NET.SerializeToString()[:-2], "truncated or damaged"),
        (NetDef(op=[OP]).SerializeToString()[:9], "truncated or damaged"),
        (META.SerializeToString(), "a MetaNetDef without the database"),
        (NetDef(op=[OP]).SerializeToString() + b"\x1d\x00\x00\x00\x00", "a protobuf, but not a net"),
        (TensorProto(dims=[2], data_type=TensorProto.FLOAT, float_data=[1, 2]).SerializeToString(), "a TensorProto"),
        (TensorProtos(protos=[TensorProto(dims=[2], data_type=1)] * 2).SerializeToString(), "TensorProtos"),
        (BlobProto(name="b", type="Tensor", tensor=TensorProto(dims=[2])).SerializeToString(), "a BlobProto"),
        (OperatorDef(type="Relu", input=["x"], output=["y"]).SerializeToString(), "an OperatorDef"),
        (b'nets { key: "a" value { name: "n" } }', "the text of a MetaNetDef"),
        (b"protos { dims: 2 }", "the text of a TensorProtos"),
        (b'ir_version: 3 graph { name: "g" }', "the text of an ONNX model"),
    ],
)
def test_what_is_refused_and_why(data: bytes, reason: str) -> None:
    with pytest.raises(NetFormatError, match=reason):
        found(data)


def test_onnx_models_are_told_by_name() -> None:
    graph = onnx.GraphProto(name="g", output=[onnx.ValueInfoProto(name="y")])
    model = onnx.ModelProto(ir_version=8, producer_name="p", graph=graph)
    with pytest.raises(NetFormatError, match="an ONNX model"):
        found(model.SerializeToString())


def test_every_cut_of_a_net_is_refused_or_a_shorter_net() -> None:
    data = NetDef(name="net", op=[OP, OP], arg=[Argument(name="a", i=1)]).SerializeToString()
    for length in range(2, len(data)):
        try:
            assert found(data[:length]) is Format.NET
            NetDef.FromString(data[:length])
        except NetFormatError as error:
            assert "truncated" in error.reason  # noqa: PT017 - either way is right


def test_a_plan_of_steps_only_is_no_net() -> None:
    with pytest.raises(NetFormatError):
        found(PlanDef(name="p", execution_step=[ExecutionStep(name="s", num_iter=3)]).SerializeToString())
