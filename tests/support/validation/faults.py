"""Planted faults: pairs of models of which the second computes one thing wrong, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from conformance.recording import operator
from support.cells import Recurrent, fills, weights
from support.paths import MODELS

from caffe2_bridge import Model, load
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.specs import Case, make_cases
from caffe2_validation.sizes import Size

SIZE = Size(6, 3, 4)


@dataclass(frozen=True)
class Fault:
    """``place`` or ``blob`` is what must be named, ``step`` the timestep, where there is one."""

    name: str
    good: Any = field(repr=False)
    bad: Any = field(repr=False)
    case: Case = field(repr=False)
    place: str = ""
    blob: str = ""
    step: int | None = None


@cache  # for several modules: it converts each model
def every_fault() -> Sequence[Fault]:
    """Return all of them, in a fixed order."""
    return [
        *_bad_weights(),
        *_swapped_gates(),
        *_arguments(),
        *_branches(),
        *_at_a_step(),
        *_nodes(),
        *_node_at_a_step(),
    ]


def case_of(model: Model, form: str = "auto") -> Case:
    return make_cases(Forms(model, export={"recurrent": form}).graph, model, sizes=[SIZE])[0]


def with_weight(model: Model, name: str, change: Callable[[Any], Any]) -> Model:
    """Return the model with one parameter changed."""
    values = {key: array.copy() for key, array in model.params.items()}
    values[name] = change(values[name])
    return Model.of(model.predict_net, fills(values))


def _bump(array: Any) -> Any:
    array.reshape(-1)[array.size // 2] += 0.5
    return array


def reader(net: NetDef, blob: str, prefix: str = "") -> str:
    """Return the place of the first operator, of a body before the one that has it, that reads a blob."""
    for op in NetView(net).ops:
        place = (
            f"{prefix}{net.name or 'net'}[{op.index}] {op.type}" if not prefix else f"{prefix}[{op.index}] {op.type}"
        )
        if op.type == "RecurrentNetwork":
            step = op.args.net("step_net")
            found = reader(step, blob, f"{place} > step_net") if step else ""
            if found:
                return found
        elif blob in op.inputs:
            return place
    return ""


def _bad_weights() -> Iterator[Fault]:
    for name in ("lstm", "gru", "milstm", "attention_regular", "layer_norm_lstm"):
        model = load(MODELS / name)
        case = case_of(model)
        for weight in model.params:
            place = reader(model.predict_net, weight)
            if place and weight not in case.inputs:
                step = 0 if " > " in place else None
                yield Fault(f"weight {name} {weight}", model, with_weight(model, weight, _bump), case, place, step=step)


def _swapped_gates() -> Iterator[Fault]:
    for name, count in (("lstm", 4), ("lstm_two_layers", 4), ("lstm_drop_states", 4)):
        model = load(MODELS / name)
        weight = next(key for key in model.params if key.endswith("gates_t_w"))

        def swap(array: Any, count: int = count) -> Any:
            parts = np.split(array, count)
            return np.concatenate([parts[1], parts[0], *parts[2:]])

        place = reader(model.predict_net, weight)
        yield Fault(f"gates {name}", model, with_weight(model, weight, swap), case_of(model), place, step=0)


def chain(*ops: OperatorDef, values: dict[str, Any]) -> Model:
    net = NetDef(name="net", op=ops, external_input=["x", *values], external_output=[ops[-1].output[0]])
    return Model.of(net, fills(values))


def _arguments() -> Iterator[Fault]:
    """Yield operators whose argument is wrong, in the middle of a chain."""
    random = np.random.default_rng(5)
    image = Case("image", {"x": random.standard_normal((2, 3, 8, 8)).astype(np.float32)})
    w = weights({"w": (3, 3, 3, 3), "s": (3,), "b": (3,), "m": (3,)}) | {"v": np.array([0.01, 0.02, 0.5], np.float32)}
    pads = {"kernel": 3, "pad_t": 1, "pad_b": 0, "pad_l": 0, "pad_r": 1}
    other = {"kernel": 3, "pad_t": 0, "pad_b": 1, "pad_l": 1, "pad_r": 0}
    norm = ["h", "s", "b", "m", "v"]
    pairs: list[tuple[str, list[str], dict[str, Any], dict[str, Any]]] = [
        ("Conv", ["h", "w", "b"], pads, other),
        ("Conv", ["h", "w", "b"], {"kernel": 3, "dilation": 2}, {"kernel": 3, "pad": 0, "dilation": 1, "stride": 1}),
        ("MaxPool", ["h"], pads, other),
        ("AveragePool", ["h"], pads, other),
        ("SpatialBN", norm, {"is_test": 1, "epsilon": 1e-5}, {"is_test": 1, "epsilon": 1e-1}),
        ("SpatialBN", norm, {"is_test": 1, "epsilon": 1e-5}, {"is_test": 1, "epsilon": 1e-3}),
        ("LRN", ["h"], {"size": 3, "alpha": 0.1, "beta": 0.75}, {"size": 5, "alpha": 0.1, "beta": 0.75}),
        ("LeakyRelu", ["h"], {"alpha": 0.01}, {"alpha": 0.02}),
        ("Elu", ["h"], {"alpha": 1.0}, {"alpha": 0.9}),
        ("Slice", ["h"], {"starts": [0, 0, 1, 0], "ends": [-1] * 4}, {"starts": [0, 0, 2, 0], "ends": [-1] * 4}),
        ("Transpose", ["h"], {"axes": [0, 1, 3, 2]}, {"axes": [0, 1, 2, 3]}),
        ("Clip", ["h"], {"min": -1.0, "max": 1.0}, {"min": -1.0, "max": 0.9}),
        ("Softmax", ["h"], {"axis": 1}, {"axis": 3}),
        ("PadImage", ["h"], {"pad": 1, "mode": "reflect"}, {"pad": 1, "mode": "edge"}),
    ]  # fmt: skip
    for i, (kind, inputs, right, wrong) in enumerate(pairs):
        good, damaged = (
            chain(
                operator("Tanh", ["x"], ["h"]), operator(kind, inputs, ["z"], **arguments),
                operator("Tanh", ["z"], ["y"]), values={k: v for k, v in w.items() if k in inputs},
            )
            for arguments in (right, wrong)
        )  # fmt: skip
        yield Fault(f"argument {i} {kind}", good, damaged, image, place=f"net[1] {kind}")
    model = load(MODELS / "layer_norm_lstm")
    bad = NetDef()
    bad.CopyFrom(model.predict_net)
    loop = next(op for op in bad.op if op.type == "RecurrentNetwork")
    step = next(arg.n for arg in loop.arg if arg.name == "step_net")
    index, wrong_op = next((i, op) for i, op in enumerate(step.op) if op.type == "LayerNorm")
    next(arg for arg in wrong_op.arg if arg.name == "epsilon").f = 0.1
    place = next(
        f"{bad.name}[{i}] RecurrentNetwork > step_net[{index}] LayerNorm" for i, op in enumerate(bad.op) if op == loop
    )
    yield Fault("epsilon in a step", model, Model(bad, model.init), case_of(model), place, step=0)


def _branches() -> Iterator[Fault]:
    """Yield an If that asks the wrong condition, and one whose bodies were swapped."""
    relu, tanh = (
        NetDef(name="a", op=[operator("Relu", ["h"], ["z"])]),
        NetDef(name="b", op=[operator("Tanh", ["h"], ["z"])]),
    )

    def net(condition: str, then: NetDef, other: NetDef) -> Model:
        ops = [
            operator("Tanh", ["x"], ["h"]), operator("If", [condition, "h"], ["z"], then_net=then, else_net=other),
            operator("Exp", ["z"], ["y"]),
        ]  # fmt: skip
        return Model.of(NetDef(name="net", op=ops, external_input=["x", "c", "d"], external_output=["y"]))

    for truth, body in ((True, "then_net[0] Relu"), (False, "else_net[0] Tanh")):
        x = np.linspace(-2, 2, 6, dtype=np.float32)
        case = Case("branch", {"x": x, "c": np.array([truth]), "d": np.array([not truth])})
        good = net("c", relu, tanh)
        yield Fault(f"condition {truth}", good, net("d", relu, tanh), case, place="net[1] If")
        yield Fault(f"bodies {truth}", good, net("c", tanh, relu), case, place=f"net[1] If > {body}")


def recurrent(bump_at: int | None) -> Model:
    """Return a tanh cell; with ``bump_at`` its result is off by one at that step and at no other."""
    ops = [operator("FC", ["h", "w", "b"], ["g"], axis=2), operator("Sum", ["g", "x_t"], ["s"])]
    if bump_at is None:
        ops.append(operator("Tanh", ["s"], ["h_next"]))
    else:
        ops += [
            operator("Tanh", ["s"], ["raw"]), operator("ConstantFill", [], ["k"], shape=[1], value=bump_at, dtype=2),
            operator("EQ", ["timestep", "k"], ["now"]), operator("Cast", ["now"], ["bump"], to=1),
            operator("Add", ["raw", "bump"], ["h_next"], broadcast=1),
        ]  # fmt: skip
    cell = Recurrent(ops, {"h": "h_next"}, weights({"w": (5, 5), "b": (5,)}), lengths=False)
    return Model.of(cell.net(), cell.init())


def _at_a_step() -> Iterator[Fault]:
    good = recurrent(None)
    random = np.random.default_rng(1)
    inputs = {"x": random.standard_normal((6, 3, 5)).astype(np.float32), "h_0": np.zeros((1, 3, 5), np.float32)}
    for step in (0, 1, 3, 5):
        yield Fault(f"step {step}", good, recurrent(step), Case("steps", inputs), "", "h_next", step)


_OTHER = {"Sigmoid": "Tanh", "Tanh": "Sigmoid", "Add": "Sub", "Mul": "Add", "MatMul": "", "Softmax": "LogSoftmax"}


def _nodes() -> Iterator[Fault]:
    """Yield nodes of the bodies of Scans with another type, ONNX against ONNX."""
    for name in ("lstm", "gru", "basic_rnn_tanh"):
        model = load(MODELS / name)
        good = to_onnx(model, recurrent="scan")
        case = case_of(model, "scan")
        bodies = [body for body in _bodies(good.graph) if any(node.op_type == "Tanh" for node in body.node)]
        for i in range(len(bodies[0].node)):
            bad = onnx.ModelProto()
            bad.CopyFrom(good)
            node = next(body for body in _bodies(bad.graph) if any(n.op_type == "Tanh" for n in body.node)).node[i]
            if _OTHER.get(node.op_type):
                node.op_type = _OTHER[node.op_type]
                # What rows beyond their length add counts once there are any.
                late = any("invalid" in blob for blob in node.input)
                step = int(case.inputs["seq_lengths"].min()) if late else 0
                yield Fault(f"node {name} {i} {node.op_type}", good, bad, case, blob=node.output[0], step=step)


def _bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
                yield from _bodies(attribute.g)


LOOP = """<ir_version: 9, opset_import: ["" : 20]>
g (float[N,D] x) => (float[N,D] y) <int64 most = {{6}}, float one = {{1.0}}, float two = {{2.0}}> {{
  y = Loop (most, , x) <body = b (int64 i, bool c, float[N,D] h) => (bool go, float[N,D] next)
    <int64 at = {{AT}}, float half = {{0.5}}> {{
    go = Identity (c)
    hit = Equal (i, at)
    scale = Where (hit, two, one)
    t = Tanh (h)
    u = Mul (t, scale)
    next = Add (u, half)
  }}>
}}"""


def _node_at_a_step() -> Iterator[Fault]:
    case = Case("loop", {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)})
    good = onnx.parser.parse_model(LOOP.replace("{{", "{").replace("}}", "}").replace("AT", "-1"))
    for step in (2, 4):
        bad = onnx.ModelProto()
        bad.CopyFrom(good)
        body = next(_bodies(bad.graph))
        at = next(tensor for tensor in body.initializer if tensor.name == "at")
        at.CopyFrom(onnx.numpy_helper.from_array(np.array(step), "at"))
        yield Fault(f"loop {step}", good, bad, case, blob="hit", step=step)
