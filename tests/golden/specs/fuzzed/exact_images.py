"""Cases of operators on images that the differential fuzzer found: whole images of many dims, pads, sizes of 0."""

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(22)
PIXELS = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
FEATURE = np.array([1.8, 0.4, np.inf, 0.4, np.inf, 0.9, -1.1, 1.1], np.float32).reshape(1, 2, 2, 2)

CASES = [
    *(
        case(kind, {"X": RANDOM.standard_normal((2, 2, 2, 3, 1, 2), dtype="float32")}, args={"global_pooling": 1})
        for kind in ("MaxPool", "AveragePool")
    ),
    # Pads that crop at one end and add at the other one.
    *(
        case("PadImage", {"X": PIXELS}, args={"mode": mode, "pads": pads, "value": 9.0})
        for mode in ("constant", "reflect", "edge")
        for pads in ([-3, 1, 1, -1], [2, -2, -1, 0])
    ),
    # Scaled sizes of 0.
    *(case(kind, {"X": PIXELS}, args={"height_scale": 0.2}) for kind in ("ResizeNearest", "UpsampleBilinear")),
    *(
        case(kind, {"X": PIXELS, "scales": np.array([0.6, 0], np.float32)})
        for kind in ("ResizeNearest", "UpsampleBilinear")
    ),
    case("UpsampleBilinear", {"X": PIXELS[..., :0]}, args={"height_scale": 0.5}),
    # Samples between pixels by a rounding error, and samples outside of the image.
    case(
        "RoIAlignRotated",
        {"X": FEATURE, "rois": np.zeros((1, 6), np.float32)},
        args={"pooled_h": 3, "sampling_ratio": 1},
    ),
    case(
        "RoIAlignRotated",
        {"X": FEATURE, "rois": np.array([[0, 9, 9, 2, 2, 30]], np.float32)},
        args={"pooled_w": 2, "sampling_ratio": 1},
    ),
    # Sums of exponentials beyond 32 bits.
    *(
        case(
            "Int8Softmax",
            {"X": np.full((2, count), 7, np.uint8)},
            args={"Y_scale": 1 / 256, "Y_zero_point": 0},
            quantized={"X": (0.05, 3)},
        )
        for count in (513, 700, 999)
    ),
    # No filters.
    case(
        "LC2DGradient",
        {
            "X": PIXELS[:, :, :2],
            "W": np.zeros((2, 3, 0, 2, 1, 1), np.float32),
            "dY": np.zeros((1, 0, 2, 3), np.float32),
        },
        outputs=["dW", "dX"],
        args={"kernels": [1, 1], "no_bias": 1},
    ),
    # The range of one axis as arguments of their own, and those of the others.
    *(
        case(
            "Int8Slice",
            {"X": np.arange(12, dtype=np.uint8).reshape(3, 4)},
            args={"dim": 1, "start_idx": 0, "end_idx": -1, "Y_scale": 0.05, "Y_zero_point": 121, **more},
            quantized={"X": (0.05, 121)},
        )
        for more in ({"ends": [-2]}, {"starts": [1, 2]}, {"starts": [1], "ends": [2, 1, 1]})
    ),
]
