"""Predicted placement against the CUDA provider's own: recorded operators, nets and golden models, node by node."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir
from conformance.__main__ import GOLDEN, select
from conformance.corpus import Case, CaseRef, find_cases, read_case

from caffe2_backend.runtime.placement.graph import place_graph
from caffe2_backend.runtime.sessions.assignment import assign
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model
from caffe2_frontend import to_onnx
from gpu_suite.results import record


def main() -> int:
    """Compare some cases of each operator, net and model; 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1, help="of each operator, spread evenly (default: %(default)s)")
    found = [_compare(ref) for ref in _chosen(parser.parse_args().cases)]
    return 0 if all(found) else 1


def _chosen(cases: int) -> Iterator[CaseRef]:
    groups: dict[str, list[CaseRef]] = {}
    for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1):
        groups.setdefault(ref.group if ref.kind != "op" else ref.id.rpartition("/")[0], []).append(ref)
    for refs in groups.values():
        yield from refs[:: max(1, len(refs) // cases)][:cases]


def _compare(ref: CaseRef) -> bool:
    case = read_case(ref)
    name = ref.id.removesuffix("/000")
    model = None if case.quantized else _exported(case)
    if model is None:
        return record(name, "skipped", reason="quantized" if case.quantized else "it is not exported")
    predicted = place_graph(ir.from_proto(model))
    try:
        found = assign(model, "cuda:0")
    except RunError as error:
        return record(name, "failed", reason=f"onnxruntime refuses the model: {error}")
    texts = [
        *_differences("on the host", predicted.host_nodes, found.host_nodes),
        *_differences("copied", predicted.copies, found.copies),
    ]
    return record(name, "failed" if texts else "passed", reason="; ".join(texts))


def _exported(case: Case) -> onnx.ModelProto | None:
    """Export a case for inputs of any size, or of its own if it needs them; None if it is refused."""
    for sized in (False, True):
        inputs = {
            name: (str(value.dtype) if value.dtype != object else "string",
                   list(value.shape) if sized else [None] * value.ndim)
            for name, value in case.inputs.items() if name in case.fed
        }  # fmt: skip
        try:
            return to_onnx(Model.of(case.net, case.init_net), inputs=inputs)
        except BridgeError:
            continue
    return None


def _differences(what: str, predicted: Iterable[str], found: Iterable[str]) -> Iterator[str]:
    ours, theirs = set(predicted), set(found)
    if ours - theirs:
        yield f"not {what}, against the prediction: {', '.join(sorted(ours - theirs))}"
    if theirs - ours:
        yield f"{what}, which was not predicted: {', '.join(sorted(theirs - ours))}"


if __name__ == "__main__":
    sys.exit(main())
