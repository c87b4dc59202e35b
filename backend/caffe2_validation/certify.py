"""Certificates: fused recurrent operators run against the step nets that they replace, on extreme inputs.

The matching of step nets is exact algebra; a certificate shows in numbers that it, and the runtime's operator, are
right: the operator is cut out of the net with its parameters and its input projection, exported fused and as a Scan,
and both run on lengths of zero, full and beyond, saturating inputs and every form of initial state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import ConversionError, Location, Model
from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

Described = dict[str, tuple[str, tuple[int | str, ...]]]

RTOL: Final = 1e-3
ATOL: Final = 1e-4
_SIZES: Final = ((1, 1), (7, 4))
_SCALES: Final = (0.0, 1.0, 30.0)
_SEED: Final = 2018


@dataclass(frozen=True)
class Certificate:
    """The result for one RecurrentNetwork.

    ``fused``: whether it is exported as a fused operator; if not, ``reason`` says why. ``cases`` is how many inputs
    were tried, ``worst`` the largest absolute difference between the two forms, ``agrees`` whether all are within rtol
    1e-3 and atol 1e-4.
    """

    location: Location
    fused: bool
    reason: str = ""
    cases: int = 0
    worst: float = 0.0
    agrees: bool = True

    def __str__(self) -> str:
        if not self.fused:
            return f"{self.location}: not fused: {self.reason}"
        verdict = "certified" if self.agrees else "NOT EQUAL"
        return f"{self.location}: {verdict}: {self.cases} inputs, largest difference {self.worst:.1e}"


@muted()
def certify(model: Model) -> list[Certificate]:
    """Certify every RecurrentNetwork of a model's predict net, in order.

    Raises RunError if onnxruntime cannot run a form.
    """
    net = NetView(model.predict_net)
    return [_certify(model, net, op) for op in net.ops if op.type == "RecurrentNetwork"]


def _certify(model: Model, net: NetView, op: OpView) -> Certificate:
    location = Location(net.name, op.index, op.type, op.name)
    cut = _cut(model, net, op)
    agrees, worst, cases = True, 0.0, 0
    for rank in (3, 2, 1):
        described = _described(cut, op, rank)
        try:
            fused, scanned = (
                Session(to_onnx(cut, inputs=described, recurrent=form, training=False).SerializeToString())
                for form in ("fused", "scan")
            )
        except ConversionError as error:
            return Certificate(location, fused=False, reason=error.errors[0].reason)
        for inputs in _inputs(described, fused.inputs):
            expected, actual = scanned.run(inputs), fused.run(inputs)
            cases += 1
            for name, value in expected.items():
                worst = max(worst, float(np.abs(actual[name] - value).max(initial=0.0)))
                agrees = agrees and np.allclose(actual[name], value, RTOL, ATOL)
    return Certificate(location, fused=True, cases=cases, worst=worst, agrees=agrees)


def _cut(model: Model, net: NetView, op: OpView) -> Model:
    """Return the operator alone, with the fully connected layer that computes its input sequence, if there is one."""
    made = next((o for o in reversed(net.ops[: op.index]) if op.inputs[0] in o.outputs), None)
    ops = [made] if made is not None and made.type == "FC" else []
    small = NetDef(name=net.name, op=[o.proto for o in (*ops, op)])
    read = {name for o in (*ops, op) for name in o.inputs}
    small.external_input.extend(sorted(read - {name for o in ops for name in o.outputs}))
    read_later = {name for o in net.ops[op.index + 1 :] for name in o.inputs} | {*net.external_outputs}
    small.external_output.extend(name for name in op.outputs if name in read_later)
    return Model(small, model.init)


def _described(model: Model, op: OpView, rank: int) -> Described:
    """Return the inputs of the cut: the sequence, initial states of the given rank, and lengths."""
    parameters = model.init.parameters
    features = _features(model, op)
    states = {op.inputs[i] for i in RecurrentNetwork(op).initial_ids}
    described: Described = {}
    for name in model.predict_net.external_input:
        if name in parameters and name not in states:
            continue
        if name in states:
            described[name] = ("float32", (1, "N", features[1])[3 - rank :])
        elif name in (op.inputs[0], model.predict_net.op[0].input[0]):
            described[name] = ("float32", ("T", "N", features[0]))
        else:
            described[name] = ("int32", ("N",))
    return described


def _features(model: Model, op: OpView) -> tuple[int | str, int | str]:
    """Return the features of the input sequence and of the states, from the parameters' shapes."""
    parameters = model.init.parameters
    matrices = [parameters[name].shape for name in op.inputs if name in parameters and len(parameters[name].shape) == 2]
    hidden = matrices[0][1] if matrices else "H"
    first = model.predict_net.op[0]
    if first.type == "FC" and first.input[1] in parameters:
        return parameters[first.input[1]].shape[1], hidden
    return (matrices[0][0] if matrices else "D"), hidden


def _inputs(described: Described, names: tuple[str, ...]) -> Iterator[dict[str, Array]]:
    random = np.random.default_rng(_SEED)
    for steps, batch in _SIZES:
        for scale in _SCALES:
            for lengths in _lengths(random, steps, batch):
                inputs: dict[str, Array] = {}
                for name in names:
                    dtype, dims = described[name]
                    shape = tuple({"T": steps, "N": batch}.get(d, 3) if isinstance(d, str) else d for d in dims)
                    if dtype == "int32":
                        inputs[name] = lengths
                    else:
                        inputs[name] = (scale * random.standard_normal(shape)).astype(np.float32)
                yield inputs


def _lengths(random: np.random.Generator, steps: int, batch: int) -> list[Array]:
    full = np.full(batch, steps, np.int32)
    return [full, np.zeros_like(full), random.integers(0, steps + 1, batch, dtype=np.int32), full + 3]
