"""Functions for a page that converts models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from support.nets import net, op

from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli import browser

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def no_files_of_other_tests() -> None:
    browser._last.clear()


@pytest.fixture(name="cnn")
def cnn_files() -> Files:
    return browser.example("cnn")["files"]


def changed(files: Files, kind: str) -> Files:
    """Return the files with another type of the first operator."""
    predict = NetDef.FromString(files["predict_net.pb"])
    predict.op[0].type = kind
    return {**files, "predict_net.pb": predict.SerializeToString()}


def array(tensor: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(tensor["data"], tensor["type"]).reshape(tensor["dims"])


@pytest.mark.parametrize("name", ["lstm", "cnn"])
def test_an_example_is_checked_drawn_converted_and_runs_on_its_arrays(name: str) -> None:
    example = browser.example(name)
    files = example["files"]
    assert browser.findings(files)["covered"]
    assert "data-picture" in browser.picture(files)["html"]
    converted = browser.convert(files)
    assert converted["lines"][0] == "opset 20"
    session = onnxruntime.InferenceSession(converted["files"][0]["data"], providers=["CPUExecutionProvider"])
    for tensors in (browser.arrays(example["arrays"])["tensors"], browser.synthesize(files)["tensors"]):
        inputs = {tensor["name"]: array(tensor) for tensor in tensors}
        assert all(np.isfinite(output).all() for output in session.run(None, inputs))


def test_sizes_that_no_runtime_tried_are_those_that_operators_imply(
    cnn: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    assert [tensor["dims"] for tensor in browser.synthesize(cnn)["tensors"]] == [[3, 1, 16, 16]]


def test_an_onnx_model_becomes_a_net(cnn: Files) -> None:
    exported = {"m.onnx": browser.convert(cnn)["files"][0]["data"]}
    assert browser.findings(exported) == {
        "form": "ONNX", "covered": True, "findings": [], "summary": "converts to 8 Caffe2 operators"
    }  # fmt: skip
    converted = browser.convert(exported)
    assert [file["name"] for file in converted["files"]] == ["predict_net.pb", "init_net.pb"]
    assert converted["lines"] == ["input   image", "output  digit"]
    again = browser.findings({file["name"]: file["data"] for file in converted["files"]})
    assert again["covered"]


def test_findings_have_locations_and_hints(cnn: Files) -> None:
    found = browser.findings(changed(cnn, "Unknown"))
    assert not found["covered"]
    unknown = next(each for each in found["findings"] if each["code"] == "unknown-operator")
    assert (unknown["place"], unknown["severity"]) == ("cnn[0] Unknown", "error")
    assert browser.convert(changed(cnn, "Unknown"))["findings"][-1] == unknown


def test_options_reach_the_conversion(cnn: Files) -> None:
    options = {"inputs": ["image=float32[N,1,16,16]"], "outputs": ["relu2"], "opset": 17}
    model = onnx.load_from_string(browser.convert(cnn, options)["files"][0]["data"])
    assert [entry.version for entry in model.opset_import if not entry.domain] == [17]
    assert [value.name for value in model.graph.output] == ["relu2"]
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [0, 1, 16, 16]


def test_the_net_is_found_by_name_or_chosen(cnn: Files) -> None:
    one, two = cnn["predict_net.pb"], changed(cnn, "Unknown")["predict_net.pb"]
    files = {"one.pb": one, "two.pb": two}
    assert browser.findings(files) == {
        "error": "the folder has several nets: one.pb, two.pb; give the path of one", "findings": []
    }  # fmt: skip
    assert browser.findings(files, {"net": "one.pb"})["covered"]
    assert not browser.findings(files, {"net": "two.pb"})["covered"]


@pytest.mark.parametrize(
    ("files", "options", "error"),
    [
        ({}, {}, "no files are given"),
        ({"a/..": b""}, {}, "a/..: this is not the name of a file"),
        ({"a/m.pb": b"", "b\\m.pb": b""}, {}, "m.pb: several files have this name"),
        ({"m.pb": b"text"}, {}, "m.pb: the file is neither a net (binary or text) nor a minidb or LMDB database"),
        ({"m.onnx": b"text"}, {}, "m.onnx: not an ONNX model: the file is damaged or incomplete, or of another format"),
        ({"a.onnx": b"", "b.onnx": b""}, {}, "there are several ONNX models: a.onnx, b.onnx; give one"),
        ({"m.pb": b""}, {"device": "cpu"}, "no such option: device"),
        (None, {"inputs": ["x"]}, "'x': expected NAME=DTYPE[DIM,...], such as data=float32[N,3,224,224]"),
        (None, {"target": "nothing"}, None),
    ],
)
def test_what_is_wrong_is_said_without_the_temporary_folder(
    files: Files | None, options: dict[str, Any], error: str | None, cnn: Files
) -> None:
    found = browser.convert(cnn if files is None else files, options)
    assert error is None or found == {"error": error, "findings": []}
    assert "caffe2-bridge-" not in found["error"]


def test_files_are_read_once(cnn: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(browser, "load", lambda path: read.append(path) or load(path))
    for _ in range(2):
        assert browser.findings(cnn)["covered"]
        assert browser.convert(cnn)["files"]
    assert len(read) == 1
    assert not browser.findings(changed(cnn, "Unknown"))["covered"]
    assert "error" in browser.findings({**cnn, "..": b""})
    assert browser.findings(cnn, {"net": "predict_net.pb"})["covered"]
    assert len(read) == 3


def test_a_missing_init_net_is_a_finding_without_the_temporary_folder(cnn: Files) -> None:
    (found,) = browser.findings({"predict_net.pb": cnn["predict_net.pb"]})["findings"]
    assert (found["code"], found["severity"]) == ("missing-parameters", "warning")
    assert "no init net was found in the files" in found["reason"]


def test_a_fault_of_this_project_is_a_finding(cnn: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_DEBUG", raising=False)
    monkeypatch.setattr("caffe2_bridge.diagnostics.internal.raises_faults", lambda: False)
    monkeypatch.setattr(browser, "load", lambda _: 1 // 0)
    (found,) = browser.findings(cnn)["findings"]
    assert found["code"] == "internal-error"


def test_arrays_have_the_types_of_tensors() -> None:
    packed = browser.arrays({"digits.npz": browser.example("cnn")["arrays"]["digits.npz"]})["tensors"]
    assert [(tensor["name"], tensor["type"], tensor["dims"]) for tensor in packed] == [
        ("image", "float32", [10, 1, 16, 16])
    ]


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (np.array([[1, 2]], ">i4"), "int32", b"\1\0\0\0\2\0\0\0"),
        (np.array([True, False]), "bool", b"\1\0"),
        (np.array([1], np.float16), "float16", b"\0\x3c"),
        (np.array(["a", "ü"]), "string", ["a", "ü"]),
        (np.array(5, np.int64), "int64", b"\5" + bytes(7)),
    ],
)
def test_an_array_of_its_own_file_has_its_name(value: Any, kind: str, data: Any, tmp_path: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, value)
    (tensor,) = browser.arrays({"x.npy": path.read_bytes()})["tensors"]
    assert tensor == {"name": "x", "type": kind, "dims": list(value.shape), "data": data}


def test_arrays_that_are_none(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.array([1j]))
    found = browser.arrays({"x.npy": (tmp_path / "x.npy").read_bytes()})
    assert found["error"] == "array 'x' is complex128, of which there are no tensors in onnxruntime-web"
    assert browser.arrays({"x.npy": b"no"})["error"].startswith("x.npy: not an .npy file of a plain array")


def test_a_net_in_text_is_read() -> None:
    text = str(net(op("Relu", "x", "y"), inputs="x"))
    options = {"inputs": ["x=float32[N,3]"]}
    assert browser.findings({"net.pbtxt": text.encode()}, options)["covered"]
    (tensor,) = browser.synthesize({"net.pbtxt": text.encode()}, options)["tensors"]
    assert (tensor["name"], tensor["type"], tensor["dims"][1:]) == ("x", "float32", [3])
