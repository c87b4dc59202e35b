"""What functions take for a model: nets in memory, a loaded model, or their paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.nets import net, op

from caffe2_bridge import NetFormatError, load, save
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files import model_argument
from caffe2_bridge.files.model_argument import as_model
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, PlanDef
from caffe2_frontend import ExportOptions, analysis, analyze, check, convert, describe_inputs, to_onnx
from caffe2_frontend.prepare import prepare

NET = net(op("Mul", "x w", "y"), inputs="x w")
INIT = NetDef(name="init", op=[op("GivenTensorFill", "", "w", shape=[2], values=[1.0, 2.0])])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(Model.of(NET, INIT), tmp_path / "m")
    (tmp_path / "twice.pb").write_bytes(
        NetDef(op=[op("GivenTensorFill", "", "w", shape=[2], values=[2.0, 4.0])]).SerializeToString()
    )
    return tmp_path


@pytest.mark.parametrize("text", [True, False])
def test_a_folder(folder: Path, *, text: bool) -> None:
    model = as_model(str(folder / "m") if text else folder / "m")
    assert (model.predict_net, model.source) == (NET, str(folder / "m" / "predict_net.pb"))
    assert list(model.params["w"]) == [1, 2]


def test_files_of_both_nets_and_one_of_each_kind(folder: Path) -> None:
    file, init = folder / "m" / "predict_net.pb", folder / "twice.pb"
    given: list[tuple[Any, Any]] = [(file, init), (NET, init), (file, init.read_bytes())]
    for predict, filled in given:
        assert list(as_model(predict, filled).params["w"]) == [2, 4]
    assert as_model(file, init.read_bytes()).source == str(file)


def test_nets_in_memory_and_a_loaded_model() -> None:
    model = Model.of(NET, INIT)
    assert as_model(model) is model
    assert list(as_model(NET.SerializeToString(), INIT).params["w"]) == [1, 2]
    plan = PlanDef(network=[NET])
    plan.execution_step.add(network=["n"])
    assert as_model(plan, INIT).predict_net.op[0].type == "Mul"


def test_a_path_that_is_not_there_and_one_of_another_format(tmp_path: Path) -> None:
    with pytest.raises(NetFormatError, match="nowhere"):
        as_model(tmp_path / "nowhere")
    (tmp_path / "x.pb").write_bytes(b"PK\x03\x04")
    with pytest.raises(NetFormatError, match=r"x\.pb: this is a zip archive"):
        check(str(tmp_path / "x.pb"))


def test_functions_of_the_export_take_paths(folder: Path) -> None:
    path = str(folder / "m")
    expected = to_onnx(load(path)).SerializeToString()
    assert to_onnx(path).SerializeToString() == expected
    assert check(path).covered
    assert convert(path).graph.outputs[0].name == "y"
    assert analyze(path, None, ExportOptions()).model is not None
    assert describe_inputs(path).keys() == {"x"}


@pytest.mark.torch
def test_functions_of_pytorch_take_paths(folder: Path) -> None:
    from caffe2_torch import export_torch, to_torch

    x = np.ones(2, np.float32)
    assert to_torch(folder / "m")({"x": x})["y"].tolist() == [1, 2]
    assert export_torch(str(folder / "m"), folder / "source", examples={"x": x})


def test_an_input_that_is_tried_does_not_read_the_files_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(Model.of(net(op("Transpose", "x", "y"))), tmp_path)
    loaded, prepared = [], []
    monkeypatch.setattr(model_argument, "load", lambda *paths: loaded.append(paths) or load(*paths))
    monkeypatch.setattr(analysis, "prepare", lambda *given: prepared.append(given) or prepare(*given))
    assert not check(tmp_path).covered
    assert (len(loaded), len(prepared)) == (1, 2)


def test_a_loaded_model_has_its_init_net() -> None:
    with pytest.raises(OptionError, match="init_net must not be given with a loaded model"):
        to_onnx(Model.of(NET, INIT), INIT)


def test_a_model_is_made_of_the_nets_of_this_project() -> None:
    for nets in ((NET, INIT), (NET.SerializeToString(),)):
        with pytest.raises(OptionError, match=r"use Model\.of\(predict_net, init_net\)"):
            Model(*nets)  # type: ignore[arg-type] # what a caller may pass


def test_a_text_is_not_a_list_of_outputs() -> None:
    with pytest.raises(OptionError, match="outputs must be a sequence"):
        Model.of(NET, INIT).with_outputs("y")
