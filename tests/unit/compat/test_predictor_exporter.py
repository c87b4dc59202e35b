"""Predictors are saved as real Caffe2's predictor exporter saves them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conformance.oracle import find_oracle
from conformance.recording import operator

import caffe2_bridge as c2
from caffe2_backend import NoBlobError, OptionError, predictor_exporter, workspace
from caffe2_bridge.builder import BuildError, Net
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, DeviceOption, NetDef
from caffe2_bridge.proto.metanet_pb2 import MetaNetDef
from caffe2_compat.predictor_exporter import PredictorExportMeta, load_from_db, prepare_prediction_net, save_to_db

X = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
KEYS = ["PREDICT_INIT_NET_TYPE", "GLOBAL_INIT_NET_TYPE", "PREDICT_NET_TYPE"]

# Loads a database as Caffe2's own loader does, runs it, and saves it again with Caffe2's own exporter.
CAFFE2 = """
import sys
import numpy as np
from caffe2.python import core, workspace
from caffe2.python.predictor import predictor_exporter as pe
database, known, copy, message = sys.argv[1:]
net = pe.prepare_prediction_net(database, "minidb")
known = np.load(known)
zeros = workspace.FetchBlob("x")
assert zeros.shape == known["x"].shape and not zeros.any()
workspace.FeedBlob("x", known["x"])
workspace.RunNet(net)
np.testing.assert_allclose(workspace.FetchBlob("y"), known["y"], rtol=1e-5)
extra, later = core.Net("extra"), core.Net("global_extra")
extra.ConstantFill([], "gain", shape=[1], value=2.0)
later.ConstantFill([], "shift", shape=[1], value=1.0)
meta = pe.PredictorExportMeta(
    predict_net=net.Proto(), parameters=["w", "b", "gain", "shift"], inputs=["x"], outputs=["y"], shapes={"x": (2, 5)},
    extra_init_net=extra, global_init_net=later, net_type="simple", num_workers=2)
