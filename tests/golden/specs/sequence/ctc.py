"""CTC decoders: repeats and blanks, sequences of several lengths, ties, beams wider than there are prefixes."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator


def steps(seed: int, time: int, batch: int, labels: int, sharp: float = 1.0) -> Array:
    x = np.exp(sharp * generator(seed).standard_normal((time, batch, labels)))
    return (x / x.sum(-1, keepdims=True)).astype(np.float32)


def beam(inputs: Array, lengths: list[int] | None = None, **args: float) -> Spec:
    operands = {"inputs": inputs}
    if lengths is not None:
        operands["lengths"] = np.array(lengths, np.int32)
    return case("CTCBeamSearchDecoder", operands, outputs=["output_len", "values", "prob"], args=args)


def greedy(inputs: Array, lengths: list[int] | None = None, **args: int) -> Spec:
    operands = {"inputs": inputs}
    if lengths is not None:
        operands["lengths"] = np.array(lengths, np.int32)
    return case("CTCGreedyDecoder", operands, outputs=["output_len", "values"], args=args)


# Few values: many sums are equal, and their order is that of the prefixes.
TIED = (generator(9).integers(1, 4, (6, 3, 4)) / 8).astype(np.float32)
EVEN = np.full((4, 1, 3), 0.25, np.float32)
SPARSE = np.where(steps(4, 7, 2, 6) > 0.2, steps(4, 7, 2, 6), 0).astype(np.float32)

CASES = [
    *(
        greedy(steps(1, 12, 4, 3), lengths, merge_repeated=merge)
        for lengths in (None, [12, 0, 5, 1])
        for merge in (0, 1)
    ),
    greedy(TIED),
    greedy(steps(1, 3, 1, 1)),
    greedy(steps(1, 0, 2, 3)),
    greedy(steps(1, 3, 0, 3)),
    *(
        beam(steps(n, 9, 3, 5), lengths, beam_width=w, num_candidates=min(w, 3))
        for n, w in enumerate((1, 2, 5, 30))
        for lengths in (None, [9, 4, 1])
    ),
    *(beam(TIED, beam_width=w, num_candidates=w) for w in (2, 4)),
    beam(EVEN, beam_width=3, num_candidates=3),
    beam(SPARSE, beam_width=4, num_candidates=2),
    beam(SPARSE * 1e-4, beam_width=4, num_candidates=2),
    beam(steps(6, 30, 2, 4, 3.0), beam_width=6, num_candidates=4),
    beam(steps(6, 12, 2, 4, 3.0), prune_threshold=0.2, num_candidates=2),
    beam(steps(6, 12, 2, 4, 3.0), prune_threshold=2.0, num_candidates=2),
    beam(steps(2, 1, 1, 2), beam_width=5, num_candidates=2),
    beam(steps(2, 5, 1, 1), beam_width=5, num_candidates=1),
    beam(steps(2, 3, 2, 3), beam_width=2, num_candidates=4),
    beam(steps(2, 3, 3, 3), [3, 0, 1], num_candidates=6),
    beam(steps(2, 0, 2, 3), num_candidates=2),
    beam(steps(2, 3, 0, 3), num_candidates=2),
    *(beam(np.round(steps(n, 8, 2, 3), 1), beam_width=4, num_candidates=4) for n in range(20, 30)),
    *(beam(np.round(steps(n, 10, 2, 4) * 4) / 4, beam_width=6, num_candidates=6) for n in range(20, 30)),
]
