"""A case of each group with more known when it is converted: inputs stored in the init net, and the sizes of all.

Known values fold, choose branches and shapes, and are refused where Caffe2 would end the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import pytest
from conformance.__main__ import BASELINE, GOLDEN, make_tasks, select, with_more_known
from conformance.check import Result, Task
from conformance.corpus import CaseRef, find_cases
from conformance.pool import Pool
from conformance.report import read_baseline
from support.share import share

MUST_PASS: Final = read_baseline(BASELINE)
PARTS: Final = 6
STRIDE: Final = 20
# What is known of the inputs: that they are stored, and their sizes. Fed inputs of which the ranks are known are what
# test_conformance.py checks.
KNOWN: Final = {
    "stored, ranks known": (True, False),
    "stored, sizes known": (True, True),
    "fed, sizes known": (False, True),
}
# Nets in which a value that is known decides what runs.
DECIDING: Final = "recorded/nets/control_flow"


@cache
def chosen() -> Mapping[str, list[Task]]:
    """Return the tasks by what is known: a share of those of the sample, at least one of each group."""
    tasks = [
        (what, task)
        for what, (stored, sizes) in KNOWN.items()
        for task in with_more_known(sample(), stored=stored, sizes=sizes)
    ]
    found = share(tasks, STRIDE, name=lambda pair: f"{pair[0]} {pair[1].id}", group=lambda pair: pair[1].ref.group)
    return {what: [task for known, task in found if known == what] for what in KNOWN}


def sample() -> list[Task]:
    """Return the first case of each group that passes, and all nets with branches."""
    refs: dict[str, list[CaseRef]] = {}
    for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1):
        if ref.id in MUST_PASS:
            refs.setdefault(ref.group, []).append(ref)
    return make_tasks(
        [ref for name, found in refs.items() for ref in (found if name == DECIDING else found[:1])],
        "onnxruntime",
        ["auto"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("what", KNOWN)
def test_what_is_known_changes_no_result(pool: Pool, what: str, part: int) -> None:
    tasks = chosen()[what][part::PARTS]
    assert tasks
    failed = [result for result in pool.run(tasks) if not result.status.passes and not _holds_a_sample(result)]
    assert not [(result.task.id, result.detail) for result in failed]


def _holds_a_sample(result: Result) -> bool:
    """Whether the init net fills an input with one number, as some programs do for a sample: it stays an input."""
    return bool(result.task.stored) and [finding.code for finding in result.findings] == ["needs-shape"]
