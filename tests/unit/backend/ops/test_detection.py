"""NonMaxSuppression as operators of Caffe2, against onnxruntime, in real Caffe2 and in this project's runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser
from support.random_values import RandomValues
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

INPUTS = "float[N,M,4] boxes, float[N,C,M] scores"
# The number of boxes of a class, the threshold of overlaps, that of scores.
KNOWN = {
    "plain": ("<int64[1] k = {5}, float[1] t = {0.3}>", "(boxes, scores, k, t)"),
    "scores": ("<int64[1] k = {3}, float[1] t = {0.5}, float[1] s = {0.4}>", "(boxes, scores, k, t, s)"),
    "many": ("<int64 k = {1000}, float t = {0.1}, float s = {0}>", "(boxes, scores, k, t, s)"),
    "default threshold": ("<int64 k = {4}>", "(boxes, scores, k)"),
    "nothing": ("", "(boxes, scores)"),
    "centers": ("<int64 k = {4}, float t = {0.4}>", "<center_point_box = 1> (boxes, scores, k, t)"),
}
GIVEN = "float[N,M,4] boxes, float[N,C,M] scores, int64[1] k, float[1] t, float[1] s"


def feed_of(random: RandomValues, images: int, classes: int, count: int) -> dict[str, Any]:
    """Return boxes of which some have their corners swapped and one has no area, and distinct scores."""
    generator = random.generator
    low = generator.uniform(0, 1, (images, count, 2))
    boxes = np.concatenate([low, low + generator.uniform(0.05, 0.5, (images, count, 2))], 2)
    boxes[:, ::3] = boxes[:, ::3][..., [2, 3, 0, 1]]
    boxes[:, -1, 2:] = boxes[:, -1, :2]
    scores = generator.permutation(images * classes * count).reshape(images, classes, count) / 100
    return {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32)}


def limits(count: int, overlap: float, score: float) -> dict[str, Any]:
    return {"k": np.array([count]), "t": np.array([overlap], np.float32), "s": np.array([score], np.float32)}


def check_here(inputs: str, head: str, body: str, feeds: list[dict[str, Any]]) -> None:
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> g ({inputs}) => (int64[K,3] y) {head} {{ {body} }}'
    )
    predictor = Predictor(to_netdef(model))
    session = OnnxSession(model.SerializeToString())
    for feed in feeds:
        np.testing.assert_array_equal(predictor.run(feed)["y"], session.run_values(feed)[0])


@pytest.mark.parametrize("name", KNOWN)
def test_known_thresholds(name: str, random: RandomValues) -> None:
    head, body = KNOWN[name]
    feeds = [feed_of(random, *sizes) for sizes in ((1, 1, 6), (2, 3, 12))]
    check_here(INPUTS, head, f"y = NonMaxSuppression {body}", feeds)


def test_thresholds_at_run_time(random: RandomValues) -> None:
    feeds = [
        feed_of(random, *sizes) | limits(*how)
        for sizes in ((1, 1, 6), (2, 3, 12))
        for how in ((3, 0.3, 0.0), (100, 0.6, 0.2), (2, 0.0, 0.0), (0, 0.5, 0.0))
    ]
    check_here(GIVEN, "", "y = NonMaxSuppression (boxes, scores, k, t, s)", feeds)


def test_equal_scores_at_run_time(random: RandomValues) -> None:
    feed = feed_of(random, 1, 2, 8) | limits(5, 0.3, 0.0)
    check_here(GIVEN, "", "y = NonMaxSuppression (boxes, scores, k, t, s)", [feed | {"scores": feed["scores"] * 0 + 1}])


@pytest.mark.oracle
def test_in_real_caffe2(random: RandomValues) -> None:
    feeds = [feed_of(random, *sizes) for sizes in ((1, 1, 6), (2, 3, 12))]
    with comparison() as check:
        for head, body in KNOWN.values():
            check(INPUTS, "int64[K,3] y", f"y = NonMaxSuppression {body}", feeds, head=head)
        given = [feed | limits(4, 0.3, 0.1) for feed in feeds]
        check(GIVEN, "int64[K,3] y", "y = NonMaxSuppression (boxes, scores, k, t, s)", given)
