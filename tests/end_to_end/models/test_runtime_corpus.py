"""The golden corpus through workspaces: RunOperatorOnce and RunNetOnce give what exported models give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from conformance.__main__ import BASELINE, GOLDEN, select
from conformance.check import Status, Task
from conformance.corpus import CaseRef, find_cases
from conformance.pool import Pool
from conformance.report import details, has_failures, read_baseline
from support.share import share

if TYPE_CHECKING:
    from collections.abc import Iterator

MUST_PASS: Final = read_baseline(BASELINE)
REFS: Final = select(find_cases(GOLDEN), [], gradients=False, sample=1)
EVERY: Final = 25
SOME: Final = REFS[::EVERY]
MODELS: Final = [ref for ref in REFS if ref.kind == "model"]
PARTS: Final = 8
STRIDE: Final = 20


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1) as workers:
        yield workers


def held(pool: Pool, refs: list[CaseRef]) -> None:
    results = list(pool.run(Task(ref, executor="workspace") for ref in refs))
    assert len(results) == len(refs)
    assert not has_failures(results), details(results, verbose=True)
    lost = [result for result in results if result.task.ref.id in MUST_PASS and not result.status.passes]
    assert not lost, "these pass through export:\n" + details(lost, verbose=True)
    assert sum(result.status is Status.PASSED for result in results) > len(refs) // 2


def test_some_cases(pool: Pool) -> None:
    held(pool, SOME)


def test_models(pool: Pool) -> None:
    held(pool, MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_other_cases(pool: Pool, part: int) -> None:
    others = [ref for index, ref in enumerate(REFS) if index % EVERY and ref.kind != "model"]
    others = share(others, STRIDE, name=lambda ref: ref.id, group=lambda ref: ref.group)
    size = -(-len(others) // PARTS)  # of cases in a row, which share files
    held(pool, others[part * size : (part + 1) * size])
