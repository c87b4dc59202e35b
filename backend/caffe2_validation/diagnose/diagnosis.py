"""Diagnosis of a comparison: the first operators that disagree, else the graph optimizations that are at fault."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

from caffe2_bridge.diagnostics import BridgeError
from caffe2_validation.comparison.cases import Comparison
from caffe2_validation.diagnose.divergences import find_divergences
from caffe2_validation.diagnose.nonfinite import find_nonfinite
from caffe2_validation.diagnose.optimizations import find_optimization
from caffe2_validation.report import Divergence, Failure, NonFinite, OptimizationFault


@dataclass(frozen=True)
class Diagnosis:
    """Why sides disagree: see ValidationReport."""

    divergences: tuple[Divergence, ...] = ()
    optimizations: tuple[OptimizationFault, ...] = ()
    failures: tuple[Failure, ...] = ()
    nonfinite: tuple[NonFinite, ...] | None = None


def diagnose_comparison(comparison: Comparison) -> Diagnosis:
    """Find out why sides disagree, if the options ask for the lockstep, and the first NaN if they ask for it."""
    diagnosis = _disagreements(comparison)
    if not comparison.options.find_nan:
        return diagnosis
    try:
        found = [find_nonfinite(comparison.reference, case) for case in comparison.cases]
    except BridgeError as error:
        return replace(diagnosis, failures=(*diagnosis.failures, Failure("*", "first NaN", str(error))))
    return replace(diagnosis, nonfinite=tuple(each for each in found if each is not None))


def _disagreements(comparison: Comparison) -> Diagnosis:
    if not comparison.options.lockstep:
        return Diagnosis()
    wrong = comparison.disagreements()
    divergences: tuple[Divergence, ...] = ()
    try:
        divergences = tuple(find_divergences(comparison.sides, comparison.cases, wrong, comparison.options))
        explained = {(found.case, found.side) for found in divergences}
        unexplained = [pair for pair in wrong if pair not in explained]
        return Diagnosis(divergences, tuple(_optimizations(comparison, unexplained)))
    except BridgeError as error:  # the reference cannot run an operator on its own: the verdict stands without a cause
        return Diagnosis(divergences, failures=(Failure("*", "lock step", str(error)),))


def _optimizations(comparison: Comparison, pairs: Collection[tuple[str, str]]) -> Iterator[OptimizationFault]:
    """Yield the optimizations of onnxruntime, on either side, that cause pairs (case, side) to disagree."""
    reference = comparison.reference
    for case in comparison.cases:
        for side in comparison.sides[1:]:
            if (case.name, side.label) not in pairs:
                continue
            for one, other in ((side, reference), (reference, side)):
                expected = comparison.values[other.label, case.name]
                fault = find_optimization(one, case, partial(comparison.agrees, expected))
                if fault is not None:
                    yield fault
