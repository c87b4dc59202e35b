from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa import (
    get_consumer_map,
    get_external_blob_names,
    get_op_ids_in_path,
    get_output_producers,
    get_producer_map,
    get_ssa,
    get_undefined_blobs,
)


def net(*ops: tuple[str, str], inputs: str = "", outputs: str = "") -> NetDef:
    result = NetDef(external_input=inputs.split(), external_output=outputs.split())
    for reads, writes in ops:
        result.op.add(type="Op", input=reads.split(), output=writes.split())
    return result


def test_versions_count_writes() -> None:
    ssa, versions = get_ssa(net(("x", "y"), ("y", "x"), ("x y", "y"), inputs="x"))
    assert ssa == [([("x", 0)], [("y", 1)]), ([("y", 1)], [("x", 1)]), ([("x", 1), ("y", 1)], [("y", 2)])]
    assert versions == {"x": 1, "y": 2}


def test_undeclared_inputs_are_versions_zero_only_without_declared_ones() -> None:
    assert get_ssa(net(("x w", "y")))[1] == {"x": 0, "w": 0, "y": 1}
    ssa, versions = get_ssa(net(("x w", "y"), inputs="x"))
    assert versions == {"x": 0, "y": 1}
    assert ssa[0][0] == [("x", 0), ("w", 0)]


def test_an_output_listed_twice_has_the_higher_version_at_both_places() -> None:
    assert get_ssa(net(("x", "y y")))[0][0][1] == [("y", 2), ("y", 2)]


def test_versions_chain_nets() -> None:
    _, versions = get_ssa(net(("", "w"), ("w", "w")))
    ssa, chained = get_ssa(net(("w", "y"), inputs="w"), versions)
    assert chained is versions
    assert ssa == [([("w", 2)], [("y", 1)])]
    assert get_undefined_blobs(ssa) == set()


def test_bytes_are_a_net() -> None:
    assert get_ssa(net(("x", "y")).SerializeToString()) == get_ssa(net(("x", "y")))


def test_maps() -> None:
    ssa, _ = get_ssa(net(("x", "a b"), ("a x", "a"), ("a a", "c")))
    assert get_undefined_blobs(ssa) == {"x"}
    assert get_output_producers(ssa) == {("a", 1): 0, ("b", 1): 0, ("a", 2): 1, ("c", 1): 2}
    assert get_producer_map(ssa) == {("a", 1): (0, 0), ("b", 1): (0, 1), ("a", 2): (1, 0), ("c", 1): (2, 0)}
    assert get_consumer_map(ssa) == {("x", 0): [(0, 0), (1, 1)], ("a", 1): [(1, 0)], ("a", 2): [(2, 0), (2, 1)]}


def test_operators_in_the_path() -> None:
    ssa, versions = get_ssa(net(("x", "a"), ("x", "b"), ("a", "c"), ("c b", "d"), ("d", "e"), inputs="x"))
    assert get_op_ids_in_path(ssa, versions, ["x"], ["d"]) == [0, 1, 2, 3]
    assert get_op_ids_in_path(ssa, versions, ["c", "b"], ["d"]) == [3]
    assert get_op_ids_in_path(ssa, versions, ["d"], ["d"]) == []


def test_inputs_of_the_path_are_taken_at_their_last_version() -> None:
    ssa, versions = get_ssa(net(("x", "a"), ("a", "a"), ("a", "b"), inputs="x"))
    assert get_op_ids_in_path(ssa, versions, ["a"], ["b"]) == [2]
    ssa, versions = get_ssa(net(("x", "a"), ("a", "b"), ("x", "a"), inputs="x"))
    assert get_op_ids_in_path(ssa, versions, ["a"], ["b"]) == [0, 1]


def test_a_path_to_what_is_not_there_is_an_error() -> None:
    ssa, versions = get_ssa(net(("x", "a")))
    with pytest.raises(BridgeError, match="'nowhere'"):
        get_op_ids_in_path(ssa, versions, ["x"], ["nowhere"])


def test_external_blob_names() -> None:
    body = net(("w x", "a"), ("a", "y"), ("y", "x"))
    inputs, outputs = get_external_blob_names(body, {"x", "y", "w", "z"})
    assert inputs == {"w", "x"}
    assert list(inputs) == ["w", "x"]
    assert list(outputs) == ["y", "x"]


def test_external_blob_that_the_scope_lacks_is_named() -> None:
    body = net(("x q", "a"), ("r", "b"))
    body.name = "body"
    with pytest.raises(BridgeError, match=r"body reads blobs that its scope lacks: 'q', 'r'"):
        get_external_blob_names(body, ["x", "a"])
