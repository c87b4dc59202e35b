"""The table of schemas traced in real Caffe2."""

from __future__ import annotations

import pytest

from caffe2_bridge.schemas import (
    UNBOUNDED,
    count_violation,
    operator_schema,
    operator_schemas,
    refused_in_place,
    unshared_operands,
)


def test_every_operator_of_real_caffe2_is_there() -> None:
    """Count those of Detectron's library too, which programs load: 11 and their gradients."""
    assert len(operator_schemas()) == 806 + 22


def test_a_type_that_only_an_engine_has() -> None:
    schema = operator_schema("Int8FCRelu")
    assert schema is not None
    assert (schema.inputs, schema.outputs, schema.has_cpu_kernel) == ((3, 4), (1, 1), False)
    assert refused_in_place(schema, ["x", "w", "b"], ["b"]) == ["b"]


def test_counts_of_operands() -> None:
    conv = operator_schema("Conv")
    assert conv is not None
    assert (conv.inputs, conv.outputs) == ((2, 3), (1, 1))
    assert conv.accepts_counts(3, 1)
    assert not conv.accepts_counts(4, 1)
    assert not conv.accepts_counts(2, 0)
    network = operator_schema("RecurrentNetwork")
    assert network is not None
    assert network.inputs[1] == UNBOUNDED


def test_arguments_that_are_never_read() -> None:
    transposed = operator_schema("ConvTranspose")
    assert transposed is not None
    assert transposed.ignores_argument("dilations")
    assert not transposed.ignores_argument("kernels")


def test_an_operator_that_was_not_traced_ignores_nothing() -> None:
    untraced = [schema for schema in operator_schemas().values() if schema.arguments_read is None]
    assert untraced
    assert not any(schema.ignores_argument("axis") for schema in untraced)


def test_an_engine_variant_has_the_schema_of_its_type() -> None:
    assert operator_schema("Conv_ENGINE_NNPACK") == operator_schema("Conv")
    assert operator_schema("NoSuchOperator") is None


@pytest.mark.parametrize(
    ("op_type", "counts", "code"),
    [
        ("Relu", (1, 1), None),
        ("Relu", (2, 1), "operand-count"),
        ("Relu", (0, 1), "missing-input"),
        ("Relu", (1, 2), "extra-output"),
        ("Adagrad", (4, 1), "operand-count"),
        ("WeightedSum", (3, 1), "operand-count"),
        ("SparseDropoutWithReplacement", (2, 2), None),
        ("SparseDropoutWithReplacement", (2, 1), "operand-count"),
        ("Free", (3, 2), "operand-count"),
        ("LSTMUnitGradient", (8, 2), None),  # in the form of early 2017
        ("LSTMUnitGradient", (8, 1), "operand-count"),
    ],
)
def test_counts_that_are_refused(op_type: str, counts: tuple[int, int], code: str | None) -> None:
    schema = operator_schema(op_type)
    assert schema is not None
    wrong = count_violation(schema, op_type, *counts)
    assert (wrong.code if wrong else None) == code


def test_operands_in_place() -> None:
    scatter, softmax, add = (operator_schema(name) for name in ("ScatterAssign", "Softmax", "Add"))
    assert scatter is not None
    assert softmax is not None
    assert add is not None
    assert unshared_operands(scatter, ["x", "i", "r"], ["y"]) == [("x", "y")]
    assert unshared_operands(scatter, ["x", "i", "r"], ["x"]) == []
    assert refused_in_place(scatter, ["x", "i", "x"], ["x"]) == ["x"]
    assert refused_in_place(softmax, ["x"], ["x"]) == ["x"]
    assert refused_in_place(add, ["x", "y"], ["y"]) == []


@pytest.mark.parametrize(
    ("op_type", "accepted", "refused"),
    [
        ("WeightedSum", [(0, 0)], [(19, 0), (11, 0)]),  # one pair
        ("WeightedSumGradient", [], [(15, 13)]),  # none
        ("While", [(15, 15), (3, 19), (30, 2)], []),  # all
        ("UnsafeCoalesce", [(11, 11), (19, 19)], [(19, 0), (11, 12), (12, 11)]),  # the same index
        ("Allreduce", [(11, 10), (19, 18)], [(19, 19)]),  # an index of one less
    ],
)
def test_operands_beyond_those_probed_are_in_place_as_those_before(
    op_type: str, accepted: list[tuple[int, int]], refused: list[tuple[int, int]]
) -> None:
    schema = operator_schema(op_type)
    assert schema is not None
    assert [pair for pair in accepted if not schema.accepts_in_place(*pair)] == []
    assert [pair for pair in refused if schema.accepts_in_place(*pair)] == []
