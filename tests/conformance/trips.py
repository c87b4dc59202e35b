"""Round trips: a case's net as ONNX, that as a net again, and this one as ONNX once more, on onnxruntime.

usage: python -m conformance.trips [GROUP...]    rewrites tests/golden/not_restored.json from all cases, or prints
                                                those of some operator types, net files or models
"""

from __future__ import annotations

import json
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Final

import onnx

from caffe2_backend import to_netdef
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import forget_copies, rename_in_place
from caffe2_frontend import to_onnx
from conformance.check import NEEDS_SHAPE, RecurrentForm, Result, Status, Task, convert_case
from conformance.compare import mismatches
from conformance.corpus import Case, read_case
from conformance.executors import UNOPTIMIZED, OnnxRuntime
from conformance.stored import with_stored

NOT_RESTORED: Final = Path(__file__).parents[1] / "golden" / "not_restored.json"


class TripChecker:
    """Makes the round trip with each case. The result's detail lists the operators that did not come back."""

    def check(self, task: Task) -> Result:
        """Check one case; whatever goes wrong is the result, not an exception."""
        case = with_stored(read_case(task.ref), task.stored)
        try:
            try:
                exported = export(case, task.recurrent, with_sizes=task.with_sizes)
            except ConversionError as error:
                return Result(task, Status.REFUSED, str(error))
            model = to_netdef(exported, foreign="carry")
            again = to_onnx(model, outputs=[value.name for value in exported.graph.output])
            runtime = OnnxRuntime(again)
            wrong = _mismatches(case, runtime) or [
                f"{UNOPTIMIZED}: {text}" for text in _mismatches(case, runtime.plain)
            ]
        except Exception:  # noqa: BLE001 - a crash of the code under test is one of the results
            return Result(task, Status.CRASHED, traceback.format_exc(limit=-6))
        if wrong:
            return Result(task, Status.WRONG, "\n".join(wrong))
        return Result(task, Status.PASSED, json.dumps(lost(case.net, model), sort_keys=True))


def _mismatches(case: Case, runtime: OnnxRuntime) -> list[str]:
    return mismatches(case.outputs, dict(zip(case.outputs, runtime.run(case.inputs), strict=True)))


def export(case: Case, recurrent: RecurrentForm = "auto", *, with_sizes: bool = False) -> onnx.ModelProto:
    """Return the case's net as ONNX: with ranks only, with sizes where the conversion, or the caller, asks for them."""
    try:
        return convert_case(case, recurrent, with_sizes=with_sizes)
    except ConversionError as error:
        if with_sizes or not any(finding.code == NEEDS_SHAPE for finding in error.findings):
            raise
    return convert_case(case, recurrent, with_sizes=True)


def lost(net: NetDef, model: Model) -> dict[str, int]:
    """Return the operators of a net, by type, whose definitions a model lacks, all but the names of operands."""
    renamed = NetDef()
    renamed.CopyFrom(net)
    rename_in_place(renamed)
    forget_copies(renamed)
    before, after = (Counter(map(_nameless, ops)) for ops in (renamed.op, model.predict_net.op))
    missing = before - after
    return dict(Counter(OperatorDef.FromString(op).type for op in missing.elements()))


def _nameless(op: OperatorDef) -> bytes:
    """Return the definition without what depends on the names of values around it."""
    copy = OperatorDef()
    copy.CopyFrom(op)
    copy.ClearField("input")
    copy.ClearField("output")
    for arg in copy.arg:
        if arg.HasField("n"):
            for inner in arg.n.op:
                inner.CopyFrom(OperatorDef.FromString(_nameless(inner)))
            del arg.n.external_input[:]
            del arg.n.external_output[:]
    return copy.SerializeToString(deterministic=True)


def main() -> int:
    """Make all round trips, and write what does not come back."""
    from conformance.__main__ import BASELINE, GOLDEN, select, unmatched
    from conformance.corpus import find_cases
    from conformance.pool import Pool
    from conformance.report import read_baseline

    must = read_baseline(BASELINE)
    names = sys.argv[1:]
    refs = [ref for ref in select(find_cases(GOLDEN), names, gradients=False, sample=1) if ref.id in must]
    if missing_names := unmatched(refs, names):
        sys.stderr.write(f"no recorded case of {', '.join(missing_names)} passes: nothing to check\n")
        return 2
    missing: dict[str, dict[str, int]] = {}
    failed = False
    with Pool(2, TripChecker) as pool:
        for result in pool.run(Task(ref) for ref in refs):
            if result.status is not Status.PASSED:
                failed = True
                sys.stdout.write(f"{result.task.id} {result.status} {result.detail}\n")
            elif result.detail != "{}":
                missing[result.task.id] = json.loads(result.detail)
    if names:
        sys.stdout.write(json.dumps(missing, indent=1, sort_keys=True) + "\n")
    else:
        lines = (f"{json.dumps(case)}: {json.dumps(missing[case], sort_keys=True)}" for case in sorted(missing))
        NOT_RESTORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
