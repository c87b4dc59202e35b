"""The node budget: how many nodes, those of bodies included, the plainest recorded case of each operator takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import ConversionError
from conformance.check import convert_case
from conformance.corpus import CaseRef, read_case
from conformance.outside import OUTSIDE

NODES: Final = Path(__file__).resolve().parents[1] / "golden" / "nodes.json"


@dataclass(frozen=True, slots=True)
class Plainest:
    """The id of the recorded case of an operator that takes the fewest nodes, and their number."""

    case: str
    nodes: int


def count_nodes(ref: CaseRef) -> int | None:
    """Return the nodes of a case's export, knowing ranks only, or sizes where it asks for them; None if refused."""
    from caffe2_frontend.interop.bodies import proto_nodes

    case = read_case(ref)
    for with_sizes in (False, True):
        try:
            graph = convert_case(case, "auto", with_sizes=with_sizes).graph
        except ConversionError:
            continue
        return sum(1 for _ in proto_nodes(graph))
    return None


def plainest_cases(counts: Mapping[CaseRef, int | None]) -> dict[str, Plainest]:
    """Return the plainest case of each operator, by operator type; of several the first by id."""
    found: dict[str, Plainest] = {}
    for ref, nodes in sorted(counts.items(), key=lambda pair: pair[0].id):
        if ref.kind != "op" or nodes is None or ref.id in OUTSIDE:
            continue
        if ref.group not in found or nodes < found[ref.group].nodes:
            found[ref.group] = Plainest(ref.id, nodes)
    return dict(sorted(found.items()))


def read_nodes(path: Path = NODES) -> dict[str, Plainest]:
    """Return the pinned table."""
    return {group: Plainest(*pair) for group, pair in json.loads(path.read_text(encoding="utf-8")).items()}


def write_nodes(refs: Iterable[CaseRef], path: Path = NODES) -> str:
    """Count the nodes of all cases, write the table, one operator a line, and return what the counts amount to."""
    counts = {ref: count_nodes(ref) for ref in refs}
    rows = ",\n".join(
        f"{json.dumps(group)}: {json.dumps([plainest.case, plainest.nodes])}"
        for group, plainest in plainest_cases(counts).items()
    )
    path.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    total, of_operators = (
        sum(nodes or 0 for ref, nodes in counts.items() if ref.kind in kinds)
        for kinds in (("op", "net", "model"), ("op",))
    )
    return f"{total} nodes in {len(counts)} cases, {of_operators} of them in cases of one operator"
