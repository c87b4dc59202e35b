"""The node budget: ``nodes.json`` pins the nodes that each operator's plainest recorded case takes.

``scripts/conformance --write-nodes`` writes it.
"""

from __future__ import annotations

from typing import Final

import pytest
from conformance.__main__ import BASELINE, GOLDEN, select
from conformance.corpus import find_cases
from conformance.nodes import count_nodes, read_nodes
from conformance.report import read_baseline

REFS: Final = {ref.id: ref for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1) if ref.kind == "op"}
PINNED: Final = read_nodes()


@pytest.mark.parametrize("group", PINNED)
def test_an_operator_takes_the_nodes_that_are_pinned(group: str) -> None:
    pinned = PINNED[group]
    found = count_nodes(REFS[pinned.case])
    assert found == pinned.nodes, (
        f"{group}: {pinned.case} takes {found} nodes, {pinned.nodes} are pinned. A commit that raises a number says "
        "what users get for it; scripts/conformance --write-nodes pins it."
    )


def test_every_operator_is_pinned() -> None:
    passing = {REFS[case].group for case in read_baseline(BASELINE) if case in REFS}
    assert passing <= set(PINNED), "scripts/conformance --write-nodes pins new operators"
