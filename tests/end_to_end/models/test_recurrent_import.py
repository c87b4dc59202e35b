"""Recurrent nets exported as Scan and imported again: RecurrentNetworks that compute what real Caffe2 recorded."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import onnx
import pytest
from conformance.corpus import Case, find_cases, read_case, read_net
from conformance.oracle import OracleRun, run_oracle
from support.paths import GOLDEN

from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx


def _cases() -> dict[str, Case]:
    """Return one case of each recurrent model, and every recorded net with a RecurrentNetwork that can be a Scan."""
    cases = {}
    for folder in (GOLDEN / "models", GOLDEN / "nets"):
        for ref in find_cases(folder):
            if ref.gradients or (ref.kind == "model" and ref.index):
                continue
            if any(op.type == "RecurrentNetwork" for op in read_net(ref).op):
                cases[ref.id] = read_case(ref)
    return cases


CASES: Final = _cases()
WITHOUT_STEPS: Final = "recurrent_net_executor_test/001"


def exported(case: Case, *, with_sizes: bool) -> onnx.ModelProto:
    """Return the net with a Scan, or none where its sizes say that there are no steps."""
    inputs = {
        name: (array.dtype, list(array.shape) if with_sizes else [None] * array.ndim)
        for name, array in case.inputs.items()
    }
    return to_onnx(case.net, case.init_net, inputs=inputs, outputs=list(case.outputs), recurrent="scan")


def count_scans(graph: onnx.GraphProto) -> int:
    bodies = [attr.g for node in graph.node for attr in node.attribute if attr.HasField("g")]
    return sum(node.op_type == "Scan" for node in graph.node) + sum(map(count_scans, bodies))


def count_ops(net: NetDef) -> Counter[str]:
    counts = Counter(op.type for op in net.op)
    for op in net.op:
        for arg in op.arg:
            if arg.HasField("n"):
                counts += count_ops(arg.n)
    return counts


def assert_recorded(case: Case, outputs: dict[str, Any]) -> None:
    for name, array in case.outputs.items():
        assert outputs[name].dtype == array.dtype, name
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def given(case: Case, model: Model) -> dict[str, Any]:
    return {name: case.inputs[name] for name in model.inputs}


@pytest.mark.parametrize("with_sizes", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_scan_is_a_recurrent_network(name: str, with_sizes: bool) -> None:
    case = CASES[name]
    scans = exported(case, with_sizes=with_sizes)
    model = to_netdef(scans)
    counts = count_ops(model.predict_net)
    assert counts["RecurrentNetwork"] == count_scans(scans.graph)
    assert counts["RecurrentNetwork"] == count_ops(case.net)["RecurrentNetwork"] or name == WITHOUT_STEPS
    assert counts["ONNXWhile"] == 0
    again = OnnxSession(to_onnx(model).SerializeToString())
    assert_recorded(case, dict(zip(case.outputs, again.run_values(given(case, model)), strict=True)))


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    for case in CASES.values():
        for with_sizes in (True, False):
            model = to_netdef(exported(case, with_sizes=with_sizes))
            runs.append(OracleRun(model.predict_net, given(case, model), model.init_net, list(case.outputs)))
    results = iter(run_oracle(runs))
    for name, case in CASES.items():
        for _ in range(2):
            result = next(results)
            assert result.error == "", name
            assert_recorded(case, dict(result.outputs))
