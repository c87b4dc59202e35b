"""One case, start to end: convert with ranks only, run, compare; with sizes where the conversion asks for them."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import onnx

from caffe2_bridge.diagnostics import BridgeError, ConversionError, RunError
from conformance.compare import mismatches
from conformance.corpus import Array, Case, CaseRef, read_case
from conformance.deviations import DEVIATIONS
from conformance.executors import EXECUTORS, NET_EXECUTORS, UNOPTIMIZED, OnnxRuntime, Runnable
from conformance.outside import OUTSIDE
from conformance.stored import with_stored

RecurrentForm: TypeAlias = Literal["auto", "fused", "scan", "loop", "portable", "gpu", "unrolled"]

NEEDS_SHAPE: Final = "needs-shape"
# Errors of an export without sizes that sizes may mend.
_NEEDS_SIZES: Final = frozenset({NEEDS_SHAPE, "target-lacks"})
_TRACEBACK_LINES: Final = 12


class Status(StrEnum):
    """How a case ended.

    One that deviates differs in what ``deviations`` says, and in nothing else; one that is ``outside`` of an operator's
    domain, as the table of that name says, may be refused, fail to run or compute anything.
    """

    PASSED = "passed"
    PASSED_WITH_SIZES = "passed with sizes"
    DEVIATES = "deviates"
    OUTSIDE = "outside"
    WRONG = "wrong"
    REFUSED = "refused"
    CRASHED = "crashed"

    @property
    def passes(self) -> bool:
        """Whether the case computed what real Caffe2 computed."""
        return self in {Status.PASSED, Status.PASSED_WITH_SIZES}


@dataclass(frozen=True, slots=True)
class Task:
    """A case and how it is to be checked.

    Attributes:
        ref: the case.
        executor: the name of what runs it.
        recurrent: the form of recurrent nets in the conversion.
        opset: that of the conversion, None for its default.
        stored: the inputs that are stored in the init net, and so known to the conversion.
        with_sizes: whether the conversion is told the sizes of inputs at once, not only where it asks for them.
    """

    ref: CaseRef
    executor: str = "onnxruntime"
    recurrent: RecurrentForm = "auto"
    opset: int | None = None
    stored: tuple[str, ...] = ()
    with_sizes: bool = False

    @property
    def target(self) -> str:
        """The runtime that the conversion is for: with a form of recurrent nets that the task chooses, onnxruntime."""
        has_table = self.executor in ("opencv", "openvino", "tract") and self.recurrent == "auto"
        return self.executor if has_table else "onnxruntime"

    @property
    def id(self) -> str:
        """The case's id, with what is not the default."""
        form = f"[{self.recurrent}]" if self.recurrent != "auto" else ""
        return self.ref.id + form + (f"[stored: {', '.join(self.stored)}]" if self.stored else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """What of a conversion's finding is reported."""

    code: str
    reason: str
    place: str


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended: ``detail`` says what was wrong or crashed, ``findings`` why it was refused."""

    task: Task
    status: Status
    detail: str = ""
    findings: tuple[Finding, ...] = ()


class Checker:
    """Checks cases one after another; keeps the last model's export, because a model has several cases."""

    def __init__(self) -> None:
        self._model_key: tuple[object, ...] = ()
        self._model: Runnable | None = None

    def check(self, task: Task) -> Result:
        """Check one case. Whatever goes wrong in conversion or execution is the result, not an exception."""
        case = with_stored(read_case(task.ref), task.stored)
        if task.recurrent == "portable" and _lacks_steps(case):
            return Result(task, Status.OUTSIDE, "the form portable is for sequences of at least one step")
        try:
            result = self._check(task, case)
        except Exception as error:  # noqa: BLE001 - a crash of the code under test is one of the results counted
            if task.ref.id in OUTSIDE and _is_announced(error):
                return Result(task, Status.OUTSIDE, OUTSIDE[task.ref.id])
            tail = traceback.format_exc().strip().splitlines()[-_TRACEBACK_LINES:]
            return Result(task, Status.CRASHED, "\n".join((_headline(error), *tail)))
        if task.ref.id in OUTSIDE and not result.status.passes:
            return Result(task, Status.OUTSIDE, OUTSIDE[task.ref.id])
        return result

    def _check(self, task: Task, case: Case) -> Result:
        passed = Status.PASSED
        if task.executor in NET_EXECUTORS:
            try:
                return _compared(task, case, NET_EXECUTORS[task.executor](case), passed)
            except ConversionError as error:
                return _refusal(task, error)
        try:
            model = self._load(task, case)
        except ConversionError as error:
            if task.with_sizes or not any(finding.code in _NEEDS_SIZES for finding in error.findings):
                return _refusal(task, error)
            try:
                model = _loaded(task, case, with_sizes=True)
            except ConversionError as again:
                return _refusal(task, again)
            passed = Status.PASSED_WITH_SIZES
        try:
            values = model.run(case.inputs)
        except RunError:
            if task.with_sizes or task.target == "onnxruntime" or passed is Status.PASSED_WITH_SIZES:
                raise
            model, passed = _loaded(task, case, with_sizes=True), Status.PASSED_WITH_SIZES
            values = model.run(case.inputs)
        result = _compared(task, case, values, passed)
        if result.status is not passed or not isinstance(model, OnnxRuntime):
            return result
        plain = _compared(task, case, model.plain.run(case.inputs), passed)
        return plain if plain.status is passed else replace(plain, detail=f"{UNOPTIMIZED}: {plain.detail}")

    def _load(self, task: Task, case: Case) -> Runnable:
        """Return the case's net, exported with ranks only unless the task says otherwise.

        One export with ranks serves all cases of a model: no size may be in it.
        """
        if task.with_sizes:
            return _loaded(task, case, with_sizes=True)
        key = (task.ref.path, task.executor, task.recurrent)
        if case.ref.kind == "model" and key == self._model_key and self._model is not None:
            return self._model
        model = _loaded(task, case, with_sizes=False)
        self._model_key, self._model = key, model
        return model


def _loaded(task: Task, case: Case, *, with_sizes: bool) -> Runnable:
    model = convert_case(case, task.recurrent, with_sizes=with_sizes, opset=task.opset, target=task.target)
    return EXECUTORS[task.executor](model)


def _lacks_steps(case: Case) -> bool:
    """Whether a recurrent net runs a sequence without steps."""
    names = [op.input[0] for op in case.net.op if op.type == "RecurrentNetwork"]
    return any(name in case.inputs and not len(case.inputs[name]) for name in names)


def _compared(task: Task, case: Case, values: list[Array], passed: Status) -> Result:
    if len(values) != len(case.outputs):
        return Result(task, Status.WRONG, f"{len(values)} outputs, expected {len(case.outputs)}")
    # By position: an output that is also an input has a fresh name in the ONNX graph.
    wrong = mismatches(case.outputs, dict(zip(case.outputs, values, strict=True)))
    if not wrong:
        return Result(task, passed)
    text = "\n".join(wrong)
    known, reason = DEVIATIONS.get(task.ref.id, ("", ""))
    return Result(task, Status.DEVIATES, reason) if text == known else Result(task, Status.WRONG, text)


def _refusal(task: Task, error: ConversionError) -> Result:
    findings = tuple(Finding(finding.code, finding.reason, str(finding.location)) for finding in error.errors)
    return Result(task, Status.REFUSED, findings[0].reason if findings else "refused without a finding", findings)


def _is_announced(error: Exception) -> bool:
    """Whether an error is one of the project or of onnxruntime, whose own are instances of no common class."""
    return isinstance(error, BridgeError) or type(error).__module__.startswith("onnxruntime.")


def _headline(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def convert_case(
    case: Case, recurrent: RecurrentForm, *, with_sizes: bool, opset: int | None = None, target: str = "onnxruntime"
) -> onnx.ModelProto:
    """Export a case's net, telling the conversion the ranks of the inputs that are not stored, or their sizes too."""
    from caffe2_frontend import to_onnx

    return to_onnx(
        case.net,
        case.init_net,
        inputs={name: declared(case, name, with_sizes=with_sizes) for name in case.fed},
        outputs=list(case.outputs),
        opset=opset,
        recurrent=recurrent,
        target=target,
    )


def declared(case: Case, name: str, *, with_sizes: bool) -> tuple[Any, ...]:
    """Return what the conversion is told of an input: (dtype, shape), and (scale, zero point) of an Int8 tensor."""
    array = case.inputs[name]
    dtype = np.dtype(np.str_) if array.dtype == object else array.dtype
    shape = list(array.shape) if with_sizes else [None] * array.ndim
    if name in case.quantized:
        return (dtype, shape, case.quantized[name])
    return (dtype, shape)
