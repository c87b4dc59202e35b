"""Recorded inference cases, all in CI, through a module of PyTorch, compared with what real Caffe2 computed.

A case that ``baseline.json`` lists must pass; others may be refused, by a conversion or a run that says why, or are
outside of an operator's domain. Nothing may be wrong, and nothing may crash. ``scripts/conformance --executor pytorch
--write-baseline`` moves the baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from conformance.__main__ import BASELINES, GOLDEN, select
from conformance.check import Task
from conformance.corpus import CaseRef, find_cases
from conformance.report import details, has_failures, read_baseline
from support.share import share

if TYPE_CHECKING:
    from conformance.pool import Pool

pytestmark = pytest.mark.torch

MUST_PASS: Final = read_baseline(BASELINES["pytorch"])


def grouped() -> dict[str, list[CaseRef]]:
    groups: dict[str, list[CaseRef]] = {}
    for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1, executor="pytorch"):
        groups.setdefault(ref.group, []).append(ref)
    return groups


GROUPS: Final = grouped()


@pytest.mark.parametrize("group", GROUPS)
def test_modules_compute_what_caffe2_computed(group: str, pool: Pool) -> None:
    chosen = share(GROUPS[group], 4, name=lambda ref: ref.id)
    results = list(pool.run(Task(ref, executor="pytorch") for ref in chosen))
    assert len(results) == len(chosen)
    assert not has_failures(results), details(results, verbose=True)
    lost = [result for result in results if result.task.id in MUST_PASS and not result.status.passes]
    assert not lost, "the baseline says that these pass:\n" + details(lost, verbose=True)


def test_every_forward_model_passes() -> None:
    models = {ref.id for refs in GROUPS.values() for ref in refs if ref.kind == "model"}
    assert models
    assert models <= MUST_PASS


def test_baseline_lists_known_cases() -> None:
    assert {ref.id for refs in GROUPS.values() for ref in refs} >= MUST_PASS
