"""Decoders of label sequences: greedy CTC, and linear-chain CRF (Viterbi)."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("ctc")


@family.converts("CTCGreedyDecoder")
def ctc_greedy_decoder(op: Op) -> tuple[Value, Value]:
    """A label is kept unless it is the blank (0) or, with merge_repeated, equal to that of the step before."""
    merge, x = op.args.flag("merge_repeated", default=True), op.tensor(0)
    if x.dim() != 3 or x.shape[2] == 0:
        op.refuse("INPUTS must be [T, N, C], with classes")
    labels = torch.sort(x, dim=2, descending=True, stable=True)[1][:, :, 0].t()
    steps = torch.arange(x.shape[0])
    kept = (labels != 0) & (
        steps < op.tensor(1).unsqueeze(1) if op.has(1) else torch.ones_like(labels, dtype=torch.bool)
    )
    if merge:
        before = torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], dim=1)[:, : labels.shape[1]]
        kept = kept & (labels != before)
    return kept.sum(1).to(torch.int32), labels[kept].to(torch.int32)


def _first_largest(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The maxima of columns, and the first row of each."""
    values, rows = torch.sort(x, dim=0, descending=True, stable=True)
    return values[0], rows[0]


@family.converts("ViterbiPath")
def viterbi_path(op: Op) -> Value:
    scores, transitions = op.tensors
    if scores.shape[0] == 0:
        op.refuse("there must be positions")
    best, sources = scores[0], []
    for row in scores[1:]:
        reached, source = _first_largest(best.unsqueeze(1) + transitions)
        best = row + reached
        sources.append(source)
    path = [int(_first_largest(best.unsqueeze(1))[1][0])]
    for source in reversed(sources):
        path.append(int(source[path[-1]]))
    return torch.tensor(path[::-1], dtype=torch.int32)


@family.converts("SwapBestPath")
def swap_best_path(op: Op) -> Value:
    """Exchange each row's maximum and the path's score."""
    scores, tag = op.tensor(0), op.tensor(1).to(torch.int64).unsqueeze(1)
    best = torch.sort(scores, dim=1, descending=True, stable=True)[1][:, :1]
    return scores.scatter(1, best, scores.gather(1, tag)).scatter(1, tag, scores.gather(1, best))
