"""NetDef -> ONNX -> NetDef: recorded cases come back as themselves, and compute what real Caffe2 computed.

``not_restored.json`` lists, by case, the operators that do not come back as themselves: those of which the export
leaves no node, such as fills of parameters and copies, and those whose weights it repacks.
``python -m conformance.trips`` in ``tests`` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest
from conformance.__main__ import BASELINE, GOLDEN, select
from conformance.check import RecurrentForm, Result, Status, Task
from conformance.compare import mismatches
from conformance.corpus import Array, Case, CaseRef, find_cases, read_case
from conformance.oracle import OracleRun, run_oracle
from conformance.pool import Pool
from conformance.report import read_baseline
from conformance.trips import NOT_RESTORED, TripChecker, export
from support.share import share

from caffe2_backend import to_netdef
from caffe2_bridge.diagnostics import ConversionError

MUST: Final = read_baseline(BASELINE)
REFS: Final = [ref for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1) if ref.id in MUST]
LOST: Final[dict[str, dict[str, int]]] = json.loads(NOT_RESTORED.read_text())
FIRST_OF: Final = {ref.group: ref for ref in reversed(REFS)}
FIRST: Final = list(FIRST_OF.values())
MORE: Final = share([ref for ref in REFS if ref is not FIRST_OF[ref.group]], 24, name=lambda ref: ref.id)
MODELS: Final = [ref for ref in FIRST if ref.kind == "model"]
TRAINED: Final = [ref for ref in MODELS if ref.group.endswith("_train")]


@pytest.fixture(scope="module")
def workers() -> Iterator[Pool]:
    with Pool(1, TripChecker) as pool:
        yield pool


def assert_returned(results: list[Result]) -> None:
    failed = [f"{result.task.id}: {result.status} {result.detail}" for result in results if not result.status.passes]
    assert not failed, "\n".join(failed)
    changed = {result.task.ref.id: json.loads(result.detail) for result in results}
    differing = {case: found for case, found in changed.items() if found != LOST.get(case, {})}
    assert not differing, "write not_restored.json anew where that is right"


def test_a_case_of_every_kind(workers: Pool) -> None:
    results = list(workers.run(Task(ref) for ref in FIRST))
    assert len(results) == len(FIRST)
    assert_returned(results)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_more_cases(number: int, workers: Pool) -> None:
    assert_returned(list(workers.run(map(Task, MORE[number::8]))))


def test_what_does_not_come_back_is_known() -> None:
    """Most of it has no node at all: one operator type in a hundred may be lost for another reason."""
    assert LOST.keys() <= {ref.id for ref in REFS}
    assert len(LOST) < len(REFS) / 25


@pytest.mark.parametrize("form", ["scan", "loop"])
def test_loops_come_back_as_recurrent_networks(form: RecurrentForm, workers: Pool) -> None:
    """Check that the forms that do not repack weights lose no recurrent operator.

    Training nets do: their loops return what every step computed, for the gradient, and stand in branches for T = 0.
    """
    results = list(workers.run(Task(ref, recurrent=form) for ref in MODELS))
    for result in results:
        assert result.status is Status.PASSED, result.detail
        if result.task.ref not in TRAINED:
            assert "RecurrentNetwork" not in json.loads(result.detail), result.task.id


def test_fused_operators_are_lowered_where_their_weights_are_gone(workers: Pool) -> None:
    results = list(workers.run(Task(ref, recurrent="fused") for ref in MODELS))
    returned = [result for result in results if result.status is not Status.REFUSED]
    assert len(returned) > len(MODELS) / 3
    assert all(result.status is Status.PASSED for result in returned), [result.detail for result in returned]


def chunks(refs: list[CaseRef], size: int) -> list[list[CaseRef]]:
    return [refs[i : i + size] for i in range(0, len(refs), size)]


def runnable(ref: CaseRef) -> OracleRun | None:
    """Return the net that came back, to be run in real Caffe2; None where not all of it are Caffe2's operators."""
    case = read_case(ref)
    try:
        model = to_netdef(export(case))
    except ConversionError:
        return None
    return OracleRun(model.predict_net, case.inputs, model.init_net, list(model.outputs), case.quantized)


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(12))
def test_real_caffe2_computes_the_same_again(number: int) -> None:
    """Compare one case of each kind, in the strict target."""
    refs = FIRST[number::12]
    pairs = [(ref, run) for ref in refs if (run := runnable(ref)) is not None]
    assert len(pairs) > 0.9 * len(refs)
    wrong = []
    for (ref, run), result in zip(pairs, run_oracle([run for _, run in pairs]), strict=True):
        case = read_case(ref)
        if result.error:
            wrong.append(f"{ref.id}: {result.error[-300:]}")
            continue
        given = dict(zip(case.outputs, (result.outputs[name] for name in run.outputs or ()), strict=True))
        differences = mismatches(case.outputs, given)
        if differences and case.quantized:
            differences = mismatches(computed_here(case), given)
        wrong += [f"{ref.id}: {text}" for text in differences]
    assert not wrong, "\n".join(wrong)


def computed_here(case: Case) -> dict[str, Array]:
    """Return what real Caffe2 computes on this processor: DNNLOWP's products of bytes saturate where it has no VNNI."""
    run = OracleRun(case.net, case.inputs, case.init_net, list(case.outputs), case.quantized)
    (result,) = run_oracle([run])
    assert not result.error
    return dict(result.outputs)
