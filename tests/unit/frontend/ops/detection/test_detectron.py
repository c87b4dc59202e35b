"""The operators of Detectron's library and their gradients, against their definitions in PyTorch and its autograd.

Real Caffe2 has all but UpsampleNearest on GPUs only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose, assert_array_equal
from support.exports import export, run, specs_of

from caffe2_bridge.gradients import get_gradient_for_op
from caffe2_frontend import ConversionError

Array = np.ndarray[Any, Any]
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
functional = torch.nn.functional


def check(
    op_type: str, operands: dict[str, Array], definition: Callable[..., Any], outputs: int = 1, **args: Any
) -> list[Array]:
    """Compare an operator and the gradient of its first operand with a definition; sizes are known, or ranks alone."""
    names = [f"out{index}" for index in range(outputs)]
    op = operator(op_type, list(operands), names, **args)
    x, *others = (torch.from_numpy(value) for value in operands.values())
    x = x.double().requires_grad_()
    expected = definition(x, *others)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    expected.backward(weights.double())
    dy = weights.numpy()
    for sizes in (True, False):
        results = run(export(op, specs_of(operands, sizes=sizes)), operands)
        assert_allclose(results[0], expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert results[0].shape == expected.shape
        (gradient,), _ = get_gradient_for_op(op, ["dY", *[None] * (outputs - 1)])
        given = {**operands, "dY": dy, **dict(zip(names, results, strict=True))}
        given = {name: given[name] for name in dict.fromkeys(gradient.input)}
        (dx,) = run(export(gradient, specs_of(given, sizes=sizes)), given)
        assert dx.shape == x.shape
        assert_allclose(dx, x.grad.numpy(), rtol=1e-4, atol=1e-5)
    return results


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_upsampled_images(rng: np.random.Generator, scale: int) -> None:
    def definition(x: Any) -> Any:
        return functional.interpolate(x, scale_factor=scale, mode="nearest")

    check("UpsampleNearest", {"X": floats(rng, 2, 3, 1, 5)}, definition, scale=scale)


@pytest.mark.parametrize("args", [{}, {"beta": 0.25, "scale": 3.0}])
def test_smooth_l1(rng: np.random.Generator, args: dict[str, float]) -> None:
    def definition(x: Any, y: Any, inner: Any, outer: Any) -> Any:
        losses = functional.smooth_l1_loss(inner * x, inner * y, reduction="none", beta=args.get("beta", 1.0))
        return (outer * losses).sum() * args.get("scale", 1.0) / len(x)

    operands = {name: 2 * floats(rng, 3, 4, 2) for name in ("X", "Y", "I", "O")}
    check("SmoothL1Loss", operands, definition, **args)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_smooth_l1_of_selected_pixels(rng: np.random.Generator, count: int) -> None:
    pixels = np.array([[0, 4, 1, 2], [1, 0, 0, 0], [1, 4, 2, 3]], np.float32)[:count]

    def definition(x: Any, y: Any, pixels: Any, total: Any) -> Any:
        n, c, h, w = pixels.long().unsqueeze(2).unbind(1)
        chosen = x[n, c + torch.arange(4), h, w]
        return 2 * functional.smooth_l1_loss(chosen, y.double(), reduction="sum", beta=0.5) / max(float(total), 1)

    operands = {"X": floats(rng, 2, 8, 3, 4), "Y": floats(rng, count, 4), "L": pixels, "S": np.array([count], "f")}
    check("SelectSmoothL1Loss", operands, definition, beta=0.5, scale=2.0)


@pytest.mark.parametrize("args", [{}, {"normalize": 0, "scale": 2.0}])
@pytest.mark.parametrize("low", [-1, 0])
def test_sigmoid_cross_entropy(rng: np.random.Generator, low: int, args: dict[str, Any]) -> None:
    def definition(x: Any, targets: Any) -> Any:
        used = targets != -1
        losses = functional.binary_cross_entropy_with_logits(x[used], targets[used].double(), reduction="sum")
        return losses * args.get("scale", 1.0) / (max(int(used.sum()), 1e-5) if args.get("normalize", 1) else 1)

    targets = rng.integers(low, 2, (3, 5), np.int32)
    check("SigmoidCrossEntropyLoss", {"X": 3 * floats(rng, 3, 5), "T": targets}, definition, **args)
    check("SigmoidCrossEntropyLoss", {"X": floats(rng, 3), "T": np.full(3, -1, np.int32)}, definition, **args)


@pytest.mark.parametrize("args", [{}, {"gamma": 2.0, "alpha": 0.4, "scale": 3.0}, {"gamma": 0.0}])
def test_sigmoid_focal_loss(rng: np.random.Generator, args: dict[str, float]) -> None:
    classes, anchors = 3, 2

    def definition(x: Any, labels: Any, count: Any) -> Any:
        x = x.reshape(2, anchors, classes, 4, 5)
        labels = labels[:, :, None]
        positive = labels == torch.arange(1, classes + 1).reshape(-1, 1, 1)
        p, gamma, alpha = x.sigmoid(), args.get("gamma", 1.0), args.get("alpha", 0.25)
        good = -alpha * (1 - p) ** gamma * functional.logsigmoid(x)
        bad = -(1 - alpha) * p**gamma * functional.logsigmoid(-x)
        losses = torch.where(positive, good, bad) * (labels != -1)
        return losses.sum() * args.get("scale", 1.0) / max(float(count), 1)

    labels = rng.integers(-1, classes + 1, (2, anchors, 4, 5), np.int32)
    operands = {"X": floats(rng, 2, anchors * classes, 4, 5), "T": labels, "count": np.array([7], np.float32)}
    check("SigmoidFocalLoss", operands, definition, num_classes=classes, **args)


@pytest.mark.parametrize("args", [{}, {"gamma": 2.0, "alpha": 0.4, "scale": 3.0}, {"gamma": 0.0}])
def test_softmax_focal_loss(rng: np.random.Generator, args: dict[str, float]) -> None:
    classes, anchors = 3, 2

    def definition(x: Any, labels: Any, count: Any) -> Any:
        logs = x.reshape(2, anchors, classes, 4, 5).log_softmax(2)
        chosen = logs.gather(2, labels.clamp(min=0).long()[:, :, None])[:, :, 0]
        alpha = args.get("alpha", 0.25)
        weights = torch.where(labels > 0, alpha, torch.where(labels == 0, 1 - alpha, 0.0))
        losses = -((1 - chosen.exp()) ** args.get("gamma", 1.0)) * chosen * weights
        return losses.sum() * args.get("scale", 1.0) / max(float(count), 1)

    x = floats(rng, 2, anchors * classes, 4, 5)
    labels = rng.integers(-1, classes, (2, anchors, 4, 5), np.int32)
    operands = {"X": x, "T": labels, "count": np.array([0.5], np.float32)}
    _, p = check("SoftmaxFocalLoss", operands, definition, 2, num_classes=classes, **args)
    expected = torch.from_numpy(x).reshape(2, anchors, classes, 4, 5).softmax(2)
    assert_allclose(p, expected.reshape(-1).numpy(), rtol=1e-5)


def test_softmax_of_anchors(rng: np.random.Generator) -> None:
    def definition(x: Any) -> Any:
        return x.reshape(2, 2, 3, 4, 5).softmax(2).reshape(x.shape)

    check("GroupSpatialSoftmax", {"X": floats(rng, 2, 6, 4, 5)}, definition, num_classes=3)


@pytest.mark.parametrize("like", [(2, 3, 4, 2), (2, 4, 2), (2, 3, 4, 5)])
def test_narrowed_images(rng: np.random.Generator, like: tuple[int, ...]) -> None:
    operands = {"A": floats(rng, 2, 3, 4, 5), "B": floats(rng, *like)}
    check("SpatialNarrowAs", operands, lambda a, b: a[:, :, : b.shape[-2], : b.shape[-1]])


@pytest.mark.parametrize("labels", [[1, 0, 5, -1], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_sampled_rows(rng: np.random.Generator, labels: list[int]) -> None:
    operands = {"X": floats(rng, 4, 2, 3), "L": np.array(labels, np.int32)}
    check("SampleAs", operands, lambda x, labels: x[labels > 0])


def cells(roi: Array, group: int, scale: float, height: int, width: int) -> list[list[tuple[slice, slice]]]:
    """Return the rows and columns of each cell of a region, as R-FCN defines them."""
    edges = [np.float32(np.floor(v + 0.5) + (1 if i > 1 else 0)) * np.float32(scale) for i, v in enumerate(roi[1:])]
    found: list[list[slice]] = []
    for start, end, length in ((edges[1], edges[3], height), (edges[0], edges[2], width)):
        cell = max(end - start, np.float32(0.1)) / np.float32(group)
        limits = [(np.floor(i * cell + start), np.ceil((i + 1) * cell + start)) for i in range(group)]
        found.append([slice(*(int(np.clip(v, 0, length)) for v in both)) for both in limits])
    return [[(rows, columns) for columns in found[1]] for rows in found[0]]


@pytest.mark.parametrize("count", [0, 4])
def test_position_sensitive_pooling(rng: np.random.Generator, count: int) -> None:
    group, dim, scale = 3, 2, 0.5
    rois = np.array([[1, 0, 1, 9, 11], [0, 4, 3, 5, 3], [1, 30, 30, 40, 40], [0, 2.5, 0.4, 7.6, 5.5]], "f")[:count]

    def definition(x: Any, rois: Any) -> Any:
        channels = x.reshape(2, dim, group, group, 6, 7)
        y = [x.new_zeros((0, dim, group, group))]
        for roi in rois.numpy():
            for i, line in enumerate(cells(roi, group, scale, 6, 7)):
                for j, (rows, columns) in enumerate(line):
                    part = channels[int(roi[0]), :, i, j, rows, columns]
                    y.append(part.sum((1, 2)).reshape(1, dim, 1, 1) / max(part[0].numel(), 1))
        parts = torch.cat([v.reshape(-1) for v in y]) + 0 * x.sum()
        return parts.reshape(count, group, group, dim).permute(0, 3, 1, 2)

    operands = {"X": floats(rng, 2, dim * group * group, 6, 7), "R": rois}
    args = {"group_size": group, "output_dim": dim, "spatial_scale": scale}
    _, channels = check("PSRoIPool", operands, definition, 2, **args)
    expected = np.arange(dim * group * group, dtype=np.int32).reshape(dim, group, group)
    assert_array_equal(channels, np.broadcast_to(expected, (count, *expected.shape)))


def test_maxima_of_regions(rng: np.random.Generator) -> None:
    """RoIPoolF is RoIPool with argmaxes, which has recorded cases; its gradient goes to the maxima."""
    operands = {"X": floats(rng, 2, 3, 5, 6), "R": np.array([[1, 0, 0, 4, 3], [1, 9, 9, 12, 12]], np.float32)}
    args = {"pooled_h": 2, "pooled_w": 2}
    known = run(export(operator("RoIPool", ["X", "R"], ["y", "a"], **args), specs_of(operands)), operands)

    def definition(x: Any, rois: Any) -> Any:
        at = torch.from_numpy(known[1]).long()
        image = x[rois[:, 0].long()].reshape(2, 3, -1)
        picked = image.gather(2, at.clamp(min=0).reshape(2, 3, -1)).reshape(at.shape)
        return torch.where(at >= 0, picked, 0.0)

    results = check("RoIPoolF", operands, definition, 2, **args)
    for value, expected in zip(results, known, strict=True):
        assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("op_type", "shapes", "args", "message"),
    [
        ("UpsampleNearest", [(1, 1, 2, 2)], {"scale": 0}, "scale must be positive"),
        ("UpsampleNearest", [(1, 2, 2)], {}, "rank 4"),
        ("SmoothL1Loss", [(2, 3)] * 4, {"beta": 0.0}, "beta must be positive"),
        ("SmoothL1Loss", [(2, 3), (3, 2), (2, 3), (2, 3)], {}, "must agree: 2 and 3"),
        ("SigmoidFocalLoss", [(1, 81, 2, 2), (1, 1, 2, 2), (1,)], {}, r"channels \(81\) must be a multiple"),
        ("GroupSpatialSoftmax", [(1, 81, 2, 2)], {"order": "NHWC"}, "order must be NCHW"),
        ("SpatialNarrowAs", [(1, 2, 3, 3), (1, 2, 4, 3)], {}, "B must not be larger than A: 4 and 3"),
        ("PSRoIPool", [(1, 8, 3, 3), (2, 5)], {"group_size": 3}, "must be 9, not 8"),
        ("SampleAs", [(3, 2), (4,)], {}, "must agree: 3 and 4"),
    ],
)
def test_operands_that_are_refused(
    op_type: str, shapes: list[tuple[int, ...]], args: dict[str, Any], message: str
) -> None:
    labels = {"SigmoidFocalLoss": 1, "SampleAs": 1}.get(op_type)
    inputs = {f"in{i}": ("int32" if i == labels else "float32", shape) for i, shape in enumerate(shapes)}
    outputs = ["y", "channels"][: 2 if op_type == "PSRoIPool" else 1]
    with pytest.raises(ConversionError, match=message):
        export(operator(op_type, list(inputs), outputs, **args), inputs)
