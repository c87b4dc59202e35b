from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend.importer import to_netdef
from caffe2_bridge import BridgeError
from caffe2_bridge.devices import as_device
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef

MODEL = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,3] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> { t = Mul(x, w) y = Relu(t) }"""


def test_operators_and_parameters_are_where_they_were_asked_for() -> None:
    model = to_netdef(parser.parse_model(MODEL), device="cuda:1")
    assert [op.type for op in model.predict_net.op] == ["CopyCPUToGPU", "Mul", "Relu"]
    for op in (*model.predict_net.op, *model.init_net.op):
        assert (op.device_option.device_type, op.device_option.device_id) == (PROTO_CUDA, 1)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_on_the_host_nothing_is_said(device: str | None) -> None:
    model = to_netdef(parser.parse_model(MODEL), device=device)
    assert not any(op.HasField("device_option") for op in (*model.predict_net.op, *model.init_net.op))


@pytest.mark.parametrize("device", ["abacus", {"x": "abacus"}])
def test_a_device_that_there_is_not(device: str | dict[str, str]) -> None:
    with pytest.raises(BridgeError, match="abacus"):
        to_netdef(parser.parse_model(MODEL), device=device)


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(OptionError, match="'u', 't', and the model has no such input or parameter"):
        to_netdef(parser.parse_model(MODEL), device={"x": "cuda", "u": "cuda", "t": "cpu"})


RECURRENT = """<ir_version: 10, opset_import: ["": 20]>
g (float[T,N,3] x, float[1,N,4] h, bool c) => (float[T,1,N,4] y, float[T,1,N,4] z)
  <float[4] k = {1, 2, 3, 4}, float[1,12,3] w = {W}, float[1,12,4] r = {R}> {
  y, last = GRU<hidden_size = 4>(x, w, r, , , h)
  v = Add(y, k)
  z = If(c) <then_branch = a () => (float[T,1,N,4] p) { p = Where(c, v, k) },
             else_branch = b () => (float[T,1,N,4] q) { q = Add(v, k) }> }"""


def recurrent() -> onnx.ModelProto:
    numbers = np.random.default_rng(3).normal(size=84).round(2).astype(str)
    return parser.parse_model(
        RECURRENT.replace("{W}", "{" + ",".join(numbers[:36]) + "}").replace("{R}", "{" + ",".join(numbers[36:]) + "}")
    )


def described(net: NetDef) -> list[str]:
    """Return the types and devices of the operators, bodies behind them."""
    made = []
    for op in net.op:
        made.append(f"{op.type} {as_device(op.device_option)}")
        for arg in op.arg:
            if arg.HasField("n"):
                made += [f"{arg.name}: {text}" for text in described(arg.n)]
    return made


def test_operators_are_where_their_inputs_are() -> None:
    model = to_netdef(recurrent(), device={"x": "cuda:1", "r": "cpu"})
    found = described(model.predict_net)
    assert [text for text in found if ":" not in text.split()[0]] == [
        "FC cuda:1", "CopyCPUToGPU cuda:1", "RecurrentNetwork cuda:1", "ExpandDims cuda:1", "Add cuda:1", "If cpu",
    ]  # fmt: skip
    steps = {text.removeprefix("step_net: ") for text in found if text.startswith("step_net")}
    assert steps == {f"{kind} cuda:1" for kind in ("Split", "FC", "Add", "Sub", "Mul", "Sigmoid", "Tanh")}
    # Caffe2 has no Where for CUDA.
    branch = [text.removeprefix("then_net: ") for text in found if text.startswith("then_net")]
    assert "Where cpu" in branch
    assert "CopyGPUToCPU cuda:1" in branch
    fills = {op.output[0]: str(as_device(op.device_option)) for op in model.init_net.op}
    assert fills["k"] == "cuda:1"
    assert "r" not in fills  # a part of the weights in Caffe2's order: its device is asked for, and is nowhere


def test_a_parameter_can_be_named() -> None:
    model = to_netdef(recurrent(), device={"k": "cuda:0"})
    assert [text for text in described(model.predict_net) if "cuda" in text][:2] == [
        "CopyCPUToGPU cuda:0",
        "Add cuda:0",
    ]
    placed = {op.output[0] for op in model.init_net.op if op.device_option.device_type}
    assert placed == {"k", "p/const", "p/const_1"}  # beside it


def test_on_the_host_by_input() -> None:
    model = to_netdef(recurrent(), device={"x": "cpu"})
    assert not any(op.HasField("device_option") for op in (*model.predict_net.op, *model.init_net.op))


@pytest.mark.oracle
def test_placed_nets_compute_the_same() -> None:
    """There is no GPU: once the copies are in place, those between devices become plain ones."""
    rng = np.random.default_rng(4)
    inputs = {"x": rng.normal(size=(5, 2, 3)).astype(np.float32), "h": rng.normal(size=(1, 2, 4)).astype(np.float32)}
    asked: list[Any] = [None, "cuda:0", {"x": "cuda:1"}, {"k": "cuda:0"}, {"h": "cuda:0", "k": "cpu", "x": "cuda:1"}]
    runs, copies = [], []
    for condition in (True, False):
        for device in asked:
            model = to_netdef(recurrent(), device=device)
            copies.append(on_host(model.predict_net))
            fed = {**inputs, "c": np.array(condition)}
            init = NetDef.FromString(model.init_net.SerializeToString())
            on_host(init)
            runs.append(OracleRun(model.predict_net, fed, init, ["y", "z"]))
    assert copies[0] == 0
    assert min(copies[1 : len(asked)]) > 0
    results = run_oracle(runs)
    assert [result.error for result in results if result.error] == []
    for number, result in enumerate(results):
        for name, expected in results[number // len(asked) * len(asked)].outputs.items():
            np.testing.assert_array_equal(result.outputs[name], expected)


def on_host(net: NetDef) -> int:
    """Put everything on the host, in place; return how many copies there were between devices."""
    count = 0
    for op in net.op:
        op.ClearField("device_option")
        if op.type in ("CopyCPUToGPU", "CopyGPUToCPU"):
            op.type, count = "Copy", count + 1
        count += sum(on_host(arg.n) for arg in op.arg if arg.HasField("n"))
    return count
