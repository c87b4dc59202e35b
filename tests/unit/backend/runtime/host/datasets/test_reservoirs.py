from __future__ import annotations

import numpy as np
import pytest

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.proto.caffe2_pb2 import TensorProto


@pytest.fixture
def workspace() -> Workspace:
    """A workspace with what collectors keep, before they ran."""
    workspace = Workspace(seed=0)
    for name, value in {"kept": np.empty(0, np.float32), "next": np.int32(0), "visited": np.int64(0)}.items():
        workspace.feed(name, value)
    workspace.run_operator_once(make_operator("CreateMutex", [], ["mutex"]))
    return workspace


def rows(*first: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([[i, -i] for i in first], np.float32).reshape(-1, 2)


def sample(workspace: Workspace, *ids: int, count: int | None = None) -> None:
    workspace.feed("data", rows(*range(len(ids) if count is None else count)))
    workspace.feed("ids", np.array(ids, np.int64))
    inputs = ["kept", "visited", "data", "mutex", "ids", "positions", "objects"]
    op = make_operator("ReservoirSampling", inputs, ["kept", "visited", "positions", "objects"], num_to_collect=3)
    workspace.run_operator_once(op)


def test_a_reservoir_of_objects(workspace: Workspace) -> None:
    types = {"key_dtype": TensorProto.INT64, "value_dtype": TensorProto.INT32}
    workspace.run_operator_once(make_operator("CreateMap", [], ["positions"], **types))
    workspace.feed("objects", np.empty(0, np.int64))
    sample(workspace, 7, 8, 7)
    sample(workspace, 7, 8, 7)
    assert int(workspace.fetch("visited")) == 2  # type: ignore[arg-type] # a tensor
    assert workspace.fetch("objects").tolist() == [7, 8]  # type: ignore[union-attr] # a tensor
    sample(workspace, 9, 10, 11, 12)
    assert int(workspace.fetch("visited")) == 6  # type: ignore[arg-type] # a tensor
    assert workspace.fetch("kept").shape == (3, 2)  # type: ignore[union-attr] # a tensor
    workspace.run_operator_once(make_operator("MapToKeyValue", ["positions"], ["keys", "values"]))
    keys, values = workspace.fetch("keys"), workspace.fetch("values")
    objects = workspace.fetch("objects")
    assert dict(zip(keys, values, strict=True)) == {key: i for i, key in enumerate(objects)}  # type: ignore[arg-type] # tensors
    with pytest.raises(RunError, match=r"object_id must have 4 elements, not shape \[2\]"):
        sample(workspace, 1, 2, count=4)


def test_every_row_is_as_likely_as_another(workspace: Workspace) -> None:
    found = np.zeros(10)
    op = make_operator("ReservoirSampling", ["kept", "visited", "data", "mutex"], ["kept", "visited"], num_to_collect=3)
    workspace.feed("data", np.arange(10, dtype=np.float32))
    for _ in range(1000):
        workspace.feed("kept", np.empty(0, np.float32))
        workspace.run_operator_once(op)
        kept = workspace.fetch("kept")
        found[np.asarray(kept, np.int64)] += 1
    assert found.sum() == 3000
    assert 230 < found.min() <= found.max() < 370


def test_packed_records(workspace: Workspace) -> None:
    workspace.feed("field", np.float32([1, 2, 3]))
    workspace.run_operator_once(make_operator("PackRecords", ["field"], ["packed"], fields=["f"]))
    op = make_operator(
        "ReservoirSampling", ["kept", "visited", "packed", "mutex"], ["kept", "visited"], num_to_collect=3
    )
    workspace.run_operator_once(op)
    workspace.run_operator_once(make_operator("UnPackRecords", ["kept", "field"], ["out"], fields=["f"]))
    assert workspace.fetch("out").tolist() == [1, 2, 3]  # type: ignore[union-attr] # a tensor


def test_rows_that_do_not_fit(workspace: Workspace) -> None:
    def run(data: object, limit: int = 3) -> None:
        workspace.feed("data", data)
        inputs, outputs = ["kept", "visited", "data", "mutex"], ["kept", "visited"]
        workspace.run_operator_once(make_operator("ReservoirSampling", inputs, outputs, num_to_collect=limit))

    run(rows(1))
    with pytest.raises(RunError, match=r"rows of shape \[3\] do not fit those of shape \[2\] that were collected"):
        run(np.ones((1, 3), np.float32))
    with pytest.raises(RunError, match="must have a dim at least"):
        run(np.float32(1))
    with pytest.raises(RunError, match="num_to_collect must be positive, not 0"):
        run(rows(1), limit=0)
