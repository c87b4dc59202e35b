"""Resizing: what OpenCV 5.0 returned for the same images with INTER_AREA."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2_backend.runtime.host.images.resize import resize

# The shape of the image, its new height and width, and the bytes that OpenCV returned.
CASES = [
    ((6, 4, 3), (3, 2),
     ("9db2a97c92565e9c2e498d72868baa717aac")),
    ((5, 7, 3), (3, 4),
     ("c0d4627e9a9aaea06dbd5098749b635674a9858f82476a907d64b07eab965d675d684f53")),
    ((4, 4, 1), (2, 2),
     ("599f8973")),
    ((4, 6, 3), (6, 9),
     ("f8c2bee4ab6ccf931aed15f5e08291d3ef2d059d9f216ac63c36ecb378c3a2699b915a74890ebeb1518fd994600799571660"
      "6926267b6d2ec76027ca5220cd24078681208cde399208950e0c560c0f160a90d018546c211807290b553b3a9b5568e16ee2"
      "c908c172129f1a1b9aa51d5d8729216836297e90388490488a9171bd4970685a6f146ca37a2166a23229c94346a6e4376ccc"
      "2832b300b189205fa33f0dbc")),
    ((5, 3, 1), (7, 3),
     ("4e27f88ea676a9f93d6cf1b536b2d86a87e3cc5ce6")),
    ((3, 8, 3), (6, 4),
     ("aaeab257cd7d7a7bc133b261aaeab257cd7d7a7bc133b2618c404f1d86f40c7b684e36748c404f1d86f40c7b684e3674ab2b"
      "76637b78606e91523e59ab2b76637b78606e91523e59")),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_like_opencv(number: int) -> None:
    shape, (height, width), expected = CASES[number]
    image = np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)
    assert resize(image, height, width).tobytes().hex() == expected
    assert resize(image, shape[0], shape[1]) is image
