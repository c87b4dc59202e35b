"""Tables that stay in one buffer: what users and other nets see of them never changes afterwards."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import DeviceTensor, SessionOptions
from caffe2_backend.runtime.blobs import burst
from caffe2_backend.runtime.program.row_updates import parts
from caffe2_backend.runtime.program.states.resident import resident_session
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef

ROWS = 4096
INDICES = np.array([5, 0, 4095, 17], np.int64)
STEP = NetDef(
    name="step",
    op=[
        operator("Gather", ["table", "indices"], ["rows"]),
        operator("SparseAdagrad", ["table", "moment", "indices", "grad", "lr"], ["table", "moment"]),
        operator("SumElements", ["rows"], ["sum"]),
    ],
    external_input=["table", "moment", "indices", "grad", "lr"],
)


@pytest.fixture(autouse=True)
def _without_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are updated by onnxruntime, though numba may be installed."""
    monkeypatch.setattr(parts, "is_available", lambda: False)


def trained(workspace: Workspace | None = None) -> Workspace:
    workspace = workspace or Workspace()
    random = np.random.default_rng(0)
    workspace.feed("table", random.standard_normal((ROWS, 8)).astype(np.float32))
    workspace.feed("moment", np.zeros((ROWS, 8), np.float32))
    workspace.feed("indices", INDICES)
    workspace.feed("grad", np.ones((4, 8), np.float32))
    workspace.feed("lr", np.array([-0.5], np.float32))
    workspace.create_net(STEP)
    workspace.run_net("step")
    return workspace


def address(workspace: Workspace, blob: str = "table") -> int:
    value = workspace._store.blobs[blob]
    assert isinstance(value, np.ndarray)
    return value.ctypes.data


def fetch(workspace: Workspace, blob: str = "table") -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    value = workspace.fetch(blob)
    assert isinstance(value, np.ndarray)
    return value


def test_a_table_stays_where_it_is() -> None:
    workspace = trained()
    before = {blob: address(workspace, blob) for blob in ("table", "moment")}
    for _ in range(5):
        workspace.run_net("step")
        assert {blob: address(workspace, blob) for blob in before} == before
    assert workspace.conversions() == 1


def test_steps_are_those_of_numpy() -> None:
    workspace = trained()
    table = np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float32)
    moment = np.zeros((ROWS, 8), np.float32)
    for step in range(4):
        if step:
            workspace.run_net("step")
        np.testing.assert_allclose(fetch(workspace, "rows"), table[INDICES], rtol=1e-6)
        np.testing.assert_allclose(fetch(workspace, "sum"), table[INDICES].sum(), rtol=1e-5)
        moment[INDICES] += 1
        table[INDICES] -= 0.5 / (np.sqrt(moment[INDICES]) + 1e-5)
        np.testing.assert_allclose(fetch(workspace), table, rtol=1e-5)
        np.testing.assert_array_equal(fetch(workspace, "moment"), moment)


def test_fetched_and_fed_arrays_stay_as_they_are() -> None:
    workspace = trained()
    fetched = fetch(workspace)
    copy = fetched.copy()
    workspace.run_net("step")
    np.testing.assert_array_equal(fetched, copy)
    fed = np.zeros((ROWS, 8), np.float32)
    workspace.feed("table", fed)
    for _ in range(3):
        workspace.run_net("step")
    assert not fed.any()
    assert fetch(workspace)[INDICES].all()


def test_deferred_blobs_of_other_nets_keep_their_inputs() -> None:
    workspace = trained()
    workspace.create_net(
        NetDef(
            name="predict",
            op=[operator("Gather", ["table", "indices"], ["x"]), operator("SumElements", ["x"], ["y"])],
            external_input=["table", "indices"],
        )
    )
    workspace.run_net("predict")
    expected = fetch(workspace)[INDICES]
    workspace.run_net("step")
    np.testing.assert_array_equal(fetch(workspace, "x"), expected)


