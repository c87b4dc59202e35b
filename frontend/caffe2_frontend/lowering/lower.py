"""Lowering: operators of a Caffe2 net, in order, through their converters into ONNX nodes."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_bridge.control import control_of, inner_operators, nets_run_by
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location, Severity
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import count_violation, operator_schema
from caffe2_bridge.ssa import numbered
from caffe2_bridge.verification import is_verifying
from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.metadata.origin import blobs_of, is_plain
from caffe2_frontend.interop.operator_base import RefusedBodyError, UnsupportedError
from caffe2_frontend.interop.types import Quantization, TensorInfo
from caffe2_frontend.lowering.context import KeptRows
from caffe2_frontend.lowering.dim_facts import DimFacts
from caffe2_frontend.lowering.family import Converter, Expectation
from caffe2_frontend.lowering.onnx_node import convert_onnx_node
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.lowering.reads import BlobReads
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.lowering.stamp import Stamp, Stamps
from caffe2_frontend.lowering.trace import Label, Trace
from caffe2_frontend.lowering.unsupported_ops import unknown_hint, unknown_reason
from caffe2_frontend.targets.onnxruntime import ONNXRUNTIME
from caffe2_frontend.targets.target import Recurrent, Target

# What to type for an argument that a schema requires.
_ARGUMENT_HINTS: Final = {"is_test": "set is_test=1 to export for inference, or is_test=0 to train"}


@dataclass
class Lowering:
    """The state of one lowering.

    Attributes:
        converters: the converter of each operator type.
        recurrent: the form of recurrent nets.
        target: the runtime that the model is for.
        full_lengths: whether all rows of sequences have as many steps as the sequence.
        reads: who reads the blobs of the net.
        outputs: the blobs that are outputs of the model.
        implied_outputs: whether the outputs are neither declared nor asked for: they are the blobs that nothing reads.
        expectations: by operator type, what it expects of its operands, for hints.
        ranks_known: whether the ranks of all inputs are known. If not, which is reported elsewhere, operators are
            converted for their other diagnostics, and those about unknown shapes are suppressed.
        findings: the diagnostics so far.
        covered: the number of converted operators by type.
        unexamined: the number of operators that were not converted because they read what another one does not write.
        traces: the converted operators of the outermost net.
        labels: what the nodes of each operator are named after, by its location.
        consulted: the values that the current converter read at conversion time, with their contents unless they are
            constants.
        unfused: by recurrent net, the outputs of the model that keep it from becoming a fused operator.
        omitted: by recurrent net, the implied outputs that a fused operator does not compute, and the model omits.
        accepted: the element types that operators accept of operands, by operator type and index.
        wanted_scales: the Int8 operands of unknown quantization, each with one that its reader accepts.
        measured: the values whose nodes the current converter inspected.
        dims: what converters know of symbolic dims.
        kept_kinds: by stack of workspaces and blob, the element type and the shape of the values that are kept.
        kept_rows: by stack of workspaces that a loop stacks, the values of each blob.
        functions: the functions that nodes call, by domain and name.
        uniform: the operator types whose nodes are repeated (:mod:`.stamp`).
        stamps: the nodes of operators of these types.
        verifies: whether operators with a stamp are converted all the same, and compared with it.
    """

    converters: Mapping[str, Converter]
    recurrent: Recurrent = "auto"
    reads: BlobReads = field(default_factory=BlobReads)
    outputs: tuple[str, ...] = ()
    ranks_known: bool = True
    implied_outputs: bool = False
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    unexamined: int = 0
    traces: list[Trace] = field(default_factory=list)
    labels: dict[str, Label] = field(default_factory=dict)
    consulted: dict[Value, Array | None] = field(default_factory=dict)
    accepted: dict[tuple[str, int], set[ir.DataType]] = field(default_factory=dict)
    wanted_scales: dict[str, Quantization] = field(default_factory=dict)
    measured: set[Value] = field(default_factory=set)
    unfused: dict[Location, list[str]] = field(default_factory=dict)
    omitted: dict[Location, list[str]] = field(default_factory=dict)
    dims: DimFacts = field(default_factory=DimFacts)
    kept_kinds: dict[tuple[str, str], tuple[ir.DataType, ir.Shape | None]] = field(default_factory=dict)
    kept_rows: dict[str, dict[str, KeptRows]] = field(default_factory=dict)
    functions: dict[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)
    uniform: Container[str] = frozenset()
    full_lengths: bool = False
    target: Target = ONNXRUNTIME
    stamps: Stamps = field(default_factory=Stamps)
    verifies: bool = field(default_factory=is_verifying)
    _noted: set[tuple[str, str]] = field(default_factory=set)
    _hinted: set[str] = field(default_factory=set)  # the names of dims in hints

    @property
    def errors(self) -> int:
        """The number of errors among the diagnostics."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    def net(self, net: NetDef, scope: Scope, location: Location) -> None:
        """Lower the operators of ``net`` into ``scope``; ``location`` is that of the net."""
        self.ops(numbered(NetView(net)), scope, location)

    def ops(self, ops: Iterable[tuple[int, OpView]], scope: Scope, location: Location) -> None:
        """Lower operators in order, each with its index in the original net."""
        for index, view in ops:
            key, operands, stamp = self.stamps.find(view, scope) if view.type in self.uniform else (None, [], None)
            if stamp is not None and not self.verifies:
                self._repeat(stamp, operands, view, scope, location.operator_text(index, view.type, view.name))
            else:
                here = Location(location.net, index, view.type, view.name, location.path)
                self._op(view, scope, here, key, operands)

    def _op(self, view: OpView, scope: Scope, here: Location, key: Hashable, operands: list[Value]) -> None:
        """Lower one operator. If it cannot be converted, report why and poison its outputs."""
        sound = self._check_schema(view, here) and self._check_blobs(view, scope, here)
        if not sound or any(scope.is_poisoned(name) for name in view.inputs):
            self._leave_out(view, scope, here, refused=not sound)
            return
        try:
            self._convert(view, scope, here, key, operands)
        except RefusedBodyError:
            self._report_unknown_inside(view, here)
        except UnsupportedError as error:
            if self.ranks_known or error.code != "needs-shape":
                self.report(error.code, error.reason, here, error.hint)
        except ArgumentError as error:
            self.report("invalid-argument", str(error), here)
        except BridgeError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of a converter: the other operators are converted still
            self.findings.append(internal_error(error, here))
        else:
            self.covered[view.type] = self.covered.get(view.type, 0) + 1
            return
        self._poison_results(view, scope)

    def _leave_out(self, view: OpView, scope: Scope, here: Location, *, refused: bool) -> None:
        """Report what of an operator that is not converted has no converter; count it, unless it is refused itself."""
        self._poison_results(view, scope)
        if self._converter(view) is None:
            self._report_unknown(view, here)
            refused = True
        self._report_unknown_inside(view, here)
        if not refused:
            self.unexamined += 1 + sum(1 for _ in inner_operators(view))

    def _check_blobs(self, view: OpView, scope: Scope, here: Location) -> bool:
        """Report inputs that are not defined and outputs that occur twice; return whether there are none."""
        undefined = [name for name in dict.fromkeys(view.inputs) if name and not scope.is_known(name)]
        for name in undefined:
            reason = (
                f"the operator reads blob {name!r}, which no earlier operator writes and which is not an external input"
            )
            self.report("undefined-blob", reason, here, self._undefined_hint(view, name))
            scope.poison(name)
        repeated = _repeated(view.outputs)
        for name in repeated:
            reason = f"the operator lists output {name!r} {view.outputs.count(name)} times"
            self.report("duplicate-output", reason, here, "give each output a name of its own")
        return not undefined and not repeated

    def _check_schema(self, view: OpView, here: Location) -> bool:
        """Report operand counts and missing arguments that Caffe2's schema refuses; return whether it accepts all."""
        schema = None if view.proto.domain else operator_schema(view.type)
        if schema is None:
            return True
        wrong = count_violation(schema, view.type, len(view.inputs), len(view.outputs))
        if wrong:
            self.report(wrong.code, wrong.reason, here, wrong.hint)
            return False
        missing = sorted(schema.required_arguments.difference(arg.name for arg in view.proto.arg))
        if missing:
            reason = f"argument {missing[0]!r} is missing, which Caffe2's schema of {view.type} requires"
            self.report("invalid-argument", reason, here, _ARGUMENT_HINTS.get(missing[0], ""))
        return not missing

    def _undefined_hint(self, view: OpView, name: str) -> str:
        return (
            "give the init net that fills it: --init FILE, or init_net=...; "
            f"or make it an input, such as {input_hint(name, self._expected(view, name), self._hinted)}"
        )

    def _expected(self, view: OpView, name: str) -> TensorInfo:
        """Return what an operator expects of a blob that it reads."""
        expected = self.expectations.get(view.type)
        try:
            return TensorInfo() if expected is None else expected(view, view.inputs.index(name))
        except ArgumentError:  # reported when the operator is converted
            return TensorInfo()

    @staticmethod
    def _poison_results(view: OpView, scope: Scope) -> None:
        """Poison all blobs that an unsupported operator would have written, declared or not."""
        for name in (*view.outputs, *_created(view)):
            scope.poison(name)

    def _report_unknown(self, view: OpView, here: Location) -> None:
        self.report("unknown-operator", unknown_reason(view.type), here, unknown_hint(view.type))

    def _report_unknown_inside(self, view: OpView, here: Location) -> None:
        """Report the operators without a conversion in bodies that were not lowered, so that one run reports all."""
        reported = {finding.location for finding in self.findings}
        for argument, net in nets_run_by(view):
            for index, inner in numbered(NetView(net)):
                inside = here.enter(argument, index, inner.type, inner.name)
                if self._converter(inner) is None and inside not in reported:
                    self._report_unknown(inner, inside)
                self._report_unknown_inside(inner, inside)

    def _converter(self, view: OpView) -> Converter | None:
        return convert_onnx_node if view.proto.domain else self.converters.get(view.type)

    def _repeat(self, stamp: Stamp, operands: list[Value], view: OpView, scope: Scope, location: str) -> None:
        """Lower an operator that differs from an earlier one in names alone."""
        outputs = self.stamps.repeat(stamp, operands, scope, view, location)
        self.labels[location] = Label(_label(view), next((value for value in outputs if value), None))
        self.traces.append(Trace(view.proto, location))
        self.covered[view.type] += 1

    def _convert(self, view: OpView, scope: Scope, here: Location, key: Hashable, operands: list[Value]) -> None:
        converter = self._converter(view)
        if converter is None:
            raise UnsupportedError(unknown_reason(view.type), unknown_hint(view.type), "unknown-operator")
        op = Op(view, scope, here, self)
        is_traced = scope.outermost and not view.proto.domain  # embedded ONNX operators are restored without a trace
        before = self._begin_trace(view, scope) if is_traced else None
        start, known = len(scope.nodes), len(self.findings)
        outputs = _as_tuple(converter(op))
        self._check_arguments(view, here)
        if len(outputs) < len(view.outputs):
            reason = f"the operator lists {len(view.outputs)} outputs, but it has {len(outputs)}"
            raise UnsupportedError(reason, "remove the outputs that it does not have", "extra-output")
        for name, value in zip(view.outputs, outputs, strict=False):
            if name:
                scope.bind(name, value)
        if key is not None:
            repeatable = len(self.findings) == known and not (self.consulted or self.measured)
            nodes = scope.nodes[start:]
            self.stamps.record(key, self.stamps.describe(operands, nodes, outputs) if repeatable else None)
        self.labels[op.location_text] = Label(_label(view), next((value for value in outputs if value), None))
        if is_traced:
            self.traces.append(
                Trace(view.proto, op.location_text, before, self.consulted or None, self.measured or None)
            )

    def _check_arguments(self, view: OpView, here: Location) -> None:
        """Raise UnsupportedError for unread arguments that Caffe2 reads; report a note for those that it ignores."""
        ignored, unsupported = unread_arguments(view)
        if unsupported:
            names = ", ".join(map(repr, unsupported))
            raise UnsupportedError(
                f"the conversion of {view.type} does not support argument {names}",
                "remove the argument if the model does not need it",
                "unknown-argument",
            )
        for name in ignored:
            if (view.type, name) not in self._noted:
                self._noted.add((view.type, name))
                reason = f"Caffe2's {view.type} does not read argument {name!r}, so it is ignored"
                self.report("ignored-argument", reason, here, severity=Severity.NOTE)

    def _begin_trace(self, view: OpView, scope: Scope) -> dict[str, Value | None] | None:
        """Return the values of the blobs that an operator reads; None if it cannot change any of them."""
        if self.consulted:
            self.consulted = {}
        if self.measured:
            self.measured = set()
        if is_plain(view.proto):
            return None
        try:
            return {name: scope.find(name) for name in blobs_of(view.proto)[0]}
        except ConversionError:  # a body cannot be read, which the converter reports
            return None

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Report a diagnostic."""
        self.findings.append(Diagnostic(code, reason, here, severity, hint))


def _created(view: OpView) -> tuple[str, ...]:
    """Return the blobs that an operator with bodies creates without listing them as outputs."""
    control = control_of(view)
    try:
        return () if control is None else control.creates
    except ArgumentError:  # which is reported already
        return ()


def _repeated(names: tuple[str, ...]) -> list[str]:
    if len(set(names)) == len(names):
        return []
    return [name for name in dict.fromkeys(names) if name and names.count(name) > 1]


def _label(view: OpView) -> str:
    name = view.name
    if name:
        return name
    written = view.outputs
    first = written[0] if written else ""
    return f"{first or next(filter(None, written), '')}/{view.type}".lstrip("/")


def _as_tuple(outputs: Outputs) -> tuple[Value | None, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
