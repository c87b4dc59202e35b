"""Writes to blobs of whose memory others are views."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

ALIAS = operator("Alias", ["x"], ["y"])
IN_PLACE = operator("Relu", ["y"], ["y"])


def codes(*ops: OperatorDef, outputs: list[str]) -> list[tuple[str, str]]:
    written = {name for op in ops for name in op.output if name not in ("x", "z")}
    names = {name for op in ops for name in op.input} - written
    inputs = {name: ("bool", (1,)) if name == "c" else ("float32", (2, 4)) for name in names}
    try:
        to_onnx(NetDef(name="net", op=ops, external_output=outputs), inputs=inputs)
    except ConversionError as error:
        return [(finding.code, str(finding.location)) for finding in error.errors]
    return []


def test_the_source_of_an_alias_is_read_after_a_write() -> None:
    found = [("shared-memory", "net[1] Relu")]
    assert codes(ALIAS, IN_PLACE, outputs=["x", "y"]) == found
    assert codes(ALIAS, IN_PLACE, operator("Abs", ["x"], ["z"]), outputs=["y", "z"]) == found
    assert codes(ALIAS, operator("Relu", ["x"], ["x"]), outputs=["x", "y"]) == found
    assert codes(ALIAS, operator("Abs", ["z"], ["y"]), outputs=["x", "y"]) == [("shared-memory", "net[1] Abs")]


def test_an_alias_of_an_alias() -> None:
    again = operator("Alias", ["y"], ["z"])
    assert codes(ALIAS, again, operator("Relu", ["z"], ["z"]), outputs=["x", "z"]) == [("shared-memory", "net[2] Relu")]
    assert codes(ALIAS, again, operator("Relu", ["z"], ["z"]), outputs=["z"]) == []


def test_a_body() -> None:
    body = NetDef(op=[ALIAS, IN_PLACE, operator("Add", ["x", "y"], ["z"])], external_output=["z"])
    branch = operator("If", ["c", "x"], ["z"], then_net=body)
    found = codes(operator("Abs", ["x"], ["z"]), branch, outputs=["z"])
    assert found == [("shared-memory", "net[1] If > then_net[1] Relu")]


def branch(*ops: OperatorDef, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = ()) -> OperatorDef:
    return operator("If", ["c", *inputs], list(outputs), then_net=NetDef(op=ops))


def test_a_branch_writes_memory_that_was_shared_before() -> None:
    found = [("shared-memory", "net[1] If > then_net[0] Relu")]
    for outputs in (("y",), ()):
        assert codes(ALIAS, branch(IN_PLACE, outputs=outputs), outputs=["x", "y"]) == found
    assert codes(ALIAS, branch(IN_PLACE), operator("Copy", ["z"], ["x"]), outputs=["x"]) == []
    copied = operator("Abs", ["x"], ["z"])
    assert codes(ALIAS, operator("Copy", ["x"], ["z"]), branch(IN_PLACE, copied), outputs=["z"]) == [
        ("shared-memory", "net[2] If > then_net[0] Relu")
    ]


def test_memory_that_a_branch_shares_is_written_after_it() -> None:
    start = operator("Copy", ["x"], ["y"])
    assert codes(start, branch(ALIAS), IN_PLACE, outputs=["x", "y"]) == [("shared-memory", "net[2] Relu")]
    assert codes(start, branch(ALIAS), IN_PLACE, outputs=["y"]) == []


def test_a_blob_that_a_body_reads_without_listing_it() -> None:
    reads = branch(operator("Abs", ["x"], ["z"]), outputs=("z",))
    start = operator("Copy", ["x"], ["z"])
    assert codes(start, ALIAS, IN_PLACE, reads, outputs=["y", "z"]) == [("shared-memory", "net[2] Relu")]


@pytest.mark.parametrize(
    "ops",
    [
        (ALIAS, IN_PLACE),
        (ALIAS, operator("Abs", ["y"], ["x"]), operator("Abs", ["z"], ["y"])),
        (operator("Copy", ["x"], ["y"]), IN_PLACE, operator("Abs", ["x"], ["z"])),
        (ALIAS, operator("Reshape", ["y"], ["y", "_"], shape=[-1]), operator("Abs", ["x"], ["z"])),
        (ALIAS, operator("Dropout", ["y"], ["y"], is_test=1), operator("Abs", ["x"], ["z"])),
        (ALIAS, operator("Alias", ["z"], ["y"]), IN_PLACE, operator("Abs", ["x"], ["w"])),
    ],
)
def test_writes_that_change_nothing_that_is_read(ops: tuple[OperatorDef, ...]) -> None:
    assert codes(*ops, outputs=["y"]) == []


def test_a_blob_and_those_with_which_it_is_coalesced() -> None:
    coalesce = operator("UnsafeCoalesce", ["x", "z"], ["x", "z", "s"])
    first, whole = operator("Relu", ["x"], ["x"]), operator("Relu", ["s"], ["s"])
    assert codes(coalesce, first, outputs=["x", "s"]) == [("shared-memory", "net[1] Relu")]
    assert codes(coalesce, first, outputs=["x", "z"]) == []
    assert len(codes(coalesce, whole, outputs=["x", "z", "s"])) == 2
