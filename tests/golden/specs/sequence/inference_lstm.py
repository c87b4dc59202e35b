"""InferenceLSTM: directions, layers and biases, whose parameters are inputs or the net's own."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator, net, operator


def operands(layers: int, directions: int, each: int) -> dict[str, Array]:
    rng = generator(layers * 10 + directions)
    steps, batch, width, units = 5, 3, 4, 6
    result = {
        "x": rng.standard_normal((steps, batch, width), dtype="float32"),
        "hidden": rng.standard_normal((layers * directions, batch, units), dtype="float32"),
        "cell": rng.standard_normal((layers * directions, batch, units), dtype="float32"),
    }
    for layer in range(layers):
        inside = width if layer == 0 else units * directions
        for direction in range(directions):
            shapes = [(4 * units, inside), (4 * units, units), *([(4 * units,)] * (each - 2))]
            for number, shape in enumerate(shapes):
                result[f"p{layer}_{direction}_{number}"] = rng.standard_normal(shape, dtype="float32")
    return result


def own_parameters(layers: int, directions: int, each: int) -> Spec:
    """Return a case whose parameters, ``each`` of a layer and direction, are filled in the net."""
    values = operands(layers, directions, each)
    fills = [
        operator("GivenTensorFill", [], [name], shape=list(array.shape), values=array.ravel().tolist())
        for name, array in values.items()
        if name.startswith("p")
    ]
    lstm = operator(
        "InferenceLSTM",
        list(values),
        ["y", "hy", "cy"],
        num_layers=layers,
        bidirectional=directions == 2,
        has_biases=each == 4,
    )
    return net([*fills, lstm], {name: array for name, array in values.items() if not name.startswith("p")})


OUTPUTS = ["y", "hy", "cy"]
OPERANDS = operands(1, 1, 4)

CASES = [
    *(
        case(
            "InferenceLSTM",
            operands(layers, directions, each),
            outputs=OUTPUTS,
            args={"num_layers": layers, "bidirectional": directions == 2, "has_biases": each == 4},
        )
        for layers in (1, 2)
        for directions in (1, 2)
        for each in (2, 4)
    ),
    case("InferenceLSTM", operands(1, 1, 4), outputs=OUTPUTS),
    case("InferenceLSTM", operands(1, 1, 4), outputs=OUTPUTS, args={"has_biases": 1, "num_layers": 2}),
    *(own_parameters(2, directions, each) for directions in (1, 2) for each in (2, 4)),
    # Weights of another rank count as matrices.
    *(
        case(
            "InferenceLSTM",
            {name: array[..., np.newaxis] if array.ndim in ranks else array for name, array in OPERANDS.items()},
            outputs=OUTPUTS,
        )
        for ranks in ((2,), (1,))
    ),
]
