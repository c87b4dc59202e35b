"""The differential fuzzer: what it draws is determined by its seed, and a stored seed finds no fault."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleDiedError, OracleServer
from conformance.recording import ArgumentValue, operator, read_spec

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from fuzz.exact.command import Results
from fuzz.exact.deviations.document import TARGET, render
from fuzz.exact.deviations.table import deviation
from fuzz.exact.drawing.draw import draw_batch, vary
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.roles import Kind, draw_role, role_of
from fuzz.exact.imports import NOT_DEFINED, ImportJudge, _ends_the_check, undefined
from fuzz.exact.judge import Judge
from fuzz.exact.lane import Batch, Judged, Lane
from fuzz.exact.mutations import mutate
from fuzz.exact.roundings import Spread, rounded_otherwise, rounded_runs
from fuzz.exact.shrink import shrink
from fuzz.exact.spec import spec
from fuzz.exact.tally import Tally
from fuzz.exact.verdict import Outcome, Verdict

SEED = 20
BATCHES = 12


def drawn(op_type: str, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]], **args: ArgumentValue) -> Drawn:
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    return Drawn(op_type, NetDef(op=[operator(op_type, list(inputs), ["y"], **args)]), inputs)


def test_a_seed_determines_a_batch() -> None:
    first, again = ([(each.net, each.trail) for each in draw_batch(3, 1, ["Relu"])] for _ in range(2))
    assert first == again
    assert [(each.net, each.trail) for each in draw_batch(4, 1, ["Relu"])] != first


def test_integer_operands_keep_their_roles() -> None:
    inputs = {"x": np.zeros((6, 2), np.float32), "lengths": np.array([2, 0, 4]), "rows": np.array([5, 1])}
    role = role_of("lengths", inputs)
    assert role.kind is Kind.LENGTHS
    assert role_of("rows", inputs).kind is Kind.LENGTHS  # their sum is the number of rows, too
    lengths = draw_role(role, 4, 9, np.random.default_rng(0))
    assert lengths is not None
    assert (len(lengths), lengths.sum(), lengths.min() >= 0) == (4, 9, True)


def test_a_case_is_made_smaller() -> None:
    def judge(case: Drawn) -> Verdict:
        outcome = Outcome.DIFFERENT if case.inputs["x0"].size else Outcome.EQUAL
        return Verdict(outcome, "y: 1 of 12 differ", case)

    found = shrink(judge(drawn("Relu", np.ones((3, 4), np.float32), order=1)), judge)
    assert found.drawn is not None
    assert found.drawn.inputs["x0"].shape == (1, 1)
    assert not found.drawn.net.op[0].arg


def test_a_fault_is_written_as_a_spec(tmp_path: Path) -> None:
    case = drawn("Relu", np.array([[np.nan, -np.inf, 1.5]], np.float32)).declared()
    (tmp_path / "found.py").write_text(spec(Verdict(Outcome.DIFFERENT, "y: differs", case), "scripts/fuzz exact"))
    (again,) = read_spec(tmp_path / "found.py")
    assert again.net == case.net
    np.testing.assert_array_equal(again.inputs["x0"], case.inputs["x0"])


def test_models_are_mutated_by_seed() -> None:
    model = to_onnx(
        NetDef(op=[operator("Relu", ["x"], ["y"]), operator("Add", ["x", "y"], ["z"])]),
        inputs={"x": ("float32", ("N",))},
    )
    before = model.SerializeToString(deterministic=True)

    def changed(seed: int) -> bytes:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        mutate(copy, np.random.default_rng(seed))
        return copy.SerializeToString(deterministic=True)

    results = [changed(seed) for seed in range(12)]
    assert results == [changed(seed) for seed in range(12)]
    assert len({*results} - {before}) > 5


def test_a_deviation_has_a_type_and_a_cause() -> None:
    nan = drawn("MaxPool", np.full((1, 1, 2, 2), np.nan, np.float32))
    finite = drawn("MaxPool", np.ones((1, 1, 2, 2), np.float32))
    other = drawn("Relu", np.full((1, 1, 2, 2), np.nan, np.float32))
    result = {"y": np.ones(1, np.float32)}
    assert deviation(nan, result, result)
    assert not deviation(finite, result, result)
    assert not deviation(other, result, result)


@pytest.mark.parametrize(
    ("case", "deviates"),
    [
        (drawn("CopyRowsToTensor", np.ones((2, 3), np.float32), np.array([0, 1]), np.ones(3, np.float32)), False),
        (drawn("CopyRowsToTensor", np.ones((2, 3), np.float32), np.array([0, 2]), np.ones(3, np.float32)), True),
        (drawn("CopyRowsToTensor", np.ones((2, 3), np.float32), np.array([-1]), np.ones(3, np.float32)), True),
        (drawn("MultiClassAccuracy", np.ones((1, 2), np.float32), np.array([1], np.int32)), False),
        (drawn("MultiClassAccuracy", np.ones((1, 2), np.float32), np.array([2], np.int32)), True),
        (drawn("QuantDecode", np.ones(3), np.array([2]), np.array([0, 1])), False),
        (drawn("QuantDecode", np.ones(3), np.array([2]), np.array([0, 3])), True),
        (drawn("FlexibleTopKGradient", np.ones((4, 2)), np.ones(4), np.ones(4), np.array([1, 0, 1, 2])), True),
        (drawn("GatherPadding", np.ones(4), np.array([2, 2])), False),
        (drawn("GatherPadding", np.ones(4), np.array([2, 2]), end_padding_width=2), True),
        (drawn("SparseFtrl", np.ones((2, 3)), np.ones(12), np.array([1]), np.ones((1, 3))), False),
        (drawn("SparseFtrl", np.ones((2, 3)), np.ones(13), np.array([1]), np.ones((1, 3))), True),
        (drawn("SparseFtrl", np.ones((2, 3)), np.ones(12), np.array([1]), np.ones((1, 2))), True),
        (drawn("ByteWeightDequant", np.ones(6, np.uint8), shape=[2, 3]), False),
        (drawn("ByteWeightDequant", np.ones(5, np.uint8), shape=[2, 3]), True),
        (drawn("MatMul", np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 2))), False),
        (drawn("MatMul", np.ones((2, 3)), np.ones((3, 4)), np.ones((2, 3))), True),
        (drawn("MatMul", np.ones((3, 2)), np.ones((4, 3)), np.ones(8), trans_a=1, trans_b=1), False),
        (drawn("MatMul", np.ones((3, 2)), np.ones((4, 3)), np.ones(9), trans_a=1, trans_b=1), True),
    ],
)
def test_a_model_may_fail_where_caffe2_does_not_compare_operands(case: Drawn, deviates: bool) -> None:
    assert bool(deviation(case, {}, {})) == deviates


def test_coordinates_that_are_not_finite_deviate() -> None:
    result = {"y": np.ones(1, np.float32)}
    infinite = np.array([np.inf, 0], np.float32)
    assert deviation(drawn("ATen", np.ones(1), infinite, operator="grid_sampler"), result, result)
    assert not deviation(drawn("ATen", np.ones(1), np.zeros(2), operator="grid_sampler"), result, result)
    image = np.ones((1, 1, 1, 4))
    assert deviation(drawn("ATen", image, np.array([1e9, 0]), operator="grid_sampler"), result, result)
    assert not deviation(drawn("ATen", image, np.array([1e8, 0]), operator="grid_sampler"), result, result)
    assert not deviation(drawn("ATen", np.ones(1), operator="grid_sampler"), result, result)
    assert not deviation(drawn("ATen", np.ones(1), infinite, operator="add"), result, result)


def test_gradients_of_which_caffe2_does_not_compare_the_operands() -> None:
    book, codes, dy = np.ones(2, np.float32), np.array([0, 1], np.uint8), np.ones(2, np.float32)
    assert not deviation(drawn("QuantDecodeGradient", book, codes, codes, dy, dy), {}, {})
    assert deviation(drawn("QuantDecodeGradient", book, codes, codes + 1, dy, dy), {}, {})
    assert not deviation(drawn("QuantDecodeGradient", book, codes, np.array([7.0, 8.0])), {}, {})
    lengths, indices = np.array([2, 1]), np.array([[1, 0], [0, -1]])
    assert not deviation(drawn("LengthsTopKGradient", lengths, indices, np.ones(4)), {}, {})
    assert deviation(drawn("LengthsTopKGradient", lengths, indices + 1, np.ones(4)), {}, {})
    weights, rows, shape = np.ones(3), np.ones((2, 4)), np.array([3, 2, 4])
    assert not deviation(drawn("ReduceFrontWeightedSumGradient", weights, rows, shape), {}, {})
    assert deviation(drawn("ReduceFrontWeightedSumGradient", weights, rows, shape + 1), {}, {})


@pytest.mark.parametrize(
    ("kind", "features", "rows"),
    [
        ("SingleScalar", [np.array([True, False]), np.array([True, True])], 3),
        ("SingleList", [np.array([2, 5]), np.array([True, False])], 2),
        ("MultiScalar", [np.array([2, 1]), np.array([0, 1])], 4),
        ("MultiMap", [np.array([2, 1]), np.array([3, 0, 1])], 4),
    ],
)
def test_merged_features_have_as_many_values_as_their_gradient(
    kind: str, features: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]], rows: int
) -> None:
    op_type = f"Merge{kind}FeatureTensorsGradient"
    assert not deviation(drawn(op_type, *features, np.ones(rows)), {}, {})
    assert deviation(drawn(op_type, *features, np.ones(rows + 1)), {}, {})
    assert deviation(drawn(op_type, features[0][:1], *features[1:], np.ones(rows)), {}, {})


def test_sizes_of_yellow_fin_and_of_hierarchies() -> None:
    def yellow_fin(width: int, memory: int, iteration: int = 1) -> Drawn:
        sizes = (3, 3, 1, 1, width, 3, 3, memory, 3)
        return drawn("YellowFin", *(np.ones(size) for size in sizes), np.array([iteration]), curv_win_width=5)

    assert not deviation(yellow_fin(5, 5), {}, {})
    assert deviation(yellow_fin(4, 5), {}, {})
    assert deviation(yellow_fin(5, 4), {}, {})
    assert deviation(yellow_fin(5, 5, 0), {}, {})

    # One word, 7, whose path has one node of two classes from row 1 on.
    hierarchy = bytes([18, 10, 8, 7, 18, 6, 8, 1, 16, 2, 24, 0])
    x, weights, labels = np.ones((2, 3)), np.ones((3, 3)), np.array([7, 7])

    def softmax(*operands: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Drawn:
        return drawn("HSoftmaxGradient", *operands, hierarchy=hierarchy)

    assert not deviation(softmax(x, weights, np.ones(3), labels, np.ones(8), np.ones(2)), {}, {})
    assert deviation(softmax(x, weights, np.ones(3), labels, np.ones(7), np.ones(2)), {}, {})
    assert deviation(softmax(x, weights, np.ones(3), labels[:1], np.ones(4), np.ones(2)), {}, {})
    assert deviation(softmax(x, weights[:2], np.ones(2), labels, np.ones(8), np.ones(2)), {}, {})


def test_results_of_training_that_alone_are_not_finite_differ() -> None:
    finite, infinite = {"y": np.ones(2, np.float32)}, {"y": np.array([1, np.inf], np.float32)}
    other = {"y": np.array([np.inf, 1], np.float32)}
    case = drawn("FCGradient", np.ones(2), np.ones(2), np.ones(2))
    assert not deviation(case, infinite, finite)
    assert deviation(case, infinite, other)
    special = np.array([np.inf, 1])
    assert deviation(drawn("FCGradient", special, np.ones(2), np.ones(2)), infinite, finite)
    assert not deviation(drawn("TanhGradient", np.ones(2), special), infinite, finite)
    assert deviation(drawn("LambdaRankNdcg", np.ones(2), np.ones(2)), infinite, finite)


def test_maxima_of_negative_infinities_are_the_lowest_number() -> None:
    infinite, lowest = (np.array([1, value], np.float32) for value in (-np.inf, np.finfo(np.float32).min))
    case = drawn("MaxPool", np.ones(2, np.float32))
    assert deviation(case, {"y": infinite}, {"y": lowest})
    assert not deviation(case, {"y": infinite}, {"y": np.ones(2, np.float32)})
    assert not deviation(case, {"y": lowest}, {"y": infinite})
    assert deviation(drawn("MaxPool", np.ones(2, np.float32), order="NHWC"), {"y": lowest}, {"y": infinite})


def test_an_unstable_sort_needs_more_than_16_equal_scores() -> None:
    expected, actual = {"y": np.ones(1)}, {"y": np.zeros(1)}
    lengths = np.array([17, 0])
    assert deviation(drawn("LambdaRankNdcg", np.ones(17), np.arange(17.0), lengths), expected, actual)
    assert not deviation(drawn("LambdaRankNdcg", np.ones(16), np.arange(16.0), lengths), expected, actual)
    assert not deviation(drawn("LambdaRankNdcg", np.arange(17.0), np.arange(17.0), lengths), expected, actual)


def test_gradients_of_no_elements_are_zeros_of_float() -> None:
    case = drawn("FCGradient", np.ones((0, 3)), np.ones((4, 3)), np.ones((0, 4)))
    zeros = {"y": np.zeros(4, np.float32)}
    assert deviation(case, zeros, {"y": np.zeros(4)})
    assert not deviation(case, zeros, {"y": np.ones(4)})
    assert not deviation(drawn("FCGradient", *(np.ones((2, 2)) for _ in range(3))), zeros, {"y": np.zeros(4)})


def test_only_batches_without_sequences_are_not_run() -> None:
    weights = np.ones((4, 3), np.float32)
    assert deviation(drawn("RecurrentNetwork", np.ones((2, 0, 3)), weights), {}, {})
    assert not deviation(drawn("RecurrentNetwork", np.ones((0, 2, 3)), weights), {}, {})
    assert deviation(drawn("InferenceLSTM", np.ones((0, 2, 3)), weights), {}, {})


@pytest.mark.parametrize("names", [("program",), ("program/control", "program/chain")])
def test_programs_are_drawn_by_name(names: tuple[str, ...]) -> None:
    cases = [case for number in range(4) for case in draw_batch(SEED, number, names)]
    kinds = {case.label.removesuffix(" with gradients") for case in cases}
    assert kinds <= {"program/recurrent", "program/control", "program/chain"}
    assert names == ("program",) or kinds <= set(names)


def test_the_page_of_deviations_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "run scripts/fuzz deviations"


def test_cases_of_one_net_have_its_ranks_and_element_types() -> None:
    random = np.random.default_rng(0)
    case = drawn("LengthsSum", np.ones((6, 2), np.float32), np.array([2, 0, 4], np.int32))
    others = [vary(case, random) for _ in range(30)]
    assert {tuple((a.ndim, a.dtype) for a in each.inputs.values()) for each in others} == {
        ((2, np.dtype(np.float32)), (1, np.dtype(np.int32)))
    }
    assert len({each.trail for each in others}) > 10
    assert {each.net.SerializeToString() for each in others} == {case.net.SerializeToString()}


def test_runs_are_added_up_by_commit(tmp_path: Path) -> None:
    def batch(seed: int) -> Judged:
        return Judged(Batch(seed, 0), (Verdict(Outcome.EQUAL), Verdict(Outcome.REFUSED), Verdict(Outcome.EQUAL)), 2)

    first = Tally(tmp_path / "tally.json", at="one")
    first.add(batch(1))
    first.add(batch(1))
    Tally(tmp_path / "tally.json", at="another").add(batch(2))
    again = Tally(tmp_path / "tally.json", at="one")
    again.add(batch(3))
    assert again.lines()[0].split() == ["6", "equal"]
    assert again.lines()[-1].split()[:5] == ["9", "cases", "of", "6", "nets,"]
    assert json.loads((tmp_path / "tally.json").read_text())["one"]["seeds"] == {"1": 2, "3": 1}


@pytest.mark.oracle
@pytest.mark.slow
def test_outcomes() -> None:
    ones = np.ones((2, 3), np.float32)
    with OracleServer() as oracle, OracleServer(filler=165) as witness:
        judge = Judge(oracle, witness)
        assert judge(drawn("Relu", ones)).outcome is Outcome.EQUAL
        assert judge(drawn("Relu", ones, ones)).outcome is Outcome.BOTH_REFUSE
        assert judge(drawn("LengthsSum", ones, np.array([-1, 3], np.int32))).outcome is not Outcome.EQUAL


@pytest.mark.oracle
@pytest.mark.slow
def test_roundings_of_what_the_first_operators_compute() -> None:
    ops = [operator("Sigmoid", ["raw"], ["X"]), operator("FloatToFusedRandRowwiseQuantized", ["X"], ["Y"], random=0)]
    random = np.random.default_rng(1)
    with OracleServer() as oracle, OracleServer(filler=165) as witness:
        judge = Judge(oracle, witness)
        for _ in range(4):
            # Sigmoids near 1 do not move with their operands, but the runtimes round them otherwise.
            raw = (3 * random.standard_normal((4, 300)) + 8).astype(np.float32)
            verdict = judge(Drawn("", NetDef(op=ops, external_input=["raw"]), {"raw": raw}))
            assert verdict.outcome in {Outcome.EQUAL, Outcome.ILL_CONDITIONED}, verdict.detail
        # onnxruntime's sigmoid of a large negative number is 0, exact to a part of one, and Caffe2's is 5e-19.
        rounds = NetDef(op=[ops[0], operator("Ceil", ["X"], ["Y"])], external_input=["raw"])
        verdict = judge(Drawn("", rounds, {"raw": np.array([-42.1], np.float32)}))
        assert verdict.outcome == Outcome.ILL_CONDITIONED, verdict.detail


@pytest.mark.oracle
@pytest.mark.slow
def test_memory_that_is_not_written_between_operators() -> None:
    """NormalizeL1 writes no row of zeros; of the large numbers that new memory holds a Softsign is 1."""
    ops = [operator("NormalizeL1", ["X"], ["N"]), operator("Softsign", ["N"], ["Y"])]
    net = NetDef(op=ops, external_input=["X"], external_output=["Y"])
    with OracleServer(filler=165) as oracle, OracleServer(filler=166) as witness:
        verdict = Judge(oracle, witness)(Drawn("", net, {"X": np.zeros((40, 50), np.float32)}))
    assert verdict.outcome is Outcome.UNDEFINED, verdict


@pytest.mark.oracle
@pytest.mark.slow
def test_an_imported_operator_that_writes_a_part_of_its_results() -> None:
    wngrad = operator("Wngrad", ["w", "b", "g", "r"], ["w", "b"])  # real Caffe2 writes the first element of b alone
    inputs = {name: np.array([3, 1], np.float32) for name in wngrad.input}
    model = to_onnx(NetDef(op=[wngrad]), inputs={name: ("float32", [None]) for name in inputs})
    names = [value.name for value in model.graph.output]
    expected = dict(zip(names, OnnxRuntime(model).run(inputs), strict=True))
    with OracleServer() as oracle, OracleServer(filler=165) as witness:
        judge = ImportJudge(oracle, witness, np.random.default_rng(0))
        verdict = judge.compare(Drawn("", NetDef(op=[wngrad]), inputs), model, expected)
    assert verdict.outcome is Outcome.UNDEFINED


@pytest.mark.parametrize(("value", "reason"), [(3e30, NOT_DEFINED), (np.nan, NOT_DEFINED), (3.5, "")])
def test_a_cast_to_integers_that_do_not_have_the_value(value: float, reason: str) -> None:
    case = drawn("Cast", np.array([value], np.float32), to=2)
    model = to_onnx(case.net, inputs={"x0": ("float32", [None])})
    assert undefined(model, case, {"y": OnnxRuntime(model).run(dict(case.inputs))[0]}, {}) == reason


def test_models_round_otherwise_by_seed() -> None:
    x, w = (ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, 4])) for name in "XW")
    tanh = ir.node("Tanh", [x])
    product = ir.node("MatMul", [tanh.outputs[0], w])
    graph = ir.Graph([x, w], product.outputs, nodes=[tanh, product], opset_imports={"": 20}, name="graph")
    product.outputs[0].name, product.outputs[0].type = "Y", x.type
    model = ir.serde.serialize_model(ir.Model(graph, ir_version=10))
    inputs = {name: np.random.default_rng(0).standard_normal((4, 4), np.float32) for name in "XW"}
    exact = OnnxRuntime(model).run(inputs)[0]
    one, same, other = (OnnxRuntime(rounded_otherwise(model, 1e-3, seed)).run(inputs)[0] for seed in (1, 1, 2))
    np.testing.assert_allclose(one, exact, atol=2e-2)
    np.testing.assert_array_equal(one, same)
    assert (one != exact).any()
    assert (one != other).any()


def test_results_settle_as_far_as_roundings_move_them() -> None:
    net = NetDef(op=[operator("Exp", ["x"], ["e"]), operator("Sin", ["e"], ["y"])], external_output=["y"])
    model = to_onnx(net, inputs={"x": ("float32", [None])})
    inputs = {"x": np.array([0.5, 11], np.float32)}  # a rounding of exp(11) moves its sine by 4e-3
    expected = {"y": OnnxRuntime(model).run(inputs)[0]}
    spread = Spread(expected)
    for rounded in rounded_runs(model, ["y"], inputs):
        spread.add(expected, rounded)
    settled = spread.settled({"y": expected["y"] + np.float32(5e-3)})["y"]
    np.testing.assert_array_equal(settled == expected["y"], [False, True])


@pytest.mark.oracle
@pytest.mark.slow
def test_a_process_that_dies_is_replaced() -> None:
    from conformance.oracle import OracleRun

    ones = {"x": np.ones(1, np.float32)}
    crash = OracleRun(NetDef(op=[operator("Crash", [], [])]))
    plain = OracleRun(NetDef(op=[operator("Relu", ["x"], ["y"])]), ones)
    with OracleServer() as oracle:
        with pytest.raises(OracleDiedError, match="signal 6"):
            oracle.run(crash)
        assert oracle.run(plain).outputs["y"] == [1]
        results = oracle.run_all([plain, crash, crash, plain])
        assert [isinstance(result, OracleDiedError) for result in results] == [False, True, True, False]
        assert oracle._process is not None
        oracle._process.kill()
        results = oracle.run_all([plain, plain])
        assert [isinstance(result, OracleDiedError) for result in results] == [True, False]
        results = oracle.run_all([plain, crash, plain], deadline=0)
        assert [isinstance(result, OracleDiedError) for result in results] == [False, True, True]


@pytest.mark.oracle
@pytest.mark.slow
def test_a_stored_seed_finds_no_fault(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    lane, results = Lane(), Results()
    request.addfinalizer(lane.close)
    for number in range(BATCHES):
        results.add(lane.check(Batch(SEED, number, shrinks=False)))
    results.show(all_reasons=False)
    assert not results.has_faults, capsys.readouterr().out
    assert results.outcomes[Outcome.EQUAL] > results.outcomes.total() / 3


@pytest.mark.parametrize(("said", "ends"), [(2, False), (3, True), (None, False)])
def test_models_that_end_the_check_are_not_checked(said: int | None, *, ends: bool) -> None:
    node = onnx.NodeProto(op_type="Split", input=["x"], output=["a", "b"])
    if said is not None:
        node.attribute.add(name="num_outputs", i=said, type=onnx.AttributeProto.INT)
    assert _ends_the_check(node) is ends
