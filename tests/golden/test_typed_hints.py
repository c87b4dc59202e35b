"""What hints say to type is right: the net converts, with the same interface where it converted before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import onnx
import pytest
from conformance.corpus import CaseRef, find_cases, read_case
from support.paths import GOLDEN

from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_frontend import check, to_onnx

_ROUNDS: Final = 4  # operators that were not converted may have hints of their own
# The first case of every fifth operator type; Int8 tensors have scales of their own.
_CASES: Final = [
    ref
    for ref in {r.group: r for r in reversed(find_cases(GOLDEN / "ops")) if not r.gradients}.values()
    if not ref.group.startswith("Int8")
][::5]


def _typed(findings: Iterable[Diagnostic]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for finding in findings:
        for text in re.findall(r"--input '([^']+)'", finding.hint):
            name, spec = parse_input(text) or ("", None)
            found.setdefault(name, spec)
    return found


def _errors(findings: Iterable[Diagnostic]) -> list[str]:
    return [str(finding) for finding in findings if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("ref", _CASES, ids=[ref.group for ref in _CASES])
def test_what_hints_say_is_right(ref: CaseRef) -> None:
    case = read_case(ref)
    first = check(case.net, case.init_net)
    typed = _typed(first.findings)
    if not typed:
        return
    report = check(case.net, case.init_net, inputs=typed)
    for _ in range(_ROUNDS):
        typed = {**_typed(report.findings), **typed}
        report = check(case.net, case.init_net, inputs=typed)
    assert _errors(report.findings) == []
    assert _typed(report.findings) == {}
    if first.covered:
        before, after = (to_onnx(case.net, case.init_net, inputs=inputs) for inputs in ({}, typed))
        assert _interface(before) == _interface(after)


def _interface(model: onnx.ModelProto) -> list[tuple[str, int, int]]:
    """The names, element types and ranks of inputs and outputs."""
    values = [*model.graph.input, *model.graph.output]
    return [(v.name, v.type.tensor_type.elem_type, len(v.type.tensor_type.shape.dim)) for v in values]
