"""Print: the texts that real Caffe2 1.9.1 printed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

THIRDS = np.arange(6, dtype=np.float32).reshape(2, 3) / 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (THIRDS, "Tensor x of type float. Dims: (2,3,): 0,0.333333,0.666667,1,1.33333,1.66667"),
        (np.arange(3), "Tensor x of type long int. Dims: (3,): 0,1,2"),
        (np.arange(3, dtype=np.int32), "Tensor x of type int. Dims: (3,): 0,1,2"),
        (np.array([b"ab", b"c"]), "Tensor x of type std::basic_string<char>. Dims: (2,): ab,c"),
        (np.array([True, False]), "Tensor x of type bool. Dims: (2,): 1,0"),
        (np.zeros((0, 3), np.float32), "Tensor x of type float. Dims: (0,3,): "),
        (np.array(2.5), "Tensor x of type double. Dims: (): 2.5"),
        (
            np.array([np.nan, np.inf, 1e-10, 1234567.0, 0.1], np.float32),
            "Tensor x of type float. Dims: (5,): nan,inf,1e-10,1.23457e+06,0.1",
        ),
        ("text", "Blob of type: std::basic_string<char>"),
    ],
)
def test_the_text_is_that_of_caffe2(value: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    workspace.feed("x", value)
    with caplog.at_level(logging.INFO):
        workspace.run_operator_once(operator("Print", ["x"], []))
    assert caplog.messages == [text]


def test_element_types_that_caffe2_does_not_print_are_refused() -> None:
    workspace = Workspace()
    workspace.feed("x", np.zeros(1, np.float16))
    with pytest.raises(RunError, match="float16, which Print does not support"):
        workspace.run_operator_once(operator("Print", ["x"], []))


def test_every_nth_run_prints_some_elements(caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    workspace.feed("x", THIRDS)
    workspace.create_net(NetDef(name="net", op=[operator("Print", ["x"], [], every_n=2, limit=2)]))
    with caplog.at_level(logging.INFO):
        workspace.run_net("net", 5)
    assert caplog.messages == ["Tensor x of type float. Dims: (2,3,): 0,0.333333"] * 3


def test_a_file_holds_what_one_net_printed(tmp_path: Path) -> None:
    workspace = Workspace()
    workspace.root_folder = str(tmp_path)
    workspace.feed("x", THIRDS)
    for _ in range(2):
        workspace.create_net(NetDef(name="net", op=[operator("Print", ["x"], [], to_file=1, limit=1)]), overwrite=True)
        workspace.run_net("net", 2)
    line = "Tensor x of type float. Dims: (2,3,): 0\n"
    assert (tmp_path / "x.log").read_text() == line * 2
    workspace.feed("no/folder", THIRDS)
    with pytest.raises(RunError, match="cannot be written"):
        workspace.run_operator_once(operator("Print", ["no/folder"], [], to_file=1))


def test_summaries_are_appended_to_the_file_of_the_blob(tmp_path: Path) -> None:
    """Compare with what was recorded from real Caffe2: the text, and the output."""
    workspace = Workspace()
    workspace.root_folder = str(tmp_path)
    workspace.feed("x", np.array([1, 2, 3, 6], np.float32))
    ops = [operator("Summarize", ["x"], [], to_file=1), operator("Summarize", ["x"], ["stats"], to_file=1)]
    for index, op in enumerate(ops):
        workspace.create_net(NetDef(name=f"net{index}", op=[op]))
        for _ in range(2):
            workspace.run_net(f"net{index}")
        assert (tmp_path / "x.summary").read_text() == "1 6 3 2.16025\n" * 2
    np.testing.assert_allclose(workspace.fetch("stats"), [1, 6, 3, 2.1602468])  # type: ignore[arg-type]


def test_a_summary_without_a_file_or_an_output_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    workspace.feed("x", np.array([2], np.float32))
    with caplog.at_level(logging.INFO):
        workspace.run_operator_once(operator("Summarize", ["x"], []))
    assert caplog.messages[-1] == "2 2 2 0"
    workspace.feed("x", np.zeros(0, np.float32))
    with pytest.raises(RunError, match="must not be empty"):
        workspace.run_operator_once(operator("Summarize", ["x"], []))