pe.save_to_db("minidb", copy, meta)
open(message, "wb").write(pe.get_meta_net_def(meta).SerializeToString())
"""

pytestmark = pytest.mark.usefixtures("empty_workspace")


def predictor() -> PredictorExportMeta:
    """Feed the parameters and inputs of a net, run it, and describe it."""
    generator = np.random.default_rng(1)
    net = Net("net")
    net.Mul([net.FC(["x", "w", "b"], "fc"), "gain"], "scaled", broadcast=1)
    net.Add(["scaled", "shift"], "y", broadcast=1)
    net.proto.arg.add(name="model_id", i=7)
    for name, shape in {"w": (3, 5), "b": (3,), "gain": (1,), "shift": (1,)}.items():
        workspace.FeedBlob(name, generator.standard_normal(shape).astype(np.float32))
    workspace.FeedBlob("gain", np.array([2], np.float32))
    workspace.FeedBlob("shift", np.array([1], np.float32))
    workspace.FeedBlob("x", X)
    workspace.RunNetOnce(net)
    extra, later = Net("extra"), Net("global_extra")
    extra.ConstantFill([], "gain", shape=[1], value=2.0)
    later.ConstantFill([], "shift", shape=[1], value=1.0)
    return PredictorExportMeta(
        net, ["w", "b", "gain", "shift"], ["x"], ["y"], {"x": (2, 5)}, extra_init_net=extra, global_init_net=later,
        net_type="simple", num_workers=2,
    )  # fmt: skip


@pytest.mark.parametrize("db_type", ["minidb", "lmdb"])
def test_saved_predictors_are_loaded(db_type: str, tmp_path: Path) -> None:
    if db_type == "lmdb":
        pytest.importorskip("lmdb")
    meta = predictor()
    y = workspace.FetchBlob("y")
    save_to_db(db_type, tmp_path / "database", meta)
    workspace.ResetWorkspace()
    net = prepare_prediction_net(tmp_path / "database", db_type)
    assert workspace.FetchBlob("x").tolist() == np.zeros((2, 5)).tolist()  # type: ignore[union-attr] # an array
    workspace.FeedBlob("x", X)
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), y)
    assert c2.load(tmp_path / "database").inputs == ("x",)


def test_nets_of_a_database(tmp_path: Path) -> None:
    save_to_db("minidb", tmp_path / "database", predictor())
    meta = load_from_db(tmp_path / "database", device_option=DeviceOption(device_type=PROTO_CPU, device_id=3))
    assert [item.key for item in meta.nets] == KEYS
    assert {op.device_option.device_id for item in meta.nets for op in item.value.op} == {3}
    nets = {item.key: item.value for item in meta.nets}
    assert [op.output[0] for op in nets["PREDICT_INIT_NET_TYPE"].op] == ["x", "y", "gain"]
    assert [(op.type, list(op.output)) for op in nets["GLOBAL_INIT_NET_TYPE"].op] == [
        ("Load", ["w", "b", "gain", "shift"]),
        ("ConstantFill", ["shift"]),
    ]
    assert [net.arg[0].i for net in nets.values()] == [7, 7, 7]
    assert {item.key: list(item.value) for item in meta.blobs} == {
        "PARAMETERS_BLOB_TYPE": ["w", "b", "gain", "shift"], "INPUTS_BLOB_TYPE": ["x"], "OUTPUTS_BLOB_TYPE": ["y"],
    }  # fmt: skip
    with pytest.raises(OptionError, match="db_type must be one of minidb, lmdb, leveldb, not 'rocksdb'"):
        load_from_db(tmp_path / "database", "rocksdb")


def test_roles_that_contradict_one_another() -> None:
    net = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])])
    with pytest.raises(BuildError, match="inputs of a predictor must be unique: x, x"):
        PredictorExportMeta(net, [], ["x", "x"], ["y"])
    with pytest.raises(BuildError, match="parameters and outputs of a predictor must be disjoint, but share y"):
        PredictorExportMeta(net, ["y"], ["x"], ["y"])
    meta = PredictorExportMeta(net, ["w"], ["x"], ["y"], name="one", trainer_prefix="t")
    assert meta.parameters_name() == "PARAMETERS_BLOB_TYPE_one"
    assert meta.train_plan_name() == "t_TRAIN_PLAN_TYPE_one"
    with pytest.raises(NoBlobError, match="'x'"):
        predictor_exporter.get_meta_net_def(meta)
    shapes = {"x": (1,), "y": (1,)}
    with pytest.raises(BuildError, match="net 'n' reads x, which are neither inputs nor parameters"):
        save_to_db("minidb", "absent", PredictorExportMeta(net, [], [], ["y"], shapes))
    known = PredictorExportMeta(net, ["w"], ["x"], ["y"], shapes)
    with pytest.raises(NoBlobError, match="'w'"):
        save_to_db("minidb", "absent", known)


def without_names(meta: MetaNetDef) -> MetaNetDef:
    """Return the message without names of nets, which Caffe2 numbers, empty operator names, and duplicate inputs."""
    for item in meta.nets:
        item.value.ClearField("name")
        for op in item.value.op:
            op.ClearField("name")
        names = list(dict.fromkeys(item.value.external_input))
        del item.value.external_input[:]
        item.value.external_input.extend(names)
    return meta


@pytest.mark.oracle
def test_real_caffe2_reads_and_writes_the_same(tmp_path: Path) -> None:
    meta = predictor()
    np.savez(tmp_path / "known.npz", x=X, y=workspace.FetchBlob("y"))
    save_to_db("minidb", tmp_path / "own", meta)
    arguments = [tmp_path / "own", tmp_path / "known.npz", tmp_path / "theirs", tmp_path / "message"]
    command = [str(find_oracle()), "-c", CAFFE2, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = MetaNetDef.FromString((tmp_path / "message").read_bytes())
    assert without_names(predictor_exporter.get_meta_net_def(meta)) == without_names(theirs)
    own, loaded = c2.load(tmp_path / "own").params, c2.load(tmp_path / "theirs").params
    assert {name: value.tolist() for name, value in own.items()} == {
        name: value.tolist() for name, value in loaded.items()
    }
