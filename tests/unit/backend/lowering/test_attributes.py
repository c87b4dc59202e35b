"""Typed access to the attributes of nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from caffe2_backend.lowering.attributes import Attributes
from caffe2_frontend.interop.operator_base import UnsupportedError


def attributes(**values: object) -> Attributes:
    return Attributes({name: ir.convenience.convert_attribute(name, value) for name, value in values.items()})  # type: ignore[arg-type]


def test_kinds_and_defaults() -> None:
    args = attributes(axis=1, alpha=0.5, mode="linear", axes=[0, 2], keep=1, value=ir.Tensor(np.arange(3)))
    assert (args.integer("axis"), args.number("alpha"), args.text("mode")) == (1, 0.5, "linear")
    assert (args.integers("axes"), args.flag("keep")) == ((0, 2), True)
    assert args.integer("group", default=4) == 4
    assert args.integers("pads", default=()) == ()
    assert "value" in args
    assert args.unread == ["value"]
    assert args.tensor("value").tolist() == [0, 1, 2]
    assert not args.unread


def test_an_attribute_of_another_kind_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'axis' must be INT, not FLOAT") as refused:
        attributes(axis=1.0).integer("axis", default=0)
    assert refused.value.code == "invalid-argument"


def test_a_flag_is_zero_or_one() -> None:
    with pytest.raises(UnsupportedError, match="'keepdims' must be 0 or 1, not 2"):
        attributes(keepdims=2).flag("keepdims", default=True)


@pytest.mark.parametrize("name", ["integer", "number", "text", "integers", "numbers", "texts", "tensor", "graph"])
def test_a_missing_attribute_without_a_default_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="'x' is missing"):
        getattr(attributes(), name)("x")


def test_ignored_attributes_are_read() -> None:
    args = attributes(seed=1, ratio=0.5)
    args.ignore("seed")
    assert args.unread == ["ratio"]


def test_one_of_several_texts() -> None:
    assert attributes(mode="CRD").choice("mode", "DCR", "CRD") == "CRD"
    assert attributes().choice("mode", "DCR", "CRD") == "DCR"
    with pytest.raises(UnsupportedError, match="'mode' must be a, b or c, not 'd'"):
        attributes(mode="d").choice("mode", "a", "b", "c")


def test_bytes_that_are_no_text() -> None:
    args = Attributes({"mode": ir.Attr("mode", ir.AttributeType.STRING, b"\xff")})
    with pytest.raises(UnsupportedError, match="'mode' must be UTF-8 text"):
        args.text("mode", default="")
    args = Attributes({"modes": ir.Attr("modes", ir.AttributeType.STRINGS, ["a", b"\xff"])})
    with pytest.raises(UnsupportedError, match="'modes' must be UTF-8 text"):
        args.texts("modes", default=())
