"""The best path of a CRF: lengths, ties, and what the scores are afterwards."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator, net, operator


def scores(seed: int, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return generator(seed).standard_normal(shape, dtype=np.float32)


TIED = (generator(8).integers(0, 2, (6, 3)) / 2).astype(np.float32)

CASES = [
    *(case("ViterbiPath", {"scores": scores(n, n, 4), "moves": scores(n + 20, 4, 4)}) for n in (1, 2, 3, 9)),
    case("ViterbiPath", {"scores": TIED, "moves": np.zeros((3, 3), np.float32)}),
    case("ViterbiPath", {"scores": scores(1, 5, 3), "moves": scores(2, 4, 4)}),
    case("ViterbiPath", {"scores": scores(1, 5), "moves": scores(2, 5, 5)}),
    *(
        case("SwapBestPath", {"scores": x, "path": generator(4).integers(0, x.shape[1], len(x)).astype(np.int32)})
        for x in (scores(5, 7, 4), TIED, scores(6, 1, 1))
    ),
    net(
        [operator("ViterbiPath", ["scores", "moves"], ["path"]), operator("SwapBestPath", ["scores", "path"], ["Y"])],
        {"scores": scores(9, 8, 5), "moves": scores(10, 5, 5)},
    ),
]
