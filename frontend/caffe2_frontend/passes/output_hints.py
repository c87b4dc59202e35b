"""Name the outputs to choose where an operator has no conversion, or an output no value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.ssa.outputs import outputs_hint
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.lowering.unsupported_ops import CHOOSE_OUTPUTS
from caffe2_frontend.state import Export

_SHOWN = 3


def with_output_hints(findings: Iterable[Diagnostic], state: Export, scope: Scope) -> list[Diagnostic]:
    """Complete hints that say to choose outputs, with what to type, or leave them out where no output is computed."""
    findings = list(findings)
    if not any(finding.hint.endswith(CHOOSE_OUTPUTS) for finding in findings):
        return findings
    names = _computed(state, scope)
    told = f"{CHOOSE_OUTPUTS}: {outputs_hint(names)}" if names else ""
    return [
        replace(each, hint=f"{each.hint.removesuffix(CHOOSE_OUTPUTS)}{told}".removesuffix(", or "))
        if each.hint.endswith(CHOOSE_OUTPUTS)
        else each
        for each in findings
    ]


def _computed(state: Export, scope: Scope) -> Sequence[str]:
    """Return the outputs of the model that operators compute, or the last blobs that they compute if there is none."""

    def computed(blob: str) -> bool:
        value = scope.find(blob)
        return value is not None and value.producer() is not None

    outputs = [name for name, blob in state.outputs if computed(blob)]
    if outputs:
        return outputs
    read = {name for op in state.net.ops if any(map(computed, op.outputs)) for name in op.inputs}
    written = dict.fromkeys(name for op in reversed(state.net.ops) for name in op.outputs)
    return list(islice((name for name in written if name not in read and computed(name)), _SHOWN))
