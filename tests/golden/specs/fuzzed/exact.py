"""Cases that the differential fuzzer found, and operators that Caffe2's schemas refuse."""

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(20)
HASHES = np.array([2**60 + 7, 2**53 + 1, -(2**60) - 7, 2**63 - 1, -(2**63), 5, 0, -5], np.int64)
ROWS = RANDOM.standard_normal((2, 3), dtype="float32")
WEIGHT = RANDOM.standard_normal((4, 3), dtype="float32")
BIAS = np.zeros(4, np.float32)
IDS = np.array([1, 0], np.int32)


def proposals(op_type: str, outputs: list[str], **args: int) -> object:
    """Return three proposals in each of five levels; of all that remain the second output holds one level's."""
    rois = {f"rois{level}": (RANDOM.random((3, 5), dtype="float32") * 50).astype(np.float32) for level in range(5)}
    for array in rois.values():
        array[:, 0] = 0
        array[:, 3:] += 60
    scores = {f"scores{level}": RANDOM.random(3, dtype="float32") for level in range(5)}
    return case(op_type, {**rois, **scores}, outputs=outputs, args=args)


LEVELS = ["rois", "fpn2", "fpn3", "fpn4", "fpn5", "restore"]
CASES = [
    *(case("Mod", {"X": HASHES}, args={"divisor": divisor}) for divisor in (1000, -7, 2**40 + 1, 1)),
    case("Mod", {"X": HASHES[:4]}, args={"divisor": -1}),
    case("Mod", {"X": HASHES}, args={"divisor": 1000, "sign_follow_divisor": 1}),
    case("Mod", {"X": HASHES.astype(np.int32)}, args={"divisor": 2**40}),
    *(proposals("CollectRpnProposals", ["rois"], rpn_post_nms_topN=most) for most in (0, -1, 4)),
    *(proposals("CollectAndDistributeFpnRpnProposals", LEVELS, rpn_post_nms_topN=most) for most in (0, -1)),
    # What the schemas refuse.
    case("Relu", {"X": ROWS, "Z": ROWS}),
    case("Relu", {"X": ROWS}, outputs=["Y", "Z"]),
    case("WeightedSum", {"X": ROWS, "w": BIAS[:1], "Z": ROWS}),
    case("Softmax", {"X": ROWS}, outputs=["X"]),
    case("Sum", {"X": ROWS, "Z": ROWS}, outputs=["Z"]),
    case("ScatterAssign", {"X": ROWS, "I": IDS, "R": ROWS}, outputs=["Y"]),
    case(
        "SpatialBN",
        {"X": ROWS, "s": BIAS[:3], "b": BIAS[:3], "m": BIAS[:3], "v": BIAS[:3]},
        outputs=["Y", "m2", "v2", "sm", "sv"],
    ),
    # Arguments that no rank reaches.
    case("FC", {"X": ROWS, "W": WEIGHT, "b": BIAS}, args={"axis": 2**32}),
    case("FC", {"X": ROWS, "W": WEIGHT, "b": BIAS}, args={"axis_w": 2**32 + 1}),
    case("InstanceNorm", {"X": ROWS[0], "s": BIAS[:3], "b": BIAS[:3]}),
    # A gradient of other dims than the result, which is read by its elements.
    *(
        case(
            f"{kind}Gradient",
            {"dC": RANDOM.standard_normal(dims, dtype="float32"), "A": ROWS, "B": ROWS[1], **more},
            outputs=["dA", "dB"],
        )
        for kind, more in (("Add", {}), ("Sub", {}), ("Mul", {}), ("Div", {"C": ROWS / ROWS[1]}))
        for dims in ((6,), (3, 2, 1), (1, 6, 1))
    ),
    # Positions in a period, which float32 rounds.
    *(
        case(
            "LearningRate",
            {"iter": np.array([iteration])},
            outputs=["lr"],
            args={"policy": "cosine", "base_lr": 0.3, "lr_shrink": shrink, "t_mult": growth},
        )
        for shrink, growth in ((1.0, 1.0), (0.99, 1.0), (1.001, 1.0), (1.0, 1.2))
        for iteration in (2**24 + 1, 20_000_033, 123_456_789, 2**40 + 13, 236_082_100_744_065_626, -(2**31), -(2**63))
    ),
    # The lowest label has no opposite.
    case(
        "MarginRankingCriterion",
        {"X1": ROWS[0], "X2": ROWS[1], "Y": np.array([-(2**31), 2**31 - 1, -1], np.int32)},
        outputs=["loss"],
    ),
    case(
        "MarginRankingCriterionGradient",
        {"X1": ROWS[0], "X2": ROWS[1], "Y": np.array([-(2**31), 2**31 - 1, -1], np.int32), "dloss": ROWS[0] + 1},
        outputs=["dX1", "dX2"],
    ),
]
