"""Gradients of single operators, against what real Caffe2's registry gives."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any, Final

import pytest
from support.gradients.caffe2_gradients import gradient, operator, read_cases
from support.paths import GOLDEN

from caffe2_bridge import BridgeError
from caffe2_bridge.gradients import GradientError, SparseGradient, get_gradient_for_op
from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.ops import FAMILIES, rules
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.registry import merge

_TYPE: Final = re.compile(r'^type: "([^"]*)"', re.MULTILINE)
_GOLDEN: Final = GOLDEN / "gradients.jsonl"


def _by_type() -> dict[str, list[dict[str, Any]]]:
    cases = defaultdict(list)
    with _GOLDEN.open() as file:
        lines = [json.loads(line) for line in file]
    for case in (*lines, *read_cases("operators.jsonl.xz")):
        (op_type,) = _TYPE.findall(case["op"])  # parsing all of them takes seconds, whenever tests are collected
        cases[op_type].append(case)
    return dict(cases)


_CASES: Final = _by_type()


@pytest.mark.parametrize("op_type", sorted(_CASES))
def test_is_what_real_caffe2_gives(op_type: str) -> None:
    for case in _CASES[op_type]:
        op = operator(case["op"])
        before = op.SerializeToString(deterministic=True)
        given = [gradient(plain) for plain in case["g_output"]]
        if case.get("error"):
            with pytest.raises(BridgeError, match=op_type):
                get_gradient_for_op(op, given)
        else:
            operators, g_input = get_gradient_for_op(op, given)
            assert operators == [operator(text) for text in case["grad_ops"]], case["op"]
            assert g_input == [gradient(plain) for plain in case["g_input"]], case["op"]
        assert op.SerializeToString(deterministic=True) == before


def test_golden_corpus_shows_many_differentiable_types() -> None:
    with _GOLDEN.open() as file:
        lines = [json.loads(line) for line in file]
    differentiable = {operator(case["op"]).type for case in lines if case.get("grad_ops")}
    assert len(differentiable) == 198
    assert differentiable <= rules().keys()


def test_families_are_disjoint() -> None:
    assert len(rules()) == sum(len(family.handlers) for family in FAMILIES)
    one, other = Family("one"), Family("other")
    one.pattern("X0 dY0 -> dX0", "Abs")
    other.constant("Abs")
    with pytest.raises(ValueError, match="families 'one' and 'other' both register Abs"):
        merge([one, other])
    with pytest.raises(
        ValueError, match="'one' registers two handlers for Abs: the pattern of AbsGradient and _no_gradient"
    ):
        one.constant("Abs")
    with pytest.raises(ValueError, match="operand 'Z0' of the pattern is not like"):
        one.pattern("Z0 -> dX0", "Sin")


def test_refuses_unknown_types_and_wrong_numbers_of_gradients() -> None:
    with pytest.raises(GradientError, match="operator NoSuchOp has no gradient"):
        get_gradient_for_op(OperatorDef(type="NoSuchOp"), [])
    op = OperatorDef(type="Relu", input=["x"], output=["y"])
    with pytest.raises(GradientError, match="must hold 1 gradients, one for each output of Relu, not 2"):
        get_gradient_for_op(op, ["a", "b"])


def test_says_what_is_missing() -> None:
    op = OperatorDef(type="FC", name="top", input=["x", "w", "b"], output=["y"])
    with pytest.raises(GradientError, match=r"gradient of FC \(top\): the gradient of output 'y' is missing"):
        get_gradient_for_op(op, [None])
    with pytest.raises(GradientError, match="gradient of output 'y' must be dense"):
        get_gradient_for_op(op, [SparseGradient("i", "v")])
    del op.input[2]
    with pytest.raises(GradientError, match="the gradient needs input 2"):
        get_gradient_for_op(op, ["g"])


@pytest.mark.parametrize(
    ("op_type", "arguments"),
    [
        ("Dropout", {"is_test": [1]}),
        ("Transpose", {"axes": [0, 0]}),
        ("Transpose", {"axes": [0, 2]}),
        ("Cast", {"from_type": b"NOTHING"}),
    ],
)
def test_refuses_bad_arguments(op_type: str, arguments: dict[str, Any]) -> None:
    op = OperatorDef(type=op_type, input=["x"], output=["y"])
    for name, value in arguments.items():
        arg = op.arg.add(name=name)
        if isinstance(value, list):
            arg.ints.extend(value)
        else:
            arg.s = value
    with pytest.raises(GradientError, match=f"gradient of {op_type}"):
        get_gradient_for_op(op, ["g"])


def test_refuses_a_constant_power_of_zero_in_place() -> None:
    op = OperatorDef(type="Pow", input=["x"], output=["x"])
    op.arg.add(name="exponent", f=0.0)
    with pytest.raises(GradientError, match="in place"):
        get_gradient_for_op(op, ["g"])


def test_refuses_an_argument_given_twice() -> None:
    op = OperatorDef(type="Gather", input=["x", "i"], output=["y"])
    op.arg.add(name="axis", i=0)
    op.arg.add(name="axis", i=1)
    with pytest.raises(GradientError, match="axis"):
        get_gradient_for_op(op, ["g"])
