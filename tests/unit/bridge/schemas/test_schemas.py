"""The table of schemas traced in real Caffe2."""

from __future__ import annotations

from caffe2_bridge.schemas import UNBOUNDED, operator_schema, operator_schemas


def test_every_operator_of_real_caffe2_is_there() -> None:
    assert len(operator_schemas()) == 805


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
