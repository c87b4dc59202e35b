"""Nets that are only judged write and read nothing outside of a folder of their own, whatever paths they name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend.runtime.calls.profiling import profile_model
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_validation.runtimes import find_runtime

X = {"x": np.array([1.0, 2.0], np.float32)}
RELU = operator("Relu", ["x"], ["y"])
RUNTIMES = ("workspace", pytest.param("caffe2", marks=pytest.mark.oracle))


def model(*ops: OperatorDef, init: tuple[OperatorDef, ...] = ()) -> Model:
    net = NetDef(name="net", op=[*ops, RELU], external_input=["x"], external_output=["y"])
    return Model.of(net, NetDef(op=init))


def save(path: Path | str, kind: str = "Save", blobs: tuple[str, ...] = ("x",)) -> OperatorDef:
    return operator(kind, blobs, [], db=str(path), db_type="minidb", absolute_path=1)


def victims(folder: Path) -> list[Path]:
    """Return files of the user, which nets name."""
    paths = [folder / "victim", folder / "nested" / "victim", folder / "x.log"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    return paths


def writers(folder: Path) -> dict[str, Model]:
    in_branch = operator("If", ["c"], [])
    in_branch.arg.append(Argument(name="then_net", n=NetDef(op=[save(folder / "victim")], external_input=["x"])))
    true = operator("GivenTensorBoolFill", [], ["c"], shape=[1], values=[True])
    count = operator("ConstantFill", [], ["i"], shape=[1], value=7, dtype=10)
    return {
        "absolute": model(save(folder / "victim")),
        "relative": model(save("victim")),
        "above": model(save(f"../{folder.name}/nested/victim")),
        "checkpoint": model(count, save(f"{folder}/victim", "Checkpoint", ("i", "x"))),
        "print": model(operator("Print", ["x"], [], to_file=1)),
        "branch": model(true, in_branch),
        "init net": model(init=(operator("ConstantFill", [], ["w"], shape=[1]), save(folder / "victim", blobs=("w",)))),
    }


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", writers(Path("unused")))
def test_nothing_of_the_user_is_overwritten(
    runtime: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = victims(tmp_path)
    loaded = find_runtime(runtime).load(writers(tmp_path)[kind])
    for _ in range(2):  # what the first run wrote is not in the way of the second
        np.testing.assert_array_equal(np.asarray(loaded.run(X)["y"]), X["x"])
    assert [path.read_text() for path in before] == ["mine"] * len(before)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(before)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_a_net_saves_it_may_load(runtime: str, tmp_path: Path) -> None:
    load = operator("Load", [], ["z"], db=str(tmp_path / "db"), db_type="minidb", source_blob_names=["x"])
    net = NetDef(op=[save(tmp_path / "db"), load], external_input=["x"], external_output=["z"])
    found = find_runtime(runtime).load(Model(net)).run(X)["z"]
    np.testing.assert_array_equal(np.asarray(found), X["x"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_files_of_the_user_are_not_read(runtime: str, tmp_path: Path) -> None:
    text = tmp_path / "secret.txt"
    text.write_text("a\nb\n")
    reader = operator("CreateTextFileReader", [], ["reader"], filename=str(text), field_types=[5])
    read = operator("TextFileReaderRead", ["reader"], ["y"])
    net = Model(NetDef(op=[reader, read], external_output=["y"]))
    with pytest.raises(RunError):
        find_runtime(runtime).load(net).run({})


@pytest.mark.parametrize("kind", sorted(writers(Path("unused"))))
def test_profiling_overwrites_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = victims(tmp_path)
    profile_model(writers(tmp_path)[kind], X, runs=1)
    assert [path.read_text() for path in before] == ["mine"] * len(before)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(before)


@pytest.mark.oracle
def test_real_caffe2_runs_nets_for_gpus_on_the_cpu() -> None:
    net = NetDef(op=[RELU], external_input=["x"], external_output=["y"])
    net.device_option.device_type = net.op[0].device_option.device_type = 1
    net.op[0].engine = "CUDNN"
    np.testing.assert_array_equal(np.asarray(find_runtime("caffe2").load(Model(net)).run(X)["y"]), X["x"])
