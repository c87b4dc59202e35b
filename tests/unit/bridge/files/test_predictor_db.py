"""Predictor databases: real Caffe2's are read, ours are read by real Caffe2, and both compute the same."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.oracle import find_oracle
from support.formats import writable_formats

import caffe2_bridge as c2
from caffe2_bridge.files.databases import minidb
from caffe2_bridge.files.predictor_db import PREDICT_NET
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, NetDef
from caffe2_bridge.wire import Span

needs_plyvel = pytest.mark.skipif("leveldb" not in writable_formats(), reason="plyvel is not installed")
LAYOUTS = ["pb", "pbtxt", "minidb", "lmdb", pytest.param("leveldb", marks=needs_plyvel)]
NAMES = {"single": None, "wide": "wide", "narrow": "narrow"}

# Exports three predictors to a folder as Caffe2's own exporter does: one alone, and two in one database. Their inputs
# and outputs go to known.npz.
EXPORT = """
import sys
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.predictor import predictor_exporter as pe, serde
folder = sys.argv[1]
generator = np.random.RandomState(7)
known = {}

def predictor(name, hidden):
    scope = name + "/"
    net = core.Net(name)
    net.Conv([scope + "x", scope + "w", scope + "b"], scope + "conv", kernel=3, pad=1)
    net.Relu(scope + "conv", scope + "conv")
    net.FC([scope + "conv", scope + "fc_w", scope + "fc_b"], scope + "fc")
    net.Gather([scope + "table", scope + "ids"], scope + "rows")
    net.Add([scope + "fc", scope + "rows"], scope + "sum")
    net.Mul([scope + "sum", scope + "gain"], scope + "y", broadcast=1)
    values = {
        "w": generator.randn(hidden, 2, 3, 3).astype(np.float32), "b": generator.randn(hidden).astype(np.float32),
        "fc_w": generator.randn(5, hidden * 16).astype(np.float32), "fc_b": generator.randn(5).astype(np.float32),
        "table": generator.randn(300, 5).astype(np.float32), "ids": np.array([299, 0, 7], np.int64),
    }
    for key, value in values.items():
        workspace.FeedBlob(scope + key, value)
    x = generator.randn(3, 2, 4, 4).astype(np.float32)
    workspace.FeedBlob(scope + "x", x)
    extra = core.Net(name + "_extra")
    extra.ConstantFill([], scope + "gain", shape=[1], value=0.5)
    workspace.RunNetOnce(extra)
    workspace.RunNetOnce(net)
    y = workspace.FetchBlob(scope + "y")
    known[name + "/in"], known[name + "/out"] = x, y
    workspace.FeedBlob(scope + "gain", np.array([9], np.float32))  # what is stored, and made anew by the init net
    return pe.PredictorExportMeta(
        predict_net=net.Proto(), parameters=[scope + key for key in values] + [scope + "gain"], inputs=[scope + "x"],
        outputs=[scope + "y"], shapes={scope + "x": (3, 2, 4, 4), scope + "y": (3, 5)},
        name="" if name == "single" else name, extra_init_net=extra)

pe.save_to_db("minidb", folder + "/single", predictor("single", 4), chunk_size=1000)
metas = [predictor("wide", 8), predictor("narrow", 2)]
both = pe.get_meta_net_def(metas[0])
both.MergeFrom(pe.get_meta_net_def(metas[1]))
both.modelInfo.predictorType = "MULTI_PREDICTOR"
workspace.FeedBlob("!!META_NET_DEF", serde.serialize_protobuf_struct(both))
blobs = ["!!META_NET_DEF"] + metas[0].parameters + metas[1].parameters
workspace.RunOperatorOnce(core.CreateOperator(
    "Save", blobs, [], absolute_path=True, db=folder + "/several", db_type="minidb"))
np.savez(folder + "/known.npz", **known)
"""

# Loads each database in a folder as Caffe2's own loader does, and runs it.
RUN = """
import sys
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.predictor import predictor_exporter as pe
known, results = np.load(sys.argv[2]), {}
for path in sys.argv[4:]:
    workspace.ResetWorkspace()
    net = pe.prepare_prediction_net(path, "minidb", device_option=core.DeviceOption(caffe2_pb2.CPU))
    name = net.Proto().external_output[0].split("/")[0]
    workspace.FeedBlob(name + "/x", known[name + "/in"])
    workspace.RunNet(net)
    results[path[len(sys.argv[1]) + 1:]] = workspace.FetchBlob(name + "/y")
