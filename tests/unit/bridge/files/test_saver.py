from __future__ import annotations

import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.oracle import find_oracle
from support.paths import CHAR_RNN

import caffe2_bridge as c2
from caffe2_bridge.files.blobs import record_writer
from caffe2_bridge.files.databases import minidb
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.wire import Span

# plyvel has no wheels for every Python.
HAS_LEVELDB = find_spec("plyvel") is not None
LAYOUTS = [
    *("pb", "pbtxt", "minidb", "lmdb"),
    pytest.param("leveldb", marks=pytest.mark.skipif(not HAS_LEVELDB, reason="plyvel is not installed")),
]


def parameter(name: str, values: Any, dtype: Any, **more: Any) -> Parameter:
    array = np.array(values, dtype)
    return Parameter(name, array.dtype, array.shape, array.copy, **more)


PARAMETERS = [
    parameter("float", [[1.5, -0.0], [np.inf, np.nan]], np.float32),
    parameter("scalar", 2.5, np.float32),
    parameter("empty", np.zeros((0, 3)), np.float32),
    parameter("half", [1.5, 65504], np.float16),
    parameter("double", [0.5, -2.0], np.float64),
    parameter("int8", [-128, 127], np.int8),
    parameter("uint8", [[0, 255]], np.uint8),
    parameter("int16", [-(2**15), 5], np.int16),
    parameter("uint16", [0, 2**16 - 1], np.uint16),
    parameter("int32", [-(2**31), 2**31 - 1], np.int32),
    parameter("int64", [-(2**63), 2**63 - 1, 0], np.int64),
    parameter("bool", [True, False], np.bool_),
    parameter("text", [b"a", b"\xff\x00", b""], object),
    parameter("weight", [[0, 128, 255]], np.uint8, scale=0.5, zero_point=128),
    parameter("bias", [-5, 6], np.int32, scale=0.25, zero_point=0),
]


def model_of(parameters: list[Parameter]) -> c2.Model:
    names = [p.name for p in parameters]
    predict = NetDef(name="predict", external_input=["x", *names], external_output=["y"])
    predict.op.add(type="Sum", input=["x", "float"], output=["y"])
    init = InitNet({p.name: p for p in parameters}, serialized=lambda: fill_net(parameters, ()))
    return c2.Model.of(predict, init)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_type_comes_back(tmp_path: Path, layout: str) -> None:
    model = model_of(PARAMETERS)
    path = tmp_path / "new" / "model"
    c2.save(model, path, layout)
    back = c2.load(path)
    assert (back.predict_net, back.inputs, back.outputs) == (model.predict_net, ("x",), ("y",))
    assert (back.init.findings, back.init.rest) == ((), ())
    for wanted in PARAMETERS:
        found = back.init.parameters[wanted.name]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert (found.scale, found.zero_point) == (wanted.scale, wanted.zero_point)
        np.testing.assert_array_equal(found.load(), wanted.load())
    assert not [file for file in path.parent.rglob("*") if file.name.startswith(".")]
    # The init net that a database stands for makes the same.
    again = read_init_net(back.init_net)
    for wanted in PARAMETERS:
        np.testing.assert_array_equal(again.parameters[wanted.name].load(), wanted.load())


def test_a_read_init_net_is_written_byte_for_byte(tmp_path: Path) -> None:
    unknown = b"\xfa\x3f\x03new"  # field 1023
    fill = OperatorDef(type="ConstantFill", output=["w"], arg=[Argument(name="shape", ints=[2])])
    data = NetDef(name="i", op=[fill]).SerializeToString() + unknown
    (tmp_path / "init_net.pb").write_bytes(data)
    predict = NetDef(name="p", op=[OperatorDef(type="Relu", input=["x"], output=["y"])]).SerializeToString() + unknown
    (tmp_path / "predict_net.pb").write_bytes(predict)
    model = c2.load(tmp_path)
    c2.save(model, tmp_path / "copy")
    assert (tmp_path / "copy" / "init_net.pb").read_bytes() == data
    assert (tmp_path / "copy" / "predict_net.pb").read_bytes() == predict
    c2.save(model, tmp_path)  # over the files that it was read from
    assert (tmp_path / "init_net.pb").read_bytes() == data
    assert model.init_net.SerializeToString() == data


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_failed_save_leaves_what_was_there(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    good = model_of(PARAMETERS[:2])
    c2.save(good, path, layout)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    def broken() -> np.ndarray[Any, Any]:
        raise c2.NetFormatError("damaged")

    bad = [*PARAMETERS[:1], Parameter("worse", np.dtype(np.float32), (2,), broken)]
    with pytest.raises(c2.NetFormatError, match="damaged"):
        c2.save(model_of(bad), path, layout)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before

    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(c2.BridgeError, match="cannot be written: No space left"):
        c2.save(good, path, layout)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_what_a_format_cannot_hold_is_said(tmp_path: Path) -> None:
    model = model_of([parameter("float", [1.0], np.float32), parameter("d", [1e300], np.float64)])
    with pytest.raises(c2.BridgeError, match=r"'d' has float64 values.*minidb"):
        c2.save(model, tmp_path / "m")
    assert list(tmp_path.rglob("*.pb")) == []
    c2.save(model, tmp_path / "m.minidb", "minidb")
    assert c2.load(tmp_path / "m.minidb").params["d"].tolist() == [1e300]
    with pytest.raises(c2.BridgeError, match="format must be one of pb, pbtxt, minidb, lmdb, leveldb, not 'zip'"):
        c2.save(model, tmp_path, "zip")


@pytest.mark.parametrize("values", [[0.1, -1 / 3, np.pi * 1e30, 2.0**-70 + 2.0**-122], [np.inf, np.nan, 1 + 2.0**-52]])
def test_doubles_are_sums_of_floats(tmp_path: Path, values: list[float]) -> None:
    c2.save(model_of([parameter("d", values, np.float64)]), tmp_path / "m")
    read = c2.load(tmp_path / "m").params["d"]
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, values)


