from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.admission.models import (
    SECRET,
    external,
    function,
    graph,
    hiding_places,
    model,
    node,
    sparse,
    value,
    written,
)

from caffe2_backend import Predictor, prepare, run_model, to_netdef
from caffe2_backend.admission import admit_file, load_ir, load_proto
from caffe2_bridge.diagnostics import ConversionError, NetFormatError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_validation.forms import read_model

X = np.zeros(4, np.float32)
PLACES = sorted(hiding_places("w.bin"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a model; a secret is next to it, and the same name in the working directory."""
    (tmp_path / "secret.bin").write_bytes(SECRET.tobytes())
    made = tmp_path / "models"
    made.mkdir()
    return made


def refusal(door: Callable[[], Any]) -> str:
    with pytest.raises(ConversionError) as caught:
        door()
    assert {finding.code for finding in caught.value.findings} == {"external-data"}, caught.value
    return str(caught.value)


def doors(path: Path) -> list[Callable[[], Any]]:
    """Return every way by which the file of a model comes in."""
    return [
        lambda: load_ir(path), lambda: load_proto(path), lambda: admit_file(path),
        lambda: prepare(path), lambda: read_model(path), lambda: Predictor(path),
    ]  # fmt: skip


@pytest.mark.parametrize("place", [p for p in PLACES if not p.startswith("sparse")])
@pytest.mark.parametrize("location", ["../secret.bin", "link/secret.bin", "alias.bin", "{absolute}"])
def test_files_outside_the_folder_are_refused_wherever_they_are_named(
    folder: Path, place: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link").symlink_to(folder.parent)
    (folder / "alias.bin").symlink_to(folder.parent / "secret.bin")
    monkeypatch.chdir(folder)
    path = written(folder, hiding_places(location.format(absolute=folder.parent / "secret.bin"))[place])
    for door in doors(path):
        refusal(door)
    assert "folder" in refusal(lambda: to_netdef(path))


@pytest.mark.parametrize("place", [p for p in PLACES if p.startswith("sparse")])
def test_sparse_tensors_do_not_read_files(folder: Path, place: str) -> None:
    path = written(folder, hiding_places("../secret.bin")[place])
    for door in (lambda: load_proto(path), lambda: Predictor(path), lambda: read_model(path)):
        refusal(door)
    with pytest.raises(ConversionError, match="must not be sparse"):
        to_netdef(path)


@pytest.mark.parametrize("place", PLACES)
def test_bytes_and_protobufs_have_no_folder(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    monkeypatch.chdir(folder)
    made = hiding_places("w.bin")[place]
    before = made.SerializeToString()
    for given in (made, before):
        assert "pass base_dir=" in refusal(lambda given=given: load_proto(given))
        refusal(lambda given=given: Predictor(given))
        if not place.startswith("sparse"):
            refusal(lambda given=given: to_netdef(given))
            refusal(lambda given=given: prepare(given))
            refusal(lambda given=given: run_model(given, [X]))
    refusal(lambda: read_model(made))
    loaded = load_proto(made, folder)
    assert b"w.bin" not in loaded.SerializeToString()
    assert made.SerializeToString() == before


@pytest.mark.parametrize("place", [p for p in PLACES if not p.startswith("sparse")])
def test_models_of_onnx_ir(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    given = ir.from_proto(hiding_places("w.bin")[place])
    refusal(lambda: to_netdef(given))
    assert b"w.bin" not in ir.to_proto(load_ir(given, folder)).SerializeToString()
    outside = ir.from_proto(hiding_places("../secret.bin")[place])
    refusal(lambda: load_ir(outside, folder))


def test_values_inside_the_folder_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "w.bin").write_bytes(b"head" + SECRET.tobytes())
    (folder / "inner.bin").symlink_to("data/w.bin")
    monkeypatch.chdir(folder.parent)
    for location in ("data/w.bin", "./data/w.bin", "inner.bin"):
        made = model(graph([node("Add", ["x", "w"], ["y"])], initializer=[external(location, offset="4", length="16")]))
        path = written(folder, made)
        np.testing.assert_array_equal(run_model(path, [X])[0], SECRET)
        np.testing.assert_array_equal(run_model(os.path.relpath(path), [X])[0], SECRET)
        np.testing.assert_array_equal(run_model(made, [X], base_dir=folder)[0], SECRET)
        np.testing.assert_array_equal(load_proto(path).graph.initializer[0].raw_data, SECRET.tobytes())


def test_large_weights_are_read_when_they_are_used(folder: Path) -> None:
    weights = np.arange(400, dtype=np.float32)
    (folder / "w.bin").write_bytes(weights.tobytes())
    tensor = external("w.bin")
    tensor.dims[0] = 400
    path = written(
        folder,
        model(
            graph([node("Add", ["x", "w"], ["y"])], [value("x", dims=[400])], [value("y", dims=[400])],
                  initializer=[tensor])
        ),
    )  # fmt: skip
    loaded = load_ir(path)
    assert isinstance(loaded.graph.initializers["w"].const_value, ir.ExternalTensor)
    np.testing.assert_array_equal(to_netdef(path).params["w"], weights)


@pytest.mark.parametrize(
    "location",
    ["", "C:/secret.bin", "C:secret.bin", "data\\w.bin", "..\\secret.bin", "\\\\host\\w.bin", "a/../w.bin", "w\0.bin",
     "absent.bin", "data", ".", "fifo", "/dev/zero", "*/_ORT_MEM_ADDR_/*", "hard.bin"],
)  # fmt: skip
def test_what_is_not_a_regular_file_inside_the_folder(folder: Path, location: str) -> None:
    (folder / "data").mkdir()
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "fifo")
    (folder / "*" / "_ORT_MEM_ADDR_").mkdir(parents=True)
    (folder / "*" / "_ORT_MEM_ADDR_" / "*").write_bytes(SECRET.tobytes())
    path = written(folder, hiding_places(location)["initializer"])
    for door in doors(path):
        refusal(door)


def test_locations_that_are_not_text(folder: Path) -> None:
    data = hiding_places("w\0.bin")["initializer"].SerializeToString().replace(b"w\0.bin", b"w\xff.bin")
    with pytest.raises((ConversionError, NetFormatError)):
        load_ir(data, folder)


@pytest.mark.parametrize(
    "entries",
    [{"offset": "4"}, {"length": "17"}, {"length": "12"}, {"offset": "-4"}, {"offset": "0x0"}, {"length": "٣"},
     {"offset": "9" * 30}],
)  # fmt: skip
def test_extents_that_do_not_fit(folder: Path, entries: dict[str, str]) -> None:
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    tensor = external("w.bin", **entries)
    path = written(folder, model(graph([node("Add", ["x", "w"], ["y"])], initializer=[tensor])))
    refusal(lambda: load_ir(path))


def test_a_location_that_is_given_twice(folder: Path) -> None:
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    tensor = external("w.bin")
    tensor.external_data.add(key="location", value="../secret.bin")
    path = written(folder, model(graph([node("Add", ["x", "w"], ["y"])], initializer=[tensor])))
    assert "twice" in refusal(lambda: admit_file(path))


def test_defaults_of_functions_attributes(folder: Path) -> None:
    made = function("f", [node("Identity", ["a"], ["b"])])
    attribute = made.attribute_proto.add(name="t", type=onnx.AttributeProto.TENSOR)
    attribute.t.CopyFrom(external("../secret.bin"))
    call = onnx.NodeProto(op_type="f", domain="own", input=["x"], output=["y"])
    path = written(folder, model(graph([call]), functions=[made]))
    refusal(lambda: load_ir(path))


def test_a_model_of_an_older_opset_reads_its_own_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    (folder.parent / "w.bin").write_bytes((SECRET * 100).tobytes())
    monkeypatch.chdir(folder.parent)
    for nodes in ([], [node("Constant", [], ["w"], value=external("w.bin"))]):
        made = model(
            graph([*nodes, node("Add", ["x", "w"], ["y"])],
                  initializer=[] if nodes else [external("w.bin")]),
            opset=11,
        )  # fmt: skip
        for given in (written(folder, made), ir.from_proto(load_proto(made, folder))):
            np.testing.assert_array_equal(run_model(given, [X])[0], SECRET)


@pytest.mark.parametrize("kind", ["TENSOR", "TENSORS", "SPARSE_TENSOR"])
def test_onnx_operators_in_nets_do_not_read_files(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "w.bin").write_bytes(SECRET.tobytes())
    monkeypatch.chdir(folder)
    net = NetDef(name="net", external_output=["y"])
    op = net.op.add(type="Constant", domain="ai.onnx", output=["y"])
    arg = op.arg.add(name=f"value:{kind}")
    held = (sparse("w.bin") if kind == "SPARSE_TENSOR" else external("w.bin")).SerializeToString()
    if kind == "TENSORS":
        arg.strings.append(held)
    else:
        arg.s = held
    opsets = net.arg.add(name="onnx_opsets")
    opsets.strings.append(b"ai.onnx:20")
    with pytest.raises(ConversionError, match="names a file"):
        to_onnx(Model.of(net.SerializeToString()))