np.savez(sys.argv[3], **results)
"""


def caffe2(script: str, *arguments: object) -> None:
    command = [str(find_oracle()), "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predictors")
    caffe2(EXPORT, folder)
    return folder


@cache
def known(folder: Path) -> dict[str, Any]:
    with np.load(folder / "known.npz") as found:
        return dict(found)


def loaded(folder: Path, name: str) -> c2.Model:
    return c2.load(folder / ("single" if name == "single" else "several"), predictor=NAMES[name])


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_what_real_caffe2_saves_is_read(exported: Path, name: str) -> None:
    model = loaded(exported, name)
    assert (model.inputs, model.outputs) == ((f"{name}/x",), (f"{name}/y",))
    assert model.init.placeholders[f"{name}/x"].shape == (3, 2, 4, 4)
    assert set(model.params) == {f"{name}/{key}" for key in ("w", "b", "fc_w", "fc_b", "table", "ids", "gain")}
    assert model.params[f"{name}/table"].shape == (300, 5)
    assert model.params[f"{name}/gain"].tolist() == [0.5]
    assert model.params[f"{name}/ids"].tolist() == [299, 0, 7]


@pytest.fixture(scope="session")
def results(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, np.ndarray[Any, Any]]:
    """What real Caffe2 computes with its own file -> us -> a format -> us -> our minidb; by predictor and format."""
    folder = tmp_path_factory.mktemp("again")
    for name in NAMES:
        for layout in writable_formats():
            c2.save(loaded(exported, name), folder / "there" / name / layout, layout)
            c2.save(c2.load(folder / "there" / name / layout), folder / f"{name}-{layout}", "minidb")
    databases = sorted(path for path in folder.iterdir() if path.is_file())
    caffe2(RUN, folder, exported / "known.npz", folder / "results.npz", *databases)
    with np.load(folder / "results.npz") as found:
        return dict(found)


@pytest.mark.oracle
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_format_computes_what_real_caffe2_computed(
    exported: Path, results: Mapping[str, np.ndarray[Any, Any]], name: str, layout: str
) -> None:
    np.testing.assert_array_equal(results[f"{name}-{layout}"], known(exported)[f"{name}/out"])


@pytest.mark.oracle
def test_several_predictors_are_named(exported: Path) -> None:
    with pytest.raises(c2.NetFormatError, match="several predictors: 'wide', 'narrow'; name one") as caught:
        c2.load(exported / "several")
    assert caught.value.source == str(exported / "several")
    with pytest.raises(c2.NetFormatError, match="not have predictor 'deep'; it has 'wide', 'narrow'"):
        c2.load(exported / "several", predictor="deep")
    with pytest.raises(c2.NetFormatError, match="not have predictor 'wide'; it has ''"):
        c2.load(exported / "single", predictor="wide")


@pytest.mark.oracle
def test_our_records_are_real_caffe2s(exported: Path, tmp_path: Path) -> None:
    """Compare with those of real Caffe2, but for the nets, and what is said of the device."""
    c2.save(loaded(exported, "narrow"), tmp_path / "ours", "minidb")
    ours, theirs = (
        {key: value.tobytes() for key, value in minidb.records(Span.of(path.read_bytes())) if "narrow/" in key}
        for path in (tmp_path / "ours", exported / "several")
    )
    assert set(ours) == set(theirs)
    tensors = [key for key in theirs if "gain" not in key]  # theirs is made anew by an init net
    assert len(tensors) == 6
    for key in tensors:
        mine, real = (BlobProto.FromString(values[key]) for values in (ours, theirs))
        for blob in (mine, real):
            blob.tensor.ClearField("device_detail")
            blob.tensor.ClearField("data_format")
        assert mine == real


@pytest.mark.oracle
def test_stored_tensors_come_in_chunks(exported: Path) -> None:
    keys = [key for key, _ in minidb.records(Span.of((exported / "single").read_bytes()))]
    assert sorted(key for key in keys if "table" in key) == ["single/table#%0", "single/table#%1"]


def test_the_unnamed_predictor_goes_first(tmp_path: Path) -> None:
    """Read a database with a predictor without a name and others, such as a companion for training."""
    from caffe2_bridge.files.blobs.record_writer import text_record
    from caffe2_bridge.proto.metanet_pb2 import MetaNetDef, NetsMap

    nets = {PREDICT_NET: NetDef(name="main"), f"{PREDICT_NET}_other": NetDef(name="other")}
    meta = MetaNetDef(nets=[NetsMap(key=key, value=net) for key, net in nets.items()])
    (tmp_path / "m").write_bytes(minidb.record(*text_record("!!META_NET_DEF", meta.SerializeToString())))
    assert c2.load(tmp_path / "m").predict_net.name == "main"
    assert c2.load(tmp_path / "m", predictor="").predict_net.name == "main"
    assert c2.load(tmp_path / "m", predictor="other").predict_net.name == "other"
