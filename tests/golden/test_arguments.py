"""Arguments that real Caffe2 reads and the conversion does not: each with a reason, and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

import pytest
from conformance.__main__ import GOLDEN
from conformance.check import convert_case
from conformance.corpus import Case, CaseRef, find_cases, read_case

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.netdef.unread_arguments import IMPLEMENTATION_ARGUMENTS, UNUSED_ARGUMENTS
from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.schemas import operator_schema
from caffe2_frontend.ops.index import INDEX

DNNLOWP: Final = "read by the engine DNNLOWP, which chooses scales and zero points by it while the net runs"
_DNNLOWP: Final = (
    "activation_p99_threshold", "activation_precision", "activation_quantization_kind",
    "eltwise_quantization_precision", "force_scale_power_of_two", "preserve_activation_sparsity",
    "preserve_weight_sparsity", "requantization_multiplier_precision", "weight_p99_threshold", "weight_precision",
    "weight_quantization_kind",
)  # fmt: skip
_FUSED: Final = ("dequantize_output", "followed_by", "measure_quantization_error")
_INT8: Final = (
    "Int8Add", "Int8Conv", "Int8ConvRelu", "Int8Dequantize", "Int8FC", "Int8FCRelu", "Int8Quantize", "Int8Sum",
    "Int8SumRelu",
)  # fmt: skip
_PRODUCTS: Final = ("Int8Conv", "Int8ConvRelu", "Int8FC", "Int8FCRelu", "Int8Sum", "Int8SumRelu")
UNSUPPORTED: Final[Mapping[tuple[str, str], str]] = {
    **{(op_type, name): DNNLOWP for op_type in _INT8 for name in _DNNLOWP},
    **{(op_type, name): DNNLOWP for op_type in _PRODUCTS for name in _FUSED},
    ("Int8Quantize", "followed_by"): DNNLOWP,
    **{("Int8Add", name): "Int8 operands do not broadcast here" for name in ("axis", "axis_str", "broadcast")},
    **{(op_type, "quantize_groupwise"): DNNLOWP for op_type in ("Int8Conv", "Int8ConvRelu")},
    **{
        (op_type, name): DNNLOWP
        for op_type in ("Int8FC", "Int8FCRelu")
        for name in ("constant_weight", "quantize_channelwise")
    },
    ("Int8ResizeNearest", "output_size"): "the conversion reads scales only, as ResizeNearest does",
}  # fmt: skip
TRIED: Final = 6


def converting(refs: list[CaseRef]) -> Iterator[Case]:
    """Yield the cases of one operator type that convert: first some spread over its recordings, then the others."""
    spread = refs[:: max(1, len(refs) // (TRIED - 1))]
    for ref in (*spread, *(ref for ref in refs if ref not in spread)):
        case = read_case(ref)
        try:
            convert_case(case, "auto", with_sizes=True)
        except ConversionError:
            continue
        yield case


def refused(case: Case, names: Collection[str]) -> set[str] | None:
    """Return the arguments for want of which a case's conversion stops when it has them; None if it stops otherwise."""
    op = case.net.op[0]
    for name in names:
        op.arg.add(name=name, i=1)
    try:
        convert_case(case, "auto", with_sizes=True)
    except ConversionError as error:
        reasons = [found.reason for found in error.errors if found.code == "unknown-argument"]
        return {name for name in names if any(repr(name) in reason for reason in reasons)} if reasons else None
    except ArgumentError:  # read, and not of this kind
        return None
    finally:
        del op.arg[-len(names) :]
    return set()


def honoured(case: Case, names: Collection[str], expected: Collection[str]) -> set[str]:
    """Return arguments that a case's conversion takes, each alone; all together say which need not be tried alone."""
    given = {arg.name for arg in case.net.op[0].arg}
    others = set(names) - given
    together = refused(case, sorted(others)) if len(others) > 1 else None
    tried = others - (together or set()) | (others & set(expected))
    return (set(names) & given) | {name for name in tried if not refused(case, [name])}


def unsupported(op_type: str, cases: Iterator[Case]) -> set[str]:
    """Return the arguments of a type that no case's conversion takes."""
    schema = operator_schema(op_type)
    names = set() if schema is None else set(schema.arguments_read or ())
    names -= IMPLEMENTATION_ARGUMENTS | UNUSED_ARGUMENTS.get(op_type, frozenset())
    expected = {name for known, name in UNSUPPORTED if known == op_type}
    tried = 0
    # Which arguments a form reads, such as a policy's, may take more cases to see.
    while names and (tried < TRIED or not names <= expected) and (case := next(cases, None)):
        names -= honoured(case, names, expected)
        tried += 1
    return names


def room(op_type: str) -> str:
    """Return the folder of converters that a type's is in."""
    return INDEX[op_type].module.removeprefix("ops.").rpartition(".")[0] or "aten"


@cache
def recorded() -> Mapping[str, list[CaseRef]]:
    """Return the recorded cases of one operator by its type, of those that convert."""
    found: dict[str, list[CaseRef]] = defaultdict(list)
    for ref in find_cases(GOLDEN):
        if ref.kind == "op" and ref.group in INDEX:
            found[ref.group].append(ref)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(set(map(room, INDEX))))
def test_every_argument_that_caffe2_reads_is_honoured_or_has_a_reason(folder: str) -> None:
    by_type = {op_type: refs for op_type, refs in recorded().items() if room(op_type) == folder}
    assert by_type
    found = {(op_type, name) for op_type, refs in by_type.items() for name in unsupported(op_type, converting(refs))}
    assert found == {key for key in UNSUPPORTED if room(key[0]) == folder}
