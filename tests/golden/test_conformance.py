"""Recorded cases, all in CI, through one body: converted, run, and compared with what real Caffe2 computed.

A case that ``baseline.json`` lists must pass; others may be refused, by a conversion that says why, or are outside of
an operator's domain. Nothing may be wrong, and nothing may crash. ``scripts/conformance --write-baseline`` moves the
baseline.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from conformance.__main__ import BASELINE, GOLDEN, select
from conformance.check import RecurrentForm, Result, Status, Task
from conformance.corpus import CaseRef, find_cases
from conformance.outside import OUTSIDE
from conformance.report import details, has_failures, read_baseline
from support.share import share

if TYPE_CHECKING:
    from conformance.pool import Pool

MUST_PASS: Final = read_baseline(BASELINE)


def grouped(refs: list[CaseRef]) -> dict[str, list[CaseRef]]:
    groups: dict[str, list[CaseRef]] = {}
    for ref in refs:
        groups.setdefault(ref.group, []).append(ref)
    return groups


GROUPS: Final = grouped(select(find_cases(GOLDEN), [], gradients=False, sample=1))
MODELS: Final = [name for name, refs in GROUPS.items() if refs[0].kind == "model"]
# One case of each group that passes on onnxruntime.
SAMPLE: Final = {
    name: passing[0] for name, refs in GROUPS.items() if (passing := [ref for ref in refs if ref.id in MUST_PASS])
}


# Where ONNX's reference evaluator, and not the model, is at fault: onnxruntime computes what Caffe2 did.
_BACKWARD = "its Scan has no outputs in reverse"
_PADS = "its Pad takes no negative pads"
_EMPTY = "its ConvTranspose takes no empty batch"
_DEPTH = "its OneHot takes no depth of rank 1"
EVALUATOR_FAULTS: Final = {
    "AveragePool1DGradient": _PADS,
    "AveragePool2DGradient": _EMPTY,
    "AveragePoolGradient": _PADS,
    "Conv1DGradient": _EMPTY,
    "Conv3DGradient": _EMPTY,
    "ConvGradient": _EMPTY,
    "CTCGreedyDecoder": _PADS,
    "LabelCrossEntropyGradient": _DEPTH,
    "LpPoolGradient": _PADS,
    "MaxPool3DGradient": "its Resize spreads a NaN to the elements around it",
    "SoftmaxWithLossGradient": _DEPTH,
    "SpatialSoftmaxWithLossGradient": _DEPTH,
    "ConvTranspose": _EMPTY,
    "LRN": "its LRN sums another window of channels",
    "MaxPool": "its MaxPool gives an empty batch another rank",
    "MaxPool3D": "its MaxPool walks out of a volume with ceil_mode",
    "ONNXWhile": "its Loop stacks scalars as [S, 1]",
    "RoIAlignRotated": "its Loop stacks nothing where it does not run",
    "RoIPool": "it has no MaxRoiPool",
    "StringPrefix": "its RegexFullMatch has no hexadecimal escapes",
    "ViterbiPath": "its Loop stacks nothing where it does not run",
    "recorded/nets/viterbi": "its Loop stacks nothing where it does not run",
    "StringSuffix": "its RegexFullMatch has no hexadecimal escapes",
    "models/attention_train": _BACKWARD,
    "models/gru_train": _BACKWARD,
    "models/lstm_train": _BACKWARD,
    "nets/crf_test": _BACKWARD,
    "nets/recurrent_net_executor_test": _BACKWARD,
    "models/basic_rnn_relu": "its RNN has no activation Relu",
    "models/basic_rnn_tanh": "its RNN does not read sequence lengths",
    "models/gru": "its GRU does not read sequence lengths",
    "models/gru_linear_before_reset": "its GRU does not read sequence lengths",
}


def sampled() -> list[object]:
    """Return the groups of the sample, those that the evaluator cannot run marked."""
    marks = {name: pytest.mark.xfail(strict=True, reason=reason) for name, reason in EVALUATOR_FAULTS.items()}
    return [pytest.param(name, marks=marks[name]) if name in marks else name for name in SAMPLE]


def assert_no_failures(results: list[Result]) -> None:
    assert not has_failures(results), details(results, verbose=True)


@pytest.mark.parametrize("group", GROUPS)
def test_onnxruntime(group: str, pool: Pool) -> None:
    chosen = share(GROUPS[group], 8, name=lambda ref: ref.id)
    results = list(pool.run(map(Task, chosen)))
    assert len(results) == len(chosen)
    assert_no_failures(results)
    lost = [result for result in results if result.task.id in MUST_PASS and not result.status.passes]
    assert not lost, "the baseline says that these pass:\n" + details(lost, verbose=True)
    listed = [result.task.id for result in results if result.status.passes and result.task.id in OUTSIDE]
    assert not listed, "these pass: they need no reason in tests/conformance/outside.py"


@pytest.mark.parametrize("form", ["fused", "scan", "loop", "portable", "gpu", "unrolled"])
@pytest.mark.parametrize("model", MODELS)
def test_recurrent_form(model: str, form: RecurrentForm, pool: Pool) -> None:
    results = list(pool.run(Task(ref, recurrent=form) for ref in GROUPS[model]))
    assert_no_failures(results)
    statuses = {result.status for result in results}
    assert len(statuses) == 1, f"one export serves all cases, but they ended differently: {statuses}"


@pytest.mark.parametrize("group", sampled())
def test_reference_evaluator(group: str, pool: Pool) -> None:
    (result,) = pool.run([Task(SAMPLE[group], executor="reference")])
    assert result.status.passes, details([result], verbose=True)


def test_baseline_lists_known_cases() -> None:
    known = {ref.id for refs in GROUPS.values() for ref in refs}
    assert known >= MUST_PASS | OUTSIDE.keys()
    assert not MUST_PASS & OUTSIDE.keys()


def test_corpus_is_whole() -> None:
    refs = find_cases(GOLDEN)
    assert len({ref.id for ref in refs}) == len(refs)
    given = Counter(ref.kind for ref in refs if not ref.id.startswith("recorded/"))
    assert given == {"op": 4452, "net": 580, "model": 68}


def test_statuses_count_once() -> None:
    assert {status for status in Status if status.passes} == {Status.PASSED, Status.PASSED_WITH_SIZES}
