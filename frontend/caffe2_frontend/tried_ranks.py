"""Ranks for inputs of unknown rank with which a net converts: hints are tried before they are printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.passes.describe_inputs import unknown_rank_hint, unknown_rank_reason
from caffe2_frontend.state import Export

# The ranks that are tried, the most frequent first.
_RANKS: Final = (2, 4, 3, 1, 5)
_LARGEST: Final = 2000  # operators, those of bodies included: a net that has more is not analyzed several times

Analyze = Callable[[Mapping[str, TensorInfo]], Export]


def with_tried_ranks(export: Export, analyze: Analyze) -> Export:
    """Return an analyzed export whose hints for inputs of unknown rank have one with which the operators convert.

    All of these inputs get one rank, the first that leaves the fewest errors. A large net keeps its hints.

    Args:
        export: the analyzed export.
        analyze: analyzes the net again, with descriptions of inputs added.
    """
    reasons = {unknown_rank_reason(name): name for name in export.inputs}
    open_inputs = {reasons[f.reason]: f for f in export.findings if f.reason in reasons and f.code == "needs-shape"}
    if not open_inputs or next(islice(all_operators(export.net), _LARGEST, None), None) is not None:
        return export
    tried: list[Export] = []
    for rank in _RANKS:
        tried.append(analyze({name: replace(export.inputs[name], shape=(None,) * rank) for name in open_inputs}))
        if not _errors(tried[-1]):
            break
    best = min(tried, key=_errors)
    taken: set[str] = set()
    hints = {f: unknown_rank_hint(input_hint(name, best.inputs[name], taken)) for name, f in open_inputs.items()}
    return replace(export, findings=tuple(_hinted(finding, hints) for finding in export.findings))


def _errors(export: Export) -> int:
    return sum(finding.severity is Severity.ERROR for finding in export.findings)


def _hinted(finding: Diagnostic, hints: Mapping[Diagnostic, str]) -> Diagnostic:
    return replace(finding, hint=hints[finding]) if finding in hints else finding
