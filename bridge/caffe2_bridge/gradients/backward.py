"""Generate the backward pass: the gradients of the operators of a forward pass, in reverse order.

For each operator of which an output has a gradient:

1. Differentiate it, and check that each blob that its gradient reads still holds the version that it needs.
2. Rename the blobs with which its gradient would overwrite a gradient that is still needed.
3. Record the gradients of its inputs as terms of the versions of the blobs that it reads.
4. For each version whose first reader it is, sum all terms: no earlier operator contributes another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_bridge.gradients.accumulate import DenseTerm, Source, SparseTerm, Term, needs_sum, sum_terms, term_of
from caffe2_bridge.gradients.forward import BlobGradient, Differentiate, GradientError, SparseGradient
from caffe2_bridge.gradients.in_place import may_write_over
from caffe2_bridge.gradients.operator_gradient import LocatedGradient, names_of
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.gradients.versions import ForwardPass, ForwardStep
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

AUTOGEN_SUFFIX: Final = "_autogen_grad"
# Operands of which a gradient operator reads the shape only, which no operator changes in place.
_SHAPE_ONLY: Final = {"AddGradient": (1, 2), "DivGradient": (1,), "ResizeLike": (1,), "SubGradient": (1, 2)}
# Their gradient concatenates the gradients of all outputs, so a missing one must be filled with zeros.
_NEEDS_EVERY_PART: Final = frozenset({"DepthSplit", "Split", "SplitByLengths"})


@dataclass(slots=True)
class BackwardPass:
    """A backward pass.

    Attributes:
        operators: the gradient operators.
        gradients: the gradient of each blob, of the version that the pass has reached.
        entry: the gradients of the blobs' values before the forward pass only.
    """

    operators: list[OperatorDef] = field(default_factory=list)
    gradients: dict[str, str | SparseGradient] = field(default_factory=dict)
    entry: dict[str, str | SparseGradient] = field(default_factory=dict)


def backward_pass(
    operators: Iterable[OperatorDef],
    ys: Mapping[str, BlobGradient],
    differentiate: Differentiate,
    *,
    net: str = "net",
    sums_given: bool = True,
) -> BackwardPass:
    """Differentiate blobs with respect to all blobs that they depend on.

    Args:
        operators: the forward pass, which is not changed.
        ys: the blobs to differentiate, each with the name of its gradient, or None for a gradient of ones.
        differentiate: returns the gradient of an operator.
        net: the name of the net in errors.
        sums_given: whether a given gradient is added to the terms of the operators that read the blob. Otherwise these
            replace it, as in real Caffe2.

    Raises:
        GradientError: an operator has no gradient, or its gradient needs a blob that was overwritten.
    """
    return _Backward(ForwardPass.of(operators, net), differentiate).run(ys, sums_given=sums_given)


class _Backward:
    """The state of one backward pass.

    Attributes:
        gradients: the current gradient of each blob.
        versions: the version of each blob to which its current gradient belongs.
        terms: the terms of the gradient of each (blob, version).
        holders: the blobs of which each name is the current gradient (an ordered set).
    """

    def __init__(self, forward: ForwardPass, differentiate: Differentiate) -> None:
        self.forward = forward
        self.differentiate = differentiate
        self.operators: list[OperatorDef] = []
        self.gradients: dict[str, BlobGradient] = {}
        self.versions: dict[str, int] = {}
        self.terms: dict[tuple[str, int], list[Term]] = {}
        self.holders: dict[str, dict[str, None]] = {}

    def run(self, ys: Mapping[str, BlobGradient], *, sums_given: bool) -> BackwardPass:
        """Generate the backward pass."""
        steps = self.forward.steps
        for blob, given in ys.items():
            self.forward.use(blob, len(steps))
            self.versions[blob] = self.forward.latest[blob]
            self._start(blob, given, sums_given=sums_given)
        for index in range(len(steps) - 1, -1, -1):
            try:
                self._differentiate(index)
                self._accumulate(index)
            except GradientError as error:
                raise GradientError(f"{self.forward.location(index)}: {error}") from None
        found = {blob: gradient for blob, gradient in self.gradients.items() if gradient is not None}
        entry = {
            blob: gradient
            for blob, gradient in found.items()
            if self.versions[blob] == 0 and (blob, 0) not in self.forward.writers
        }
        return BackwardPass(self.operators, found, entry)

    def _start(self, blob: str, given: BlobGradient, *, sums_given: bool) -> None:
        """Set the gradient of a blob to be differentiated; a gradient of ones is filled here."""
        terms = self.terms.setdefault((blob, self.forward.latest[blob]), [])
        if given is None:
            given = f"{blob}{AUTOGEN_SUFFIX}"
            fill = make_operator("ConstantFill", [blob], [given], value=1.0)
            writer = self.forward.writers.get((blob, self.forward.latest[blob]))
            if writer is not None and self.forward.steps[writer].op.device_option.device_type:
                fill.device_option.CopyFrom(self.forward.steps[writer].op.device_option)
            self.operators.append(fill)
            terms.append(DenseTerm(Source(given, given, [fill], 0), fill.device_option))
        elif sums_given:
            parts = [Source(name, name) for name in names_of(given)]
            terms.append(term_of(parts, None))
        self._set(blob, given)

    def _set(self, blob: str, gradient: BlobGradient) -> None:
        for name in names_of(self.gradients.get(blob)):
            self.holders.get(name, {}).pop(blob, None)
        for name in names_of(gradient):
            self.holders.setdefault(name, {})[blob] = None
        self.gradients[blob] = gradient

    def _differentiate(self, index: int) -> None:
        """Differentiate one operator, and record the gradients of its inputs."""
        step = self.forward.steps[index]
        g_output = [self.gradients.get(name) for name in step.outputs]
        if step.op.type != "ZeroGradient" and all(gradient is None for gradient in g_output):
            return
        if step.op.type in _NEEDS_EVERY_PART:
            g_output = [given or self._zeros(step, name) for name, given in zip(step.outputs, g_output, strict=True)]
        gradient = LocatedGradient.of(step, g_output, self.differentiate)
        self._check(step, gradient, g_output)
        self._protect(index, gradient, g_output)
        for blob, term in gradient.terms(step):
            self.terms.setdefault((blob, step.reads[blob]), []).append(term)
        self.operators += gradient.operators
        self._record(step, gradient)

    def _zeros(self, step: ForwardStep, output: str) -> str:
        """Fill a gradient of zeros for an output that no loss depends on."""
        self._check_version(output, step.writes[output], "output")
        fill = make_operator("ConstantFill", [output], [f"{output}_zero_grad"], value=0.0)
        if step.op.HasField("device_option"):
            fill.device_option.CopyFrom(step.op.device_option)
        self.operators.append(fill)
        self.versions[output] = step.writes[output]
        return fill.output[0]

    def _record(self, step: ForwardStep, local_gradient: LocatedGradient) -> None:
        """Record the gradients of the inputs. A missing one does not replace that of another reader or version."""
        new: dict[str, BlobGradient] = {}
        for blob, gradient in zip(step.inputs, local_gradient.g_input, strict=True):
            if gradient is not None or new.get(blob) is None:
                new[blob] = gradient
        for blob, gradient in new.items():
            if gradient is not None:
                self.versions[blob] = step.reads[blob]
            if gradient is not None or blob not in self.gradients or blob in step.writes:
                self._set(blob, gradient)

    def _check(self, step: ForwardStep, local_gradient: LocatedGradient, g_output: Sequence[BlobGradient]) -> None:
        """Raise GradientError if the gradient reads a blob that was overwritten since the forward operator ran."""
        given: dict[str, str] = {}
        for blob, gradient in zip(step.outputs, g_output, strict=True):
            for name in names_of(gradient):
                given.setdefault(name, blob)
        local: set[str] = set()
        for at, op in enumerate(local_gradient.operators):
            for position, name in enumerate(op.input):
                if op.type == "CopyOnDeviceLike" and position == 1:
                    continue  # only the device of this operand is read, which is the same for all versions
                if (at, position) in local_gradient.stale and position not in _SHAPE_ONLY.get(op.type, ()):
                    self._check_version(name, step.reads[name], "input")
                elif not self._holds(step, name, given) and name not in local:
                    raise GradientError(f"its gradient {op.type} reads {name!r}, which no operator has computed")
            local.update(op.output)
        passed_through = {name for gradient in local_gradient.g_input for name in names_of(gradient)} - local
        for name, blob in given.items():
            if name in passed_through:
                self._check_gradient(step, name, blob)

    def _holds(self, step: ForwardStep, name: str, given: Mapping[str, str]) -> bool:
        """Return whether a blob is a given gradient or an operand of the operator.

        Raises GradientError if it is one but was overwritten since.
        """
        if name in given:
            self._check_gradient(step, name, given[name])
        elif name in step.writes:
            self._check_version(name, step.writes[name], "output")
        elif name in step.reads:
            self._check_version(name, step.reads[name], "input")
        else:
            return False
        return True

    def _check_gradient(self, step: ForwardStep, name: str, blob: str) -> None:
        needed, current = step.writes[blob], self.versions[blob]
        if needed != current:
            raise GradientError(
                f"its gradient needs {name!r} as the gradient of version {needed} of its output {blob!r}, but it is "
                f"the gradient of version {current}: {self.forward.overwriter(blob, needed)} overwrote the blob; "
                "give that operator another output"
            )

    def _check_version(self, blob: str, needed: int, kind: str) -> None:
        if needed != self.forward.latest[blob]:
            raise GradientError(
                f"its gradient needs the {kind} {blob!r} at version {needed}, but the net ends with version "
                f"{self.forward.latest[blob]}: {self.forward.overwriter(blob, needed)} overwrote it; "
                "give that operator another output"
            )

    def _protect(self, index: int, local_gradient: LocatedGradient, g_output: Sequence[BlobGradient]) -> None:
        """Rename the outputs with which the gradient would overwrite a gradient that must be kept.

        That is one that an earlier operator or the caller still needs (two blobs share a gradient if a Sum passes its
        own through to both), and one that the gradient operator reads but cannot work on in place. Real Caffe2 checks
        neither.
        """
        step = self.forward.steps[index]
        given = {name for gradient in g_output for name in names_of(gradient)}
        written: set[str] = set()
        for op in list(local_gradient.operators):
            for name in [name for name in dict.fromkeys(op.output) if name not in written]:
                own = {
                    b
                    for b, gradient in zip(step.inputs, local_gradient.g_input, strict=True)
                    if name in names_of(gradient)
                }
                holders = (b for b in self.holders.get(name, ()) if b not in own and b not in step.writes)
                in_place = name in given and not may_write_over(op, name)
                if in_place or any(self._needs(blob, index) for blob in holders):
                    local_gradient.rename(name, f"_{name}_protected_{index}")
            written.update(op.output)

    def _needs(self, blob: str, index: int) -> bool:
        """Return whether an operator before ``index``, or the caller, uses the current gradient of a blob."""
        writer = self.forward.writers.get((blob, self.versions[blob]))
        return writer is None or writer < index

    def _accumulate(self, index: int) -> None:
        """Sum the terms of the inputs that no earlier operator reads."""
        for blob, version in self.forward.steps[index].reads.items():
            uses = self.forward.uses[blob, version]
            if uses.first != index or uses.count < 2:
                continue
            terms = self.terms.get((blob, version), [])
            if needs_sum(blob, terms):
                operators, gradient = sum_terms(blob, terms)
                self.operators += operators
                self._set(blob, gradient)
            elif terms:
                self._settle(blob, terms[0])

    def _settle(self, blob: str, term: Term) -> None:
        """Rename the only gradient of a blob to its plain name."""
        for part in term.parts:
            part.settle()
        names = [part.name for part in term.parts]
        if any(part.computed for part in term.parts):
            self._set(blob, SparseGradient(*names) if isinstance(term, SparseTerm) else names[0])
