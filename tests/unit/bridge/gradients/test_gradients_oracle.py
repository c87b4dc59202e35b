"""Gradient nets run in real Caffe2: against its own, finite differences and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleResult, OracleRun, run_oracle
from support.gradients.caffe2_gradients import ask, operator
from support.gradients.control_nets import BRANCHES, LOOPS, W, X, branch_net, net_of, while_ops
from support.gradients.random_nets import INPUTS, random_net, text_case

from caffe2_bridge.gradients import GradientError, add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Arrays = Mapping[str, Any]
_EPSILON: Final = 1e-2


def gradients_of(net: NetDef, inputs: Arrays, names: list[str], times: int = 0) -> dict[str, Any]:
    """Return values of the gradients of loss ``l``, zeros where there is none."""
    found = add_gradient_operators(net, ["l"])
    wanted = {name: str(found.gradients[name]) for name in names if name in found.gradients}
    run = OracleRun(found.net, inputs, outputs=sorted(set(wanted.values())), times=times)
    (result,) = run_oracle([run])
    assert not result.error
    zero = {name: np.zeros_like(inputs[name]) for name in names}
    return zero | {name: result.outputs[blob] for name, blob in wanted.items()}


def moved_runs(net: NetDef, inputs: Arrays, names: list[str], loss: str = "l") -> list[OracleRun]:
    """Return a run to either side of every element."""
    runs = []
    for name in names:
        for place in np.ndindex(inputs[name].shape):
            for sign in (1, -1):
                moved = inputs[name].copy()
                moved[place] += sign * _EPSILON
                runs.append(OracleRun(net, {**inputs, name: moved}, outputs=[loss]))
    return runs


def slopes(results: Iterator[OracleResult], inputs: Arrays, names: list[str], loss: str = "l") -> dict[str, Any]:
    """Return the gradients that the results of these runs show."""

    def slope() -> float:
        high, low = (float(next(results).outputs[loss].sum()) for _ in range(2))
        return (high - low) / (2 * _EPSILON)

    return {name: np.array([slope() for _ in range(inputs[name].size)]).reshape(inputs[name].shape) for name in names}


def differences(net: NetDef, inputs: Arrays, names: list[str]) -> dict[str, Any]:
    """Return the gradients of loss ``l`` by finite differences."""
    return slopes(iter(run_oracle(moved_runs(net, inputs, names))), inputs, names)


def assert_equal(found: Arrays, expected: Arrays, rtol: float = 2e-2, atol: float = 3e-3) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.oracle
def test_random_nets_give_what_those_of_real_caffe2_give() -> None:
    nets = [random_net(seed) for seed in range(10_000, 10_150)]
    answers = ask("nets", [text_case(*case) for case in nets])
    draw = np.random.default_rng(7)
    runs, compared = [], []
    for (net, ys), answer in zip(nets, answers, strict=True):
        if "error" in answer or not _differentiable(net, ys):
            continue
        theirs = NetDef()
        theirs.CopyFrom(net)
        theirs.op.extend(operator(text) for text in answer["operators"])
        ours = add_gradient_operators(net, ys)
        names = [name for name in INPUTS if name in ours.gradients]
        inputs = {name: draw.uniform(0.2, 1.0, (2, 3)).astype(np.float32) for name in INPUTS}
        for made, gradients in ((theirs, answer["gradients"]), (ours.net, ours.gradients)):
            runs.append(OracleRun(made, inputs, outputs=[str(gradients[name]) for name in names]))
        compared.append(names)
    results = run_oracle(runs)
    failed = 0
    for theirs_result, ours_result in zip(results[::2], results[1::2], strict=True):
        assert not ours_result.error
        if theirs_result.error:  # see test_backward.TestWhereRealCaffe2IsWrong
            failed += 1
        else:
            for theirs_value, ours_value in zip(
                theirs_result.outputs.values(), ours_result.outputs.values(), strict=True
            ):
                np.testing.assert_allclose(ours_value, theirs_value, rtol=1e-5, atol=1e-6)
    assert sum(map(bool, compared)) > 50
    assert failed < 15


@pytest.mark.oracle
def test_odd_nets_give_what_finite_differences_give() -> None:
    """Check gradients in several steps, shared ones, given ones: what real Caffe2 gets wrong."""
    judged = []
    runs: list[OracleRun] = []
    for seed in range(80):
        net, ys = random_net(20_000 + seed, odd=True)
        if any(op.type == "StopGradient" for op in net.op) or not _differentiable(net, ys):
            continue
        net.ClearField("external_input")
        # One loss: the sum of all, each weighted by the gradient that is given for it.
        whole = NetDef()
        whole.CopyFrom(net)
        for name in ys:
            whole.op.add(type="Mul", input=[name, f"{name}_given"], output=[f"{name}_weighted"])
        whole.op.add(type="Sum", input=[f"{name}_weighted" for name in ys], output=["loss"])
        inputs: dict[str, Any] = {
            name: np.linspace(0.3, 0.9, 6, dtype=np.float32).reshape(2, 3) + index / 10
            for index, name in enumerate(INPUTS)
        }
        inputs |= {f"{name}_given": np.full((2, 3), 0.5 + index, np.float32) for index, name in enumerate(ys)}
        found = add_gradient_operators(net, {name: f"{name}_given" for name in ys})
        names = [name for name in INPUTS if name in found.gradients and not _overwritten(net, name)]
        blobs = {name: str(found.gradients[name]) for name in names}
        runs += [OracleRun(found.net, inputs, outputs=list(blobs.values())), *moved_runs(whole, inputs, names, "loss")]
        judged.append((inputs, blobs))
    results = iter(run_oracle(runs))
    for inputs, blobs in judged:
        result = next(results)
        assert not result.error
        expected = slopes(results, inputs, list(blobs), "loss")
        assert_equal({name: result.outputs[blob] for name, blob in blobs.items()}, expected)
    assert sum(bool(blobs) for _, blobs in judged) > 20


def _differentiable(net: NetDef, ys: Mapping[str, str | None]) -> bool:
    """Whether no gradient needs what the net overwrites."""
    try:
        add_gradient_operators(net, ys)
    except GradientError:
        return False
    return True


def _overwritten(net: NetDef, name: str) -> bool:
    return any(name in op.output for op in net.op)


@pytest.mark.oracle
@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", BRANCHES)
def test_if(name: str, condition: bool) -> None:
    net = branch_net(name)
    inputs = {"cond": np.array([condition]), "x": X, "w": W, "y": X, "v": X}
    expected = differences(net, inputs, ["x", "w"])
    assert_equal(gradients_of(net, inputs, ["x", "w"]), expected)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["both branches read x", "no else"])
def test_if_is_what_real_caffe2_makes(name: str) -> None:
    """Compare where its own is right, the order of its sets apart."""
    net = branch_net(name)
    (answer,) = ask("nets", [text_case(net, {"l": None})])
    found = add_gradient_operators(net, ["l"])
    assert found.gradients == answer["gradients"]
    ours = [_as_sets(op) for op in found.net.op[len(net.op) :]]
    assert ours == [_as_sets(operator(text)) for text in answer["operators"]]


def _as_sets(op: OperatorDef) -> Any:
    """Return what an operator says, whatever the order of operands, of bindings and of fills."""
    if op.type not in ("Do", "If"):
        return op.SerializeToString(deterministic=True)
    args = {arg.name: arg for arg in op.arg}
    said: dict[str, Any] = {}
    for name, arg in args.items():
        if arg.HasField("n"):
            body = [_as_sets(inner) for inner in arg.n.op]
            said[name] = (arg.n.name, sorted(body) if arg.n.op[0].type == "ConstantFill" else body)
    if op.type == "Do":
        outer = [*op.input[:-1], *op.output[:-1]]
        places = args["outer_blobs_idx"].ints
        said["bindings"] = {
            inner: outer[place] for inner, place in zip(args["inner_blobs"].strings, places, strict=True)
        }
        said["saved"] = sorted(args["saved_fwd_blobs"].strings)
    return op.type, op.name, op.is_gradient_op, sorted(op.input), sorted(op.output), said


@pytest.mark.oracle
@pytest.mark.torch
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_while(name: str, count: int) -> None:
    import torch

    loop = LOOPS[name]
    names = ["w", *loop.carried.split()]
    inputs = {
        "n": np.array([count], np.int32), "one": np.array([1], np.int32), "rows": np.array([1, 1], np.int32), "w": W,
        **{state: X + index / 4 for index, state in enumerate(loop.carried.split())},
    }  # fmt: skip
    blobs: dict[str, Any] = {key: torch.tensor(inputs[key], requires_grad=True) for key in names}
    leaves = dict(blobs)
    blobs["n"] = count
    for _ in range(count):
        loop.step(blobs)
    loop.end(blobs).sum().backward()
    expected = {
        key: np.zeros_like(inputs[key]) if leaf.grad is None else leaf.grad.numpy() for key, leaf in leaves.items()
    }
    assert_equal(gradients_of(loop.net(), inputs, names), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.oracle
def test_two_loops_that_read_one_blob() -> None:
    one = LOOPS["one state"]
    body = [("Copy", "h", "was"), ("Mul", "was w", "m"), ("Tanh", "m", "h")]
    ops = [*while_ops("w h", body, "first"), *while_ops("w h", body, "second"), *one.after, ("SumElements", "z", "l")]
    net = net_of("net", ops)
    inputs = {"n": np.array([2], np.int32), "one": np.array([1], np.int32), "w": W, "h": X}
    expected = differences(net, inputs, ["w", "h"])
    assert_equal(gradients_of(net, inputs, ["w", "h"]), expected)


@pytest.mark.oracle
@pytest.mark.parametrize("name", LOOPS)
def test_loop_runs_again(name: str) -> None:
    """Real Caffe2 keeps workspaces from run to run, and replaces the copies of outer blobs in them."""
    loop = LOOPS[name]
    carried = loop.carried.split()
    inputs = {"n": np.array([3], np.int32), "one": np.array([1], np.int32), "rows": np.array([1, 1], np.int32), "w": W}
    inputs |= {f"start_{state}": X + index / 4 for index, state in enumerate(carried)}
    found = add_gradient_operators(loop.net(), ["l"])
    # A loop leaves its state where it was; every run starts anew.
    fills = [OperatorDef(type="Copy", input=[f"start_{state}"], output=[state]) for state in carried]
    whole = NetDef(name="again", op=[*fills, *found.net.op])
    blobs = [str(found.gradients[name]) for name in ("w", *carried) if name in found.gradients]
    (once,) = run_oracle([OracleRun(whole, inputs, outputs=blobs)])
    (again,) = run_oracle([OracleRun(whole, inputs, outputs=blobs, times=20)])
    assert not once.error
    assert not again.error
    assert len(again.seconds) == 20
    assert_equal(again.outputs, once.outputs)
