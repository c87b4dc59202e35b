"""The names of the values of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from support.cells import fills
from support.exports import run
from support.nets import net, op

from caffe2_frontend import to_onnx


@pytest.mark.parametrize("outputs", ["", "w"])
def test_a_loop_that_changes_a_parameter(outputs: str) -> None:
    step = net(op("Add", "w x", "w"), op("LT", "w bound", "go"))
    loop = op("While", "go", outputs, loop_net=step)
    init = fills({"w": np.full(1, 2, np.float32), "bound": np.full(1, 9, np.float32)})
    model = to_onnx(
        net(loop, inputs="go x", outputs="w"), init, inputs={"go": ("bool", [1]), "x": ("float32", [1])}
    )  # fmt: skip
    for going, expected in ((True, 11), (False, 2)):
        (w,) = run(model, {"go": np.array([going]), "x": np.full(1, 3, np.float32)})
        np.testing.assert_array_equal(w, [expected])
