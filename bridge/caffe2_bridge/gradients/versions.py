"""Track the versions of blobs in a forward pass: which one each operator reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.gradients.forward import GradientError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


@dataclass(slots=True)
class ForwardStep:
    """An operator of the forward pass; ``reads`` and ``writes`` are the versions of the blobs it reads and writes."""

    op: OperatorDef
    inputs: list[str]
    outputs: list[str]
    reads: dict[str, int]
    writes: dict[str, int]


@dataclass(slots=True)
class Uses:
    """The reads of one version of a blob: the index of the first reader, and the number of reads."""

    first: int
    count: int = 0


@dataclass(slots=True)
class ForwardPass:
    """The operators of a forward pass. The first version of a blob is 0, be it an external input or written.

    Attributes:
        net: the name of the net.
        steps: the operators.
        latest: the last version of each blob.
        uses: the reads of each (blob, version).
        writers: the index of the operator that writes each (blob, version).
    """

    net: str
    steps: list[ForwardStep] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    uses: dict[tuple[str, int], Uses] = field(default_factory=dict)
    writers: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, operators: Iterable[OperatorDef], net: str) -> ForwardPass:
        """Track the operators in order. Raises GradientError if no operator reads the output of a StopGradient."""
        forward = cls(net)
        for op in operators:
            forward._append(op)
        read = {name for name, _ in forward.uses}
        for index, step in enumerate(forward.steps):
            if step.op.type == "StopGradient" and step.outputs[0] not in read:
                raise GradientError(
                    f"{forward.location(index)}: no operator reads its output {step.outputs[0]!r}: it has no effect; "
                    "let it write its input, or let the following operators read its output"
                )
        return forward

    def _append(self, op: OperatorDef) -> None:
        index = len(self.steps)
        step = ForwardStep(op, list(op.input), list(op.output), {}, {})
        for name in step.inputs:
            version = self.latest.setdefault(name, 0)
            step.reads[name] = version
            self.use(name, index)
        for name in step.outputs:
            version = self.latest[name] + 1 if name in self.latest else 0
            self.latest[name] = step.writes[name] = version
            self.writers[name, version] = index
        self.steps.append(step)

    def use(self, name: str, index: int) -> None:
        """Count a read of the latest version of a blob by the operator ``index``."""
        self.uses.setdefault((name, self.latest.setdefault(name, 0)), Uses(index)).count += 1

    def location(self, index: int) -> Location:
        """Return the location of an operator."""
        op = self.steps[index].op
        return Location(self.net, index, op.type, op.name)

    def overwriter(self, name: str, version: int) -> str:
        """Describe the operator that overwrote a version of a blob."""
        index = self.writers.get((name, version + 1))
        return "an operator" if index is None else str(self.location(index))
