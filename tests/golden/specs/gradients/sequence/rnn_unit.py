"""Gradients of the units of recurrent cells: sequences that have ended, dropped states, biases and large gates."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def floats(*shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype("float32")


def unit(states: int, rows: int, width: int, *, lengths: list[int] | None, scale: float = 1, **args: Any) -> Spec:
    """Return a unit of ``states`` states (2: LSTM, 1: GRU) at timestep 2; without lengths, sequence_lengths is 0."""
    shape = 1, rows, width
    operands = {f"S{i}": floats(*shape) for i in range(states)}
    operands["gates"] = floats(1, rows, width * (states + 2)) * np.float32(scale)
    if lengths is None:
        args["sequence_lengths"] = 0
    else:
        operands["lengths"] = np.array(lengths, "int32")
    operands["timestep"] = np.array([2], "int32")
    operands |= {f"T{i}": floats(*shape) for i in range(states)} | {f"dT{i}": floats(*shape) for i in range(states)}
    outputs = [*(f"dS{i}" for i in range(states)), "dgates"]
    return case(f"{'LSTM' if states == 2 else 'GRU'}UnitGradient", operands, outputs=outputs, args=args)


CASES = [
    spec
    for states in (1, 2)
    for spec in (
        unit(states, 3, 2, lengths=[1, 2, 3]),
        unit(states, 3, 2, lengths=[1, 2, 3], drop_states=1),
        unit(states, 3, 2, lengths=None, drop_states=1),
        unit(states, 4, 1, lengths=[5, 5, 5, 5], forget_bias=1.5),
        unit(states, 2, 3, lengths=[3, 0], scale=40, forget_bias=-0.5),
        unit(states, 0, 2, lengths=[]),
        unit(states, 3, 2, lengths=[1, 2]),
    )
]