def test_a_step_on_copies_of_the_table() -> None:
    workspace = trained()
    workspace.run_operator_once(operator("Copy", ["table"], ["old"]))
    old = fetch(workspace, "old")
    np.testing.assert_array_equal(old, fetch(workspace))
    workspace.run_net("step")
    np.testing.assert_array_equal(fetch(workspace, "old"), old)
    assert not np.array_equal(fetch(workspace), old)


def test_a_traced_step_and_indices_of_another_type() -> None:
    workspace = trained()
    trace = workspace.run_net("step", every_blob=True)
    kept = [step.values["table"] for step in trace.steps if "table" in getattr(step, "values", {})]
    copies = [np.array(value) for value in kept]
    workspace.run_net("step")
    for value, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(value, copy)
    workspace.feed("indices", INDICES.astype(np.int32))
    workspace.run_net("step")
    workspace.run_net("step")
    moment = fetch(workspace, "moment")
    assert moment[INDICES].max() == 5


def test_a_table_of_another_size() -> None:
    workspace = trained()
    for rows in (5000, 4096, 6000):
        workspace.feed("table", np.zeros((rows, 8), np.float32))
        workspace.feed("moment", np.zeros((rows, 8), np.float32))
        for _ in range(2):
            workspace.run_net("step")
        assert fetch(workspace).shape == (rows, 8)
        np.testing.assert_array_equal(np.unique(np.nonzero(fetch(workspace))[0]), np.sort(INDICES))


def test_outputs_are_written_to_memory_that_nobody_sees() -> None:
    workspace = trained()
    workspace.run_net("step")
    kept = [workspace._store.blobs["rows"]]
    view = np.asarray(kept[0])[1:]
    copies = [np.array(kept[0]), np.array(view)]
    addresses = set()
    for _ in range(9):
        workspace.run_net("step")
        addresses.add(address(workspace, "rows"))
    np.testing.assert_array_equal(kept[0], copies[0])
    np.testing.assert_array_equal(view, copies[1])
    del kept[0]
    workspace.run_net("step", 3)
    np.testing.assert_array_equal(view, copies[1])
    assert len(addresses) <= 3


def test_more_values_of_an_output_are_kept_than_there_are_buffers() -> None:
    workspace = trained()
    kept, copies = [], []
    for _ in range(8):
        workspace.run_net("step")
        kept.append(workspace._store.blobs["rows"])
        copies.append(np.array(kept[-1]))
    for value, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(value, copy)


