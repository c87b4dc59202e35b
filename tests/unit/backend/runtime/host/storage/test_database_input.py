"""TensorProtosDBInput and readers: what real Caffe2 1.9.1 returned for the same operators."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.workspace.transcripts import Call, compare

from caffe2_backend import Workspace
from caffe2_backend.databases import Mode, create_database
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto, TensorProtos


def record(index: int, shape: tuple[int, ...] = (2,)) -> bytes:
    """Return a tensor of float32 and a label without dims."""
    image = TensorProto(
        dims=shape, data_type=TensorProto.FLOAT, float_data=[float(index)] * int(np.prod(shape)), name="image"
    )
    label = TensorProto(data_type=TensorProto.INT32, int32_data=[index])
    return TensorProtos(protos=[image, label]).SerializeToString()


def write(path: Path, records: list[bytes]) -> str:
    database = create_database("minidb", path, Mode.NEW)
    transaction = database.transaction()
    for index, content in enumerate(records):
        transaction.put(f"{index:03}".encode(), content)
    transaction.commit()
    return str(path)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return write(tmp_path / "database", [record(i) for i in range(5)])


def reader(path: str, **args: Any) -> OperatorDef:
    return operator("CreateDB", [], ["r"], db=path, db_type="minidb", **args)


def read(**args: Any) -> OperatorDef:
    return operator("TensorProtosDBInput", ["r"], ["x", "y"], **args)


def labels(workspace: Workspace) -> Any:
    return np.asarray(workspace.fetch("y")).tolist()


def test_batches_are_stacked_and_the_database_begins_again(database: str) -> None:
    workspace = Workspace()
    workspace.run_operator_once(reader(database))
    net = workspace.create_net(NetDef(name="net", op=[read(batch_size=2)]))
    seen = []
    for _ in range(4):
        workspace.run_net(net)
        seen.append(labels(workspace))
    assert seen == [[0, 1], [2, 3], [4, 0], [1, 2]]
    assert np.array_equal(np.asarray(workspace.fetch("x")), np.array([[1, 1], [2, 2]], np.float32))


def test_one_record_is_read_without_a_batch_size(database: str) -> None:
    workspace = Workspace()
    workspace.run_operator_once(reader(database, num_shards=2, shard_id=1))
    workspace.run_operator_once(read())
    assert (labels(workspace), np.asarray(workspace.fetch("x")).shape) == (1, (2,))


@pytest.mark.parametrize(("args", "expected"), [({}, [0, 2, 4, 1]), ({"no_prefetch": 1}, [0, 1, 2, 3])])
def test_an_operator_that_runs_once_reads_ahead_by_one(
    args: dict[str, int], expected: list[int], database: str
) -> None:
    workspace = Workspace()
    workspace.run_operator_once(reader(database))
    seen = []
    for _ in range(4):
        workspace.run_operator_once(read(**args))
        seen.append(labels(workspace))
    assert seen == expected


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([b"\xff"], "not a TensorProtos"),
        ([TensorProtos().SerializeToString() or b"\x00"], "not a TensorProtos|a record has 0 tensors"),
        ([record(0), record(1, (3,))], "differ in shape or type"),
    ],
)
def test_records_that_are_no_batch_are_errors(records: list[bytes], message: str, tmp_path: Path) -> None:
    workspace = Workspace()
    workspace.run_operator_once(reader(write(tmp_path / "database", records)))
    net = workspace.create_net(NetDef(name="net", op=[read(batch_size=2)]))
    for _ in range(2):  # it stays so
        with pytest.raises(RunError, match=message):
            workspace.run_net(net)


def test_a_reader_must_be_one() -> None:
    workspace = Workspace()
    workspace.feed("r", np.zeros(1))
    with pytest.raises(RunError, match="'r' must be a caffe2::db::DBReader"):
        workspace.run_operator_once(read())
    for args, message in (({"db": ""}, "must be the path"), ({"db": "none"}, "none"), ({"db_type": "x"}, "'x'")):
        with pytest.raises(RunError, match=message):
            workspace.run_operator_once(operator("CreateDB", [], ["r"], **{"db": "p", "db_type": "minidb", **args}))


def test_a_queue_is_read_as_a_database() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateBlobsQueue", [], ["q"], capacity=8))
    workspace.run_operator_once(operator("CreateBlobsQueueDB", ["q"], ["r"], timeout_secs=0.05))
    for i in range(4):
        workspace.feed("v", record(i))
        workspace.run_operator_once(operator("EnqueueBlobs", ["q", "v"], ["v"]))
    net = workspace.create_net(NetDef(name="net", op=[read(batch_size=2)]))
    for expected in ([0, 1], [2, 3]):
        workspace.run_net(net)
        assert labels(workspace) == expected
    start = time.monotonic()
    with pytest.raises(RunError, match="the cursor is at the end"):
        workspace.run_net(net)
    assert time.monotonic() - start < 5


@pytest.mark.oracle
def test_like_caffe2(database: str, tmp_path: Path) -> None:
    transcripts: list[list[Call]] = []
    for shards in ({}, {"num_shards": 2, "shard_id": 1}, {"num_shards": 3, "shard_id": 2}):
        for args in ({}, {"batch_size": 2}, {"batch_size": 7}, {"batch_size": 2, "no_prefetch": 1}):
            create: Call = ("RunOperatorOnce", reader(database, **shards))
            net = NetDef(name="net", op=[read(**args)])
            fetches: list[Call] = [("FetchBlob", "x"), ("FetchBlob", "y")]
            once: list[Call] = [("RunOperatorOnce", read(**args)), *fetches]
            runs: list[Call] = [("RunNet", "net"), *fetches]
            transcripts += [[create, ("CreateNet", net), *runs * 4], [create, *once * 3, ("SerializeBlob", "r")]]
    compare(transcripts, tmp_path)
