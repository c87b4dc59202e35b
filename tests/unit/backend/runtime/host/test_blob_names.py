"""GetAllBlobNames, FeedBlob and Free: what real Caffe2 1.9.1 returned for the same operators."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import NoBlobError
from caffe2_bridge.diagnostics import RunError


def test_names_are_those_of_all_blobs() -> None:
    parent = Workspace()
    parent.feed("b", np.ones(1))
    parent.create_blob("e")
    child = parent.child()
    child.feed("c", np.ones(1))
    for shared, expected in ((1, [b"b", b"c", b"e", b"o"]), (0, [b"c", b"o"])):
        child.run_operator_once(operator("GetAllBlobNames", [], ["o"], include_shared=shared))
        assert np.asarray(child.fetch("o")).tolist() == expected


def test_a_text_is_fed() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("FeedBlob", [], ["o"], value=b"\xfftext"))
    assert workspace.fetch("o") == b"\xfftext"
    with pytest.raises(RunError, match="value is missing"):
        workspace.run_operator_once(operator("FeedBlob", [], ["o"]))


def test_freed_blobs_exist_without_a_value() -> None:
    workspace = Workspace()
    workspace.feed("b", np.ones(1))
    workspace.run_operator_once(operator("Free", ["b"], ["b"]))
    assert workspace.has_blob("b")
    with pytest.raises(NoBlobError, match="does not have a value"):
        workspace.fetch("b")
    with pytest.raises(RunError, match="the outputs must be the inputs"):
        workspace.run_operator_once(operator("Free", ["b"], ["c"]))
