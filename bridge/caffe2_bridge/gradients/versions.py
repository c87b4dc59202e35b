"""The forward pass as it runs: which version of each blob an operator reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.gradients.forward import GradientError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


@dataclass(slots=True)
class Step:
    """One operator of the forward pass; ``reads`` and ``writes`` give the version of each blob."""

    op: OperatorDef
    inputs: list[str]
    outputs: list[str]
    reads: dict[str, int]
    writes: dict[str, int]


@dataclass(slots=True)
class Uses:
    """Who reads one version of a blob: the first reader, and how many times it is read."""

    first: int
    count: int = 0


@dataclass(slots=True)
class ForwardPass:
    """All steps. The first version of a blob is 0, whether it comes from outside or an operator writes it.

    ``latest`` is the version of each blob at the end; ``uses`` and ``writers`` go by (blob, version).
    """

    net: str
    steps: list[Step] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    uses: dict[tuple[str, int], Uses] = field(default_factory=dict)
    writers: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, operators: Iterable[OperatorDef], net: str) -> ForwardPass:
        """Play the operators. Raises GradientError where the output of a StopGradient is read by nobody."""
        played = cls(net)
        for op in operators:
            played._play(op)
        read = {name for name, _ in played.uses}
        for index, step in enumerate(played.steps):
            if step.op.type == "StopGradient" and step.outputs[0] not in read:
                raise GradientError(
                    f"{played.place(index)}: nothing reads its output {step.outputs[0]!r}, so it stops no gradient; "
                    "it is meant to write its input, or to be read"
                )
        return played

    def _play(self, op: OperatorDef) -> None:
        index = len(self.steps)
        step = Step(op, list(op.input), list(op.output), {}, {})
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
        """Count a use of the latest version of a blob."""
        self.uses.setdefault((name, self.latest.setdefault(name, 0)), Uses(index)).count += 1

    def place(self, index: int) -> Location:
        """Where an operator stands."""
        op = self.steps[index].op
        return Location(self.net, index, op.type, op.name)

    def overwriter(self, name: str, version: int) -> str:
        """The operator that overwrote a version of a blob, in words."""
        index = self.writers.get((name, version + 1))
        return "an operator" if index is None else str(self.place(index))
