"""Trying out real files: what is known of them, which of them are nets, how an outcome is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conformance import third_party
from conformance.oracle import find_oracle
from conformance.third_party import Known, Status, find_nets, known_of, main, read_known, try_file

RELU = 'op { input: "X" output: "Y" type: "Relu" } external_input: "X" external_output: "Y"'
FOREIGN = 'op { input: "X" output: "H" type: "NeverHeardOf" } op { input: "H" output: "Y" type: "Relu" }'

needs_oracle = pytest.mark.skipif(find_oracle() is None, reason="real Caffe2 is not installed")


def test_the_longest_end_of_a_path_says_what_is_known() -> None:
    known = {"net.pb": Known(seed=1), "b/net.pb": Known(seed=2)}
    assert known_of(Path("/a/b/net.pb"), known).seed == 2
    assert known_of(Path("/a/c/net.pb"), known).seed == 1
    assert known_of(Path("/a/xnet.pb"), known) == Known()


def test_the_table_of_known_files_reads() -> None:
    known = read_known()
    assert known
    assert all(len(spec) in (2, 3, 4) for entry in known.values() for spec in entry.inputs.values())


def test_init_nets_and_other_files_are_no_nets(tmp_path: Path) -> None:
    for name in ("predict_net.pb", "init_net.pb", "x_init.pbtxt", "notes.md", "y.pbtxt"):
        (tmp_path / name).write_text("")
    assert [path.name for path in find_nets(tmp_path)] == ["predict_net.pb", "y.pbtxt"]


def test_inputs_are_drawn_below_what_is_said() -> None:
    random = np.random.default_rng(1)
    drawn = third_party._array(random, "int64", [100], 5)
    assert drawn.dtype == np.int64
    assert set(drawn) == {0, 1, 2, 3, 4}
    given = third_party._array(random, "float32", [2, 1], [3, 4])
    assert given.tolist() == [[3.0], [4.0]]


def test_a_file_that_is_no_net_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text("<html></html>")
    assert try_file(path, Known()).status is Status.UNREADABLE


@needs_oracle
def test_a_net_that_agrees(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(RELU)
    outcome = try_file(path, Known(inputs={"X": ("float32", [2, 3])}))
    assert (outcome.status, outcome.error) == (Status.AGREES, 0.0)


@needs_oracle
def test_operators_that_caffe2_never_had_are_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(FOREIGN)
    outcome = try_file(path, Known())
    assert (outcome.status, outcome.foreign) == (Status.AGREES, ("NeverHeardOf",))


@needs_oracle
def test_the_command_counts(tmp_path: Path) -> None:
    (tmp_path / "net.pbtxt").write_text(RELU)
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 0
    assert "1 nets: 1 agrees" in result.output
