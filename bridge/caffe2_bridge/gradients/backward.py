"""The backward pass: the gradient operators of a forward pass, played from its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_bridge.gradients.accumulate import DenseTerm, Source, SparseTerm, Term, add_up, needs_sum, term_of
from caffe2_bridge.gradients.forward import BlobGradient, Differentiate, GradientError, SparseGradient
from caffe2_bridge.gradients.in_place import may_write_over
from caffe2_bridge.gradients.operator_gradient import Made, names_of
from caffe2_bridge.gradients.operators import make_operator
from caffe2_bridge.gradients.versions import ForwardPass, Step
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

AUTOGEN_SUFFIX: Final = "_autogen_grad"
# Operands of gradient operators of which they read the shape only, which no operator in place changes.
_SHAPE_ONLY: Final = {"AddGradient": (1, 2), "DivGradient": (1,), "ResizeLike": (1,), "SubGradient": (1, 2)}
# Their gradient puts together the parts that have one: were one left out, the result would be too short.
_NEEDS_EVERY_PART: Final = frozenset({"DepthSplit", "Split", "SplitByLengths"})


@dataclass(slots=True)
class BackwardPass:
    """What ``backward_pass`` found: the operators, and by blob its gradient.

    ``entry`` are the gradients of the values that blobs had before the forward pass; ``gradients`` may also be those
    of what the pass has written.
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
    """The gradient of blobs with respect to all that they depend on.

    Args:
        operators: the forward pass, which is left as it is.
        ys: the blobs, each with the name of its gradient, or None for a gradient of ones.
        differentiate: makes the gradient of an operator.
        net: what errors call the net.
        sums_given: a given gradient is added to what operators that read the blob contribute. Otherwise theirs takes
            its place, as in real Caffe2.

    Raises GradientError where an operator has no gradient, or its gradient needs a blob that was overwritten.
    """
    return _Backward(ForwardPass.of(operators, net), differentiate).run(ys, sums_given=sums_given)


