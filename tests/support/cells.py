"""Recurrent nets for the tests: a RecurrentNetwork around a step net, and cells in many spellings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto

Array = np.ndarray[Any, Any]

WIDTH = 3
FEATURES = 5


@dataclass
class Recurrent:
    """A net around one RecurrentNetwork.

    ``states`` maps the step net's name of a state before the step to that after it. ``before`` runs in front of the
    loop and makes its input ``x``, else ``x`` is an input. ``weights`` are parameters, ``lengths`` whether there are
    any. Outputs are ``<state>_all`` and ``<state>_last``.
    """

    steps: list[OperatorDef]
    states: Mapping[str, str]
    weights: dict[str, Array] = field(default_factory=dict)
    before: list[OperatorDef] = field(default_factory=list)
    lengths: bool = True
    sequence: str = "x"
    row: str = "x_t"
    outputs: tuple[str, ...] = ()

    def net(self, order: np.random.Generator | None = None) -> NetDef:
        """Return the net; with ``order`` the step net's operators come in a random order that means the same."""
        inputs = ["x", *([] if not self.lengths else ["lengths"]), *(f"{state}_0" for state in self.states)]
        step = NetDef(name="step", op=self.steps if order is None else reordered(self.steps, order))
        made = {name for op in self.steps for name in op.output}
        step.external_input.extend(sorted({name for op in self.steps for name in op.input} - made))
        step.external_output.extend(self.states.values())
        aliases = [(f"{s}_states", f"{s}_{kind}", at) for s in self.states for kind, at in (("all", 1), ("last", -1))]
        links = [(self.row, self.sequence, 0)]
        for state, after in self.states.items():
            links += [(state, f"{state}_states", 0), (after, f"{state}_states", 1)]
        captured = sorted({name for op in self.steps for name in op.input} & {*self.weights, "lengths"})
        loop = operator(
            "RecurrentNetwork",
            [self.sequence, *(f"{state}_0" for state in self.states), *captured],
            [*(name for _, name, _ in aliases), "workspaces"],
            step_net=step,
            recurrent_states=[f"{state}_states" for state in self.states],
            initial_recurrent_state_ids=list(range(1, 1 + len(self.states))),
            link_internal=[link[0] for link in links],
            link_external=[link[1] for link in links],
            link_offset=[link[2] for link in links],
            alias_src=[alias[0] for alias in aliases],
            alias_dst=[alias[1] for alias in aliases],
            alias_offset=[alias[2] for alias in aliases],
        )
        outputs = self.outputs or tuple(name for _, name, _ in aliases)
        return NetDef(
            name="recurrent",
            op=[*self.before, loop],
            external_input=[*inputs, *self.weights],
            external_output=outputs,
        )

    def init(self) -> NetDef:
        """Return the net that fills the weights."""
        return fills(self.weights)


def fills(weights: Mapping[str, Array]) -> NetDef:
    """Return an init net."""
    ops = [
        operator("GivenTensorFill", [], [name], shape=list(value.shape), values=[float(v) for v in value.reshape(-1)])
        for name, value in weights.items()
    ]
    return NetDef(name="init", op=ops)


def reordered(ops: Sequence[OperatorDef], random: np.random.Generator) -> list[OperatorDef]:
    """Return operators in a random order in which each comes after what makes its operands (each name made once)."""
    made = {name: i for i, op in enumerate(ops) for name in op.output}
    waiting = {i: {made[name] for name in op.input if name in made} - {i} for i, op in enumerate(ops)}
    done: list[int] = []
    while waiting:
        ready = sorted(i for i, needed in waiting.items() if needed <= set(done))
        chosen = int(random.choice(ready))
        done.append(chosen)
        del waiting[chosen]
    return [ops[i] for i in done]


def renamed(cell: Recurrent, random: np.random.Generator) -> Recurrent:
    """Return the same cell with meaningless names inside the step net, in no order; states and weights keep theirs."""
    local = sorted({name for op in cell.steps for name in op.output})
    names = dict(zip(local, (f"b{k}" for k in random.permutation(len(local))), strict=True))
    steps = []
    for op in cell.steps:
        copy = OperatorDef()
        copy.CopyFrom(op)
        copy.input[:] = [names.get(name, name) for name in op.input]
        copy.output[:] = [names.get(name, name) for name in op.output]
        steps.append(copy)
    states = {before: names.get(after, after) for before, after in cell.states.items()}
    return Recurrent(steps, states, cell.weights, cell.before, cell.lengths, cell.sequence, cell.row, cell.outputs)