def test_a_burst_writes_other_states_to_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product reads all of a state for each of its elements."""
    monkeypatch.setattr(burst, "SECONDS", 60.0)
    text = """<ir_version: 9, opset_import: ["" : 20]>
    step (float[8, 2] table, int64[2, 1] at, float[2, 2] rows, float[64, 64] rotation, float[64, 64] state)
      => (float[8, 2] table_1, float[64, 64] state_1) {
      table_1 = ScatterND<reduction = "add">(table, at, rows)
      state_1 = MatMul(rotation, state)
    }"""
    pairs = {"table": "table_1", "state": "state_1"}
    found = resident_session(ir.from_proto(onnx.parser.parse_model(text)), pairs, "cpu", SessionOptions())
    assert found is not None
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0].astype(np.float32)
    given = {
        "table": np.zeros((8, 2), np.float32),
        "at": np.array([[1], [5]]),
        "rows": np.ones((2, 2), np.float32),
        "rotation": rotation,
        "state": np.eye(64, dtype=np.float32),
    }
    given["table"], given["state"] = map(np.asarray, found[1].run(given, 0))
    steps = burst.Burst(5, lambda: True)
    table, state = found[1].run(given, 1, steps)
    assert steps.steps == 5
    np.testing.assert_array_equal(np.asarray(table)[[1, 5, 0], 0], [6, 6, 0])
    np.testing.assert_allclose(state, np.linalg.matrix_power(rotation, 6), atol=1e-5)


def test_repeated_indices() -> None:
    workspace = trained()
    workspace.feed("indices", np.array([3, 3, 7, 3], np.int64))
    moment = fetch(workspace, "moment")
    workspace.run_net("step")
    workspace.run_net("step")
    np.testing.assert_array_equal((fetch(workspace, "moment") - moment)[[3, 7, 5], 0], [6, 2, 0])


@pytest.mark.parametrize("indices", [[], [9], [4, 2], [3, 3, 7, 3], [0, 5, 0, 5, 1, 0, 4095], [8] * 20])
def test_indices_distinct_and_repeated_in_turn(indices: list[int]) -> None:
    workspace = trained()
    table, moment = fetch(workspace).copy(), fetch(workspace, "moment").copy()
    grads = np.random.default_rng(1).standard_normal((len(indices), 8)).astype(np.float32)
    workspace.feed("indices", np.array(indices, np.int64))
    workspace.feed("grad", grads)
    workspace.run_net("step")
    for index, grad in zip(indices, grads, strict=True):
        moment[index] += grad * grad
        table[index] -= np.float32(0.5) * grad / (np.sqrt(moment[index]) + np.float32(1e-5))
    np.testing.assert_allclose(fetch(workspace, "moment"), moment, rtol=1e-6)
    np.testing.assert_allclose(fetch(workspace), table, rtol=1e-5, atol=1e-6)
    workspace.run_net("step")
    resident = {blob: address(workspace, blob) for blob in ("table", "moment")}
    workspace.run_net("step")
    assert {blob: address(workspace, blob) for blob in resident} == resident


def test_threads_see_whole_steps() -> None:
    """Check that a reader that runs while a step updates the table sees it before the step or after it."""
    workspace = trained()
    workspace.create_net(
        NetDef(
            name="read",
            op=[
                operator("Gather", ["table", "indices"], ["seen"]),
                operator("Gather", ["moment", "indices"], ["sums"]),
            ],
            external_input=["table", "moment", "indices"],
            external_output=["seen", "sums"],
        )
    )
    failures: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            workspace.run_net("read")
            sums = fetch(workspace, "sums")
            if np.unique(sums).size != 1:
                failures.append("a step was seen in part")

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(200):
        workspace.run_net("step")
    done.set()
    thread.join()
    assert not failures
    assert fetch(workspace, "moment")[5, 0] == 201


@pytest.mark.parametrize("staged", [False, True])
def test_a_table_stays_on_a_device(staged: bool) -> None:
    """Use a device that the host stands in for: what was handed out keeps its value there, too."""
    workspace = Workspace("cuda:0", options=SessionOptions(stand_in={"cuda:0": "cpu"}))
    step = NetDef()
    step.CopyFrom(STEP)
    if staged:
        for op in step.op:
            op.device_option.device_type = PROTO_CUDA
        step.op.extend([operator("CopyGPUToCPU", ["rows"], ["host"]), operator("Negative", ["host"], ["negative"])])
    workspace.feed("table", np.zeros((ROWS, 8), np.float32))
    workspace.feed("moment", np.zeros((ROWS, 8), np.float32))
    workspace.feed("indices", INDICES)
    workspace.feed("grad", np.ones((4, 8), np.float32))
    workspace.feed("lr", np.array([-0.5], np.float32))
    workspace.create_net(step)
    workspace.run_net("step", 2)
    addresses = set()
    for _ in range(3):
        workspace.run_net("step")
        value = workspace._store.blobs["table"]
        assert isinstance(value, DeviceTensor)
        addresses.add(value.ort.data_ptr())
        del value
    assert len(addresses) == 1
    shared = workspace.fetch("table", on_device=True)
    assert isinstance(shared, DeviceTensor)
    before = shared.numpy().copy()
    capsule = shared.__dlpack__()
    ort = shared.ort
    del shared
    workspace.run_net("step", 2)
    np.testing.assert_array_equal(ort.numpy(), before)
    assert fetch(workspace, "moment")[5, 0] == 7
    del capsule


def steps_in_place(net: NetDef, *, weight: float = 1.0) -> dict[str, bool]:
    """Return which blobs of a net that trains a table and a dense layer stay in place, from the second step on."""
    workspace = trained()
    workspace.run_operator_once(operator("CreateMutex", [], ["mutex"]))
    workspace.feed("iter", np.zeros(1, np.int64))
    workspace.feed("one", np.array([weight], np.float32))
    workspace.feed("weights", np.ones((8, 8), np.float32))
    workspace.create_net(net)
    workspace.run_net(net.name)
    before = {blob: address(workspace, blob) for blob in ("table", "moment")}
    for _ in range(3):
        workspace.run_net(net.name)
    return {blob: address(workspace, blob) == at for blob, at in before.items()}


def test_a_mutex_among_the_inputs_copies_nothing() -> None:
    net = NetDef(name="counted", op=[operator("AtomicIter", ["mutex", "iter"], ["iter"]), *STEP.op])
    assert steps_in_place(net) == {"table": True, "moment": True}


def test_a_cut_before_the_update_copies_nothing() -> None:
    gather, update, total = STEP.op
    net = NetDef(name="cut", op=[
        gather, operator("MatMul", ["rows", "weights"], ["product"]), operator("Print", ["product"], []), update, total,
    ])  # fmt: skip
    assert steps_in_place(net) == {"table": True, "moment": True}


def test_blobs_before_a_cut_are_those_of_the_run_that_wrote_them() -> None:
    gather, update, total = STEP.op
    workspace = trained()
    before = fetch(workspace)[INDICES]
    workspace.create_net(NetDef(name="cut", op=[gather, operator("Print", ["lr"], []), update, total]))
    workspace.run_net("cut")
    np.testing.assert_array_equal(fetch(workspace, "rows"), before)
    assert not np.array_equal(fetch(workspace)[INDICES], before)


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_a_weight_of_one_that_was_fed_copies_nothing(weight: float) -> None:
    net = NetDef(name="fed", op=[operator("ScatterWeightedSum", ["table", "one", "indices", "grad", "lr"], ["table"])])
    assert steps_in_place(net, weight=weight) == {"table": weight == 1.0, "moment": True}


def test_a_weight_that_is_fed_again_is_used() -> None:
    workspace = trained()
    workspace.feed("one", np.array([1], np.float32))
    net = NetDef(name="fed", op=[operator("ScatterWeightedSum", ["table", "one", "indices", "grad", "lr"], ["table"])])
    workspace.create_net(net)
    for weight in (1.0, 0.5, 1.0):
        before = fetch(workspace)
        workspace.feed("one", np.array([weight], np.float32))
        workspace.run_net("fed")
        before[INDICES] = before[INDICES] * np.float32(weight) - np.float32(0.5)
        np.testing.assert_allclose(fetch(workspace), before, rtol=1e-6)


def test_a_model_whose_fusions_repeat_names_stays_in_place() -> None:
    """onnxruntime's optimizer names outputs of SparseFtrl's turns alike in the graph and in a body."""
    workspace = trained()
    workspace.feed("pairs", np.zeros((ROWS, 8, 2), np.float32))
    update = operator("SparseFtrl", ["table", "pairs", "indices", "grad"], ["table", "pairs"], alpha=1.0, lambda1=0.0)
    workspace.create_net(NetDef(name="ftrl", op=[update, operator("Ftrl", ["d", "dp", "dg"], ["d", "dp"], alpha=1.0)]))
    for name, shape in (("d", (3, 2)), ("dp", (3, 2, 2)), ("dg", (3, 2))):
        workspace.feed(name, np.ones(shape, np.float32))
    workspace.run_net("ftrl")
    before = address(workspace), address(workspace, "pairs")
    workspace.run_net("ftrl")
    assert (address(workspace), address(workspace, "pairs")) == before
