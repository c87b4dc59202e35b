"""The operators that are known not to convert, and the table of those that do."""

from __future__ import annotations

from caffe2_frontend.lowering.unsupported_ops import reasons, unsupported_reason
from caffe2_frontend.ops import converters


def test_no_operator_has_both_a_converter_and_a_reason() -> None:
    assert not reasons().keys() & converters().keys()


def test_every_reason_is_a_property_of_the_operator() -> None:
    assert all(reason[0].islower() and "yet" not in reason for reason in reasons().values())
    assert unsupported_reason("CreateDB").startswith("it reads or writes a database")
    assert "gradients" in unsupported_reason("ConvGradient")
    assert unsupported_reason("TTLinearGradient") == "real Caffe2's kernel for it computes nothing and fails"
    assert unsupported_reason("NoSuchOperator") == ""