def weights(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Array]:
    """Return random parameters."""
    random = np.random.default_rng(seed)
    return {name: random.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def feed(cell: Recurrent, steps: int, batch: int, *, scale: float = 1.0, features: int = FEATURES) -> dict[str, Array]:
    """Return random inputs with lengths of 0, of all steps, and beyond; ``scale`` saturates gates."""
    random = np.random.default_rng(steps * 31 + batch)
    arrays: dict[str, Array] = {"x": (scale * random.normal(size=(steps, batch, features))).astype(np.float32)}
    for state in cell.states:
        arrays[f"{state}_0"] = random.normal(size=(1, batch, WIDTH)).astype(np.float32)
    if cell.lengths:
        lengths = random.integers(0, steps + 2, batch)
        lengths[:2] = [0, steps][:batch]
        arrays["lengths"] = lengths.astype(np.int32)
    return arrays


Mask = Literal["unit", "product", "none"]


def fc(x: str, w: str, y: str) -> OperatorDef:
    """Return a dense layer on [1, N, D]; its bias is ``<w>_b``."""
    return operator("FC", [x, w, f"{w}_b"], [y], axis=2)


def masked(new: str, old: str, result: str, *, drop: bool) -> Iterable[OperatorDef]:
    """Yield a mask by arithmetic, as Caffe2's BasicRNN spells it."""
    yield operator("GT", ["lengths", "timestep"], [f"{result}_longer"], broadcast=1)
    yield operator("Cast", [f"{result}_longer"], [f"{result}_valid"], to=int(TensorProto.FLOAT))
    yield operator("Mul", [new, f"{result}_valid"], [result if drop else f"{result}_kept"], broadcast=1, axis=1)
    if not drop:
        yield operator("LE", ["lengths", "timestep"], [f"{result}_over"], broadcast=1)
        yield operator("Cast", [f"{result}_over"], [f"{result}_invalid"], to=int(TensorProto.FLOAT))
        yield operator("Mul", [old, f"{result}_invalid"], [f"{result}_past"], broadcast=1, axis=1)
        yield operator("Add", [f"{result}_past", f"{result}_kept"], [result])


def _finished(
    steps: list[OperatorDef], results: Mapping[str, tuple[str, str]], *, mask: Mask, drop: bool
) -> Mapping[str, str]:
    """Mask what a cell computed, where it is not masked already; from state to the name of its next value."""
    if mask != "product":
        return {state: new for state, (new, _) in results.items()}
    for state, (new, after) in results.items():
        steps += masked(new, state, after, drop=drop)
    return {state: after for state, (_, after) in results.items()}


def lstm(
    *,
    gates: Literal["one", "four"] = "one",
    unit: bool = True,
    add: Literal["Sum", "Add"] = "Sum",
    forget: Literal["argument", "scalar", "vector", "none"] = "none",
    mask: Mask = "unit",
    drop: bool = False,
    projection: Literal["before", "inside"] = "before",
    swapped: bool = False,
) -> Recurrent:
    """Return an LSTM. ``swapped``: operands of commutative operators change places."""
    four = 4 * WIDTH
    made = weights({"w": (four, WIDTH), "w_b": (four,), "i2h": (four, FEATURES), "i2h_b": (four,), "fb": (WIDTH,)})
    made["one"] = np.array([1.5], np.float32)
    steps: list[OperatorDef] = []
    before = []
    row = "x_t"

    def pair(kind: str, a: str, b: str, y: str) -> OperatorDef:
        return operator(kind, [b, a] if swapped else [a, b], [y])

    if projection == "before":
        before.append(fc("x", "i2h", "projected"))
    else:
        steps.append(fc("x_t", "i2h", "x_gates"))
        row = "x_gates"
    names = ("i", "f", "o", "g")
    if gates == "one":
        steps += [fc("h", "w", "from_h"), pair(add, "from_h", row, "gates")]
        if not unit:
            steps.append(operator("Split", ["gates"], [f"{n}_in" for n in names], axis=2))
    else:
        steps.append(operator("Split", [row], [f"{n}_x" for n in names], axis=2))
        for k, name in enumerate(names):
            part = slice(k * WIDTH, (k + 1) * WIDTH)
            made[f"w_{name}"], made[f"w_{name}_b"] = made["w"][part], made["w_b"][part]
            steps += [fc("h", f"w_{name}", f"{name}_h"), pair(add, f"{name}_h", f"{name}_x", f"{name}_in")]
        if unit:
            steps.append(operator("Concat", [f"{n}_in" for n in names], ["gates", "concat_dims"], axis=2))
    if unit:
        lengths = ["lengths"] if mask == "unit" else []
        options: dict[str, Any] = {"forget_bias": 1.5} if forget == "argument" else {}
        steps.append(
            operator(
                "LSTMUnit", ["h", "c", "gates", *lengths, "timestep"], ["new_h", "new_c"],
                drop_states=drop, sequence_lengths=mask == "unit", **options,
            )
        )  # fmt: skip
    else:
        forget_in = "f_in"
        if forget in ("scalar", "vector"):
            steps.append(operator("Add", ["f_in", "one" if forget == "scalar" else "fb"], ["f_more"], broadcast=1))
            forget_in = "f_more"
        steps += [
            operator("Sigmoid", ["i_in"], ["i"]), operator("Sigmoid", [forget_in], ["f"]),
            operator("Sigmoid", ["o_in"], ["o"]), operator("Tanh", ["g_in"], ["g"]),
            pair("Mul", "f", "c", "kept"), pair("Mul", "i", "g", "added"), pair(add, "kept", "added", "new_c"),
            operator("Tanh", ["new_c"], ["squashed"]), pair("Mul", "o", "squashed", "new_h"),
        ]  # fmt: skip
    states = _finished(steps, {"h": ("new_h", "next_h"), "c": ("new_c", "next_c")}, mask=mask, drop=drop)
    return _cell(steps, states, made, before, lengths=mask != "none", outputs=("h_all", "h_last", "c_last"))


def gru(
    *, before_reset: bool = True, mask: Mask = "unit", drop: bool = False, unit: bool = True, swapped: bool = False
) -> Recurrent:
    """Return a GRU; ``before_reset``: the candidate's product comes before the reset gate."""
    shapes = dict.fromkeys(("w_r", "w_u", "w_n"), (WIDTH, WIDTH)) | {"i2h": (3 * WIDTH, FEATURES)}
    made = weights(shapes | {f"{name}_b": (shape[0],) for name, shape in shapes.items()}, seed=1)
    steps = [
        operator("Split", ["x_t"], ["r_x", "u_x", "n_x"], axis=2),
        fc("h", "w_r", "r_h"), operator("Sum", ["r_h", "r_x"], ["r_in"]), operator("Sigmoid", ["r_in"], ["r"]),
        fc("h", "w_u", "u_h"), operator("Sum", ["u_x", "u_h"], ["u_in"]),
    ]  # fmt: skip
    if before_reset:
        steps += [fc("h", "w_n", "n_h"), operator("Mul", ["n_h", "r"], ["n_r"])]
    else:
        steps += [operator("Mul", ["r", "h"], ["h_r"]), fc("h_r", "w_n", "n_r")]
    steps.append(operator("Add", ["n_r", "n_x"], ["n_in"]))
    if unit:
        lengths = ["lengths"] if mask == "unit" else []
        steps += [
            operator("Concat", ["r_in", "u_in", "n_in"], ["gates", "concat_dims"], axis=2),
            operator(
                "GRUUnit", ["h", "gates", *lengths, "timestep"], ["new_h"],
                drop_states=drop, sequence_lengths=mask == "unit",
            ),
        ]  # fmt: skip
    else:
        made["ones"] = np.ones(1, np.float32)
        steps += [operator("Sigmoid", ["u_in"], ["u"]), operator("Tanh", ["n_in"], ["n"])]
        if swapped:  # h = n + u (h - n)
            steps += [
                operator("Sub", ["h", "n"], ["difference"]), operator("Mul", ["u", "difference"], ["moved"]),
                operator("Add", ["n", "moved"], ["new_h"]),
            ]  # fmt: skip
        else:
            steps += [
                operator("Sub", ["ones", "u"], ["rest"]), operator("Mul", ["rest", "n"], ["fresh"]),
                operator("Mul", ["u", "h"], ["stale"]), operator("Sum", ["fresh", "stale"], ["new_h"]),
            ]  # fmt: skip
    states = _finished(steps, {"h": ("new_h", "next_h")}, mask=mask, drop=drop)
    return _cell(steps, states, made, [fc("x", "i2h", "projected")], lengths=mask != "none")


def rnn(
    activation: str = "Tanh", *, mask: Mask = "product", drop: bool = False, projection: str = "before"
) -> Recurrent:
    """Return a plain RNN."""
    shapes = {"w": (WIDTH, WIDTH), "i2h": (WIDTH, FEATURES)}
    made = weights(shapes | {f"{name}_b": (shape[0],) for name, shape in shapes.items()}, seed=2)
    before = [fc("x", "i2h", "projected")] if projection == "before" else []
    steps = [] if before else [fc("x_t", "i2h", "x_in")]
    steps += [
        fc("h", "w", "from_h"), operator("Sum", ["from_h", "x_t" if before else "x_in"], ["sum"]),
        operator(activation, ["sum"], ["new_h"]),
    ]  # fmt: skip
    states = _finished(steps, {"h": ("new_h", "next_h")}, mask=mask, drop=drop)
    return _cell(steps, states, made, before, lengths=mask != "none")


def _cell(
    steps: list[OperatorDef],
    states: Mapping[str, str],
    made: dict[str, Array],
    before: list[OperatorDef],
    *,
    lengths: bool,
    outputs: tuple[str, ...] = (),
) -> Recurrent:
    read = {name for op in (*steps, *before) for name in op.input}
    made = {name: value for name, value in made.items() if name in read}
    sequence = "projected" if before else "x"
    return Recurrent(steps, states, made, before, lengths, sequence, outputs=outputs)
