"""Origins of operators that differ in names alone are what they would be if each were made by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.interop.metadata.origin import ORIGIN_KEY
from caffe2_frontend.passes.metadata.alike_origins import AlikeOrigins

_FOLDERS = sorted(path for path in MODELS.iterdir() if path.is_dir())


def origins(net: NetDef) -> list[dict[str, object]]:
    inputs = {name: ("float32", ["N", 4]) for name in net.external_input}
    props = [{prop.key: prop.value for prop in node.metadata_props} for node in to_onnx(net, inputs=inputs).graph.node]
    return [json.loads(each[ORIGIN_KEY].partition(" ")[2]) for each in props]


@pytest.mark.parametrize("folder", _FOLDERS[::3], ids=lambda path: path.name)
def test_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        model = to_onnx(c2.load(folder))
    except c2.ConversionError:
        pytest.skip("the model is refused")
    monkeypatch.setattr(AlikeOrigins, "key", lambda *_: None)
    assert to_onnx(c2.load(folder)) == model


def test_conditions_are_shared_and_definitions_are_not() -> None:
    net = NetDef(name="net", external_input=["x", "y"], external_output=["c"])
    for inputs, output in (("xy", "a"), ("ya", "b"), ("bb", "c")):
        net.op.add(type="Add", input=inputs, output=[output])
    first, second, third = origins(net)
    assert first.pop("ops") != second.pop("ops")
    assert first == second
    assert third["in"] != first["in"]  # both operands are one value


def test_operands_in_another_order() -> None:
    net = NetDef(name="net", external_input=["x", "y"], external_output=["b"])
    net.op.add(type="Sub", input=["x", "y"], output=["a"])
    net.op.add(type="Sub", input=["a", "x"], output=["b"])
    first, second = origins(net)
    assert first["in"] == second["in"]
