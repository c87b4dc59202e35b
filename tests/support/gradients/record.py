"""Records what real Caffe2's gradients are. Needs scripts/oracle; PYTHONPATH=bridge:tests.

``operators.jsonl.xz`` varies the operators of tests/golden/gradients.jsonl: gradients that are missing or sparse,
operands that are missing or one blob, arguments left out, engines and devices. ``nets.jsonl.xz`` are random nets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import text_format
from support.gradients.caffe2_gradients import Case, ask, operator, write_cases
from support.gradients.random_nets import random_net, text_case
from support.paths import GOLDEN

from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_GOLDEN: Final = GOLDEN / "gradients.jsonl"
_LONGEST: Final = 3000
_NETS: Final = 1500
# Differentiable types that the golden corpus lacks: inputs, outputs.
_MORE: Final = {
    "BatchPermutation": (2, 1), "CopyCPUToGPU": (1, 1), "CopyGPUToCPU": (1, 1), "DeformConv": (4, 1),
    "DepthConcat": (3, 2), "DepthSplit": (1, 3), "FloatToHalf": (1, 1), "HalfToFloat": (1, 1), "LRN": (1, 1),
    "LabelCrossEntropy": (2, 1), "LengthsWeightedSum": (3, 1), "MaxPoolWithIndex": (1, 2), "NegateGradient": (1, 1),
    "QuantDecode": (3, 2), "ReduceFrontWeightedSum": (2, 1), "ResizeNearest3D": (1, 1),
    "SortedSegmentWeightedSum": (3, 1), "SparseSortedSegmentWeightedSum": (4, 1),
    "UnsortedSegmentWeightedSum": (3, 1), "ZeroGradient": (1, 0),
}  # fmt: skip
_FLAGS: Final = (
    "broadcast", "dense_gradient", "elementwise_affine", "grad_on_w", "grad_on_weights", "is_learnable", "is_test",
    "no_gradient_to_input", "sequence_lengths", "trans_a", "trans_b",
)  # fmt: skip


def variants() -> Iterator[Case]:
    """Yield variants of every operator, one of each form of it."""
    seen: set[Any] = set()
    with _GOLDEN.open() as file:
        known = [(operator(line["op"]), line["g_output"]) for line in map(json.loads, file)]
    for op_type, (inputs, outputs) in _MORE.items():
        op = OperatorDef(type=op_type, input=[f"x{i}" for i in range(inputs)], output=[f"y{i}" for i in range(outputs)])
        known.append((op, [f"{name}_grad" for name in op.output]))
    for op, g_output in known:
        form = (op.type, len(op.input), len(op.output), tuple(arg.name for arg in op.arg))
        if form not in seen and op.ByteSize() < _LONGEST:
            seen.add(form)
            for changed, gradients in _vary(op, g_output):
                yield {"op": text_format.MessageToString(changed), "g_output": gradients}


def _vary(op: OperatorDef, g_output: list[Any]) -> Iterator[tuple[OperatorDef, list[Any]]]:
    yield op, [f"G{i}" for i in range(len(g_output))]
    for index in range(len(g_output)):
        yield op, [None if i == index else name for i, name in enumerate(g_output)]
        yield op, [{"indices": "GI", "values": "GV"} if i == index else name for i, name in enumerate(g_output)]
    changed = _copy(op)
    changed.engine = "ENGINE"
    changed.device_option.device_type = 1
    changed.device_option.device_id = 2
    yield changed, g_output
    if op.input and op.output:
        changed = _copy(op)
        changed.output[0] = op.input[0]
        yield changed, [f"{op.input[0]}_grad", *g_output[1:]]
    for index in range(len(op.input)):
        changed = _copy(op)
        del changed.input[index]
        yield changed, g_output
    if op.output:
        changed = _copy(op)
        del changed.output[-1]
        yield changed, g_output[:-1]
    for index, arg in enumerate(op.arg):
        changed = _copy(op)
        del changed.arg[index]
        yield changed, g_output
        if arg.HasField("i") and arg.i in (0, 1):
            changed = _copy(op)
            changed.arg[index].i = 1 - arg.i
            yield changed, g_output
    for name in _FLAGS:
        if all(arg.name != name for arg in op.arg):
            changed = _copy(op)
            changed.arg.add(name=name, i=1)
            yield changed, g_output


def _copy(op: OperatorDef) -> OperatorDef:
    copy = OperatorDef()
    copy.CopyFrom(op)
    return copy


def main() -> None:
    """Record both files."""
    # What Caffe2's operator schema refuses is no matter of gradients; where Caffe2 dies there is nothing to agree on.
    answers = [
        case
        for case in ask("operators", list(variants()))
        if case.get("error") != "died" and "schema->Verify" not in case.get("error", "")
    ]
    for case in answers:
        case["error"] = case["error"].splitlines()[0][:200] if "error" in case else None
    # An operator type that refuses all gradients needs no more than one case.
    refusing: set[str] = set()
    kept = []
    for case in answers:
        kind = operator(case["op"]).type
        if case["error"] is None or "One should not call" not in case["error"]:
            kept.append(case)
        elif kind not in refusing:
            refusing.add(kind)
            kept.append(case)
    write_cases("operators.jsonl.xz", kept)
    nets = ask("nets", [text_case(*random_net(seed)) for seed in range(_NETS)])
    nets = [case for case in nets if "schema->Verify" not in case.get("error", "")]
    for case in nets:
        case.pop("seconds", None)
        if "error" in case:
            case["error"] = case["error"].splitlines()[0][:200]
    write_cases("nets.jsonl.xz", nets)


if __name__ == "__main__":
    main()
