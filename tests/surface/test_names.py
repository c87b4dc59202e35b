"""The public names of the three packages: what users' code may import."""

from __future__ import annotations

import inspect

import pytest

import caffe2_backend
import caffe2_bridge
import caffe2_frontend

BRIDGE = {
    "BridgeError", "ConversionError", "Diagnostic", "InitNet", "Location", "Model", "NetFormatError", "Parameter",
    "RunError", "Severity", "check_dataflow", "get_consumer_map", "get_external_blob_names", "get_op_ids_in_path",
    "get_output_producers", "get_producer_map", "get_ssa", "get_undefined_blobs", "load", "load_init_net", "proto",
    "read_init", "save", "ssa_rewrite",
}  # fmt: skip
FRONTEND = {
    "ConversionError", "Export", "ExportOptions", "InputSpecError", "NetFormatError", "NoStatesError", "OptionError",
    "Recurrent", "Report", "TensorInfo", "analyze", "check", "convert", "describe_inputs", "finish", "save_onnx",
    "supported_operators", "to_onnx",
}  # fmt: skip
BACKEND = {
    "BridgeError", "ConversionError", "DeviceTensor", "Int8Tensor", "NetFormatError", "NoBlobError", "OptionError",
    "Predictor", "RunError", "Session", "SessionOptions", "ValidationOptions", "ValidationReport", "Workspace",
    "prepare", "run_model", "run_node", "supports_device", "to_netdef", "validate",
}  # fmt: skip


def parameters(function: object) -> dict[str, str]:
    """Names and kinds of the parameters, ``*`` for those that go by keyword alone."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type] # a function or class
    return {p.name: "*" if p.kind is p.KEYWORD_ONLY else "" for p in found}


def test_the_names_of_the_bridge() -> None:
    assert set(caffe2_bridge.__all__) >= BRIDGE
    assert all(hasattr(caffe2_bridge, name) for name in caffe2_bridge.__all__)
    assert sorted(caffe2_bridge.__all__) == caffe2_bridge.__all__


def test_the_names_of_the_frontend() -> None:
    assert set(caffe2_frontend.__all__) >= FRONTEND
    assert all(hasattr(caffe2_frontend, name) for name in caffe2_frontend.__all__)


def test_the_names_of_the_backend() -> None:
    assert set(caffe2_backend.__all__) == BACKEND
    assert all(hasattr(caffe2_backend, name) for name in BACKEND)
    assert caffe2_backend.Int8Tensor is caffe2_bridge.Int8Tensor
    predictor = {"model": "", "device": "", "options": "*"}
    assert parameters(caffe2_backend.Predictor) == predictor
    assert list(parameters(caffe2_backend.validate))[:3] == ["model", "inputs", "runtimes"]


@pytest.mark.parametrize("package", [caffe2_bridge, caffe2_frontend, caffe2_backend])
def test_packages_say_what_they_are(package: object) -> None:
    assert package.__doc__


def test_the_protobufs() -> None:
    net = caffe2_bridge.proto.caffe2_pb2.NetDef(name="n")
    assert net.SerializeToString() == b"\x0a\x01n"
    assert caffe2_bridge.proto.metanet_pb2.MetaNetDef().SerializeToString() == b""


def test_the_signatures() -> None:
    assert list(parameters(caffe2_bridge.load))[:2] == ["path", "init"]
    assert list(parameters(caffe2_bridge.save)) == ["model", "path", "format"]
    given = parameters(caffe2_frontend.to_onnx)
    known = {"predict_net": "", "init_net": "", "inputs": "*", "outputs": "*", "opset": "*", "recurrent": "*"}
    assert given.items() >= known.items()
    assert all(kind == "*" for name, kind in given.items() if name not in known)
    assert parameters(caffe2_frontend.check).items() >= {"predict_net": "", "init_net": ""}.items()
    assert list(parameters(caffe2_frontend.save_onnx)) == ["model", "path", "external_data_above"]
    assert list(parameters(caffe2_backend.Session))[:2] == ["model", "device"]


def test_the_tree_of_errors() -> None:
    for name in ("NetFormatError", "ConversionError", "RunError"):
        assert issubclass(getattr(caffe2_bridge, name), caffe2_bridge.BridgeError)
    assert not issubclass(caffe2_bridge.BridgeError, ValueError)


def test_a_report() -> None:
    report = caffe2_frontend.check(caffe2_bridge.proto.caffe2_pb2.NetDef(name="n"))
    assert report.covered
    assert report.findings == ()
    assert report.to_json() == '{\n  "covered": true,\n  "converted": {},\n  "findings": []\n}'
