"""Print recorded cases: ``scripts/conformance --show ops/Relu``, or ``--show ops/Relu/003`` for one in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from google.protobuf import text_format

from caffe2_bridge.diagnostics import ConversionError
from conformance.check import convert_case
from conformance.corpus import Array, Case, CaseRef, Quantization, read_case

_MOST_ELEMENTS = 60
_LONGEST_LINE = 110


def show(refs: Sequence[CaseRef]) -> Iterator[str]:
    """Describe the first of the cases in full, and the others in a line each."""
    yield _in_full(read_case(refs[0]))
    if len(refs) > 1:
        yield f"and {len(refs) - 1} more (--show ID shows one in full):"
        yield from (_in_a_line(read_case(ref)) for ref in refs[1:])


def _in_full(case: Case) -> str:
    parts = [f"# {case.ref.id}", "## Net", text_format.MessageToString(case.net).rstrip()]
    if case.init_net is not None and case.init_net.op:
        parts += ["## Init net", *(f"{op.type} -> {', '.join(op.output)}" for op in case.init_net.op)]
    parts += ["## Inputs", *_blobs(case.inputs, case.quantized)]
    parts += ["## Outputs of real Caffe2", *_blobs(case.outputs, case.quantized)]
    return "\n".join([*parts, *_conversion(case), ""])


def _blobs(values: Mapping[str, Array], quantized: Mapping[str, Quantization]) -> Iterator[str]:
    """Yield the name, dtype, shape and elements of each blob; large ones abridged."""
    for name, array in values.items():
        dtype = "string" if array.dtype == object else str(array.dtype)
        scale = "scale {} zero point {}".format(*quantized[name]) if name in quantized else ""
        yield f"{name}: {dtype}{list(array.shape)} {scale}".rstrip()
        text = np.array2string(array, max_line_width=_LONGEST_LINE, threshold=_MOST_ELEMENTS, precision=6)
        yield "  " + text.replace("\n", "\n  ")


def _conversion(case: Case) -> Iterator[str]:
    """Yield the ONNX model that the net becomes, knowing ranks or, if that is refused, sizes; else the diagnostics."""
    for with_sizes in (False, True):
        known = "sizes" if with_sizes else "ranks alone"
        try:
            model = convert_case(case, "auto", with_sizes=with_sizes)
        except ConversionError as error:
            yield f"## Refused, knowing {known}"
            yield from (f"{item.location}: {item.reason} [{item.code}]" for item in error.errors)
            continue
        yield f"## ONNX, converted knowing {known}"
        model.ClearField("metadata_props")
        for node in model.graph.node:
            node.ClearField("metadata_props")
        yield onnx.printer.to_text(model).rstrip()
        return


def _in_a_line(case: Case) -> str:
    args = (
        [text_format.MessageToString(arg, as_one_line=True) for op in case.net.op[:1] for arg in op.arg]
        if case.ref.kind == "op"
        else [f"{len(case.net.op)} operators"]
    )
    shapes = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in case.inputs.items())
    line = f"{case.ref.id}: {shapes}; {'; '.join(args)}"
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 3] + "..."
