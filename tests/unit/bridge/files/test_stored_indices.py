"""Indices in databases: they become operators of the init net."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.recording import operator

from caffe2_bridge import load_init_net
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.saver import save_records
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, NetDef, TensorProto

TYPE = "std::unique_ptr<caffe2::IndexBase>"
KEYS = TensorProto(dims=[2], data_type=TensorProto.INT64, int64_data=[5, 7])


def database(folder: Path, keys: TensorProto = KEYS, content: bytes = b"10 1") -> Path:
    proto = BlobProto(name="i", type=TYPE, tensor=keys, content=content)
    save_records([("i", proto.SerializeToString())], folder / "blobs.minidb", "minidb")
    return folder / "blobs.minidb"


@pytest.mark.parametrize("content", [b"10 1", b"10 0"])
def test_a_database_of_blobs(content: bytes, tmp_path: Path) -> None:
    init = load_init_net(database(tmp_path, content=content))
    assert init.parameters["i:keys"].load().tolist() == [5, 7]
    kinds = ["LongIndexCreate", "IndexLoad", "IndexFreeze"]
    assert [op.type for op in init.rest] == (kinds if content.endswith(b"1") else kinds[:2])
    assert init.rest[0].args.integer("max_elements") == 10


def test_a_net_that_loads_the_index_under_another_name(tmp_path: Path) -> None:
    database(tmp_path)
    load = operator("Load", [], ["j"], db="blobs.minidb", db_type="minidb", source_blob_names=["i"])
    (tmp_path / "init_net.pb").write_bytes(NetDef(op=[load]).SerializeToString())
    init = load_init_net(tmp_path / "init_net.pb")
    assert [(op.type, op.outputs) for op in init.rest] == [
        (kind, ("j",)) for kind in ("LongIndexCreate", "IndexLoad", "IndexFreeze")
    ]
    assert [op.type for op in init.net.op] == ["GivenTensorInt64Fill", *(op.type for op in init.rest)]


@pytest.mark.parametrize(
    ("keys", "content", "reason"),
    [
        (KEYS, b"x", "must have a maximum and a flag"),
        (TensorProto(dims=[1], data_type=TensorProto.FLOAT, float_data=[1]), b"10 1", "must be int32, int64 or texts"),
        (TensorProto(dims=[999], data_type=TensorProto.INT64, int64_data=[5]), b"10 1", "chunk"),
    ],
)
def test_a_damaged_index(keys: TensorProto, content: bytes, reason: str, tmp_path: Path) -> None:
    database(tmp_path, keys, content)
    load = operator("Load", [], ["i"], db="blobs.minidb", db_type="minidb")
    (tmp_path / "init_net.pb").write_bytes(NetDef(op=[load]).SerializeToString())
    with pytest.raises(NetFormatError, match=reason):
        load_init_net(tmp_path / "init_net.pb")
