"""Scan as RecurrentNetwork, or as ONNXWhile where that cannot carry it: against onnxruntime, and in real Caffe2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser
from onnx.reference import ReferenceEvaluator
from support.scan_cases import CASES, LENGTHS, Case

from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_compat.workspace import Workspace
from caffe2_frontend import to_onnx


def every_op(net: NetDef) -> Iterator[OperatorDef]:
    for op in net.op:
        yield op
        for arg in op.arg:
            if arg.HasField("n"):
                yield from every_op(arg.n)


def assert_equal(ours: Sequence[Any], theirs: Sequence[Any], name: str = "") -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype, name
        np.testing.assert_allclose(a, b, rtol=1e-3 if a.dtype == np.float16 else 1e-5, atol=1e-5, err_msg=name)


def expected(case: Case, steps: int) -> list[Any]:
    if case.by_reference:
        return list(ReferenceEvaluator(case.model()).run(None, case.values(steps)))
    return OnnxSession(case.model().SerializeToString(), threads=1).run_values(case.values(steps))


@pytest.fixture(scope="module")
def real() -> dict[tuple[str, int], Any]:
    """What real Caffe2 gives for every case and number of steps."""
    keys = [(name, steps) for name in CASES for steps in LENGTHS]
    runs = []
    for name, steps in keys:
        net = to_netdef(CASES[name].model())
        runs.append(
            OracleRun(net.predict_net, CASES[name].values(steps), net.init_net, list(net.predict_net.external_output))
        )
    return dict(zip(keys, run_oracle(runs), strict=True))


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_in_real_caffe2(name: str, real: dict[tuple[str, int], Any]) -> None:
    case = CASES[name]
    for steps in LENGTHS:
        result = real[name, steps]
        assert result.error == "", f"{steps} steps"
        names = [value.name for value in case.model().graph.output]
        assert_equal([result.outputs[n] for n in names], expected(case, steps), f"{steps} steps")


@pytest.mark.parametrize("name", CASES)
def test_the_operator(name: str) -> None:
    kinds = {op.type for op in every_op(to_netdef(CASES[name].model()).predict_net)}
    other = {"RecurrentNetwork": "ONNXWhile", "ONNXWhile": "RecurrentNetwork"}[CASES[name].becomes]
    assert CASES[name].becomes in kinds
    if "Loop(" not in CASES[name].text:
        assert other not in kinds


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name: str) -> None:
    case = CASES[name]
    session = OnnxSession(to_onnx(to_netdef(case.model())).SerializeToString(), threads=1)
    for steps in LENGTHS:
        assert_equal(session.run_values(case.values(steps)), expected(case, steps), f"{steps} steps")


def test_a_batch_is_the_batch_of_the_operator() -> None:
    """Pass states [N, D] and [1, N, D] as they are."""
    for name in ("batch_of_matrices", "batch_with_a_dim_of_one"):
        net = to_netdef(CASES[name].model()).predict_net
        (op,) = (op for op in net.op if op.type == "RecurrentNetwork")
        assert list(op.input[1:3]) == ["a", "b"]


def test_sequence_lengths_of_opset_8_are_refused() -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 8]>
        g (int64[B] n, float[B,3] z, float[B,T,3] x) => (float[B,3] y) {
        y = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2)
          { h2 = Add(h, r) }>(n, z, x) }""")
    with pytest.raises(ConversionError, match="sequence lengths"):
        to_netdef(model)
    carried = to_netdef(model, foreign="carry").predict_net
    assert [op.type for op in carried.op] == ["Scan"]
    assert list(carried.op[0].input) == ["n", "z", "x"]


def test_what_a_body_lacks_is_found_at_its_place() -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        g (float[T,25] x) => (float[T] s) {
        s = Scan<num_scan_inputs = 1, body = b (float[25] r) => (float o) { m = Mul(r, r)
            k = Constant<value_ints = [5, 5]>() n = Reshape(m, k) d = Det(n)
            o = ReduceSum<keepdims = 0>(d) }>(x) }""")
    with pytest.raises(ConversionError, match=r"Scan > body\[\d\] Det"):
        to_netdef(model)


def test_other_outputs_than_the_body_has() -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        g (float[2] s, float[T,2] x) => (float[2] y) {
        y = Scan<num_scan_inputs = 1, body = b (float[2] h, float[2] r) => (float[2] n, float[2] o)
          { n = Add(h, r) o = Mul(h, r) }>(s, x) }""")
    with pytest.raises(ConversionError, match="the node has 1 outputs; its body has 2"):
        to_netdef(model)


# How many states, the first outputs, go through; the others have a dim of zero where they are stacked.
WITHOUT_STEPS = {
    "one_state": 1, "scalar_state": 1, "states_of_ranks_one_to_three": 3, "batch_of_matrices": 2,
    "batch_with_a_dim_of_one": 2, "axes_and_directions": 1, "integers_beside_a_float_state": 1,
    "bool_and_narrow_states": 3, "scan_in_the_body": 1,
}  # fmt: skip


def results_without_steps(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Return inputs, and what ONNX's definition of Scan gives for them: states as they were, and nothing stacked."""
    case = CASES[name]
    none = case.values(0)
    stacked = expected(case, 1)[WITHOUT_STEPS[name] :]
    info = case.model().graph.output[WITHOUT_STEPS[name] :]
    scanned = [[dim.dim_param for dim in value.type.tensor_type.shape.dim].index("T") for value in info]
    states = [value for key, value in none.items() if "T" not in case.inputs[key][1]][: WITHOUT_STEPS[name]]
    return none, [*states, *(np.delete(value, 0, axis) for value, axis in zip(stacked, scanned, strict=True))]


@pytest.mark.oracle
def test_no_steps_in_real_caffe2() -> None:
    runs, wanted = [], []
    for name in WITHOUT_STEPS:
        inputs, results = results_without_steps(name)
        net = to_netdef(CASES[name].model())
        runs.append(OracleRun(net.predict_net, inputs, net.init_net, list(net.predict_net.external_output)))
        wanted.append(results)
    for name, run, result, results in zip(WITHOUT_STEPS, runs, run_oracle(runs), wanted, strict=True):
        assert result.error == "", name
        assert run.outputs is not None
        assert_equal([result.outputs[n] for n in run.outputs], results, name)


@pytest.mark.parametrize("name", WITHOUT_STEPS)
def test_no_steps_there_and_back(name: str) -> None:
    inputs, results = results_without_steps(name)
    assert_equal(
        OnnxSession(to_onnx(to_netdef(CASES[name].model())).SerializeToString(), threads=1).run_values(inputs), results
    )


@pytest.mark.parametrize("name", CASES)
def test_in_our_workspace(name: str) -> None:
    """Use one workspace for all lengths: nothing of a run is left for the next."""
    case = CASES[name]
    net = to_netdef(case.model())
    workspace = Workspace()
    workspace.run_net_once(net.init_net)
    workspace.create_net(net.predict_net)
    for steps in (*LENGTHS, LENGTHS[0]):
        for key, value in case.values(steps).items():
            workspace.feed(key, value)
        workspace.run_net(net.predict_net.name)
        assert_equal([workspace.fetch(n) for n in net.predict_net.external_output], expected(case, steps))
