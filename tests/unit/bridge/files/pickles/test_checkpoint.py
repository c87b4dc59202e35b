"""Pickled checkpoints as init nets."""

from __future__ import annotations

import gzip
import io
import pickle  # noqa: TID251 - it writes what is read here
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caffe2_bridge as c2
from caffe2_bridge import NetFormatError, limits
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

NET = NetDef(
    name="predict", op=[OperatorDef(type="FC", input=["x", "w", "b"], output=["y"])], external_input=["x", "w", "b"],
    external_output=["y"],
)  # fmt: skip
BLOBS: dict[Any, Any] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float32), "w_momentum": np.ones((2, 3)),
    "gpu_0/lr": np.float32(0.1), "lr": np.float32(0.1), "iter": 5, "odd": np.ones(1, np.complex64),
}  # fmt: skip
CHECKPOINT = {"blobs": BLOBS, "cfg": "MODEL: {}"}


def tarred(*files: bytes, layout: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=layout) as archive:
        folder = tarfile.TarInfo("x" * 150)
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for index, data in enumerate(files):
            info = tarfile.TarInfo(f"{'long' * 40}/{index}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def write(folder: Path, data: bytes, name: str = "model_final.pkl") -> Path:
    (folder / "predict_net.pb").write_bytes(NET.SerializeToString())
    (folder / name).write_bytes(data)
    return folder / name


PICKLED = pickle.dumps(CHECKPOINT, 2)


@pytest.mark.parametrize(
    "data",
    [
        *(pickle.dumps(CHECKPOINT, protocol) for protocol in range(6)),
        pickle.dumps(BLOBS, 2),
        pickle.dumps({b"blobs": {key.encode(): value for key, value in BLOBS.items()}}, 4),
        gzip.compress(PICKLED),
        tarred(b"notes", PICKLED),
        tarred(PICKLED, layout=tarfile.PAX_FORMAT),
        gzip.compress(tarred(PICKLED)),
    ],
)
def test_checkpoints_are_init_nets(data: bytes, tmp_path: Path) -> None:
    init = c2.load_init_net(write(tmp_path, data))
    assert {name: parameter.load().tolist() for name, parameter in init.parameters.items()} == {
        "w": [[0, 1, 2], [3, 4, 5]],
        "b": [1, 1],
    }
    state, others = init.findings
    assert state.code == others.code == "left-out-blobs"
    assert state.reason.startswith("3 blobs of the checkpoint are left out ('w_momentum', 'gpu_0/lr', 'lr'): momentum")
    assert others.reason.startswith("2 blobs of the checkpoint are left out ('iter', 'odd'): they are not tensors")
    assert [op.type for op in init.net.op] == ["GivenTensorFill"] * 2


def test_a_net_takes_its_checkpoint(tmp_path: Path) -> None:
    path = write(tmp_path, PICKLED)
    named = c2.load(tmp_path / "predict_net.pb", init=path)
    found = c2.load(tmp_path)
    for model in (named, found):
        assert model.inputs == ("x",)
        np.testing.assert_array_equal(model.params["w"], BLOBS["w"])
    assert "weights are read from model_final.pkl" in found.init.findings[-1].reason


def test_a_checkpoint_with_the_name_of_the_net_is_found(tmp_path: Path) -> None:
    write(tmp_path, PICKLED, "predict_net.pkl")
    (tmp_path / "predict_net.pbtxt").write_text(str(NET))
    assert c2.load(tmp_path / "predict_net.pb").inputs == ("x",)


def test_optimizer_state_that_the_net_reads_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, PICKLED)
    net = NetDef()
    net.CopyFrom(NET)
    net.op.add(type="WeightedSum", input=["w", "lr", "w_momentum", "lr"], output=["w"])
    net.external_input.extend(["lr", "w_momentum"])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    assert set(c2.load(tmp_path, path).params) == set(c2.load(tmp_path).params) == {"w", "b", "w_momentum", "lr"}
    assert set(c2.load_init_net(path, optimizer_state=True).parameters) == set(BLOBS) - {"iter", "odd"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pickle.dumps([1], 2), "must have a dict of names to arrays, not a list"),
        (pickle.dumps({1: BLOBS["b"]}, 2), "a key is a int"),
        (pickle.dumps({"w": BLOBS["b"], b"w": BLOBS["b"]}, 4), "a name twice"),
        (pickle.dumps({"a": 1, "blobs": {}}, 2), "no arrays of parameters; it has nothing"),
        (pickle.dumps({"a": 1}, 2), "no arrays of parameters; it has 'a'"),
        (tarred(b"notes"), "the tar archive has no pickles"),
        (tarred(PICKLED, PICKLED), "the tar archive has 2 pickles"),
        (tarred(PICKLED).rstrip(b"\0")[:-9], "the tar archive is truncated"),
        (tarred(PICKLED).replace(b"\x000000000", b"\x000000x00"), "the tar archive is truncated"),
        (gzip.compress(PICKLED)[:-9], "the gzip file is truncated"),
        (gzip.compress(PICKLED)[:-8] + bytes(8), "the gzip file is damaged"),
        (gzip.compress(b"words"), "a gzip file: unpack it first"),
    ],
)
def test_what_is_refused_and_why(data: bytes, reason: str, tmp_path: Path) -> None:
    path = write(tmp_path, data)
    with pytest.raises(NetFormatError, match=reason) as raised:
        c2.load(tmp_path / "predict_net.pb", path)
    assert raised.value.source == str(path)
    assert c2.load(tmp_path).inputs == ("x", "w", "b")  # the search passes over it


def test_unpacking_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(pickle.dumps({"w": np.zeros(1 << 20, np.uint8)})))
    with limits(unpacked_bytes=1 << 19), pytest.raises(NetFormatError, match="--limit unpacked_bytes=1048576"):
        c2.load_init_net(path)


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    path = write(tmp_path, PICKLED)
    with pytest.raises(NetFormatError, match="a pickled checkpoint, which has parameters and no net"):
        c2.load(path)
    with pytest.raises(NetFormatError, match="a pickled checkpoint"):
        c2.files.load_plan(path)


def test_arrays_stay_in_the_file(tmp_path: Path) -> None:
    import tracemalloc

    path = write(tmp_path, pickle.dumps({"w": np.zeros(1 << 24, np.uint8)}))
    tracemalloc.start()
    try:
        init = c2.load_init_net(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        assert init.parameters["w"].load().size == 1 << 24
        assert tracemalloc.get_traced_memory()[1] < 18 << 20
    finally:
        tracemalloc.stop()
