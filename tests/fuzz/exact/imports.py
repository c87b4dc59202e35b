"""Mutated exports, imported: real Caffe2 against onnxruntime."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import onnx
from conformance.compare import mismatches
from conformance.corpus import Array
from conformance.executors import OnnxRuntime, Reference
from conformance.oracle import OracleDiedError, OracleRun, OracleServer

from caffe2_backend import to_netdef
from caffe2_backend.admission.scopes import scopes_of
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from fuzz.exact.deviations import deviation
from fuzz.exact.drawing.domain import outside
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.judge import escaped, export, first_line, is_fault, reasons, unlike_run
from fuzz.exact.mutations import mutate
from fuzz.exact.roundings import RUN_SECONDS, Spread, rounded_runs
from fuzz.exact.verdict import Outcome, Verdict

NO_PIXELS: Final = (
    "a window that is larger than the image in an imported model, of which ONNX makes no pixels, and onnxruntime, "
    "which rounds toward 0, may make one"
)
NOT_JOINED: Final = "a part without elements that does not fit the others, which onnxruntime's Concat leaves out"
NOT_DEFINED: Final = (
    "a model that onnxruntime runs, and ONNX's reference evaluator or onnxruntime without optimizations does not"
)
NOT_AS_DEFINED: Final = (
    "a model of which onnxruntime computes something else than ONNX's reference evaluator, and Caffe2 does not"
)
# What Caffe2 says of parts that do not fit, and of a window that is larger than the image.
_UNJOINED: Final = "The input tensors can only have different dimensions when"
_LARGE_WINDOW: Final = "in_size + *pad_head + *pad_tail >= dkernel"
_EMPTY: Final = re.compile(r"[\[ ]0[],]")  # a dim of 0 in a list of dims
STRICTER: Final = "a restored operator of an edited model, which compares sizes that its nodes do not"
ROUNDED_SUMS: Final = "sums of int64 beyond 53 bits, which onnxruntime rounds, and Caffe2 does not"


class ImportJudge:
    """Exports a case, mutates the model, and compares onnxruntime with real Caffe2 on what the import makes of it."""

    def __init__(self, oracle: OracleServer, witness: OracleServer, random: np.random.Generator) -> None:
        self._oracle, self._witness, self._random = oracle, witness, random

    def __call__(self, drawn: Drawn) -> Verdict | None:
        """Judge a case; None where the export or the mutated model does not run, or has Int8 operands or no order.

        Nor is there a verdict where what runs does not have the sizes that the model gives its outputs. Int8 tensors
        are plain bytes in a mutated model, and in real Caffe2 only those of restored operators are not.
        """
        if drawn.quantized:
            return None
        drawn = drawn.declared()
        try:
            model, _ = export(drawn, drawn.outputs)
            said = mutate(model, self._random)
            if any(_is_unsorted(node) or _ends_the_check(node) for node in model.graph.node):
                return None
            onnx.checker.check_model(model, full_check=True)
            names = [value.name for value in model.graph.output]
            expected = dict(zip(names, OnnxRuntime(model, RUN_SECONDS).run(drawn.inputs), strict=True))
            if not all(_fits(value, expected[value.name].shape) for value in model.graph.output):
                return None
        except Exception:  # noqa: BLE001 - nothing to compare with
            return None
        return self.compare(replace(drawn, trail=(*drawn.trail, *said)), model, expected)

    def compare(self, drawn: Drawn, model: onnx.ModelProto, expected: Mapping[str, Array]) -> Verdict:
        """Judge a model of which onnxruntime computes what is expected for the operands of a case."""
        try:
            found = to_netdef(model)
            _ = found.init_net  # refused where a net of fills cannot hold the weights
        except BridgeError as error:
            return Verdict(Outcome.CRASHED if is_fault(error) else Outcome.REFUSED, reasons(error), drawn)
        except Exception:  # noqa: BLE001 - an exception that escapes is one of the verdicts
            return Verdict(Outcome.CRASHED, escaped(), drawn)
        try:
            real = self._oracle.run(_run(found, drawn))
            if real.error:
                return self._fails(model, found, drawn, expected, real.error)
            actual = dict(zip(expected, real.outputs.values(), strict=True))
            verdict = _compared(drawn, _imported(found, drawn), expected, actual)
            if verdict.outcome is Outcome.DIFFERENT and unlike_run(self._witness, _run(found, drawn), real):
                return replace(verdict, outcome=Outcome.UNDEFINED)
        except OracleDiedError as error:
            return Verdict(Outcome.DIED, str(error), drawn)
        return _differs(model, drawn, verdict, expected, actual) if verdict.outcome is Outcome.DIFFERENT else verdict

    def _fails(
        self, model: onnx.ModelProto, found: Model, drawn: Drawn, expected: Mapping[str, Array], error: str
    ) -> Verdict:
        """The verdict on an imported model that real Caffe2 does not run."""
        imported = _imported(found, drawn)
        reason = NO_PIXELS if _LARGE_WINDOW in error else ""
        if _UNJOINED in error and (_has_no_elements(drawn, expected) or _EMPTY.search(error)):
            reason = NOT_JOINED
        reason = reason or outside(imported) or undefined(model, drawn, expected, {})
        reason = reason or (STRICTER if self._runs_unrestored(model, drawn, expected) else "")
        return Verdict(*((Outcome.DEVIATES, reason) if reason else (Outcome.FAILS, first_line(error))), drawn)

    def _runs_unrestored(self, model: onnx.ModelProto, drawn: Drawn, expected: Mapping[str, Array]) -> bool:
        """Whether the import computes what is expected if no operator is restored."""
        plain = onnx.ModelProto()
        plain.CopyFrom(model)
        for scope in scopes_of(plain):
            for node in scope.proto.node:
                del node.metadata_props[:]
        try:
            real = self._oracle.run(_run(to_netdef(plain), drawn))
        except (BridgeError, OracleDiedError):
            return False
        return not real.error and not mismatches(expected, dict(zip(expected, real.outputs.values(), strict=True)))


def _run(found: Model, drawn: Drawn) -> OracleRun:
    """What real Caffe2 runs of an imported model."""
    return OracleRun(found.predict_net, drawn.inputs, found.init_net, list(found.predict_net.external_output))


def _imported(found: Model, drawn: Drawn) -> Drawn:
    """The case of an imported model, whose mutations change what was recorded."""
    return replace(drawn, net=found.predict_net, recorded=None)


def _compared(drawn: Drawn, imported: Drawn, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> Verdict:
    """Compare results. What is restored may be outside of the domain where the original operator is not."""
    wrong = mismatches(expected, actual)
    if not wrong:
        return Verdict(Outcome.EQUAL, "", drawn)
    reason = outside(drawn) or outside(imported) or deviation(imported, expected, actual)
    if not reason and _differs_in_rounding(expected, actual):
        reason = ROUNDED_SUMS
    return Verdict(Outcome.DEVIATES if reason else Outcome.DIFFERENT, reason or "\n".join(wrong), drawn)


def _differs(
    model: onnx.ModelProto,
    drawn: Drawn,
    verdict: Verdict,
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> Verdict:
    """The verdict on other results of real Caffe2: they may be those that ONNX defines, or be roundings of it."""
    if reason := undefined(model, drawn, expected, actual):
        return Verdict(Outcome.DEVIATES, reason, drawn)
    spread = Spread(actual)
    for rounded in rounded_runs(model, list(expected), drawn.inputs):
        spread.add(expected, rounded)
    return (
        verdict if mismatches(actual, spread.settled(expected)) else replace(verdict, outcome=Outcome.ILL_CONDITIONED)
    )


def undefined(model: onnx.ModelProto, drawn: Drawn, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> str:
    """Why what onnxruntime computes of a model is not what ONNX defines; empty if it is, as far as can be told.

    ``actual`` is what real Caffe2 computes, if anything. The reference evaluator fails on loops without iterations, and
    numpy warns of what it casts to an integer that has no such value.
    """
    try:
        exact = OnnxRuntime(model, RUN_SECONDS, optimizes=False).run(drawn.inputs)
    except Exception:  # noqa: BLE001 - whatever onnxruntime raises
        return NOT_DEFINED
    if mismatches(expected, dict(zip(expected, exact, strict=True))):
        return NOT_DEFINED
    if any(attribute.type == attribute.GRAPH for node in model.graph.node for attribute in node.attribute):
        return ""
    try:
        with warnings.catch_warnings(action="error", category=RuntimeWarning):
            warnings.filterwarnings("ignore", message="(?!.*in cast)")
            defined = dict(zip(expected, Reference(model).run(drawn.inputs), strict=True))
    except (IndexError, ValueError, RuntimeWarning):
        return NOT_DEFINED
    except Exception:  # noqa: BLE001 - what it lacks
        return ""
    return NOT_AS_DEFINED if actual and not mismatches(defined, actual) else ""


def _is_unsorted(node: onnx.NodeProto) -> bool:
    return node.op_type == "TopK" and any(a.name == "sorted" and not a.i for a in node.attribute)


def _ends_the_check(node: onnx.NodeProto) -> bool:
    """Whether ONNX's own inference ends the process: a Split that has another number of outputs than it says."""
    said = [attribute.i for attribute in node.attribute if attribute.name == "num_outputs"]
    return node.op_type == "Split" and any(count != len(node.output) for count in said)


def _fits(declared: onnx.ValueInfoProto, shape: tuple[int, ...]) -> bool:
    """Whether dims that a model gives an output are those that it has."""
    dims = declared.type.tensor_type.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(dims, shape, strict=True)
    )


def _has_no_elements(drawn: Drawn, expected: Mapping[str, Array]) -> bool:
    return any(0 in array.shape for array in (*drawn.inputs.values(), *expected.values()))


def _differs_in_rounding(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> bool:
    """Whether results differ only in int64 beyond 53 bits, and by roundings to double."""
    for name, one in expected.items():
        other = actual[name]
        if not mismatches({name: one}, {name: other}):
            continue
        if one.dtype != np.int64 or one.dtype != other.dtype or one.shape != other.shape:
            return False
        apart, size = (np.abs(array.astype(np.float64)) for array in (one - other, one))
        if not ((one == other) | ((size >= 2.0**53) & (apart <= size * 2.0**-50))).all():
            return False
    return True
