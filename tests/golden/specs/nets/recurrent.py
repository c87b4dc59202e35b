"""RecurrentNetworks that pass more than one row on: windows, several initial rows, links to other blobs."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.corpus import Array
from conformance.recording import Spec, generator, net, operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32") * 0.5


def recurrent(
    step: Sequence[object],
    inputs: dict[str, Array],
    states: dict[str, str],
    links: Sequence[tuple[str, str, int, int]],
    aliases: Sequence[tuple[str, str, int]],
    reads: Sequence[str] = (),
    after: Sequence[object] = (),
    timestep: str = "timestep",
) -> Spec:
    """Return a net of one RecurrentNetwork, its first input the sequence; ``states``: blobs with initial values."""
    names = [*inputs]
    step_net = NetDef(
        name="step", type="simple", op=step, external_input=[*names, *(link[0] for link in links), timestep]
    )
    op = operator(
        "RecurrentNetwork",
        names,
        [*(target for _, target, _ in aliases), *(name for name in reads if name in states), "step_workspaces"],
        step_net=step_net,
        timestep=timestep,
        recurrent_states=list(states),
        initial_recurrent_state_ids=[names.index(name) for name in states.values()],
        link_internal=[link[0] for link in links],
        link_external=[link[1] for link in links],
        link_offset=[link[2] for link in links],
        link_window=[link[3] for link in links],
        alias_src=[alias[0] for alias in aliases],
        alias_dst=[alias[1] for alias in aliases],
        alias_offset=[alias[2] for alias in aliases],
    )
    copies = [operator("Copy", [name], [f"{name}_read"]) for name in reads]
    return net([op, *copies, *after], inputs)


def convolution(seed: int, window: int, steps: int) -> Spec:
    """Return a convolution over time: the current row is written into a state, and a window of that state is read."""
    rows = window - 1
    inputs = {
        "x": normal(seed, steps, 2, 3),
        "padding": normal(seed + 1, rows, 2, 3),
        "h0": normal(seed + 2, 1, 2, 3),
        "w": normal(seed + 3, 3, 3 * window),
        "b": normal(seed + 4, 3),
    }
    step = [
        operator("Copy", ["x_t"], ["cur"]),
        operator("Transpose", ["prev"], ["by_batch"], axes=[1, 0, 2]),
        operator("Reshape", ["by_batch"], ["flat", "old"], shape=[1, -1, 3 * window]),
        operator("FC", ["flat", "w", "b"], ["mixed"], axis=2),
        operator("Sum", ["mixed", "h_prev"], ["out"]),
    ]
    links = [
        ("x_t", "x", 0, 1),
        ("cur", "in_states", rows, 1),
        ("prev", "in_states", 0, window),
        ("h_prev", "out_states", 0, 1),
        ("out", "out_states", 1, 1),
    ]
    aliases = [("out_states", "all", 1), ("out_states", "last", -1), ("in_states", "seen", rows)]
    return recurrent(
        step, inputs, {"in_states": "padding", "out_states": "h0"}, links, aliases, reads=["in_states", "out_states"]
    )


def fibonacci(seed: int, initial: Array) -> Spec:
    """Return a case of two initial rows, both read in every step."""
    inputs = {"x": normal(seed, 4, *initial.shape[-2:]), "start": initial}
    step = [
        operator("Sum", ["older", "old", "x_t"], ["new"]),
        operator("Tanh", ["new"], ["new"]),
    ]
    links = [("older", "s", 0, 1), ("old", "s", 1, 1), ("new", "s", 2, 1), ("x_t", "x", 0, 1)]
    return recurrent(step, inputs, {"s": "start"}, links, [("s", "all", 2), ("s", "last", -1), ("s", "two", -2)], ["s"])


def ahead(seed: int) -> Spec:
    """Return a window that looks ahead, into a sequence longer than T, and an offset without a window."""
    inputs = {"x": normal(seed, 3, 2, 4), "long": normal(seed + 1, 6, 2, 4), "h0": normal(seed + 2, 2, 4)}
    step = [
        operator("ReduceFrontSum", ["view"], ["total"], num_reduce_dim=1),
        operator("ExpandDims", ["total"], ["row"], dims=[0]),
        operator("Sum", ["row", "late", "x_t", "h_prev"], ["h"]),
        operator("Sigmoid", ["h"], ["h"]),
    ]
    links = [
        ("view", "long", 1, 3),
        ("late", "long", 3, 1),
        ("x_t", "x", 0, 1),
        ("h_prev", "s", 0, 1),
        ("h", "s", 1, 1),
    ]
    return recurrent(step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1)])


def outer(seed: int) -> Spec:
    """Return a case that writes rows of a blob that is no state, and reads them again in the next step."""
    inputs = {"x": normal(seed, 3, 2, 4), "memory": normal(seed + 1, 4, 2, 4), "h0": normal(seed + 2, 4)}
    step = [
        operator("Mul", ["before", "x_t"], ["product"]),
        operator("Sum", ["product", "h_prev"], ["h"]),
        operator("Copy", ["h"], ["after"]),
    ]
    links = [
        ("before", "memory", 0, 1),
        ("after", "memory", 1, 1),
        ("x_t", "x", 0, 1),
        ("h_prev", "s", 0, 1),
        ("h", "s", 1, 1),
    ]
    return recurrent(step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1)], ["memory"])


def read_after_write(seed: int) -> Spec:
    """Return the same row under two names: what is read after the write is what was written."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 1, 2, 4)}
    step = [
        operator("Sum", ["h_prev", "x_t"], ["h"]),
        operator("Tanh", ["again"], ["squashed"]),
        operator("Mul", ["squashed", "x_t"], ["h"]),
    ]
    links = [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("again", "s", 1, 1), ("x_t", "x", 0, 1)]
    return recurrent(step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1)], ["s"])


