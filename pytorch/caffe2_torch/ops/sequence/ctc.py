"""Decoders of label sequences: greedy CTC, and linear-chain CRF (Viterbi)."""

from __future__ import annotations

from collections import defaultdict

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("ctc")


@family.converts("CTCGreedyDecoder")
def ctc_greedy_decoder(op: Op) -> tuple[Value, Value]:
    """Keep a label unless it is the blank (0) or, with merge_repeated, equal to that of the step before."""
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


@family.converts("CTCBeamSearchDecoder")
def ctc_beam_search_decoder(op: Op) -> tuple[Value, Value, Value]:
    """Return the most probable label sequences of each example, best first."""
    width, count = op.args.integer("beam_width", default=10), op.args.integer("num_candidates", default=1)
    threshold = op.args.number("prune_threshold", default=0.001)
    x = op.tensor(0)
    if width <= 0 or count <= 0 or x.dim() != 3:
        op.refuse("beam_width and num_candidates must be positive, and INPUTS [T, N, C]")
    lengths = op.tensor(1).tolist() if op.has(1) else [x.shape[0]] * x.shape[1]
    found = []
    for example, length in enumerate(lengths):
        best = _beam_search(x[:length, example].tolist(), width, threshold)[:count]
        found += best + [((), 0.0)] * (count - len(best))
    sizes = torch.tensor([len(labels) for labels, _ in found], dtype=torch.int32)
    values = torch.tensor([label for labels, _ in found for label in labels], dtype=torch.int32)
    return sizes, values, torch.tensor([probability for _, probability in found], dtype=torch.float32)


def _beam_search(steps: list[list[float]], width: int, threshold: float) -> list[tuple[tuple[int, ...], float]]:
    """Return sequences with their probabilities; those that end in a blank and those that do not are added up apart."""
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    before: dict[tuple[int, ...], tuple[float, float]] = dict(kept)
    for step in steps:
        blank: dict[tuple[int, ...], float] = defaultdict(float)
        other: dict[tuple[int, ...], float] = defaultdict(float)
        likely = [(label, p) for label, p in enumerate(step) if p > threshold] or list(enumerate(step))
        for labels, (ends_blank, ends_other) in kept.items():
            for label, p in likely:
                if label == 0:
                    blank[labels] += p * (ends_blank + ends_other)
                    continue
                longer = (*labels, label)
                if labels and labels[-1] == label:
                    other[longer] += p * ends_blank
                    other[labels] += p * ends_other
                else:
                    other[longer] += p * (ends_blank + ends_other)
                if longer not in kept and longer in before:
                    blank[longer] += step[0] * sum(before[longer])
                    other[longer] += p * before[longer][1]
        before = {labels: (blank[labels], other[labels]) for labels in {**blank, **other}}
        ranked = _ranked(before)
        kept = {labels: before[labels] for labels, _ in ranked[:width]}
    return _ranked(before) if steps else []


def _ranked(prefixes: dict[tuple[int, ...], tuple[float, float]]) -> list[tuple[tuple[int, ...], float]]:
    """Return sequences by descending probability, equal ones by their labels."""
    return sorted(((labels, sum(both)) for labels, both in prefixes.items()), key=lambda item: (-item[1], item[0]))


def _first_largest(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of columns, and the first row of each."""
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
