"""The public names of the three packages: what users' code may import."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import version
from types import ModuleType

import pytest

import caffe2_backend
import caffe2_bridge
import caffe2_bridge.builder
import caffe2_bridge.files
import caffe2_bridge.gradients
import caffe2_bridge.storage
import caffe2_deploy
import caffe2_fleet
import caffe2_frontend

# All public names: a name that is added or removed must be added or removed here too.
BRIDGE = {
    "BridgeError", "ConversionError", "CostModel", "Device", "Diagnostic", "InitNet", "Int8Tensor", "Limits",
    "Location", "Model", "NetFormatError", "Parameter", "Placement", "Profile", "ProfiledCosts", "RunError", "Severity",
    "as_device", "assign_device_option", "check_dataflow", "construct_init_net_from_params", "cuda_operators",
    "export_mobile", "follow_inputs", "forward_only", "fuse_alias_placeholder", "fuse_copies", "get_consumer_map",
    "get_external_blob_names", "get_op_ids_in_path", "get_output_producers", "get_params_from_init_net",
    "get_producer_map", "get_ssa", "get_sub_graph_external_input_output", "get_undefined_blobs",
    "group_norm_replace_aten_with_caffe2", "has_cuda_version", "identify_reshape_sub_graph", "infer_device_type",
    "infer_output_devices", "insert_copies", "limits", "load", "load_init_net", "load_weights", "place",
    "propagate_status", "proto", "read_init", "remove_dead_end_ops", "remove_reshape_for_fc", "rename_op_input",
    "rename_op_output", "save", "save_weights", "ssa_rewrite",
}  # fmt: skip
BUILDER = {
    "ONES", "XAVIER", "ZEROS", "AttentionCell", "AttentionType", "BasicRNNCell", "Blob", "BuildError", "Cell",
    "DropoutCell", "GRUCell", "Initializer", "LSTMCell", "LayerNormLSTMCell", "LayerNormMILSTMCell", "MILSTMCell",
    "MultiRNNCell", "Net", "Step", "StepInput", "UnrolledCell", "add_if_op", "add_while_op", "concat", "constant",
    "dropout", "fc", "gaussian", "given", "layer_norm", "make_argument", "make_operator", "recurrent_net", "uniform",
}  # fmt: skip
GRADIENTS = {
    "BlobGradient", "GradientError", "GradientNet", "GradientOperators", "OpGradient", "SparseGradient",
    "add_gradient_operators", "dedupe_g_output", "disambiguate_grad_if_op_output", "gen_do_gradient",
    "gen_if_gradient", "gen_while_gradient", "get_backward_pass", "get_gradient_for_op", "recompute_steps",
}  # fmt: skip
FILES = {
    "FORMATS", "WEIGHT_FORMATS", "SavedWeights", "load", "load_init_net", "load_plan", "load_weights", "save",
    "save_weights",
}  # fmt: skip
STORAGE = {
    "AnyPath", "Location", "NotListableError", "RemotePath", "StorageError", "StorageNotFoundError", "is_url", "locate",
    "mask", "published", "read_file", "source_path", "walk",
}  # fmt: skip
FRONTEND = {
    "ConversionError", "Export", "ExportOptions", "InputSpecError", "Int8", "NetFormatError", "NoStatesError",
    "OptionError", "Recompute", "Recurrent", "Report", "TensorInfo", "analyze", "check", "convert", "describe_inputs",
    "finish", "register_converter", "save_onnx", "supported_operators", "to_onnx",
}  # fmt: skip
BACKEND = {
    "BridgeError", "ConversionError", "DeviceTensor", "Int8Tensor", "NetFormatError", "NoBlobError", "OptionError",
    "Predictor", "RunError", "Session", "SessionOptions", "TrainingResult", "ValidationOptions", "ValidationReport",
    "Workspace", "install_caffe2", "picture_html", "prepare", "register_importer", "run_model", "run_node",
    "supports_device", "to_netdef", "train", "validate",
}  # fmt: skip
FLEET = {
    "Batch", "ModelResult", "ModelTask", "discover_manifest", "read_manifest", "run", "run_batch", "write_manifest",
}  # fmt: skip
DEPLOY = {"LAYOUTS", "Contents", "gather", "package"}
PACKAGES = [
    (caffe2_bridge, BRIDGE),
    (caffe2_bridge.builder, BUILDER),
    (caffe2_bridge.files, FILES),
    (caffe2_bridge.storage, STORAGE),
    (caffe2_bridge.gradients, GRADIENTS),
    (caffe2_frontend, FRONTEND),
    (caffe2_backend, BACKEND),
    (caffe2_fleet, FLEET),
    (caffe2_deploy, DEPLOY),
]


def parameters(function: object) -> dict[str, str]:
    """Return names and kinds of the parameters, ``*`` for those that go by keyword alone."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type] # a function or class
    return {p.name: "*" if p.kind is p.KEYWORD_ONLY else "" for p in found}


@pytest.mark.parametrize(("package", "names"), PACKAGES, ids=[package.__name__ for package, _ in PACKAGES])
def test_public_names_are_exactly_these(package: ModuleType, names: set[str]) -> None:
    assert len(package.__all__) == len(set(package.__all__))
    assert set(package.__all__) == names
    assert all(hasattr(package, name) for name in names)


def test_the_mobile_exporters_former_name_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match=r"use caffe2_bridge\.export_mobile"):
        assert caffe2_bridge.export is caffe2_bridge.export_mobile
    with pytest.raises(AttributeError, match="module 'caffe2_bridge' has no attribute 'exports'"):
        caffe2_bridge.exports  # noqa: B018 - the access is what is tested


def test_the_classes_of_the_backend() -> None:
    assert caffe2_backend.Int8Tensor is caffe2_bridge.Int8Tensor
    predictor = {"model": "", "device": "", "options": "*", "outputs": "*"}
    assert parameters(caffe2_backend.Predictor) == predictor
    assert list(parameters(caffe2_backend.validate))[:3] == ["model", "inputs", "runtimes"]


@pytest.mark.parametrize("package", [caffe2_bridge, caffe2_frontend, caffe2_backend])
def test_packages_say_what_they_are(package: object) -> None:
    assert package.__doc__


@pytest.mark.parametrize("name", ["caffe2_bridge", "caffe2_frontend", "caffe2_backend", "caffe2_torch"])
def test_packages_say_their_version(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__version__ == version("caffe2-bridge")
    assert "__version__" in dir(package)


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
    assert list(parameters(caffe2_frontend.save_onnx)) == ["model", "path", "external_data_above", "external_data"]
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