def in_place_over_the_previous_row(seed: int) -> Spec:
    """Return a step that writes over the row that it reads, and so changes the state that comes before."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 1, 2, 4)}
    step = [
        operator("Tanh", ["h_prev"], ["h_prev"]),
        operator("Sum", ["h_prev", "x_t"], ["h"]),
    ]
    links = [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)]
    return recurrent(step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1)], ["s"])


def clock(seed: int) -> Spec:
    """Return the number of the step in arithmetic."""
    inputs = {"x": normal(seed, 4, 2, 3), "h0": normal(seed + 1, 3)}
    step = [
        operator("Cast", ["time"], ["time_f"], to=1),
        operator("Mul", ["x_t", "time_f"], ["scaled"], broadcast=1),
        operator("Sum", ["scaled", "h_prev"], ["h"]),
    ]
    links = [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)]
    return recurrent(
        step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1), ("s", "whole", 0)], timestep="time"
    )


def nested(seed: int) -> Spec:
    """Return a RecurrentNetwork in the step net of another: the inner one runs along the rows of an outer blob."""
    inner = operator(
        "RecurrentNetwork",
        ["words", "h_prev", "w"],
        ["inner_all", "inner_last", "inner_workspaces"],
        step_net=NetDef(
            name="inner",
            external_input=["word", "w", "g_prev"],
            op=[
                operator("Mul", ["word", "w"], ["weighted"], broadcast=1),
                operator("Sum", ["weighted", "g_prev"], ["g"]),
                operator("Tanh", ["g"], ["g"]),
            ],
        ),
        recurrent_states=["g_states"],
        initial_recurrent_state_ids=[1],
        link_internal=["word", "g_prev", "g"],
        link_external=["words", "g_states", "g_states"],
        link_offset=[0, 0, 1],
        alias_src=["g_states", "g_states"],
        alias_dst=["inner_all", "inner_last"],
        alias_offset=[1, -1],
        timestep="inner_time",
    )
    inputs = {
        "x": normal(seed, 3, 2, 4),
        "h0": normal(seed + 1, 1, 2, 4),
        "words": normal(seed + 2, 5, 2, 4),
        "w": normal(seed + 3, 4),
    }
    step = [inner, operator("Sum", ["inner_last", "x_t"], ["h"])]
    links = [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)]
    return recurrent(step, inputs, {"s": "h0"}, links, [("s", "all", 1), ("s", "last", -1)])


CASES = [
    convolution(1, 2, 3),
    convolution(2, 3, 4),
    convolution(3, 4, 1),
    fibonacci(4, normal(5, 2, 3, 4)),
    ahead(6),
    outer(7),
    read_after_write(8),
    in_place_over_the_previous_row(9),
    clock(10),
    nested(11),
]
