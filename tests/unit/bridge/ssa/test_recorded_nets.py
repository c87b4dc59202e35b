"""Recorded nets: versions as real Caffe2 counts them, and rewritten nets that compute what was recorded."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from conformance.corpus import Array, Case, CaseRef, find_cases, read_case
from conformance.oracle import OracleRun, run_oracle
from support.paths import GOLDEN, SUPPORT

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa import get_op_ids_in_path, get_output_producers, get_ssa, get_undefined_blobs, ssa_rewrite

ANSWERS = SUPPORT / "data" / "ssa_oracle.json.gz"
IN_PLACE_TYPES = (
    "EnsureClipped", "MomentumSGDUpdate", "RowWiseSparseAdagrad", "ScatterAssign",
    "ScatterWeightedSum", "SparseAdagrad", "SparseAdam", "SparseMomentumSGDUpdate", "SparseNormalize", "SpatialBN",
)  # fmt: skip
IN_PLACE = {"If", "While", "Do", "CopyRowsToTensor", "ScatterAssign", "SparseFtrl", "SpatialBN"}


def recorded_nets() -> Iterator[tuple[str, NetDef]]:
    for path in sorted((GOLDEN / "nets").glob("*.npz")):
        with np.load(path, allow_pickle=False) as archive:
            for index, meta in enumerate(json.loads(archive["meta"].tobytes())):
                if meta["kind"] == "net":
                    net = NetDef.FromString(archive[f"{index:03d}/proto"].tobytes())
                    yield f"nets/{path.name}/{index}", net
                    for position, op in enumerate(net.op):
                        for arg in op.arg:
                            if arg.HasField("n"):
                                yield f"nets/{path.name}/{index}/{position}/{arg.name}", arg.n
    for path in sorted((GOLDEN / "models").glob("*/*_net.pb")):
        yield f"models/{path.parent.name}/{path.name}", NetDef.FromString(path.read_bytes())


def digest(net: NetDef) -> str:
    """Return what the functions answer for a net, digested as the answers of real Caffe2 were when recorded."""
    ssa, versions = get_ssa(net)
    names = sorted(versions)
    first = [name for name in net.external_input if name in versions][:1]
    answers = [
        ssa,
        sorted(versions.items()),
        sorted(get_undefined_blobs(ssa)),
        sorted(get_output_producers(ssa).items()),
        get_op_ids_in_path(ssa, versions, first, names),
        get_op_ids_in_path(ssa, versions, [], names[-1:]),
    ]
    return hashlib.sha256(json.dumps(answers, separators=(",", ":")).encode()).hexdigest()[:16]


def test_versions_are_those_of_real_caffe2() -> None:
    answers = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    nets = dict(recorded_nets())
    assert nets.keys() == answers.keys()
    assert [name for name, net in nets.items() if digest(net) != answers[name]] == []


def test_recorded_nets_are_rewritten_to_one_writer_a_name() -> None:
    for name, net in recorded_nets():
        if net.op and not name.endswith("_step_net"):
            rewritten, _ = ssa_rewrite(net)
            writers = Counter(out for op in rewritten.op if op.type not in IN_PLACE for out in op.output)
            assert set(writers.values()) <= {1}, name
            assert not writers.keys() & set(net.external_input), name
            again, _ = ssa_rewrite(rewritten)
            assert again.SerializeToString() == rewritten.SerializeToString(), name  # NaN is equal, too


def sample() -> list[CaseRef]:
    """Return each model's first case, and every fifth recorded net of the tests of recurrent nets and control flow."""
    refs = [ref for ref in find_cases(GOLDEN / "models") if ref.index == 0]
    for name in ("rnn_cell_test", "brew_test", "optimizer_test", "layers_test", "recurrent_network_test"):
        refs += find_cases(GOLDEN / "nets" / f"{name}.npz")[::5]
    return refs


def updates_in_place() -> list[CaseRef]:
    """Return cases of operators that real Caffe2 holds to one blob."""
    refs = [ref for kind in IN_PLACE_TYPES for ref in find_cases(GOLDEN / "ops" / f"{kind}.npz")[:2]]
    return [ref for ref in refs if {*read_case(ref).net.op[0].input} & {*read_case(ref).net.op[0].output}]


def runs_of(case: Case, times: int) -> tuple[OracleRun, OracleRun]:
    """Return a case's net, ``times`` times over, as it is and rewritten; both fetch what was recorded."""
    net = NetDef()
    net.CopyFrom(case.net)
    for _ in range(times - 1):
        net.op.extend(list(case.net.op))
    del net.external_output[:]
    net.external_output.extend(case.outputs)
    predict, init = ssa_rewrite(net, case.init_net)
    return (
        OracleRun(net, case.inputs, case.init_net, list(case.outputs), case.quantized),
        OracleRun(predict, case.inputs, init, list(predict.external_output), case.quantized),
    )


def equal(expected: Array, actual: Array) -> bool:
    if expected.dtype == object:
        return bool(expected.tolist() == actual.tolist())
    return expected.shape == actual.shape and np.allclose(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.oracle
def test_rewritten_nets_compute_in_real_caffe2_what_was_recorded() -> None:
    cases = [read_case(ref) for ref in (*sample(), *updates_in_place())]
    runs = [runs_of(case, 1)[1] for case in cases]
    for case, run, result in zip(cases, runs, run_oracle(runs), strict=True):
        assert result.error == "", case.ref.id
        for (name, expected), new in zip(case.outputs.items(), run.outputs or (), strict=True):
            if new not in result.opaque:
                assert equal(expected, result.outputs[new]), (case.ref.id, name)


@pytest.mark.oracle
def test_nets_twice_over_compute_the_same_in_real_caffe2() -> None:
    """Give every blob several writers: states, gradients, scopes, all that bodies write."""
    cases = [read_case(ref) for ref in sample()]
    pairs = [runs_of(case, 2) for case in cases]
    results = run_oracle([run for pair in pairs for run in pair])
    for case, (given, rewritten), before, after in zip(cases, pairs, results[::2], results[1::2], strict=True):
        assert (before.error, after.error) == ("", ""), case.ref.id
        for name, new in zip(given.outputs or (), rewritten.outputs or (), strict=True):
            assert equal(before.outputs[name], after.outputs[new]), (case.ref.id, name)
