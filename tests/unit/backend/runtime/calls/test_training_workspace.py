"""Blobs that a training net keeps from one run to the next."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def test_states_have_known_sizes_until_these_change() -> None:
    workspace = Workspace()
    workspace.create_net(NetDef(name="step", op=[operator("Add", ["P", "X"], ["P"])], external_input=["P", "X"]))
    for size, conversions in ((2, 1), (2, 1), (3, 2), (4, 2), (2, 2)):
        workspace.feed("P", np.ones(size, np.float32))
        workspace.feed("X", np.ones(size, np.float32))
        workspace.run_net("step")
        np.testing.assert_array_equal(workspace.fetch("P"), np.full(size, 2, np.float32))
        assert workspace.conversions() == conversions


@pytest.mark.parametrize("together", [True, False])
def test_a_gradient_takes_the_mask_of_dropout(together: bool) -> None:
    forward = operator("Dropout", ["X"], ["Y", "mask"], ratio=0.25, is_test=0)
    backward = operator("DropoutGrad", ["dY", "mask"], ["dX"], ratio=0.25, is_test=0)
    workspace = Workspace(seed=1)
    nets = [[forward, backward]] if together else [[forward], [backward]]
    workspace.feed("X", np.ones((40, 50), np.float32))
    workspace.feed("dY", np.full((40, 50), 3, np.float32))
    names = [workspace.create_net(NetDef(name=f"net{i}", op=ops)) for i, ops in enumerate(nets)]
    masks = []
    for _ in range(3):
        for name in names:
            workspace.run_net(name)
        mask, y, dx = (np.asarray(workspace.fetch(name)) for name in ("mask", "Y", "dX"))
        np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)
        np.testing.assert_allclose(dx, 3 * mask / 0.75, rtol=1e-6)
        assert 0.7 < mask.mean() < 0.8
        masks.append(mask)
    assert not np.array_equal(masks[0], masks[1])
    assert workspace.conversions() <= 2 * len(names)


def pooled_step() -> NetDef:
    """Return a training step of the scale of images before a pooling."""
    ops = [
        operator("Mul", ["X", "s"], ["scaled"], broadcast=1),
        operator("MaxPool", ["scaled"], ["Y"], kernel=2, stride=2),
        operator("MaxPoolGradient", ["scaled", "Y", "Y"], ["dX"], kernel=2, stride=2),
        operator("ReduceSum", ["dX"], ["total"], keepdims=0),
        operator("Mul", ["s", "half"], ["s"]),
    ]
    return NetDef(name="step", op=ops, external_input=["X", "s", "half"], external_output=["dX", "total"])


def test_images_of_pooled_training_nets_have_known_sizes_until_they_change() -> None:
    workspace = Workspace()
    workspace.feed("s", np.ones(1, np.float32))
    workspace.feed("half", np.full(1, 0.5, np.float32))
    workspace.create_net(pooled_step())
    random = np.random.default_rng(0)
    scale, conversions = 1.0, []
    for shape in [(2, 3, 4, 6), (5, 3, 4, 6), (2, 3, 5, 7), (2, 3, 9, 8), (2, 3, 4, 6)]:
        x = random.permutation(int(np.prod(shape))).astype(np.float32).reshape(shape)
        workspace.feed("X", x)
        workspace.run_net("step")
        conversions.append(workspace.conversions())
        height, width = shape[2] // 2 * 2, shape[3] // 2 * 2
        blocks = (x * np.float32(scale))[:, :, :height, :width].reshape(*shape[:2], height // 2, 2, width // 2, 2)
        expected = np.zeros(shape, np.float32)
        expected[:, :, :height, :width] = np.where(
            blocks == blocks.max((3, 5), keepdims=True), blocks, 0
        ).reshape(*shape[:2], height, width)  # fmt: skip
        np.testing.assert_array_equal(workspace.fetch("dX"), expected)
        scale /= 2
    assert conversions == [1, 2, 3, 3, 3], "one for the first size, one for any batch, and one for images of any size"
