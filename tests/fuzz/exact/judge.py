"""Run a case in real Caffe2 and through the conversion, and compare."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx
from conformance.check import NEEDS_SHAPE
from conformance.compare import mismatches
from conformance.corpus import Array
from conformance.executors import UNOPTIMIZED, OnnxRuntime
from conformance.oracle import OracleDiedError, OracleResult, OracleRun, OracleServer

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import count_violation, operator_schema
from caffe2_frontend import to_onnx
from fuzz.exact.deviations import deviation
from fuzz.exact.drawing.domain import outside
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.structure import UNARY
from fuzz.exact.roundings import NUDGES, RUN_SECONDS, Spread, nudged, nudged_scales, rounded_runs
from fuzz.exact.verdict import FAULTS, Outcome, Verdict

_SCHEMA: Final = "did not pass schema checking"
_INTERNAL: Final = "internal-error"
# How often a case runs again: small masks of random elements are often the same.
_WITNESSES: Final = 4


@dataclass(frozen=True)
class Loaded:
    """A converted case that onnxruntime has loaded, for other cases of the same net, ranks and element types.

    ``shapes`` are those of the inputs where the conversion needed them, and else None.
    """

    runnable: OnnxRuntime
    model: onnx.ModelProto
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] | None

    def serves(self, drawn: Drawn) -> bool:
        """Whether another case of the net would be converted to the same model, if it has the same outputs."""
        return self.shapes is None or self.shapes == {name: array.shape for name, array in drawn.inputs.items()}


class Judge:
    """Judges cases inside of the domain with real Caffe2, and that others return or raise.

    ``witness`` is a second process of real Caffe2, in which unwritten memory holds other bytes.
    """

    def __init__(self, oracle: OracleServer, witness: OracleServer) -> None:
        self._oracle, self._witness = oracle, witness

    def __call__(self, drawn: Drawn) -> Verdict:
        """Judge a case. What goes wrong in the conversion is the verdict, not an exception."""
        drawn = drawn.declared()
        if reason := outside(drawn):
            return returns(drawn, reason)
        return self.first(drawn, self._oracle.run_all([run_of(drawn)])[0])[0]

    def first(self, drawn: Drawn, real: OracleResult | OracleDiedError) -> tuple[Verdict, Loaded | None]:
        """Judge a case that has run in real Caffe2; with the model, where onnxruntime loads one."""
        if isinstance(real, OracleDiedError):
            verdict = returns(drawn, str(real))
            return (verdict if verdict.outcome in FAULTS else replace(verdict, outcome=Outcome.DIED)), None
        loaded = self._load(drawn, real)
        return (loaded, None) if isinstance(loaded, Verdict) else (self._compare(drawn, real, loaded), loaded)

    def another(self, drawn: Drawn, real: OracleResult | OracleDiedError, loaded: Loaded) -> Verdict:
        """Judge a case of the same net as ``loaded``, converted by itself unless it ends as most do."""
        same = isinstance(real, OracleResult) and (bool(real.error) or tuple(real.outputs) == loaded.outputs)
        if isinstance(real, OracleResult) and same and loaded.serves(drawn):
            try:
                values = loaded.runnable.run(_fed(drawn))
            except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises
                if real.error and not isinstance(error, TimeoutError):
                    return Verdict(Outcome.BOTH_REFUSE, first_line(error), drawn)
            else:
                if real.error:
                    return self._computed(drawn, real)
                if not mismatches(real.outputs, dict(zip(loaded.outputs, values, strict=True))):
                    return self._compare_plain(drawn, real, loaded)
        return self(drawn)

    def _load(self, drawn: Drawn, real: OracleResult) -> Verdict | Loaded:
        outputs = drawn.outputs if real.error else tuple(real.outputs)
        try:
            model, with_sizes = export(drawn, outputs)
        except BridgeError as error:
            if is_fault(error):
                return Verdict(Outcome.CRASHED, reasons(error), drawn)
            return Verdict(Outcome.BOTH_REFUSE if real.error else Outcome.REFUSED, reasons(error), drawn)
        except Exception:  # noqa: BLE001 - an exception that escapes is one of the verdicts
            return Verdict(Outcome.CRASHED, escaped(), drawn)
        if not outputs:  # none is a tensor
            return Verdict(Outcome.BOTH_REFUSE if real.error else Outcome.EQUAL, "", drawn)
        try:
            runnable = OnnxRuntime(model, RUN_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises
            detail = f"the model does not load: {first_line(error)}"
            return (
                Verdict(Outcome.BOTH_REFUSE, detail, drawn)
                if real.error
                else self._fault(Outcome.CRASHED, drawn, detail)
            )
        shapes = {name: array.shape for name, array in drawn.inputs.items()} if with_sizes else None
        return Loaded(runnable, model, outputs, shapes)

    def _compare(self, drawn: Drawn, real: OracleResult, loaded: Loaded) -> Verdict:
        try:
            values = loaded.runnable.run(_fed(drawn))
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises
            if real.error:
                if isinstance(error, TimeoutError):
                    return self._computed(drawn, real)
                return Verdict(Outcome.BOTH_REFUSE, first_line(error), drawn)
            return self._fault(Outcome.FAILS, drawn, first_line(error))
        if real.error:
            return self._computed(drawn, real)
        computed = dict(zip(loaded.outputs, values, strict=True))
        wrong = mismatches(real.outputs, computed)
        return (
            self._differs(drawn, real, loaded, computed, wrong) if wrong else self._compare_plain(drawn, real, loaded)
        )

    def _compare_plain(self, drawn: Drawn, real: OracleResult, loaded: Loaded) -> Verdict:
        """Judge a case of which onnxruntime, with optimizations, computes what real Caffe2 does."""
        try:
            values = loaded.runnable.plain.run(_fed(drawn))
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises
            return self._fault(Outcome.FAILS, drawn, f"{UNOPTIMIZED}: {first_line(error)}")
        computed = dict(zip(loaded.outputs, values, strict=True))
        wrong = [f"{UNOPTIMIZED}: {text}" for text in mismatches(real.outputs, computed)]
        return self._differs(drawn, real, loaded, computed, wrong) if wrong else Verdict(Outcome.EQUAL, "", drawn)

    def _differs(
        self, drawn: Drawn, real: OracleResult, loaded: Loaded, computed: Mapping[str, Array], wrong: list[str]
    ) -> Verdict:
        """Tell apart what is wrong from what real Caffe2 does not determine."""
        verdict = self._fault(Outcome.DIFFERENT, drawn, "\n".join(wrong))
        if verdict.outcome is not Outcome.DIFFERENT:
            return verdict
        if reason := self._deviation(drawn, real.outputs, computed):
            return replace(verdict, outcome=Outcome.DEVIATES, detail=reason)
        # The inputs of a recurrent net do not tell what roundings of its steps change.
        steps = any(op.type.startswith("RecurrentNetwork") for op in all_operators(NetView(drawn.net)))
        roundings = rounded_runs(loaded.model, loaded.outputs, _fed(drawn)) if steps else ()
        settled = self._settled(drawn, real, computed, roundings)
        if not mismatches(real.outputs, settled):
            return replace(verdict, outcome=Outcome.ILL_CONDITIONED)
        if reason := deviation(drawn, real.outputs, settled):
            return replace(verdict, outcome=Outcome.DEVIATES, detail=reason)
        return verdict

    def _fault(self, outcome: Outcome, drawn: Drawn, detail: str) -> Verdict:
        """The verdict on a case that ends otherwise than in real Caffe2, unless this does not determine how.

        An operator whose operands others compute may be outside of its domain.
        """
        verdict, blobs = self._undetermined(drawn)
        if verdict is not None:
            return verdict
        if reason := outside(drawn, blobs):
            return Verdict(Outcome.OUTSIDE, reason, drawn)
        return Verdict(outcome, detail, drawn)

    def _computed(self, drawn: Drawn, real: OracleResult) -> Verdict:
        """The verdict on a case that real Caffe2 refuses; the export drops operators that the outputs do not need."""
        outcome = Outcome.COMPUTED
        if _SCHEMA in real.error and not _is_of_an_earlier_version(drawn):
            needed = drawn.needed()
            again = self._oracle.run_all([run_of(needed)])[0]
            if needed is drawn or (isinstance(again, OracleResult) and _SCHEMA in again.error):
                outcome = Outcome.COMPUTED_SCHEMA
        return Verdict(outcome, first_line(real.error), drawn)

    def _undetermined(self, drawn: Drawn) -> tuple[Verdict | None, Mapping[str, Array]]:
        """The verdict that real Caffe2's results depend on memory that it did not write, or on chance, if they do.

        What is read of other operators is compared, too, and returned: of any large number a Softsign is 1.
        """
        run = run_of(drawn)
        ops = drawn.net.op
        between = sorted({name for op in ops for name in op.output} & {name for op in ops for name in op.input})
        blobs: Mapping[str, Array] = {}
        try:
            # Again, because an earlier case of the same request may have written out of bounds.
            real = self._oracle.run(run)
            other = real if real.error else unlike_run(self._witness, run, real)
            if other is None and between:
                run = replace(run, outputs=between)
                real = self._oracle.run(run)
                other, blobs = (None, {}) if real.error else (unlike_run(self._witness, run, real), real.outputs)
        except OracleDiedError as error:
            return Verdict(Outcome.DIED, str(error), drawn), blobs
        return None if other is None else Verdict(Outcome.UNDEFINED, other.error, drawn), blobs

    def _settled(
        self, drawn: Drawn, real: OracleResult, computed: Mapping[str, Array], roundings: Iterable[Mapping[str, Array]]
    ) -> Mapping[str, Array]:
        """What is computed, with elements that differ no further than a rounding moves them as expected.

        It is a rounding of the inputs of real Caffe2, or one of those inside of the model (``roundings``).
        """
        random = np.random.default_rng(0)
        spread = Spread(real.outputs)
        for rounded in roundings:
            spread.add(computed, rounded)
        begun = self._begun(drawn)
        makers = {op.output[0]: op.type for op in drawn.net.op if op not in begun.net.op}
        runs = [
            run_of(
                replace(case, quantized=nudged_scales(case.quantized, random)),
                {name: nudged(array, random, of.get(name, "")) for name, array in case.inputs.items()},
            )
            for case, of in ((drawn, {}), (begun, makers))
            for _ in range(NUDGES)
        ]
        for moved in self._oracle.run_all(runs):
            if isinstance(moved, OracleDiedError) or moved.error:
                return computed
            if any(array.shape != real.outputs[name].shape for name, array in moved.outputs.items()):
                return real.outputs  # how many elements there are depends on rounding
            spread.add(real.outputs, moved.outputs)
        return spread.settled(computed)

    def _deviation(self, drawn: Drawn, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> str:
        """Why a case may differ by its inputs, or by what its first operators make of them; empty if none applies."""
        return deviation(drawn, expected, actual) or deviation(self._begun(drawn), expected, actual)

    def _begun(self, drawn: Drawn) -> Drawn:
        """The case after its first elementwise operators: roundings of what these compute are others than of inputs."""
        known, first = set(drawn.inputs), []
        for op in drawn.net.op:
            if op.type in UNARY and op.input[0] in known:
                first.append(op)
                known.update(op.output)
        if not first:
            return drawn
        made = self._oracle.run(
            OracleRun(
                NetDef(op=first, external_input=list(drawn.inputs)),
                drawn.inputs,
                outputs=[op.output[0] for op in first],
            )
        )
        if made.error:
            return drawn
        net = drawn.copy_net()
        del net.op[:]
        net.op.extend(op for op in drawn.net.op if op not in first)
        return replace(drawn, net=net, inputs={**drawn.inputs, **made.outputs}).declared()


def export(drawn: Drawn, outputs: tuple[str, ...]) -> tuple[onnx.ModelProto, bool]:
    """The case as ONNX, with ranks alone if those suffice; and whether it needed sizes."""
    asked = list(outputs) or None
    try:
        return to_onnx(drawn.net, inputs=_declared(drawn, with_sizes=False), outputs=asked), False
    except ConversionError as error:
        if not any(finding.code == NEEDS_SHAPE for finding in error.findings):
            raise
    return to_onnx(drawn.net, inputs=_declared(drawn, with_sizes=True), outputs=asked), True


def _declared(drawn: Drawn, *, with_sizes: bool) -> dict[str, tuple[Any, ...]]:
    declared: dict[str, tuple[Any, ...]] = {}
    for name, array in drawn.inputs.items():
        dtype = np.dtype(np.str_) if array.dtype == object else array.dtype
        shape = list(array.shape) if with_sizes else [None] * array.ndim
        declared[name] = (dtype, shape, drawn.quantized[name]) if name in drawn.quantized else (dtype, shape)
    return declared


def run_of(drawn: Drawn, inputs: Mapping[str, Array] | None = None) -> OracleRun:
    """The run of a case in real Caffe2, of other inputs if there are any."""
    return OracleRun(
        drawn.net,
        drawn.inputs if inputs is None else inputs,
        outputs=list(drawn.outputs),
        quantized=dict(drawn.quantized),
    )


def _fed(drawn: Drawn) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in drawn.inputs.items()}


def unlike_run(witness: OracleServer, run: OracleRun, real: OracleResult) -> OracleResult | None:
    """A run of the witness that differs by any bit from what real Caffe2 gave, among a few.

    Raises OracleDiedError where the witness dies.
    """
    for other in witness.run_all([run] * _WITNESSES):
        if isinstance(other, OracleDiedError):
            raise other
        other_names = list(other.outputs) != list(real.outputs)
        if other.error or other_names or mismatches(real.outputs, other.outputs, rtol=0, atol=0):
            return other
    return None


def returns(drawn: Drawn, reason: str, loaded: Loaded | None = None) -> Verdict:
    """Judge a case with nothing to compare it with, for ``reason``: it returns or raises, as the project may."""
    try:
        converted = loaded if loaded and loaded.serves(drawn) else export(drawn, drawn.outputs)[0]
    except BridgeError as error:
        return Verdict(*((Outcome.CRASHED, reasons(error)) if is_fault(error) else (Outcome.OUTSIDE, reason)), drawn)
    except Exception:  # noqa: BLE001 - an exception that escapes is one of the verdicts
        return Verdict(Outcome.CRASHED, escaped(), drawn)
    with suppress(Exception):  # one of onnxruntime's: that it ends the process would end this one
        runnable = converted.runnable if isinstance(converted, Loaded) else OnnxRuntime(converted, RUN_SECONDS)
        runnable.run(_fed(drawn))
    return Verdict(Outcome.OUTSIDE, reason, drawn)


def _is_of_an_earlier_version(drawn: Drawn) -> bool:
    """Whether the conversion takes numbers of operands that only earlier versions of Caffe2 took."""
    for view in all_operators(NetView(drawn.net)):
        schema, counts = operator_schema(view.type), (len(view.inputs), len(view.outputs))
        if schema and not schema.accepts_counts(*counts) and count_violation(schema, view.type, *counts) is None:
            return True
    return False


def is_fault(error: BridgeError) -> bool:
    """Whether a conversion reports an exception that it did not expect."""
    return isinstance(error, ConversionError) and any(finding.code == _INTERNAL for finding in error.errors)


def reasons(error: BridgeError) -> str:
    """Why a conversion refuses."""
    if isinstance(error, ConversionError) and error.errors:
        return "; ".join(f"{finding.reason} [{finding.code}]" for finding in error.errors[:2])
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: object) -> str:
    """The first line of what an exception says."""
    return (str(error).splitlines() or [""])[0][:300]


def escaped() -> str:
    """The exception that is being handled, and where it was raised, the innermost call first."""
    return "\n".join(traceback.format_exc().strip().splitlines()[:0:-1][:8])