class _Backward:
    """The state of one backward pass.

    ``versions`` says of which version of a blob the current gradient is; ``terms`` are the gradients of each version,
    ``holders`` the blobs that a name is the gradient of.
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
        """Play the forward pass from its end."""
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
                raise GradientError(f"{self.forward.place(index)}: {error}") from None
        found = {blob: gradient for blob, gradient in self.gradients.items() if gradient is not None}
        entry = {
            blob: gradient
            for blob, gradient in found.items()
            if self.versions[blob] == 0 and (blob, 0) not in self.forward.writers
        }
        return BackwardPass(self.operators, found, entry)

    def _start(self, blob: str, given: BlobGradient, *, sums_given: bool) -> None:
        """The gradient that the pass starts with at a blob."""
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
        """Make the gradient of one operator, and note what it computes."""
        step = self.forward.steps[index]
        g_output = [self.gradients.get(name) for name in step.outputs]
        if step.op.type != "ZeroGradient" and all(gradient is None for gradient in g_output):
            return
        if step.op.type in _NEEDS_EVERY_PART:
            g_output = [
                gradient or self._zeros(step, name) for name, gradient in zip(step.outputs, g_output, strict=True)
            ]
        made = Made.of(step, g_output, self.differentiate)
        self._check(step, made, g_output)
        self._protect(index, made, g_output)
        for blob, term in made.terms(step):
            self.terms.setdefault((blob, step.reads[blob]), []).append(term)
        self.operators += made.operators
        self._note(step, made)

    def _zeros(self, step: Step, output: str) -> str:
        """A gradient of zeros for an output that no loss depends on."""
        self._check_version(output, step.writes[output], "output")
        fill = make_operator("ConstantFill", [output], [f"{output}_zero_grad"], value=0.0)
        if step.op.HasField("device_option"):
            fill.device_option.CopyFrom(step.op.device_option)
        self.operators.append(fill)
        self.versions[output] = step.writes[output]
        return fill.output[0]

    def _note(self, step: Step, made: Made) -> None:
        """Note the gradients of the inputs. One that is not there leaves that of another reader, or another version."""
        new: dict[str, BlobGradient] = {}
        for blob, gradient in zip(step.inputs, made.g_input, strict=True):
            if gradient is not None or new.get(blob) is None:
                new[blob] = gradient
        for blob, gradient in new.items():
            if gradient is not None:
                self.versions[blob] = step.reads[blob]
            if gradient is not None or blob not in self.gradients or blob in step.writes:
                self._set(blob, gradient)

    def _check(self, step: Step, made: Made, g_output: Sequence[BlobGradient]) -> None:
        """Raise GradientError where the gradient reads a blob that does not hold what it needs any more."""
        given: dict[str, str] = {}
        for blob, gradient in zip(step.outputs, g_output, strict=True):
            for name in names_of(gradient):
                given.setdefault(name, blob)
        local: set[str] = set()
        for at, op in enumerate(made.operators):
            for position, name in enumerate(op.input):
                if op.type == "CopyOnDeviceLike" and position == 1:
                    continue  # of this operand it reads the device only, which no version changes
                if (at, position) in made.stale and position not in _SHAPE_ONLY.get(op.type, ()):
                    self._check_version(name, step.reads[name], "input")
                elif not self._holds(step, name, given) and name not in local:
                    raise GradientError(f"its gradient {op.type} reads {name!r}, which nothing has computed")
            local.update(op.output)
        handed_on = {name for gradient in made.g_input for name in names_of(gradient)} - local
        for name, blob in given.items():
            if name in handed_on:
                self._check_gradient(step, name, blob)

    def _holds(self, step: Step, name: str, given: Mapping[str, str]) -> bool:
        """Whether a blob is a gradient, or an operand of the operator; then it must hold that still."""
        if name in given:
            self._check_gradient(step, name, given[name])
        elif name in step.writes:
            self._check_version(name, step.writes[name], "output")
        elif name in step.reads:
            self._check_version(name, step.reads[name], "input")
        else:
            return False
        return True

    def _check_gradient(self, step: Step, name: str, blob: str) -> None:
        needed, current = step.writes[blob], self.versions[blob]
        if needed != current:
            raise GradientError(
                f"its gradient needs {name!r} as gradient of version {needed} of its output {blob!r}, but it is that "
                f"of version {current}: {self.forward.overwriter(blob, needed)} overwrote the blob"
            )

    def _check_version(self, blob: str, needed: int, kind: str) -> None:
        if needed != self.forward.latest[blob]:
            raise GradientError(
                f"its gradient needs the {kind} {blob!r} at version {needed}, but at the end that is at version "
                f"{self.forward.latest[blob]}: {self.forward.overwriter(blob, needed)} overwrote it"
            )

    def _protect(self, index: int, made: Made, g_output: Sequence[BlobGradient]) -> None:
        """Rename what the gradient writes over a gradient, where it must not.

        An operator before this one, or the caller, may need that gradient: two blobs have one where a Sum hands its
        own on to both. And few gradient operators work in place. Real Caffe2 does not look for either.
        """
        step = self.forward.steps[index]
        given = {name for gradient in g_output for name in names_of(gradient)}
        written: set[str] = set()
        for op in list(made.operators):
            for name in [name for name in dict.fromkeys(op.output) if name not in written]:
                own = {b for b, gradient in zip(step.inputs, made.g_input, strict=True) if name in names_of(gradient)}
                holders = (b for b in self.holders.get(name, ()) if b not in own and b not in step.writes)
                in_place = name in given and not may_write_over(op, name)
                if in_place or any(self._needs(blob, index) for blob in holders):
                    made.rename(name, f"_{name}_protected_{index}")
            written.update(op.output)

    def _needs(self, blob: str, index: int) -> bool:
        """Whether an operator before ``index``, or the caller, uses the gradient that the blob has now."""
        writer = self.forward.writers.get((blob, self.versions[blob]))
        return writer is None or writer < index

    def _accumulate(self, index: int) -> None:
        """Add up the gradients of the inputs that no operator before this one reads."""
        for blob, version in self.forward.steps[index].reads.items():
            uses = self.forward.uses[blob, version]
            if uses.first != index or uses.count < 2:
                continue
            terms = self.terms.get((blob, version), [])
            if needs_sum(blob, terms):
                operators, gradient = add_up(blob, terms)
                self.operators += operators
                self._set(blob, gradient)
            elif terms:
                self._settle(blob, terms[0])

    def _settle(self, blob: str, term: Term) -> None:
        """The only gradient of a blob gets its name."""
        for part in term.parts:
            part.settle()
        names = [part.name for part in term.parts]
        if any(part.made for part in term.parts):
            self._set(blob, SparseGradient(*names) if isinstance(term, SparseTerm) else names[0])
