"""Folders that serve a model: what is in them, that servers' schemas take it, and that the samples hold.

Modules: layouts, requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from conformance.recording import operator
from support.paths import MODELS

from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import Model, load
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main
from caffe2_deploy import LAYOUTS, gather, package
from caffe2_deploy.kserve import service_name
from caffe2_deploy.triton import TYPES, configuration
from caffe2_validation.options import ValidationOptions

GRU = MODELS / "gru"


def rows(name: str = "rows") -> Model:
    net = NetDef(name=name, op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    return Model.of(net)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("packages")
    for layout in LAYOUTS:
        arguments = ["package", str(GRU), "--for", layout, "-o", str(folder / layout), "--licence", "MIT"]
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "compared: agree" in result.output
    return {layout: folder / layout for layout in LAYOUTS}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_model_computes_the_expected_outputs(layout: str, written: dict[str, Path]) -> None:
    (path,) = written[layout].rglob("model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    inputs, expected = (dict(np.load(written[layout] / "sample" / f"{name}.npz")) for name in ("inputs", "outputs"))
    found = OnnxSession(path.read_bytes()).run_values(inputs)
    for value, wanted in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_card_says_what_is_known(layout: str, written: dict[str, Path]) -> None:
    card = json.loads((written[layout] / "card.json").read_text())
    assert card["inputs"] == {"input": "float32[T,N,4]", "seq_lengths": "int32[N]", "init_0": "float32[1,N,6]"}
    assert card["licence"] == "MIT"
    assert card["operators"]["GRU"] == 1
    ((path, digest),) = card["sha256"].items()
    assert (written[layout] / path).is_file()
    assert digest in (written[layout] / "card.md").read_text()


def triton_config(text: str) -> Any:
    """Return the message that Triton reads."""
    model_config = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    from google.protobuf import text_format

    return text_format.Parse(text, model_config.ModelConfig())


def test_triton_reads_the_configuration(written: dict[str, Path]) -> None:
    folder = written["triton"] / "models" / "gru"
    config = triton_config((folder / "config.pbtxt").read_text())
    assert (config.name, config.platform, config.max_batch_size) == ("gru", "onnxruntime_onnx", 0)
    assert {each.name: list(each.dims) for each in config.input} == {
        "input": [-1, -1, 4], "seq_lengths": [-1], "init_0": [1, -1, 6],
    }  # fmt: skip
    for name, each in config.model_warmup[0].inputs.items():
        data = (folder / "warmup" / each.input_data_file).read_bytes()
        assert len(data) == 4 * np.prod(each.dims), name


def test_requests_are_joined_along_a_common_first_dim() -> None:
    contents = gather(rows(), options=ValidationOptions(described={"x": (np.float32, ("N", 3))}))
    config = triton_config(configuration(contents))
    assert config.max_batch_size > 0
    assert config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [3]
    assert config.model_warmup[0].batch_size == len(contents.sample["x"])


def test_types_are_those_of_triton() -> None:
    names = pytest.importorskip("tritonclient.grpc.model_config_pb2").DataType.keys()
    assert set(TYPES.values()) <= set(names)


def test_requests_and_responses_hold_the_sample(written: dict[str, Path]) -> None:
    for layout in ("triton", "kserve"):
        folder = written[layout] / "sample"
        request = json.loads((folder / "request.json").read_text())
        inputs = np.load(folder / "inputs.npz")
        assert {each["name"]: each["datatype"] for each in request["inputs"]}["seq_lengths"] == "INT32"
        for each in request["inputs"]:
            np.testing.assert_allclose(np.reshape(each["data"], each["shape"]), inputs[each["name"]])
        assert len(json.loads((folder / "response.json").read_text())["outputs"]) == 2


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    contents = gather(rows(), options=ValidationOptions(described={"x": (np.float32, ("N", 3))}))
    package(contents, "mobile", tmp_path / "out")
    (tmp_path / "out" / "old").mkdir()
    files = package(contents, "web", tmp_path / "out")
    assert not (tmp_path / "out" / "old").exists()
    assert tmp_path / "out" / "index.html" in files
    with pytest.raises(OptionError, match="triton, kserve, web, mobile"):
        package(contents, "docker", tmp_path / "out")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "a b", "<b>"])
def test_names_that_are_no_names_of_folders_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="give --name"):
        gather(rows(), name=name)


def test_services_have_names_that_kubernetes_takes() -> None:
    assert service_name("Char_RNN.v2") == "char-rnn-v2"
    assert service_name("___") == "model"


def test_a_mobile_package_has_the_ort_format(written: dict[str, Path]) -> None:
    data = (written["mobile"] / "model.ort").read_bytes()
    assert data[4:8] == b"ORTM"
    assert "GRU" in (written["mobile"] / "required_operators.config").read_text()
    loaded = load(GRU)
    assert loaded.inputs