def test_what_a_save_replaces_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "m.minidb"
    path.write_bytes(b"old")
    path.chmod(0o640)
    c2.save(model_of(PARAMETERS[:1]), path, "minidb")
    assert path.stat().st_mode & 0o777 == 0o640


def test_large_tensors_are_stored_in_chunks(tmp_path: Path) -> None:
    size = 2 * record_writer.CHUNK_SIZE + 5
    large = parameter("float", np.arange(size), np.float32)
    c2.save(model_of([large]), tmp_path / "m", "minidb")
    data = (tmp_path / "m").read_bytes()
    keys = [key for key, _ in minidb.records(Span.of(data))]
    assert keys == ["!!META_NET_DEF", "float#%0", "float#%1", "float#%2"]
    np.testing.assert_array_equal(c2.load(tmp_path / "m").params["float"], np.arange(size, dtype=np.float32))


RUN = """
import sys, numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.predictor import predictor_exporter
path, out = sys.argv[1:]
net = predictor_exporter.prepare_prediction_net(path, "minidb", device_option=core.DeviceOption(caffe2_pb2.CPU))
workspace.FeedBlob("x", np.ones((2, 2), np.float32))
workspace.RunNet(net)
found = {}
for name in workspace.Blobs():
    if workspace.HasBlob(name) and not name.startswith("!!"):
        try:
            value = workspace.FetchBlob(name)
        except Exception:
            value = workspace.FetchInt8Blob(name).data
        if isinstance(value, np.ndarray) and value.dtype != object:
            found[name] = value
np.savez(out, **found)
"""


@pytest.mark.oracle
def test_real_caffe2_loads_and_runs_what_is_saved(tmp_path: Path) -> None:
    parameters = [p for p in PARAMETERS if p.name != "text"]
    parameters[0] = parameter("float", [[1.0, 2.0], [3.0, 4.0]], np.float32)
    c2.save(model_of(parameters), tmp_path / "m.minidb", "minidb")
    command = [str(find_oracle()), "-c", RUN, str(tmp_path / "m.minidb"), str(tmp_path / "out.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["y"], [[2.0, 3.0], [4.0, 5.0]])
        for wanted in parameters:
            assert found[wanted.name].dtype == wanted.dtype
            np.testing.assert_array_equal(found[wanted.name], wanted.load())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_real_model_in_every_format(tmp_path: Path, layout: str) -> None:
    model = c2.load(CHAR_RNN)
    c2.save(model, tmp_path / layout, layout)
    back = c2.load(tmp_path / layout)
    assert (back.predict_net, back.inputs, back.outputs) == (model.predict_net, model.inputs, model.outputs)
    assert list(back.params) == list(model.params)
    for name, array in model.params.items():
        np.testing.assert_array_equal(back.params[name], array)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("before", ["nothing", "pb", "pbtxt"])
@pytest.mark.parametrize("renames", [1, 2])
def test_a_reader_finds_the_model_whose_save_was_killed_between_its_renames(
    tmp_path: Path, before: str, renames: int
) -> None:
    if before != "nothing":
        c2.save(model_of([parameter("float", [0], np.float32)]), tmp_path, before)
    process = os.fork()
    if not process:
        rename, seen = Path.replace, 0

        def counted(self: Path, target: Path) -> Path:
            nonlocal seen
            seen += 1
            if seen > renames:  # the first one says that the others are to come
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.replace = counted  # type: ignore[method-assign, assignment]
        c2.save(model_of([parameter("float", [1], np.float32)]), tmp_path)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    for path in (tmp_path, tmp_path / "predict_net.pb"):
        model = c2.load(path)
        assert (model.predict_net.name, model.params["float"].tolist()) == ("predict", [1])
    assert (tmp_path / ".caffe2-bridge-save").exists()  # reading changes nothing


def test_a_net_that_caffe2_does_not_read_is_written_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of([parameter("float", np.ones(100), np.float32)])
    c2.save(model, tmp_path)
    assert not caplog.messages
    monkeypatch.setattr("caffe2_bridge.files.saver._LIMIT", 400)
    c2.save(model, tmp_path)
    (message,) = caplog.messages
    assert "init_net.pb has 4" in message
    assert message.endswith("and Caffe2 reads no net above 2 GB; save the model in the format minidb for it")
    assert c2.load(tmp_path).params["float"].sum() == 100


def test_a_value_that_minidb_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minidb, "_LONGEST", 1000)
    large = parameter("weight", np.full(1000, 200), np.uint8, scale=0.5, zero_point=128)
    with pytest.raises(c2.BridgeError, match=r"blob 'weight' takes 2,0.* bytes, but minidb allows at most 1,000"):
        c2.save(model_of([large]), tmp_path / "m", "minidb")
    assert not list(tmp_path.iterdir())


def test_what_is_not_a_model_is_not_saved(tmp_path: Path) -> None:
    for given in (NetDef(), None):
        with pytest.raises(c2.BridgeError, match=r"expected a Model, got \w+: make one by Model\.of"):
            c2.save(given, tmp_path / "m")  # type: ignore[arg-type] # what a caller may pass
    assert not (tmp_path / "m").exists()
