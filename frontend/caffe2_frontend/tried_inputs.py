"""Descriptions of inputs with which a net converts: hints are tried before they are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import all_operators, inner_operators
from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_frontend.emit.int8_values import GIVE_INIT_NET, unknown_scale_reason
from caffe2_frontend.interop.input_hint import inputs_hint
from caffe2_frontend.interop.types import BOOL, FLOAT, INT32, INT64, UINT8, TensorInfo
from caffe2_frontend.lowering.op import Op
from caffe2_frontend.passes.describe_inputs import unknown_rank_hint, unknown_rank_reason
from caffe2_frontend.state import Export

# The ranks and element types that are tried, the most frequent first.
_RANKS: Final = (2, 4, 3, 1, 5, 0)
_SIZES: Final = (2, 8, 32, 1)
_DTYPES: Final = (FLOAT, INT64, INT32, BOOL, UINT8, ir.DataType.STRING)
_LARGEST: Final = 2000  # operators, those of bodies included: a net that has more is not analyzed several times
_EFFORT: Final = 10_000  # operators of all trials together
_TRIALS: Final = 60
_ROUNDS: Final = 5  # analyses of one trial, each with the scales that the one before asked for
_FEW: Final = 4  # inputs that are varied where no operator with an error reads one itself
# Errors that another description of the inputs may mend.
_MENDABLE: Final = frozenset(
    {"dtype", "invalid-argument", "invalid-operands", "needs-quantization", "needs-shape", "unsupported"}
)

Infos = Mapping[str, TensorInfo]
Analyze = Callable[[Infos], Export]


def with_tried_inputs(export: Export, analyze: Analyze) -> Export:
    """Return an analyzed export whose hints for inputs of unknown rank or scale describe them so that it converts.

    All open inputs get the rank with which the most operators convert; then single ones get other ranks and types, as
    long as that helps. Scales that the operators ask for meanwhile are in the hints, too. A large net keeps its hints.

    Args:
        export: the analyzed export.
        analyze: analyzes the net again, with descriptions of inputs added.
    """
    ranks = {unknown_rank_reason(name): name for name in export.inputs}
    asked = {f: ranks[f.reason] for f in export.findings if f.code == "needs-shape" and f.reason in ranks}
    scales = {unknown_scale_reason(name): name for name in export.wanted_scales if name in export.inputs}
    asked |= {
        f: scales[f.reason]
        for f in export.findings
        if f.code == "needs-quantization" and f.reason in scales and not f.hint.startswith(GIVE_INIT_NET)
    }
    # Where the caller describes all inputs, as the runtime does, nothing is tried for sizes.
    sized = not export.inputs.keys() <= export.options.described.keys() and _lacks_sizes(export)
    size = sum(1 for _ in islice(all_operators(export.net), _LARGEST + 1))
    if not (asked or sized) or size > _LARGEST:
        return export
    trials = _Trials(export, analyze, min(_TRIALS, _EFFORT // max(size, 1)))
    trials.run([name for name in asked.values() if export.inputs[name].shape is None])
    return replace(export, findings=tuple(_hinted(export.findings, asked, trials)))


class _Trials:
    """Analyses of a net with one description of its open inputs each; keeps the best."""

    def __init__(self, export: Export, analyze: Analyze, count: int) -> None:
        self.described: Infos = {}
        self.best = export
        self._score: tuple[int, int] | None = None
        self._start = export
        self._analyze = analyze
        self._left = count

    def run(self, names: list[str]) -> None:
        """Try descriptions of the inputs ``names``, whose ranks are unknown, until no error is left."""
        for rank in _RANKS if names else ():
            self._try({name: replace(self._start.inputs[name], shape=(None,) * rank) for name in names})
            if not self._failed():
                return
        if not names:
            self._try({})
        self._try_sizes()
        while any(self._try({**self.described, **moved}) for moved in list(self._moves(names))):
            pass

    def _try_sizes(self) -> None:
        """Give unknown dims sizes where an operator needs to know them."""
        for size in _SIZES:
            if _lacks_sizes(self.best):
                self._try(
                    {
                        name: replace(info, shape=tuple(dim if isinstance(dim, int) else size for dim in info.shape))
                        for name, info in self.best.inputs.items()
                        if info.shape is not None and not all(isinstance(dim, int) for dim in info.shape)
                    }
                )

    def _moves(self, names: list[str]) -> Iterator[Infos]:
        """Yield other types of all inputs that operators with errors read, then ranks and types of single ones."""
        failed = self._failed() if self.described else set()
        readers = [reader for i, op in self.best.numbered() if i in failed for reader in (op, *inner_operators(op))]
        read = {name for op in readers for name in op.inputs}
        suspects = [name for name in names if name in read] or (names if failed and len(names) <= _FEW else [])
        typed = [name for name in suspects if name in self._start.inferred_types]
        for dtype in _DTYPES:
            yield {name: replace(self.described[name], dtype=dtype) for name in typed}
        for name in suspects:
            info = self.described[name]
            yield from ({name: replace(info, shape=(None,) * rank)} for rank in _RANKS)
            yield from ({name: replace(info, dtype=dtype)} for dtype in _DTYPES if name in typed)

    def _failed(self) -> set[int | None]:
        """Return the indices of the operators with errors that another description may mend."""
        return {f.location.outermost.index for f in _errors(self.best) if f.code in _MENDABLE}

    def _try(self, described: Infos) -> bool:
        """Analyze the net; keep the result and return True if it is better than the best before."""
        tried: Export | None = None
        wanted: Infos = {}
        for _ in range(min(self._left, _ROUNDS)):
            self._left -= 1
            described = {**described, **wanted}
            tried = self._analyze(described)
            scales = {name: scale for name, scale in tried.wanted_scales.items() if name in tried.inputs}
            wanted = {name: replace(tried.inputs[name], quantization=scale) for name, scale in scales.items()}
            if not wanted:
                break
        score = None if tried is None else _score(tried)
        if tried is None or score is None or (self._score is not None and score >= self._score):
            return False
        self.best, self.described, self._score = tried, described, score
        return True


def _score(export: Export) -> tuple[int, int]:
    """Return a score, the less the better: operators that were not converted, and errors."""
    return -sum(export.covered.values()), sum(1 for _ in _errors(export))


def _lacks_sizes(export: Export) -> bool:
    return any(finding.hint == Op.shape_hint for finding in _errors(export))


def _errors(export: Export) -> Iterator[Diagnostic]:
    return (finding for finding in export.findings if finding.severity is Severity.ERROR)


def _hinted(findings: Iterable[Diagnostic], asked: Mapping[Diagnostic, str], trials: _Trials) -> Iterator[Diagnostic]:
    """Yield the diagnostics; the first that asks for an input has what was found of those no other asks for, too."""
    others = [name for name in trials.described if name not in asked.values()]
    scales = trials.best.wanted_scales
    known = {n: i.merged(TensorInfo(quantization=scales.get(n))) for n, i in trials.best.inputs.items()}
    taken: set[str] = set()
    for finding in findings:
        names = [asked[finding]] if finding in asked else []
        if not (names or (others and finding.hint == Op.shape_hint)):
            yield finding
            continue
        names, others = [*names, *others], []
        found = inputs_hint({name: known[name] for name in names}, taken)
        if finding.hint == Op.shape_hint:
            hint = f"{Op.shape_hint}, such as {found}"
        else:
            before = finding.hint.partition("describe it")[0]
            hint = unknown_rank_hint(found) if finding.code == "needs-shape" else f"{before}describe it: {found}"
        yield replace(finding, hint=hint)
