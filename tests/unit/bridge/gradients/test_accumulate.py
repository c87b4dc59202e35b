"""Sums of the gradients of a blob that several operators read, and the names that their terms get."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge.gradients.accumulate import DenseTerm, Source, SparseTerm, Term, needs_sum, sum_terms, term_of
from caffe2_bridge.gradients.forward import GradientError, SparseGradient
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, OperatorDef

CPU = DeviceOption()
GPU = DeviceOption(device_type=1, device_id=1)


def computed(name: str = "x_grad") -> tuple[OperatorDef, Source]:
    op = operator("SinGradient", ["x", "y_grad"], [name])
    return op, Source(name, name, [op], 0, 0)


def test_dense_terms_are_renamed_where_they_are_computed() -> None:
    ops, sources = zip(*(computed() for _ in range(3)), strict=True)
    (total,), gradient = sum_terms("x", [DenseTerm(source, CPU) for source in sources])
    names = ["x_grad", "_x_grad_autosplit_0", "_x_grad_autosplit_1"]
    assert [op.output[0] for op in ops] == names
    assert (total.type, total.input, total.output, gradient) == ("Sum", names, ["x_grad"], "x_grad")
    assert total.device_option.extra_info == ["is_auto_gen_sum_ops:1"]


def test_a_gradient_that_is_passed_through_keeps_its_name() -> None:
    """The sum works in place on its first operand only, so that the operand of its name comes first."""
    op, source = computed()
    (total,), gradient = sum_terms("x", [DenseTerm(Source("y_grad", "y_grad"), CPU), DenseTerm(source, CPU)])
    assert (op.output[0], list(total.input), gradient) == ("x_grad", ["x_grad", "y_grad"], "x_grad")


def test_a_gradient_that_the_caller_gives_keeps_name_and_value() -> None:
    op, source = computed()
    (total,), gradient = sum_terms("x", [DenseTerm(Source("x_grad", "x_grad"), None), DenseTerm(source, CPU)])
    assert op.output[0] == "_x_grad_autosplit_0"
    assert (list(total.input), gradient) == (["x_grad", "_x_grad_autosplit_0"], "x_grad_total")


def test_two_gradients_of_one_name_are_refused_where_one_is_passed_through() -> None:
    _, source = computed()
    with pytest.raises(GradientError, match="two gradients named 'x_grad'"):
        sum_terms("x", [DenseTerm(Source("x_grad", "x_grad"), CPU), DenseTerm(source, CPU)])


def test_sparse_terms_are_concatenated() -> None:
    terms: list[Term] = []
    ops = []
    for _ in range(2):
        op = operator("GatherGradient", ["i", "y_grad"], ["x_grad_indices", "x_grad_values"])
        ops.append(op)
        parts = [Source(name, name, [op], 0, output) for output, name in enumerate(op.output)]
        terms.append(term_of(parts, CPU))
    assert needs_sum("x", terms)
    (indices, values), gradient = sum_terms("x", terms)
    assert gradient == SparseGradient("x_grad_indices_concat", "x_grad_values_concat")
    assert [list(op.output) for op in ops] == [
        [f"_x_grad_{kind}_autosplit_{number}" for kind in ("indices", "values")] for number in (0, 1)
    ]
    assert [list(op.input) for op in (indices, values)] == [
        [f"_x_grad_{kind}_autosplit_{number}" for number in (0, 1)] for kind in ("indices", "values")
    ]


def test_what_cannot_be_summed() -> None:
    _, one = computed()
    _, other = computed()
    assert not needs_sum("x", [DenseTerm(one, CPU)])
    assert needs_sum("x", [DenseTerm(one, None), DenseTerm(other, GPU)])
    with pytest.raises(GradientError, match="on different devices"):
        needs_sum("x", [DenseTerm(one, CPU), DenseTerm(other, GPU)])
    with pytest.raises(GradientError, match="both dense and sparse"):
        needs_sum("x", [DenseTerm(one, CPU), SparseTerm(one, other, CPU)])
