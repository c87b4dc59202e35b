"""Gradients of RecurrentNetworks with windows, several initial rows, and links to blobs that are not states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, generator, net, operator

from caffe2_bridge.gradients import get_backward_pass
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

# A link: the blob of the step, the outer blob, the offset of its first row, the number of rows.
Link = tuple[str, str, int, int]


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32") * 0.5


@dataclass
class Training:
    """A RecurrentNetwork with its gradient operator. The first of ``inputs`` is the sequence, the blob "x".

    ``learned`` are inputs whose gradients the step computes; ``given`` are indices of the aliases whose gradients are
    fed; ``more`` are further inputs of the gradient operator, such as gradients of outer blobs.
    """

    inputs: Mapping[str, Array]
    states: Mapping[str, str]
    step: Sequence[OperatorDef]
    links: Sequence[Link]
    aliases: Sequence[tuple[str, str, int]]
    backward: Sequence[OperatorDef]
    backward_links: Sequence[tuple[str, str, int]]
    learned: Sequence[str] = ()
    given: Mapping[int, Array] = field(default_factory=dict)
    more: Mapping[str, Array] = field(default_factory=dict)
    reads: Sequence[str] = ()
    recomputed: Sequence[str] = ()

    def spec(self) -> Spec:
        names = [*self.inputs]
        targets = [
            *(target for _, target, _ in self.aliases),
            *(name for name in self.reads if name in self.states),
            "step_workspaces",
        ]
        net_inputs = [*names, *(link[0] for link in self.links), "timestep"]
        arguments = {
            "step_net": NetDef(name="step", type="simple", op=self.step, external_input=net_inputs),
            "backward_step_net": NetDef(
                name="backward", type="simple", op=self.backward,
                external_input=[
                    *net_inputs,
                    *(name for op in self.step for name in op.output),
                    *(link[0] for link in self.backward_links),
                ],
            ),
            "timestep": "timestep",
            "recurrent_states": list(self.states),
            "initial_recurrent_state_ids": [names.index(name) for name in self.states.values()],
            "link_internal": [link[0] for link in self.links],
            "link_external": [link[1] for link in self.links],
            "link_offset": [link[2] for link in self.links],
            "link_window": [link[3] for link in self.links],
            "alias_src": [alias[0] for alias in self.aliases],
            "alias_dst": [alias[1] for alias in self.aliases],
            "alias_offset": [alias[2] for alias in self.aliases],
            "backward_link_internal": [link[0] for link in self.backward_links],
            "backward_link_external": [link[1] for link in self.backward_links],
            "backward_link_offset": [link[2] for link in self.backward_links],
            "param": [names.index(name) for name in self.learned],
            "param_grads": [f"{name}_grad" for name in self.learned],
            "outputs_with_grads": [*self.given],
            "recompute_blobs_on_backward": list(self.recomputed),
        }  # fmt: skip
        gradients = {f"{targets[index]}_grad": value for index, value in self.given.items()}
        learned = ["x", *self.learned, *self.states.values()]
        of_states = [f"{name}_grad" for name in self.states]
        ops = [
            operator("RecurrentNetwork", names, targets, **arguments),
            operator(
                "RecurrentNetworkGradient",
                [*gradients, *names, *targets],
                [*(f"{name}_grad" for name in learned), *(name for name in self.reads if name in of_states)],
                **arguments,
            ),
            *(operator("Copy", [name], [f"{name}_read"]) for name in self.reads),
        ]
        return net(ops, {**self.inputs, **gradients, **self.more})


def differentiated(ops: Sequence[OperatorDef], **gradients: str) -> list[OperatorDef]:
    """Return the gradient operators of a part of a step, given the gradients of its results."""
    return list(get_backward_pass(ops, gradients).operators)


def window_of_a_state(seed: int, window: int, steps: int, *, recomputed: bool = False, conv: bool = False) -> Spec:
    """Return a convolution over time: the current row is written into a state, and a window of that state is read.

    The rows of the gradient of the window are added to those of the state's gradient. Real Caffe2 fills only its last
    row with zeros: a row that no step has written yet is not read.
    """
    rows, batch, width = window - 1, 2, 3
    inputs = {
        "x": normal(seed, steps, batch, width),
        "padding": normal(seed + 1, rows, batch, width),
        "h0": normal(seed + 2, 1, batch, width),
        "w": normal(seed + 3, *((width, 1, window, width) if conv else (width, width * window))),
        "b": normal(seed + 4, width),
        "last": np.array([steps - 1], np.int32),
    }
    mixed = [
        operator("Transpose", ["prev"], ["by_batch"], axes=[1, 0, 2]),
        operator("Reshape", ["by_batch"], ["flat", "old"], shape=[1, -1, width * window]),
        operator("FC", ["flat", "w", "b"], ["mixed"], axis=2),
    ]
    if conv:
        mixed = [
            operator("Transpose", ["prev"], ["by_batch"], axes=[1, 0, 2]),
            operator("ExpandDims", ["by_batch"], ["image"], dims=[1]),
            operator("Conv", ["image", "w", "b"], ["image_mixed"], kernel_h=1, kernel_w=window, order="NHWC"),
            operator("Squeeze", ["image_mixed"], ["mixed_by_batch"], dims=[1]),
            operator("Transpose", ["mixed_by_batch"], ["mixed"], axes=[1, 0, 2]),
        ]
    activated = operator("Tanh", ["mixed"], ["active"])
    parts = [f"part{i}" for i in range(window)]
    backward = [
        *([*mixed, activated] if recomputed else []),
        *differentiated([*mixed, activated], active="out_grad"),
        operator("Split", ["prev_grad"], parts, axis=0),
        operator("EQ", ["timestep", "last"], ["is_last"]),
    ]
    for i, part in enumerate(parts[1:], 1):
        before = f"row{i}_grad"
        if i < rows:
            backward.append(operator("ConstantFill", [part], [f"zeros{i}"], value=0.0))
            backward.append(operator("Conditional", ["is_last", f"zeros{i}", before], [f"before{i}"]))
            before = f"before{i}"
        backward.append(operator("Sum", [before, part], [f"row{i}_grad"]))
    backward += [
        operator("Copy", ["part0"], ["row0_grad"]),
        operator("Copy", [f"row{rows}_grad"], ["x_t_grad"]),
        operator("Copy", ["out_grad"], ["h_prev_grad"]),
    ]
    links = [("x_t", "x", 0, 1), ("cur", "in_states", rows, 1), ("prev", "in_states", 0, window)]
    return Training(
        inputs,
        {"in_states": "padding", "out_states": "h0"},
        [operator("Copy", ["x_t"], ["cur"]), *mixed, activated, operator("Sum", ["active", "h_prev"], ["out"])],
        [*links, ("h_prev", "out_states", 0, 1), ("out", "out_states", 1, 1)],
        [("out_states", "all", 1), ("out_states", "last_row", -1), ("in_states", "seen", rows)],
        backward,
        [
            ("out_grad", "out_states_grad", 1),
            ("h_prev_grad", "out_states_grad", 0),
            ("x_t_grad", "x_grad", 0),
            *((f"row{i}_grad", "in_states_grad", i) for i in range(window)),
        ],
        learned=["w", "b"],
        given={0: normal(seed + 5, steps, batch, width), 1: normal(seed + 6, 1, batch, width)},
        reads=["in_states_grad", "out_states_grad"],
        recomputed=[*(op.output[0] for op in mixed), "old", "active"] if recomputed and not conv else [],
    ).spec()


def two_initial_rows(seed: int, steps: int, *, last: int = -1) -> Spec:
    """Return a case of two initial rows, both read in every step; the newer one is the older one in the next step."""
    batch, width = 3, 4
    inputs = {
        "x": normal(seed, steps, batch, width),
        "start": normal(seed + 1, 2, batch, width),
        "final": np.array([steps - 1], np.int32),
    }
    step = [
        operator("Mul", ["older", "x_t"], ["scaled"]),
        operator("Sum", ["scaled", "old"], ["new"]),
        operator("Tanh", ["new"], ["new"]),
    ]
    backward = [
        operator("TanhGradient", ["new", "new_grad"], ["sum_grad"]),
        operator("Mul", ["sum_grad", "x_t"], ["older_grad"]),
        operator("Mul", ["sum_grad", "older"], ["x_t_grad"]),
        operator("EQ", ["timestep", "final"], ["is_last"]),
        operator("ConstantFill", ["sum_grad"], ["zeros"], value=0.0),
        operator("Conditional", ["is_last", "zeros", "old_grad"], ["before"]),
        operator("Sum", ["before", "sum_grad"], ["old_grad"]),
    ]
    return Training(
        inputs,
        {"s": "start"},
        step,
        [("older", "s", 0, 1), ("old", "s", 1, 1), ("new", "s", 2, 1), ("x_t", "x", 0, 1)],
        [("s", "all", 2), ("s", "last_row", last)],
        backward,
        [("older_grad", "s_grad", 0), ("old_grad", "s_grad", 1), ("new_grad", "s_grad", 2), ("x_t_grad", "x_grad", 0)],
        given={1: normal(seed + 2, 1, batch, width)},
        reads=["s_grad"],
    ).spec()


def window_of_a_sequence(seed: int) -> Spec:
    """Return a window that looks ahead, into a longer sequence, whose gradient is an outer blob that steps add to."""
    inputs = {"x": normal(seed, 3, 2, 4), "long": normal(seed + 1, 6, 2, 4), "h0": normal(seed + 2, 2, 4)}
    step = [
        operator("ReduceFrontSum", ["view"], ["total"], num_reduce_dim=1),
        operator("ExpandDims", ["total"], ["row"], dims=[0]),
        operator("Mul", ["row", "late"], ["product"]),
        operator("Sum", ["product", "x_t", "h_prev"], ["sum"]),
        operator("Sigmoid", ["sum"], ["h"]),
    ]
    backward = [
        operator("SigmoidGradient", ["h", "h_grad"], ["sum_grad"]),
        operator("Copy", ["sum_grad"], ["x_t_grad"]),
        operator("Copy", ["sum_grad"], ["h_prev_grad"]),
        operator("Mul", ["sum_grad", "late"], ["row_grad"]),
        operator("Mul", ["sum_grad", "row"], ["product_grad"]),
        *(operator("Sum", [f"view{i}_grad", "row_grad"], [f"view{i}_grad"]) for i in (1, 2)),
        operator("Sum", ["late_grad", "product_grad", "row_grad"], ["late_grad"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        step,
        [("view", "long", 1, 3), ("late", "long", 3, 1), ("x_t", "x", 0, 1), ("h_prev", "s", 0, 1), ("h", "s", 1, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [
            ("h_grad", "s_grad", 1),
            ("h_prev_grad", "s_grad", 0),
            ("x_t_grad", "x_grad", 0),
            *((f"view{i}_grad", "long_grad", i) for i in (1, 2)),
            ("late_grad", "long_grad", 3),
        ],
        given={0: normal(seed + 3, 3, 2, 4)},
        more={"long_grad": np.zeros((6, 2, 4), np.float32)},
        reads=["long_grad", "s_grad"],
    ).spec()


def outer_memory(seed: int) -> Spec:
    """Return a case that writes rows of a blob that is no state and reads them in the next step; so its gradient."""
    inputs = {"x": normal(seed, 3, 2, 4), "memory": normal(seed + 1, 4, 2, 4), "h0": normal(seed + 2, 4)}
    step = [
        operator("Mul", ["before", "x_t"], ["product"]),
        operator("Sum", ["product", "h_prev"], ["h"]),
        operator("Copy", ["h"], ["after"]),
    ]
    backward = [
        operator("Sum", ["h_grad", "after_grad"], ["sum_grad"]),
        operator("Copy", ["sum_grad"], ["h_prev_grad"]),
        operator("Mul", ["sum_grad", "before"], ["x_t_grad"]),
        operator("Mul", ["sum_grad", "x_t"], ["before_grad"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        step,
        [("before", "memory", 0, 1), ("after", "memory", 1, 1), ("x_t", "x", 0, 1), ("h_prev", "s", 0, 1),
         ("h", "s", 1, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [
            ("h_grad", "s_grad", 1), ("h_prev_grad", "s_grad", 0), ("x_t_grad", "x_grad", 0),
            ("after_grad", "memory_grad", 1), ("before_grad", "memory_grad", 0),
        ],
        given={0: normal(seed + 3, 3, 2, 4), 1: normal(seed + 4, 1, 2, 4)},
        more={"memory_grad": normal(seed + 5, 4, 2, 4)},
        reads=["memory_grad", "memory"],
    ).spec()  # fmt: skip


def read_after_write(seed: int) -> Spec:
    """Return the same row under two names: what is read after the write is what was written."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 1, 2, 4)}
    step = [
        operator("Sum", ["h_prev", "x_t"], ["h"]),
        operator("Tanh", ["again"], ["squashed"]),
        operator("Mul", ["squashed", "x_t"], ["h"]),
    ]
    backward = [
        operator("Mul", ["h_grad", "x_t"], ["squashed_grad"]),
        operator("TanhGradient", ["squashed", "squashed_grad"], ["again_grad"]),
        operator("Mul", ["h_grad", "squashed"], ["direct"]),
        operator("Sum", ["direct", "again_grad"], ["x_t_grad"]),
        operator("Copy", ["again_grad"], ["h_prev_grad"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        step,
        [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("again", "s", 1, 1), ("x_t", "x", 0, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [("h_grad", "s_grad", 1), ("h_prev_grad", "s_grad", 0), ("x_t_grad", "x_grad", 0)],
        given={0: normal(seed + 2, 3, 2, 4)},
        reads=["s_grad"],
    ).spec()


def in_place_over_the_previous_row(seed: int) -> Spec:
    """Return a step that writes over the row that it reads: the backward step sees what is there after the loop."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 4)}
    step = [
        operator("Tanh", ["h_prev"], ["h_prev"]),
        operator("Mul", ["h_prev", "x_t"], ["h"]),
    ]
    backward = [
        operator("Mul", ["h_grad", "h_prev"], ["x_t_grad"]),
        operator("Mul", ["h_grad", "x_t"], ["tanh_grad"]),
        operator("TanhGradient", ["h_prev", "tanh_grad"], ["h_prev_grad"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        step,
        [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [("h_grad", "s_grad", 1), ("h_prev_grad", "s_grad", 0), ("x_t_grad", "x_grad", 0)],
        given={0: normal(seed + 2, 3, 2, 4)},
        reads=["s_grad", "s"],
    ).spec()


def recomputed_row(seed: int) -> Spec:
    """Return a case whose backward step computes a state's row again, under the step's name, and so writes over it."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 1, 2, 4)}
    step = [operator("Sum", ["h_prev", "x_t"], ["sum"]), operator("Tanh", ["sum"], ["h"])]
    backward = [
        *step,
        operator("TanhGradient", ["h", "h_grad"], ["sum_grad"]),
        operator("Copy", ["sum_grad"], ["x_t_grad"]),
        operator("Copy", ["sum_grad"], ["h_prev_grad"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        step,
        [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [("h_grad", "s_grad", 1), ("h_prev_grad", "s_grad", 0), ("x_t_grad", "x_grad", 0)],
        given={0: normal(seed + 2, 3, 2, 4), 1: normal(seed + 3, 1, 2, 4)},
        reads=["s_grad"],
        recomputed=["sum", "h"],
    ).spec()


def changed_row(seed: int) -> Spec:
    """Return a case whose backward step writes something else over the row of a state, which later operators see."""
    inputs = {"x": normal(seed, 3, 2, 4), "h0": normal(seed + 1, 1, 2, 4)}
    backward = [
        operator("TanhGradient", ["h", "h_grad"], ["sum_grad"]),
        operator("Copy", ["sum_grad"], ["x_t_grad"]),
        operator("Copy", ["sum_grad"], ["h_prev_grad"]),
        operator("Sum", ["h", "x_t"], ["h"]),
    ]
    return Training(
        inputs,
        {"s": "h0"},
        [operator("Sum", ["h_prev", "x_t"], ["sum"]), operator("Tanh", ["sum"], ["h"])],
        [("h_prev", "s", 0, 1), ("h", "s", 1, 1), ("x_t", "x", 0, 1)],
        [("s", "all", 1), ("s", "last_row", -1)],
        backward,
        [("h_grad", "s_grad", 1), ("h_prev_grad", "s_grad", 0), ("x_t_grad", "x_grad", 0)],
        given={0: normal(seed + 2, 3, 2, 4)},
        reads=["s_grad", "s", "all", "last_row"],
    ).spec()


def changed_row_of_another_name(seed: int) -> Spec:
    """Return a case whose gradient operator names a view of the state otherwise: the memory is the forward one's."""
    spec = changed_row(seed)
    gradient = spec.net.op[1]
    (names,) = (arg for arg in gradient.arg if arg.name == "alias_dst")
    names.strings[0] = b"other"
    return spec


CASES = [
    window_of_a_state(1, 2, 3),
    window_of_a_state(11, 3, 4),
    window_of_a_state(21, 4, 1),
    window_of_a_state(31, 3, 2, recomputed=True),
    window_of_a_state(41, 2, 4, conv=True),
    window_of_a_state(51, 3, 3, conv=True),
    two_initial_rows(61, 4),
    two_initial_rows(71, 1),
    two_initial_rows(81, 2, last=-2),
    window_of_a_sequence(91),
    outer_memory(101),
    read_after_write(111),
    in_place_over_the_previous_row(121),
    recomputed_row(131),
    changed_row(141),
    changed_row_of_another_name(151),
]
