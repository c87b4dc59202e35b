"""What the fuzzer draws is inside of the domain of operators, mostly; and where results inside of it may differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from conformance.corpus import Array
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from fuzz.exact.deviations import DEVIATIONS, deviation
from fuzz.exact.document import main
from fuzz.exact.drawing.domain import GO_TOGETHER, ORDINARY, outside
from fuzz.exact.drawing.draw import draw_batch
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.structure import change_operands
from fuzz.exact.judge import returns
from fuzz.exact.verdict import Outcome


def drawn(op_type: str, *arrays: Array, result: str = "y", **args: ArgumentValue) -> Drawn:
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    return Drawn(op_type, NetDef(op=[operator(op_type, list(inputs), [result, "z"], **args)]), inputs)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def codes(scale: float) -> Array:
    return np.concatenate([np.zeros(3, np.uint8), np.array([scale, 0], np.float32).view(np.uint8)])[None]


NUMBER = np.array([np.inf, 1e9, 1e-30], np.float32)
PAIRS = [
    (drawn("Softmax", ones(1, 2)), drawn("Softmax", NUMBER[:1, None])),
    (drawn("Relu", NUMBER), drawn("LeakyRelu", ones(1), alpha=float("nan"))),
    (drawn("FC", ones(0, 2), ones(3, 2), ones(3)), drawn("FC", NUMBER[1:2, None], ones(3, 1), ones(3))),
    (drawn("Conv", ones(0, 2, 1, 1), ones(1, 2, 1, 1)), drawn("Conv", ones(1, 2, 1, 1), ones(0, 2, 1, 1))),
    (drawn("ArgMax", ones(1, 2)), drawn("ArgMax", ones(0, 2))),
    (drawn("Gather", ones(2, 3), np.array([-2, 1])), drawn("Gather", ones(2, 3), np.array([2]))),
    (drawn("BatchGather", ones(2, 3), np.array([2])), drawn("BatchGather", ones(2, 3), np.array([3]))),
    (drawn("AddPadding", ones(3), np.array([1, 2])), drawn("AddPadding", ones(3), np.array([1, 1]))),
    (drawn("AddPadding", ones(3)), drawn("AddPadding", ones(3), np.array([-1, 4]))),
    (drawn("Fused8BitRowwiseQuantizedToFloat", codes(1)), drawn("Fused8BitRowwiseQuantizedToFloat", codes(1e30))),
    (drawn("LambdaRankNdcg", np.arange(3.0)), drawn("LambdaRankNdcg", ones(3))),
    (drawn("ATen", np.arange(3.0), operator="topk"), drawn("ATen", ones(3), operator="topk")),
    (drawn("ReduceBackSum", ones(4, 2), np.array([2])), drawn("ReduceBackSum", ones(4, 2), np.array([3]))),
    (drawn("CTCBeamSearchDecoder", ones(1, 1, 1)), drawn("CTCBeamSearchDecoder", -ones(1, 1, 1))),
    (drawn("LearningRate", np.array([9])), drawn("LearningRate", np.array([2**24 + 1]))),
    (drawn("MulGradient", *[ones(1)] * 3), drawn("MulGradient", *[ones(1)] * 3, result="x0")),
    (drawn("GenerateProposals", np.arange(3.0), ones(2)), drawn("GenerateProposals", ones(3), ones(2))),
]


@pytest.mark.parametrize(("inside", "beyond"), PAIRS)
def test_preconditions(inside: Drawn, beyond: Drawn) -> None:
    assert not outside(inside)
    assert outside(beyond)


@pytest.mark.parametrize(
    ("change", "is_inside"),
    [
        ({"x0": ones(2, 2) * 3}, True),
        ({"x1": np.array([2, 0])}, False),
        ({"x0": ones(3, 2), "x1": np.array([2, 1])}, False),
    ],
)
def test_operators_that_do_not_compare_operands_have_recorded_ones(change: dict[str, Array], is_inside: bool) -> None:
    recorded = drawn("RemovePadding", ones(2, 2), np.array([1, 1]))
    case = replace(recorded, recorded=recorded)
    assert not outside(case)
    assert (GO_TOGETHER not in outside(replace(case, inputs={**case.inputs, **change}))) is is_inside
    assert GO_TOGETHER in outside(replace(drawn("RemovePadding", ones(2, 2), padding_width=2), recorded=recorded))
    recorded = drawn("Int8Quantize", ones(2), Y_scale=0.5)
    assert GO_TOGETHER in outside(replace(drawn("Int8Quantize", ones(2), Y_scale=1e-9), recorded=recorded))


@pytest.mark.parametrize(
    ("other", "go_together"), [(ones(2, 3), True), (ones(3, 2), False), (np.ones((2, 3), int), False)]
)
def test_operands_that_are_exchanged(other: Array, *, go_together: bool) -> None:
    cases = [change_operands(drawn("Sub", ones(2, 3), other), np.random.default_rng(seed)) for seed in range(20)]
    exchanged = [case for case in cases if "exchanges" in "".join(case.trail)]
    assert [not case.unrelated for case in exchanged] == [go_together] * len(exchanged) != []


def test_operands_that_others_compute_of_recorded_ones() -> None:
    ops = [operator("Int8Quantize", ["x"], ["q"]), operator("Int8Conv", ["q", "w", "b"], ["y"])]
    recorded = Drawn("net", NetDef(op=ops), {"x": ones(1, 2, 2, 1)})
    case = replace(recorded, recorded=recorded)
    assert not outside(replace(case, inputs={"x": ones(1, 2, 2, 1) * 3}))
    assert GO_TOGETHER in outside(replace(case, inputs={"x": ones(1, 2, 2, 2)}))
    behind = NetDef(op=[operator("Relu", ["x/raw"], ["x"]), *ops])
    assert GO_TOGETHER in outside(replace(case, net=behind, inputs={"x/raw": ones(1, 2, 2, 2)}))


def test_what_an_operator_computes_may_be_outside_of_the_domain_of_the_next() -> None:
    ops = [operator("Exp", ["x"], ["e"]), operator("Softmax", ["e"], ["y"])]
    case = Drawn("net", NetDef(op=ops), {"x": ones(1, 2) * 99})
    assert not outside(case)
    assert outside(case, {"e": ones(1, 2) * np.float32(np.inf)}) == f"Softmax: {ORDINARY}"


def test_draws_are_mostly_inside_and_some_of_them_outside() -> None:
    cases = [case for number in range(12) for case in draw_batch(20, number)]
    beyond = sum(bool(outside(case)) for case in cases)
    assert 0 < beyond < len(cases) / 3


def test_outside_of_the_domain_a_call_returns_or_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert returns(drawn("Softmax", NUMBER), "reason").outcome is Outcome.OUTSIDE
    assert returns(drawn("Gather", ones(2), np.array([7])), "reason").outcome is Outcome.OUTSIDE
    monkeypatch.setattr("fuzz.exact.judge.export", lambda *_: 1 / 0)
    assert returns(drawn("Softmax", NUMBER), "reason").outcome is Outcome.CRASHED


@pytest.mark.parametrize(
    ("index", "case", "expected", "actual", "other"),
    [
        (0, drawn("Softplus", ones(1) * 90), ones(1) * np.inf, ones(1) * 90, ones(1, 1)),
        (1, drawn("Int8FC", *[np.full((1, 3), 255, np.uint8)] * 2), ones(1), ones(1) * 2, None),
        (2, drawn("FCGradient", np.ones((0, 3))), np.zeros(4, np.float32), np.zeros(4), np.ones(4)),
        (3, drawn("Cast", ones(2), result="x0"), np.ones(2, np.int32), np.zeros(2, np.int32), None),
    ],
)
def test_deviations(index: int, case: Drawn, expected: Array, actual: Array, other: Array | None) -> None:
    case.net.op[0].engine = "DNNLOWP"
    name = case.net.op[0].output[0]
    assert deviation(case, {name: expected}, {name: actual}) == DEVIATIONS[index].reason
    assert other is None or not deviation(case, {name: expected}, {name: other})
    assert not deviation(drawn("Relu", ones(2)), {name: expected}, {name: expected + 1})


def test_the_page_of_deviations_is_up_to_date() -> None:
    result = CliRunner().invoke(main, ["--check"])
    assert result.exit_code == 0, result.output
