"""Maps: what real Caffe2 1.9.1 did with the same operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.host.objects.maps import HostMap
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto


def put(workspace: Workspace, keys: Any, values: Any) -> None:
    workspace.feed("keys", keys)
    workspace.feed("values", values)
    workspace.run_operator_once(operator("KeyValueToMap", ["keys", "values"], ["m"]))


def entries(workspace: Workspace) -> tuple[str, str, dict[int, int]]:
    workspace.run_operator_once(operator("MapToKeyValue", ["m"], ["k", "v"]))
    keys, values = (np.asarray(workspace.fetch(name)) for name in "kv")
    assert keys.shape == values.shape == (keys.size,)
    return keys.dtype.name, values.dtype.name, dict(zip(keys.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("key", [np.int32, np.int64])
@pytest.mark.parametrize("value", [np.int32, np.int64])
def test_keys_and_values(key: Any, value: Any) -> None:
    workspace = Workspace()
    put(workspace, np.array([3, 1, 2], key), np.array([30, 10, 20], value))
    assert entries(workspace) == (key.__name__, value.__name__, {3: 30, 1: 10, 2: 20})


def test_entries_are_added_to_a_map_that_is_there() -> None:
    workspace = Workspace()
    workspace.run_operator_once(
        operator("CreateMap", [], ["m"], key_dtype=TensorProto.INT64, value_dtype=TensorProto.INT64)
    )
    assert entries(workspace) == ("int64", "int64", {})
    put(workspace, np.array([3, 1, 1]), np.array([30, 10, 11]))
    put(workspace, np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    assert entries(workspace)[2] == {3: 30, 1: 10, 2: 2, 4: 4}
    put(workspace, np.array([1], np.int32), np.array([9]))  # of other types: another map
    assert entries(workspace) == ("int32", "int64", {1: 9})


def test_refused_maps() -> None:
    workspace = Workspace()
    with pytest.raises(RunError, match="must be INT32 or INT64"):
        workspace.run_operator_once(operator("CreateMap", [], ["m"], value_dtype=TensorProto.FLOAT))
    with pytest.raises(RunError, match="blob 'values' must hold int32 or int64, not float32"):
        put(workspace, np.array([1]), np.array([1], np.float32))
    with pytest.raises(RunError, match="2 keys, and 1 values"):
        put(workspace, np.array([1, 2]), np.array([1]))


def test_the_type_is_named_as_in_caffe2() -> None:
    assert HostMap(np.dtype(np.int64), np.dtype(np.int32)).type_name == (
        "std::unordered_map<long int, int, std::hash<long int>, std::equal_to<long int>, "
        "std::allocator<std::pair<const long int, int> > >"
    )
