"""The plainest case of an operator, and the table that pins its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from conformance import nodes
from conformance.__main__ import GOLDEN, main
from conformance.check import convert_case
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.nodes import Plainest, count_nodes, plainest_cases, read_nodes, write_nodes


def ref(index: int, group: str = "Relu", kind: str = "op") -> CaseRef:
    return CaseRef(Path(group), index, f"ops/{group}/{index:03}", group, kind)


def test_the_plainest_case_has_the_fewest_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "OUTSIDE", {ref(0).id: "the reason"})
    counts = {ref(0): 1, ref(3): 2, ref(2): 2, ref(1): 3, ref(4): None, ref(0, "Abs"): None, ref(0, "nets/a", "net"): 1}
    assert plainest_cases(counts) == {"Relu": Plainest("ops/Relu/002", 2)}


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    refs = find_cases(GOLDEN / "ops" / "Relu.npz")
    said = write_nodes(refs, tmp_path / "nodes.json")
    assert said.startswith(f"{len(refs)} nodes in {len(refs)} cases")
    assert read_nodes(tmp_path / "nodes.json") == {"Relu": Plainest("Relu/000", 1)}


def test_bodies_count() -> None:
    (case, *_) = find_cases(GOLDEN / "models" / "control_while")
    model = convert_case(read_case(case), "auto", with_sizes=False)
    assert (count_nodes(case) or 0) > len(model.graph.node)


def test_nodes_are_those_of_a_whole_run() -> None:
    result = CliRunner().invoke(main, ["--types", "Relu", "--write-nodes"])
    assert result.exit_code == 2
    assert "whole run over the golden corpus" in result.output
