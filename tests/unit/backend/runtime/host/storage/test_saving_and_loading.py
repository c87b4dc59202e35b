"""Save, Checkpoint and Load: what real Caffe2 1.9.1 does with the same operators, and files that both can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.workspace.transcripts import Call, compare

from caffe2_backend import Workspace
from caffe2_backend.databases import Mode, create_database
from caffe2_backend.runtime import NoBlobError
from caffe2_backend.runtime.values import Array, Int8Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import BlobSerializationOptions, OperatorDef, SerializationOptions

ARRAYS: dict[str, Array] = {
    "f": np.arange(5, dtype=np.float32), "d": np.arange(3.0), "i": np.array([1, -2], np.int32),
    "l": np.array([1, -2]), "h": np.array([1.5, -2], np.float16), "u8": np.array([1, 200], np.uint8),
    "i8": np.array([1, -2], np.int8), "b": np.array([True, False]), "u16": np.array([1, 60000], np.uint16),
    "i16": np.array([1, -2], np.int16), "s": np.array([b"a", b"bcd"], object), "scalar": np.array(3, np.float32),
    "empty": np.zeros((0, 3), np.float32), "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
}  # fmt: skip
KINDS = ["minidb", "lmdb", "leveldb"]


@pytest.fixture
def filled(tmp_path: Path) -> Workspace:
    workspace = Workspace()
    workspace.root_folder = str(tmp_path)
    for name, array in ARRAYS.items():
        workspace.feed(name, array)
    workspace.feed("text", b"hello")
    workspace.feed("q", Int8Tensor(np.array([0, 16], np.uint8), 0.5, 8))
    return workspace


def save(inputs: list[str], op_type: str = "Save", **args: Any) -> OperatorDef:
    return operator(op_type, inputs, [], **{"db": "saved", "db_type": "minidb", **args})


def load(outputs: list[str], inputs: list[str] | None = None, **args: Any) -> OperatorDef:
    return operator("Load", inputs or [], outputs, **{"db": "saved", "db_type": "minidb", **args})


def keys(path: Path, kind: str = "minidb") -> list[str]:
    return [key.decode() for key, _ in create_database(kind, path, Mode.READ).cursor().records()]


def emptied(workspace: Workspace) -> Workspace:
    workspace.reset()
    return workspace


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_blob_is_saved_and_loaded(kind: str, filled: Workspace) -> None:
    pytest.importorskip({"lmdb": "lmdb", "leveldb": "plyvel"}.get(kind, "numpy"))
    filled.run_operator_once(operator("CreateCounter", [], ["counter"], init_count=5))
    names = [*ARRAYS, "text", "q", "counter"]
    filled.run_operator_once(save(names, db_type=kind))
    emptied(filled).run_operator_once(load(names, db_type=kind))
    for name, array in ARRAYS.items():
        found = filled.fetch(name)
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())
    assert filled.fetch("text") == b"hello"
    quantized = filled.fetch("q")
    assert isinstance(quantized, Int8Tensor)
    assert (quantized.data.tolist(), quantized.scale, quantized.zero_point) == ([0, 16], 0.5, 8)
    filled.run_operator_once(operator("RetrieveCount", ["counter"], ["count"]))
    assert filled.fetch("count") == np.int64(5)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, ["f#%0", "matrix#%0", "s#%0"]),
        ({"chunk_size": 2}, ["f#%0", "f#%1", "f#%2", "matrix#%0", "matrix#%1", "matrix#%2", "s#%0"]),
        ({"chunk_size": 0}, ["f#%0", "matrix#%0", "s#%0"]),
        ({"blob_name_overrides": ["F", "M", "S"]}, ["F#%0", "M#%0", "S#%0"]),
        ({"strip_prefix": "mat"}, ["f#%0", "rix#%0", "s#%0"]),
    ],
)
def test_names_and_chunks(args: dict[str, Any], expected: list[str], filled: Workspace, tmp_path: Path) -> None:
    filled.run_operator_once(save(["f", "matrix", "s"], **args))
    assert keys(tmp_path / "saved") == expected


def test_options_are_those_of_the_first_expression_that_matches(filled: Workspace, tmp_path: Path) -> None:
    options = SerializationOptions()
    options.options.add(blob_name_regex="x|mat.*", chunk_size=4)
    options.options.add(blob_name_regex="matrix", chunk_size=1)
    options.options.add(blob_name_regex="f", float_format=BlobSerializationOptions.FLOAT_BFLOAT16)
    filled.feed("f", np.array([1.00390625, -2.71828, np.inf], np.float32))
    filled.run_operator_once(save(["f", "matrix"], options=options.SerializeToString()))
    assert keys(tmp_path / "saved") == ["f#%0", "matrix#%0", "matrix#%1"]
    emptied(filled).run_operator_once(load(["f"]))
    assert np.array_equal(np.asarray(filled.fetch("f")), np.array([1.0078125, -2.71875, np.inf], np.float32))
    for damaged in (b"\xff", SerializationOptions(options=[{"blob_name_regex": "("}]).SerializeToString()):
        with pytest.raises(RunError, match="options"):
            filled.run_operator_once(save(["f"], options=damaged))


@pytest.mark.parametrize(
    ("inputs", "args", "message"),
    [
        (["f", "f"], {}, "two inputs are saved as 'f'"),
        (["f"], {"blob_name_overrides": ["a", "b"]}, "must have a name for each input"),
        (["f"], {"db": ""}, "the argument db must be the path"),
        (["f"], {"db_type": "rocks"}, "the argument db_type must be one of minidb"),
        (["f"], {"db": "none/saved"}, "none does not exist"),
    ],
)
def test_what_cannot_be_saved_is_an_error(
    inputs: list[str], args: dict[str, Any], message: str, filled: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=message):
        filled.run_operator_once(save(inputs, **args))
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_database_as_it_was(filled: Workspace, tmp_path: Path) -> None:
    filled.run_operator_once(save(["f"]))
    filled.run_operator_once(operator("CreateAtomicBool", [], ["flag"]))
    for blob, error in (("flag", RunError), ("absent", NoBlobError)):
        with pytest.raises(error, match=blob):
            filled.run_operator_once(save(["matrix", blob]))
    assert keys(tmp_path / "saved") == ["f#%0"]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_paths_are_below_the_root_folder_unless_absolute(filled: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    filled.run_operator_once(save(["f"], db="a/b"))
    filled.run_operator_once(save(["f"], db=str(tmp_path / "c"), absolute_path=1))
    assert keys(tmp_path / "a" / "b") == keys(tmp_path / "c") == ["f#%0"]
    for name, expected in (("c", True), ("d", False)):
        filled.run_operator_once(operator("DBExists", [], ["e"], db_name=name, db_type="minidb"))
        assert filled.fetch("e") == np.bool_(expected)


@pytest.mark.parametrize(
    ("outputs", "args", "expected"),
    [
        (["f"], {}, ["f"]),
        ([], {"load_all": 1}, ["f", "matrix", "s"]),
        (["f"], {"load_all": 1}, ["f", "matrix", "s"]),
        (["f", "z"], {"allow_incomplete": 1}, ["f"]),
        (["p/f"], {"add_prefix": "p/"}, ["p/f"]),
        (["o"], {"source_blob_names": ["f"]}, ["o"]),
        (["p"], {"add_prefix": "p/", "source_blob_names": ["p/f"]}, ["p"]),
        (["rix"], {"strip_prefix": "mat"}, ["rix"]),
        ([], {"load_all": 1, "strip_prefix": "mat", "add_prefix": "q_"}, ["q_f", "q_rix", "q_s"]),
    ],
)
def test_names_of_loaded_blobs(
    outputs: list[str], args: dict[str, Any], expected: list[str], filled: Workspace
) -> None:
    filled.run_operator_once(save(["f", "matrix", "s"], chunk_size=2))
    emptied(filled).run_operator_once(load(outputs, **args))
    assert filled.blobs() == expected


@pytest.mark.parametrize(
    ("outputs", "args", "message"),
    [
        (["f", "z"], {}, "lack 1 of 2 blobs: z"),
        (["z"], {"load_all": 1}, "lack 1 of 1 blobs: z"),
        (["f"], {"add_prefix": "p/"}, "lack 1 of 1 blobs: f"),
        (["a", "b"], {"source_blob_names": ["f"]}, "a name for each output"),
        (["a"], {"source_blob_names": ["f"], "load_all": 1}, "a name for each output"),
        (["a", "b"], {"source_blob_names": ["f", "f"]}, "each blob must be loaded once"),
        (["f"], {"db": "none"}, "none"),
        (["f"], {"dbs": ["saved", "saved"]}, "different databases"),
        (["f", "matrix"], {"dbs": ["saved", "other"]}, "'f' is in several of the databases"),
        ([], {"dbs": ["saved", "other"], "load_all": 1}, "'f' is in several of the databases"),
    ],
)
def test_what_cannot_be_loaded_is_an_error(
    outputs: list[str], args: dict[str, Any], message: str, filled: Workspace
) -> None:
    filled.run_operator_once(save(["f", "s"]))
    filled.run_operator_once(save(["f"], db="other"))
    with pytest.raises(RunError, match=message):
        emptied(filled).run_operator_once(load(outputs, **args))
    assert filled.blobs() == []


def test_incomplete_blobs_are_errors(filled: Workspace, tmp_path: Path) -> None:
    filled.run_operator_once(save(["f"], chunk_size=2))
    records = list(create_database("minidb", tmp_path / "saved", Mode.READ).cursor().records())
    for stored, message in ((records[1:], "2 elements are missing"), ([(b"f", b"\xff")], "'f' is damaged")):
        transaction = create_database("minidb", tmp_path / "part", Mode.NEW).transaction()
        for key, value in stored:
            transaction.put(key, value)
        transaction.commit()
        with pytest.raises(RunError, match=message):
            filled.run_operator_once(load(["f"], db="part"))


def test_blobs_are_loaded_from_a_reader_as_far_as_they_are_needed(filled: Workspace, tmp_path: Path) -> None:
    filled.run_operator_once(save(["f", "matrix"], chunk_size=3))
    filled.run_operator_once(operator("CreateDB", [], ["r"], db=str(tmp_path / "saved"), db_type="minidb"))
    filled.run_operator_once(load(["f"], ["r"]))
    with pytest.raises(RunError, match="'f' is incomplete"):  # the reader is at the last chunk of f
        filled.run_operator_once(load(["f"], ["r"]))
    filled.run_operator_once(operator("CreateDB", [], ["r"], db=str(tmp_path / "saved"), db_type="minidb"))
    filled.run_operator_once(load(["f"], ["r"]))
    filled.run_operator_once(load(["matrix"], ["r"]))


def test_checkpoints_are_named_by_their_iteration(filled: Workspace, tmp_path: Path) -> None:
    for op_type, pattern in (("Checkpoint", "c_%05d%%"), ("Snapshot", "s%ld")):
        for iteration in range(5):
            filled.feed("iter", np.array([iteration]))
            filled.run_operator_once(save(["iter", "f"], op_type, db=pattern, every=2))
    names = ["c_00000%", "c_00002%", "c_00004%", "s0", "s2", "s4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert keys(tmp_path / "s2") == ["iter#%0", "f#%0"]
    with pytest.raises(RunError, match="int64"):
        filled.run_operator_once(save(["f"], "Checkpoint"))
    with pytest.raises(RunError, match="every must be 1 at least"):
        filled.run_operator_once(save(["iter"], "Checkpoint", every=0))


@pytest.mark.parametrize("pattern", ["%999999999d", "%.4096d", "%3000d%3000d", "%" + "9" * 5000 + "d"])
def test_the_widths_of_a_checkpoint_are_bounded(filled: Workspace, pattern: str) -> None:
    filled.feed("iter", np.array([2]))
    with pytest.raises(RunError, match="widths in the argument db add up to more than a path has") as raised:
        filled.run_operator_once(save(["iter"], "Checkpoint", db=pattern))
    assert len(str(raised.value)) < 200


@pytest.mark.oracle
def test_files_are_those_of_caffe2(tmp_path: Path) -> None:
    """Compare the operators' results and files' bytes in real Caffe2 and here; then read what the other one wrote."""
    options = SerializationOptions()
    options.options.add(blob_name_regex="f", float_format=BlobSerializationOptions.FLOAT_BFLOAT16)
    quantized = operator("Int8GivenTensorFill", [], ["q"], shape=[2], values=b"\x00\x10", Y_scale=0.5, Y_zero_point=8)
    counter = operator("CreateCounter", [], ["counter"], init_count=5)
    fed = [("FeedBlob", name, array) for name, array in ARRAYS.items()]
    made: list[Call] = [*fed, ("FeedBlob", "text", b"t"), ("RunOperatorOnce", quantized), ("RunOperatorOnce", counter)]
    names = [*ARRAYS, "text", "q"]
    path = str(tmp_path / "saved")
    transcripts = []
    for args in ({}, {"chunk_size": 2}, {"options": options.SerializeToString()}):
        op = save([*names, "counter"], db=path, absolute_path=1, **args)
        read = load([*names, "counter"], db=path, absolute_path=1)
        transcripts.append([
            *made, ("RunOperatorOnce", op), ("read_minidb", path), ("ResetWorkspace",), ("RunOperatorOnce", read),
            *(("FetchBlob", name) for name in [*ARRAYS, "text"]), ("SerializeBlob", "q"), ("SerializeBlob", "counter"),
        ])  # fmt: skip
    compare(transcripts, tmp_path)
