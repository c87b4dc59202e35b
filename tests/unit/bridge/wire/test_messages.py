from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.wire.messages import TextError, parse_message, parse_text

DEEP = "op { arg { n { " * 200


def incomplete() -> NetDef:
    net = NetDef(op=[OperatorDef(type="Relu")])
    net.op[0].arg.add(name="t").t.segment.SetInParent()
    return net


def test_required_fields() -> None:
    data = incomplete().SerializePartialToString()
    with pytest.raises(DecodeError, match=r"op\[0\].arg\[0\].t.segment.begin' is missing"):
        parse_message(NetDef, data)
    for net in (data, incomplete()):
        with pytest.raises(NetFormatError, match="required field"):
            as_net_def(net)


def test_names_in_bytes_must_be_text() -> None:
    data = NetDef(op=[OperatorDef(type="Relu", input=["marker"])]).SerializeToString()
    with pytest.raises(NetFormatError, match=r"predict net: operator 0: the name .* is not UTF-8"):
        as_net_def(data.replace(b"marker", b"\xffarker"), "predict net")


@pytest.mark.parametrize(
    "text",
    [
        "op {",
        "op { arg { n { " * 200,
        "op { arg { n { " * 200 + "}}}" * 200,
        'name: "\\xff"',
        "num_workers: 99999999999",
    ],
)
def test_texts_that_are_not_nets(text: str) -> None:
    with pytest.raises(TextError):
        parse_text(NetDef, text)


def test_the_line_of_an_error() -> None:
    with pytest.raises(TextError, match=r"^line 2: .* has no field named"):
        parse_text(NetDef, "name: 'x'\nnone: 1")
