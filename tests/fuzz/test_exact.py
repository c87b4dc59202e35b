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


def test_operators_whose_results_are_overwritten_are_not_needed() -> None:
    fills = [operator("ConstantFill", [], outputs, shape=[1]) for outputs in (["a", "b"], ["a"])]
    relu = operator("Relu", ["a"], ["y"])
    case = Drawn("net", NetDef(op=[*fills, relu], external_output=["y"]), {})
    needed = case.needed()
    assert list(needed.net.op) == [fills[1], relu]
    assert needed.needed() is needed


def test_operators_of_bodies_that_write_nothing_that_is_read_are_not_needed() -> None:
    fills = [operator("ConstantFill", [], [name], shape=[1]) for name in ("x", "dead")]
    branch = operator("If", ["x"], ["x"], then_net=NetDef(op=fills), else_net=NetDef(op=fills[:1]))
    case = Drawn("net", NetDef(op=[branch], external_output=["x"]), {"x": np.ones(1, np.float32)})
    needed = case.needed()
    assert [list(arg.n.op) for arg in needed.net.op[0].arg] == [fills[:1], fills[:1]]
    assert len(case.net.op[0].arg[0].n.op) == 2
    assert needed.needed() is needed


def test_a_branch_that_does_not_write_what_it_lists_is_not_needed() -> None:
    body = NetDef(op=[operator("Relu", ["x"], ["other"])])
    branch = operator("If", ["c", "x"], ["y"], then_net=body)
    net = NetDef(op=[branch, operator("Copy", ["x"], ["z"])], external_output=["y", "z"])
    assert [op.type for op in Drawn("net", net, {}).needed().net.op] == ["Copy"]
    body.op[0].output[0] = "y"
    branch = operator("If", ["c", "x"], ["y"], then_net=body)
    net = NetDef(op=[branch, operator("Copy", ["x"], ["z"])], external_output=["y", "z"])
    assert [op.type for op in Drawn("net", net, {}).needed().net.op] == ["If", "Copy"]


@pytest.mark.parametrize("names", [("program",), ("program/control", "program/chain")])
def test_programs_are_drawn_by_name(names: tuple[str, ...]) -> None:
    cases = [case for number in range(4) for case in draw_batch(SEED, number, names)]
    kinds = {case.label.removesuffix(" with gradients") for case in cases}
    assert kinds <= {"program/recurrent", "program/control", "program/chain"}
    assert names == ("program",) or kinds <= set(names)


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
def test_roundings_of_the_scales_of_bytes() -> None:
    net = NetDef(op=[operator("Int8Sum", ["A", "B"], ["Y"], Y_scale=0.1, Y_zero_point=7)])
    net.op[0].engine = "DNNLOWP"
    inputs = {"A": np.array([[103, 9]], np.uint8), "B": np.array([[37, 99]], np.uint8)}  # 12.5 and 27.5 steps of 0.1
    case = Drawn("", net, inputs, {"A": (0.05, 128), "B": (0.1, 12)})
    with OracleServer() as oracle, OracleServer(filler=165) as witness:
        verdict = Judge(oracle, witness)(case)
    assert verdict.outcome in {Outcome.EQUAL, Outcome.ILL_CONDITIONED}, verdict


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
