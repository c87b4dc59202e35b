"""Every opset from 9 to 24: a sample of the corpus and the models run on onnxruntime as real Caffe2 computed them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final
from zlib import crc32

import pytest
from conformance.__main__ import GOLDEN, make_tasks, select
from conformance.check import Checker, Status
from conformance.corpus import CaseRef, find_cases
from support.share import share

OPSETS: Final = range(9, 25)
STRIDE: Final = 40
SHARE: Final = 8
# Nodes of opset 22 that onnxruntime 1.31 has no kernel for.
WITHOUT_KERNEL: Final = (
    "GlobalLpPool(22)",
    "MaxRoiPool(22)",
    "RandomNormalLike(22)",
    "RandomUniformLike(22)",
    "RoiAlign(22)",
)


@cache
def sample() -> Mapping[int, list[CaseRef]]:
    """Return for each opset one in 40 operators and nets, other ones for each, and all models: a share of both.

    No model and no opset is left out. A case that is added leaves the samples of the others as they were.
    """
    refs = select(find_cases(GOLDEN), [], gradients=False, sample=1)
    pairs = [(opset, ref) for opset in OPSETS for ref in refs if ref.kind != "model" and _falls_to(ref, opset)]
    models = [(opset, ref) for opset in OPSETS for ref in refs if ref.kind == "model"]

    def name(pair: tuple[int, CaseRef]) -> str:
        return f"{pair[0]} {pair[1].id}"

    chosen = {
        *share(pairs, SHARE, name=name, group=lambda pair: pair[0]),
        *share(models, SHARE, name=name, group=lambda pair: pair[0]),
        *share(models, SHARE, name=name, group=lambda pair: pair[1].group),
    }
    return {opset: [ref for ref in refs if (opset, ref) in chosen] for opset in OPSETS}


def _falls_to(ref: CaseRef, opset: int) -> bool:
    """Whether an operator or a net is in the sample of an opset."""
    return crc32(ref.id.encode()) % STRIDE == opset % STRIDE


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
def test_what_an_opset_can_express_is_right(opset: int) -> None:
    checker = Checker()
    results = [checker.check(task) for task in make_tasks(sample()[opset], "onnxruntime", ["auto"], opset)]
    failed = [(r.task.id, r.detail) for r in results if r.status in {Status.WRONG, Status.CRASHED}]
    bad = [(name, why) for name, why in failed if not any(f"implementation for {op}" in why for op in WITHOUT_KERNEL)]
    assert not bad
    refused = [r for r in results if r.status is Status.REFUSED]
    assert all(found.reason for r in refused for found in r.findings)
    models = [r for r in results if r.task.ref.kind == "model"]
    assert models
    assert all(r.status.passes for r in models), [r.task.id for r in models if not r.status.passes]
