"""The two halves of an export, which callers may run one after the other."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import ExportOptions, TensorInfo, analyze, describe_inputs, finish, to_onnx

NET = NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_input=["x"], external_output=["y"])
X = {"x": ("float32", ["N", 2])}


def test_the_halves_make_the_whole() -> None:
    export = analyze(NET, options=ExportOptions(inputs=X))
    assert export.model is not None
    assert ir.to_proto(finish(export)) == to_onnx(NET, inputs=X)


def test_a_model_without_origins_computes_the_same() -> None:
    def finished(*, origins: bool) -> ir.Model:
        return finish(analyze(NET, options=ExportOptions(inputs=X)), origins=origins)

    whole, plain = finished(origins=True), finished(origins=False)
    assert any("origin" in key for node in whole.graph for key in node.metadata_props)
    assert not any("origin" in key for node in plain.graph for key in node.metadata_props)
    for node in (*whole.graph, *plain.graph):
        node.metadata_props.clear()
    assert ir.to_proto(whole) == ir.to_proto(plain)


def test_the_first_half_reports_and_the_second_raises() -> None:
    export = analyze(NetDef(op=[OperatorDef(type="Nope", input=["x"], output=["y"])]), options=ExportOptions(inputs=X))
    assert [finding.code for finding in export.findings] == ["unknown-operator"]
    assert export.model is None
    with pytest.raises(ConversionError) as raised:
        finish(export)
    assert raised.value.findings == export.findings


def test_inputs_are_described_without_a_conversion() -> None:
    assert describe_inputs(NET, options=ExportOptions(inputs=X)) == {"x": TensorInfo(ir.DataType.FLOAT, ("N", 2))}
