"""What implementations of ONNX make of a model: onnxruntime first, others where a result differs from its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from caffe2_backend import SessionOptions
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import BridgeError
from onnx_models.inputs import Feed, NoInputsError, feeds

Results = Sequence[Any]
_RUNS: Final = 8


class Witnesses:
    """What is expected of a model, on inputs at which onnxruntime runs it. Raises BridgeError or NoInputsError.

    onnxruntime's optimizer fuses float16 and quantized operators to others, which round otherwise, and a few of its
    kernels compute otherwise than ONNX says. So a result is right as well that is onnxruntime's without
    optimizations, or that of ONNX's own reference implementation.
    """

    def __init__(self, path: Path, model: onnx.ModelProto) -> None:
        self._path = path
        self._model = model
        session = OnnxSession(str(path), threads=1)
        self.feed, self._first = _first_run(session, model)

    def __iter__(self) -> Iterator[Results]:
        """Yield the results of one implementation after the other; the others run when they are asked for."""
        yield self._first
        yield from self._others

    @cached_property
    def is_random(self) -> bool:
        """Whether onnxruntime gives other numbers in another run; a few bits may be drawn alike in some."""
        first, *others = (self._plain.run_values(self.feed) for _ in range(_RUNS))
        return not all(_same(first, other) for other in others)

    @cached_property
    def _others(self) -> list[Results]:
        made = []
        for run in (self._unoptimized, self._reference):
            try:
                made.append(run())
            except Exception:  # noqa: BLE001, S112 - what an implementation lacks, it does not say
                continue
        return made

    @cached_property
    def _plain(self) -> OnnxSession:
        return OnnxSession(str(self._path), options=SessionOptions(threads=1, optimization="none"))

    def _unoptimized(self) -> Results:
        return self._plain.run_values(self.feed)

    def _reference(self) -> Results:
        from onnx.reference import ReferenceEvaluator

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(ReferenceEvaluator(self._model).run(None, dict(self.feed)))


def _first_run(session: OnnxSession, model: onnx.ModelProto) -> tuple[Feed, Results]:
    failure: Exception = NoInputsError("no inputs")
    for feed in feeds(model):
        try:
            return feed, session.run_values(feed)
        except BridgeError as error:
            failure = error
    raise failure


def _same(results: Results, again: Results) -> bool:
    """Whether two runs gave the same numbers."""
    for one, other in zip(results, again, strict=True):
        if isinstance(one, Mapping | list) or one is None:
            continue
        if not np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind in "fc"):
            return False
    return True
