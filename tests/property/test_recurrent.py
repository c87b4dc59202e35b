"""Random step nets: a Scan, a Loop and a plain interpreter agree."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from conformance.recording import operator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.schemas import operator_schema, refused_in_place
from caffe2_frontend import to_onnx

D = 3
SIZES = ((1, 1), (4, 2))
PARAMETERS = {"w": (D, D), "w_b": (D,), "v": (D, D), "v_b": (D,), "g": (4 * D, D), "g_b": (4 * D,), "k": (D,)}
Array = np.ndarray[Any, Any]


class StepNet:
    """A step net under construction.

    ``readable`` are the blobs that have a value so far. What a state is after the step is written last; it may be
    written before that, and read back, as may any blob that is the step's own.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.ops: list[OperatorDef] = []
        self.states = list(string.ascii_lowercase[: data.draw(st.integers(1, 3), "states")])
        self.offset = data.draw(st.integers(0, 1), "offset of the second sequence")
        self.readable = [*self.states, "x_t", "y_t"]
        self.own: list[str] = []

    def grow(self) -> None:
        for _ in range(self.data.draw(st.integers(2, 8), "operators")):
            self.operator()
        for state in self.states:
            self.ops.append(
                operator(self.data.draw(st.sampled_from(["Tanh", "Sigmoid"])), [self.read()], [f"{state}+"])
            )

    def read(self) -> str:
        return self.data.draw(st.sampled_from(self.readable), "operand")

    def write(self) -> str:
        """Return a new blob, one that has a value already, or what a state will be."""
        names = [f"t{len(self.ops)}", *self.own, *(f"{state}+" for state in self.states)]
        return self.data.draw(st.sampled_from(names), "result")

    def operator(self) -> None:
        kind = self.data.draw(st.sampled_from(["FC", "Sum", "Mul", "Sub", "unary", "unary", "row", "LSTMUnit"]), "kind")
        results = [self.write()]
        match kind:
            case "FC":
                weight = self.data.draw(st.sampled_from("wv"))
                op = operator("FC", [self.read(), weight, f"{weight}_b"], results, axis=2)
            case "unary":
                name = self.data.draw(st.sampled_from(["Sigmoid", "Tanh", "Relu", "Copy", "Negative"]))
                op = operator(name, [self.read()], results)
            case "row":
                name = self.data.draw(st.sampled_from(["Add", "Mul"]))
                op = operator(name, [self.read(), "k"], results, broadcast=1)
            case "LSTMUnit":
                gates = f"gates{len(self.ops)}"
                self.ops.append(operator("FC", [self.read(), "g", "g_b"], [gates], axis=2))
                results.append(f"c{len(self.ops)}")
                drop = self.data.draw(st.booleans(), "drop")
                inputs = [self.read(), self.read(), gates, "lengths", "timestep"]
                op = operator("LSTMUnit", inputs, results, drop_states=drop, forget_bias=0.5)
            case _:
                op = operator(kind, [self.read(), self.read()], results)
        schema = operator_schema(op.type)
        assert schema is not None
        if refused_in_place(schema, op.input, op.output):  # in real Caffe2, too
            op.output[0] = results[0] = f"own{len(self.ops)}"
        self.ops.append(op)
        for name in results:
            if name not in self.readable:
                self.readable.append(name)
                self.own.append(name)

    def net(self) -> NetDef:
        links = [("x_t", "x", 0), ("y_t", "y", self.offset)]
        for state in self.states:
            links += [(state, f"{state}_states", 0), (f"{state}+", f"{state}_states", 1)]
        aliases = [
            (f"{state}_states", f"{state}_{name}", at)
            for state in self.states
            for name, at in (("whole", 0), ("all", 1), ("last", -1))
        ]
        made = [name for _, name, _ in aliases]
        loop = operator(
            "RecurrentNetwork",
            ["x", *(f"{state}_0" for state in self.states), "y", "lengths", *PARAMETERS],
            [*made, "workspaces"],
            step_net=NetDef(name="step", op=self.ops),
            recurrent_states=[f"{state}_states" for state in self.states],
            initial_recurrent_state_ids=list(range(1, 1 + len(self.states))),
            link_internal=[link[0] for link in links],
            link_external=[link[1] for link in links],
            link_offset=[link[2] for link in links],
            alias_src=[alias[0] for alias in aliases],
            alias_dst=made,
            alias_offset=[alias[2] for alias in aliases],
        )
        inputs = ["x", "y", "lengths", *(f"{state}_0" for state in self.states), *PARAMETERS]
        return NetDef(name="random", op=[loop], external_input=inputs, external_output=made)


def fed(states: list[str], steps: int, batch: int) -> dict[str, Array]:
    random = np.random.default_rng(steps)
    shapes = {"x": (steps, batch, D), "y": (steps + 1, batch, D)} | {f"{s}_0": (1, batch, D) for s in states}
    arrays: dict[str, Array] = {n: random.normal(size=s).astype(np.float32) for n, s in (shapes | PARAMETERS).items()}
    arrays["lengths"] = random.integers(0, steps + 2, batch).astype(np.int32)
    return arrays


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_scan_loop_and_interpreter_agree(data: st.DataObject) -> None:
    step = StepNet(data)
    step.grow()
    net = step.net()
    specs: dict[str, Any] = {"x": ("float32", ["T", "N", D]), "y": ("float32", [None, "N", D])}
    specs |= {"lengths": ("int32", ["N"])} | {f"{state}_0": ("float32", [1, "N", D]) for state in step.states}
    specs |= {name: ("float32", list(shape)) for name, shape in PARAMETERS.items()}
    sessions = [
        Session(to_onnx(net, inputs=specs, recurrent=form).SerializeToString(), threads=1)  # type: ignore[arg-type]
        for form in ("scan", "loop", "auto")
    ]
    for steps, batch in SIZES:
        inputs = fed(step.states, steps, batch)
        wanted = run_net(net, inputs)
        for session in sessions:
            for name, value in session.run(inputs).items():
                np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5, err_msg=name)
